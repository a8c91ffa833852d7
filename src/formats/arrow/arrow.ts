import type { ArrowFormat } from '../format.ts';

/** A date that has no value in Arrow fails the statement. */
export const arrow: ArrowFormat = { name: 'arrow', zeroDates: 'fail', isPlain: false };

export const arrowWithZeroDatesAsNull: ArrowFormat = {
  name: 'arrow, zero dates as null',
  zeroDates: 'null',
  isPlain: false,
};

/** All dates are texts. */
export const arrowWithZeroDatesAsText: ArrowFormat = {
  name: 'arrow, zero dates as text',
  zeroDates: 'string',
  isPlain: false,
};

/** For clients whose pages may be JSON as well. Wide results are (see `plainArrowColumnsMax`). */
export const plainArrow: ArrowFormat = { name: 'arrow, plain', zeroDates: 'null', isPlain: true };

/** With more columns, the schema of Arrow would take the main thread too long for each page. */
export const plainArrowColumnsMax = 256;
