import { EventEmitter } from 'node:events';
import { type Cause, causes, interrupted } from '../wire/failures.ts';
import type { Channel } from '../wire/link.ts';
import type { ColumnsRef, FromWorker, Login, ToWorker } from '../wire/messages.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
import { effectOfText } from '../wire/sql-traits.ts';
import type {
  Afterwards,
  Column,
  LargeRowMemory,
  SessionState,
  StatementHandle,
  StatementObserver,
  StatementRequest,
} from '../wire/statement.ts';
import { LargeRowReservations } from './large-row-reservations.ts';
import { lostBeforeUse, OpenRefusedError } from './open-refused-error.ts';
import { UnfinishedStatements } from './unfinished-statements.ts';

export type LeaseChannel = Channel<ToWorker, FromWorker>;

interface LeaseEvents {
  idle: [];
  lost: [reason: string];
  /** A kill waits until the database accepts another connection. */
  crowded: [];
}

/**
 * The session or statement that has the lease. An interface instead of events: the holder changes with each statement, and so would
 * the listeners.
 */
export interface LeaseHolder {
  /** The statement has ended in the database, and the connection is ready for the next one. */
  onIdle(): void;
  /** Called between the end of a statement and `onIdle`, if the statement was run with `pin`. */
  onSessionState(state: SessionState): void;
  /** The connection is lost; nothing follows. Not called after `close`. */
  onLost(reason: string): void;
  /** The database no longer accepts the credentials of the login. The statement that ran has failed for it. */
  onRevoked(): void;
}

type Phase = 'opening' | 'idle' | 'running' | 'closed';

const transitions: Transitions<Phase> = {
  opening: ['idle', 'closed'],
  idle: ['running', 'closed'],
  running: ['idle', 'closed'],
  closed: [],
};

/**
 * The main thread's end of one database connection. It runs one statement at a time; its holder waits for `onIdle` in between.
 *
 *     opening ──▶ idle ◀──▶ running
 *        │          │          │
 *        └──────────┴──────────┴──▶ closed
 *
 *     running    also while the worker cleans the connection after the statement
 *     closed     the rows of draining statements still come from disk
 */
export class Lease extends EventEmitter<LeaseEvents> {
  /** The database's version; empty before the connection is open. */
  databaseVersion = '';
  /** When the login started, by `performance.now()`. */
  readonly openedAt = performance.now();
  /** The connections that the database accepts from all clients, as reported when this one was opened. */
  databaseConnectionsMax = Number.POSITIVE_INFINITY;
  /** The connections that it accepts from the user; 0: no limit. */
  userConnectionsMax = 0;
  /** Whether it can serve another statement, or session, after its first. */
  isReusable = true;
  /** The session or statement that uses the connection; null if none does. */
  holder: LeaseHolder | null = null;
  readonly #channel: LeaseChannel;
  #phase: Phase = 'opening';
  /** The columns that the worker has sent, by their number. */
  readonly #columns: (readonly Column[])[] = [];
  /** The number of the last statement. */
  #statement = 0;
  #isPinned = false;
  /** The observer of the statement that runs, until its `released` is called. */
  #running: StatementObserver | null = null;
  readonly #unfinished = new UnfinishedStatements();
  readonly #largeRows: LargeRowReservations;
  /** Settles the promise of `open`. */
  #opening: { resolve: () => void; reject: (error: Error) => void } | null = null;

  private constructor(channel: LeaseChannel, user: string, largeRowMemory: LargeRowMemory) {
    super();
    this.#channel = channel;
    this.#largeRows = new LargeRowReservations(largeRowMemory, user, channel);
    channel.on('message', (message) => this.#receive(message));
    channel.on('close', (reason = 'its worker thread ended') => this.#onChannelClosed(reason));
  }

  /**
   * @param channel to a worker
   * @throws OpenRefusedError
   */
  static async open(channel: LeaseChannel, login: Login, memory: LargeRowMemory, spillSlot: number): Promise<Lease> {
    const lease = new Lease(channel, login.user, memory);
    const opened = new Promise<void>((resolve, reject) => {
      lease.#opening = { resolve, reject };
    });
    channel.post({ type: 'open', login, spillSlot });
    await opened;
    // Messages batched with `opened` are delivered before this await resumes.
    if (lease.isClosed) throw lostBeforeUse('it was lost as soon as it was opened');
    return lease;
  }

  get isRunning(): boolean {
    return this.#phase === 'running';
  }

  /** Whether its worker thread has answered its last pings. */
  get isAnswering(): boolean {
    return this.#channel.isAnswering;
  }

  get isClosed(): boolean {
    return this.#phase === 'closed';
  }

  /** Whether it has state of a session that its client cannot carry. Up to date while it is idle. */
  get isPinned(): boolean {
    return this.#isPinned;
  }

  run(request: StatementRequest, after: Afterwards, observer: StatementObserver): StatementHandle {
    if (this.#phase !== 'idle') throw new Error(`a statement was given to a lease that is ${this.#phase}`);
    this.#enter('running');
    const statement = ++this.#statement;
    const isStandalone = after === 'clean' || (after === 'pin' && !this.#isPinned);
    if (after === 'clean') this.#isPinned = false;
    const { traits, ...others } = request;
    const { sql } = request;
    this.#unfinished.add({ number: statement, observer, sql, traits, isStandalone, rowsToCome: null });
    const message = { type: 'execute', statement, after, ...others } as const;
    this.#channel.post(traits === undefined ? message : { ...message, traits });
    this.#running = observer;
    observer.started();
    return new LeaseStatement(this, statement);
  }

  /** For `LeaseStatement`, as are `cancel` and `askExamined`. */
  credit(statement: number, bytes: number, rows: number): void {
    if (this.#unfinished.find(statement) !== null) this.#channel.post({ type: 'credit', statement, bytes, rows });
  }

  cancel(statement: number): void {
    if (this.#unfinished.delete(statement)) this.#channel.post({ type: 'cancel', statement });
  }

  askExamined(statement: number): void {
    if (this.#unfinished.find(statement) !== null) this.#channel.post({ type: 'examine', statement });
  }

  /** Closes the connection. Cancels the running statement. Its observer receives only `released`. */
  close(): void {
    if (this.#phase === 'closed') return;
    const { last } = this.#unfinished;
    if (this.#phase === 'running' && last?.rowsToCome === null) this.#unfinished.delete(last.number);
    this.#enter('closed');
    if (this.#unfinished.isEmpty) this.#channel.close();
    else this.#channel.post({ type: 'close' });
    this.#release();
  }

  /** Fails the statement that runs, has it killed, and reports to the holder that the credentials are refused. */
  revoke(): void {
    this.interrupt(causes.credentialsRefused());
    if (this.#phase !== 'closed') this.holder?.onRevoked();
  }

  /** Fails and kills the running statement. */
  interrupt(cause: Cause): void {
    const { last } = this.#unfinished;
    if (this.#phase !== 'running' || last?.rowsToCome !== null) return;
    this.#unfinished.delete(last.number);
    this.#channel.post({ type: 'cancel', statement: last.number });
    last.observer.failed(interrupted(cause, effectOfText(last), last.isStandalone));
  }

  #enter(phase: Phase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }

  #receive(message: FromWorker): void {
    if ((message.type === 'update' || message.type === 'idle') && message.session !== undefined) {
      this.#isPinned = message.session.isPinned;
    }
    if (message.type === 'update') {
      const isEndReported = this.#report(message);
      // The holder may end the session, so the observer is given the end of the statement first.
      if (message.session !== undefined && isEndReported) this.holder?.onSessionState(message.session);
      if (message.idle) this.#becomeIdle();
      return;
    }
    if (message.type === 'large_row') {
      this.#largeRows.reserve(message.statement, message.bytes);
      return;
    }
    // Messages that were posted in one turn are all delivered, even if one of them closes the lease.
    if (this.#phase === 'closed' && message.type !== 'unwritten') return;
    switch (message.type) {
      case 'unwritten':
        this.#unfinished.find(message.statement)?.observer.unwritten(message.bytes);
        return;
      case 'pong':
      case 'swept':
        return;
      case 'crowded':
        this.emit('crowded');
        return;
      case 'opened':
        this.#enter('idle');
        this.databaseVersion = message.version;
        this.databaseConnectionsMax = message.connectionsMax;
        this.userConnectionsMax = message.userConnectionsMax;
        this.isReusable = message.hasInitConnectRun !== true;
        this.#opening?.resolve();
        this.#opening = null;
        return;
      case 'refused':
        this.#enter('closed');
        this.#opening?.reject(new OpenRefusedError(message.refusal));
        this.#opening = null;
        this.#channel.close();
        return;
      case 'examined':
        this.#unfinished.find(message.statement)?.observer.examined(message.rows, message.estimatedRows);
        return;
      case 'idle':
        this.#becomeIdle();
        return;
      case 'lost':
        // The worker takes no statement after it has lost the connection.
        this.#lose(message.reason, message.received >= this.#statement, message.hasRowsToCome);
        return;
      default:
        message satisfies never;
    }
  }

  /** @returns whether the message has the end of the statement, and the observer was given it */
  #report(update: FromWorker & { type: 'update' }): boolean {
    const columns = update.columns === undefined ? null : this.#columnsOf(update.columns);
    const statement = this.#unfinished.find(update.statement);
    if (statement === null) return false;
    const { number, observer } = statement;
    if (columns !== null) observer.columns(columns);
    if (update.spilled !== undefined) observer.spilled(update.spilled.rows, update.spilled.bytes);
    if (update.kept !== undefined) observer.kept(update.kept);
    if (update.batch !== undefined) {
      if (statement.rowsToCome !== null) statement.rowsToCome -= update.batch.rows;
      if (statement.rowsToCome === 0) this.#unfinished.delete(number);
      const isLast =
        statement.rowsToCome === 0 || (update.end !== undefined && !(update.end.ok && update.end.rowsToCome > 0));
      observer.rows(update.batch, update.fromDisk === true, isLast);
    }
    // The observer may have cancelled the statement because of its rows.
    if (update.end === undefined || this.#unfinished.find(number) === null) return false;
    if (update.session !== undefined) observer.left(update.session);
    if (update.end.ok) {
      statement.rowsToCome = update.end.rowsToCome;
      if (statement.rowsToCome === 0) this.#unfinished.delete(number);
      observer.ended(update.end.outcome, update.end.rowsToCome);
    } else {
      this.#unfinished.delete(number);
      observer.failed(update.end.failure);
    }
    return true;
  }

  #columnsOf(reported: ColumnsRef): readonly Column[] {
    if (!('number' in reported)) return reported.columns;
    const { number, columns } = reported;
    if (columns !== undefined) this.#columns[number] = columns;
    return this.#columns[number] ?? [];
  }

  #becomeIdle(): void {
    // The observer or the holder may have closed the lease at the end of the statement.
    if (this.#phase === 'closed') return;
    this.#enter('idle');
    this.#release();
    this.holder?.onIdle();
    this.emit('idle');
  }

  /**
   * Reports that the connection is lost. Rows on disk still come.
   * @param mayHaveBegun whether the last statement may have been sent to the database
   * @param hasRowsToCome whether the last statement that the worker took has ended, and its end and rows still come
   */
  #lose(reason: string, mayHaveBegun: boolean, hasRowsToCome: boolean): void {
    if (this.#phase === 'closed') return;
    const wasRunning = this.#phase === 'running';
    this.#enter('closed');
    this.#release();
    this.#opening?.reject(lostBeforeUse(reason));
    this.#opening = null;
    const isFailed = wasRunning && !(mayHaveBegun && hasRowsToCome);
    const { last } = this.#unfinished;
    if (isFailed && last?.rowsToCome === null) this.#unfinished.fail(last, reason, mayHaveBegun);
    this.emit('lost', reason);
    this.holder?.onLost(reason);
  }

  /** No message follows. */
  #onChannelClosed(reason: string): void {
    this.#largeRows.releaseAll();
    this.#lose(reason, true, false);
    this.#unfinished.failAll(reason);
  }

  #release(): void {
    const observer = this.#running;
    this.#running = null;
    observer?.released();
  }
}

/** A statement on a lease. It is a class because one object costs less than a closure for each method. */
class LeaseStatement implements StatementHandle {
  readonly #lease: Lease;
  readonly #number: number;

  constructor(lease: Lease, number: number) {
    this.#lease = lease;
    this.#number = number;
  }

  credit(bytes: number, rows: number): void {
    this.#lease.credit(this.#number, bytes, rows);
  }

  cancel(): void {
    this.#lease.cancel(this.#number);
  }

  askExamined(): void {
    this.#lease.askExamined(this.#number);
  }

  queuePosition(): null {
    return null;
  }
}
