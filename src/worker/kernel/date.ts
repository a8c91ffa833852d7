import { Decimal } from './decimal';
import { nullBytes, nullCell } from './format';
import { colon, minus, point, quote } from './shared/ascii';
import * as cellKind from './shared/cell-kind';
import { fractionDigitsMax, microsecondsMax } from './shared/precision';
import * as stop from './shared/stop';
import * as valueType from './shared/value-type';
import { blockBytes, firstBytes, vectorBytes } from './simd';
import { escapeMask, writeText } from './text';

const dateLength: usize = 10;
const monthOffset: usize = 5;
const dayOffset: usize = 8;
/** Lengths of `YYYY-MM-DD hh:mm`, with `:ss`, and with `.ffffff`. */
const minutesLength: usize = 16;
const secondsLength: usize = 19;
const microsecondsLength: usize = 26;
/** The length of `hh:mm:ss`. */
const timeLength: usize = 8;

/** Valid lengths of a date value, one bit each. */
const dateLengths: u32 = (1 << 0) | (1 << 4) | (1 << 7) | (1 << 11);

/** Indexes of the digits of `YYYY-MM-DD hh:mm` and of `hh:mm:ss`, -1 for a separator, and the separators. */
const dateDigits = i8x16(0, 1, 2, 3, -1, 4, 5, -1, 6, 7, -1, 8, 9, -1, 10, 11);
const dateSeparators = i8x16(0, 0, 0, 0, 0x2d, 0, 0, 0x2d, 0, 0, 0x20, 0, 0, 0x3a, 0, 0);
const timeDigits = i8x16(0, 1, -1, 2, 3, -1, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1);
const timeSeparators = i8x16(0, 0, 0x3a, 0, 0, 0x3a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

const twoZeros: u16 = 0x3030;
const sixZeros: u64 = 0x303030303030;
const pointZeros: u64 = 0x3030303030302e;

/** Writes a printed date or timestamp (see shared/cell-kind.ts). */
export function writeDate(kind: u8, at: usize, start: usize, end: usize): usize {
  const length = end - start;
  if (length >= dateLength) {
    if (load<u16>(start, monthOffset) === twoZeros || load<u16>(start, dayOffset) === twoZeros) return writeNull(at);
  }
  const low = v128.load(start);
  const high = v128.load(start, vectorBytes);
  let to: usize;
  if (length <= blockBytes && (escapeMask(low, high) & firstBytes(length)) === 0) {
    store<u8>(at, quote);
    v128.store(at, low, 1);
    v128.store(at, high, 1 + vectorBytes);
    to = at + 1 + length;
  } else {
    to = writeText(at, start, end) - 1;
  }
  if (kind === cellKind.timestamp && length >= secondsLength && length < microsecondsLength) {
    store<u64>(to, length === secondsLength ? pointZeros : sixZeros);
    to += microsecondsLength - length;
  }
  store<u8>(to, quote);
  return to + 1;
}

/** NULL without its comma, which the caller writes. */
function writeNull(at: usize): usize {
  store<u64>(at, nullCell);
  return at + nullBytes - 1;
}

/** Writes a DATE, DATETIME or TIMESTAMP value. Returns `stop.malformed` for an impossible one. */
export function writeDateValue(value: u32, kind: u8, at: usize, from: usize): usize {
  const length: u32 = load<u8>(from);
  if (length > 11 || ((dateLengths >> length) & 1) === 0) return stop.malformed;
  const isDate = (value & 0xff) === valueType.date;
  const shown: u32 = min(length, isDate ? 4 : 7);
  // Lanes: year (low byte), year (high byte), month, day, hour, minute, second; omitted ones are 0.
  const parts = v128.and(v128.load8x8_u(from, 1), i16x8.lt_u(i16x8(0, 1, 2, 3, 4, 5, 6, 7), i16x8.splat(<i16>shown)));
  const year = <u32>i16x8.extract_lane_u(parts, 0) | ((<u32>i16x8.extract_lane_u(parts, 1)) << 8);
  const century = year / 100;
  const numbers = i16x8.replace_lane(i16x8.replace_lane(parts, 0, <i16>century), 1, <i16>(year - century * 100));
  if (v128.any_true(i16x8.gt_u(numbers, i16x8.splat(99)))) return stop.malformed;
  if (kind === cellKind.date || kind === cellKind.timestamp) {
    if (i16x8.extract_lane_u(parts, 2) === 0 || i16x8.extract_lane_u(parts, 3) === 0) {
      // The fraction is checked here too, so that a malformed value is an error for every kind.
      if (!isDate && length === 11 && load<u32>(from, 8) > <u32>microsecondsMax) return stop.malformed;
      return writeNull(at);
    }
  }
  const text = Decimal.twoDigitsEach(numbers);
  store<u8>(at, quote);
  v128.store(at, v128.or(i8x16.swizzle(text, dateDigits), dateSeparators), 1);
  let to = at + 1 + dateLength;
  if (!isDate) {
    store<u8>(at, colon, 1 + minutesLength);
    store<u16>(at, i16x8.extract_lane_u(text, 6), 2 + minutesLength);
    const microseconds: u32 = length === 11 ? load<u32>(from, 8) : 0;
    to = writeFraction(at + 1 + secondsLength, microseconds, value >> 8, kind === cellKind.timestamp);
    if (to === 0) return stop.malformed;
  }
  store<u8>(to, quote);
  return to + 1;
}

/** Writes a TIME value. Returns `stop.malformed` for an impossible one. */
export function writeTimeValue(decimals: u32, at: usize, from: usize): usize {
  const length: u32 = load<u8>(from);
  if (length !== 0 && length !== 8 && length !== 12) return stop.malformed;
  let to = at;
  store<u8>(to++, quote);
  // Lanes: the last two digits of the hours, minutes, seconds. Hours have up to three digits.
  let numbers = i16x8.splat(0);
  if (length !== 0) {
    if (load<u8>(from, 1) !== 0) store<u8>(to++, minus);
    numbers = v128.and(v128.load8x8_u(from, 6), i16x8(-1, -1, -1, 0, 0, 0, 0, 0));
    if (load<u32>(from, 2) > 0 || load<u8>(from, 6) > 99) {
      const hours = <u64>load<u32>(from, 2) * 24 + load<u8>(from, 6);
      const hundreds = hours / 100;
      if (hundreds > 0) to = Decimal.writeUnsigned(to, hundreds);
      numbers = i16x8.replace_lane(numbers, 0, <i16>(hours - hundreds * 100));
    }
    if (v128.any_true(i16x8.gt_u(numbers, i16x8.splat(99)))) return stop.malformed;
  }
  v128.store(to, v128.or(i8x16.swizzle(Decimal.twoDigitsEach(numbers), timeDigits), timeSeparators));
  to = writeFraction(to + timeLength, length === 12 ? load<u32>(from, 9) : 0, decimals, false);
  if (to === 0) return stop.malformed;
  store<u8>(to, quote);
  return to + 1;
}

/**
 * Writes the fraction of a second with as many digits as the column has decimals. Returns 0 if there are too many
 * microseconds.
 * @param isPadded appends zeros up to six digits
 */
function writeFraction(at: usize, microseconds: u32, decimals: u32, isPadded: bool): usize {
  if (microseconds > <u32>microsecondsMax) return 0;
  // Without fixed decimals, microseconds are printed unless they are 0.
  let count = decimals <= <u32>fractionDigitsMax ? decimals : microseconds === 0 ? 0 : fractionDigitsMax;
  let shown = microseconds;
  if (isPadded && count < <u32>fractionDigitsMax) {
    shown -= shown % <u32>Decimal.smallPower(fractionDigitsMax - count);
    count = fractionDigitsMax;
  }
  if (count === 0) return at;
  store<u8>(at, point);
  store<u64>(at, Decimal.eightDigits(shown) >> 16, 1);
  return at + 1 + count;
}
