import * as ascii from './kernel/shared/ascii.ts';
import * as invalidCell from './kernel/shared/invalid-cell.ts';

// V8 reads a constant of the own module faster than an imported one.
const { backslash, letterU, quote, zero } = ascii;

/** For each byte: 1 if JSON strings have it as it is. */
const plain = new Uint8Array(256).fill(1, 0x20, 0x80);
plain[quote] = 0;
plain[backslash] = 0;

/** For each control character: the letter of its short escape, or 0 if it has none. */
const shortEscape = new Uint8Array(256);
for (const [code, letter] of [
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
  [quote, '"'],
  [backslash, '\\'],
] as const) {
  shortEscape[code] = letter.charCodeAt(0);
}

const lowerHex = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0));

let invalid = 0;

/** Bits of `invalidCell` that were found since the last call. */
export function takeInvalid(): number {
  const found = invalid;
  invalid = 0;
  return found;
}

/** Writes text as a JSON string. */
export function writeText(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  out[at] = quote;
  const stop = writeCharacters(out, at + 1, source, start, end);
  out[stop] = quote;
  return stop + 1;
}

/** Reports a cell that contradicts its column's type, and writes it as text. */
export function writeInvalid(
  what: number,
  out: Uint8Array,
  at: number,
  source: Uint8Array,
  start: number,
  end: number,
): number {
  invalid |= what;
  return writeText(out, at, source, start, end);
}

/**
 * Writes the text between the quotes. The escapes are those of `JSON.stringify`. Malformed UTF-8 becomes U+FFFD, one for each
 * maximal subpart of a sequence, as in the WHATWG Encoding Standard.
 */
export function writeCharacters(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let to = at;
  let from = start;
  while (from < end) {
    const byte = source[from] as number;
    if (plain[byte] === 1) {
      out[to++] = byte;
      from++;
    } else if (byte >= 0x80) {
      const length = writeSequence(out, to, source, from, end);
      to += length > 0 ? length : replacementBytes;
      from += Math.abs(length);
    } else {
      out[to++] = backslash;
      const letter = shortEscape[byte] as number;
      if (letter !== 0) {
        out[to++] = letter;
      } else {
        out[to++] = letterU;
        out[to++] = zero;
        out[to++] = zero;
        out[to++] = lowerHex[byte >> 4] as number;
        out[to++] = lowerHex[byte & 15] as number;
      }
      from++;
    }
  }
  return to;
}

/** The length of U+FFFD in UTF-8. */
export const replacementBytes = 3;

/**
 * Copies the UTF-8 sequence at `from`, whose first byte is not ASCII. If it is malformed, writes U+FFFD and reports it.
 * @returns see `sequenceLength`
 */
export function writeSequence(out: Uint8Array, at: number, source: Uint8Array, from: number, end: number): number {
  const length = sequenceLength(source, from, end);
  if (length > 0) {
    for (let index = 0; index < length; index++) out[at + index] = source[from + index] as number;
  } else {
    out[at] = 0xef;
    out[at + 1] = 0xbf;
    out[at + 2] = 0xbd;
    invalid |= invalidCell.text;
  }
  return length;
}

/**
 * The length of the UTF-8 sequence at `from`, whose first byte is not ASCII. For a malformed one, the negated length of its
 * maximal subpart (RFC 3629, section 4; Unicode 15, table 3-7).
 */
export function sequenceLength(source: Uint8Array, from: number, end: number): number {
  const lead = source[from] as number;
  let continuation: number;
  let low = 0x80;
  let high = 0xbf;
  if (lead < 0xc2) return -1;
  if (lead < 0xe0) {
    continuation = 1;
  } else if (lead < 0xf0) {
    continuation = 2;
    if (lead === 0xe0) low = 0xa0;
    else if (lead === 0xed) high = 0x9f;
  } else if (lead < 0xf5) {
    continuation = 3;
    if (lead === 0xf0) low = 0x90;
    else if (lead === 0xf4) high = 0x8f;
  } else {
    return -1;
  }
  for (let index = 1; index <= continuation; index++) {
    if (from + index >= end) return -index;
    const byte = source[from + index] as number;
    if (byte < low || byte > high) return -index;
    low = 0x80;
    high = 0xbf;
  }
  return continuation + 1;
}
