import type { ArrowFormatName, TextFormatName } from '../wire/statement.ts';
import {
  arrow,
  arrowWithZeroDatesAsNull,
  arrowWithZeroDatesAsText,
  plainArrow,
  plainArrowColumnsMax,
} from './arrow/arrow.ts';
import { csv, tsv } from './delimited.ts';
import type { ArrowFormat, Format, TextFormat } from './format.ts';
import {
  json,
  jsonStrings,
  jsonStringsAndNull,
  jsonWithLargeIntegersAsStrings,
  ndjsonArrays,
  ndjsonArraysWithStrings,
  ndjsonObjects,
  ndjsonObjectsWithStrings,
} from './json.ts';

/** All formats, by the names under which requests and messages between threads choose them. */
export const formats: Readonly<Record<TextFormatName, TextFormat> & Record<ArrowFormatName, ArrowFormat>> = {
  json,
  'json, large integers as strings': jsonWithLargeIntegersAsStrings,
  'json strings': jsonStrings,
  'json strings, NULL too': jsonStringsAndNull,
  'ndjson, arrays': ndjsonArrays,
  'ndjson, objects': ndjsonObjects,
  'ndjson, arrays, large integers as strings': ndjsonArraysWithStrings,
  'ndjson, objects, large integers as strings': ndjsonObjectsWithStrings,
  csv,
  tsv,
  arrow,
  'arrow, zero dates as null': arrowWithZeroDatesAsNull,
  'arrow, zero dates as text': arrowWithZeroDatesAsText,
  'arrow, plain': plainArrow,
};

/** The format of a result with so many columns. */
export function formatFor(format: Format, columns: number): Format {
  return format === plainArrow && columns > plainArrowColumnsMax ? jsonStrings : format;
}

export function isArrow(format: Format): format is ArrowFormat {
  return 'zeroDates' in format;
}
