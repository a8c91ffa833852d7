import * as ascii from '../kernel/shared/ascii.ts';
import type { BatchBody } from './batch-body.ts';
import { type Cells, nullCell } from './cells.ts';
import { noNumber, writeInt64 } from './integers.ts';
import { arrowKernel } from './kernel.ts';
import { UnrepresentableError } from './unrepresentable-error.ts';

// V8 reads a constant of the own module faster than an imported one.
const { minus, point, zero } = ascii;
const noCell = nullCell;

/** Up to so many digits, every integer is a double. */
const exactDigits = 15;

/** A larger number is gathered in parts of so many bits, so that a part times `chunkFactor` is a double without loss. */
const limbBits = 24;
const limbValues = 2 ** limbBits;
const limbs = new Float64Array(11);
const chunkDigits = 7;
const chunkFactor = 10 ** chunkDigits;

/** Fixed-point numbers as the databases print them. */
export function writeDecimals(cells: Cells, body: BatchBody, bytes: 16 | 32, precision: number, scale: number): void {
  const { starts, lengths, rows, kernelCell } = cells;
  const inKernel = (at: number): boolean =>
    arrowKernel.functions.writeDecimals(kernelCell, rows, at, bytes, precision, scale) !== 0;
  if (body.writeInKernel(cells, rows * bytes, inKernel)) return;
  const at = body.begin(rows * bytes);
  for (let row = 0, to = at; row < rows; row++, to += bytes) {
    const start = starts[row] as number;
    const length = lengths[row] as number;
    if (length === noCell) writeSmall(body, to, bytes, 0);
    else writeDecimal(cells, start, start + length, body, to, bytes, precision, scale);
  }
  body.end(rows * bytes);
}

function writeDecimal(
  { source }: Cells,
  start: number,
  end: number,
  body: BatchBody,
  to: number,
  bytes: number,
  precision: number,
  scale: number,
): void {
  const isNegative = source[start] === minus;
  const first = isNegative ? start + 1 : start;
  let value = 0;
  // Without leading zeros.
  let digits = 0;
  let missing = -1;
  let at = first;
  for (; at < end; at++) {
    const byte = source[at] as number;
    if (byte === point && missing < 0) {
      missing = scale;
      continue;
    }
    const digit = byte - zero;
    if (digit < 0 || digit > 9) throw noNumber(source, start, end);
    if (missing === 0) {
      if (digit !== 0) throw tooLong(source, start, end);
      continue;
    }
    if (missing > 0) missing--;
    if (digits > 0 || digit > 0) digits++;
    value = value * 10 + digit;
  }
  if (at === first) throw noNumber(source, start, end);
  if (missing < 0) missing = scale;
  if (digits > 0) digits += missing;
  if (digits > precision) throw tooLong(source, start, end);
  if (digits <= exactDigits) {
    for (; missing > 0; missing--) value *= 10;
    writeSmall(body, to, bytes, isNegative && value !== 0 ? -value : value);
    return;
  }
  gather(source, first, end, scale);
  for (let byte = 0; byte < bytes; byte++) {
    const limb = limbs[Math.floor(byte / 3)] ?? 0;
    body.bytes[to + byte] = Math.floor(limb / 2 ** (8 * (byte % 3))) & 0xff;
  }
  if (isNegative) negate(body.bytes, to, bytes);
}

/** @param value of at most 53 bits */
function writeSmall(body: BatchBody, to: number, bytes: number, value: number): void {
  const out = body.view;
  writeInt64(out, to, value);
  const sign = value < 0 ? -1 : 0;
  for (let at = to + 8; at < to + bytes; at += 4) out.setInt32(at, sign, true);
}

/** Gathers the digits of a number in `limbs`, with `scale` of them behind the point. */
function gather(source: Buffer, first: number, end: number, scale: number): void {
  limbs.fill(0);
  let chunk = 0;
  let count = 0;
  let missing = -1;
  const add = (digit: number): void => {
    chunk = chunk * 10 + digit;
    count++;
    if (count < chunkDigits) return;
    multiplyAdd(chunkFactor, chunk);
    chunk = 0;
    count = 0;
  };
  for (let at = first; at < end && missing !== 0; at++) {
    const byte = source[at] as number;
    if (byte === point) {
      missing = scale;
      continue;
    }
    if (missing > 0) missing--;
    add(byte - zero);
  }
  for (let rest = missing < 0 ? scale : missing; rest > 0; rest--) add(0);
  multiplyAdd(10 ** count, chunk);
}

function multiplyAdd(factor: number, summand: number): void {
  let carry = summand;
  for (let index = 0; index < limbs.length; index++) {
    const value = (limbs[index] as number) * factor + carry;
    carry = Math.floor(value / limbValues);
    limbs[index] = value - carry * limbValues;
  }
}

/** Two's complement. */
function negate(out: Uint8Array, start: number, bytes: number): void {
  let carry = 1;
  for (let at = start; at < start + bytes; at++) {
    const value = (~(out[at] as number) & 0xff) + carry;
    out[at] = value & 0xff;
    carry = value >> 8;
  }
}

function tooLong(source: Buffer, start: number, end: number): UnrepresentableError {
  return new UnrepresentableError(
    source.toString('utf8', start, end),
    'it has more digits than its column is defined with; CAST it to a DECIMAL with as many',
  );
}
