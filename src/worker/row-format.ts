import type { CellFormat } from '../wire/statement.ts';

/** How the rows of a result are read and written. */
export interface RowFormat {
  /** A `CellKind` per column; not to be changed. */
  readonly kinds: Uint8Array;
  readonly cells: CellFormat;
}
