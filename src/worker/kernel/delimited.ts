// Text of CSV and TSV files (see shared/cell-kind.ts).

import { reportInvalid } from './invalid';
import { backslash, carriageReturn, comma, letterN, lineFeed, quote, tab, zero } from './shared/ascii';
import * as invalidCell from './shared/invalid-cell';
import { firstBytes, vectorBytes } from './simd';
import { isUtf8, sequenceLength } from './utf8';

const letterTab: u8 = 0x74;
/** U+FFFD in UTF-8, little-endian. */
const replacement: u32 = 0xbdbfef;

/** Lanes of all ones where a byte makes CSV quote its cell. */
function csvLanes(vector: v128): v128 {
  return v128.or(
    v128.or(i8x16.eq(vector, i8x16.splat(<i8>comma)), i8x16.eq(vector, i8x16.splat(<i8>quote))),
    v128.or(i8x16.eq(vector, i8x16.splat(<i8>lineFeed)), i8x16.eq(vector, i8x16.splat(<i8>carriageReturn))),
  );
}

/** Lanes of all ones where a byte is escaped in TSV. */
function tsvLanes(vector: v128): v128 {
  return v128.or(
    v128.or(i8x16.eq(vector, i8x16.splat(<i8>tab)), i8x16.eq(vector, i8x16.splat(<i8>lineFeed))),
    v128.or(i8x16.eq(vector, i8x16.splat(<i8>backslash)), i8x16.eq(vector, i8x16.splat(0))),
  );
}

export function writeCsv(at: usize, start: usize, end: usize): usize {
  let special: u32 = u32(start === end);
  let nonAscii: u32 = 0;
  for (let from = start; from < end; from += vectorBytes) {
    const vector = v128.load(from);
    v128.store(at + (from - start), vector);
    const inCell = firstBytes(min(end - from, vectorBytes));
    special |= i8x16.bitmask(csvLanes(vector)) & inCell;
    nonAscii |= i8x16.bitmask(vector) & inCell;
  }
  if (nonAscii !== 0 && !isUtf8(start, end)) {
    reportInvalid(invalidCell.text);
    store<u8>(at, quote);
    const to = writeBytewise(true, true, at + 1, start, end);
    store<u8>(to, quote);
    return to + 1;
  }
  if (special === 0) return at + (end - start);
  let to = at;
  store<u8>(to++, quote);
  for (let from = start; from < end; from += vectorBytes) {
    const vector = v128.load(from);
    const length = min(end - from, vectorBytes);
    v128.store(to, vector);
    if ((i8x16.bitmask(i8x16.eq(vector, i8x16.splat(<i8>quote))) & firstBytes(length)) === 0) to += length;
    else to = writeBytewise(true, false, to, from, from + length);
  }
  store<u8>(to, quote);
  return to + 1;
}

export function writeTsv(at: usize, start: usize, end: usize): usize {
  let to = at;
  let nonAscii: u32 = 0;
  for (let from = start; from < end; from += vectorBytes) {
    const vector = v128.load(from);
    const length = min(end - from, vectorBytes);
    const inCell = firstBytes(length);
    nonAscii |= i8x16.bitmask(vector) & inCell;
    v128.store(to, vector);
    if ((i8x16.bitmask(tsvLanes(vector)) & inCell) === 0) to += length;
    else to = writeBytewise(false, false, to, from, from + length);
  }
  if (nonAscii === 0 || isUtf8(start, end)) return to;
  reportInvalid(invalidCell.text);
  return writeBytewise(false, true, at, start, end);
}

/**
 * Writes text byte by byte: quotes are doubled for CSV, and escapes written for TSV. If it is a whole cell, malformed UTF-8 becomes
 * U+FFFD. A part of a cell, which may cut characters, has been found to be UTF-8, or is written anew.
 */
function writeBytewise(isCsv: bool, isWhole: bool, at: usize, start: usize, end: usize): usize {
  let to = at;
  for (let from = start; from < end; ) {
    const byte = load<u8>(from);
    if (byte >= 0x80) {
      const length = sequenceLength(from, end);
      if (length > 0 || !isWhole) {
        const copied = max(length, 1);
        store<u32>(to, load<u32>(from));
        to += copied;
        from += copied;
      } else {
        store<u32>(to, replacement);
        to += 3;
        from -= length;
      }
      continue;
    }
    from++;
    if (isCsv) {
      store<u8>(to, byte);
      to += 1 + usize(byte === quote);
      store<u8>(to - 1, byte);
      continue;
    }
    let escaped = byte;
    if (byte === 0) escaped = <u8>zero;
    else if (byte === tab) escaped = letterTab;
    else if (byte === lineFeed) escaped = <u8>letterN;
    if (escaped !== byte || byte === backslash) store<u8>(to++, backslash);
    store<u8>(to++, escaped);
  }
  return to;
}
