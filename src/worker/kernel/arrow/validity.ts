import { nullCell } from '../shared/arrow';
import { body, lengths } from './memory';

export function countNulls(cell: usize, rows: usize): u32 {
  const start = lengths + 4 * cell;
  const end = start + 4 * rows;
  let counts = i32x4.splat(0);
  let at = start;
  // The sign of a length says whether it is that of NULL.
  for (; at + 16 <= end; at += 16) counts = i32x4.sub(counts, i32x4.shr_s(v128.load(at), 31));
  let count = 0;
  for (; at < end; at += 4) count += i32(load<i32>(at) === nullCell);
  count += i32x4.extract_lane(counts, 0) + i32x4.extract_lane(counts, 1);
  return count + i32x4.extract_lane(counts, 2) + i32x4.extract_lane(counts, 3);
}

/** Writes a bit for each cell, 1 if it is not NULL. */
export function writeValidity(cell: usize, rows: usize, at: usize): void {
  const start = lengths + 4 * cell;
  let to = body + at;
  let row: usize = 0;
  for (; row + 8 <= rows; row += 8) {
    const from = start + 4 * row;
    const nulls = i32x4.bitmask(v128.load(from)) | (i32x4.bitmask(v128.load(from, 16)) << 4);
    store<u8>(to++, <u8>~nulls);
  }
  if (row === rows) return;
  let bits = 0;
  for (let bit = 0; row < rows; row++, bit++) bits |= i32(load<i32>(start + 4 * row) !== nullCell) << bit;
  store<u8>(to, <u8>bits);
}
