import type { Failure } from './failures.ts';
import type { KeepRequest, KeptBatch } from './kept-rows.ts';
import type { Placeholders } from './placeholders.ts';
import type { SqlText } from './sql-traits.ts';

/**
 * The interface between the two sides of a statement on the main thread: a query observes it, and a session executes it. Neither
 * imports the other.
 */

/** The type of a result column, with the names that clients see. Precisions and scales are counts of digits. */
export type ColumnType =
  | { readonly name: IntegerTypeName | PlainTypeName }
  | {
      readonly name: 'Decimal';
      readonly precision: number;
      readonly scale: number;
      /** It is the type of an expression, whose values may have more digits than the database says. */
      readonly isComputed?: true;
    }
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

/** Estimated memory of a column without its name, including its part of the schema in answers. */
const columnBytes = 256;

/** Estimated memory of columns, including their text in answers. */
export function columnsBytes(columns: readonly Column[]): number {
  let bytes = 0;
  // Two bytes per character here, and up to three in the text, which is kept in UTF-8.
  for (const { name } of columns) bytes += columnBytes + 5 * name.length;
  return bytes;
}

/**
 * Encoded rows. `buffer` holds `length` bytes of text, with one byte between the rows (a comma in JSON), and from the next multiple of four on, one
 * little-endian 32-bit offset per row: its end.
 */
export interface Batch {
  readonly buffer: ArrayBuffer;
  readonly length: number;
  readonly rows: number;
  /** If present, `buffer` holds the text in compressed form instead (see `Deflated`), and this is the CRC-32 of the text. */
  readonly deflatedCrc?: number;
  /** `buffer` holds a message of Arrow, without row ends: the rows cannot be divided, and nothing stands between batches. */
  readonly isWhole?: true;
}

/**
 * Compressed text: deflate blocks (RFC 1951), none of them marked as final, that end at a byte boundary and do not refer to data
 * before them. zlib produces them from a new stream with Z_SYNC_FLUSH.
 */
export interface Deflated {
  readonly bytes: Uint8Array;
  /** Bytes of the text. */
  readonly length: number;
  /** CRC-32 of the text. */
  readonly crc: number;
}

/** The position of the row offsets in a batch, in bytes. */
export function rowEndsOffset(length: number): number {
  return (length + 3) & ~3;
}

/**
 * Memory for a row of this size or more is reserved before it is read from the database's socket (see `LargeRowMemory`).
 */
export const largeRowBytesMin = 1024 * 1024;

/** Memory for large rows while worker threads receive, encode and write them. */
export interface LargeRowMemory {
  /**
   * Reserves memory for one row of a user, as soon as there is enough.
   * @param granted called once when the memory is reserved, possibly before this method returns
   */
  reserve(user: string, bytes: number, granted: () => void): LargeRowReservation;
}

export interface LargeRowReservation {
  /** Frees the memory, or stops waiting for it. A second call does nothing. */
  release(): void;
}

/** The counts of a statement that succeeded. `lastInsertId` is decimal text, since it may exceed 2^53. */
export interface Outcome {
  readonly affectedRows: string;
  readonly lastInsertId: string | null;
  readonly warnings: number;
}

/** The name of a format (see `src/formats/`). */
export type FormatName = TextFormatName | ArrowFormatName;

export type ArrowFormatName = 'arrow' | 'arrow, zero dates as null' | 'arrow, zero dates as text' | 'arrow, plain';

export type TextFormatName =
  | 'json'
  | 'json, large integers as strings'
  | 'json strings'
  | 'json strings, NULL too'
  | 'ndjson, arrays'
  | 'ndjson, arrays, large integers as strings'
  | 'ndjson, objects, large integers as strings'
  | 'ndjson, objects'
  | 'csv'
  | 'tsv';

/** A value for a placeholder. A number that a JSON number cannot represent is a string. */
export type Param = null | boolean | number | string;

/** One value, or a list, whose placeholder expands to one placeholder per value. */
export type ParamValue = Param | readonly Param[];

/** `ParamsToPack` of a large request in V8's serialization, so that the main thread only passes bytes on. */
export type PackedParams = Uint8Array;

export interface ParamsToPack {
  readonly params: Params;
  /** The placeholders of the statement; null if the params do not need them. */
  readonly placeholders: Placeholders | null;
}

/** Values for `?`, in order, or for `:name`. */
export type Params = readonly ParamValue[] | { readonly [name: string]: ParamValue };

export function isScalar(value: ParamValue): value is Param {
  return typeof value !== 'object' || value === null;
}

/** Whether the text of a statement has to be rewritten for its params, since they are named or contain lists. */
export function needPlaceholders(params: Params): boolean {
  return !Array.isArray(params) || !params.every(isScalar);
}

/**
 * The treatment of the session after a statement: `keep` leaves it as it is, `clean` makes it clean, and `pin` leaves it if it has
 * state that cannot be restored on another connection, and makes it clean otherwise.
 */
export type Afterwards = 'keep' | 'clean' | 'pin';

/** The state of a session after a statement that was run with `pin`. */
export interface SessionState {
  /** The selected schema; null if none is. */
  readonly schema: string | null;
  /** System variables that have been set, and their values. */
  readonly variables: { readonly [name: string]: string };
  readonly inTransaction: boolean;
  /** The session keeps its connection, because of a transaction, a temporary table, user variables or similar. */
  readonly isPinned: boolean;
  /** The statement itself has changed one of these. Variables that were set for its client before it do not count. */
  readonly isChanged: boolean;
}

/** A statement as a client submits it. */
export interface Statement extends SqlText {
  /** null: no params and no variables, and cells are written as JSON of their type. */
  readonly options: StatementOptions | null;
}

/** The parts of a statement besides its text. */
export interface StatementOptions {
  /** Bound to the statement, which is prepared; null: the statement is sent as text. */
  readonly params: Params | PackedParams | null;
  /** System variables to set before the statement; those that the database refuses are ignored. */
  readonly variables: { readonly [name: string]: string };
  readonly format: FormatName;
  /** Many rows are expected. */
  readonly expectsMany: boolean;
}

export const defaultOptions: StatementOptions = { params: null, variables: {}, format: 'json', expectsMany: false };

/** A statement to run, and the initial credit of its reader. */
export interface StatementRequest extends Statement {
  /** The most memory of batches that are under way or unread. */
  readonly creditBytes: number;
  /** The most rows that are under way or unread. */
  readonly creditRows: number;
  /** zlib's; 0: batches are not compressed. */
  readonly gzipLevel: number;
  /** Rows of a full page, which batches that cannot be divided do not exceed. */
  readonly pageRows: number;
  /** The rows go to disk instead of to the reader, whose credit is for bytes there; null: they do not. */
  readonly keep: KeepRequest | null;
}

/**
 * Receives the result of a statement. `failed` is the last call; so is `ended`, unless there are rows to come after it. `released`
 * is independent of them.
 */
export interface StatementObserver {
  /** The statement has been sent to the database. */
  started(): void;
  /**
   * Called once after each `started`, also for a statement that was cancelled: the connection is idle or gone, and no longer
   * refers to the text of the statement. Before `notSent`.
   */
  released(): void;
  columns(columns: readonly Column[]): void;
  /**
   * @param spilled whether they come from disk, and were counted by `spilled`
   * @param isLast whether no more rows follow
   */
  rows(batch: Batch, spilled: boolean, isLast?: boolean): void;
  /** This many more rows, and bytes of JSON, have been written to disk. */
  spilled(rows: number, bytes: number): void;
  /** A batch of a kept result is on disk. */
  kept(batch: KeptBatch): void;
  /** Bytes of a large row that the worker keeps in memory since there is no disk space for it; 0: none. */
  unwritten(bytes: number): void;
  /**
   * @param rows the database's count of rows examined so far; null if it gives none
   * @param estimatedRows its estimate of the rows to examine; null if it gives none, or none now
   */
  examined(rows: number | null, estimatedRows: number | null): void;
  /** @param rowsToCome rows that are still on disk; if they are lost, `failed` follows */
  ended(outcome: Outcome, rowsToCome: number): void;
  /** Called before `ended` or `failed` of a statement that was run with `pin`, if the state is known. */
  left(state: SessionState): void;
  failed(failure: Failure): void;
  /**
   * Called instead of `failed` if the connection was lost and the statement has provably not been sent to the database.
   * @param reason why the connection was lost
   */
  notSent(reason: string): void;
}

/** The reader's handle on a statement. Its methods do nothing once the statement has ended and no rows are to come. */
export interface StatementHandle {
  /** The reader has taken this much and will take as much again. */
  credit(bytes: number, rows: number): void;
  /** Stop the statement in the database, and drop its rows. Of the observer, only `released` is still called. */
  cancel(): void;
  /** Ask for `examined`; the answer may never come. */
  askExamined(): void;
  /** Position among the statements that wait for their turn, from 1 on; null if it does not wait. */
  queuePosition(): number | null;
}
