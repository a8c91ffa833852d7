// Numbers of binary rows. NULL is 0.

import { nullCell } from '../shared/arrow';
import { body, lengths, packets, starts } from './memory';

export function copy1(cell: usize, rows: usize, at: usize): void {
  Numbers.copy<u8>(cell, rows, at);
}

export function copy2(cell: usize, rows: usize, at: usize): void {
  Numbers.copy<u16>(cell, rows, at);
}

export function copy4(cell: usize, rows: usize, at: usize): void {
  Numbers.copy<u32>(cell, rows, at);
}

export function copy8(cell: usize, rows: usize, at: usize): void {
  Numbers.copy<u64>(cell, rows, at);
}

/** All bits of the exponent, which only a double that is not finite has. */
const exponentBits: u64 = 0x7ff0000000000000;

/** What is not finite becomes 0. */
export function copyDoubles(cell: usize, rows: usize, at: usize): void {
  const startsAt = starts + 4 * cell;
  const lengthsAt = lengths + 4 * cell;
  for (let row: usize = 0; row < rows; row++) {
    let bits: u64 = 0;
    if (load<i32>(lengthsAt + 4 * row) !== nullCell) bits = load<u64>(packets + load<u32>(startsAt + 4 * row));
    store<u64>(body + at + 8 * row, (bits & exponentBits) === exponentBits ? 0 : bits);
  }
}

class Numbers {
  @inline static copy<T>(cell: usize, rows: usize, at: usize): void {
    const startsAt = starts + 4 * cell;
    const lengthsAt = lengths + 4 * cell;
    for (let row: usize = 0; row < rows; row++) {
      let value = <T>0;
      if (load<i32>(lengthsAt + 4 * row) !== nullCell) value = load<T>(packets + load<u32>(startsAt + 4 * row));
      store<T>(body + at + sizeof<T>() * row, value);
    }
  }
}
