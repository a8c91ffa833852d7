// How the bytes of a cell become JSON. One kind per column; the caller chooses it by the column's type and the format.

/** A number, rewritten to the grammar of JSON (RFC 8259, section 6) where it deviates. */
export const number = 0;
/** Text, quoted and escaped. Malformed UTF-8 becomes U+FFFD. */
export const text = 1;
/** Bytes, quoted, as upper-case hex. */
export const hex = 2;
/** A JSON document, copied. */
export const json = 3;
/** Up to eight bytes, big-endian, as a decimal number. */
export const bits = 4;
/**
 * Either `bits` or ASCII digits: for some expressions the servers send digits and do not say so. A cell of digits only is
 * read as digits, which is wrong for a value such as 0x35 that was sent as bytes.
 */
export const bitsOrDigits = 5;
/** As `number`, quoted. */
export const quotedNumber = 6;
/** As `bits`, quoted. */
export const quotedBits = 7;
/** As `bitsOrDigits`, quoted. */
export const quotedBitsOrDigits = 8;
/** `YYYY-MM-DD`, quoted. NULL if the month or the day is 00. */
export const date = 9;
/** `YYYY-MM-DD hh:mm:ss.ffffff`, quoted, padded to six digits of a fraction. NULL if the month or the day is 00. */
export const timestamp = 10;
