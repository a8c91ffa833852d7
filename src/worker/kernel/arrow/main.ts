// Writes the columns of a record batch of Arrow from the rows of MySQL's protocols, column by column. AssemblyScript, as the
// kernel beside it; src/worker/arrow/kernel.ts loads it. It knows the usual values alone: where a function returns false, the
// files of src/worker/arrow, which define the values, write the column.
// `cell` is the number of the first cell of a column, `at` a position in the body.

export { findCells } from './cells';
export { writeDates, writeTimestamps } from './dates';
export { writeDecimals } from './decimals';
export { body, lengths, packets, sizes, starts } from './memory';
export { copy1, copy2, copy4, copy8, copyDoubles } from './numbers';
export { copyTexts, writeOffsets } from './texts';
export { countNulls, writeValidity } from './validity';
