// Unlimited clients of one user, in a separate thread so that their own work does not add to the measured latency of other users.
// Started by test/faults/one-user.test.ts.

import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { gzipSync } from 'node:zlib';
import { connectTo, requestText } from '../support/raw-http.ts';
import { get, post, type RequestOptions } from '../support/sluice.ts';

export interface GreedyClients {
  readonly url: string;
  readonly user: string;
  readonly count: number;
  /** Pause of a client between two rounds. */
  readonly restMs: number;
  /** How long a client leaves an idle connection open. */
  readonly stayMs: number;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const { url, user, count, restMs, stayMs } = workerData as GreedyClients;

const noWait = { pagination: { wait_time_secs: 0 } };
const text = 'x'.repeat(15 * MIB);
/** 16 MiB that compress to about 20 KB. */
const largeBody = gzipSync(JSON.stringify({ sql: `SELECT SLEEP(5) /* ${text} */`, ...noWait }));
const asGzip = { 'content-encoding': 'gzip' };
const manyParams = JSON.stringify({
  sql: `SELECT SLEEP(2), ${Array(20_000).fill('?').join('+')}`,
  params: Array.from({ length: 20_000 }, (_, number) => `${number}`),
  ...noWait,
});
const longNames = `SELECT ${Array.from({ length: 1_000 }, (_, column) => `1 AS \`${String(column).padStart(200, 'n')}\``).join()}`;
const largeSession = { settings: Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`s${n}`, ''])) };

/** Each client repeats one of these actions. */
type Behaviour = (place: Place, number: number) => Promise<void>;

const behaviours: Readonly<Record<string, Behaviour>> = {
  'large bodies, compressed': async ({ sluice, login }) => {
    await post(sluice.url, largeBody, { ...login, headers: asGzip });
  },
  'large bodies, as they are': async ({ sluice, login }) => {
    await post(sluice.url, { sql: `SELECT SLEEP(1) /* ${text.slice(0, 2 * MIB)} */`, ...noWait }, login);
  },
  'statements that wait': async ({ sluice, login }) => {
    await post(sluice.url, { sql: `SELECT SLEEP(3) /* ${text.slice(0, 100 * KIB)} */`, ...noWait }, login);
  },
  'sessions with queues': async ({ sluice, login }) => {
    const { json } = await post(
      sluice.url,
      { sql: 'SELECT SLEEP(2)', session: { max_idle_time: 5 }, ...noWait },
      login,
    );
    const session = { id: json.session_id };
    const sql = `SELECT SLEEP(1) /* ${text.slice(0, MIB)} */`;
    for (let statement = 0; statement < 10; statement++) await post(sluice.url, { sql, session, ...noWait }, login);
  },
  'many ids': async ({ sluice, login }, number) => {
    const key = `${number}-${randomBytes(8).toString('hex')}`.padEnd(255, 'k');
    await post(sluice.url, { sql: 'SELECT 1' }, { ...login, headers: { 'idempotency-key': key } });
    await get(sluice.url, `/v1/query/${randomBytes(22).toString('hex')}/page/0`, login);
  },
  'many params': async ({ sluice, login }) => {
    await post(sluice.url, manyParams, login);
  },
  'long names of columns': async ({ sluice, login }) => {
    await post(sluice.url, { sql: longNames }, login);
  },
  'large sessions of a client': async ({ sluice, login }) => {
    const headers = { 'x-databend-query-id': randomBytes(8).toString('hex') };
    await post(sluice.url, { sql: 'SELECT 1', session: largeSession }, { ...login, headers });
  },
  'uploads that do not end': async ({ sluice, authorization }) => {
    const socket = connectTo(sluice.url);
    const headers = { authorization, 'Content-Type': 'application/json', 'Content-Length': `${16 * MIB}` };
    socket.write(requestText('POST /v1/query HTTP/1.1', headers));
    socket.write(Buffer.alloc(8 * MIB, ' '));
    await stay(socket);
  },
  'answers that nobody reads': async ({ sluice, authorization }) => {
    const socket = connectTo(sluice.url);
    socket.pause();
    const sql =
      "SELECT REPEAT('x', 1000000) FROM (SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) a, (SELECT 1 UNION SELECT 2) b";
    const body = JSON.stringify({ sql, pagination: { wait_time_secs: 5 } });
    const headers = { authorization, 'Content-Type': 'application/json' };
    socket.write(requestText('POST /v1/query HTTP/1.1', headers, body));
    await stay(socket);
  },
  'requests in line': async ({ sluice, authorization }) => {
    const socket = connectTo(sluice.url);
    socket.resume();
    const headers = { authorization, 'Content-Type': 'application/json', 'X-Padding': 'p'.repeat(10 * KIB) };
    const body = JSON.stringify({ sql: 'SELECT SLEEP(2)', pagination: { wait_time_secs: 10 } });
    for (let request = 0; request < 20; request++) {
      socket.write(requestText('POST /v1/query HTTP/1.1', headers, body));
    }
    await stay(socket);
  },
};

/** Leaves a connection open for some time, unless the server closes it. */
async function stay(socket: Socket): Promise<void> {
  socket.on('error', () => {});
  await Promise.race([delay(stayMs), new Promise((resolve) => socket.once('close', resolve))]);
  socket.destroy();
}

interface Place {
  readonly sluice: { readonly url: string };
  readonly login: RequestOptions;
  readonly authorization: string;
}

const place: Place = {
  sluice: { url },
  login: { user },
  authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}`,
};
const names = Object.keys(behaviours);
let rounds = 0;
for (let number = 0; number < count; number++) void run(number);
// The test ends the thread.
parentPort?.on('message', () => parentPort?.postMessage(rounds));

async function run(number: number): Promise<void> {
  const behave = behaviours[names[number % names.length] as string] as Behaviour;
  // Spreads the starts of the clients.
  await delay((number / count) * restMs);
  for (;;) {
    // A client continues after a refused or cut request.
    await behave(place, number).catch(() => {});
    rounds++;
    await delay(restMs);
  }
}
