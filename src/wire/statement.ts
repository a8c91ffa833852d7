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

/** How a statement came to its end in the database. `lastInsertId` is decimal text, since it may exceed 2^53. */
export interface Outcome {
  readonly affectedRows: string;
  readonly lastInsertId: string | null;
  readonly warnings: number;
}

/** Why a statement failed: the database's own code and SQLSTATE, or one of ours from 90000 on. */
export interface Failure {
  readonly code: number;
  readonly sqlstate: string;
  readonly message: string;
}

/** The failures that are Sluice's own; the numbers are part of the protocol (decisions, "Our error codes"). */
export const failures = {
  noSuchSession: (id: string): Failure =>
    own(90001, `no session '${id}': it never existed, has expired, was one-off, or is another user's`),
  cancelled: (): Failure => own(90002, 'the statement was cancelled by the client'),
  expired: (secs: number): Failure => own(90003, `the result expired: not polled for ${secs} s`),
  sessionQueueFull: (max: number): Failure =>
    own(90004, `the session already has ${max} statements waiting (--session_queue_max); wait for one to end`),
  statementTimeout: (secs: number): Failure =>
    own(90005, `the statement ran past ${secs} s (--statement_timeout_secs) and was cancelled`),
  connectionLost: (reason: string): Failure =>
    own(90006, `the connection to the database was lost: ${reason}; whether the statement took effect is unknown`),
  sessionLost: (reason: string): Failure =>
    own(90006, `the session ended before the statement was sent: its connection to the database was lost: ${reason}`),
  rowTooLarge: (max: number): Failure =>
    own(90007, `a row is larger than ${max} bytes as JSON (--row_bytes_max); select less of it, or raise the limit`),
  manyResultSets: (): Failure =>
    own(90008, 'the statement returned more than one result set; it ran to its end, but only one can be given back'),
  localInfile: (): Failure => own(90009, 'LOAD DATA LOCAL is refused: the server has no files of the client'),
  storageFull: (max: number): Failure =>
    own(
      90010,
      `result storage is full: all results together hold ${max} bytes (--results_bytes_max); fetch or finish some`,
    ),
  shuttingDown: (): Failure => own(90002, 'the statement was cancelled: the server is stopping'),
} as const;

function own(code: number, message: string): Failure {
  return { code, sqlstate: 'HY000', message };
}

/** What to run, and how much of its result the reader will take before it says more. */
export interface StatementRequest {
  readonly sql: string;
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

/** Told what becomes of a statement. `ended` and `failed` come once, and nothing after them. */
export interface StatementObserver {
  /** It has been sent to the database. */
  started(): void;
  columns(columns: readonly Column[]): void;
  rows(batch: Batch): void;
  /** The database's own count of rows examined so far. */
  examined(rows: number): void;
  ended(outcome: Outcome): void;
  failed(failure: Failure): void;
  /**
   * Comes instead of `failed`, if there is this method, when the connection was lost and the statement has provably not
   * been sent to the database.
   * @param reason why it was lost
   */
  notBegun?(reason: string): void;
}

/** The reader's hold on a statement. Every method is a no-op once the statement has ended. */
export interface StatementHandle {
  /** The reader has taken this much and will take as much again. */
  credit(bytes: number, rows: number): void;
  /** Stop the statement in the database. The observer hears nothing more. */
  cancel(): void;
  /** Ask for `examined`; the answer may never come. */
  askExamined(): void;
}
