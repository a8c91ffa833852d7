import { EventEmitter } from 'node:events';
import { ownedKey } from '../tombstones.ts';
import { type Cause, causes, type Failure, failureOf } from '../wire/failures.ts';
import type { KeptBatch } from '../wire/kept-rows.ts';
import { nextPhase } from '../wire/phase.ts';
import type {
  Batch,
  Column,
  Outcome,
  SessionState,
  Statement,
  StatementObserver,
  StatementRequest,
} from '../wire/statement.ts';
import type { Buffers } from './buffers.ts';
import type { DispatchedStatement } from './dispatched-statement.ts';
import type { QueryIdentity } from './identity.ts';
import { KeptStatement } from './kept-statement.ts';
import type { QueryLimits } from './limits.ts';
import { type Page, type PageReader, Pages, type PageTable, type QueryStats, type Snapshot } from './pages.ts';
import { ProgressCounter } from './progress-counter.ts';
import type { QueryEvents } from './query-events.ts';
import { QuerySchema } from './query-schema.ts';
import { QueryStatement } from './query-statement.ts';
import type { QueryMemory } from './request-memory.ts';
import { type Credit, RowBuffer } from './row-buffer.ts';
import { type PagedQuery, RowPages } from './row-pages.ts';
import type { RowStore } from './row-store.ts';
import { nextState, phaseTransitions, type QueryPhase, type QueryState, running } from './state.ts';
import { StatementMemory } from './statement-memory.ts';
import { StatementTimer } from './statement-timer.ts';

/**
 * One POST: a statement's execution (`#state`), the rows it has given back (`rowBuffer`), and the pages they are handed out
 * in (`pages`). Lives on the main thread and never looks into a row.
 */
export class Query extends EventEmitter<QueryEvents> implements StatementObserver, PagedQuery {
  #identity: QueryIdentity;
  /** Made of its owner and its id once, as it is looked up several times (see tombstones.ts). */
  readonly key: string;
  readonly #limits: QueryLimits;
  /** For the statement, and what is remembered of its request. */
  readonly #memory: StatementMemory;
  #phase: QueryPhase = 'queued';
  #state: QueryState = running;
  readonly rowBuffer: RowBuffer;
  readonly schema: QuerySchema;
  /** null: its rows are not kept. */
  readonly keeping: KeptStatement | null;
  readonly pages: PageTable;
  readonly progress = new ProgressCounter();
  readonly #statement = new QueryStatement();
  #handle: DispatchedStatement | null = null;
  /** Rows on disk that follow a statement's end. */
  #rowsToCome = 0;
  #sessionState: SessionState | null = null;
  #isCancelledByClient = false;
  readonly #timer: StatementTimer;

  /**
   * @param memory the reservation of its request, which the query releases
   * @param store where its rows are kept; null: they are not
   */
  constructor(
    identity: QueryIdentity,
    limits: QueryLimits,
    buffers: Buffers,
    memory: QueryMemory | null = null,
    store: RowStore | null = null,
  ) {
    super();
    this.#identity = identity;
    this.key = ownedKey(identity.owner, identity.id);
    this.#limits = limits;
    this.rowBuffer = new RowBuffer(buffers, identity.owner);
    this.schema = new QuerySchema(this.rowBuffer);
    this.keeping = store === null ? null : new KeptStatement(store, this, limits);
    this.pages = this.keeping?.pages ?? new Pages(new RowPages(this, limits, this.rowBuffer));
    this.#memory = new StatementMemory(memory);
    this.#timer = new StatementTimer(limits);
  }

  get identity(): QueryIdentity {
    return this.#identity;
  }

  get state(): QueryState {
    return this.#state;
  }

  get isRunning(): boolean {
    return this.#state.name === 'Running';
  }

  /** Whether rows on disk are still to come, which may be lost. */
  get isDraining(): boolean {
    return this.#phase === 'draining';
  }

  /** Whether the client needs nothing more: all rows have been handed out, or it has cancelled the statement. */
  get isDrained(): boolean {
    return this.pages.isReadToEnd || this.#isCancelledByClient;
  }

  /** Whether the first answer held the whole result. */
  get isSinglePage(): boolean {
    return this.pages.isSinglePage;
  }

  /** The state in which the statement has left its session, if that was asked for and is known. */
  get sessionState(): SessionState | null {
    return this.#sessionState;
  }

  /** The number of the page to ask for next; null if there is none. */
  get nextPage(): number | null {
    return this.#state.name === 'Failed' ? null : this.pages.next;
  }

  snapshot(): Snapshot {
    const writtenRows = this.#state.name === 'Succeeded' ? Number(this.#state.outcome.affectedRows) : 0;
    const stats = this.progress.stats(writtenRows, this.#handle?.queuePosition() ?? null);
    return { state: this.#state, columns: this.schema.columns, stats };
  }

  /** Instead of `begin`: an earlier process has run the statement, and its rows are kept. */
  restore(state: QueryState, stats: QueryStats | null): void {
    this.#state = state;
    this.schema.leaveIn(this.keeping?.store ?? null);
    if (stats !== null) this.progress.restore(stats);
    this.#move('complete');
  }

  /**
   * Called before the statement is dispatched, and again if it is dispatched in another form.
   * @param isStandalone whether it is of no kept session
   */
  begin(statement: Statement, isStandalone: boolean, handle: DispatchedStatement): void {
    this.#statement.set(statement, isStandalone);
    this.#handle = handle;
  }

  /** The statement as it is sent to a connection, with the credit for its first rows. */
  statementRequest(): StatementRequest {
    const creditBytes = this.keeping?.grantedBytes() ?? this.rowBuffer.windowBytes;
    return this.#statement.request(this.#limits, creditBytes, this.keeping?.request ?? null);
  }

  /** The statement runs in another session than the one that it was meant for. */
  moveTo(sessionId: string): void {
    this.#identity = { ...this.#identity, sessionId };
    this.emit('moved');
  }

  /**
   * Gives the reader the page of that number, when it is full, when the statement has ended and the rest fits in it, or when the
   * wait is over.
   * @returns false if there is no such page, or it is no longer kept
   */
  readPage(number: number, reader: PageReader): boolean {
    return this.#phase !== 'removed' && this.pages.readPage(number, reader);
  }

  /** Whether rows are missing in the page because the query was removed just before the page was made. */
  isTooLate({ state, columns, rows }: Page): boolean {
    return this.#phase === 'removed' && state.name === 'Succeeded' && columns.length > 0 && rows.count === 0;
  }

  /** Asks the database for its progress if a poll has waited for a while, or there is a listener, unless it was asked recently. */
  askProgress(): void {
    if (this.#phase !== 'running') return;
    const hasListener = this.listenerCount('progress') > 0;
    if (this.progress.isDue(this.pages.polledSince, hasListener)) this.#handle?.askExamined();
  }

  /** Ends the statement as its client wishes; does nothing if it has ended. */
  cancelByClient(cause = causes.cancelled()): void {
    if (!this.isRunning) return;
    this.#isCancelledByClient = true;
    this.cancel(cause);
  }

  /** Ends the statement; does nothing if it has ended. */
  cancel(cause: Cause): void {
    if (!this.isRunning) return;
    const failure = this.#phase === 'queued' ? failureOf(cause, 'not_started') : this.#statement.interrupted(cause);
    this.#handle?.cancel();
    this.#handle = null;
    this.#fail(failure);
  }

  /** Ends the statement and drops its rows; a poll that still waits is answered with the failure. */
  remove(cause: Cause): void {
    if (this.#phase === 'removed') return;
    this.cancel(cause);
    if (this.#phase === 'draining') this.#loseRows(cause);
    this.pages.forget();
    this.#move('removed');
    this.rowBuffer.close();
    this.#shrinkMemory();
    this.emit('removed');
  }

  /** Whether anything more is reported of the statement. For `RowPages`, as is `credit`. */
  get isReported(): boolean {
    return this.isRunning || this.#phase === 'draining';
  }

  credit({ bytes, rows }: Credit): void {
    this.#handle?.credit(bytes, rows);
  }

  /** For the session or connection, as are all methods below up to `notSent`. */
  started(): void {
    this.#memory.lend();
    this.progress.sent();
    this.#move('running');
    this.rowBuffer.isReceiving = true;
    this.#timer.start((cause) => this.cancel(cause));
  }

  released(): void {
    this.#memory.returned();
    this.#shrinkMemory();
  }

  columns(columns: readonly Column[]): void {
    if (!this.schema.hold(columns)) this.#overflow();
  }

  rows(batch: Batch, spilled: boolean, isLast = false): void {
    if (!spilled) this.progress.received(batch);
    this.#rowsToCome -= Math.min(this.#rowsToCome, batch.rows);
    const creditBytes = this.rowBuffer.push(batch, this.#handle !== null && !isLast);
    if (creditBytes > 0) this.#handle?.credit(creditBytes, 0);
    if (this.rowBuffer.isOver) this.#overflow();
    else {
      if (this.#phase === 'draining' && this.#rowsToCome === 0) this.#complete();
      this.#emitReadable();
    }
    this.emit('progress');
  }

  spilled(rows: number, bytes: number): void {
    this.progress.spilled(rows, bytes);
    this.emit('progress');
  }

  unwritten(bytes: number): void {
    this.rowBuffer.unwrittenBytes = bytes;
    if (bytes > 0 && this.rowBuffer.isOver) this.#overflow();
  }

  kept(batch: KeptBatch): void {
    const creditBytes = this.keeping?.add(batch) ?? 0;
    this.progress.received({ rows: batch.rows, length: batch.textBytes });
    if (creditBytes > 0) this.#handle?.credit(creditBytes, 0);
    this.#emitReadable();
    this.emit('progress');
  }

  examined(rows: number | null, estimatedRows: number | null): void {
    this.progress.examined(rows, estimatedRows);
    this.emit('progress');
  }

  ended(outcome: Outcome, rowsToCome: number): void {
    if (!this.isRunning) return;
    this.#rowsToCome = rowsToCome;
    const state = nextState(this.#state, { type: 'ended', outcome });
    if (this.keeping === null) this.#settle(state);
    else {
      this.progress.settled();
      this.#timer.stop();
      this.#statement.ended();
      const stats = this.progress.stats(Number(outcome.affectedRows), null);
      const sealing = this.keeping.seal(state, stats, this.#statement.effect);
      void sealing.then((sealed) => this.isRunning && this.#settle(sealed));
    }
  }

  left(state: SessionState): void {
    this.#sessionState = state;
  }

  failed(failure: Failure): void {
    if (this.isReported) this.#fail(failure);
  }

  notSent(reason: string): void {
    const handle = this.#handle;
    if (handle?.canResend !== true) {
      this.failed(this.#statement.lostBefore(reason));
      return;
    }
    this.#timer.stop();
    this.progress.notSent();
    this.#move('queued');
    // The statement may have to wait for memory, and must not wait for its own.
    this.rowBuffer.isReceiving = false;
    handle.resend();
  }

  #move(phase: QueryPhase): void {
    this.#phase = nextPhase(phaseTransitions, this.#phase, phase);
  }

  #fail(failure: Failure): void {
    this.#rowsToCome = 0;
    this.rowBuffer.drop();
    this.#settle(nextState(this.#state, { type: this.isRunning ? 'failed' : 'rows lost', failure }));
  }

  #settle(state: QueryState): void {
    const wasRunning = this.isRunning;
    this.#state = state;
    if (wasRunning) {
      this.progress.settled();
      this.#timer.stop();
    }
    if (this.#rowsToCome > 0) this.#move('draining');
    else this.#complete();
    this.#emitReadable();
    this.emit(wasRunning ? 'settled' : 'rowsLost');
  }

  #complete(): void {
    this.#move('complete');
    this.rowBuffer.isReceiving = false;
    this.#handle?.end();
    this.#handle = null;
    this.#statement.forget();
    this.#shrinkMemory();
  }

  /** Gives back what is reserved for the statement when nobody holds its text any more. */
  #shrinkMemory(): void {
    if (!this.isReported) this.#memory.shrink(this.#phase === 'removed');
  }

  /** All rows together take more memory than they may, and these came last. */
  #overflow(): void {
    const cause = causes.storageFull(this.rowBuffer.heldBytesMax);
    if (this.isRunning) this.cancel(cause);
    else this.#loseRows(cause);
  }

  /** Drops the rows of a statement that has succeeded. */
  #loseRows(cause: Cause): void {
    this.#handle?.cancel();
    this.#fail(this.#statement.undelivered(cause));
  }

  #emitReadable(): void {
    if (this.listenerCount('readable') > 0 && this.pages.isReadable) this.emit('readable');
  }
}
