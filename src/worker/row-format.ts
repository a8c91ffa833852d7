import type { CellFormat } from '../wire/statement.ts';

/** How the rows of a result are read and written. */
export interface RowFormat {
  /** A `CellKind` per column; not to be changed. */
  readonly kinds: Uint8Array;
  /**
   * What the columns hold if the rows are of the binary protocol, else null. Per column, a `valueType` in the lower byte
   * and in the upper one the decimals of the column's definition; not to be changed.
   */
  readonly values: Uint16Array | null;
  readonly cells: CellFormat;
}
