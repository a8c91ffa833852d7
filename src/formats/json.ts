import type { ColumnType } from '../wire/statement.ts';
import { type CellKind, cellKind } from './cell-kind.ts';
import { code } from './code.ts';
import type { RowLayout, TextFormat } from './format.ts';

const arrays: RowLayout = {
  open: code('['),
  separator: code(','),
  close: code(']'),
  rowSeparator: code(','),
  nullCell: Buffer.from('null'),
};

/** Each row is an array, and each cell JSON of its column's type (docs/api.md, "Values"). */
export const json: TextFormat = {
  name: 'json',
  layout: arrays,
  hasKeys: false,
  cellKindOf: (_type, typed) => typed,
};

/** For clients that read JSON numbers as doubles: 64-bit integers are strings. */
export const jsonWithLargeIntegersAsStrings: TextFormat = {
  name: 'json, large integers as strings',
  layout: arrays,
  hasKeys: false,
  cellKindOf: (type, typed) => (type.name === 'Int64' || type.name === 'UInt64' ? stringKind(type, typed) : typed),
};

/** All cells are strings, except NULL. */
export const jsonStrings: TextFormat = {
  name: 'json strings',
  layout: arrays,
  hasKeys: false,
  cellKindOf: stringKind,
};

export const jsonStringsAndNull: TextFormat = {
  name: 'json strings, NULL too',
  layout: { ...arrays, nullCell: Buffer.from('"NULL"') },
  hasKeys: false,
  cellKindOf: stringKind,
};

/** A row on each line. */
export const ndjsonArrays: TextFormat = {
  name: 'ndjson, arrays',
  layout: { ...arrays, rowSeparator: code('\n') },
  hasKeys: false,
  cellKindOf: (_type, typed) => typed,
};

/** The same, with the names of the columns. */
export const ndjsonObjects: TextFormat = {
  name: 'ndjson, objects',
  layout: { ...arrays, open: code('{'), close: code('}'), rowSeparator: code('\n') },
  hasKeys: true,
  cellKindOf: (_type, typed) => typed,
};

export const ndjsonArraysWithStrings: TextFormat = {
  ...ndjsonArrays,
  name: 'ndjson, arrays, large integers as strings',
  cellKindOf: jsonWithLargeIntegersAsStrings.cellKindOf,
};

export const ndjsonObjectsWithStrings: TextFormat = {
  ...ndjsonObjects,
  name: 'ndjson, objects, large integers as strings',
  cellKindOf: jsonWithLargeIntegersAsStrings.cellKindOf,
};

/** For each kind of typed cells, the kind that writes them as strings. */
const stringKinds: Readonly<Record<number, CellKind>> = {
  [cellKind.number]: cellKind.quotedNumber,
  [cellKind.json]: cellKind.text,
  [cellKind.bits]: cellKind.quotedBits,
  [cellKind.bitsOrDigits]: cellKind.quotedBitsOrDigits,
};

function stringKind({ name }: ColumnType, typed: CellKind): CellKind {
  if (name === 'Date') return cellKind.date;
  if (name === 'Timestamp') return cellKind.timestamp;
  return stringKinds[typed] ?? typed;
}
