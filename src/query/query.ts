import { ownedKey } from '../tombstones.ts';
import { type Cause, causes, type Failure, failureOf, interrupted, lostBefore, undelivered } from '../wire/failures.ts';
import { effectOfText } from '../wire/sql-traits.ts';
import {
  type Batch,
  type Column,
  columnsBytes,
  type Outcome,
  type SessionState,
  type Statement,
  type StatementHandle,
  type StatementObserver,
  type StatementRequest,
} from '../wire/statement.ts';
import { type Buffers, MemoryReservation } from './buffers.ts';
import { giveBack } from './give-back.ts';
import { type Page, Pages, type QueryStats, type Snapshot } from './pages.ts';
import type { QueryMemory } from './request-memory.ts';
import { buffersOf, isHolding, noRows, plainBuffersOf, Ring, type Rows } from './ring.ts';
import { nextState, type QueryState, running, type StateEvent } from './state.ts';

export interface QueryLimits {
  /** How long each request waits for rows. */
  readonly waitMs: number;
  readonly pageRows: number;
  readonly pageBytes: number;
  readonly bufferRows: number;
  /** zlib's; 0: rows are not compressed. */
  readonly gzipLevel: number;
  readonly timeout: StatementTimeout;
}

/** How long a statement may run. */
export interface StatementTimeout {
  /** 0: without limit. */
  readonly ms: number;
  /** Whether it is the client's own. */
  readonly isAsked: boolean;
}

/** Where a statement came from, for the log. */
export interface QueryOrigin {
  /** The X-Request-Id of its POST, or one that the server has made. */
  readonly requestId: string;
  /** The address at the other end of the connection: the client's, or a proxy's; empty if the connection is gone. */
  readonly client: string;
}

export interface QueryIdentity {
  readonly id: string;
  readonly sessionId: string;
  /** The database user whose query it is. */
  readonly owner: string;
  /** Its POST has named itself, and may come again for the first page. */
  readonly hasIdempotencyKey?: boolean;
  /** Its client learns from the answer of `/final` what no other answer tells it. */
  readonly needsFinal?: boolean;
  readonly origin?: QueryOrigin;
}

export interface QueryTotals {
  readonly runningMs: number;
  readonly rows: number;
  /** As JSON. */
  readonly bytes: number;
  /** What of the bytes went by disk. */
  readonly spilledBytes: number;
}

/** The query's handle on its statement, from the queue to its end. */
export interface DispatchedStatement extends StatementHandle {
  /** Whether it can be sent to another connection, should the first be lost before it was sent. */
  readonly canResend: boolean;
  /** Sends it to another connection, now or when it is its turn. */
  resend(): void;
  /** Nothing more is reported of the statement. */
  end(): void;
}

/** A request that waits for a page. */
interface Poll {
  readonly since: number;
  readonly timer: NodeJS.Timeout;
  readonly wake: () => void;
}

/** Pages that hold less are not counted while they are sent. */
export const countedPageBytesMin = 16 * 1024;

/** Smaller batches are left to the collector of garbage: to give them back costs more than it does. */
const givenBackBytesMin = 16 * 1024;

const noColumns: readonly Column[] = [];
/** Smaller sets of columns are not counted: most of them are shared by all results of the same statement. */
const countedColumnsBytesMin = 8 * 1024;

/** Of a query of which nothing more is to be heard. */
const forgotten: Statement = { sql: '', extras: null };

/** The database is asked for its progress at most this often, */
const askIntervalMs = 1_000;
/** and not on account of a poll that is answered sooner than this. */
const askAfterMs = 200;

/**
 * One POST: a statement's execution (`#state`), the rows it has given back (`#ring`), and the pages they are handed out
 * in (`#pages`). Lives on the main thread and never looks into a row.
 */
export class Query implements StatementObserver {
  #identity: QueryIdentity;
  /** Made of its owner and its id once, as it is looked up several times (see tombstones.ts). */
  readonly key: string;
  /** Called once, when the state is no longer Running. */
  onSettled: (() => void) | null = null;
  /** Called when the statement has succeeded, and becomes Failed because rows of it are lost. */
  onRowsLost: (() => void) | null = null;
  /** Called when its statement is moved to another session. */
  onMoved: (() => void) | null = null;
  /** Called when it is no more. */
  onRemoved: (() => void) | null = null;
  readonly #limits: QueryLimits;
  readonly #buffers: Buffers;
  readonly #reservation: MemoryReservation;
  /** For the statement, and what is remembered of its request. */
  readonly #memory: QueryMemory | null;
  /** The memory of rows that are on their way to clients, by buffers, and in how many answers each is. */
  #sending: Map<ArrayBufferLike, number> | null = null;
  /** Memory that the last page alone keeps of a batch, as the rest of the batch was dropped. */
  #startedBytes = 0;
  /** A session holds the text of the statement. */
  #isLent = false;
  #isRemoved = false;
  /** What the rows that have not been handed out may take: those in the ring, and those that the worker has credit for. */
  #windowBytes: number;
  readonly #ring = new Ring();
  readonly #pages = new Pages(
    () => this.#ready(),
    (number) => this.#take(number),
  );
  #state: QueryState = running;
  /** The statement, for as long as there may be something to be said of what became of it. */
  #statement: Statement = forgotten;
  /** Whether it is of no kept session. */
  #isAlone = true;
  #handle: DispatchedStatement | null = null;
  #columns = noColumns;
  #columnsBytes = 0;
  /** Of a large row in the worker that finds no room on disk. */
  #unwrittenBytes = 0;
  /** Rows, and the memory of batches, that the worker has sent and not yet been credited for. */
  #unread = { rows: 0, bytes: 0 };
  #result = { rows: 0, bytes: 0 };
  #spilled = { rows: 0, bytes: 0 };
  /** Rows on disk that follow a statement's end. */
  #rowsToCome = 0;
  /** As the database counts them; null if it has given no count. */
  #examinedRows: number | null = null;
  #estimatedRows: number | null = null;
  #sessionState: SessionState | null = null;
  #isCancelled = false;
  readonly #createdAt = performance.now();
  #startedAt: number | null = null;
  #runningMs = 0;
  #timeout: NodeJS.Timeout | null = null;
  #poll: Poll | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;

  /** @param memory the reservation of its request, which the query releases */
  constructor(identity: QueryIdentity, limits: QueryLimits, buffers: Buffers, memory: QueryMemory | null = null) {
    this.#identity = identity;
    this.key = ownedKey(identity.owner, identity.id);
    this.#limits = limits;
    this.#buffers = buffers;
    this.#reservation = new MemoryReservation(buffers, identity.owner);
    this.#memory = memory;
    this.#windowBytes = buffers.floorBytes;
  }

  get identity(): QueryIdentity {
    return this.#identity;
  }

  get state(): QueryState {
    return this.#state;
  }

  /** The statement runs in another session than the one that it was meant for. */
  moveTo(sessionId: string): void {
    this.#identity = { ...this.#identity, sessionId };
    this.onMoved?.();
  }

  /** Whether rows on disk are still to come, which may be lost. */
  get hasRowsToCome(): boolean {
    return this.#rowsToCome > 0;
  }

  get isRunning(): boolean {
    return this.#state.name === 'Running';
  }

  /** Whether there is nothing more to be told: all has been handed out, or the client wanted no more. */
  get isRead(): boolean {
    return this.#pages.last?.next === null || this.#isCancelled;
  }

  /** Whether the first answer told all that there is, and nobody can ask for it again. */
  get isSinglePage(): boolean {
    const { hasIdempotencyKey, needsFinal } = this.identity;
    if (hasIdempotencyKey === true || needsFinal === true) return false;
    return this.#pages.last?.number === 0 && this.#pages.last.next === null;
  }

  /**
   * Called before the statement is dispatched, and again if it is dispatched in another form.
   * @param isAlone whether it is of no kept session, so that nothing else is lost with its connection
   */
  begin(statement: Statement, isAlone: boolean, handle: DispatchedStatement): void {
    this.#statement = statement;
    this.#isAlone = isAlone;
    this.#handle = handle;
  }

  /** The statement as it is sent to a connection, with what the query can take of its result. */
  statementRequest(): StatementRequest {
    const { bufferRows, gzipLevel, pageRows } = this.#limits;
    const gzip = gzipLevel === 0 ? null : { level: gzipLevel, pageRows };
    const { sql, traits, extras } = this.#statement;
    return { sql, traits, extras, creditBytes: this.#windowBytes, creditRows: bufferRows, gzip };
  }

  /**
   * The page of that number, when it is ready: when it is full, when the statement has ended and the rest fits in it,
   * or when the wait is over.
   * @returns null if there is no such page, or no more
   */
  page(number: number): Promise<Page> | null {
    return this.#isRemoved ? null : this.#pages.get(number);
  }

  /** Whether rows are missing in the page because the query was removed just before the page was made. */
  isTooLate({ state, columns, rows }: Page): boolean {
    return this.#isRemoved && state.name === 'Succeeded' && columns.length > 0 && rows.count === 0;
  }

  /** From the POST until the statement was sent to its connection; until now if it was not. */
  get queueMs(): number {
    return (this.#startedAt ?? performance.now()) - this.#createdAt;
  }

  /** The number of the page to ask for next; null if there is none. */
  get nextPage(): number | null {
    return this.#state.name === 'Failed' ? null : this.#pages.next;
  }

  /** What its session has come to by it, if that was asked for and is known. */
  get sessionState(): SessionState | null {
    return this.#sessionState;
  }

  /** What it has come to, in milliseconds, rows and bytes. */
  get totals(): QueryTotals {
    const { rows, bytes } = this.#result;
    return { runningMs: this.#runningMsUntilNow, rows, bytes, spilledBytes: this.#spilled.bytes };
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
  cancelByClient(cause = causes.cancelled()): void {
    if (!this.isRunning) return;
    this.#isCancelled = true;
    this.cancel(cause);
  }

  /** Ends the statement; does nothing if it has ended. */
  cancel(cause: Cause): void {
    if (!this.isRunning) return;
    const failure =
      this.#startedAt === null
        ? failureOf(cause, 'not_started')
        : interrupted(cause, effectOfText(this.#statement), this.#isAlone);
    this.#handle?.cancel();
    this.#handle = null;
    this.#settle({ type: 'failed', failure });
  }

  /** Ends the statement and forgets its rows; a poll that still waits is answered with the failure. */
  remove(cause: Cause): void {
    this.cancel(cause);
    if (this.#isToCome) this.#drop(cause);
    this.#giveBack(this.#ring.clear());
    this.#giveBackRows(this.#lastRows);
    this.#pages.forget();
    this.#columnsBytes = 0;
    this.#startedBytes = 0;
    this.#isRemoved = true;
    this.#account();
    if (this.#sending === null) this.#reservation.close();
    this.#shrinkMemory();
    this.onRemoved?.();
  }

  /**
   * An answer with the page is on its way. A client that does not read it would hold its rows unseen when they are no longer
   * those of the last page, or the query is removed; so they are counted until `sent`. A few rows hold the whole batch that they
   * are of.
   */
  sending(rows: Rows): void {
    this.#sending ??= new Map();
    for (const buffer of buffersOf(rows)) this.#sending.set(buffer, (this.#sending.get(buffer) ?? 0) + 1);
  }

  /** The answer has left, or its client has. */
  sent(rows: Rows): void {
    const sending = this.#sending;
    if (sending === null) return;
    for (const buffer of buffersOf(rows)) {
      const answers = (sending.get(buffer) ?? 0) - 1;
      if (answers > 0) sending.set(buffer, answers);
      else sending.delete(buffer);
    }
    if (sending.size === 0) this.#sending = null;
    // Most often they are those of the last page, of which it is known that they are needed.
    if (rows !== this.#lastRows) this.#giveBackRows(rows);
    this.#account();
    if (this.#isRemoved && this.#sending === null) this.#reservation.close();
  }

  started(): void {
    this.#isLent = true;
    this.#startedAt = performance.now();
    this.#account();
    const { ms, isAsked } = this.#limits.timeout;
    if (ms > 0) this.#timeout = setTimeout(() => this.cancel(causes.statementTimeout(ms / 1_000, isAsked)), ms);
  }

  released(): void {
    this.#isLent = false;
    this.#shrinkMemory();
  }

  /** Gives back what is reserved for the statement when nobody holds its text any more. */
  #shrinkMemory(): void {
    if (this.#memory === null || this.#isToCome || this.#isLent) return;
    const { reservation, keptBytes } = this.#memory;
    if (this.#isRemoved) reservation.release();
    else reservation.resize(keptBytes);
  }

  columns(columns: readonly Column[]): void {
    this.#columns = columns;
    const bytes = columnsBytes(columns);
    if (bytes < countedColumnsBytesMin) return;
    this.#columnsBytes = bytes;
    this.#account();
    if (!this.#reservation.isOver) return;
    this.#columns = noColumns;
    this.#columnsBytes = 0;
    this.#overflow();
  }

  rows(batch: Batch, spilled: boolean): void {
    this.#ring.push(batch);
    this.#unread.rows += batch.rows;
    this.#unread.bytes += batch.buffer.byteLength;
    if (!spilled) this.#count(this.#result, batch.rows, batch.length);
    this.#rowsToCome -= Math.min(this.#rowsToCome, batch.rows);
    if (!this.#isToCome) this.#forgetStatement();
    this.#grow();
    this.#account();
    if (this.#reservation.isOver) this.#overflow();
    else this.#wakeIfReady();
  }

  spilled(rows: number, bytes: number): void {
    this.#count(this.#spilled, rows, bytes);
    this.#count(this.#result, rows, bytes);
  }

  unwritten(bytes: number): void {
    this.#unwrittenBytes = bytes;
    this.#account();
    if (bytes > 0 && this.#reservation.isOver) this.#overflow();
  }

  examined(rows: number | null, estimatedRows: number | null): void {
    if (rows !== null) this.#examinedRows = Math.max(this.#examinedRows ?? 0, rows);
    this.#estimatedRows = estimatedRows ?? this.#estimatedRows;
  }

  ended(outcome: Outcome, rowsToCome: number): void {
    this.#rowsToCome = rowsToCome;
    this.#settle({ type: 'ended', outcome });
  }

  left(state: SessionState): void {
    this.#sessionState = state;
  }

  failed(failure: Failure): void {
    if (!this.#isToCome) return;
    this.#settle({ type: this.isRunning ? 'failed' : 'rows lost', failure });
  }

  notSent(reason: string): void {
    const handle = this.#handle;
    if (handle?.canResend !== true) {
      this.failed(lostBefore(reason, this.#isAlone));
      return;
    }
    if (this.#timeout !== null) clearTimeout(this.#timeout);
    this.#startedAt = null;
    // It may have to wait for memory, and is not to wait for its own.
    this.#account();
    handle.resend();
  }

  /** Nothing more is to be heard of the statement. */
  #forgetStatement(): void {
    this.#handle?.end();
    this.#handle = null;
    this.#statement = forgotten;
    this.#shrinkMemory();
  }

  /** Whether anything more is to be heard of the statement. */
  get #isToCome(): boolean {
    return this.isRunning || this.#rowsToCome > 0;
  }

  #settle(event: StateEvent): void {
    const before = this.#state;
    const wasRunning = before.name === 'Running';
    this.#state = nextState(before, event);
    if (this.#state.name === 'Failed') {
      this.#rowsToCome = 0;
      this.#unwrittenBytes = 0;
      this.#startedBytes += this.#ring.started?.byteLength ?? 0;
      this.#giveBack(this.#ring.clear());
    }
    if (wasRunning) {
      if (this.#startedAt !== null) this.#runningMs = performance.now() - this.#startedAt;
      if (this.#timeout !== null) clearTimeout(this.#timeout);
    }
    if (!this.#isToCome) this.#forgetStatement();
    this.#account();
    this.#wakeIfReady();
    if (wasRunning) this.onSettled?.();
    else if (this.#state !== before) this.onRowsLost?.();
  }

  /** All rows together take more memory than they may, and these came last. */
  #overflow(): void {
    const cause = causes.storageFull(this.#buffers.heldBytesMax);
    if (this.isRunning) this.cancel(cause);
    else this.#drop(cause);
  }

  /** Gives up the rows of a statement that has succeeded. */
  #drop(cause: Cause): void {
    this.#handle?.cancel();
    this.#settle({ type: 'rows lost', failure: undelivered(cause, effectOfText(this.#statement)) });
  }

  #take(number: number): Page {
    const { pageRows, pageBytes } = this.#limits;
    const rows = this.#ring.rows === 0 ? noRows : this.#ring.take(pageRows, pageBytes);
    if (rows.count > 0) this.#credit(rows.count);
    const atEnd = !this.#isToCome && this.#ring.rows === 0;
    const next = atEnd ? null : rows.count > 0 ? number + 1 : number;
    if (next !== number) {
      this.#startedBytes = 0;
      this.#giveBackRows(this.#lastRows);
    }
    this.#account(next === number ? undefined : rows);
    return { state: this.#state, columns: this.#columns, stats: this.#stats(), number, rows, next };
  }

  /**
   * Gives back the memory of batches that nothing needs. Whoever has been given a page with rows of them says so by `sending`
   * in the same turn, so that it is looked for at the end of the turn.
   */
  #giveBack(buffers: readonly ArrayBuffer[]): void {
    if (buffers.length === 0) return;
    const unneeded = new Set(buffers.filter(({ byteLength }) => byteLength >= givenBackBytesMin));
    if (unneeded.size === 0) return;
    setImmediate(() => {
      const needed = buffersOf(this.#lastRows);
      if (this.#ring.started !== null) needed.add(this.#ring.started);
      for (const buffer of unneeded) {
        // Of no bytes: it has been given back.
        if (buffer.byteLength === 0 || needed.has(buffer) || this.#sending?.has(buffer) === true)
          unneeded.delete(buffer);
      }
      giveBack([...unneeded]);
    });
  }

  #giveBackRows(rows: Rows): void {
    if (isHolding(rows, givenBackBytesMin)) this.#giveBack(plainBuffersOf(rows));
  }

  #isReady(): boolean {
    const { pageRows, pageBytes, bufferRows } = this.#limits;
    return (
      !this.#isToCome ||
      this.#ring.rows >= pageRows ||
      this.#ring.bytes >= pageBytes ||
      // Out of credit: waiting would bring no more rows.
      (this.#ring.rows > 0 && (this.#unread.bytes >= this.#windowBytes || this.#unread.rows >= bufferRows))
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

  /** Lets the worker send as many rows again as were handed out, if memory is not scarce. */
  #credit(rows: number): void {
    const freeBytes = this.#unread.bytes - this.#ring.heldBytes;
    this.#unread.rows -= rows;
    this.#unread.bytes -= freeBytes;
    const windowBytes = this.#buffers.shrunk(this.#windowBytes, freeBytes);
    this.#handle?.credit(freeBytes - (this.#windowBytes - windowBytes), rows);
    this.#windowBytes = windowBytes;
  }

  /** Lets the worker send more at once: rows come, and while they do there may be many. */
  #grow(): void {
    if (this.#handle === null) return;
    const windowBytes = this.#buffers.grown(this.#windowBytes);
    if (windowBytes > this.#windowBytes) this.#handle.credit(windowBytes - this.#windowBytes, 0);
    this.#windowBytes = windowBytes;
  }

  /**
   * Sets aside what is needed: for rows that are there or may come, for the last page, which may be asked for again, and for pages
   * that are on their way to clients.
   */
  #account(last = this.#lastRows): void {
    const ringBytes = this.#ring.heldBytes;
    const windowBytes = this.#startedAt !== null && this.#isToCome ? Math.max(this.#windowBytes, ringBytes) : ringBytes;
    let otherBytes = last.heldBytes + this.#startedBytes + this.#columnsBytes + this.#unwrittenBytes;
    if (this.#sending !== null) {
      // The last page's are counted already, with it or with what is left of their batch.
      const counted = buffersOf(last);
      for (const buffer of this.#sending.keys()) if (!counted.has(buffer)) otherBytes += buffer.byteLength;
    }
    this.#reservation.set(windowBytes + otherBytes, ringBytes + otherBytes);
  }

  /** Of the page that may be asked for again. */
  get #lastRows(): Rows {
    return this.#pages.last?.rows ?? noRows;
  }

  #count(progress: { rows: number; bytes: number }, rows: number, bytes: number): void {
    progress.rows += rows;
    progress.bytes += bytes;
  }

  get #runningMsUntilNow(): number {
    return this.isRunning && this.#startedAt !== null ? performance.now() - this.#startedAt : this.#runningMs;
  }

  #stats(): QueryStats {
    const { rows, bytes } = this.#result;
    const examined = Math.max(this.#examinedRows ?? 0, rows);
    const estimatedRows = this.#estimatedRows !== null && this.#estimatedRows >= examined ? this.#estimatedRows : null;
    const written = this.#state.name === 'Succeeded' ? Number(this.#state.outcome.affectedRows) : 0;
    return {
      runningMs: this.#runningMsUntilNow,
      scan: { rows: examined, bytes, known: this.#examinedRows !== null, estimatedRows },
      write: { rows: written, bytes: 0 },
      result: { rows, bytes },
      spill: { ...this.#spilled },
      queue: this.#handle?.queuePosition() ?? null,
    };
  }
}
