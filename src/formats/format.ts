import type { ArrowFormatName, ColumnType, TextFormatName } from '../wire/statement.ts';
import type { ArrowChoices } from './arrow/arrow-type.ts';
import type { CellKind } from './cell-kind.ts';

/** How the rows of a result are written. */
export type Format = TextFormat | ArrowFormat;

/** Rows of text, one after the other. */
export interface TextFormat {
  readonly name: TextFormatName;
  readonly layout: RowLayout;
  /** Whether rows are objects, with the names of the columns as keys. */
  readonly hasKeys: boolean;
  /** @param typed the kind that keeps the type of the column */
  cellKindOf(type: ColumnType, typed: CellKind): CellKind;
}

/** Record batches of Arrow, whose values are gathered by column. */
export interface ArrowFormat extends ArrowChoices {
  readonly name: ArrowFormatName;
}

/** The bytes around cells and rows. An absent one is 0. */
export interface RowLayout {
  readonly open: number;
  /** Between cells. */
  readonly separator: number;
  readonly close: number;
  /** Between rows. */
  readonly rowSeparator: number;
  /** NULL, of 7 bytes at most. */
  readonly nullCell: Uint8Array;
}
