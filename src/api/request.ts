import { isUtf8 } from 'node:buffer';
import type { Config } from '../config/config.ts';
import type { Pagination } from '../engine/query-request.ts';
import type { Param, Params, ParamValue } from '../wire/statement.ts';
import { InvalidRequestError, oneLine } from './invalid-request.ts';
import { scanJson } from './json-scan.ts';

/** The member `pagination` of a body. */
export interface PaginationMember {
  readonly wait_time_secs?: number;
  readonly max_rows_per_page?: number;
  readonly max_rows_in_buffer?: number;
}

export type RequestLimits = Config['requests'] & Pick<Config['kept'], 'keptMsMax'>;

const defaultRowsPerPage = 10_000;
const defaultRowsInBuffer = 5_000_000;

/**
 * The value of a JSON text, within limits on what it costs to parse it.
 * @throws InvalidRequestError
 */
export function parseJson(bytes: Buffer, paramsMax: number): unknown {
  scanJson(bytes, paramsMax);
  if (!isUtf8(bytes)) throw new InvalidRequestError('the body is not UTF-8');
  try {
    return JSON.parse(bytes.toString());
  } catch (error) {
    throw new InvalidRequestError(`the body is not JSON: ${oneLine((error as Error).message)}`);
  }
}

/**
 * JSON can escape half of a surrogate pair alone (`"\ud800"`). UTF-8 has no form for it, and it would reach the database as U+FFFD.
 * @throws InvalidRequestError
 */
export function checkWellFormed(text: string, place: string | (() => string)): void {
  if (text.isWellFormed()) return;
  const name = oneLine(typeof place === 'string' ? place : place()).slice(0, 100);
  throw new InvalidRequestError(
    `"${name}" contains half of a surrogate pair (such as \\ud800), which is no character and has no form in UTF-8`,
  );
}

/**
 * `default` and the empty name stand for the default one.
 * @throws InvalidRequestError
 */
export function databaseOf(name: string | null | undefined): string | null {
  if (typeof name === 'string') checkWellFormed(name, 'session.database');
  return name === undefined || name === null || name === 'default' || name === '' ? null : name;
}

/** Negative: until the result is ready. A proxy in front gives up before long, hence the maximum. */
export function waitSecsOf(asked: number, max: number): number {
  return asked < 0 ? max : Math.min(asked, max);
}

/** @throws InvalidRequestError */
export function paginationOf(member: PaginationMember, defaultWaitSecs: number, limits: RequestLimits): Pagination {
  return {
    waitSecs: waitSecsOf(member.wait_time_secs ?? defaultWaitSecs, limits.waitTimeMsMax / 1_000),
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

/** How a list in `params` is bound: each element to a placeholder of its own, or the list as one value, its JSON text. */
export type ListParams = 'values' | 'text';

/**
 * Values for placeholders. An object is bound as its JSON text.
 * @throws InvalidRequestError for a list that cannot be a list of values, and for a text that is not well-formed
 */
export function paramsOf(member: readonly unknown[] | { readonly [name: string]: unknown }, lists: ListParams): Params {
  if (Array.isArray(member)) return member.map((value, index) => paramOf(value, lists, () => `params[${index}]`));
  return Object.fromEntries(
    Object.entries(member).map(([name, value]) => [name, paramOf(value, lists, () => `params.${name}`)]),
  );
}

function paramOf(value: unknown, lists: ListParams, place: () => string): ParamValue {
  if (typeof value === 'string') checkWellFormed(value, place);
  if (typeof value !== 'object' || value === null) return value as Param;
  // JSON text that is made of a value has its halves of pairs escaped.
  if (lists === 'text' || !Array.isArray(value)) return JSON.stringify(value);
  const name = oneLine(place()).slice(0, 100);
  if (value.length === 0) {
    throw new InvalidRequestError(
      `"${name}" is an empty list, and SQL has no empty list: leave the condition out, or give it one value (null)`,
    );
  }
  if (value.some((element) => typeof element === 'object' && element !== null)) {
    throw new InvalidRequestError(
      `"${name}" is a list that contains a list or an object; a list must contain only values for placeholders: ` +
        'send JSON text as a string',
    );
  }
  for (const element of value) if (typeof element === 'string') checkWellFormed(element, place);
  return value as readonly Param[];
}

/** @throws InvalidRequestError */
export function bounded(member: string, asked: number | undefined, byDefault: number, max: number): number {
  if (asked === undefined) return Math.min(byDefault, max);
  if (asked > max) throw new InvalidRequestError(`"${member}" is ${asked}; it must be from 1 to ${max}`);
  return asked;
}

/** An error in a body, as its validator reports it. */
export interface ValidationError {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: { readonly [name: string]: unknown };
  readonly message?: string;
}

/** The first error that the validator has found. */
export function firstErrorOf(validate: unknown): ValidationError | undefined {
  return (validate as { errors: readonly ValidationError[] | null }).errors?.[0];
}

/** The error in words, for the client. */
export function describeError(error: ValidationError | undefined): string {
  if (error === undefined) return 'the body is not a QueryRequest';
  const path = pathOf(error);
  switch (error.keyword) {
    case 'required':
      return `the member ${memberOf(error, error.params['missingProperty'])} is missing`;
    case 'additionalProperties':
      return `unknown member ${memberOf(error, error.params['additionalProperty'])}`;
    case 'enum':
      return `"${path}" must be ${[error.params['allowedValues']]
        .flat()
        .map((value) => JSON.stringify(value))
        .join(' or ')}`;
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
