import type { MessagePort } from 'node:worker_threads';
import type { Cause, Failure } from './failures.ts';
import type { KeptBatch } from './kept-rows.ts';
import type { SpillTotals } from './spill-usage.ts';
import type { Afterwards, Batch, Column, Outcome, SessionState, StatementRequest } from './statement.ts';

/** The address of the database: a Unix socket, or a host and port. */
export type DatabaseAddress =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number; readonly tls: DatabaseTls | null };

/** How the connection to the database is encrypted, and how its certificate is checked (MySQL manual, "--ssl-mode"). */
export interface DatabaseTls {
  readonly mode: 'required' | 'verify-ca' | 'verify-full';
  /** PEM certificates of trusted authorities; null: those that Node.js trusts. */
  readonly ca: string | null;
}

/** A user, and the schema that is selected at the start of every statement. */
export interface Login {
  readonly user: string;
  readonly password: string;
  /** null: the schema `default` if it exists and the user may enter it, else none. `noSchema`: none. */
  readonly database: string | null;
}

/** In place of a schema's name: no schema is selected. */
export const noSchema = '';

/** A connection that is lost on our side, while the database may still run its statement. */
export interface Orphan {
  /** Its id in the database. */
  readonly id: number;
  readonly user: string;
  /** How long ago it was opened. */
  readonly openedMs: number;
  /** How long ago it was lost, at the latest. */
  readonly lostMs: number;
}

/** The argument of the one long task that each worker thread runs. */
export interface ThreadTask {
  /** Carries one channel per database connection of the thread. */
  readonly port: MessagePort;
  readonly address: DatabaseAddress;
  readonly limits: WorkerLimits;
  /** The thread's slot in `spillUsage` (see `SpillUsage`). */
  readonly slot: number;
  readonly spillUsage: SharedArrayBuffer;
  /** See `LargeResults`. */
  readonly largeResults: SharedArrayBuffer;
}

export interface WorkerLimits {
  readonly connectTimeoutMs: number;
  /** How long a statement may have no answer before the process list is checked for it. */
  readonly pingMs: number;
  /** How long a killed statement may take to end before its connection is closed. */
  readonly killTimeoutMs: number;
  readonly rowBytesMax: number;
  /** Columns of one result. */
  readonly columnsMax: number;
  /** Bytes of one statement's values, each counted per use. */
  readonly paramsBytesMax: number;
  /** Placeholders of one statement, with lists expanded. */
  readonly paramsMax: number;
  readonly spill: SpillLimits;
  /** Every statement runs in a read-only transaction, or is refused. */
  readonly readOnly: boolean;
}

/** When and where unread rows are written to disk. */
export interface SpillLimits {
  readonly folder: string;
  /** On disk, per statement; 0: never. */
  readonly bytesMax: number;
  /** All statements together. */
  readonly total: SpillTotals;
  /** How long a statement must have been paused by its reader. */
  readonly waitMs: number;
}

/**
 * Main to worker, about one database connection. `open` comes first. One channel per thread carries only `ping`, which checks that
 * the thread lives. `statement` numbers the statements of a connection, so that a late message does not affect a later one.
 */
export type ToWorker =
  | { readonly type: 'ping' }
  /** Instead of `open`: kill statements that still run on lost connections. */
  | { readonly type: 'sweep'; readonly login: Login; readonly orphans: readonly Orphan[] }
  /** `spillSlot`: the user's slot in the spill usage (see `SpillUsage`). */
  | { readonly type: 'open'; readonly login: Login; readonly spillSlot: number }
  | (StatementRequest & { readonly type: 'execute'; readonly statement: number; readonly after: Afterwards })
  | { readonly type: 'credit'; readonly statement: number; readonly bytes: number; readonly rows: number }
  | { readonly type: 'cancel'; readonly statement: number }
  /** The memory that `large_row` asked for is reserved. */
  | { readonly type: 'room'; readonly statement: number }
  | { readonly type: 'examine'; readonly statement: number }
  /** Close the connection, and the channel once the rows of ended statements are delivered. */
  | { readonly type: 'close' };

/** Worker to main. */
export type FromWorker =
  /** `thread` is the number of the thread in the process. */
  | { readonly type: 'pong'; readonly thread: number }
  /**
   * `connection` is its id in the database, `version` that of the database. `hasInitConnectRun`: the connection serves one
   * statement, or one session, and cannot be reused.
   */
  | {
      readonly type: 'opened';
      readonly connection: number;
      readonly version: string;
      readonly hasInitConnectRun?: true;
      /** The most connections that the database accepts, from all clients. */
      readonly connectionsMax: number;
      /** The most that it accepts from the user; 0: no limit. */
      readonly userConnectionsMax: number;
    }
  /** A kill was not sent because a connection limit of the database is reached. */
  | { readonly type: 'crowded' }
  /** `left`: the ids of orphans that may still run a statement. `ended`: how many were killed. */
  | { readonly type: 'swept'; readonly left: readonly number[]; readonly ended: number }
  | { readonly type: 'refused'; readonly refusal: Refusal }
  | {
      /** A small result is reported in a single update. */
      readonly type: 'update';
      readonly statement: number;
      readonly columns?: ColumnsRef;
      readonly batch?: Batch;
      /** The batch comes from disk. */
      readonly fromDisk?: true;
      /** So much more has been written to disk. */
      readonly spilled?: { readonly rows: number; readonly bytes: number };
      /** A batch of a kept result is on disk. */
      readonly kept?: KeptBatch;
      /** A failure may follow a reported end, if rows on disk are lost. */
      readonly end?: StatementEnd;
      /** With the end of a statement that was run with `pin`. */
      readonly session?: SessionState;
      /** With the end: the same as the message `idle`. */
      readonly idle?: true;
    }
  /**
   * Requests memory for a row of up to so many bytes, which is not read before `room`. 0: the statement holds no large row any
   * more, or withdraws the request.
   */
  | { readonly type: 'large_row'; readonly statement: number; readonly bytes: number }
  /** See `StatementObserver.unwritten`. */
  | { readonly type: 'unwritten'; readonly statement: number; readonly bytes: number }
  /** See `StatementObserver.examined`. */
  | {
      readonly type: 'examined';
      readonly statement: number;
      readonly rows: number | null;
      readonly estimatedRows: number | null;
    }
  /**
   * The connection is ready for its next statement. Comes with the `end` of a statement or after it; before it only if rows
   * are being written to disk. `session`: as in `update`, even if it was reported there.
   */
  | { readonly type: 'idle'; readonly session?: SessionState }
  /**
   * The connection is gone. `received` is the number of the last statement that was received, or 0. `hasRowsToCome`: it has ended,
   * and its end and its rows on disk still follow, as do those of earlier statements. `mayRunOn`: the database may still run a
   * statement.
   */
  | {
      readonly type: 'lost';
      readonly reason: string;
      readonly received: number;
      readonly hasRowsToCome: boolean;
      readonly mayRunOn: boolean;
    };

/** Reports columns, rows, or the end of a statement. */
export type StatementUpdate = FromWorker & { readonly type: 'update' };

/**
 * The columns of a result. The first time, they come with a number; from then on, the number alone refers to them on the same
 * connection, until other columns come with it. Columns without a number are too large to be kept.
 */
export type ColumnsRef =
  | { readonly number: number; readonly columns?: readonly Column[] }
  | { readonly columns: readonly Column[] };

export type StatementEnd =
  | {
      readonly ok: true;
      readonly outcome: Outcome;
      /** Rows that are still on disk, and follow as credit allows. */
      readonly rowsToCome: number;
    }
  | { readonly ok: false; readonly failure: Failure };

/** `max connections`: the database's `max_connections` is reached. `max user connections`: a limit of the user's account is reached. */
export type DatabaseLimit = 'max connections' | 'max user connections';

/** Why no connection was opened. `kind` decides who has to act: the user, the client or the operator. */
export interface Refusal {
  readonly kind: 'denied' | 'database' | 'unavailable' | 'too many' | DatabaseLimit;
  readonly failure: Cause;
  /** Sluice, or its machine, has no file descriptor left for a connection. */
  readonly isOutOfDescriptors?: true;
}
