import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { get, post, type Reply, type RequestOptions, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * Whatever a request makes the server hold is reserved before it is held, for all users and for each. What finds no memory is refused
 * with 429 (the user's share) or 503 (all memory), and can be sent again when other requests have ended.
 */

t.setTimeout(120_000);

const KIB = 1024;
const MIB = 1024 * KIB;
const noWait = { pagination: { wait_time_secs: 0 } };

/** All requests of one user together, here; those of all users a third more. */
const userBytesMax = 12 * MIB;
const limits = ['--body_bytes_max', `${2 * MIB}`, '--request_bytes_max', `${16 * MIB}`];

const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no server');

t.test('B1: the statements of one user that wait or run hold no more than its share', async (t) => {
  const { sluice, users } = await prepare(t, server, 3, limits);
  const [greedy = '', second = '', third = ''] = users;
  const large = `SELECT SLEEP(600) /* ${'x'.repeat(MIB)} */`;
  const first = await startUntilRefused(sluice, greedy, large);
  t.equal(first.refused?.status, 429);
  t.match(first.refused?.text, /--request_bytes_per_user_max/);
  t.match(first.refused?.headers, { 'retry-after': /^\d+$/ });
  t.ok(first.taken.length >= 3 && first.taken.length <= 6, `${first.taken.length} were taken`);
  const reservedBytes = await requestBytes(sluice);
  const leastBytes = first.taken.length * 2 * MIB;
  t.ok(reservedBytes > leastBytes && reservedBytes <= userBytesMax, `${reservedBytes} bytes are reserved`);

  const one = { sql: 'SELECT 1', pagination: { wait_time_secs: 30 } };
  t.match((await post(sluice.url, one, { user: second })).json, { state: 'Succeeded', data: [[1]] });
  const { taken, refused } = await startUntilRefused(sluice, second, large);
  t.ok(taken.length >= 1, 'a second user has a share of what is left');
  t.equal(refused?.status, 503);
  t.match(refused?.text, /--request_bytes_max/);
  t.match(refused?.headers, { 'retry-after': /^\d+$/ });
  t.match((await post(sluice.url, one, { user: third })).json, { state: 'Succeeded', data: [[1]] });

  for (const { json } of first.taken) await get(sluice.url, `${json.stats_uri}/kill`, { user: greedy });
  t.equal((await start(sluice, greedy, large)).status, 200, 'when statements are over, their memory is free');
});

t.test('B1: what is reserved is given back, whatever becomes of the statement', async (t) => {
  const { sluice, users } = await prepare(t, server, 1, limits);
  const [user = ''] = users;
  const text = 'x'.repeat(100_000);
  const wait = { pagination: { wait_time_secs: 20 } };
  const posts: [string, object, RequestOptions?][] = [
    ['succeeds', { sql: `SELECT LENGTH('${text}')` }],
    ['fails in the database', { sql: `SELECT nothing_of_that_name /* ${text} */` }],
    ['has params', { sql: 'SELECT LENGTH(?)', params: [text] }],
    ['has the wrong number of params', { sql: 'SELECT LENGTH(?)', params: [text, text] }],
    ['is no QueryRequest', { sql: text, foo: 1 }],
    ['is of a session that there is not', { sql: text, session: { id: 'x' } }],
    ['is of a database that there is not', { sql: text, session: { database: 'nowhere' } }],
    ['opens a session', { sql: `SELECT LENGTH('${text}')`, session: { max_idle_time: 5 } }],
    ['has a key', { sql: `SELECT LENGTH('${text}')` }, { headers: { 'idempotency-key': 'k' } }],
    ['has the same key', { sql: `SELECT LENGTH('${text}')` }, { headers: { 'idempotency-key': 'k' } }],
    ['has the key with another body', { sql: text }, { headers: { 'idempotency-key': 'k' } }],
    ['runs past its time', { sql: `SELECT SLEEP(600) /* ${text} */`, timeout_secs: 1 }],
    [
      'is in the dialect of Databend',
      { sql: `SELECT LENGTH('${text}')`, session: { settings: { time_zone: 'UTC', a: text.slice(0, 1_000) } } },
      { headers: { 'x-databend-query-id': 'q' } },
    ],
  ];
  for (const [what, body, options = {}] of posts) {
    const reply = await post(
      sluice.url,
      { ...body, ...(options.headers?.['x-databend-query-id'] ? {} : wait) },
      { user, ...options },
    );
    t.ok([200, 400, 409].includes(reply.status), `${what}: ${reply.status}`);
    if (reply.status === 200) await get(sluice.url, reply.json.final_uri ?? reply.json.next_uri, { user });
    t.equal(await requestBytes(sluice), 0, `one that ${what}`);
  }
  const abort = new AbortController();
  const cut = post(sluice.url, { sql: `SELECT SLEEP(600) /* ${text} */`, ...wait }, { user, signal: abort.signal });
  await until(
    () => requestBytes(sluice),
    (bytes) => bytes > 0,
  );
  abort.abort();
  await t.rejects(cut);
  await until(
    () => requestBytes(sluice),
    (bytes) => bytes === 0,
  );
  t.pass('one whose client goes away');
});

async function requestBytes(sluice: SluiceProcess): Promise<number> {
  const { text } = await get(sluice.url, '/metrics');
  return Number(/^sluice_request_bytes (\d+)$/m.exec(text)?.[1]);
}

async function startUntilRefused(
  sluice: SluiceProcess,
  user: string,
  sql: string,
): Promise<{ readonly taken: readonly Reply[]; readonly refused: Reply | undefined }> {
  const taken: Reply[] = [];
  while (taken.length < 20) {
    const reply = await start(sluice, user, sql);
    if (reply.status !== 200) return { taken, refused: reply };
    taken.push(reply);
  }
  return { taken, refused: undefined };
}

function start(sluice: SluiceProcess, user: string, sql: string): Promise<Reply> {
  return post(sluice.url, { sql, ...noWait }, { user });
}

interface Prepared {
  readonly sluice: SluiceProcess;
  readonly users: readonly string[];
}

async function prepare(t: Test, server: DatabaseServer, userCount: number, args: readonly string[]): Promise<Prepared> {
  const name = `memory_${randomBytes(4).toString('hex')}`;
  const users = Array.from({ length: userCount }, (_, number) => `${name}_${number}`);
  for (const user of users) await server.sql(`CREATE USER '${user}'@'localhost'; CREATE USER '${user}'@'127.0.0.1'`);
  const sluice = await startSluice(['--mysql_url', server.url, '--drain_secs', '0', ...args]);
  t.teardown(async () => {
    await sluice.stop();
    for (const user of users) await server.sql(`DROP USER '${user}'@'localhost'; DROP USER '${user}'@'127.0.0.1'`);
  });
  return { sluice, users };
}
