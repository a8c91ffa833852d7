import { EventEmitter } from 'node:events';
import type { Channel } from '../wire/link.ts';
import type { FromWorker, Login, Refusal, ToldColumns, ToWorker } from '../wire/messages.ts';
import {
  type Column,
  failures,
  type StatementHandle,
  type StatementObserver,
  type StatementRequest,
} from '../wire/statement.ts';

/** No connection was opened; `refusal` says why and who has to act. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.failure.message);
    this.refusal = refusal;
  }
}

export type LeaseChannel = Channel<ToWorker, FromWorker>;

interface LeaseEvents {
  /** The statement has ended in the database and the connection is ready for the next one. */
  idle: [];
  /** The connection is gone; nothing follows. Not emitted after `close`. */
  lost: [reason: string];
}

/**
 * The main thread's end of one database connection. States: opening, idle, running (from `run` to `idle`), closed. It runs
 * one statement at a time; whoever holds the lease waits for `idle` in between.
 */
export class Lease extends EventEmitter<LeaseEvents> {
  readonly #channel: LeaseChannel;
  #state: 'opening' | 'idle' | 'running' | 'closed' = 'opening';
  /** What the numbers of columns stand for. */
  readonly #columns: (readonly Column[])[] = [];
  #statement = 0;
  #observer: StatementObserver | null = null;
  #opened: { resolve: () => void; reject: (error: Error) => void } | null = null;

  private constructor(channel: LeaseChannel) {
    super();
    this.#channel = channel;
    channel.on('message', (message) => this.#receive(message));
    channel.on('close', (reason = 'its worker thread ended') => this.#lose(reason, true));
  }

  /**
   * @param channel to a worker
   * @throws RefusedError
   */
  static async open(channel: LeaseChannel, login: Login): Promise<Lease> {
    const lease = new Lease(channel);
    const opened = new Promise<void>((resolve, reject) => {
      lease.#opened = { resolve, reject };
    });
    channel.post({ type: 'open', login });
    await opened;
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

  /** @param clean whether the connection is to be as new for whoever gets it next */
  run(request: StatementRequest, clean: boolean, observer: StatementObserver): StatementHandle {
    if (this.#state !== 'idle') throw new Error(`a statement was given to a lease that is ${this.#state}`);
    this.#state = 'running';
    this.#observer = observer;
    const statement = ++this.#statement;
    this.#channel.post({
      type: 'execute',
      statement,
      sql: request.sql,
      creditBytes: request.creditBytes,
      creditRows: request.creditRows,
      gzip: request.gzip,
      clean,
    });
    observer.started();
    const isCurrent = (): boolean => this.#observer === observer && this.#statement === statement;
    return {
      credit: (bytes, rows) => {
        if (isCurrent()) this.#channel.post({ type: 'credit', statement, bytes, rows });
      },
      cancel: () => {
        if (!isCurrent()) return;
        this.#observer = null;
        this.#channel.post({ type: 'cancel', statement });
      },
      askExamined: () => {
        if (isCurrent()) this.#channel.post({ type: 'examine', statement });
      },
    };
  }

  /** Lets the connection go. A statement that runs is cut off with it. */
  close(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#observer = null;
    this.#channel.close();
  }

  #receive(message: FromWorker): void {
    // What is in the same parcel as the end of the lease is still handed over.
    if (this.#state === 'closed') return;
    switch (message.type) {
      case 'pong':
      case 'swept':
        return;
      case 'opened':
        this.#state = 'idle';
        this.#opened?.resolve();
        this.#opened = null;
        return;
      case 'refused':
        this.#state = 'closed';
        this.#opened?.reject(new RefusedError(message.refusal));
        this.#opened = null;
        this.#channel.close();
        return;
      case 'news':
        this.#tell(message);
        if (message.idle) this.#becomeIdle();
        return;
      case 'examined':
        if (message.statement === this.#statement) this.#observer?.examined(message.rows);
        return;
      case 'idle':
        this.#becomeIdle();
        return;
      case 'lost':
        // What the worker had not taken when it lost the connection, it takes no more.
        this.#lose(message.reason, message.received === this.#statement);
        return;
      default:
        message satisfies never;
    }
  }

  #tell(news: FromWorker & { type: 'news' }): void {
    const columns = news.columns === undefined ? null : this.#columnsOf(news.columns);
    const observer = this.#observer;
    if (observer === null || news.statement !== this.#statement) return;
    if (columns !== null) observer.columns(columns);
    if (news.batch !== undefined) observer.rows(news.batch);
    // The rows may have made the observer cancel, and then it hears nothing more.
    if (news.end === undefined || this.#observer === null) return;
    this.#observer = null;
    if (news.end.ok) observer.ended(news.end.outcome);
    else observer.failed(news.end.failure);
  }

  #columnsOf({ number, columns }: ToldColumns): readonly Column[] {
    if (columns !== undefined) this.#columns[number] = columns;
    return this.#columns[number] ?? [];
  }

  #becomeIdle(): void {
    // Whoever was told the end may have closed the lease over it.
    if (this.#state === 'closed') return;
    this.#state = 'idle';
    this.#observer = null;
    this.emit('idle');
  }

  /** @param mayHaveBegun whether the statement that was given last may have been sent to the database */
  #lose(reason: string, mayHaveBegun: boolean): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#channel.close();
    this.#opened?.reject(
      new RefusedError({ kind: 'unavailable', failure: { code: 2013, sqlstate: '08S01', message: reason } }),
    );
    this.#opened = null;
    const observer = this.#observer;
    this.#observer = null;
    if (!mayHaveBegun && observer?.notBegun !== undefined) observer.notBegun(reason);
    else observer?.failed(failures.connectionLost(reason));
    this.emit('lost', reason);
  }
}
