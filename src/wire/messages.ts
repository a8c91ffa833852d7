import type { MessagePort } from 'node:worker_threads';
import type { Cause, Failure } from './failures.ts';
import type { Afterwards, Batch, Column, Outcome, SessionState, StatementRequest } from './statement.ts';

/** Where the database is: a Unix socket, or a host and port. */
export type DatabaseAddress =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number; readonly tls: DatabaseTls | null };

/** How the way to the database is encrypted, and what its certificate is held to (MySQL manual, "--ssl-mode"). */
export interface DatabaseTls {
  readonly mode: 'required' | 'verify-ca' | 'verify-full';
  /** Certificates (PEM) of those who may vouch for the database's; null: those that Node trusts. */
  readonly ca: string | null;
}

/** Who logs in, and which schema is current at the start of every statement. */
export interface Login {
  readonly user: string;
  readonly password: string;
  /** null: the schema called `default` if there is one that the user may enter, else none. */
  readonly database: string | null;
}

/** A connection that is lost to us, but perhaps not to the database. */
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
  /** Carries a channel for each database connection of the thread. */
  readonly port: MessagePort;
  readonly address: DatabaseAddress;
  readonly limits: WorkerLimits;
  /** Where to count the spilled rows of the thread, and what all count in (see `SpillUsage`). */
  readonly slot: number;
  readonly spillUsage: SharedArrayBuffer;
}

export interface WorkerLimits {
  readonly connectTimeoutMs: number;
  /** How long the database may be silent over a statement before it is asked whether it still works on it. */
  readonly pingMs: number;
  /** How long a killed statement may take to end before its connection is closed under it. */
  readonly killTimeoutMs: number;
  readonly rowBytesMax: number;
  /** Columns of one result. */
  readonly columnsMax: number;
  /** Values of one statement's placeholders, each as often as it is used. */
  readonly paramsBytesMax: number;
  /** Placeholders of one statement, those that lists expand to included. */
  readonly paramsMax: number;
  readonly spill: SpillLimits;
  /** Every statement is held to a read-only transaction, or refused. */
  readonly readOnly: boolean;
}

/** When and where rows are put to disk that nobody reads. */
export interface SpillLimits {
  readonly folder: string;
  /** Of one statement, on disk; 0: none. */
  readonly bytesMax: number;
  /** Of all statements together, on disk. */
  readonly totalBytesMax: number;
  /** How long a statement must have been held up by its reader. */
  readonly waitMs: number;
}

/**
 * Main to worker, about one database connection. `open` comes first, but on the one channel of a thread that carries
 * nothing but `ping`, and asks whether the thread lives. `statement` numbers the statements of a connection,
 * so that a late message hits no later one.
 */
export type ToWorker =
  | { readonly type: 'ping' }
  /** Instead of `open`: end what runs on in the database on connections that nobody holds any more. */
  | { readonly type: 'sweep'; readonly login: Login; readonly orphans: readonly Orphan[] }
  | { readonly type: 'open'; readonly login: Login }
  | (StatementRequest & { readonly type: 'execute'; readonly statement: number; readonly after: Afterwards })
  | { readonly type: 'credit'; readonly statement: number; readonly bytes: number; readonly rows: number }
  | { readonly type: 'cancel'; readonly statement: number }
  /** The memory that `large_row` asked for is reserved. */
  | { readonly type: 'room'; readonly statement: number }
  | { readonly type: 'examine'; readonly statement: number }
  /** Close the connection, and the channel when the rows of ended statements are handed over. */
  | { readonly type: 'close' };

/** Worker to main. */
export type FromWorker =
  /** `thread` is the number of the thread in the process. */
  | { readonly type: 'pong'; readonly thread: number }
  /**
   * `connection` is its id in the database, `version` the database's own, as it names it. `hasInitConnectRun`: the connection
   * serves one statement, or one session, and cannot be reused.
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
  /** `left`: the ids of those that may still run something, as far as the login may know. `ended`: how many were killed. */
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
      /** So much more has been put to disk. */
      readonly spilled?: { readonly rows: number; readonly bytes: number };
      /** A failure may come after an end that was told, if rows on disk are lost. */
      readonly end?: StatementEnd;
      /** With the end of a statement after which the session may be held. */
      readonly session?: SessionState;
      /** With the end: what `idle` says. */
      readonly idle?: true;
    }
  /**
   * A row of up to so many bytes is about to be received; it is not read before `room` comes. 0: the statement holds no large
   * row any more, or needs none.
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
   * are being put to disk. `session`: see `news`, whether or not it was told there.
   */
  | { readonly type: 'idle'; readonly session?: SessionState }
  /**
   * The connection is gone. `received` is the number of the last statement that was taken, or 0; if that has ended, and rows
   * of it are on disk, its end and they still follow, as do those of earlier ones. `mayRunOn`: in the database, a statement
   * may be at work on it yet.
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
 * The columns of a result. They are given the first time; from then on their number stands for them in whatever is told of
 * the same database connection, until other columns are given under it. Those without a number are too large to be remembered.
 */
export type ColumnsRef =
  | { readonly number: number; readonly columns?: readonly Column[] }
  | { readonly columns: readonly Column[] };

export type StatementEnd =
  | {
      readonly ok: true;
      readonly outcome: Outcome;
      /** Rows that are still on disk, and follow as they are credited. */
      readonly rowsToCome: number;
    }
  | { readonly ok: false; readonly failure: Failure };

/** Why no connection was opened, by who has to act: the user, the request, or the operator. */
export interface Refusal {
  readonly kind: 'denied' | 'database' | 'unavailable' | 'too many' | 'full' | 'user full';
  readonly failure: Cause;
  /** The server itself, or its machine, has no file descriptor left for a connection. */
  readonly isOutOfDescriptors?: true;
}
