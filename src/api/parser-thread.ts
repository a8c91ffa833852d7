import { Piscina } from 'piscina';
import { type BodyFormat, digestOf, type ParsedBody, packed } from './body.ts';
import { InvalidRequestError } from './invalid-request.ts';
import type { RequestLimits } from './request.ts';

type Moving = ReturnType<typeof Piscina.move>;

export interface ParseTask {
  /** See `BodyFormat`. */
  readonly module: string;
  readonly bytes: Uint8Array;
  readonly wantsDigest: boolean;
  readonly limits: RequestLimits;
}

export type ParseResult =
  | { readonly body: ParsedBody; readonly digest: string | null }
  /** The text of an InvalidRequestError, whose class does not cross threads. */
  | { readonly invalid: string };

/** Piscina's task: parses one large body. */
export default async function parseLarge({
  module,
  bytes,
  wantsDigest,
  limits,
}: ParseTask): Promise<ParseResult | Moving> {
  const { parse } = (await import(module)) as Pick<BodyFormat, 'parse'>;
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  try {
    const body = packed(parse(buffer, limits), limits.paramsMax);
    const result: ParseResult = { body, digest: wantsDigest ? digestOf(buffer) : null };
    const { params } = body.request;
    return params instanceof Uint8Array ? moving(result, params.buffer as ArrayBuffer) : result;
  } catch (error) {
    if (error instanceof InvalidRequestError) return { invalid: error.message };
    throw error;
  }
}

/** A result whose memory is transferred instead of copied. */
function moving(result: ParseResult, memory: ArrayBuffer): Moving {
  return Piscina.move({ [Piscina.transferableSymbol]: memory, [Piscina.valueSymbol]: result } as unknown as Parameters<
    typeof Piscina.move
  >[0]);
}
