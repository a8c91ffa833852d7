import { nullCell } from '../shared/arrow';
import { minus, point, zero } from '../shared/ascii';
import { body, lengths, packets, starts } from './memory';

/** Up to so many digits, a decimal fits in 64 bits. */
const digitsMax: u32 = 18;

/** Ten to the powers from 0 to `digitsMax`. */
const powers: usize = memory.data<u64>([
  1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000,
  10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
]);

/** Fixed-point numbers as the databases print them, of 16 or 32 bytes each. NULL is 0. */
export function writeDecimals(cell: usize, rows: usize, at: usize, bytes: usize, precision: u32, scale: u32): bool {
  const startsAt = starts + 4 * cell;
  const lengthsAt = lengths + 4 * cell;
  const limit = load<u64>(powers + 8 * <usize>min(precision, digitsMax));
  let to = body + at;
  for (let row: usize = 0; row < rows; row++, to += bytes) {
    const length = load<i32>(lengthsAt + 4 * row);
    let value: i64 = 0;
    if (length !== nullCell) {
      let from = packets + load<u32>(startsAt + 4 * row);
      const end = from + length;
      const isNegative = length > 0 && load<u8>(from) === minus;
      if (isNegative) from++;
      const first = from;
      let absolute: u64 = 0;
      for (; from < end; from++) {
        const digit = <u32>load<u8>(from) - zero;
        if (digit > 9) break;
        absolute = absolute * 10 + digit;
      }
      let digits = <u32>(from - first);
      let missing = scale;
      if (from < end) {
        if (load<u8>(from) !== point) return false;
        const fraction = ++from;
        for (; from < end; from++) {
          const digit = <u32>load<u8>(from) - zero;
          if (digit > 9) return false;
          absolute = absolute * 10 + digit;
        }
        const count = <u32>(from - fraction);
        if (count > scale) return false;
        digits += count;
        missing -= count;
      }
      if (digits === 0 || digits + missing > digitsMax) return false;
      absolute *= load<u64>(powers + 8 * <usize>missing);
      if (absolute >= limit) return false;
      value = isNegative ? -(<i64>absolute) : <i64>absolute;
    }
    const sign = value >> 63;
    store<i64>(to, value);
    store<i64>(to, sign, 8);
    if (bytes === 32) {
      store<i64>(to, sign, 16);
      store<i64>(to, sign, 24);
    }
  }
  return true;
}
