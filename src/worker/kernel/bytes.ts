import { Decimal } from './decimal';
import { areDigits, writeNumber, writeQuotedNumber } from './number';
import { quote } from './shared/ascii';
import * as cellKind from './shared/cell-kind';
import * as stop from './shared/stop';
import { vectorBytes } from './simd';

const hexDigits = i8x16(0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46);

/** Writes bytes as a string of upper-case hex. */
export function writeHex(at: usize, start: usize, end: usize): usize {
  store<u8>(at, quote);
  const to = writePlainHex(at + 1, start, end);
  store<u8>(to, quote);
  return to + 1;
}

/** The same without quotes. */
export function writePlainHex(at: usize, start: usize, end: usize): usize {
  let to = at;
  for (let from = start; from < end; from += vectorBytes) {
    const vector = v128.load(from);
    const high = i8x16.swizzle(hexDigits, i8x16.shr_u(vector, 4));
    const low = i8x16.swizzle(hexDigits, v128.and(vector, i8x16.splat(0x0f)));
    v128.store(to, i8x16.shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
    v128.store(to, i8x16.shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), vectorBytes);
    to += 2 * min(vectorBytes, end - from);
  }
  return to;
}

/** Writes a cell of one of the four bit kinds. Returns `stop.largeRow` for more than 64 bits. */
export function writeBits(kind: u8, at: usize, start: usize, end: usize): usize {
  const isQuoted = <i32>kind >= cellKind.quotedBits;
  if ((kind === cellKind.bitsOrDigits || kind === cellKind.quotedBitsOrDigits) && areDigits(start, end)) {
    return isQuoted ? writeQuotedNumber(at, start, end) : writeNumber(at, start, end);
  }
  let from = start;
  while (from < end && load<u8>(from) === 0) from++;
  if (end - from > 8) return stop.largeRow;
  if (!isQuoted) return writeBigEndian(at, from, end);
  store<u8>(at, quote);
  const to = writeBigEndian(at + 1, from, end);
  store<u8>(to, quote);
  return to + 1;
}

/** Writes up to eight bytes as a decimal number. */
function writeBigEndian(at: usize, start: usize, end: usize): usize {
  let value: u64 = 0;
  for (let from = start; from < end; from++) value = (value << 8) | load<u8>(from);
  return Decimal.writeUnsigned(at, value);
}
