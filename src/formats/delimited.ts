import { type CellKind, cellKind } from './cell-kind.ts';
import { code } from './code.ts';
import type { TextFormat } from './format.ts';

/** RFC 4180: CR LF between rows, of which the CR closes a row. NULL is an empty field, and an empty text is quoted. */
export const csv: TextFormat = {
  name: 'csv',
  layout: {
    open: 0,
    separator: code(','),
    close: code('\r'),
    rowSeparator: code('\n'),
    nullCell: Buffer.alloc(0),
  },
  hasKeys: false,
  cellKindOf: (_type, typed) => delimitedKind(typed, cellKind.csvText),
};

/** As both databases write and read it by default (MySQL manual, "LOAD DATA Statement"). */
export const tsv: TextFormat = {
  name: 'tsv',
  layout: {
    open: 0,
    separator: code('\t'),
    close: 0,
    rowSeparator: code('\n'),
    nullCell: Buffer.from('\\N'),
  },
  hasKeys: false,
  cellKindOf: (_type, typed) => delimitedKind(typed, cellKind.tsvText),
};

function delimitedKind(typed: CellKind, text: CellKind): CellKind {
  if (typed === cellKind.text || typed === cellKind.json) return text;
  return typed === cellKind.hex ? cellKind.plainHex : typed;
}
