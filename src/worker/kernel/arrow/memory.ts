// The memory of Arrow's kernel: fixed regions, as in ../layout.ts.

import { bodyBytes, cellsMax, packetsBytes } from '../shared/arrow';
import { columnsMax } from '../shared/sizes';
import { blockBytes } from '../simd';

/** Cells of a row that ends too early are read past its end, one byte per column at most, before that is noticed. */
const packetsPadding = columnsMax + <i32>blockBytes;

/** By column, the bytes of its values in binary rows, or `anyLength`, or `byteLength`. */
export const sizes: usize = memory.data(columnsMax, 64);
/** Row packets, one after the other. */
export const packets: usize = memory.data(packetsBytes + packetsPadding, 64);
/** By column and then by row, where the bytes of a cell start in `packets`, 32 bits each. Without a meaning for NULL. */
export const starts: usize = memory.data(4 * cellsMax, 64);
/** In the same order, their lengths, 32 bits each, or `nullCell`. */
export const lengths: usize = memory.data(4 * cellsMax, 64);
/** The body of a record batch. Stores of whole vectors reach past its end. */
export const body: usize = memory.data(bodyBytes + <i32>blockBytes, 64);
