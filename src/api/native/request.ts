import type { QueryRequest } from '../../engine/query-request.ts';
import type { BodyFormat, ParsedBody } from '../body.ts';
import { InvalidRequestError } from '../invalid-request.ts';
import {
  bounded,
  checkWellFormed,
  databaseOf,
  describeError,
  firstErrorOf,
  memberOf,
  type PaginationMember,
  paginationOf,
  paramsOf,
  parseJson,
  pathOf,
  type RequestLimits,
  type ValidationError,
} from '../request.ts';
import { validate } from './query-request.validator.ts';

/** The shape that the validator has vouched for. */
interface QueryRequestBody {
  sql: string;
  params?: readonly unknown[] | { readonly [name: string]: unknown };
  session?: { id: string } | { id?: never; database?: string; max_idle_time?: number };
  pagination?: PaginationMember;
  integers?: 'number' | 'string';
  timeout_secs?: number;
  result?: { keep_secs: number };
  result_timeout_secs?: number;
}

const defaultWaitSecs = 1;

/** The body of a POST of this dialect. */
export interface NativeBody extends ParsedBody {
  readonly request: QueryRequest;
}

/**
 * Reads the body of a POST (docs/api.md, "The request").
 * @throws InvalidRequestError
 */
export function parse(bytes: Buffer, limits: RequestLimits): NativeBody {
  const body = parseJson(bytes, limits.paramsMax);
  if (!validate(body)) throw new InvalidRequestError(describe(firstErrorOf(validate), body));
  const {
    sql,
    params,
    session = {},
    pagination = {},
    integers,
    timeout_secs,
    result,
    result_timeout_secs: kept,
  } = body as QueryRequestBody;
  checkWellFormed(sql, 'sql');
  const keptMax = limits.resultTimeoutMsMax / 1_000;
  const request: QueryRequest = {
    sql,
    ...(params === undefined ? {} : { params: paramsOf(params, 'values') }),
    session:
      session.id === undefined
        ? { type: 'new', database: databaseOf(session.database), maxIdleSecs: session.max_idle_time ?? 0 }
        : { type: 'existing', id: session.id },
    pagination: paginationOf(pagination, defaultWaitSecs, limits),
    timeoutSecs: timeout_secs === undefined ? null : timeoutSecs(timeout_secs, limits.statementTimeoutMs / 1_000),
    ...(integers === 'string' ? { format: 'json, large integers as strings' } : {}),
    ...(result === undefined ? {} : { keepSecs: keepSecs(result.keep_secs, limits.keptMsMax / 1_000) }),
    ...(kept === undefined ? {} : { resultTimeoutSecs: bounded('result_timeout_secs', kept, kept, keptMax) }),
  };
  return { request };
}

export const nativeBodies: BodyFormat<NativeBody> = { module: import.meta.url, parse };

/** @throws InvalidRequestError */
function keepSecs(asked: number, max: number): number {
  if (max === 0) throw new InvalidRequestError('this server keeps no results (--kept_secs_max)');
  return bounded('result.keep_secs', asked, max, max);
}

function timeoutSecs(asked: number, max: number): number {
  return max === 0 ? asked : bounded('timeout_secs', asked, max, max);
}

function describe(error: ValidationError | undefined, body: unknown): string {
  if (error?.keyword === 'additionalProperties' && pathOf(error) === 'session') {
    const { session } = body as { session: object | null };
    if (session !== null && 'id' in session) {
      const member = memberOf(error, error.params['additionalProperty']);
      return `${member} cannot stand beside "session.id": an old session keeps what it was opened with`;
    }
  }
  return describeError(error);
}
