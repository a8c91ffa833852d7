import { replacementBytes, sequenceLength, writeSequence } from './cell-text.ts';
import * as ascii from './kernel/shared/ascii.ts';

// V8 reads a constant of the own module faster than an imported one.
const { backslash, carriageReturn, comma, lineFeed, quote, tab } = ascii;

/** For each byte: 1 if CSV quotes its cell. */
const quoted = new Uint8Array(256);
for (const byte of [comma, quote, lineFeed, carriageReturn]) quoted[byte] = 1;

/** For each byte: what stands behind the backslash in TSV; 0: it is not escaped. */
const escapes = new Uint8Array(256);
for (const [byte, letter] of [
  [0, '0'],
  [tab, 't'],
  [lineFeed, 'n'],
  [backslash, '\\'],
] as const) {
  escapes[byte] = letter.charCodeAt(0);
}
const noEscapes = new Uint8Array(256);
/** In a quoted cell of CSV, a quote stands behind each quote. */
const doubled = new Uint8Array(256);
doubled[quote] = quote;

/** Writes text as a field of CSV (RFC 4180). Malformed UTF-8 makes it quoted as well. */
export function writeCsv(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  if (!isQuotedInCsv(source, start, end)) return writePiece(noEscapes, out, at, source, start, end);
  out[at] = quote;
  const to = writeCsvPiece(out, at + 1, source, start, end);
  out[to] = quote;
  return to + 1;
}

export function isQuotedInCsv(source: Uint8Array, start: number, end: number): boolean {
  if (start === end) return true;
  for (let from = start; from < end; ) {
    const byte = source[from] as number;
    if (quoted[byte] === 1) return true;
    const length = byte < 0x80 ? 1 : sequenceLength(source, from, end);
    if (length < 0) return true;
    from += length;
  }
  return false;
}

/** Writes a part of a quoted cell, whose ends are ends of characters. */
export function writeCsvPiece(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  return writePiece(doubled, out, at, source, start, end, true);
}

/** Writes text, or a part of it whose ends are ends of characters, as a field of TSV. */
export function writeTsv(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  return writePiece(escapes, out, at, source, start, end);
}

/**
 * @param marks by byte, the one that is added; 0: none
 * @param isBehind whether it stands behind the byte, and not in its place behind a backslash
 */
function writePiece(
  marks: Uint8Array,
  out: Uint8Array,
  at: number,
  source: Uint8Array,
  start: number,
  end: number,
  isBehind = false,
): number {
  let to = at;
  for (let from = start; from < end; ) {
    const byte = source[from] as number;
    if (byte >= 0x80) {
      const length = writeSequence(out, to, source, from, end);
      to += length > 0 ? length : replacementBytes;
      from += Math.abs(length);
      continue;
    }
    from++;
    const mark = marks[byte] as number;
    if (mark === 0) {
      out[to++] = byte;
    } else {
      out[to++] = isBehind ? byte : backslash;
      out[to++] = mark;
    }
  }
  return to;
}
