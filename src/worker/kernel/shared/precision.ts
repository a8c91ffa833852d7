// How many digits the servers print. Both print alike.

/** From this number of decimals on, a column has no fixed ones (MySQL source, `DECIMAL_NOT_SPECIFIED`). */
export const decimalsNotFixed = 31;
/** Digits of a FLOAT without fixed decimals (C, `FLT_DIG`). */
export const floatDigits = 6;
/** Numbers whose point would stand outside this range are printed with an exponent (MySQL source, `my_gcvt`). */
export const pointMin = -14;
export const pointMax = 15;
export const yearMax = 9_999;
/** Digits of the fraction of a second. */
export const fractionDigitsMax = 6;
export const microsecondsMax = 999_999;
