import type { Format, TextFormat } from '../formats/format.ts';
import { formatFor, isArrow } from '../formats/index.ts';
import type { Column } from '../wire/statement.ts';
import { type ArrowRowFormat, arrowRowFormat } from './arrow/arrow-columns.ts';
import {
  type ColumnDefinition,
  type DescribedColumn,
  describeColumn,
  describeTyped,
  isSentAlike,
  isSentInUtf8,
} from './columns.ts';
import { type RowFormat, rowKeys } from './row-format.ts';

/** The columns of a result as clients see them, and how its rows are encoded. */
export interface ResultColumns {
  readonly columns: readonly Column[];
  readonly areInUtf8: boolean;
  /** See `isSentAlike`. */
  readonly areSentAlike: boolean;
  readonly format: RowFormat | ArrowRowFormat;
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

function describe(definitions: readonly ColumnDefinition[], asked: Format, isBinary: boolean): ResultColumns {
  const format = formatFor(asked, definitions.length);
  const described = definitions.map((definition) =>
    isArrow(format) ? describeTyped(definition, isBinary) : describeColumn(definition, format, isBinary),
  );
  const values = isBinary ? Uint16Array.from(described, ({ value }) => value as number) : null;
  return {
    columns: described.map(({ column }) => column),
    areInUtf8: definitions.every(isSentInUtf8),
    areSentAlike: definitions.every(isSentAlike),
    format: isArrow(format) ? arrowRowFormat(described, format, values) : textRowFormat(described, format, values),
  };
}

function textRowFormat(
  described: readonly DescribedColumn[],
  format: TextFormat,
  values: Uint16Array | null,
): RowFormat {
  return {
    kinds: Uint8Array.from(described, ({ kind }) => kind),
    values,
    layout: format.layout,
    keys: format.hasKeys ? rowKeys(described.map(({ column }) => column.name)) : null,
  };
}
