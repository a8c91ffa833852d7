import { httpErrors } from '../../http/http-error.ts';
import type { Snapshot } from '../../query/pages.ts';
import type { Column } from '../../wire/statement.ts';
import type { WholeFormat } from '../whole-format.ts';
import { resultMembers, schemaOf } from './response.ts';

const names = ['csv', 'tsv', 'ndjson', 'json'] as const;
type Name = (typeof names)[number];

/** JSON is the type of pages as well, so that a client who accepts it gets these. */
const nameByType: ReadonlyMap<string, Name> = new Map([
  ['text/csv', 'csv'],
  ['text/tab-separated-values', 'tsv'],
  ['application/x-ndjson', 'ndjson'],
]);

/** The rest of a longer Accept is ignored. */
const acceptLengthMax = 1_024;

const csv = {
  contentType: 'text/csv; charset=utf-8; header=present',
  fileName: 'rows.csv',
  rows: 'csv',
  rowsWithStrings: 'csv',
  head: (columns) => line(columns, csvField, ',', '\r\n'),
  tail: lastLine,
} as const satisfies WholeFormat;

const csvWithoutHeader: WholeFormat = {
  ...csv,
  contentType: 'text/csv; charset=utf-8; header=absent',
  fileName: 'rows-without-header.csv',
  head: () => '',
};

const tsv: WholeFormat = {
  contentType: 'text/tab-separated-values; charset=utf-8',
  fileName: 'rows.tsv',
  rows: 'tsv',
  rowsWithStrings: 'tsv',
  head: (columns) => line(columns, tsvField, '\t', '\n'),
  tail: lastLine,
};

const tsvWithoutHeader: WholeFormat = { ...tsv, fileName: 'rows-without-header.tsv', head: () => '' };

const ndjsonObjects: WholeFormat = {
  contentType: 'application/x-ndjson',
  fileName: 'rows.ndjson',
  rows: 'ndjson, objects',
  rowsWithStrings: 'ndjson, objects, large integers as strings',
  head: (columns) => {
    const repeated = repeatedNames(columns);
    if (repeated.length === 0) return '';
    const shown = repeated.slice(0, 10).map((name) => JSON.stringify(name.slice(0, 100)));
    throw httpErrors.badRequest(
      `several columns have the name ${shown.join(' or ')}, and an object has a name once: ` +
        'give them names of their own (AS), or ask for rows=arrays',
    );
  },
  tail: lastLine,
};

const ndjsonArrays: WholeFormat = {
  ...ndjsonObjects,
  fileName: 'arrays.ndjson',
  rows: 'ndjson, arrays',
  rowsWithStrings: 'ndjson, arrays, large integers as strings',
  head: () => '',
};

const json: WholeFormat = {
  contentType: 'application/json',
  fileName: 'rows.json',
  rows: 'json',
  rowsWithStrings: 'json, large integers as strings',
  head: (columns) => `{"schema":${schemaOf(columns)},"data":[`,
  tail: (last: Snapshot) => `],${resultMembers(last)}}\n`,
};

/**
 * The format in which a client wants the whole result as one body; null: it wants pages.
 * @param search the query string
 * @throws HttpError 400, 406
 */
export function wholeFormatOf(accept: string | undefined, search: string): WholeFormat | null {
  if (search === '' && (accept === undefined || accept === '*/*')) return null;
  const parameters = new URLSearchParams(search);
  const given = parameters.get('format');
  const name = given === null ? acceptedName(accept) : nameOf(given);
  return name === null ? null : formatOf(name, parameters);
}

/**
 * The format of a file.
 * @param name as `?format=` takes it
 * @param search the query string
 * @throws HttpError 400, 406
 */
export function wholeFormatByName(name: string, search: string): WholeFormat {
  return formatOf(nameOf(name), new URLSearchParams(search));
}

/** @throws HttpError 406 */
function nameOf(given: string): Name {
  const name = names.find((known) => known === given);
  if (name === undefined) throw httpErrors.notAcceptable(`there is no such format; there are ${names.join(', ')}`);
  return name;
}

function formatOf(name: Name, parameters: URLSearchParams): WholeFormat {
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

/** The first of the given values is the default. */
function parameterOf(parameters: URLSearchParams, name: string, values: readonly string[]): string | undefined {
  const given = parameters.get(name) ?? values[0];
  if (values.some((value) => value === given)) return given;
  throw httpErrors.badRequest(`"${name}" must be ${values.join(' or ')}`);
}

/** The format with the most weight in an Accept header (RFC 9110, section 12.5.1); null: none, or JSON has no less. */
function acceptedName(accept: string | undefined): Name | null {
  let best: Name | null = null;
  let most = 0;
  for (const range of (accept ?? '').slice(0, acceptLengthMax).toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
    const name = nameByType.get(type) ?? null;
    if (Number(quality) <= most || (name === null && type !== 'application/json')) continue;
    best = name;
    most = Number(quality);
  }
  return best;
}

function repeatedNames(columns: readonly Column[]): string[] {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (const { name } of columns) (seen.has(name) ? repeated : seen).add(name);
  return [...repeated];
}

function line(columns: readonly Column[], field: (name: string) => string, separator: string, end: string): string {
  return columns.length === 0 ? '' : `${columns.map(({ name }) => field(name)).join(separator)}${end}`;
}

function csvField(name: string): string {
  return name !== '' && !/[",\r\n]/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

const tsvEscapes: Readonly<Record<string, string>> = { '\t': '\\t', '\n': '\\n', '\\': '\\\\', '\0': '\\0' };

function tsvField(name: string): string {
  return name.replace(/[\t\n\\\0]/g, (character) => tsvEscapes[character] ?? character);
}

/** The end of the last line. */
function lastLine(_last: Snapshot, rows: number): string {
  return rows === 0 ? '' : '\n';
}
