import { formats, isArrow } from '../formats/index.ts';
import type { Snapshot } from '../query/pages.ts';
import type { Failure } from '../wire/failures.ts';
import type { FileContent } from '../wire/kept-reading.ts';
import type { Column, FormatName } from '../wire/statement.ts';

/** How the rows of a result are written. */
interface RowsFormat {
  readonly contentType: string;
  readonly rows: FormatName;
  /** The same for a client that asks for 64-bit integers as strings. */
  readonly rowsWithStrings: FormatName;
}

/** How a whole result is written as the body of one answer. */
export interface WholeFormat extends RowsFormat {
  /**
   * What comes before the rows.
   * @throws HttpError 400 if the format has no form for such columns
   */
  head(columns: readonly Column[]): string | Uint8Array;
  /** What comes after `rows` rows. */
  tail(last: Snapshot, rows: number): string | Uint8Array;
}

/** How a whole result is written as a file. */
export interface FileFormat extends RowsFormat {
  readonly fileName: string;
  /**
   * What the file has beside its rows.
   * @throws HttpError 400 if the format has no form for such columns
   */
  content(last: Snapshot, rows: number): FileContent;
}

/** What stands between batches of rows. */
export function separatorOf({ rows }: WholeFormat): string {
  const format = formats[rows];
  return isArrow(format) ? '' : String.fromCharCode(format.layout.rowSeparator);
}

/** How a dialect answers a POST with a whole result. */
export interface WholeAnswer {
  readonly format: WholeFormat;
  /** The body of an answer about a statement that failed before its first row. */
  writeFailure(failure: Failure): string;
}
