// Read by both compilers, TypeScript's for the loader and AssemblyScript's for the kernel: constants alone.

/** Room before the read region for what a chunk left over. */
export const headroomBytes = 64 * 1024;
/** Where a socket reads to. */
export const readBytes = 256 * 1024;
/** Where rows are written. */
export const outputBytes = 512 * 1024;
/** As many as a table can have (MySQL manual, "Limits on Table Column Count and Row Size"); a result may have more. */
export const columnsMax = 4096;
/** No row is shorter than its packet's header. */
export const rowsRoom = (headroomBytes + readBytes) / 4;
/** The most of a large cell that is encoded at once. */
export const cellPieceBytes = 64 * 1024;

/** The powers of ten that a double is multiplied by to have its digits before the point (see `setDigits`). */
export const powerMin = -292;
export const powerMax = 324;
