// Cells that contradict their column's type, one bit each.

/** Text that is not UTF-8, or a number that is not one. The servers themselves sometimes cut a text within a character. */
export const text = 1;
/** A JSON column's cell that is not a JSON document. */
export const json = 2;
