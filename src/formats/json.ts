import type { ColumnType } from '../wire/statement.ts';
import { type CellKind, cellKind } from './cell-kind.ts';
import type { Format } from './format.ts';

/** Each row is an array, and each cell JSON of its column's type (docs/api.md, "Values"). */
export const json: Format = {
  name: 'json',
  nullIsString: false,
  cellKindOf: (_type, typed) => typed,
};

/** For clients that read JSON numbers as doubles: 64-bit integers are strings. */
export const jsonWithLargeIntegersAsStrings: Format = {
  name: 'json, large integers as strings',
  nullIsString: false,
  cellKindOf: (type, typed) => (type.name === 'Int64' || type.name === 'UInt64' ? stringKind(type, typed) : typed),
};

/** All cells are strings, except NULL. */
export const jsonStrings: Format = {
  name: 'json strings',
  nullIsString: false,
  cellKindOf: stringKind,
};

export const jsonStringsAndNull: Format = {
  name: 'json strings, NULL too',
  nullIsString: true,
  cellKindOf: stringKind,
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
