// The kernel's memory: fixed regions, laid out when it is compiled. Nothing is allocated later.
//
// Loads and stores move whole vectors, also at the end of a cell. The bytes that a store writes past the end are overwritten
// by the next one, and padding behind each region keeps such accesses inside it.

import {
  cellPieceBytes,
  columnsMax,
  headroomBytes,
  keysBytes,
  outputBytes,
  powerMax,
  powerMin,
  readBytes,
  rowsRoom,
} from './shared/sizes';
import { blockBytes } from './simd';

/** The null bitmap of a malformed packet is read past its end, one byte per column at most, before that is noticed. */
const inputPadding = columnsMax + 64;
const outputPadding = 64;

/** A cell kind per column, 8 bits each. */
export const kinds: usize = memory.data(columnsMax);
/** `RowFormat.values`: a value type and decimals per column, 16 bits each. */
export const values: usize = memory.data(2 * columnsMax, 2);
/** The keys of a row that is an object, one after the other: `"name":`. */
export const keys: usize = memory.data(keysBytes + <i32>blockBytes, 64);
/** Per column, the end of its key in `keys`, 32 bits each. */
export const keyEnds: usize = memory.data(4 * columnsMax, 4);
/** Powers of ten from `powerMin` to `powerMax`, two numbers of 63 bits each. The loader writes them. */
export const powers: usize = memory.data(16 * (powerMax - powerMin + 1), 8);
/** `headroomBytes`, then `readBytes`. */
export const input: usize = memory.data(headroomBytes + readBytes + inputPadding, 64);
export const output: usize = memory.data(outputBytes + outputPadding, 64);
/** Per row, the offset of its end in the batch, 32 bits each. */
export const rowEnds: usize = memory.data(4 * rowsRoom, 64);
/** Part of a cell that is too large for `encode`. */
export const cellPiece: usize = memory.data(cellPieceBytes + <i32>blockBytes, 64);
