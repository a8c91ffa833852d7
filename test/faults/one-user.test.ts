import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { figure, isLong, measured, testMsMax } from '../support/form.ts';
import { type DatabaseKind, isInstalled, startServer } from '../support/servers.ts';
import {
  get,
  post,
  type QueryResponse,
  type RequestOptions,
  type SluiceProcess,
  startSluice,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';
import type { GreedyClients } from './greedy-clients.ts';

/*
 * Many clients of one user without restraint: large bodies, slow statements, sessions with queues, many ids and params, long
 * column names, unfinished uploads, unread answers. Memory stays below a stated limit, and the statements of another user are
 * answered soon.
 */

const KIB = 1024;
const MIB = 1024 * KIB;
const clientCount = figure(200, 1_000);
const durationMs = figure(6_000, 300_000);
/** In the short form this only detects clients that wait indefinitely: lower values depend on the load of the machine. */
const p99MsMax = figure(5_000, 100);

const requestBytesMax = 128 * MIB;
const resultsBytesMax = 256 * MIB;
/**
 * Added to the memory that the options allow: the same amount again, because data that is copied between threads exists twice for
 * a moment and the garbage collector runs late, and the cost of a connection with a request.
 */
const allowanceBytes = requestBytesMax + resultsBytesMax + 192 * MIB + clientCount * 64 * KIB;
const limits = [
  ...['--request_bytes_max', `${requestBytesMax}`],
  ...['--buffer_bytes_max', `${resultsBytesMax / 2}`, '--results_bytes_max', `${resultsBytesMax}`],
];

const kinds = ['mariadb', 'mysql'] satisfies DatabaseKind[];

for (const kind of kinds) {
  // Memory and queues belong to the service, so one database is enough.
  const skip = !isInstalled(kind) || (!isLong && kind === 'mysql' ? 'only in the long form' : false);
  t.test(
    `B1: ${kind}: the greedy clients of one user neither exceed the memory limit nor delay another user`,
    { skip, timeout: testMsMax, buffered: false },
    async (t) => {
      const server = await startServer(kind, ['--max-connections=500']);
      t.teardown(() => server.stop());
      for (const user of ['greedy', 'other']) await server.sql(`CREATE USER ${user}@'%'`);
      const sluice = await startSluice(['--mysql_url', server.url, '--drain_secs', '0', ...limits]);
      t.teardown(() => sluice.kill());
      await attack(t, sluice);
    },
  );
}

async function attack(t: Test, sluice: SluiceProcess): Promise<void> {
  const other = new OtherUser(sluice, 'other');
  await until(
    () => other.answers,
    (answers) => answers >= 100,
  );
  const aloneMs = other.p99Ms();
  const beforeBytes = sluice.memoryBytes();
  const clients: GreedyClients = {
    ...{ url: sluice.url, user: 'greedy', count: clientCount },
    ...{ restMs: figure(500, 1_000), stayMs: figure(3_000, 20_000) },
  };
  const thread = new Worker(new URL('./greedy-clients.js', import.meta.url), { workerData: clients });
  let peakBytes = 0;
  const sample = setInterval(() => {
    peakBytes = Math.max(peakBytes, sluice.memoryBytes() - beforeBytes);
  }, 50);
  await delay(durationMs);
  const besideMs = other.p99Ms();
  const { count } = other;
  thread.postMessage('how many rounds?');
  const [answered] = (await once(thread, 'message')) as [number];
  await thread.terminate();
  clearInterval(sample);
  await other.stop();

  const peakMib = peakBytes / MIB;
  const boundMib = (requestBytesMax + resultsBytesMax + allowanceBytes) / MIB;
  t.ok(peakMib <= boundMib, `memory grew by ${peakMib.toFixed(0)} MiB; the limit is ${boundMib} MiB`);
  t.strictSame(other.wrong.slice(0, 3), [], 'the other user got correct answers');
  t.ok(besideMs <= p99MsMax, `p99 of the other user: ${besideMs.toFixed(1)} ms; the limit is ${p99MsMax} ms`);
  t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
  measured(
    t,
    `${clientCount} clients of one user for ${durationMs / 1_000} s, ${answered} rounds: memory +${peakMib.toFixed(0)} MiB ` +
      `(bound ${boundMib} MiB); ${count} SELECT 1 of another user, p99 ${aloneMs.toFixed(1)} ms alone, ${besideMs.toFixed(1)} ms beside`,
  );
}

/** A client of another user that requests one row repeatedly. */
class OtherUser {
  readonly wrong: string[] = [];
  count = 0;
  #latenciesMs: number[] = [];
  #isStopped = false;
  readonly #running: Promise<void>;

  constructor(sluice: SluiceProcess, user: string) {
    this.#running = this.#run(sluice, { user });
  }

  /** Latencies of the answers since the last call. */
  p99Ms(): number {
    const sorted = this.#latenciesMs.sort((a, b) => a - b);
    this.#latenciesMs = [];
    this.count = sorted.length;
    return sorted[Math.max(0, Math.ceil(sorted.length * 0.99) - 1)] ?? Number.POSITIVE_INFINITY;
  }

  get answers(): number {
    return this.#latenciesMs.length;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #run({ url }: SluiceProcess, login: RequestOptions): Promise<void> {
    while (!this.#isStopped) {
      const sentMs = performance.now();
      try {
        const reply = await post(url, { sql: 'SELECT 1', pagination: { wait_time_secs: 30 } }, login);
        this.#latenciesMs.push(performance.now() - sentMs);
        const answer: QueryResponse | null = reply.status === 200 ? reply.json : null;
        if (answer?.state !== 'Succeeded') this.wrong.push(`${reply.status} ${reply.text.slice(0, 300)}`);
        if (answer !== null) await get(url, answer.final_uri, login);
      } catch (error) {
        this.wrong.push(String(error));
        await delay(100);
      }
      await delay(10);
    }
  }
}
