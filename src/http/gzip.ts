import { promisify } from 'node:util';
import { constants, crc32, inflateRaw } from 'node:zlib';
import type { Deflated } from '../wire/statement.ts';
import { EncodedText } from './encoded-text.ts';

/** A part of a gzip member: plain, or compressed already. */
export type GzipPart = string | Uint8Array | EncodedText | Deflated;

/**
 * The rest of a longer Accept-Encoding is ignored: clients name some ten codings, and parsing thousands would take
 * milliseconds.
 */
const acceptEncodingLengthMax = 1_024;

/** Whether a request's Accept-Encoding includes gzip (RFC 9110, section 12.5.3). */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false;
  const weights = new Map<string, number>();
  for (const coding of acceptEncoding.slice(0, acceptEncodingLengthMax).toLowerCase().split(',')) {
    const [name = '', ...parameters] = coding.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='));
    weights.set(name, weight === undefined ? 1 : Number(weight.slice(2)));
  }
  return (weights.get('gzip') ?? weights.get('x-gzip') ?? weights.get('*') ?? 0) > 0;
}

export function isDeflated(part: GzipPart): part is Deflated {
  return typeof part === 'object' && 'crc' in part;
}

const inflateRawInBackground = promisify(inflateRaw);

/** The same parts for a client that does not accept gzip. They are inflated on libuv's threads. */
export function inflated(parts: readonly GzipPart[]): Promise<(string | Uint8Array | EncodedText)[]> {
  return Promise.all(
    parts.map((part) =>
      isDeflated(part) ? inflateRawInBackground(part.bytes, { finishFlush: constants.Z_SYNC_FLUSH }) : part,
    ),
  );
}

/** RFC 1952, section 2.3: deflate, no flags, no time, no name, any operating system. */
const header = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff);
/** The largest stored block (RFC 1951, section 3.2.4). */
const storedBytesMax = 0xffff;

/**
 * One gzip member, as pieces to write one after the other. Nothing is compressed here: plain parts become stored blocks, and the
 * checksum is computed from those of the parts. Encoded texts keep theirs.
 */
export class GzipMember {
  #crc = 0;
  #length = 0;

  begin(): Uint8Array {
    return header;
  }

  add(part: GzipPart): Uint8Array[] {
    if (isDeflated(part)) {
      this.#count(combinedCrc(this.#crc, part.crc, part.length), part.length);
      return [part.bytes];
    }
    const pieces: Uint8Array[] = [];
    if (part instanceof EncodedText) {
      storeBlocks(pieces, part.bytes);
      this.#count(combinedCrc(this.#crc, part.checksum, part.length), part.length);
    } else {
      const bytes = typeof part === 'string' ? Buffer.from(part) : part;
      storeBlocks(pieces, bytes);
      this.#count(crc32(bytes, this.#crc), bytes.length);
    }
    return pieces;
  }

  end(): Uint8Array {
    const trailer = Buffer.alloc(13);
    // The last block is empty.
    trailer.set([1, 0, 0, 0xff, 0xff]);
    trailer.writeUInt32LE(this.#crc, 5);
    trailer.writeUInt32LE(this.#length % 2 ** 32, 9);
    return trailer;
  }

  #count(crc: number, bytes: number): void {
    this.#crc = crc;
    this.#length += bytes;
  }
}

/** One gzip member with the parts in order (see `GzipMember`). */
export function gzipPieces(parts: readonly GzipPart[]): Uint8Array[] {
  const member = new GzipMember();
  return [member.begin(), ...parts.flatMap((part) => member.add(part)), member.end()];
}

function storeBlocks(pieces: Uint8Array[], bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; at += storedBytesMax) {
    const block = bytes.subarray(at, at + storedBytesMax);
    const { length } = block;
    pieces.push(Uint8Array.of(0, length & 0xff, length >> 8, ~length & 0xff, (~length >> 8) & 0xff), block);
  }
}

/** The polynomial of CRC-32, its terms from x^0 in the highest bit (RFC 1952, section 8). */
const polynomial = 0xedb88320;
/** x^(8 · 2^n) modulo the polynomial, for each n: the factor that shifts a checksum by 2^n bytes. */
const shifts: number[] = [];

/**
 * The CRC-32 of two concatenated byte sequences from the CRC-32 of each: the first, shifted by the length of the second, plus the
 * second. (Polynomials over GF(2): a checksum is the remainder of the bytes, and "plus" is XOR.)
 */
function combinedCrc(first: number, second: number, secondLength: number): number {
  let moved = first;
  for (let n = 0, rest = secondLength; rest > 0; n++, rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) moved = product(moved, shift(n));
  }
  return (moved ^ second) >>> 0;
}

function shift(n: number): number {
  // The first is x^8; each other is the square of the one before.
  shifts[n] ??= n === 0 ? 0x00800000 : product(shift(n - 1), shift(n - 1));
  return shifts[n];
}

/** The product of two polynomials modulo the one of CRC-32. */
function product(a: number, b: number): number {
  let result = 0;
  let power = b;
  // Begins with the term x^0 of `a`, which is its highest bit; `power` is `b` times the current term.
  for (let bit = 31; bit >= 0; bit--) {
    if ((a >>> bit) & 1) result ^= power;
    power = power & 1 ? (power >>> 1) ^ polynomial : power >>> 1;
  }
  return result >>> 0;
}
