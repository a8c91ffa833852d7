import type { Format } from '../formats/format.ts';
import type { Column } from '../wire/statement.ts';
import { type ColumnDefinition, describeColumn, isSentAlike, isSentInUtf8 } from './columns.ts';
import { type RowFormat, rowKeys } from './row-format.ts';

/** The columns of a result as clients see them, and how its rows are encoded. */
export interface ResultColumns {
  readonly columns: readonly Column[];
  readonly areInUtf8: boolean;
  /** See `isSentAlike`. */
  readonly areSentAlike: boolean;
  readonly format: RowFormat;
}

/** By definitions, which are the same array while they are cached, and then by the format of cells and rows. */
const cache = new WeakMap<readonly ColumnDefinition[], Record<string, ResultColumns>>();

/** @param isBinary whether the rows are in the binary protocol, as those of prepared statements are */
export function resultColumns(
  definitions: readonly ColumnDefinition[],
  format: Format,
  isBinary: boolean,
): ResultColumns {
  let known = cache.get(definitions);
  if (known === undefined) {
    known = {};
    cache.set(definitions, known);
  }
  const key = isBinary ? `${format.name}, binary` : format.name;
  known[key] ??= describe(definitions, format, isBinary);
  return known[key];
}

function describe(definitions: readonly ColumnDefinition[], format: Format, isBinary: boolean): ResultColumns {
  const described = definitions.map((definition) => describeColumn(definition, format, isBinary));
  return {
    columns: described.map(({ column }) => column),
    areInUtf8: definitions.every(isSentInUtf8),
    areSentAlike: definitions.every(isSentAlike),
    format: {
      kinds: Uint8Array.from(described, ({ kind }) => kind),
      values: isBinary ? Uint16Array.from(described, ({ value }) => value as number) : null,
      layout: format.layout,
      keys: format.hasKeys ? rowKeys(definitions.map(({ name }) => name)) : null,
    },
  };
}
