import type { Failure } from './failures.ts';
import type { Placeholders } from './placeholders.ts';
import type { SqlText } from './sql-traits.ts';

/**
 * What the two sides of a statement say to each other, on the main thread: a query observes, a session executes.
 * Neither imports the other; this file is all that they share.
 */

/** The type of a result column, by the names that clients see. Numbers are counts of digits. */
export type ColumnType =
  | { readonly name: IntegerTypeName | PlainTypeName }
  | { readonly name: 'Decimal'; readonly precision: number; readonly scale: number }
  | { readonly name: 'Timestamp' | 'Time'; readonly precision: number };

export type IntegerTypeName = 'Int8' | 'Int16' | 'Int32' | 'Int64' | 'UInt8' | 'UInt16' | 'UInt32' | 'UInt64';

export type PlainTypeName =
  | 'Float32'
  | 'Float64'
  | 'Date'
  | 'String'
  | 'Binary'
  | 'Variant'
  | 'Geometry'
  | 'Vector'
  | 'Null';

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly nullable: boolean;
}

/** About the memory of a column beside its name, its part of the schema in answers included. */
const columnBytes = 256;

/** About the memory of columns, with the text that answers have of them. */
export function columnsBytes(columns: readonly Column[]): number {
  let bytes = 0;
  // Two bytes a character, and as much again where it stands in the text.
  for (const { name } of columns) bytes += columnBytes + 4 * name.length;
  return bytes;
}

/**
 * Encoded rows. `buffer` holds `length` bytes of JSON text, the rows parted by commas with none before the first or
 * after the last, and from the next multiple of four on, one little-endian 32-bit offset per row: where it ends.
 */
export interface Batch {
  readonly buffer: ArrayBuffer;
  readonly length: number;
  readonly rows: number;
  /** If there is one, `buffer` holds instead the text compressed (see `Deflated`), and this is the text's CRC-32. */
  readonly deflatedCrc?: number;
}

/**
 * Compressed text: deflate blocks (RFC 1951), none of them the last one, that end at a byte and refer to nothing before
 * them. That is what zlib's Z_SYNC_FLUSH makes of a fresh stream.
 */
export interface Deflated {
  readonly bytes: Uint8Array;
  /** Bytes that it inflates to. */
  readonly length: number;
  /** Their CRC-32. */
  readonly crc: number;
}

/** Where the row offsets of a batch begin, in bytes. */
export function rowEndsOffset(length: number): number {
  return (length + 3) & ~3;
}

/**
 * Smaller rows are received without a reservation. A larger one is reserved before it is read from the database's socket (see
 * `LargeRowMemory`).
 */
export const largeRowBytesMin = 1024 * 1024;

/** Memory for large rows while worker threads receive, encode and write them. */
export interface LargeRowMemory {
  /**
   * Reserves memory for one row of a user, perhaps later.
   * @param granted called once, when the memory is reserved; perhaps before this method returns
   */
  reserve(user: string, bytes: number, granted: () => void): LargeRowReservation;
}

export interface LargeRowReservation {
  /** Gives the memory back, or stops waiting for it. Does nothing the second time. */
  release(): void;
}

/** How a statement came to its end in the database. `lastInsertId` is decimal text, since it may exceed 2^53. */
export interface Outcome {
  readonly affectedRows: string;
  readonly lastInsertId: string | null;
  readonly warnings: number;
}

/** How cells are written: as JSON of their type, perhaps with 64-bit integers as strings, or all as strings, with or without one for NULL. */
export type CellFormat = 'typed' | 'typed, large integers as strings' | 'strings' | 'strings, NULL too';

/** A value for a placeholder. What is too large or too exact for a number comes as a string. */
export type Param = null | boolean | number | string;

/** One value for one placeholder, or a list with a value for each of as many placeholders as it has values. */
export type ParamValue = Param | readonly Param[];

/** `ParamsToPack` as V8 serializes them: of a large request, which crosses the main thread as bytes. */
export type PackedParams = Uint8Array;

export interface ParamsToPack {
  readonly params: Params;
  /** Those of the statement, if the params need them. */
  readonly placeholders: Placeholders | null;
}

/** Values for `?`, in order, or for `:name`. */
export type Params = readonly ParamValue[] | { readonly [name: string]: ParamValue };

export function isScalar(value: ParamValue): value is Param {
  return typeof value !== 'object' || value === null;
}

/** Whether the text of a statement has to be changed for its params: they have names, or lists. */
export function needPlaceholders(params: Params): boolean {
  return !Array.isArray(params) || !params.every(isScalar);
}

/**
 * What becomes of the session when its statement has ended: it is kept as it is; it is made as new; or it is held, which is
 * to say kept if it has come to a state that cannot be told and set again elsewhere, and else made as new.
 */
export type Afterwards = 'keep' | 'clean' | 'hold';

/** What a statement, run with `hold`, has left its session in. */
export interface SessionState {
  /** The schema that it has selected; null if it has selected none. */
  readonly schema: string | null;
  /** System variables that it has set, and to what. */
  readonly variables: { readonly [name: string]: string };
  readonly inTransaction: boolean;
  /** The session is kept: for its transaction, a temporary table, user variables, and the like. */
  readonly isHeld: boolean;
  /** The statement itself has changed one of these; what was set on behalf of its client before it does not count. */
  readonly isChanged: boolean;
}

/** What a client wants to be run. */
export interface Statement extends SqlText {
  /** null: nothing but the text, as with most; cells are written as JSON of their type. */
  readonly extras: StatementExtras | null;
}

/** What a statement may come with, beside its text. */
export interface StatementExtras {
  /** The statement is prepared, and these are bound; null: it is sent as it stands. */
  readonly params: Params | PackedParams | null;
  /** System variables to set before; those that the database refuses are passed over. */
  readonly variables: { readonly [name: string]: string };
  readonly cells: CellFormat;
}

export const noExtras: StatementExtras = { params: null, variables: {}, cells: 'typed' };

/** What to run, and how much of its result the reader will take before it says more. */
export interface StatementRequest extends Statement {
  /** Memory of the batches that may be under way or unread at once. */
  readonly creditBytes: number;
  /** Rows that may be under way or unread at once. */
  readonly creditRows: number;
  /** null: batches are not to be compressed. */
  readonly gzip: GzipRequest | null;
}

export interface GzipRequest {
  /** zlib's, from 1 to 9. */
  readonly level: number;
  /** Rows of a full page: what is compressed can only be handed out whole. */
  readonly pageRows: number;
}

/**
 * Told what becomes of a statement. `failed` comes last; so does `ended`, unless there are rows to come after it. `released` is
 * independent of them.
 */
export interface StatementObserver {
  /** It has been sent to the database. */
  started(): void;
  /**
   * Called once after each `started`, also of a statement that was cancelled: the connection is idle or gone, and the text of the
   * statement is held on its account no longer. Before `notSent`.
   */
  released(): void;
  columns(columns: readonly Column[]): void;
  /** @param spilled whether they come from disk, and have been told of by `spilled` */
  rows(batch: Batch, spilled: boolean): void;
  /** So many rows, and bytes of JSON, more have been put to disk. */
  spilled(rows: number, bytes: number): void;
  /** Memory of a large row that the worker holds because there is no room for it on disk; 0: none. */
  unwritten(bytes: number): void;
  /**
   * @param rows the database's count of rows examined so far; null if it gives none
   * @param estimatedRows its estimate of the rows to examine; null if it gives none, or none now
   */
  examined(rows: number | null, estimatedRows: number | null): void;
  /** @param rowsToCome that lie on disk yet; should they be lost, `failed` comes after all */
  ended(outcome: Outcome, rowsToCome: number): void;
  /** Comes before `ended` or `failed` if the session may be held and the database could be asked. */
  left(state: SessionState): void;
  failed(failure: Failure): void;
  /**
   * Comes instead of `failed`, when the connection was lost and the statement has provably not been sent to the database.
   * @param reason why it was lost
   */
  notSent(reason: string): void;
}

/** The reader's hold on a statement. Every method is a no-op once it has ended and no rows are to come. */
export interface StatementHandle {
  /** The reader has taken this much and will take as much again. */
  credit(bytes: number, rows: number): void;
  /** Stop the statement in the database, and drop its rows. The observer hears nothing more but `released`. */
  cancel(): void;
  /** Ask for `examined`; the answer may never come. */
  askExamined(): void;
  /** Position among the statements that wait for their turn, from 1 on; null if it does not wait. */
  queuePosition(): number | null;
}
