import { decimalsNotFixed, valueText, valueType } from '../binary-values.ts';
import * as ascii from '../kernel/shared/ascii.ts';
import { floatDigits } from '../kernel/shared/precision.ts';
import type { BatchBody } from './batch-body.ts';
import { type Cells, nullCell } from './cells.ts';
import { noNumber } from './integers.ts';
import { arrowKernel } from './kernel.ts';

// V8 reads a constant of the own module faster than an imported one.
const { minus, point, zero } = ascii;
const noCell = nullCell;

/** Powers of ten that are doubles. A quotient of two numbers that are exact is rounded once. */
const powersOfTen = Array.from({ length: 23 }, (_, power) => 10 ** power);

type FloatBytes = 4 | 8;

/** Numbers of text rows. */
export function writeFloats(cells: Cells, body: BatchBody, bytes: FloatBytes): void {
  const { starts, lengths } = cells;
  writeEach(cells, body, bytes, (row) => numberOf(cells, starts[row] as number, lengths[row] as number));
}

/** Numbers of binary rows: those that the database prints in text rows, so that a statement has the same values in both. */
export function writeBinaryFloats(cells: Cells, body: BatchBody, bytes: FloatBytes, decimals: number): void {
  const { view, starts, rows, kernelCell } = cells;
  if (bytes === 8 && decimals >= decimalsNotFixed) {
    const isWritten = body.writeInKernel(cells, rows * bytes, (at) => {
      arrowKernel.functions.copyDoubles(kernelCell, rows, at);
      return true;
    });
    if (isWritten) return;
    writeEach(cells, body, bytes, (row) => finite(view.getFloat64(starts[row] as number, true)));
    return;
  }
  const type = bytes === 8 ? valueType.double : valueType.float;
  const printed = (row: number): number => Number(valueText(type, decimals, view, starts[row] as number));
  if (bytes === 8 || decimals < decimalsNotFixed) {
    writeEach(cells, body, bytes, printed);
    return;
  }
  writeEach(cells, body, bytes, (row) => {
    const value = view.getFloat32(starts[row] as number, true);
    // A number of so few digits is printed as it is.
    if (Number.isInteger(value) && Math.abs(value) < wholeMax) return value;
    const rounded = Number(value.toPrecision(floatDigits));
    // Half of a digit is rounded in a way of its own.
    return Number(value.toPrecision(floatDigits + 1)) === value ? printed(row) : finite(rounded);
  });
}

const wholeMax = 10 ** floatDigits;

/** Both servers print what is not finite as 0. */
function finite(value: number): number {
  return Number.isFinite(value) ? value : 0;
}

function writeEach(
  { lengths, rows }: Cells,
  body: BatchBody,
  bytes: FloatBytes,
  numberIn: (row: number) => number,
): void {
  const at = body.begin(rows * bytes);
  const out = body.view;
  for (let row = 0, to = at; row < rows; row++, to += bytes) {
    const value = lengths[row] === noCell ? 0 : numberIn(row);
    if (bytes === 4) out.setFloat32(to, value, true);
    else out.setFloat64(to, value, true);
  }
  body.end(rows * bytes);
}

function numberOf({ source }: Cells, start: number, length: number): number {
  const end = start + length;
  const isNegative = source[start] === minus;
  let digits = 0;
  let fractionDigits = 0;
  let hasPoint = false;
  let at = isNegative ? start + 1 : start;
  for (; at < end; at++) {
    const byte = source[at] as number;
    if (byte === point && !hasPoint) {
      hasPoint = true;
      continue;
    }
    const digit = byte - zero;
    if (digit < 0 || digit > 9) break;
    digits = digits * 10 + digit;
    if (hasPoint) fractionDigits++;
  }
  if (at === end && length > 0 && digits <= Number.MAX_SAFE_INTEGER && fractionDigits < powersOfTen.length) {
    const value = digits / (powersOfTen[fractionDigits] as number);
    return isNegative ? -value : value;
  }
  const value = length === 0 ? Number.NaN : Number(source.toString('latin1', start, end));
  if (Number.isNaN(value)) throw noNumber(source, start, end);
  return value;
}
