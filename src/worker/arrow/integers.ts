import * as ascii from '../kernel/shared/ascii.ts';
import type { BatchBody } from './batch-body.ts';
import { type Cells, nullCell } from './cells.ts';
import { arrowKernel } from './kernel.ts';
import { UnrepresentableError } from './unrepresentable-error.ts';

// V8 reads a constant of the own module faster than an imported one.
const { minus, zero } = ascii;
const noCell = nullCell;

/** Up to so many digits, every integer is a double. */
const exactDigits = 15;
const twoTo32 = 2 ** 32;
const bitBytesMax = 8;
const { copy1, copy2, copy4, copy8 } = arrowKernel.functions;

type IntegerBytes = 1 | 2 | 4 | 8;

const castIt = 'CAST it to another type';

/**
 * Numbers of binary rows. V8 compiles a function of its own for each size, so that none of them tests it.
 * @param bytes of each number
 */
export function copierOf(bytes: IntegerBytes): (cells: Cells, body: BatchBody) => void {
  switch (bytes) {
    case 1:
      return copierWith(copy1, 1, copyBytes);
    case 2:
      return copierWith(copy2, 2, copy2Bytes);
    case 4:
      return copierWith(copy4, 4, copy4Bytes);
    case 8:
      return copierWith(copy8, 8, copy8Bytes);
  }
}

function copierWith(
  copyInKernel: (cell: number, rows: number, at: number) => void,
  bytes: IntegerBytes,
  copy: (cells: Cells, body: BatchBody) => void,
): (cells: Cells, body: BatchBody) => void {
  return (cells, body) => {
    const { kernelCell, rows } = cells;
    const isWritten = body.writeInKernel(cells, rows * bytes, (at) => {
      copyInKernel(kernelCell, rows, at);
      return true;
    });
    if (!isWritten) copy(cells, body);
  };
}

function copyBytes({ view, starts, lengths, rows }: Cells, body: BatchBody): void {
  const at = body.begin(rows);
  const out = body.view;
  for (let row = 0; row < rows; row++)
    out.setInt8(at + row, lengths[row] === noCell ? 0 : view.getInt8(starts[row] as number));
  body.end(rows);
}

function copy2Bytes({ view, starts, lengths, rows }: Cells, body: BatchBody): void {
  const at = body.begin(rows * 2);
  const out = body.view;
  for (let row = 0, to = at; row < rows; row++, to += 2)
    out.setInt16(to, lengths[row] === noCell ? 0 : view.getInt16(starts[row] as number, true), true);
  body.end(rows * 2);
}

function copy4Bytes({ view, starts, lengths, rows }: Cells, body: BatchBody): void {
  const at = body.begin(rows * 4);
  const out = body.view;
  for (let row = 0, to = at; row < rows; row++, to += 4)
    out.setInt32(to, lengths[row] === noCell ? 0 : view.getInt32(starts[row] as number, true), true);
  body.end(rows * 4);
}

function copy8Bytes({ view, starts, lengths, rows }: Cells, body: BatchBody): void {
  const at = body.begin(rows * 8);
  const out = body.view;
  for (let row = 0, to = at; row < rows; row++, to += 8) {
    if (lengths[row] === noCell) {
      out.setInt32(to, 0, true);
      out.setInt32(to + 4, 0, true);
      continue;
    }
    const start = starts[row] as number;
    out.setInt32(to, view.getInt32(start, true), true);
    out.setInt32(to + 4, view.getInt32(start + 4, true), true);
  }
  body.end(rows * 8);
}

/** Integers of text rows. */
export function writeIntegers(cells: Cells, body: BatchBody, bytes: IntegerBytes, isSigned: boolean): void {
  const { starts, lengths, rows } = cells;
  const at = body.begin(rows * bytes);
  const out = body.view;
  const min = isSigned ? -(2 ** (8 * bytes - 1)) : 0;
  const max = 2 ** (isSigned ? 8 * bytes - 1 : 8 * bytes) - 1;
  for (let row = 0, to = at; row < rows; row++, to += bytes) {
    const start = starts[row] as number;
    const length = lengths[row] as number;
    if (bytes === 8) {
      if (length === noCell) writeInt64(out, to, 0);
      else writeLongText(cells, start, start + length, out, to, isSigned);
      continue;
    }
    const value = length === noCell ? 0 : integerOf(cells, start, start + length);
    if (value < min || value > max) throw new UnrepresentableError(String(value), castIt);
    if (bytes === 4) out.setInt32(to, value, true);
    else if (bytes === 2) out.setInt16(to, value, true);
    else out.setInt8(to, value);
  }
  body.end(rows * bytes);
}

/** The bytes of BIT columns: up to eight, the most significant first. @param orDigits whether a cell of digits is a number */
export function writeBits(cells: Cells, body: BatchBody, orDigits: boolean): void {
  const { source, starts, lengths, rows } = cells;
  const at = body.begin(rows * bitBytesMax);
  const { bytes, view: out } = body;
  for (let row = 0, to = at; row < rows; row++, to += bitBytesMax) {
    const start = starts[row] as number;
    const length = lengths[row] as number;
    writeInt64(out, to, 0);
    if (length === noCell) continue;
    const end = start + length;
    if (orDigits && areDigits(source, start, end)) {
      writeLongText(cells, start, end, out, to, false);
      continue;
    }
    if (length > bitBytesMax) throw new UnrepresentableError(source.toString('hex', start, end), castIt);
    for (let from = end - 1, byte = to; from >= start; from--, byte++) bytes[byte] = source[from] as number;
  }
  body.end(rows * bitBytesMax);
}

/** @param value of at most 53 bits */
export function writeInt64(out: DataView, to: number, value: number): void {
  out.setInt32(to, value | 0, true);
  out.setInt32(to + 4, Math.floor(value / twoTo32), true);
}

function areDigits(source: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const digit = (source[at] as number) - zero;
    if (digit < 0 || digit > 9) return false;
  }
  return end > start;
}

/** The integer that a cell prints, which loses digits beyond 15. */
function integerOf({ source }: Cells, start: number, end: number): number {
  const isNegative = source[start] === minus;
  let value = 0;
  const first = isNegative ? start + 1 : start;
  for (let at = first; at < end; at++) {
    const digit = (source[at] as number) - zero;
    if (digit < 0 || digit > 9) throw noNumber(source, start, end);
    value = value * 10 + digit;
  }
  if (first === end) throw noNumber(source, start, end);
  return isNegative ? -value : value;
}

function writeLongText(cells: Cells, start: number, end: number, out: DataView, to: number, isSigned: boolean): void {
  const { source } = cells;
  const value = integerOf(cells, start, end);
  if (end - start <= exactDigits && (isSigned || value >= 0)) {
    writeInt64(out, to, value);
    return;
  }
  const text = source.toString('latin1', start, end);
  const exact = BigInt(text);
  if ((isSigned ? BigInt.asIntN(64, exact) : BigInt.asUintN(64, exact)) !== exact) {
    throw new UnrepresentableError(text, castIt);
  }
  if (isSigned) out.setBigInt64(to, exact, true);
  else out.setBigUint64(to, exact, true);
}

export function noNumber(source: Buffer, start: number, end: number): UnrepresentableError {
  return new UnrepresentableError(source.toString('utf8', start, end), castIt);
}
