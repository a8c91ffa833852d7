import {
  decimalsNotFixed,
  floatDigits,
  fractionDigitsMax,
  microsecondsMax,
  pointMax,
  pointMin,
  yearMax,
} from './kernel/shared/precision.ts';
import * as valueType from './kernel/shared/value-type.ts';

/**
 * Prints the values of binary rows as both servers print them in the text protocol (MySQL internals manual, "Binary Protocol
 * Value"). This is the reference; the kernel does the same for rows that fit in its memory.
 */

export { decimalsNotFixed, valueType };

/** The most digits after the first that JavaScript prints: enough to distinguish a tie from its neighbours. */
const exactDigits = 100;

/** By type, the bytes of its values; 0: the first byte of a value says it. */
export const fixedBytes = new Uint8Array(valueType.time + 1);
for (const [type, bytes] of [
  [valueType.int8, 1],
  [valueType.uint8, 1],
  [valueType.int16, 2],
  [valueType.uint16, 2],
  [valueType.int32, 4],
  [valueType.uint32, 4],
  [valueType.int64, 8],
  [valueType.uint64, 8],
  [valueType.float, 4],
  [valueType.double, 8],
] as const) {
  fixedBytes[type] = bytes;
}

/**
 * The length in bytes of the value at `from`, for any type but `string`.
 * @throws RangeError if no value of the type has that length
 */
export function valueBytes(type: number, source: DataView, from: number): number {
  const size = fixedBytes[type] as number;
  if (size > 0) return size;
  const length = source.getUint8(from);
  const lengths = type === valueType.time ? [0, 8, 12] : [0, 4, 7, 11];
  if (!lengths.includes(length)) throw new RangeError(`a date or time has a length of ${length}`);
  return 1 + length;
}

/**
 * The text of the complete value at `from`, for any type but `string`.
 * @param decimals of the column's definition
 * @throws RangeError for an impossible date or time
 */
export function valueText(type: number, decimals: number, source: DataView, from: number): string {
  switch (type) {
    case valueType.int8:
      return `${source.getInt8(from)}`;
    case valueType.uint8:
      return `${source.getUint8(from)}`;
    case valueType.int16:
      return `${source.getInt16(from, true)}`;
    case valueType.uint16:
      return `${source.getUint16(from, true)}`;
    case valueType.int32:
      return `${source.getInt32(from, true)}`;
    case valueType.uint32:
      return `${source.getUint32(from, true)}`;
    case valueType.int64:
      return `${source.getBigInt64(from, true)}`;
    case valueType.uint64:
      return `${source.getBigUint64(from, true)}`;
    case valueType.float:
      return floatText(source.getFloat32(from, true), decimals, floatDigits);
    case valueType.double:
      return floatText(source.getFloat64(from, true), decimals, Number.POSITIVE_INFINITY);
    case valueType.time:
      return timeText(decimals, source, from);
    default:
      return dateText(type, decimals, source, from);
  }
}

function dateText(type: number, decimals: number, source: DataView, from: number): string {
  const length = source.getUint8(from);
  const [year, month, day] =
    length > 0 ? [source.getUint16(from + 1, true), source.getUint8(from + 3), source.getUint8(from + 4)] : [0, 0, 0];
  if (year > yearMax) throw new RangeError(`a date is of the year ${year}`);
  const date = `${String(year).padStart(4, '0')}-${twoDigits(month)}-${twoDigits(day)}`;
  if (type === valueType.date) return date;
  const hour = length > 4 ? source.getUint8(from + 5) : 0;
  return `${date} ${twoDigits(hour)}${minutesText(decimals, source, from + 6, length - 5)}`;
}

function timeText(decimals: number, source: DataView, from: number): string {
  const length = source.getUint8(from);
  const isNegative = length > 0 && source.getUint8(from + 1) !== 0;
  const hours = length > 0 ? source.getUint32(from + 2, true) * 24 + source.getUint8(from + 6) : 0;
  const minutes = minutesText(decimals, source, from + 7, length - 6);
  return `${isNegative ? '-' : ''}${String(hours).padStart(2, '0')}${minutes}`;
}

/** Minutes, seconds and their fraction. Omitted parts are zero. */
function minutesText(decimals: number, source: DataView, from: number, length: number): string {
  const [minute, second] = length > 0 ? [source.getUint8(from), source.getUint8(from + 1)] : [0, 0];
  const microseconds = length > 2 ? source.getUint32(from + 2, true) : 0;
  return `:${twoDigits(minute)}:${twoDigits(second)}${fractionText(decimals, microseconds)}`;
}

/** Without fixed decimals, microseconds are printed unless they are 0. */
function fractionText(decimals: number, microseconds: number): string {
  if (microseconds > microsecondsMax) throw new RangeError(`a second has ${microseconds} microseconds`);
  const shown = decimals > fractionDigitsMax ? (microseconds === 0 ? 0 : fractionDigitsMax) : decimals;
  return shown === 0 ? '' : `.${String(microseconds).padStart(fractionDigitsMax, '0').slice(0, shown)}`;
}

function twoDigits(part: number): string {
  if (part > 99) throw new RangeError(`a date or time has a part of ${part}`);
  return String(part).padStart(2, '0');
}

/** A number's decimal digits without zeros at either end, and the number of digits before its point. */
interface Digits {
  readonly digits: string;
  readonly point: number;
}

/**
 * Prints a number as MySQL's `my_fcvt` and `my_gcvt` do: the shortest digits that parse back to it, rounded to the given
 * number of digits, ties to even.
 */
function floatText(value: number, decimals: number, digitsMax: number): string {
  // Aggregates can return infinity and NaN. Both servers print them as 0 in the text protocol.
  if (!Number.isFinite(value)) return '0';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const magnitude = Math.abs(value);
  return sign + (decimals < decimalsNotFixed ? fixedText(magnitude, decimals) : generalText(magnitude, digitsMax));
}

function fixedText(value: number, decimals: number): string {
  const { digits, point } = roundedDigits(value, (point) => point + decimals);
  const all = digits.padStart(digits.length + Math.max(0, 1 - point), '0').padEnd(Math.max(1, point) + decimals, '0');
  const whole = all.slice(0, Math.max(1, point));
  return decimals === 0 ? whole : `${whole}.${all.slice(whole.length, whole.length + decimals)}`;
}

function generalText(value: number, digitsMax: number): string {
  const { digits, point } = roundedDigits(value, () => digitsMax);
  if (point < pointMin || (point > pointMax && point >= digits.length)) {
    const rest = digits.slice(1);
    return `${digits[0]}${rest === '' ? '' : '.'}${rest}e${point - 1}`;
  }
  if (point <= 0) return `0.${'0'.repeat(-point)}${digits}`;
  return digits.length <= point ? digits.padEnd(point, '0') : `${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** @param countMax the most digits, given the position of the point; 0 or less for none */
function roundedDigits(value: number, countMax: (point: number) => number): Digits {
  const shortest = digitsOf(value.toExponential());
  const count = countMax(shortest.point);
  if (shortest.digits.length <= count || value === 0) return shortest;
  if (count < 0) return { digits: '0', point: 1 };
  const { digits, point } = digitsOf(value.toExponential(exactDigits));
  const kept = BigInt(`0${digits.slice(0, count)}`);
  const rest = digits.slice(count);
  const isTie = rest === '5';
  const isUp = isTie ? kept % 2n === 1n : rest[0] !== undefined && rest[0] >= '5';
  const rounded = String(isUp ? kept + 1n : kept);
  if (rounded === '0') return { digits: '0', point: 1 };
  // A carry adds a digit.
  return digitsOf(`${rounded}e${point - count}`, rounded.length);
}

/** @param whole digits before the point of the mantissa */
function digitsOf(printed: string, whole = 1): Digits {
  const [mantissa, exponent] = printed.split('e') as [string, string];
  const digits = mantissa.replace('.', '').replace(/0+$/, '');
  return { digits: digits === '' ? '0' : digits, point: whole + Number(exponent) };
}
