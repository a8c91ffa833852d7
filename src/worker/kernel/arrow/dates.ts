// Dates of binary rows (MySQL internals manual, "Binary Protocol Value"). NULL is 0.

import { nullCell } from '../shared/arrow';
import { fractionDigitsMax, microsecondsMax, yearMax } from '../shared/precision';
import { body, lengths, packets, starts } from './memory';

const secondsPerDay: i64 = 86400;
const microsecondsPerSecond: i64 = 1000000;
const noDay: i32 = i32.MIN_VALUE;

/** Lengths of a date with a year, one bit each. */
const dateLengths: u32 = (1 << 4) | (1 << 7) | (1 << 11);

/** By digits of a fraction, the microseconds of the last of them. */
const digitUnits: usize = memory.data<u32>([1000000, 100000, 10000, 1000, 100, 10, 1]);

/** Days since 1970. */
export function writeDates(cell: usize, rows: usize, at: usize): bool {
  const startsAt = starts + 4 * cell;
  const lengthsAt = lengths + 4 * cell;
  for (let row: usize = 0; row < rows; row++) {
    const length = load<i32>(lengthsAt + 4 * row);
    let days: i32 = 0;
    if (length !== nullCell) {
      if (!Day.isLength(length)) return false;
      days = Day.since1970(packets + load<u32>(startsAt + 4 * row));
      if (days === noDay) return false;
    }
    store<i32>(body + at + 4 * row, days);
  }
  return true;
}

/** Microseconds since 1970, as if the time were UTC. @param decimals digits of the fraction that are shown */
export function writeTimestamps(cell: usize, rows: usize, at: usize, decimals: u32): bool {
  const startsAt = starts + 4 * cell;
  const lengthsAt = lengths + 4 * cell;
  const unit = load<u32>(digitUnits + 4 * <usize>min(decimals, fractionDigitsMax));
  for (let row: usize = 0; row < rows; row++) {
    const length = load<i32>(lengthsAt + 4 * row);
    let value: i64 = 0;
    if (length !== nullCell) {
      if (!Day.isLength(length)) return false;
      const from = packets + load<u32>(startsAt + 4 * row);
      const days = Day.since1970(from);
      if (days === noDay) return false;
      value = <i64>days * secondsPerDay;
      if (length > 4) {
        const seconds = <i64>load<u8>(from, 4) * 3600 + <i64>load<u8>(from, 5) * 60 + <i64>load<u8>(from, 6);
        if (seconds >= secondsPerDay) return false;
        value += seconds;
      }
      value *= microsecondsPerSecond;
      if (length > 7) {
        const microseconds = load<u32>(from, 7);
        if (microseconds > <u32>microsecondsMax) return false;
        value += <i64>(microseconds - (microseconds % unit));
      }
    }
    store<i64>(body + at + 8 * row, value);
  }
  return true;
}

/** Inlined into both callers. */
class Day {
  @inline static isLength(length: i32): bool {
    return length <= 11 && ((dateLengths >> length) & 1) !== 0;
  }

  /** Days since 1970; `noDay` if there is no such date. */
  @inline static since1970(from: usize): i32 {
    const year: i32 = load<u16>(from);
    const month: i32 = load<u8>(from, 2);
    const day: i32 = load<u8>(from, 3);
    if (year > yearMax || <u32>(month - 1) > 11 || <u32>(day - 1) > 30) return noDay;
    if (day > 28 && day > daysOfMonth(year, month)) return noDay;
    // The year begins in March, so that the leap day is the last of its year.
    const isLate = i32(month > 2);
    const shifted = year + isLate - 1;
    const era = (shifted >= 0 ? shifted : shifted - 399) / 400;
    const yearOfEra = shifted - era * 400;
    const dayOfYear = (153 * (month + 9 - 12 * isLate) + 2) / 5 + day - 1;
    return era * 146097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719468;
  }
}

function daysOfMonth(year: i32, month: i32): i32 {
  if (month === 2) return 28 + i32(year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0));
  return 30 + ((month + (month >> 3)) & 1);
}
