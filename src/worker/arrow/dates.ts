import { valueText, valueType } from '../binary-values.ts';
import * as ascii from '../kernel/shared/ascii.ts';
import { fractionDigitsMax, microsecondsMax, yearMax } from '../kernel/shared/precision.ts';
import type { BatchBody } from './batch-body.ts';
import { type Cells, nullCell } from './cells.ts';
import { noNumber, writeInt64 } from './integers.ts';
import { arrowKernel } from './kernel.ts';
import { UnrepresentableError } from './unrepresentable-error.ts';

// V8 reads a constant of the own module faster than an imported one.
const { minus, point, zero } = ascii;
const noCell = nullCell;
const { functions } = arrowKernel;

const dateBytes = 4;
const microsecondBytes = 8;
const secondsPerDay = 86_400;
const microsecondsPerSecond = 1_000_000;
const twoTo32 = 2 ** 32;
/** A million is this number times 64. */
const millionBy64 = 15_625;
const dateLength = 'YYYY-MM-DD'.length;

/** The encoding of a value in rows of the binary protocol; null: it is text. */
export type DateForm = { readonly type: number; readonly decimals: number } | null;

// The date and time that were read last.
let year = 0;
let month = 0;
let day = 0;
let seconds = 0;
let microseconds = 0;

/** Makes NULL of dates that have no value in Arrow. */
export function dropInvalidDates(cells: Cells, form: DateForm): void {
  const { starts, lengths, rows } = cells;
  for (let row = 0; row < rows; row++) {
    const length = lengths[row] as number;
    if (length === noCell) continue;
    readDate(cells, starts[row] as number, length, form);
    if (!isDate()) lengths[row] = noCell;
  }
}

/** Days since 1970. */
export function writeDates(cells: Cells, body: BatchBody, form: DateForm): void {
  const { starts, lengths, rows, kernelCell } = cells;
  const inKernel = (at: number): boolean => functions.writeDates(kernelCell, rows, at) !== 0;
  if (form !== null && body.writeInKernel(cells, rows * dateBytes, inKernel)) return;
  const at = body.begin(rows * dateBytes);
  const out = body.view;
  for (let row = 0, to = at; row < rows; row++, to += dateBytes) {
    const length = lengths[row] as number;
    if (length === noCell) {
      out.setInt32(to, 0, true);
      continue;
    }
    const start = starts[row] as number;
    readDate(cells, start, length, form);
    if (!isDate()) throw noDate(cells, start, length, form);
    out.setInt32(to, daysSince1970(), true);
  }
  body.end(rows * dateBytes);
}

/** Microseconds since 1970, as if the time were UTC. */
export function writeTimestamps(cells: Cells, body: BatchBody, form: DateForm): void {
  const { starts, lengths, rows, kernelCell } = cells;
  if (form !== null && form.type !== valueType.date) {
    const inKernel = (at: number): boolean => functions.writeTimestamps(kernelCell, rows, at, form.decimals) !== 0;
    if (body.writeInKernel(cells, rows * microsecondBytes, inKernel)) return;
  }
  const at = body.begin(rows * microsecondBytes);
  const out = body.view;
  for (let row = 0, to = at; row < rows; row++, to += microsecondBytes) {
    const length = lengths[row] as number;
    if (length === noCell) {
      writeInt64(out, to, 0);
      continue;
    }
    const start = starts[row] as number;
    readDate(cells, start, length, form);
    if (!isDate() || seconds >= secondsPerDay) throw noDate(cells, start, length, form);
    writeMicroseconds(out, to, daysSince1970() * secondsPerDay + seconds, microseconds);
  }
  body.end(rows * microsecondBytes);
}

/** Microseconds of a TIME, which spans more than a day in either direction. */
export function writeDurations(cells: Cells, body: BatchBody, form: DateForm): void {
  const { source, starts, lengths, rows } = cells;
  const at = body.begin(rows * microsecondBytes);
  for (let row = 0, to = at; row < rows; row++, to += microsecondBytes) {
    const start = starts[row] as number;
    const length = lengths[row] as number;
    let value = 0;
    if (length !== noCell) {
      const isNegative = form === null ? source[start] === minus : length > 0 && source[start] !== 0;
      if (form === null) readTimeText(cells, isNegative ? start + 1 : start, start + length);
      else readTimeValue(cells, start, length, form.decimals);
      value = seconds * microsecondsPerSecond + microseconds;
      if (isNegative) value = -value;
    }
    writeInt64(body.view, to, value);
  }
  body.end(rows * microsecondBytes);
}

/** The values of binary rows as text. */
export function dateTexts({ view, starts, lengths, rows }: Cells, { type, decimals }: NonNullable<DateForm>): string[] {
  return Array.from({ length: rows }, (_, row) =>
    // The byte before it has its length.
    lengths[row] === noCell ? '' : valueText(type, decimals, view, (starts[row] as number) - 1),
  );
}

function readDate(cells: Cells, start: number, length: number, form: DateForm): void {
  if (form === null) readDateText(cells, start, length);
  else readDateValue(cells, start, length, form);
}

function readDateText(cells: Cells, start: number, length: number): void {
  if (length < dateLength) throw noNumber(cells.source, start, start + length);
  year = digits(cells, start, start + 4);
  month = digits(cells, start + 5, start + 7);
  day = digits(cells, start + 8, start + dateLength);
  seconds = 0;
  microseconds = 0;
  if (length > dateLength) readTimeText(cells, start + dateLength + 1, start + length);
}

/** `hh:mm:ss`, hours of any number of digits, with up to six digits of a fraction. */
function readTimeText(cells: Cells, start: number, end: number): void {
  const { source } = cells;
  let at = end;
  microseconds = 0;
  for (let from = Math.max(start, end - fractionDigitsMax - 1); from < end; from++) {
    if (source[from] !== point) continue;
    at = from;
    microseconds = digits(cells, from + 1, end) * (digitUnits[end - from - 1] as number);
    break;
  }
  if (at - start < 'h:mm:ss'.length) throw noNumber(source, start, end);
  seconds = digits(cells, start, at - 6) * 3_600 + digits(cells, at - 5, at - 3) * 60 + digits(cells, at - 2, at);
}

function digits({ source }: Cells, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at++) {
    const digit = (source[at] as number) - zero;
    if (digit < 0 || digit > 9) throw noNumber(source, start, end);
    value = value * 10 + digit;
  }
  return value;
}

/** Parts that are left out are zero (MySQL internals manual, "Binary Protocol Value"). */
function readDateValue(
  { source, view }: Cells,
  start: number,
  length: number,
  { type, decimals }: NonNullable<DateForm>,
): void {
  if (length !== 0 && length !== 4 && length !== 7 && length !== 11) throw wrongLength(length);
  year = length > 0 ? view.getUint16(start, true) : 0;
  if (year > yearMax) throw new RangeError(`a date is of the year ${year}`);
  month = length > 0 ? (source[start + 2] as number) : 0;
  day = length > 0 ? (source[start + 3] as number) : 0;
  seconds = 0;
  microseconds = 0;
  if (type === valueType.date) return;
  if (length > 4) seconds = secondsOf(source, start + 4);
  if (length > 7) microseconds = shownMicroseconds(view.getUint32(start + 7, true), decimals);
}

function readTimeValue({ source, view }: Cells, start: number, length: number, decimals: number): void {
  if (length !== 0 && length !== 8 && length !== 12) throw wrongLength(length);
  seconds = length > 0 ? view.getUint32(start + 1, true) * secondsPerDay + secondsOf(source, start + 5) : 0;
  microseconds = length > 8 ? shownMicroseconds(view.getUint32(start + 8, true), decimals) : 0;
}

function secondsOf(source: Buffer, at: number): number {
  return (source[at] as number) * 3_600 + (source[at + 1] as number) * 60 + (source[at + 2] as number);
}

/** By digits of a fraction, the microseconds of the last of them. */
const digitUnits = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/** The databases print as many digits as the column has, and drop the rest. */
function shownMicroseconds(value: number, decimals: number): number {
  if (value > microsecondsMax) throw new RangeError(`a second has ${value} microseconds`);
  return decimals >= fractionDigitsMax ? value : value - (value % (digitUnits[decimals] as number));
}

function wrongLength(length: number): RangeError {
  return new RangeError(`a date or time has a length of ${length}`);
}

const daysOfMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether there is such a date: the databases have dates with zeros, and may allow 2024-02-31. */
function isDate(): boolean {
  if (month === 0 || month > 12 || day === 0) return false;
  const isLeapDay = month === 2 && day === 29 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= (daysOfMonth[month - 1] as number) || isLeapDay;
}

/** Of the proleptic Gregorian calendar. The year begins in March, so that the leap day is the last of its year. */
function daysSince1970(): number {
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

/** The number of microseconds may have more than 53 bits. A product with 64 loses none, so only the sum has to carry. */
function writeMicroseconds(out: DataView, to: number, wholeSeconds: number, fraction: number): void {
  const whole = wholeSeconds * millionBy64 * 64;
  const low = (whole >>> 0) + fraction;
  out.setInt32(to, low | 0, true);
  out.setInt32(to + 4, Math.floor(whole / twoTo32) + (low >= twoTo32 ? 1 : 0), true);
}

function noDate({ source, view }: Cells, start: number, length: number, form: DateForm): UnrepresentableError {
  const text =
    form === null
      ? source.toString('latin1', start, start + length)
      : valueText(form.type, form.decimals, view, start - 1);
  return new UnrepresentableError(text, 'ask for zero_dates=null or zero_dates=string');
}
