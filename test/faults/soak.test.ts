import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, measured, testMsMax } from '../support/form.ts';
import type { Look } from '../support/probe.ts';
import { prepareProbe } from '../support/probe-process.ts';
import { generator, pick, type Random, seedOf } from '../support/random.ts';
import { connectTo, requestText } from '../support/raw-http.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import {
  get,
  post,
  type QueryResponse,
  query,
  type SluiceProcess,
  startSluice,
  untilIdleConnectionsClosed,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * Mixed traffic, valid and invalid, over a long time and in rounds. After each round all temporary state has had time to expire,
 * and the process is inspected: its memory and its counters may not grow from round to round.
 */

const MIB = 1024 * 1024;
const roundCount = figure(6, 60);
const roundMs = figure(1_500, 25_000);
/** After this long, results that nobody polls and idle sessions expire. A client on a busy machine may be late by as much. */
const expirySecs = 4;
/** By then, they have expired, and idle connections and tombstones too. */
const restMs = expirySecs * 1_000 + figure(2_500, 4_000);
/** On a busy machine, connections are closed, or reported as closed, up to this much later. */
const lateMs = 10_000;
/** In the first rounds the engine compiles hot functions and the process allocates its permanent memory. */
const warmRounds = figure(2, 6);
/** The lowest number of connections in this many samples counts. */
const connectionLooks = figure(2, 6);
const lanes = 12;
const rowsMax = 20_000;

/**
 * The allowed drift of each value over the whole run, by a least-squares line through its samples. Heap and memory fluctuate.
 * Counters are constant except for a connection or a timer that is just being closed.
 */
const driftMax: Readonly<Record<keyof Sample, number>> = {
  heapBytes: figure(2, 8) * MIB,
  externalBytes: 4 * MIB,
  // Memory is given back late, so in a few rounds it varies by tens of MiB.
  residentBytes: figure(160, 64) * MIB,
  descriptors: 4,
  timers: 4,
  handles: 4,
  listeners: 16,
  connections: 2,
};

interface Sample extends Look {
  /** Connections of the service to the database. */
  readonly connections: number;
}

for (const server of await sharedServers()) {
  // Retained memory hardly depends on the database, only in the workers, so the short form runs on one database.
  const skip = figure(server.kind === 'mysql', false) ? 'only in the long form' : false;
  t.test(`on ${server.kind}`, { timeout: testMsMax, skip }, async (t) => {
    const seed = seedOf(t);
    const { sluice, user, look } = await startPlace(t, server);
    const wrong: string[] = [];
    let number = 0;
    const samples: Sample[] = [];
    const counts = { steps: 0 };
    for (let round = 0; round < roundCount; round++) {
      const untilMs = performance.now() + roundMs;
      const lane = async (): Promise<void> => {
        while (performance.now() < untilMs) {
          counts.steps++;
          await step(sluice, user, generator(seed, number++)).catch((error: unknown) => wrong.push(String(error)));
        }
      };
      await Promise.all(Array.from({ length: lanes }, lane));
      await delay(restMs);
      // A request on a connection that is just being closed would fail.
      await untilIdleConnectionsClosed();
      const connections = await restingConnections(server, user, samples[0]?.connections ?? 0);
      samples.push({ ...(await look()), connections });
    }
    t.strictSame(wrong.slice(0, 5), [], `${wrong.length} of ${counts.steps} steps had a wrong result`);
    const steady = samples.slice(warmRounds);
    for (const name of Object.keys(driftMax) as (keyof Sample)[]) {
      const looks = steady.map((sample) => sample[name]);
      // The database may report for some seconds a connection that the service has closed.
      const values = name === 'connections' ? lowest(looks, connectionLooks) : looks;
      const drift = slope(values) * (values.length - 1);
      const inUnits = (value: number): string =>
        name.endsWith('Bytes') ? `${(value / MIB).toFixed(1)} MiB` : value.toFixed(1);
      t.ok(drift <= driftMax[name], `${name} drifted by ${inUnits(drift)}; the limit is ${inUnits(driftMax[name])}`);
      measured(t, `${name}: ${inUnits(values[0] ?? 0)} to ${inUnits(values.at(-1) ?? 0)}, drift ${inUnits(drift)}`);
      t.comment(`${name} after each round: ${samples.map((sample) => inUnits(sample[name])).join(', ')}`);
    }
    const secs = (roundCount * (roundMs + restMs)) / 1_000;
    measured(t, `${counts.steps} steps of mixed traffic in ${Math.round(secs)} s, ${wrong.length} wrong`);
    t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
    t.equal(await sluice.stop(), 0, 'the service stops cleanly');
  });
}

/** The number of the user's connections, as soon as it does not exceed that of the first round, or after a time limit. */
async function restingConnections(server: DatabaseServer, user: string, atFirst: number): Promise<number> {
  let count = 0;
  const look = async (): Promise<boolean> => {
    count = Number(await server.sql(`SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${user}'`));
    return count <= atFirst || atFirst === 0;
  };
  await until(look, Boolean, lateMs).catch(() => {});
  return count;
}

/** One action of a client. Rejects if its result is wrong. */
async function step({ url }: SluiceProcess, user: string, random: Random): Promise<void> {
  const login = { user };
  const text = (length: number): string =>
    `SELECT i, REPEAT('x', ${length}) FROM numbers ORDER BY i LIMIT ${1 + random(rowsMax)}`;
  await pick(random, [
    async () => {
      const { rows } = await query(url, 'SELECT 7', login);
      holds(rows[0]?.[0] === 7, 'SELECT 7');
    },
    async () => {
      const { last, rows } = await query(url, 'SELECT i FROM numbers ORDER BY i LIMIT 100', login);
      holds(last.state === 'Succeeded' && rows.length === 100, 'a hundred rows');
    },
    async () => {
      const body = { pagination: { max_rows_per_page: 1 + random(5_000) } };
      const { last } = await query(url, text(random(300)), { ...login, body, finish: random(2) === 0 });
      holds(last.state === 'Succeeded', `a large result: ${last.error?.message}`);
    },
    async () => {
      // No client requests the rest.
      const reply = await post(url, { sql: text(500), pagination: { max_rows_per_page: 10 } }, login);
      holds(reply.status === 200, reply.text);
    },
    async () => {
      const reply = await post(url, { sql: 'SELECT SLEEP(60)', pagination: { wait_time_secs: 0 } }, login);
      holds((await get(url, `${reply.json.stats_uri}/kill`, login)).status === 200, 'a kill');
    },
    async () => {
      const headers = { Authorization: basic(user), 'Content-Type': 'application/json', 'Accept-Encoding': 'gzip' };
      const body = JSON.stringify({ sql: text(500), pagination: { max_rows_per_page: 1 + random(100) } });
      const reply = await fetch(`${url}/v1/query`, { method: 'POST', headers, body });
      const { data, final_uri } = (await reply.json()) as QueryResponse;
      // If the wait ends after a single row, the page is too small to be compressed.
      const isRight = reply.headers.get('content-encoding') === 'gzip' || data.length <= 2;
      holds(reply.status === 200 && isRight, 'a compressed page');
      holds((await get(url, final_uri, login)).status === 200, 'a final');
    },
    async () => {
      const { last } = await query(url, 'SELECT nonsense', login);
      holds(last.error?.code === 1054, 'an error');
    },
    async () => {
      const opened = await query(url, 'SET @a = 5', { ...login, body: { session: { max_idle_time: expirySecs } } });
      if (opened.last.state === 'Failed') return;
      const { rows } = await query(url, 'SELECT @a', { ...login, body: { session: { id: opened.last.session_id } } });
      holds(rows[0]?.[0] === 5, 'a session');
    },
    async () => {
      const { last } = await query(url, `INSERT INTO notes (word) VALUES ('${random(1e9)}')`, login);
      holds(last.affected_rows === 1, 'a change');
      await query(url, 'DELETE FROM notes WHERE i < LAST_INSERT_ID() - 100 LIMIT 10', login);
    },
    async () => {
      const reply = await post(
        url,
        pick(random, ['', '{}', '{"sql":1}', '{"sql":"SELECT 1","x":1}', 'x'.repeat(1_000)]),
        login,
      );
      holds(reply.status === 400, `a bad request: ${reply.status}`);
    },
    async () => {
      const reply = await get(url, pick(random, ['/v1/query/none', '/nowhere', '/v1/query/none/page/0']), login);
      holds(reply.status === 404, `nothing there: ${reply.status}`);
    },
    () => hangUp(url, user, random),
    async () => {
      const abort = new AbortController();
      const waiting = post(url, { sql: 'SELECT SLEEP(60)' }, { ...login, signal: abort.signal });
      await Promise.all([waiting.catch(() => {}), delay(random(100)).then(() => abort.abort())]);
    },
  ])();
}

/** Sends part of a request and closes the connection. */
function hangUp(url: string, user: string, random: Random): Promise<void> {
  const headers = {
    Authorization: basic(user),
    'Content-Type': 'application/json',
  };
  const whole = requestText('POST /v1/query HTTP/1.1', headers, '{"sql":"SELECT i FROM numbers"}');
  const socket = connectTo(url);
  return new Promise((resolve) => {
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.write(whole.subarray(0, random(whole.length + 1)), () => {
      setTimeout(() => (random(2) === 0 ? socket.destroy() : socket.resetAndDestroy()), random(30));
    });
  });
}

function basic(user: string): string {
  return `Basic ${Buffer.from(`${user}:`).toString('base64')}`;
}

function holds(condition: boolean, what: string): void {
  if (!condition) throw new Error(`wrong result: ${what}`);
}

/** The lowest value of each group of consecutive values. */
function lowest(values: readonly number[], count: number): number[] {
  return values.slice(count - 1).map((_, at) => Math.min(...values.slice(at, at + count)));
}

/** The growth per step of the least-squares line through the values. */
function slope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = values.reduce((sum, _, at) => sum + (at - middle) ** 2, 0);
  return values.reduce((sum, value, at) => sum + (at - middle) * (value - mean), 0) / spread;
}

async function startPlace(
  t: Test,
  server: DatabaseServer,
): Promise<{ sluice: SluiceProcess; user: string; look: () => Promise<Look> }> {
  const user = `soak_${randomBytes(4).toString('hex')}`;
  await server.sql(
    `CREATE DATABASE ${user}; USE ${user}; CREATE USER ${user}@'%'; GRANT ALL ON ${user}.* TO ${user}@'%';
     CREATE TABLE numbers (i INT PRIMARY KEY); CREATE TABLE notes (i INT PRIMARY KEY AUTO_INCREMENT, word VARCHAR(50));
     SET SESSION ${server.kind === 'mysql' ? 'cte_max_recursion_depth' : 'max_recursive_iterations'} = 100000;
     INSERT INTO numbers WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < ${rowsMax})
       SELECT i FROM c`,
  );
  const probe = await prepareProbe(t);
  const { port } = new URL(server.url);
  const sluice = await startSluice(
    [
      ...['--mysql_url', `mysql://root@127.0.0.1:${port}/${user}`, '--drain_secs', '0', '--worker_threads', '2'],
      ...['--result_timeout_secs', `${expirySecs}`, '--connection_idle_secs', '1'],
      ...['--session_idle_secs_max', `${expirySecs}`, '--request_timeout_secs', `${expirySecs}`],
      ...['--connections_max', '40', '--wait_time_secs_max', '1'],
      // The clients' own connections are closed too before the process is inspected.
      ...['--http_idle_secs', `${expirySecs + 1}`],
      // The results of one burst may fill every buffer, and the process does not release used memory at once.
      ...['--query_buffer_bytes_max', `${2 * MIB}`, '--page_bytes_max', `${MIB}`],
    ],
    probe.env,
  );
  t.teardown(async () => {
    await sluice.kill();
    await server.sql(`DROP USER ${user}; DROP DATABASE ${user}`);
  });
  return { sluice, user, look: () => probe.look(sluice) };
}
