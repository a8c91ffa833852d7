import {
  type Batch,
  type Column,
  type Failure,
  failures,
  type Outcome,
  type StatementHandle,
  type StatementObserver,
  type StatementRequest,
} from '../wire/statement.ts';
import { type Page, Pages, type QueryStats, type Snapshot } from './pages.ts';
import { noRows, Ring } from './ring.ts';
import { nextState, type QueryState, running, type StateEvent } from './state.ts';
import type { Storage } from './storage.ts';

export interface QueryLimits {
  /** How long each request waits for rows. */
  readonly waitMs: number;
  readonly pageRows: number;
  readonly pageBytes: number;
  readonly bufferRows: number;
  readonly bufferBytes: number;
  /** zlib's; 0: rows are not compressed. */
  readonly gzipLevel: number;
  readonly statementTimeoutMs: number;
}

export interface QueryIdentity {
  readonly id: string;
  readonly sessionId: string;
  /** The database user whose query it is. */
  readonly owner: string;
}

/** A request that waits for a page. */
interface Poll {
  readonly since: number;
  readonly timer: NodeJS.Timeout;
  readonly wake: () => void;
}

const noColumns: readonly Column[] = [];

/** The database is asked for its progress at most this often, */
const askIntervalMs = 1_000;
/** and not on account of a poll that is answered sooner than this. */
const askAfterMs = 200;

/**
 * One POST: a statement's execution (`#state`), the rows it has given back (`#ring`), and the pages they are handed out
 * in (`#pages`). Lives on the main thread and never looks into a row.
 */
export class Query implements StatementObserver {
  readonly identity: QueryIdentity;
  /** Called once, when the state has become final. */
  onSettled: (() => void) | null = null;
  readonly #limits: QueryLimits;
  readonly #storage: Storage;
  readonly #ring = new Ring();
  readonly #pages = new Pages(
    () => this.#ready(),
    (number) => this.#take(number),
  );
  #state: QueryState = running;
  #handle: StatementHandle | null = null;
  #columns = noColumns;
  /** Rows, and the memory of batches, that the worker has sent and not yet been credited for. */
  #unread = { rows: 0, bytes: 0 };
  #result = { rows: 0, bytes: 0 };
  #examinedRows = 0;
  #heldBytes = 0;
  #isCancelled = false;
  #startedAt: number | null = null;
  #runningMs = 0;
  #timeout: NodeJS.Timeout | null = null;
  #poll: Poll | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(identity: QueryIdentity, limits: QueryLimits, storage: Storage) {
    this.identity = identity;
    this.#limits = limits;
    this.#storage = storage;
  }

  get isRunning(): boolean {
    return this.#state.name === 'Running';
  }

  /** Whether there is nothing more to be told: all has been handed out, or the client wanted no more. */
  get isRead(): boolean {
    return this.#pages.last?.next === null || this.#isCancelled;
  }

  /** Whether the first answer told all that there is. */
  get isWhole(): boolean {
    return this.#pages.last?.number === 0 && this.#pages.last.next === null;
  }

  /** @param run hands the statement to a session, with this query as its observer */
  start(sql: string, run: (request: StatementRequest, observer: StatementObserver) => StatementHandle): void {
    const { bufferBytes, bufferRows, gzipLevel, pageRows } = this.#limits;
    const gzip = gzipLevel === 0 ? null : { level: gzipLevel, pageRows };
    const handle = run({ sql, creditBytes: bufferBytes, creditRows: bufferRows, gzip }, this);
    if (this.isRunning) this.#handle = handle;
  }

  /**
   * The page of that number, when it is ready: when it is full, when the statement has ended and the rest fits in it,
   * or when the wait is over.
   * @returns null if there is no such page, or no more
   */
  page(number: number): Promise<Page> | null {
    return this.#pages.get(number);
  }

  /** The number of the page to ask for next; null if there is none. */
  get nextPage(): number | null {
    return this.#state.name === 'Failed' ? null : this.#pages.next;
  }

  snapshot(): Snapshot {
    return { state: this.#state, columns: this.#columns, stats: this.#stats() };
  }

  /** Asks the database how far the statement is, if a poll has waited for a while and it was not asked just now. */
  askExamined(): void {
    if (this.#poll === null || this.#startedAt === null) return;
    const now = performance.now();
    if (now < this.#poll.since + askAfterMs || now < this.#askedAt + askIntervalMs) return;
    this.#askedAt = now;
    this.#handle?.askExamined();
  }

  /** Ends the statement as its client wishes; does nothing if it has ended. */
  cancelByClient(failure = failures.cancelled()): void {
    if (!this.isRunning) return;
    this.#isCancelled = true;
    this.cancel(failure);
  }

  /** Ends the statement; does nothing if it has ended. */
  cancel(failure: Failure): void {
    if (!this.isRunning) return;
    this.#handle?.cancel();
    this.#settle({ type: 'failed', failure });
  }

  /** Ends the statement and forgets its rows; a poll that still waits is answered with the failure. */
  remove(failure: Failure): void {
    this.cancel(failure);
    this.#ring.clear();
    this.#storage.change(-this.#heldBytes);
    this.#heldBytes = 0;
    this.#handle = null;
  }

  started(): void {
    this.#startedAt = performance.now();
    const { statementTimeoutMs } = this.#limits;
    this.#timeout = setTimeout(
      () => this.cancel(failures.statementTimeout(statementTimeoutMs / 1_000)),
      statementTimeoutMs,
    );
  }

  columns(columns: readonly Column[]): void {
    this.#columns = columns;
  }

  rows(batch: Batch): void {
    this.#ring.push(batch);
    this.#unread.rows += batch.rows;
    this.#unread.bytes += batch.buffer.byteLength;
    this.#result.rows += batch.rows;
    this.#result.bytes += batch.length;
    this.#account();
    if (this.#storage.isOver) this.cancel(failures.storageFull(this.#storage.bytesMax));
    else this.#wakeIfReady();
  }

  examined(rows: number): void {
    this.#examinedRows = Math.max(this.#examinedRows, rows);
  }

  ended(outcome: Outcome): void {
    this.#settle({ type: 'ended', outcome });
  }

  failed(failure: Failure): void {
    this.#settle({ type: 'failed', failure });
  }

  #settle(event: StateEvent): void {
    if (!this.isRunning) return;
    this.#state = nextState(this.#state, event);
    this.#handle = null;
    if (this.#startedAt !== null) this.#runningMs = performance.now() - this.#startedAt;
    if (this.#timeout !== null) clearTimeout(this.#timeout);
    if (this.#state.name === 'Failed') {
      this.#ring.clear();
      this.#account();
    }
    this.#wakeIfReady();
    this.onSettled?.();
  }

  #take(number: number): Page {
    const { pageRows, pageBytes } = this.#limits;
    const rows = this.#ring.rows === 0 ? noRows : this.#ring.take(pageRows, pageBytes);
    if (rows.count > 0) this.#credit(rows.count);
    const atEnd = !this.isRunning && this.#ring.rows === 0;
    const next = atEnd ? null : rows.count > 0 ? number + 1 : number;
    this.#account(next === number ? undefined : rows.heldBytes);
    return { state: this.#state, columns: this.#columns, stats: this.#stats(), number, rows, next };
  }

  #isReady(): boolean {
    const { pageRows, pageBytes, bufferBytes, bufferRows } = this.#limits;
    return (
      !this.isRunning ||
      this.#ring.rows >= pageRows ||
      this.#ring.bytes >= pageBytes ||
      // Out of credit: waiting would bring no more rows.
      (this.#ring.rows > 0 && (this.#unread.bytes >= bufferBytes || this.#unread.rows >= bufferRows))
    );
  }

  /** Until the page is ready or the wait is over; undefined if there is nothing to wait for. */
  #ready(): Promise<void> | undefined {
    const { waitMs } = this.#limits;
    if (waitMs === 0 || this.#isReady()) return undefined;
    return new Promise((wake) => {
      this.#poll = { since: performance.now(), timer: setTimeout(() => this.#wake(), waitMs), wake };
    });
  }

  #wakeIfReady(): void {
    if (this.#poll !== null && this.#isReady()) this.#wake();
  }

  #wake(): void {
    const poll = this.#poll;
    if (poll === null) return;
    this.#poll = null;
    clearTimeout(poll.timer);
    poll.wake();
  }

  /** Lets the worker send as many rows again as were handed out. */
  #credit(rows: number): void {
    const bytes = this.#unread.bytes - this.#ring.heldBytes;
    this.#unread.rows -= rows;
    this.#unread.bytes -= bytes;
    this.#handle?.credit(bytes, rows);
  }

  /** Tells the storage how much is held: what is to be handed out, and the last page, which may be asked for again. */
  #account(pageBytes = this.#pages.last?.rows.heldBytes ?? 0): void {
    const held = this.#ring.heldBytes + pageBytes;
    this.#storage.change(held - this.#heldBytes);
    this.#heldBytes = held;
  }

  #stats(): QueryStats {
    const { rows, bytes } = this.#result;
    const written = this.#state.name === 'Succeeded' ? Number(this.#state.outcome.affectedRows) : 0;
    return {
      runningMs: this.isRunning && this.#startedAt !== null ? performance.now() - this.#startedAt : this.#runningMs,
      scan: { rows: Math.max(this.#examinedRows, rows), bytes },
      write: { rows: written, bytes: 0 },
      result: { rows, bytes },
    };
  }
}
