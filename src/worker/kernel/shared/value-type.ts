// How a value of a binary row is encoded (MySQL internals manual, "Binary Protocol Value"). Integers and floats are
// little-endian. The kernel relies on the order: unsigned integers have even numbers, and `date` is the first type whose
// first byte is its length.

/** A length-encoded string. */
export const string = 0;
export const int8 = 1;
export const uint8 = 2;
export const int16 = 3;
export const uint16 = 4;
export const int32 = 5;
export const uint32 = 6;
export const int64 = 7;
export const uint64 = 8;
export const float = 9;
export const double = 10;
/** Length 0 or 4, or 7 or 11 with a time of day that is not printed. Omitted parts are zero, here and below. */
export const date = 11;
/** Length 0, 4, 7 or 11. */
export const datetime = 12;
/** Length 0, 8 or 12. */
export const time = 13;
