// Why the kernel stopped encoding.

/** Less than a packet is left of the input. */
export const inputUsed = 0;
/** An ERR or EOF packet follows. */
export const notARow = 1;
/** The next row might not fit in the rest of the output. */
export const outputFull = 2;
/** The batch has the most rows that the caller allows. */
export const rowsMax = 3;
/** The kernel cannot encode the next row: its packet is too large, received in full or not, or a BIT value exceeds 64 bits. */
export const largeRow = 4;
/** The JSON of the next row exceeds the limit for a row. */
export const rowTooLarge = 5;
/** The next row's packet is malformed. The loader throws for it. */
export const malformed = 6;
