import { formats } from '../formats/index.ts';
import type { Snapshot } from '../query/pages.ts';
import type { Failure } from '../wire/failures.ts';
import type { Column, FormatName } from '../wire/statement.ts';

/** How a whole result is written as the body of one answer. */
export interface WholeFormat {
  readonly contentType: string;
  /** Of a file with a kept result in this format. */
  readonly fileName: string;
  /** How its rows are written. */
  readonly rows: FormatName;
  /** The same for a client that asks for 64-bit integers as strings. */
  readonly rowsWithStrings: FormatName;
  /**
   * What comes before the rows.
   * @throws HttpError 400 if the format has no form for such columns
   */
  head(columns: readonly Column[]): string;
  /** What comes after `rows` rows. */
  tail(last: Snapshot, rows: number): string;
}

/** The byte between rows, as text. */
export function separatorOf({ rows }: WholeFormat): string {
  return String.fromCharCode(formats[rows].layout.rowSeparator);
}

/** How a dialect answers a POST with a whole result. */
export interface WholeAnswer {
  readonly format: WholeFormat;
  /** The body of an answer about a statement that failed before its first row. */
  writeFailure(failure: Failure): string;
}
