// Sizes of the kernel's memory regions. TypeScript compiles the files of this folder for the worker and AssemblyScript for
// the kernel, so they declare constants and nothing else.

/** Bytes before the read region, for the part of a packet that the previous chunk ended with. */
export const headroomBytes = 64 * 1024;
/** Bytes of the region that a socket reads into. */
export const readBytes = 256 * 1024;
/** Bytes of the region that rows are written to. */
export const outputBytes = 512 * 1024;
/** The most columns of a table (MySQL manual, "Limits on Table Column Count and Row Size"). A result may have more. */
export const columnsMax = 4096;
/** Rows that fit in the input: each has at least a packet header of 4 bytes. */
export const rowsRoom = (headroomBytes + readBytes) / 4;
/** Bytes of a large cell that one call encodes. */
export const cellPieceBytes = 64 * 1024;

/** The most bytes of output for one byte of a cell: `\u0000` in JSON. */
export const cellGrowthMax = 6;
/** The most bytes that a cell needs besides: quotes, a separator, and the 20 digits of a 64-bit BIT. */
export const cellOverheadMax = 24;

/** Bytes of the keys of a row that is an object. Rows with longer ones are not encoded by the kernel. */
export const keysBytes = 64 * 1024;

/** Range of the powers of ten in the `powers` table: enough for every finite double (see kernel/shortest.ts). */
export const powerMin = -292;
export const powerMax = 324;
