// The format of the rows that `encode` reads, set once per statement.

import { keyEnds, values } from './layout';
import { decimalsNotFixed } from './shared/precision';
import { cellOverheadMax } from './shared/sizes';
import * as valueType from './shared/value-type';

/** Output bytes that a DOUBLE of fixed decimals needs besides its growth: 309 digits, a point and 30 decimals. */
const fixedOverhead: usize = 320;

export let columns: usize = 0;
/** Whether the rows are of the binary protocol. */
export let isBinary: bool = false;
/** Whether each cell follows its key. */
export let hasKeys: bool = false;
/** The byte between rows. */
export let rowSeparator: u8 = 0;
/** The byte between cells. */
export let cellSeparator: u8 = 0;
/** The bytes around a row, and how many there are of each: 1 or 0. */
export let rowOpen: u8 = 0;
export let rowOpenBytes: usize = 0;
export let rowClose: u8 = 0;
export let rowCloseBytes: usize = 0;
/** NULL and the separator behind it, little-endian, and their length. */
export let nullCell: u64 = 0;
export let nullBytes: usize = 0;
/** Output bytes that a row may need besides the growth of its bytes. */
export let rowOverhead: usize = 0;

/** Sets the bytes around rows and cells (see `RowLayout`). An absent byte is 0. */
export function setLayout(
  open: u8,
  separator: u8,
  close: u8,
  betweenRows: u8,
  nullAndSeparator: u64,
  length: u32,
): void {
  rowOpen = open;
  rowOpenBytes = usize(open !== 0);
  cellSeparator = separator;
  rowClose = close;
  rowCloseBytes = usize(close !== 0);
  rowSeparator = betweenRows;
  nullCell = nullAndSeparator;
  nullBytes = length;
}

/** Sets the columns. The loader has written `kinds`, `values` for a binary format, and `keys` and `keyEnds` if there are keys. */
export function setColumns(count: i32, binary: bool, keyed: bool): void {
  columns = count;
  isBinary = binary;
  hasKeys = keyed;
  rowOverhead = columns * cellOverheadMax + 2;
  if (keyed && columns > 0) rowOverhead += load<u32>(keyEnds + 4 * (columns - 1));
  for (let column: usize = 0; binary && column < columns; column++) {
    const value: i32 = load<u16>(values + 2 * column);
    const type = value & 0xff;
    if ((type === valueType.float || type === valueType.double) && value >> 8 < decimalsNotFixed) {
      rowOverhead += fixedOverhead;
    }
  }
}
