import { copyBytes } from '../simd';
import { body, lengths, packets, starts } from './memory';

/** From this length on, the engine's own copying is faster. */
const longBytes = 512;

/** Writes the offsets of the texts, one more than there are cells. Returns the bytes of all texts. */
export function writeOffsets(cell: usize, rows: usize, at: usize): u32 {
  const lengthsAt = lengths + 4 * cell;
  let to = body + at;
  let bytes: u32 = 0;
  store<u32>(to, 0);
  for (let row: usize = 0; row < rows; row++) {
    // NULL has no bytes, and its length is negative.
    bytes += <u32>max(0, load<i32>(lengthsAt + 4 * row));
    to += 4;
    store<u32>(to, bytes);
  }
  return bytes;
}

/** Copies the bytes of the cells. False: a cell begins within a character of UTF-8. */
export function copyTexts(cell: usize, rows: usize, at: usize): bool {
  const startsAt = starts + 4 * cell;
  const lengthsAt = lengths + 4 * cell;
  let to = body + at;
  let areWhole = true;
  for (let row: usize = 0; row < rows; row++) {
    const length = load<i32>(lengthsAt + 4 * row);
    if (length <= 0) continue;
    const from = packets + load<u32>(startsAt + 4 * row);
    if ((load<u8>(from) & 0xc0) === 0x80) areWhole = false;
    if (length < longBytes) {
      to = copyBytes(to, from, from + length);
    } else {
      memory.copy(to, from, length);
      to += length;
    }
  }
  return areWhole;
}
