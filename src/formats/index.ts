import type { FormatName } from '../wire/statement.ts';
import { csv, tsv } from './delimited.ts';
import type { Format } from './format.ts';
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
export const formats: Readonly<Record<FormatName, Format>> = {
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
};
