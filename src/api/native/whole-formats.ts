import type { ZeroDates } from '../../formats/arrow/arrow-type.ts';
import { streamType } from '../../formats/arrow/messages.ts';
import { httpErrors } from '../../http/http-error.ts';
import type { FileFormat, WholeFormat } from '../whole-format.ts';
import { arrowFile, arrowStream, parquetFile } from './arrow-formats.ts';
import {
  csv,
  csvWithoutHeader,
  json,
  ndjsonArrays,
  ndjsonObjects,
  type TextFormat,
  tsv,
  tsvWithoutHeader,
} from './text-formats.ts';

const textNames = ['csv', 'tsv', 'ndjson', 'json'] as const;
type TextName = (typeof textNames)[number];
const names = [...textNames, 'arrow'] as const;
type Name = (typeof names)[number];
const fileNames = [...names, 'parquet'] as const;

/** JSON is the type of pages as well, so that a client who accepts it gets these. */
const nameByType: ReadonlyMap<string, Name> = new Map([
  ['text/csv', 'csv'],
  ['text/tab-separated-values', 'tsv'],
  ['application/x-ndjson', 'ndjson'],
  [streamType, 'arrow'],
]);

/** A weight in an Accept header (RFC 9110, section 12.4.2). */
const weight = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;

/** The rest of a longer Accept is ignored. */
const acceptLengthMax = 1_024;

/**
 * The format in which a client wants the whole result as one body; null: it wants pages.
 * @param search the query string
 * @throws HttpError 400, 406
 */
export function wholeFormatOf(accept: string | undefined, search: string): WholeFormat | null {
  if (search === '' && (accept === undefined || accept === '*/*')) return null;
  const parameters = new URLSearchParams(search);
  const given = parameters.get('format');
  const name = given === null ? acceptedName(accept) : nameOf(given, names);
  if (name === null) return null;
  return name === 'arrow' ? arrowStream(zeroDatesOf(parameters)) : textFormatOf(name, parameters);
}

/**
 * The format of a file.
 * @param given as the file is named
 * @param search the query string
 * @throws HttpError 400, 406
 */
export function fileFormatByName(given: string, search: string): FileFormat {
  const parameters = new URLSearchParams(search);
  const name = nameOf(given, fileNames);
  if (name === 'arrow') return arrowFile(zeroDatesOf(parameters));
  if (name === 'parquet') return parquetFile(zeroDatesOf(parameters));
  return textFormatOf(name, parameters);
}

/** @throws HttpError 406 */
function nameOf<Known extends string>(given: string, known: readonly Known[]): Known {
  const name = known.find((one) => one === given);
  if (name !== undefined) return name;
  const advice = given === 'parquet' ? 'a Parquet file can be had of a kept result' : 'there is no such format';
  throw httpErrors.notAcceptable(`${advice}; there are ${known.join(', ')}`);
}

function textFormatOf(name: TextName, parameters: URLSearchParams): TextFormat {
  const header = parameterOf(parameters, 'header', ['1', '0']);
  const rows = parameterOf(parameters, 'rows', ['objects', 'arrays']);
  switch (name) {
    case 'csv':
      return header === '0' ? csvWithoutHeader : csv;
    case 'tsv':
      return header === '0' ? tsvWithoutHeader : tsv;
    case 'ndjson':
      return rows === 'arrays' ? ndjsonArrays : ndjsonObjects;
    case 'json':
      return json;
  }
}

function zeroDatesOf(parameters: URLSearchParams): ZeroDates {
  return parameterOf(parameters, 'zero_dates', ['fail', 'null', 'string']);
}

/** The first of the given values is the default. */
function parameterOf<Value extends string>(
  parameters: URLSearchParams,
  name: string,
  values: readonly [Value, ...Value[]],
): Value {
  const given = parameters.get(name) ?? values[0];
  const value = values.find((known) => known === given);
  if (value !== undefined) return value;
  throw httpErrors.badRequest(`"${name}" must be ${values.join(' or ')}`);
}

/**
 * The format with the most weight in an Accept header (RFC 9110, section 12.5.1); null: none, or JSON has no less. A type whose
 * weight is invalid is ignored.
 */
function acceptedName(accept: string | undefined): Name | null {
  let best: Name | null = null;
  let most = 0;
  for (const range of (accept ?? '').slice(0, acceptLengthMax).toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
    const name = nameByType.get(type) ?? null;
    if (!weight.test(quality) || Number(quality) <= most || (name === null && type !== 'application/json')) continue;
    best = name;
    most = Number(quality);
  }
  return best;
}
