import { validate } from './query-request.validator.ts';

/** A validated body of POST /v1/query, with the defaults filled in (decisions, "Request"). */
export interface QueryRequest {
  readonly sql: string;
  readonly session: NewSession | OldSession;
  readonly pagination: Pagination;
  /** How long the statement may run; null: for as long as the server lets it. */
  readonly timeoutSecs: number | null;
}

export interface NewSession {
  readonly type: 'new';
  /** null: the default one. */
  readonly database: string | null;
  readonly maxIdleSecs: number;
}

export interface OldSession {
  readonly type: 'old';
  readonly id: string;
}

export interface Pagination {
  readonly waitSecs: number;
  readonly maxRowsPerPage: number;
  readonly maxRowsInBuffer: number;
}

export interface RequestLimits {
  readonly waitSecsMax: number;
  readonly pageRowsMax: number;
  readonly bufferRowsMax: number;
  /** 0: without limit. */
  readonly statementTimeoutSecs: number;
}

/** The body is not a QueryRequest; the message says where and why. */
export class InvalidRequestError extends Error {
  override readonly name = 'InvalidRequestError';
}

/** The shape that the validator has vouched for. */
interface QueryRequestBody {
  sql: string;
  session?: { id: string } | { id?: never; database?: string; max_idle_time?: number };
  pagination?: { wait_time_secs?: number; max_rows_per_page?: number; max_rows_in_buffer?: number };
  timeout_secs?: number;
}

interface ValidationError {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: { readonly [name: string]: unknown };
  readonly message?: string;
}

const defaultWaitSecs = 1;
const defaultRowsPerPage = 10_000;
const defaultRowsInBuffer = 5_000_000;

/** @throws InvalidRequestError */
export function parseQueryRequest(text: string, limits: RequestLimits): QueryRequest {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new InvalidRequestError(`the body is not JSON: ${oneLine((error as Error).message)}`);
  }
  if (!validate(body)) throw new InvalidRequestError(describe(firstError(), body));
  const { sql, session = {}, pagination = {}, timeout_secs } = body as QueryRequestBody;
  return {
    sql,
    session:
      session.id === undefined
        ? { type: 'new', database: database(session.database), maxIdleSecs: session.max_idle_time ?? 0 }
        : { type: 'old', id: session.id },
    pagination: {
      waitSecs: waitSecs(pagination.wait_time_secs ?? defaultWaitSecs, limits.waitSecsMax),
      maxRowsPerPage: bounded(
        'pagination.max_rows_per_page',
        pagination.max_rows_per_page,
        defaultRowsPerPage,
        limits.pageRowsMax,
      ),
      maxRowsInBuffer: bounded(
        'pagination.max_rows_in_buffer',
        pagination.max_rows_in_buffer,
        defaultRowsInBuffer,
        limits.bufferRowsMax,
      ),
    },
    timeoutSecs: timeout_secs === undefined ? null : timeoutSecs(timeout_secs, limits.statementTimeoutSecs),
  };
}

function firstError(): ValidationError | undefined {
  return (validate as unknown as { errors: readonly ValidationError[] | null }).errors?.[0];
}

function database(name: string | undefined): string | null {
  return name === undefined || name === 'default' || name === '' ? null : name;
}

/** Negative: until the result is ready. A proxy in front gives up before long, hence the maximum. */
function waitSecs(asked: number, max: number): number {
  return asked < 0 ? max : Math.min(asked, max);
}

function bounded(member: string, asked: number | undefined, byDefault: number, max: number): number {
  if (asked === undefined) return Math.min(byDefault, max);
  if (asked > max) throw new InvalidRequestError(`"${member}" is ${asked}; it must be from 1 to ${max}`);
  return asked;
}

function timeoutSecs(asked: number, max: number): number {
  return max === 0 ? asked : bounded('timeout_secs', asked, max, max);
}

function describe(error: ValidationError | undefined, body: unknown): string {
  if (error === undefined) return 'the body is not a QueryRequest';
  const path = error.instancePath.slice(1).replaceAll('/', '.');
  const member = (name: unknown): string => `"${path === '' ? '' : `${path}.`}${oneLine(String(name)).slice(0, 100)}"`;
  switch (error.keyword) {
    case 'required':
      return `the member ${member(error.params['missingProperty'])} is missing`;
    case 'additionalProperties': {
      const name = error.params['additionalProperty'];
      const inOldSession =
        path === 'session' &&
        (body as { session: object }).session !== null &&
        'id' in (body as { session: object }).session;
      return inOldSession
        ? `${member(name)} cannot stand beside "session.id": an old session keeps what it was opened with`
        : `unknown member ${member(name)}`;
    }
    case 'type':
      return `${path === '' ? 'the body' : `"${path}"`} must be ${article(String(error.params['type']))}`;
    default:
      return `"${path}" ${error.message ?? 'is invalid'}`;
  }
}

function article(type: string): string {
  const name = type === 'object' ? 'JSON object' : type;
  return `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`;
}

function oneLine(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, '?');
}
