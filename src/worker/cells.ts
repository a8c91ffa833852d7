import { cellKind } from '../formats/cell-kind.ts';
import { writeCsv, writeTsv } from './cell-delimited.ts';
import { writeJson } from './cell-json.ts';
import { areDigits, writeNumber, writeQuotedNumber } from './cell-number.ts';
import { writeCharacters, writeText } from './cell-text.ts';
import { quote, zero } from './kernel/shared/ascii.ts';

/**
 * Defines the text of a cell of each kind, from the bytes of MySQL's text protocol. The functions take the target and the
 * position to write at, the source and the range of the cell, and return the position after the last byte written. The caller
 * makes room according to `cellGrowthMax` and `cellOverheadMax`. The kernel does the same for rows that fit in its memory.
 */

export { isJsonText } from './cell-json.ts';
export { takeInvalid } from './cell-text.ts';
export * as invalidCell from './kernel/shared/invalid-cell.ts';
export { cellGrowthMax, cellOverheadMax } from './kernel/shared/sizes.ts';

const dateLength = 'YYYY-MM-DD'.length;
const monthOffset = 'YYYY-'.length;
const dayOffset = 'YYYY-MM-'.length;
const secondsLength = 'YYYY-MM-DD hh:mm:ss'.length;
const microsecondsLength = 'YYYY-MM-DD hh:mm:ss.ffffff'.length;
const zeroFraction = Buffer.from('.000000');

const upperHex = Uint8Array.from('0123456789ABCDEF', (digit) => digit.charCodeAt(0));

/** @param nullBytes written for a date without a month or a day (see `RowLayout`) */
export function writeCell(
  kind: number,
  out: Uint8Array,
  at: number,
  source: Uint8Array,
  start: number,
  end: number,
  nullBytes: Uint8Array,
): number {
  switch (kind) {
    case cellKind.number:
      return writeNumber(out, at, source, start, end);
    case cellKind.hex: {
      out[at] = quote;
      const stop = writeHex(out, at + 1, source, start, end);
      out[stop] = quote;
      return stop + 1;
    }
    case cellKind.json:
      return writeJson(out, at, source, start, end);
    case cellKind.bits:
      return writeBits(out, at, source, start, end);
    case cellKind.bitsOrDigits:
      return (areDigits(source, start, end) ? writeNumber : writeBits)(out, at, source, start, end);
    case cellKind.quotedNumber:
      return writeQuotedNumber(out, at, source, start, end);
    case cellKind.quotedBits:
      return writeQuotedBits(out, at, source, start, end);
    case cellKind.quotedBitsOrDigits:
      return (areDigits(source, start, end) ? writeQuotedNumber : writeQuotedBits)(out, at, source, start, end);
    case cellKind.date:
    case cellKind.timestamp: {
      if (isZeroDate(source, start, end)) {
        out.set(nullBytes, at);
        return at + nullBytes.length;
      }
      out[at] = quote;
      let stop = writeCharacters(out, at + 1, source, start, end);
      if (kind === cellKind.timestamp) stop = padFraction(out, stop, end - start);
      out[stop] = quote;
      return stop + 1;
    }
    case cellKind.csvText:
      return writeCsv(out, at, source, start, end);
    case cellKind.tsvText:
      return writeTsv(out, at, source, start, end);
    case cellKind.plainHex:
      return writeHex(out, at, source, start, end);
    default:
      return writeText(out, at, source, start, end);
  }
}

/** Whether the month or the day is 00, as it is in "0000-00-00" and "2024-01-00". */
function isZeroDate(source: Uint8Array, start: number, end: number): boolean {
  if (end - start < dateLength) return false;
  const isZero = (at: number): boolean => source[at] === zero && source[at + 1] === zero;
  return isZero(start + monthOffset) || isZero(start + dayOffset);
}

/** Pads the fraction of a timestamp of `length` characters to six digits. */
function padFraction(out: Uint8Array, at: number, length: number): number {
  if (length < secondsLength || length >= microsecondsLength) return at;
  const rest = zeroFraction.subarray(length - secondsLength);
  out.set(rest, at);
  return at + rest.length;
}

function writeHex(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let to = at;
  for (let from = start; from < end; from++) {
    const byte = source[from] as number;
    out[to++] = upperHex[byte >> 4] as number;
    out[to++] = upperHex[byte & 15] as number;
  }
  return to;
}

/** Writes big-endian bytes as a decimal number. */
function writeBits(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  let value = 0n;
  for (let from = start; from < end; from++) value = (value << 8n) | BigInt(source[from] as number);
  let to = at;
  for (const digit of value.toString()) out[to++] = digit.charCodeAt(0);
  return to;
}

function writeQuotedBits(out: Uint8Array, at: number, source: Uint8Array, start: number, end: number): number {
  const stop = writeBits(out, at + 1, source, start, end);
  out[at] = out[stop] = quote;
  return stop + 1;
}
