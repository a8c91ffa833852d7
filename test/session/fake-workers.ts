// A stand-in for the worker threads: it holds the far ends of the leases' channels, and a test says what comes out of them.

import { EventEmitter, once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import type { LeaseChannel } from '#src/session/lease.js';
import type { ConnectionFollower, WorkerPool } from '#src/session/worker-pool.js';
import type { Failure } from '#src/wire/failures.js';
import type { KeptBatch } from '#src/wire/kept-rows.js';
import { type Channel, Link } from '#src/wire/link.js';
import type { FromWorker, Login, Refusal, ToWorker } from '#src/wire/messages.js';
import type {
  Batch,
  Column,
  LargeRowMemory,
  LargeRowReservation,
  Outcome,
  SessionState,
  StatementObserver,
  StatementRequest,
} from '#src/wire/statement.js';
import { statement } from '../support/statement.ts';

export const anna: Login = { user: 'anna', password: '', database: null };
export const request: StatementRequest = {
  ...statement('SELECT 1'),
  creditBytes: 1_000,
  creditRows: 10,
  gzipLevel: 0,
  pageRows: 10,
  keep: null,
};
export const outcome: Outcome = { affectedRows: '0', lastInsertId: null, warnings: 0 };

/** The far end of one lease, in a thread of its own. */
export class FakeConnection extends EventEmitter<{ message: [message: ToWorker]; close: [] }> {
  readonly login: Login;
  readonly received: ToWorker[] = [];
  closed = false;
  readonly #channel: Channel<FromWorker, ToWorker>;
  readonly #thread: Link<FromWorker, ToWorker>;

  constructor(login: Login, channel: Channel<FromWorker, ToWorker>, thread: Link<FromWorker, ToWorker>) {
    super();
    this.login = login;
    this.#channel = channel;
    this.#thread = thread;
    channel.on('message', (message) => {
      this.received.push(message);
      this.emit('message', message);
    });
    channel.on('close', () => {
      this.closed = true;
      this.emit('close');
    });
  }

  post(message: FromWorker): void {
    this.#channel.post(message);
  }

  end(statement: number, rowsToCome = 0): void {
    this.post({ type: 'update', statement, end: { ok: true, outcome, rowsToCome } });
  }

  /** Says that a statement has succeeded and that the connection is ready for the next, in one message. */
  endAndIdle(statement: number, rowsToCome = 0): void {
    this.post({ type: 'update', statement, end: { ok: true, outcome, rowsToCome }, idle: true });
  }

  /** @param received the number of the last statement that it had taken; all of them, unless something else is said */
  lose(reason: string, received = Number.MAX_SAFE_INTEGER, hasRowsToCome = false): void {
    this.post({ type: 'lost', reason, received, hasRowsToCome, mayRunOn: false });
    this.#channel.close();
  }

  refuse(refusal: Refusal): void {
    this.post({ type: 'refused', refusal });
    this.#channel.close();
  }

  /** The thread ends without a word. */
  die(): void {
    this.#thread.close();
  }

  get executed(): string[] {
    return this.received.flatMap((message) => (message.type === 'execute' ? [message.sql] : []));
  }

  /** Resolves with a message for which the check holds, past or future. */
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

/** Grants what the test says. */
export class FakeLargeRows implements LargeRowMemory {
  readonly reserved: { readonly user: string; readonly bytes: number; readonly granted: () => void }[] = [];
  released = 0;

  reserve(user: string, bytes: number, granted: () => void): LargeRowReservation {
    this.reserved.push({ user, bytes, granted });
    return {
      release: () => {
        this.released++;
      },
    };
  }
}

/** Opens or refuses connections as `refusalFor` says; 'later' leaves it to the test. */
export class FakeWorkers {
  readonly connections: FakeConnection[] = [];
  connectionsMax = 1_000;
  userConnectionsMax = 0;
  refusalFor: (login: Login) => Refusal | null | 'later' = () => null;
  /** The answer to each sweep, in the order of `sweeps`. */
  readonly sweeps: (ToWorker & { type: 'sweep' })[] = [];
  sweepAnswerFor: (login: Login) => FromWorker = () => ({ type: 'swept', left: [], ended: 1 });
  follower: ConnectionFollower | null = null;
  /** Channels that are closed at the near end, so that nothing more is received from them. */
  channelsClosed = 0;
  readonly #arrived = new EventEmitter();
  readonly #links: Link<ToWorker, FromWorker>[] = [];

  get pool(): WorkerPool {
    return this as unknown as WorkerPool;
  }

  follow(follower: ConnectionFollower): void {
    this.follower = follower;
  }

  connect(): LeaseChannel {
    const { port1, port2 } = new MessageChannel();
    const thread: Link<FromWorker, ToWorker> = new Link(port2, (channel) => {
      channel.once('message', (message) => {
        if (message.type === 'sweep') this.#sweep(message, channel);
        if (message.type === 'open') this.#accept(new FakeConnection(message.login, channel, thread));
      });
    });
    const link = new Link<ToWorker, FromWorker>(port1);
    this.#links.push(link);
    const near = link.open();
    near.once('close', () => {
      this.channelsClosed++;
    });
    return near;
  }

  #sweep(message: ToWorker & { type: 'sweep' }, channel: Channel<FromWorker, ToWorker>): void {
    this.sweeps.push(message);
    channel.post(this.sweepAnswerFor(message.login));
    channel.close();
  }

  #accept(connection: FakeConnection): void {
    this.connections.push(connection);
    const refusal = this.refusalFor(connection.login);
    if (refusal === null)
      connection.post({
        type: 'opened',
        connection: this.connections.length,
        version: '8.4.3',
        connectionsMax: this.connectionsMax,
        userConnectionsMax: this.userConnectionsMax,
      });
    else if (refusal !== 'later') connection.refuse(refusal);
    this.#arrived.emit('connection');
  }

  /** Channels that were opened: one for each connection and for each sweep. */
  get channels(): number {
    return this.#links.length;
  }

  /** The near end of the link that carries the connection of that number. */
  linkOf(number: number): Link<ToWorker, FromWorker> {
    return this.#links[number] as Link<ToWorker, FromWorker>;
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
    for (const connection of this.connections) connection.die();
    for (const link of this.#links) link.close();
  }
}

/** Records all calls, and lets a test wait for one. */
export class Recorder extends EventEmitter implements StatementObserver {
  readonly reported: string[] = [];
  failure: Failure | null = null;
  /** How often `released` was called, whose order with the other calls is not defined. */
  releases = 0;

  started(): void {
    this.#tell('started');
  }

  released(): void {
    this.releases++;
  }

  columns(columns: readonly Column[]): void {
    this.#tell(`columns ${columns.map(({ name }) => name).join(',')}`);
  }

  rows(batch: Batch, spilled: boolean): void {
    this.#tell(`${spilled ? 'spilled rows' : 'rows'} ${batch.rows}`);
  }

  spilled(rows: number, bytes: number): void {
    this.#tell(`spilled ${rows}, ${bytes} bytes`);
  }

  kept(batch: KeptBatch): void {
    this.#tell(`kept ${batch.rows} rows`);
  }

  unwritten(bytes: number): void {
    this.#tell(`unwritten ${bytes} bytes`);
  }

  examined(rows: number): void {
    this.#tell(`examined ${rows}`);
  }

  ended(_outcome: Outcome, rowsToCome: number): void {
    this.#tell(rowsToCome === 0 ? 'ended' : `ended, ${rowsToCome} to come`);
  }

  failed(failure: Failure): void {
    this.failure = failure;
    this.#tell(`failed ${failure.code}`);
  }

  left(state: SessionState): void {
    this.#tell(`left ${JSON.stringify(state)}`);
  }

  notSent(reason: string): void {
    this.#tell(`not begun: ${reason}`);
  }

  async hears(what: string): Promise<void> {
    while (!this.reported.includes(what)) await once(this, 'reported');
  }

  #tell(what: string): void {
    this.reported.push(what);
    this.emit('reported');
  }
}
