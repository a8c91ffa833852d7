import type { ColumnType, FormatName } from '../wire/statement.ts';
import type { CellKind } from './cell-kind.ts';

/** How the rows of a result are written. */
export interface Format {
  readonly name: FormatName;
  /** Whether NULL is the string "NULL" instead of `null`. */
  readonly nullIsString: boolean;
  /** @param typed the kind that keeps the type of the column */
  cellKindOf(type: ColumnType, typed: CellKind): CellKind;
}
