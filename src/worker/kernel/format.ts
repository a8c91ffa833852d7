// The format of the rows that `encode` reads, set once per statement.

import { values } from './layout';
import { decimalsNotFixed } from './shared/precision';
import { cellOverheadMax } from './shared/sizes';
import * as valueType from './shared/value-type';

const nullComma: u64 = 0x2c6c6c756e;
const nullTextComma: u64 = 0x2c224c4c554e22;

/** Output bytes that a DOUBLE of fixed decimals needs besides its growth: 309 digits, a point and 30 decimals. */
const fixedOverhead: usize = 320;

export let columns: usize = 0;
/** Whether the rows are of the binary protocol. */
export let isBinary: bool = false;
/** NULL and the comma behind it, little-endian, and their length. */
export let nullCell: u64 = 0;
export let nullBytes: usize = 0;
/** Output bytes that a row may need besides the growth of its bytes. */
export let rowOverhead: usize = 0;

/** Sets the format. The loader has written `kinds`, and `values` for a binary format. */
export function setFormat(columnCount: i32, nullsAreText: bool, binary: bool): void {
  columns = columnCount;
  isBinary = binary;
  rowOverhead = columns * cellOverheadMax + 2;
  for (let column: usize = 0; binary && column < columns; column++) {
    const value: i32 = load<u16>(values + 2 * column);
    const type = value & 0xff;
    if ((type === valueType.float || type === valueType.double) && value >> 8 < decimalsNotFixed) {
      rowOverhead += fixedOverhead;
    }
  }
  nullCell = nullsAreText ? nullTextComma : nullComma;
  nullBytes = nullsAreText ? 7 : 5;
}
