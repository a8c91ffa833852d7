import type { CellFormat, Param, Params } from '../wire/statement.ts';

/** A validated body of POST /v1/query, of either dialect, with the defaults filled in. */
export interface QueryRequest {
  readonly sql: string;
  /** Values for the statement's placeholders, if it has any. */
  readonly params?: Params;
  readonly session: NewSession | OldSession | CarriedSession;
  readonly pagination: Pagination;
  /** How long the statement may run; null: for as long as the server lets it. */
  readonly timeoutSecs: number | null;
  /** How long the result is kept after its last answer. Left out: --result_timeout_secs. */
  readonly resultTimeoutSecs?: number;
  /** Left out: as JSON of their type. */
  readonly cells?: CellFormat;
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
  /** It is known already that there is no such session any more. */
  readonly whyEnded?: string;
}

/** One whose state the client carries from statement to statement, as far as it can be told and set again. */
export interface CarriedSession {
  readonly type: 'carried';
  readonly database: string | null;
  /** System variables to be set before the statement. */
  readonly variables: { readonly [name: string]: string };
  /** Whoever may keep it alive while it is held; null: nobody. */
  readonly client: string | null;
}

export interface Pagination {
  readonly waitSecs: number;
  readonly maxRowsPerPage: number;
  readonly maxRowsInBuffer: number;
}

/** The member as it is sent, in both dialects. */
export interface PaginationMember {
  readonly wait_time_secs?: number;
  readonly max_rows_per_page?: number;
  readonly max_rows_in_buffer?: number;
}

export interface RequestLimits {
  readonly waitSecsMax: number;
  readonly pageRowsMax: number;
  readonly bufferRowsMax: number;
  /** 0: without limit. */
  readonly statementTimeoutSecs: number;
  /** The most that a request may ask its result to be kept for. */
  readonly resultTimeoutSecsMax: number;
}

/** The body is not a QueryRequest; the message says where and why. */
export class InvalidRequestError extends Error {
  override readonly name = 'InvalidRequestError';
}

const defaultRowsPerPage = 10_000;
const defaultRowsInBuffer = 5_000_000;

/** @throws InvalidRequestError */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new InvalidRequestError(`the body is not JSON: ${oneLine((error as Error).message)}`);
  }
}

/** `default` and the empty name stand for the default one. */
export function databaseOf(name: string | null | undefined): string | null {
  return name === undefined || name === null || name === 'default' || name === '' ? null : name;
}

/** Negative: until the result is ready. A proxy in front gives up before long, hence the maximum. */
export function waitSecsOf(asked: number, max: number): number {
  return asked < 0 ? max : Math.min(asked, max);
}

/** @throws InvalidRequestError */
export function paginationOf(member: PaginationMember, defaultWaitSecs: number, limits: RequestLimits): Pagination {
  return {
    waitSecs: waitSecsOf(member.wait_time_secs ?? defaultWaitSecs, limits.waitSecsMax),
    maxRowsPerPage: bounded(
      'pagination.max_rows_per_page',
      member.max_rows_per_page,
      defaultRowsPerPage,
      limits.pageRowsMax,
    ),
    maxRowsInBuffer: bounded(
      'pagination.max_rows_in_buffer',
      member.max_rows_in_buffer,
      defaultRowsInBuffer,
      limits.bufferRowsMax,
    ),
  };
}

/**
 * Values for placeholders as JSON has them: an array or object among them is given as its JSON text.
 * @throws InvalidRequestError if a number is larger than JSON's numbers are exact
 */
export function paramsOf(member: readonly unknown[] | { readonly [name: string]: unknown }): Params {
  if (Array.isArray(member)) return member.map((value, index) => paramOf(value, `params[${index}]`));
  return Object.fromEntries(Object.entries(member).map(([name, value]) => [name, paramOf(value, `params.${name}`)]));
}

function paramOf(value: unknown, place: string): Param {
  checkNesting(value, place, (leaf) => {
    // The last digits of such a number are lost already, and nobody would notice; of one out of range JSON.parse makes an infinity.
    if (typeof leaf !== 'number' || Number.isSafeInteger(leaf) || (Number.isFinite(leaf) && !Number.isInteger(leaf)))
      return;
    const name = oneLine(place).slice(0, 100);
    throw new InvalidRequestError(
      `"${name}" is, or has in it, a number that JSON does not carry exactly; send it as a string`,
    );
  });
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as Param);
}

/** Deeper than any that means something, and far from what would use up the stack. */
const depthMax = 100;

/**
 * @param visit is given each value there that is no list and no object
 * @throws InvalidRequestError if what is nested there is nested deeper than it may be
 */
export function checkNesting(
  value: unknown,
  place: string,
  visit: (leaf: unknown) => void = () => {},
  depth = 0,
): void {
  if (typeof value !== 'object' || value === null) {
    visit(value);
    return;
  }
  if (depth > depthMax) {
    throw new InvalidRequestError(`"${oneLine(place).slice(0, 100)}" is nested deeper than ${depthMax} levels`);
  }
  for (const member of Object.values(value)) checkNesting(member, place, visit, depth + 1);
}

/** @throws InvalidRequestError */
export function bounded(member: string, asked: number | undefined, byDefault: number, max: number): number {
  if (asked === undefined) return Math.min(byDefault, max);
  if (asked > max) throw new InvalidRequestError(`"${member}" is ${asked}; it must be from 1 to ${max}`);
  return asked;
}

export function oneLine(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, '?');
}

/** What is wrong with a body, as its validator tells it. */
export interface ValidationError {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: { readonly [name: string]: unknown };
  readonly message?: string;
}

/** The first thing that the validator has found wrong. */
export function firstErrorOf(validate: unknown): ValidationError | undefined {
  return (validate as { errors: readonly ValidationError[] | null }).errors?.[0];
}

/** In words, for whoever sent the body. */
export function describeError(error: ValidationError | undefined): string {
  if (error === undefined) return 'the body is not a QueryRequest';
  const path = pathOf(error);
  switch (error.keyword) {
    case 'required':
      return `the member ${memberOf(error, error.params['missingProperty'])} is missing`;
    case 'additionalProperties':
      return `unknown member ${memberOf(error, error.params['additionalProperty'])}`;
    case 'type':
      return `${path === '' ? 'the body' : `"${path}"`} must be ${[error.params['type']].flat().map(article).join(' or ')}`;
    default:
      return `"${path}" ${error.message ?? 'is invalid'}`;
  }
}

/** Where it is, with points between the names. */
export function pathOf(error: ValidationError): string {
  return oneLine(error.instancePath.slice(1).replaceAll('/', '.')).slice(0, 200);
}

/** The name of a member of what is wrong, in quotes and with where it is. */
export function memberOf(error: ValidationError, name: unknown): string {
  const path = pathOf(error);
  return `"${path === '' ? '' : `${path}.`}${oneLine(String(name)).slice(0, 100)}"`;
}

function article(type: unknown): string {
  const name = type === 'object' ? 'JSON object' : String(type);
  return `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`;
}
