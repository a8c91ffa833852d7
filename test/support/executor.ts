// An executor in this thread on a real database, and the other end of its channel.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { MessageChannel } from 'node:worker_threads';
import { constants, crc32, inflateRawSync } from 'node:zlib';
import type { Test } from 'tap';
import { LargeResults } from '#src/wire/large-results.js';
import { type Channel, Link } from '#src/wire/link.js';
import type {
  DatabaseAddress,
  FromWorker,
  Login,
  SpillLimits,
  StatementEnd,
  ToWorker,
  WorkerLimits,
} from '#src/wire/messages.js';
import { SpillUsage } from '#src/wire/spill-usage.js';
import {
  type Batch,
  type Column,
  defaultOptions,
  type SessionState,
  type StatementOptions,
} from '#src/wire/statement.js';
import type { AdminPool } from '#src/worker/admin-pool.js';
import { Executor } from '#src/worker/executor.js';
import { Watchdog } from '#src/worker/watchdog.js';
import type { DatabaseServer } from './servers.ts';
import { unshared } from './spill.ts';
import { until } from './until.ts';

const MiB = 1024 * 1024;

/** Further members of an `execute` message. */
export type More = Partial<Omit<ToWorker & { type: 'execute' }, 'type' | 'statement' | 'sql' | 'options'>> &
  Partial<StatementOptions>;

/** All that was reported of one statement. */
export interface Reported {
  columns: readonly Column[] | null;
  /** The JSON of the batches, in order. */
  batches: string[];
  rows: number;
  bytes: number;
  spilled: { rows: number; bytes: number };
  end: StatementEnd | null;
  /** The state that it has left its session in, reported with its end. */
  session: SessionState | null;
  /** The kinds of the messages, in order. */
  order: string[];
}

function textOf({ buffer, length, deflatedCrc }: Batch): string {
  if (deflatedCrc === undefined) return Buffer.from(buffer, 0, length).toString();
  const text = inflateRawSync(Buffer.from(buffer), { finishFlush: constants.Z_SYNC_FLUSH });
  if (text.length !== length || crc32(text) !== deflatedCrc) throw new Error('a batch inflates to something else');
  return text.toString();
}

/** The other end of an executor's channel, as a lease has it. */
export class Peer {
  readonly channel: Channel<ToWorker, FromWorker>;
  readonly spillUsage: SpillUsage;
  readonly messages: FromWorker[] = [];
  readonly #reported = new Map<number, Reported>();
  readonly #columns: (readonly Column[])[] = [];
  #statement = 0;
  closed = false;
  idles = 0;
  /** Whether memory for large rows is granted as soon as it is asked for. */
  grantsLargeRows = true;

  constructor(channel: Channel<ToWorker, FromWorker>, spillUsage = SpillUsage.forThreads(1, unshared(0))) {
    this.channel = channel;
    this.spillUsage = spillUsage;
    channel.on('message', (message) => this.#take(message));
    channel.on('close', () => {
      this.closed = true;
    });
  }

  post(message: ToWorker): void {
    this.channel.post(message);
  }

  start(sql: string, more: More = {}): number {
    const statement = ++this.#statement;
    const credit = { creditBytes: 64 * MiB, creditRows: 1_000_000 };
    const { params, variables, format, expectsMany, ...others } = more;
    const given = { params, variables, format, expectsMany };
    const options = { ...defaultOptions };
    const isPlain = Object.values(given).every((value) => value === undefined);
    for (const [name, value] of Object.entries(given))
      if (value !== undefined) Object.assign(options, { [name]: value });
    this.post({
      type: 'execute',
      statement,
      sql,
      options: isPlain ? null : options,
      after: 'keep',
      keep: null,
      gzipLevel: 0,
      pageRows: 10_000,
      ...credit,
      ...others,
    });
    return statement;
  }

  /** Runs a statement until the connection is ready for the next one. */
  async run(sql: string, more: More = {}): Promise<Reported> {
    const idles = this.idles;
    const statement = this.start(sql, more);
    await until(() => this.idles > idles || this.closed);
    if (this.closed) throw new Error(`the connection is gone: ${JSON.stringify(this.messages.at(-1))}`);
    return this.reported(statement);
  }

  reported(statement: number): Reported {
    let reported = this.#reported.get(statement);
    if (reported === undefined) {
      reported = {
        columns: null,
        batches: [],
        rows: 0,
        bytes: 0,
        spilled: { rows: 0, bytes: 0 },
        end: null,
        session: null,
        order: [],
      };
      this.#reported.set(statement, reported);
    }
    return reported;
  }

  #take(message: FromWorker): void {
    this.messages.push(message);
    if (message.type === 'large_row' && message.bytes > 0 && this.grantsLargeRows) {
      this.post({ type: 'room', statement: message.statement });
    }
    if (message.type === 'idle' || (message.type === 'update' && message.idle)) this.idles++;
    if (message.type !== 'update') return;
    const reported = this.reported(message.statement);
    reported.order.push(Object.keys(message).slice(2).join('+'));
    if (message.columns !== undefined) {
      const { columns } = message.columns;
      if (!('number' in message.columns)) {
        reported.columns = message.columns.columns;
      } else {
        const { number } = message.columns;
        if (columns !== undefined) this.#columns[number] = columns;
        reported.columns = this.#columns[number] ?? null;
      }
    }
    if (message.batch !== undefined) {
      reported.batches.push(textOf(message.batch));
      reported.rows += message.batch.rows;
      reported.bytes += message.batch.buffer.byteLength;
    }
    reported.spilled.rows += message.spilled?.rows ?? 0;
    reported.spilled.bytes += message.spilled?.bytes ?? 0;
    if (message.end !== undefined) reported.end = message.end;
    if (message.session !== undefined) reported.session = message.session;
  }
}

/** Rows wait for their reader in the database, however long that takes. */
export const noSpill: SpillLimits = { folder: '', bytesMax: 0, total: unshared(0), waitMs: 0 };

export function task(server: DatabaseServer, database: string | null, limits: Partial<WorkerLimits> = {}) {
  const login: Login = { user: 'root', password: '', database };
  return {
    address: { socketPath: server.socketPath } as DatabaseAddress,
    login,
    limits: {
      connectTimeoutMs: 10_000,
      pingMs: 5_000,
      killTimeoutMs: 10_000,
      rowBytesMax: 64 * MiB,
      columnsMax: 8_192,
      paramsBytesMax: 128 * MiB,
      paramsMax: 65_535,
      spill: noSpill,
      readOnly: false,
      ...limits,
    },
  };
}

/** An executor in this thread that opens its connection, and the other end of its channel. */
export function startExecutor(t: Test, { address, login, limits }: ReturnType<typeof task>): Peer {
  const spillUsage = SpillUsage.forThreads(1, limits.spill.total);
  const { port1, port2 } = new MessageChannel();
  const link = new Link<ToWorker, FromWorker>(port1);
  const adminPools = new Map<string, AdminPool>();
  new Link<FromWorker, ToWorker>(port2, (channel) => {
    void new Executor(
      channel,
      { login, spillSlot: 0 },
      { address, limits },
      {
        adminPools,
        spillUsage,
        watchdog: new Watchdog(limits),
        largeResults: new LargeResults(new SharedArrayBuffer(LargeResults.bytes)),
      },
    ).open();
  });
  t.teardown(async () => {
    const closed = once(port2, 'close');
    link.close();
    await closed;
    for (const pool of adminPools.values()) pool.close();
  });
  const peer = new Peer(link.open(), spillUsage);
  peer.post({ type: 'open', login, spillSlot: 0 });
  return peer;
}

export interface OpenOptions {
  readonly address?: DatabaseAddress;
  readonly withDatabase?: boolean;
}

/** An executor with a database of its own, which it enters by default, and the id of its connection. */
export async function open(
  t: Test,
  server: DatabaseServer,
  limits: Partial<WorkerLimits> = {},
  { address, withDatabase = true }: OpenOptions = {},
) {
  const database = uniqueName();
  await server.sql(`CREATE DATABASE ${database}`);
  t.teardown(() => server.sql(`DROP DATABASE IF EXISTS ${database}`));
  const own = task(server, withDatabase ? database : null, limits);
  const peer = startExecutor(t, { ...own, address: address ?? own.address });
  await until(() => peer.messages.length > 0);
  t.match(peer.messages[0], { type: 'opened', connection: Number });
  const id = Number(
    (await peer.run('SELECT CONNECTION_ID()', { after: 'clean' })).batches.join().replaceAll(/\D/g, ''),
  );
  peer.idles = 0;
  return { database, id, peer };
}

/** Counts the connections of the database. */
export const processCount = 'SELECT COUNT(*) FROM information_schema.PROCESSLIST';

/** Waits until the database runs a statement of that connection. */
export async function runs(server: DatabaseServer, id: number): Promise<void> {
  await until(
    async () => (await server.sql(`${processCount} WHERE ID = ${id} AND COMMAND IN ('Query', 'Execute')`)) === '1',
  );
}

export function uniqueName(): string {
  return `executor_${randomUUID().replaceAll('-', '')}`;
}
