// Numbers that the server printed, rewritten to the grammar of JSON (RFC 8259, section 6) where they deviate.

import { reportInvalid } from './invalid';
import { letterE, minus, plus, point, quote, zero } from './shared/ascii';
import * as invalidCell from './shared/invalid-cell';
import { blockBytes, copyBytes, digitLanes, firstBytes, pointLanes, vectorBytes } from './simd';
import { writeText } from './text';

export class NumberCell {
  /**
   * Whether the cell is a JSON number of at most 31 characters and a sign, without an exponent. Signs, points and zeros come
   * in any order, so there are no branches. May be false for a plain number, because `low` and `high` reach past the cell.
   * @param low the first vector of the cell
   * @param high the second
   */
  @inline static isPlain(from: usize, length: usize, low: v128, high: v128): bool {
    const sign = usize(load<u8>(from) === minus);
    const count = length - sign;
    const digits = (i8x16.bitmask(digitLanes(low)) | (i8x16.bitmask(digitLanes(high)) << 16)) >> <u32>sign;
    const points = (i8x16.bitmask(pointLanes(low)) | (i8x16.bitmask(pointLanes(high)) << 16)) >> <u32>sign;
    // At most one byte is not a digit, and it is a point between two digits.
    const others = ~digits & firstBytes(count);
    const atEnds = others & (1 | (1 << (<u32>count - 1)));
    const leadingZero = u32(load<u8>(from + sign) === zero) & (digits >> 1);
    return count - 1 < blockBytes - 1 && (atEnds | (others & ~points) | (others & (others - 1)) | leadingZero) === 0;
  }
}

export function writeNumber(at: usize, start: usize, end: usize): usize {
  const stop = writeDigits(at, start, end);
  return stop === 0 ? writeInvalid(at, start, end) : stop;
}

export function writeQuotedNumber(at: usize, start: usize, end: usize): usize {
  const stop = writeDigits(at + 1, start, end);
  if (stop === 0) return writeInvalid(at, start, end);
  store<u8>(at, quote);
  store<u8>(stop, quote);
  return stop + 1;
}

function writeInvalid(at: usize, start: usize, end: usize): usize {
  reportInvalid(invalidCell.text);
  return writeText(at, start, end);
}

/** Writes a number, or returns 0 if the cell is not one. src/worker/cell-number.ts lists what is rewritten. */
function writeDigits(at: usize, start: usize, end: usize): usize {
  const stop = copyNumber(at, start, end);
  if (stop !== 0) return stop;
  let from = start;
  let to = at;
  // MySQL prints a FLOAT ZEROFILL of -0 as 0000-0.
  while (from + 1 < end && load<u8>(from) === zero) from++;
  if (load<u8>(from) !== minus) from = start;
  if (from < end && (load<u8>(from) === minus || load<u8>(from) === plus)) {
    store<u8>(to, minus);
    to += usize(load<u8>(from) === minus);
    from++;
  }
  const wholeEnd = digitsEnd(from, end);
  const hasPoint = wholeEnd < end && load<u8>(wholeEnd) === point;
  const fraction = wholeEnd + usize(hasPoint);
  const fractionEnd = digitsEnd(fraction, end);
  if (wholeEnd === from && fractionEnd === fraction) return 0;
  while (from < wholeEnd && load<u8>(from) === zero) from++;
  if (from === wholeEnd) store<u8>(to++, zero);
  to = copyBytes(to, from, wholeEnd);
  if (fractionEnd > fraction) {
    store<u8>(to++, point);
    to = copyBytes(to, fraction, fractionEnd);
  }
  if (fractionEnd === end) return to;
  if ((load<u8>(fractionEnd) | 0x20) !== letterE) return 0;
  let power = fractionEnd + 1;
  if (power < end && (load<u8>(power) === minus || load<u8>(power) === plus)) power++;
  if (power === end || digitsEnd(power, end) !== end) return 0;
  return copyBytes(to, fractionEnd, end);
}

/** Copies a JSON number of up to 32 characters, which most are. Returns 0 for anything else. */
function copyNumber(at: usize, start: usize, end: usize): usize {
  const length = end - start;
  if (length - 1 >= blockBytes) return 0;
  const low = v128.load(start);
  const high = v128.load(start, vectorBytes);
  const inCell = firstBytes(length);
  const digits = (i8x16.bitmask(digitLanes(low)) | (i8x16.bitmask(digitLanes(high)) << 16)) & inCell;
  const others = ~digits & inCell;
  // Parts of the number, as offsets in the cell.
  const whole = u32(load<u8>(start) === minus);
  const wholeEnd = nextOther(others, whole, <u32>length);
  if (wholeEnd === whole || (load<u8>(start + whole) === zero && wholeEnd > whole + 1)) return 0;
  let next = wholeEnd;
  if (next < <u32>length && load<u8>(start + next) === point) {
    const fractionEnd = nextOther(others, next + 1, <u32>length);
    if (fractionEnd === next + 1) return 0;
    next = fractionEnd;
  }
  if (next < <u32>length) {
    if ((load<u8>(start + next) | 0x20) !== letterE) return 0;
    next++;
    if (next < <u32>length && (load<u8>(start + next) === minus || load<u8>(start + next) === plus)) next++;
    if (next >= <u32>length || nextOther(others, next, <u32>length) !== <u32>length) return 0;
  }
  v128.store(at, low);
  v128.store(at, high, vectorBytes);
  return at + length;
}

/** The first offset from `from` on whose bit is set in `others`, or `length`. */
function nextOther(others: u32, from: u32, length: u32): u32 {
  return min(<u32>ctz(<u64>others & (~(<u64>0) << from)), length);
}

/** The first address from `from` on whose byte is not a digit. */
function digitsEnd(from: usize, end: usize): usize {
  let to = from;
  while (to < end && isDigit(load<u8>(to))) to++;
  return to;
}

export function isDigit(byte: u8): bool {
  return <u32>byte - zero <= 9;
}

/** Whether there are bytes, and all are digits. */
export function areDigits(start: usize, end: usize): bool {
  for (let from = start; from < end; from++) if (!isDigit(load<u8>(from))) return false;
  return end > start;
}
