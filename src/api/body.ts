import { hash } from 'node:crypto';
import { serialize } from 'node:v8';
import type { QueryRequest } from '../engine/query-request.ts';
import { findPlaceholders } from '../wire/placeholders.ts';
import { traitsOf } from '../wire/sql-traits.ts';
import { needPlaceholders, type PackedParams, type Params, type ParamsToPack } from '../wire/statement.ts';
import type { RequestLimits } from './request.ts';

/** The body of a POST as its dialect has parsed it. A dialect adds members of its own, which must be structured-cloneable. */
export interface ParsedBody {
  readonly request: Omit<QueryRequest, 'session'>;
}

/** How a dialect reads bodies. It depends on nothing but its arguments, so that any thread can use it. */
export interface BodyFormat<Body extends ParsedBody = ParsedBody> {
  /** URL of the module that exports the same `parse`, for the parser thread. */
  readonly module: string;
  /** @throws InvalidRequestError */
  parse(bytes: Buffer, limits: RequestLimits): Body;
}

/**
 * Prepares a large body for its way through the main thread: the traits of the SQL are found here, and the params are packed,
 * so that they cross the main thread as bytes.
 */
export function packed<Body extends ParsedBody>(body: Body, paramsMax: number): Body {
  const { sql, params } = body.request;
  const more = {
    traits: traitsOf(sql),
    ...(params === undefined ? {} : { params: packedParams(sql, params as Params, paramsMax) }),
  };
  return { ...body, request: { ...body.request, ...more } };
}

function packedParams(sql: string, params: Params, paramsMax: number): PackedParams {
  const placeholders = needPlaceholders(params)
    ? Uint32Array.from(findPlaceholders(sql, !Array.isArray(params), paramsMax))
    : null;
  return serialize({ params, placeholders } satisfies ParamsToPack);
}

/** SHA-256 in Base64: tells whether two bodies are the same. */
export function digestOf(bytes: Buffer): string {
  return hash('sha256', bytes, 'base64');
}
