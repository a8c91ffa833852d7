// How the bytes of a cell are written. One kind per column; the caller chooses it by the column's type and the format.

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
/**
 * Text of a CSV file (RFC 4180), quoted if it is empty or has a comma, a quote or an end of line. Malformed UTF-8 becomes U+FFFD.
 * Dates and times of binary rows are written without quotes.
 */
export const csvText = 11;
/**
 * Text of a TSV file, in which a backslash escapes tabs, line feeds, backslashes and NUL, as both databases do (MySQL manual,
 * "LOAD DATA Statement"). Otherwise as `csvText`.
 */
export const tsvText = 12;
/** As `hex`, without quotes. */
export const plainHex = 13;
