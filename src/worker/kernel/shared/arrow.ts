// Of Arrow's kernel (see sizes.ts for what these files may declare).

/** Bytes of row packets that one call takes. */
export const packetsBytes = 512 * 1024;
/** Cells of those packets. */
export const cellsMax = 128 * 1024;
/** Bytes of the body of a record batch. */
export const bodyBytes = 1024 * 1024;

/** The length of a cell that is NULL. */
export const nullCell = -1;

/** Instead of the bytes of a column's values: a length-encoded string. */
export const anyLength = 0;
/** A date or time, with its length in one byte. */
export const byteLength = 0xff;
