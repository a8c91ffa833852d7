import { writeInvalid } from './cell-text.ts';
import * as ascii from './kernel/shared/ascii.ts';
import * as invalidCell from './kernel/shared/invalid-cell.ts';

// V8 reads a constant of the own module faster than an imported one.
const { letterE, minus, plus, point, quote, zero } = ascii;

/** Writes a JSON number. Anything else, such as "inf" or digits in UTF-16, is written as text. */
export function writeNumber(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  const stop = writeDigits(out, at, source, start, end);
  return stop < 0 ? writeInvalid(invalidCell.text, out, at, source, start, end) : stop;
}

export function writeQuotedNumber(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  const stop = writeDigits(out, at + 1, source, start, end);
  if (stop < 0) return writeInvalid(invalidCell.text, out, at, source, start, end);
  out[at] = out[stop] = quote;
  return stop + 1;
}

/**
 * Writes the cell as a JSON number (RFC 8259, section 6). A valid number is copied byte for byte. Both servers print some numbers
 * that are not valid JSON, which are rewritten:
 * - leading zeros are dropped: ZEROFILL, YEAR 0000, and MySQL's 0000-0 for a FLOAT ZEROFILL of -0
 * - a leading plus, and a point without digits after it, are dropped: MariaDB prints `0.` for a DOUBLE without decimals
 * - a leading point gets a zero before it
 * @returns -1 if the cell is not a number: it has another byte, or a part without digits
 */
function writeDigits(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let to = at;
  const copy = (from: number, stop: number): void => {
    for (let index = from; index < stop; index++) out[to++] = source[index] as number;
  };
  let from = start;
  while (from < end - 1 && source[from] === zero) from++;
  if (source[from] !== minus) from = start;
  if (from < end && (source[from] === minus || source[from] === plus)) {
    if (source[from] === minus) out[to++] = minus;
    from++;
  }
  const wholeEnd = digitsEnd(source, from, end);
  const fraction = wholeEnd < end && source[wholeEnd] === point ? wholeEnd + 1 : wholeEnd;
  const fractionEnd = digitsEnd(source, fraction, end);
  if (wholeEnd === from && fractionEnd === fraction) return -1;
  while (from < wholeEnd && source[from] === zero) from++;
  if (from === wholeEnd) out[to++] = zero;
  copy(from, wholeEnd);
  if (fractionEnd > fraction) {
    out[to++] = point;
    copy(fraction, fractionEnd);
  }
  if (fractionEnd === end) return to;
  if (((source[fractionEnd] as number) | 0x20) !== letterE) return -1;
  let power = fractionEnd + 1;
  if (power < end && (source[power] === minus || source[power] === plus)) power++;
  if (power === end || digitsEnd(source, power, end) !== end) return -1;
  copy(fractionEnd, end);
  return to;
}

/** The first position from `from` on whose byte is not a digit. */
function digitsEnd(source: Uint8Array, from: number, end: number): number {
  let to = from;
  while (to < end && isDigit(source[to])) to++;
  return to;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= zero && byte <= zero + 9;
}

/** Whether there are bytes, and all are digits. */
export function areDigits(source: Uint8Array, start: number, end: number): boolean {
  for (let from = start; from < end; from++) if (!isDigit(source[from])) return false;
  return end > start;
}
