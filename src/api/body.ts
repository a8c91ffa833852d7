import { hash } from 'node:crypto';
import { serialize } from 'node:v8';
import { findPlaceholders } from '../wire/placeholders.ts';
import { traitsOf } from '../wire/sql-traits.ts';
import { needPlaceholders, type PackedParams, type Params, type ParamsToPack } from '../wire/statement.ts';
import { type DatabendBody, parseBody as parseDatabend } from './databend/request.ts';
import { parseQueryRequest as parseV1 } from './native/request.ts';
import type { QueryRequest, RequestLimits } from './request.ts';

/** A body of POST /v1/query as it was parsed, by its dialect. */
export type ParsedBody =
  | { readonly dialect: 'v1'; readonly request: QueryRequest }
  | ({ readonly dialect: 'databend' } & DatabendBody);

/** @throws InvalidRequestError */
export function parseBody(dialect: ParsedBody['dialect'], bytes: Buffer, limits: RequestLimits): ParsedBody {
  return dialect === 'v1' ? { dialect, request: parseV1(bytes, limits) } : { dialect, ...parseDatabend(bytes, limits) };
}

/**
 * The same for a body that is large: what the main thread needs of the SQL is found beforehand, and the params are packed, so
 * that they cross it as bytes.
 */
export function packed(body: ParsedBody, paramsMax: number): ParsedBody {
  const { sql, params } = body.request;
  const more = {
    traits: traitsOf(sql),
    ...(params === undefined ? {} : { params: packedParams(sql, params as Params, paramsMax) }),
  };
  return body.dialect === 'v1'
    ? { ...body, request: { ...body.request, ...more } }
    : { ...body, request: { ...body.request, ...more } };
}

function packedParams(sql: string, params: Params, paramsMax: number): PackedParams {
  const placeholders = needPlaceholders(params)
    ? Uint32Array.from(findPlaceholders(sql, !Array.isArray(params), paramsMax))
    : null;
  return serialize({ params, placeholders } satisfies ParamsToPack);
}

/** SHA-256 in Base64: whether two bodies are the same. */
export function digestOf(bytes: Buffer): string {
  return hash('sha256', bytes, 'base64');
}
