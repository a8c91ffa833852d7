// The memory of Arrow's kernel: fixed regions, as in ../layout.ts. Padding behind each is for loads and stores of whole vectors.

import { arrowBodyBytes, arrowCellsMax, arrowPacketsBytes, columnsMax } from '../shared/sizes';
import { blockBytes } from '../simd';

/** The null bitmap of a malformed packet is read past its end before that is noticed. */
const packetsPadding = columnsMax + 64;

/** By column, the bytes of its values; 0: a length comes first. The rows are binary. */
export const sizes: usize = memory.data(columnsMax, 64);
/** Row packets, one after the other. */
export const packets: usize = memory.data(arrowPacketsBytes + packetsPadding, 64);
/** By column and then by row, where the bytes of a cell start in `packets`, 32 bits each. Without a meaning for NULL. */
export const starts: usize = memory.data(4 * arrowCellsMax + <i32>blockBytes, 64);
/** In the same order, their lengths, 32 bits each; -1 for NULL. */
export const lengths: usize = memory.data(4 * arrowCellsMax + <i32>blockBytes, 64);
/** The body of a record batch. */
export const body: usize = memory.data(arrowBodyBytes + <i32>blockBytes, 64);

export const nullLength: i32 = -1;
