import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import {
  follow,
  get,
  post,
  type QueryResponse,
  query,
  type SluiceProcess,
  split,
  startSluice,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * Statements that get no connection or no memory wait in the queue: in order of arrival for one user, users in turn.
 * They are Running, and report their queue position.
 */

t.setTimeout(540_000);

const noWait = { pagination: { wait_time_secs: 0 } };
const longWait = { pagination: { wait_time_secs: 20 } };
const MIB = 1024 * 1024;

/** More than any buffer of these tests holds, and hard to compress. */
const manyRows =
  'SELECT SHA2(a.ORDINAL_POSITION, 512), RAND() FROM information_schema.COLUMNS a, information_schema.COLUMNS b';

const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no server');

t.test('with two connections', async (t) => {
  const service = await startService(t, server, [
    ...['--connections_max', '2', '--connections_per_user_max', '2', '--queue_wait_secs', '60'],
  ]);
  await t.test('statements wait for a connection, and users take turns', async (t) => {
    const { sluice } = service;
    const users = await service.users(3);
    const [a = '', b = '', c = ''] = users;
    const holders = await Promise.all([0, 1].map(() => start(sluice, a, 'SELECT SLEEP(600)')));
    const waiting: QueryResponse[] = [];
    // Those of b arrive when three of a wait, and that of c last. Each runs long enough to be observed.
    for (const user of [a, a, a, b, b, c]) waiting.push(await start(sluice, user, 'SELECT SLEEP(0.3), 1'));
    t.strictSame(
      waiting.map(({ state }) => state),
      Array(6).fill('Running'),
    );
    const owners = [a, a, a, b, b, c];
    const positions = async (): Promise<unknown[]> =>
      Promise.all(
        waiting.map(async ({ stats_uri }, index) => (await ask(sluice, owners[index], stats_uri)).stats['queue']),
      );
    t.strictSame(await positions(), [1, 4, 6, 2, 5, 3], 'each reports its queue position');
    const polled = ask(sluice, c, waiting[5]?.next_uri ?? '');

    const ended: number[] = [];
    await finish(sluice, a, holders[0]);
    await Promise.all(
      waiting.map(async (one, index) => {
        const last = await follow(sluice.url, one, { user: owners[index] ?? '' });
        t.equal(last.state, 'Succeeded');
        t.equal(last.stats['queue'], null);
        ended.push(index);
      }),
    );
    t.strictSame(ended, [0, 3, 5, 1, 4, 2], 'they ran in the order of their positions');
    t.match(await polled, { error: null }, 'a poll of a waiting statement is an ordinary long poll');
    await finish(sluice, a, holders[1]);
  });

  await t.test('the statements of a session do not wait for connections of other users', async (t) => {
    const { sluice } = service;
    const users = await service.users(2);
    const [a = '', b = ''] = users;
    const opened = await query(sluice.url, 'SET @x = 7', { user: a, body: { session: { max_idle_time: 60 } } });
    const holder = await start(sluice, b, 'SELECT SLEEP(600)');
    const waiting = await start(sluice, b, 'SELECT 1');
    t.equal(waiting.stats['queue'], 1);
    const { rows } = await query(sluice.url, 'SELECT @x', {
      user: a,
      body: { session: { id: opened.last.session_id } },
    });
    t.same(rows, [[7]]);
    await finish(sluice, b, holder);
  });
});

t.test('with one connection', async (t) => {
  const service = await startService(t, server, [...['--connections_max', '1', '--queue_wait_secs', '60']]);
  await t.test('a waiting statement can be cancelled, and is not run', async (t) => {
    const { sluice, sql } = service;
    const users = await service.users(1);
    const [user = ''] = users;
    const holder = await start(sluice, user, 'SELECT SLEEP(600)');
    const first = await start(sluice, user, 'INSERT INTO t VALUES (1)');
    const second = await start(sluice, user, 'INSERT INTO t VALUES (2)');
    t.equal((await get(sluice.url, `${first.stats_uri}/kill`, { user })).status, 200);
    t.match(await ask(sluice, user, first.stats_uri), {
      state: 'Failed',
      error: { code: 90002, outcome: 'not_started', retryable: true },
    });
    t.equal((await ask(sluice, user, second.stats_uri)).stats['queue'], 1, 'the next one moves up');
    await finish(sluice, user, holder);
    await follow(sluice.url, second, { user });
    t.equal(await sql('SELECT GROUP_CONCAT(i) FROM t'), '2');
  });

  await t.test('a waiting statement opens the session whose id its first answer reported', async (t) => {
    const { sluice } = service;
    const users = await service.users(1);
    const [user = ''] = users;
    const holder = await start(sluice, user, 'SELECT SLEEP(600)');
    const body = { sql: 'SET @x = 8', session: { max_idle_time: 60 } };
    const first = (await post(sluice.url, { ...body, ...noWait }, { user })).json;
    t.equal(first.stats['queue'], 1);
    await finish(sluice, user, holder);
    const last = await follow(sluice.url, first, { user });
    t.match(last, { state: 'Succeeded', session_id: first.session_id });
    const { rows } = await query(sluice.url, 'SELECT @x', { user, body: { session: { id: first.session_id } } });
    t.same(rows, [[8]]);
  });
});

t.test('with many connections and no time limit', async (t) => {
  const service = await startService(t, server, [
    ...['--connections_max', '16', '--queue_wait_secs', '600', '--result_timeout_secs', '600'],
    ...['--statement_timeout_secs', '0'],
  ]);
  await t.test('a statement may have a time limit although the server has none', async (t) => {
    const { sluice } = service;
    const [own = ''] = await service.users(1);
    t.same((await query(sluice.url, 'SELECT SLEEP(1.2)', { user: own })).rows, [[0]]);
    const asked = await query(sluice.url, 'SELECT SLEEP(9)', { user: own, body: { timeout_secs: 1 } });
    t.equal(asked.last.error?.code, 90005);
  });

  await t.test('B3: one user cannot take all connections, however many statements it runs', async (t) => {
    const { sluice, sql } = service;
    const users = await service.users(3);
    const [a = '', b = '', c = ''] = users;
    const runningOf = async (user: string): Promise<number> =>
      Number(
        await sql(
          `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${user}' AND INFO LIKE '%SLEEP(600)'`,
        ),
      );
    const hog = (user: string): Promise<unknown> =>
      Promise.all(Array.from({ length: 20 }, () => start(sluice, user, 'SELECT SLEEP(600)')));

    await hog(a);
    await until(async () => (await runningOf(a)) === 12);
    // A statement in the queue would wait until this test times out.
    t.same((await query(sluice.url, 'SELECT 1', { user: b })).rows, [[1]], 'another user runs statements at once');
    const kept = await query(sluice.url, 'SELECT 2', { user: b, body: { session: { max_idle_time: 60 } } });
    t.same(kept.rows, [[2]], 'another user keeps sessions');
    t.equal((await get(sluice.url, '/ready')).status, 200);

    await hog(b);
    await until(async () => (await runningOf(b)) === 2);
    t.same(
      (await query(sluice.url, 'SELECT 3', { user: c })).rows,
      [[3]],
      'a third user, too, while two users have as many connections as they may',
    );
    t.equal(await runningOf(a), 12);
  });
});

t.test('with few sessions and a time limit', async (t) => {
  const service = await startService(t, server, [...['--sessions_per_user_max', '2', '--statement_timeout_secs', '3']]);
  await t.test('the number of kept sessions is limited for each user', async (t) => {
    const { sluice } = service;
    const users = await service.users(2);
    const [a = '', b = ''] = users;
    const kept = { session: { max_idle_time: 1 } };
    for (let count = 0; count < 2; count++) await query(sluice.url, 'SELECT 1', { user: a, body: kept });
    const refused = await post(sluice.url, { sql: 'SELECT 1', ...kept }, { user: a });
    t.equal(refused.status, 429);
    t.match(refused.text, /--sessions_per_user_max/);
    t.same((await query(sluice.url, 'SELECT 2', { user: a })).rows, [[2]], 'a one-off statement needs no kept session');
    t.same((await query(sluice.url, 'SELECT 3', { user: b, body: kept })).rows, [[3]]);
    const later = await until(
      () => post(sluice.url, { sql: 'SELECT 4', ...kept, ...longWait }, { user: a }),
      ({ status }) => status !== 429,
    );
    t.same(later.json.data, [[4]], 'sessions that have ended do not count');
  });

  await t.test('a statement may have a time limit of its own, up to the server’s', async (t) => {
    const { sluice, sql } = service;
    const users = await service.users(1);
    const [user = ''] = users;
    const began = performance.now();
    const { last } = await query(sluice.url, 'SELECT SLEEP(600)', { user, body: { timeout_secs: 1, ...longWait } });
    t.match(last, { state: 'Failed', error: { code: 90005, message: /1 s \(its timeout_secs\)/, retryable: false } });
    // Usually takes a second.
    t.ok(performance.now() - began < 15_000);
    const running = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${user}' AND INFO = 'SELECT SLEEP(600)'`;
    await until(async () => (await sql(running)) === '0');
    const other = await query(sluice.url, 'SELECT SLEEP(600)', { user, body: longWait });
    t.match(other.last.error, { code: 90005, message: /3 s \(--statement_timeout_secs\)/ });
    const refused = await post(sluice.url, { sql: 'SELECT 1', timeout_secs: 4 }, { user });
    t.equal(refused.status, 400);
    t.match(refused.text, /"timeout_secs" is 4; it must be from 1 to 3/);
  });
});

t.test('the length of the queue and the wait in it are limited', async (t) => {
  const options = ['--connections_max', '1', '--queue_max', '2', '--queue_wait_secs', '2'];
  const { sluice, users } = await prepare(t, server, 2, options);
  const [a = '', b = ''] = users;
  const holder = await start(sluice, a, 'SELECT SLEEP(600)');
  const waiting = await Promise.all([start(sluice, a, 'SELECT 1'), start(sluice, b, 'SELECT 1')]);
  const refused = await post(sluice.url, { sql: 'SELECT 1' }, { user: b });
  t.equal(refused.status, 503);
  t.match(refused.text, /--queue_max/);
  t.match(refused.headers, { 'retry-after': /\d/ });
  for (const [index, user] of [a, b].entries()) {
    const last = await until(
      () => ask(sluice, user, waiting[index]?.stats_uri ?? ''),
      ({ state }) => state !== 'Running',
    );
    t.match(last, { state: 'Failed', error: { code: 1040, outcome: 'not_started', retryable: true } });
  }
  await finish(sluice, a, holder);
  t.same((await query(sluice.url, 'SELECT 3', { user: a })).rows, [[3]]);
});

t.test('statements wait for memory until other queries release it', async (t) => {
  const options = ['--buffer_bytes_max', `${2 * MIB}`, '--spill_bytes_max', '0'];
  const { sluice, users } = await prepare(t, server, 2, options);
  const [user = '', other = ''] = users;
  // Nobody reads these results, so each query keeps its memory.
  const unread: QueryResponse[] = [];
  let next = await start(sluice, user, manyRows);
  while (next.stats['queue'] === null && unread.length < 8) {
    unread.push(next);
    const { stats_uri } = next;
    await until(
      () => ask(sluice, user, stats_uri),
      ({ stats }) => (stats['result_progress'] as { rows: number }).rows > 0,
    );
    next = await start(sluice, user, manyRows);
  }
  t.ok(
    unread.length >= 1 && unread.length <= 6,
    `${unread.length} have started, with at least a quarter of a MiB each`,
  );
  const others = await post(sluice.url, { sql: 'SELECT 1', ...longWait }, { user: other });
  t.same(others.json.data, [[1]], 'B1: one user does not take the memory of all users');
  await finish(sluice, other, others.json);
  t.equal(next.stats['queue'], 1);
  const small = post(sluice.url, { sql: 'SELECT 1', ...longWait }, { user });
  for (const one of unread) await finish(sluice, user, one);
  t.same((await small).json.data, [[1]]);
  t.equal((await ask(sluice, user, next.stats_uri)).stats['queue'], null);
  await finish(sluice, user, next);
});

t.test('many readers of large results stay within the total memory, and get all rows', async (t) => {
  const options = [
    '--buffer_bytes_max',
    `${16 * MIB}`,
    '--query_buffer_bytes_max',
    `${8 * MIB}`,
    '--spill_bytes_max',
    '0',
  ];
  const { sluice, users } = await prepare(t, server, 1, options);
  const [user = ''] = users;
  await query(sluice.url, 'SELECT 1', { user });
  const before = sluice.memoryBytes();
  const sql = `${manyRows} LIMIT 100000`;
  const counts = await Promise.all(Array.from({ length: figure(16, 24) }, () => countRows(sluice, user, sql)));
  for (const count of counts) t.equal(count, 100_000);
  const grown = (sluice.peakMemoryBytes() - before) / MIB;
  t.comment(`at most ${Math.round(grown)} MiB more, of ${counts.length} results of 14 MB`);
  // This covers answers in transit, the garbage of two threads, and memory that the heap retains.
  t.ok(grown < 200, `${Math.round(grown)} MiB`);
});

/** A service and a database of its own. */
async function startService(t: Test, database: DatabaseServer, args: readonly string[]) {
  const name = `queue_${randomBytes(4).toString('hex')}`;
  const made: string[] = [];
  await database.sql(`CREATE DATABASE ${name}; CREATE TABLE ${name}.t (i INT)`);
  const sluice = await startSluice([
    ...['--mysql_url', `${database.url}${name}`, '--worker_threads', '2', '--drain_secs', '0'],
    ...args,
  ]);
  t.teardown(async () => {
    await sluice.stop();
    for (const user of made) await database.sql(`DROP USER ${user}@'%'`);
    await database.sql(`DROP DATABASE ${name}`);
  });
  /** Users that have run nothing yet. */
  const users = async (count: number): Promise<string[]> => {
    const some = Array.from({ length: count }, (_, index) => `${name}_${made.length + index}`);
    for (const user of some) await database.sql(`CREATE USER ${user}@'%'; GRANT ALL ON ${name}.* TO ${user}@'%'`);
    made.push(...some);
    return some;
  };
  return { sluice, users, sql: (text: string) => database.sql(text, { database: name }) };
}

async function prepare(t: Test, database: DatabaseServer, userCount: number, args: readonly string[]) {
  const service = await startService(t, database, args);
  return { sluice: service.sluice, users: await service.users(userCount) };
}

/** Reads a result to its end, and counts the rows without parsing them, which takes less time. */
async function countRows(sluice: SluiceProcess, user: string, sql: string): Promise<number> {
  const options = { user, headers: { 'accept-encoding': 'identity' } };
  let reply = await post(sluice.url, { sql, ...longWait }, options);
  for (let count = 0; ; ) {
    const { head, rowsText } = split(reply.text);
    if (head.error !== null) throw new Error(head.error.message);
    for (let at = rowsText.indexOf('["'); at >= 0; at = rowsText.indexOf('],[', at)) {
      count++;
      at++;
    }
    if (head.next_uri === null) {
      if (head.state !== 'Succeeded') throw new Error(head.state);
      await get(sluice.url, head.final_uri, options);
      return count;
    }
    reply = await get(sluice.url, head.next_uri, options);
  }
}

async function start(sluice: SluiceProcess, user: string, sql: string): Promise<QueryResponse> {
  const { json } = await post(sluice.url, { sql, ...noWait }, { user, headers: { 'accept-encoding': 'identity' } });
  return json;
}

async function ask(sluice: SluiceProcess, user: string | undefined, uri: string): Promise<QueryResponse> {
  return (await get(sluice.url, uri, { user: user ?? '' })).json;
}

async function finish(sluice: SluiceProcess, user: string, one: QueryResponse | undefined): Promise<void> {
  await get(sluice.url, one?.final_uri ?? '', { user });
}
