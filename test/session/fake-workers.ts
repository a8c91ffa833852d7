// A stand-in for the worker threads: it holds the far ends of the leases' ports, and a test says what comes out of them.

import { EventEmitter, once } from 'node:events';
import type { MessagePort } from 'node:worker_threads';
import type { WorkerPool } from '#src/session/worker-pool.js';
import type { FromWorker, LeaseTask, Refusal, ToWorker } from '#src/wire/messages.js';
import type { Batch, Column, Failure, Outcome, StatementObserver, StatementRequest } from '#src/wire/statement.js';

type Task = LeaseTask & { readonly port: MessagePort };

export const request: StatementRequest = { sql: 'SELECT 1', creditBytes: 1_000, creditRows: 10 };
export const outcome: Outcome = { affectedRows: '0', lastInsertId: null, warnings: 0 };

/** The far end of one lease. */
export class FakeConnection extends EventEmitter<{ message: [message: ToWorker]; close: [] }> {
  readonly task: Task;
  readonly received: ToWorker[] = [];
  closed = false;
  readonly finished: Promise<void>;
  #finish: () => void = () => {};
  #fail: (error: Error) => void = () => {};

  constructor(task: Task) {
    super();
    this.task = task;
    this.finished = new Promise((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
    task.port.on('message', (message: ToWorker) => {
      this.received.push(message);
      this.emit('message', message);
    });
    task.port.on('close', () => {
      this.closed = true;
      this.#finish();
      this.emit('close');
    });
  }

  post(message: FromWorker): void {
    this.task.port.postMessage(message);
  }

  end(statement: number): void {
    this.post({ type: 'news', statement, end: { ok: true, outcome } });
  }

  /** Says that a statement has succeeded and that the connection is ready for the next. */
  endAndIdle(statement: number): void {
    this.end(statement);
    this.post({ type: 'idle' });
  }

  lose(reason: string): void {
    this.post({ type: 'lost', reason });
    this.task.port.close();
  }

  /** The thread ends without a word, as Piscina reports it. */
  die(error: Error): void {
    this.#fail(error);
    this.task.port.close();
  }

  get executed(): string[] {
    return this.received.flatMap((message) => (message.type === 'execute' ? [message.sql] : []));
  }

  /** Resolves when a message for which the check holds has come, be it already. */
  async got(check: (message: ToWorker) => boolean): Promise<ToWorker> {
    for (;;) {
      const message = this.received.find(check);
      if (message !== undefined) return message;
      await once(this, 'message');
    }
  }

  async gotExecute(sql: string): Promise<void> {
    await this.got((message) => message.type === 'execute' && message.sql === sql);
  }

  async gone(): Promise<void> {
    if (!this.closed) await once(this, 'close');
  }
}

/** Opens or refuses connections as `refusalFor` says; 'later' leaves it to the test. */
export class FakeWorkers {
  readonly connections: FakeConnection[] = [];
  refusalFor: (task: Task) => Refusal | null | 'later' = () => null;
  readonly #arrived = new EventEmitter();

  get pool(): WorkerPool {
    return this as unknown as WorkerPool;
  }

  async run(task: Task): Promise<void> {
    const connection = new FakeConnection(task);
    this.connections.push(connection);
    const refusal = this.refusalFor(task);
    if (refusal === null) connection.post({ type: 'opened' });
    else if (refusal !== 'later') {
      connection.post({ type: 'refused', refusal });
      task.port.close();
    }
    this.#arrived.emit('connection');
    await connection.finished;
  }

  get open(): FakeConnection[] {
    return this.connections.filter((connection) => !connection.closed);
  }

  /** The connection of that number, counted from zero in the order of their opening, when it is there. */
  async connection(number: number): Promise<FakeConnection> {
    for (;;) {
      const connection = this.connections[number];
      if (connection !== undefined) return connection;
      await once(this.#arrived, 'connection');
    }
  }

  close(): void {
    for (const { task } of this.connections) task.port.close();
  }
}

/** Writes down what it is told, and lets a test wait for it. */
export class Recorder extends EventEmitter implements StatementObserver {
  readonly told: string[] = [];
  failure: Failure | null = null;

  started(): void {
    this.#tell('started');
  }

  columns(columns: readonly Column[]): void {
    this.#tell(`columns ${columns.map(({ name }) => name).join(',')}`);
  }

  rows(batch: Batch): void {
    this.#tell(`rows ${batch.rows}`);
  }

  examined(rows: number): void {
    this.#tell(`examined ${rows}`);
  }

  ended(): void {
    this.#tell('ended');
  }

  failed(failure: Failure): void {
    this.failure = failure;
    this.#tell(`failed ${failure.code}`);
  }

  async hears(what: string): Promise<void> {
    while (!this.told.includes(what)) await once(this, 'told');
  }

  #tell(what: string): void {
    this.told.push(what);
    this.emit('told');
  }
}
