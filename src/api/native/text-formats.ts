import { httpErrors } from '../../http/http-error.ts';
import type { Snapshot } from '../../query/pages.ts';
import type { Column } from '../../wire/statement.ts';
import type { FileFormat, WholeFormat } from '../whole-format.ts';
import { repeatedNames } from './repeated-names.ts';
import { resultMembers, schemaOf } from './response.ts';

/** A format whose files are what a client is sent. */
export type TextFormat = WholeFormat & FileFormat;

/** What a text format adds to its rows. */
type TextForm = Omit<WholeFormat, 'head' | 'tail'> & {
  readonly fileName: string;
  /** @throws HttpError 400 if the format has no form for such columns */
  readonly head: (columns: readonly Column[]) => string;
  readonly tail: (last: Snapshot, rows: number) => string;
};

function textFormat(form: TextForm): TextFormat {
  return {
    ...form,
    content: (last, rows) => ({ type: 'text', head: form.head(last.columns), tail: form.tail(last, rows) }),
  };
}

const csvForm: TextForm = {
  contentType: 'text/csv; charset=utf-8; header=present',
  fileName: 'rows.csv',
  rows: 'csv',
  rowsWithStrings: 'csv',
  head: (columns) => line(columns, csvField, ',', '\r\n'),
  tail: lastLine,
};

export const csv = textFormat(csvForm);

export const csvWithoutHeader = textFormat({
  ...csvForm,
  contentType: 'text/csv; charset=utf-8; header=absent',
  fileName: 'rows-without-header.csv',
  head: () => '',
});

const tsvForm: TextForm = {
  contentType: 'text/tab-separated-values; charset=utf-8',
  fileName: 'rows.tsv',
  rows: 'tsv',
  rowsWithStrings: 'tsv',
  head: (columns) => line(columns, tsvField, '\t', '\n'),
  tail: lastLine,
};

export const tsv = textFormat(tsvForm);

export const tsvWithoutHeader = textFormat({ ...tsvForm, fileName: 'rows-without-header.tsv', head: () => '' });

export const ndjsonObjects = textFormat({
  contentType: 'application/x-ndjson',
  fileName: 'rows.ndjson',
  rows: 'ndjson, objects',
  rowsWithStrings: 'ndjson, objects, large integers as strings',
  head: (columns) => {
    const repeated = repeatedNames(columns);
    if (repeated === '') return '';
    throw httpErrors.badRequest(
      `several columns have the name ${repeated}, and an object has a name once: ` +
        'give them names of their own (AS), or ask for rows=arrays',
    );
  },
  tail: lastLine,
});

export const ndjsonArrays = textFormat({
  contentType: 'application/x-ndjson',
  fileName: 'arrays.ndjson',
  rows: 'ndjson, arrays',
  rowsWithStrings: 'ndjson, arrays, large integers as strings',
  head: () => '',
  tail: lastLine,
});

export const json = textFormat({
  contentType: 'application/json',
  fileName: 'rows.json',
  rows: 'json',
  rowsWithStrings: 'json, large integers as strings',
  head: (columns) => `{"schema":${schemaOf(columns)},"data":[`,
  tail: (last) => `],${resultMembers(last)}}\n`,
});

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
