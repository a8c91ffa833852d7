import { EventEmitter } from 'node:events';
import { RefusalError, type RefusalReason } from '../refusal-error.ts';
import { type Cause, causes, interrupted, undelivered } from '../wire/failures.ts';
import type { Channel } from '../wire/link.ts';
import type { ColumnsRef, FromWorker, Login, Refusal, ToWorker } from '../wire/messages.ts';
import { effectOfText, type SqlText } from '../wire/sql-traits.ts';
import type {
  Afterwards,
  Column,
  LargeRowMemory,
  LargeRowReservation,
  SessionState,
  StatementHandle,
  StatementObserver,
  StatementRequest,
} from '../wire/statement.ts';

/** No connection was opened; `refusal` says why and who has to act. */
export class RefusedError extends RefusalError {
  override readonly name = 'RefusedError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.failure.message, reasonOf(refusal.kind));
    this.refusal = refusal;
  }
}

function reasonOf(kind: Refusal['kind']): RefusalReason {
  return kind === 'denied' || kind === 'too many' ? kind : 'unavailable';
}

export type LeaseChannel = Channel<ToWorker, FromWorker>;

/** A statement of which not everything has been told. */
interface Told extends SqlText {
  readonly statement: number;
  readonly observer: StatementObserver;
  readonly isAlone: boolean;
  /** Rows on disk that follow the end; null before the end. */
  rowsToCome: number | null;
}

interface LeaseEvents {
  idle: [];
  lost: [reason: string];
  /** A statement of it cannot be killed as long as the database accepts no more connections. */
  crowded: [];
}

/** The user of a lease. It is no set of listeners because each statement has another holder: listeners would be added and removed for each. */
export interface LeaseHolder {
  /** The statement has ended in the database and the connection is ready for the next one. */
  onIdle(): void;
  /** Comes between the end of a statement and `onIdle`, if the session may be held after it. */
  onLeft(state: SessionState): void;
  /** The connection is gone; nothing follows. Not called after `close`. */
  onLost(reason: string): void;
  /** The database no longer accepts the credentials of its login. The statement that ran has been told so. */
  onRevoked(): void;
}

/**
 * The main thread's end of one database connection. States: opening, idle, running (from `run` to `idle`), closed. It runs
 * one statement at a time; whoever holds the lease waits for `idle` in between. Rows that are on disk when their statement
 * has ended come all the same, whatever becomes of the connection meanwhile.
 */
export class Lease extends EventEmitter<LeaseEvents> {
  /** As the database names it; empty until it is open. */
  databaseVersion = '';
  /** When its login was begun, as `performance.now()` tells the time. */
  readonly openedAt = performance.now();
  /** The most connections that the database accepts, from all clients, as it said when this one was opened. */
  databaseConnectionsMax = Number.POSITIVE_INFINITY;
  /** The most that it accepts from the user; 0: no limit. */
  userConnectionsMax = 0;
  /** Whether it can serve another statement, or session, after its first. */
  isReusable = true;
  /** null: nobody uses it. */
  holder: LeaseHolder | null = null;
  readonly #channel: LeaseChannel;
  #state: 'opening' | 'idle' | 'running' | 'closed' = 'opening';
  /** What the numbers of columns stand for. */
  readonly #columns: (readonly Column[])[] = [];
  #statement = 0;
  #isHeld = false;
  /** Of the statement that runs, until it is told `released`. */
  #running: StatementObserver | null = null;
  /** The last statement, if not everything of it is told. */
  #last: Told | null = null;
  /** Those before it of which rows are to come, by their numbers. */
  readonly #trailing = new Map<number, Told>();
  #opened: { resolve: () => void; reject: (error: Error) => void } | null = null;
  readonly #user: string;
  readonly #largeRowMemory: LargeRowMemory;
  /** For the large rows that the worker holds, by the numbers of their statements. */
  readonly #largeRows = new Map<number, LargeRowReservation>();

  private constructor(channel: LeaseChannel, user: string, largeRowMemory: LargeRowMemory) {
    super();
    this.#channel = channel;
    this.#user = user;
    this.#largeRowMemory = largeRowMemory;
    channel.on('message', (message) => this.#receive(message));
    channel.on('close', (reason = 'its worker thread ended') => this.#end(reason));
  }

  /**
   * @param channel to a worker
   * @throws RefusedError
   */
  static async open(channel: LeaseChannel, login: Login, largeRowMemory: LargeRowMemory): Promise<Lease> {
    const lease = new Lease(channel, login.user, largeRowMemory);
    const opened = new Promise<void>((resolve, reject) => {
      lease.#opened = { resolve, reject };
    });
    channel.post({ type: 'open', login });
    await opened;
    // What came with the news that it is open is heard before whoever waits for it goes on.
    if (lease.isClosed) throw lostBeforeUse('it was lost as soon as it was opened');
    return lease;
  }

  get isRunning(): boolean {
    return this.#state === 'running';
  }

  /** Whether its thread is at hand, as far as is known. */
  get isAnswering(): boolean {
    return this.#channel.isAnswering;
  }

  get isClosed(): boolean {
    return this.#state === 'closed';
  }

  /**
   * Whether the statements that were run with `hold` have left what the session is kept for, as far as is known: when it is
   * idle, it is known.
   */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  run(request: StatementRequest, after: Afterwards, observer: StatementObserver): StatementHandle {
    if (this.#state !== 'idle') throw new Error(`a statement was given to a lease that is ${this.#state}`);
    this.#state = 'running';
    const statement = ++this.#statement;
    if (this.#last !== null) this.#trailing.set(this.#last.statement, this.#last);
    const isAlone = after === 'clean' || (after === 'hold' && !this.#isHeld);
    if (after === 'clean') this.#isHeld = false;
    const { sql, traits, extras, creditBytes, creditRows, gzip } = request;
    this.#last = { statement, observer, sql, traits, isAlone, rowsToCome: null };
    const message = { type: 'execute', statement, sql, extras, creditBytes, creditRows, gzip, after } as const;
    this.#channel.post(traits === undefined ? message : { ...message, traits });
    this.#running = observer;
    observer.started();
    return new LeaseStatement(this, statement);
  }

  /** For `LeaseStatement`, as are `cancel` and `askExamined`. */
  credit(statement: number, bytes: number, rows: number): void {
    if (this.#find(statement) !== null) this.#channel.post({ type: 'credit', statement, bytes, rows });
  }

  cancel(statement: number): void {
    if (this.#forget(statement)) this.#channel.post({ type: 'cancel', statement });
  }

  askExamined(statement: number): void {
    if (this.#find(statement) !== null) this.#channel.post({ type: 'examine', statement });
  }

  /** Lets the connection go. A statement that runs is cut off with it. */
  close(): void {
    if (this.#state === 'closed') return;
    if (this.#state === 'running' && this.#last?.rowsToCome === null) this.#last = null;
    this.#state = 'closed';
    if (this.#last === null && this.#trailing.size === 0) this.#channel.close();
    else this.#channel.post({ type: 'close' });
    this.#release();
  }

  /** Fails the statement that runs and has it killed, and tells the holder of the lease. */
  revoke(): void {
    this.interrupt(causes.credentialsRefused());
    if (this.#state !== 'closed') this.holder?.onRevoked();
  }

  /** Fails the statement that runs, for that cause, and has it killed. */
  interrupt(cause: Cause): void {
    const last = this.#last;
    if (this.#state !== 'running' || last?.rowsToCome !== null) return;
    this.#forget(last.statement);
    this.#channel.post({ type: 'cancel', statement: last.statement });
    last.observer.failed(interrupted(cause, effectOfText(last), last.isAlone));
  }

  #receive(message: FromWorker): void {
    if ((message.type === 'update' || message.type === 'idle') && message.session !== undefined) {
      this.#isHeld = message.session.isHeld;
    }
    if (message.type === 'update') {
      const isToldState = this.#tell(message);
      // Whoever ends the session over it does not keep the statement's end from being told.
      if (message.session !== undefined && isToldState) this.holder?.onLeft(message.session);
      if (message.idle) this.#becomeIdle();
      return;
    }
    if (message.type === 'large_row') {
      this.#reserveLargeRow(message.statement, message.bytes);
      return;
    }
    if (message.type === 'unwritten') {
      this.#find(message.statement)?.observer.unwritten(message.bytes);
      return;
    }
    // What is in the same parcel as the end of the lease is still handed over.
    if (this.#state === 'closed') return;
    switch (message.type) {
      case 'pong':
      case 'swept':
        return;
      case 'crowded':
        this.emit('crowded');
        return;
      case 'opened':
        this.#state = 'idle';
        this.databaseVersion = message.version;
        this.databaseConnectionsMax = message.connectionsMax;
        this.userConnectionsMax = message.userConnectionsMax;
        this.isReusable = message.hasInitConnectRun !== true;
        this.#opened?.resolve();
        this.#opened = null;
        return;
      case 'refused':
        this.#state = 'closed';
        this.#opened?.reject(new RefusedError(message.refusal));
        this.#opened = null;
        this.#channel.close();
        return;
      case 'examined':
        this.#find(message.statement)?.observer.examined(message.rows, message.estimatedRows);
        return;
      case 'idle':
        this.#becomeIdle();
        return;
      case 'lost':
        // What the worker had not taken when it lost the connection, it takes no more.
        this.#lose(message.reason, message.received >= this.#statement, message.hasRowsToCome);
        return;
      default:
        message satisfies never;
    }
  }

  /** @returns whether the observer was told in what the statement has left its session, if that was in the news */
  #tell(news: FromWorker & { type: 'update' }): boolean {
    const columns = news.columns === undefined ? null : this.#columnsOf(news.columns);
    const told = this.#find(news.statement);
    if (told === null) return false;
    const { statement, observer } = told;
    if (columns !== null) observer.columns(columns);
    if (news.spilled !== undefined) observer.spilled(news.spilled.rows, news.spilled.bytes);
    if (news.batch !== undefined) {
      if (told.rowsToCome !== null) told.rowsToCome -= news.batch.rows;
      if (told.rowsToCome === 0) this.#forget(statement);
      observer.rows(news.batch, news.fromDisk === true);
    }
    // The rows may have made the observer cancel, and then it hears nothing more.
    if (news.end === undefined || this.#find(statement) === null) return false;
    if (news.session !== undefined) observer.left(news.session);
    if (news.end.ok) {
      told.rowsToCome = news.end.rowsToCome;
      if (told.rowsToCome === 0) this.#forget(statement);
      observer.ended(news.end.outcome, news.end.rowsToCome);
    } else {
      this.#forget(statement);
      observer.failed(news.end.failure);
    }
    return true;
  }

  #columnsOf(told: ColumnsRef): readonly Column[] {
    if (!('number' in told)) return told.columns;
    const { number, columns } = told;
    if (columns !== undefined) this.#columns[number] = columns;
    return this.#columns[number] ?? [];
  }

  #becomeIdle(): void {
    // Whoever was told the end may have closed the lease over it.
    if (this.#state === 'closed') return;
    this.#state = 'idle';
    this.#release();
    this.holder?.onIdle();
    this.emit('idle');
  }

  /**
   * The connection is gone, and what is told of it; rows that are on disk still come.
   * @param mayHaveBegun whether the statement that was given last may have been sent to the database
   * @param hasRowsToCome whether the one that was taken last has ended, and its end and rows are still to come
   */
  #lose(reason: string, mayHaveBegun: boolean, hasRowsToCome: boolean): void {
    if (this.#state === 'closed') return;
    const wasRunning = this.#state === 'running';
    this.#state = 'closed';
    this.#release();
    this.#opened?.reject(lostBeforeUse(reason));
    this.#opened = null;
    const isFailed = wasRunning && !(mayHaveBegun && hasRowsToCome);
    if (isFailed && this.#last?.rowsToCome === null) this.#fail(this.#last, reason, mayHaveBegun);
    this.emit('lost', reason);
    this.holder?.onLost(reason);
  }

  /** The worker gives the reservation back by a message, or the channel is closed, whatever ends the statement. */
  #reserveLargeRow(statement: number, bytes: number): void {
    this.#largeRows.get(statement)?.release();
    this.#largeRows.delete(statement);
    if (bytes === 0) return;
    const granted = (): void => this.#channel.post({ type: 'room', statement });
    this.#largeRows.set(statement, this.#largeRowMemory.reserve(this.#user, bytes, granted));
  }

  /** Nothing more will be told. */
  #end(reason: string): void {
    for (const reservation of this.#largeRows.values()) reservation.release();
    this.#largeRows.clear();
    this.#lose(reason, true, false);
    for (const told of this.#trailing.values()) this.#fail(told, reason, true);
    if (this.#last !== null) this.#fail(this.#last, reason, true);
  }

  #release(): void {
    const observer = this.#running;
    this.#running = null;
    observer?.released();
  }

  #find(statement: number): Told | null {
    return this.#last?.statement === statement ? this.#last : (this.#trailing.get(statement) ?? null);
  }

  /** @returns whether there was something to be told of the statement */
  #forget(statement: number): boolean {
    if (this.#last?.statement !== statement) return this.#trailing.delete(statement);
    this.#last = null;
    return true;
  }

  #fail(told: Told, reason: string, mayHaveBegun: boolean): void {
    const { statement, observer, isAlone, rowsToCome } = told;
    this.#forget(statement);
    if (rowsToCome !== null) observer.failed(undelivered(causes.spillFailed(reason), effectOfText(told)));
    else if (mayHaveBegun) observer.failed(interrupted(causes.connectionLost(reason), effectOfText(told), isAlone));
    else observer.notSent(reason);
  }
}

/** A statement that was given to a lease. An object of one class costs less than a function for each of its methods. */
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

function lostBeforeUse(reason: string): RefusedError {
  return new RefusedError({ kind: 'unavailable', failure: { code: 2013, sqlstate: '08S01', message: reason } });
}
