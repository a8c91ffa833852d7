import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { listen, startProxy } from '../support/proxy.ts';
import { pick, type Random, seeded } from '../support/random.ts';
import { connectTo, requestText } from '../support/raw-http.ts';
import { type DatabaseKind, isInstalled, startServer } from '../support/servers.ts';
import { follow, get, post, query, type SluiceProcess, startSluice, untilReady } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * A database that is unavailable, stops, becomes unresponsive or is full, and clients that disconnect. The service must
 * report the cause, limit every wait, and recover as soon as the database does.
 */

const CONNECT_TIMEOUT_SECS = 1;
/** Clients that warm up the memory, and clients after them, whose leaks would show. */
const FIRST_CLIENTS = figure(120, 250);
const LATER_CLIENTS = figure(50, 250);
const MIB = 1024 * 1024;

/** Rows of a kilobyte, more than any buffer holds. */
const manyRows = `SELECT REPEAT('x', 1000) FROM information_schema.COLUMNS a CROSS JOIN information_schema.COLUMNS b`;

/** Keeps a core busy until it is cancelled. (In MySQL, a SLEEP that a shutdown interrupts succeeds.) */
const counting = `SELECT COUNT(*) FROM ${['a', 'b', 'c'].map((name) => `information_schema.COLUMNS ${name}`).join(' CROSS JOIN ')}`;

const noWait = { pagination: { wait_time_secs: 0 } };
/** The default is a second, which may be too short on a busy machine. */
const longWait = { pagination: { wait_time_secs: 30 } };

// Most of the time is spent waiting, so the two databases are tested concurrently.
t.jobs = 2;

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  t.test(kind, { skip: !isInstalled(kind), timeout: 540_000 }, async (t) => {
    const server = await startServer(kind, ['--max-allowed-packet=4M']);
    t.teardown(() => server.stop());
    const url = `mysql://root@127.0.0.1:${server.port}/`;

    // One service for most tests, because a start takes longer than a test.
    await server.terminate();
    const sluice = await start(t, ['--mysql_url', url, '--kill_timeout_secs', '1']);
    // Another service, which caches no login and whose connection to the database can be silenced.
    const proxy = await startProxy(t, server.port);
    const viaProxy = ['--mysql_url', `mysql://root@127.0.0.1:${proxy.port}/`];
    const wary = await start(t, [...viaProxy, '--auth_cache_secs', '0', '--worker_threads', '1']);

    await t.test('a database that is unavailable at the start may start later', async (t) => {
      t.equal((await get(sluice.url, '/health')).text, 'ok');
      await isUnavailable(t, sluice, /cannot be reached/);
      await server.restart();
      await untilReady(sluice.url);
      t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
    });

    // Run early, because connections that the services keep would count.
    await t.test('a database without a free connection is temporarily unavailable', async (t) => {
      // A separate service, which has no connection that it could close to make room for a login.
      const options = ['--auth_cache_secs', '0', '--auth_failures_max', '10000', '--worker_threads', '1'];
      const empty = await start(t, ['--mysql_url', url, ...options]);
      const holders: Socket[] = [];
      await server.sql('SET GLOBAL max_connections = 10');
      try {
        // Connections that never log in count, too. One that is refused because others are about to end does not come back.
        const reply = await until(
          () => {
            for (let count = 0; count < 5; count++)
              holders.push(connect(server.port, '127.0.0.1').on('error', () => {}));
            return post(empty.url, { sql: 'SELECT 1' }, { user: 'nobody_at_all' });
          },
          ({ status }) => status !== 401,
        );
        t.equal(reply.status, 503, reply.text);
        t.match(reply.text, /too many connections/i);
        t.ok(reply.headers['retry-after']);
      } finally {
        for (const socket of holders) socket.destroy();
        await until(
          () =>
            server.sql('SET GLOBAL max_connections = 2500').then(
              () => true,
              () => false,
            ),
          (done) => done,
        );
      }
      await untilReady(empty.url);
      t.same((await query(empty.url, 'SELECT 1')).rows, [[1]]);
    });

    await t.test('the service stays ready when the database refuses a login', async (t) => {
      for (const credentials of [{ user: 'nobody_at_all' }, { password: 'wrong' }]) {
        const reply = await post(sluice.url, { sql: 'SELECT 1' }, credentials);
        t.equal(reply.status, 401, reply.text);
        t.match(reply.headers, { 'www-authenticate': 'Basic realm="sluice"' });
      }
      const { json } = await post(sluice.url, { sql: 'SELECT 1', ...noWait });
      for (const uri of [json.stats_uri, json.final_uri]) {
        t.equal((await get(sluice.url, uri, { password: 'wrong' })).status, 401, 'no poll without the password');
      }
      t.equal((await get(sluice.url, '/ready')).status, 200);
      t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
    });

    await t.test('a user with a changed password is refused when the cached login expires', async (t) => {
      const user = `fired_${randomBytes(4).toString('hex')}`;
      await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'before'`);
      const forgetful = await start(t, ['--mysql_url', url, '--auth_cache_secs', '1', '--worker_threads', '1']);
      const before = { user, password: 'before' };
      t.same((await query(forgetful.url, 'SELECT 1', before)).rows, [[1]]);
      await server.sql(`ALTER USER ${user}@'%' IDENTIFIED BY 'after'`);
      const reply = await until(
        () => post(forgetful.url, { sql: 'SELECT 1' }, before),
        ({ status }) => status !== 200,
      );
      t.equal(reply.status, 401);
      t.same((await query(forgetful.url, 'SELECT 1', { user, password: 'after' })).rows, [[1]]);
    });

    for (const how of ['is killed', 'is shut down'] as const) {
      const end = () => (how === 'is killed' ? server.kill() : server.terminate());

      await t.test(
        `when the database ${how}, running statements fail, sessions end, and complete results stay readable`,
        async (t) => {
          const stream = { sql: manyRows, pagination: { max_rows_per_page: 10, wait_time_secs: 30 } };
          const streaming = (await post(sluice.url, stream)).json;
          t.equal(streaming.data.length, 10);
          const done = {
            sql: "SELECT 'kept', SLEEP(0)",
            pagination: { max_rows_per_page: 1, wait_time_secs: 30 },
          };
          const finished = (await post(sluice.url, { ...done, sql: `${done.sql} UNION ALL SELECT 'too', 1` })).json;
          const settled = await until(
            async () => (await get(sluice.url, finished.stats_uri)).json,
            ({ state }) => state !== 'Running',
          );
          t.equal(settled.state, 'Succeeded');
          const kept = (await query(sluice.url, 'SET @x = 1', { body: { session: { max_idle_time: 600 } } })).last;
          // Started last, because it keeps a core busy.
          const running = (await post(sluice.url, { sql: counting, ...noWait })).json;
          await until(
            () => server.sql(`SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = '${counting}'`),
            (count) => count === '1',
          );
          const polled = get(sluice.url, running.next_uri as string);

          await end();

          const failed = await follow(sluice.url, (await polled).json);
          t.match(failed, { state: 'Failed', data: [], next_uri: null }, 'the running statement has failed');
          t.equal(failed.error?.code, 90006, `${failed.error?.code} ${failed.error?.message}`);
          const cut = await follow(sluice.url, streaming);
          t.match(
            cut,
            { state: 'Failed', error: { code: 90006 }, next_uri: null },
            'the result that was being read has failed',
          );

          const next = (await get(sluice.url, finished.next_uri as string)).json;
          t.match(next, { state: 'Succeeded', data: [['too', 1]], next_uri: null }, 'a complete result can be read');
          const again = (await get(sluice.url, finished.next_uri as string)).json;
          t.same(again.data, next.data, 'and can be read again');
          t.equal((await get(sluice.url, finished.final_uri)).status, 200);

          const orphan = (await post(sluice.url, { sql: 'SELECT @x', session: { id: kept.session_id }, ...longWait }))
            .json;
          t.match(orphan, { state: 'Failed', error: { code: 90001 } }, 'the session has ended');
          await isUnavailable(t, sluice, /cannot be reached/);

          await server.restart();
          await untilReady(sluice.url);
          t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]], 'one-off statements work again');
          const later = (await post(sluice.url, { sql: 'SELECT @x', session: { id: kept.session_id }, ...longWait }))
            .json;
          t.match(later, { state: 'Failed', error: { code: 90001 } }, 'the session is not restored');
          const fresh = (await query(sluice.url, 'SET @x = 2', { body: { session: { max_idle_time: 600 } } })).last;
          const { rows } = await query(sluice.url, 'SELECT @x', { body: { session: { id: fresh.session_id } } });
          t.same(rows, [[2]], 'a new session works');
        },
      );
    }

    await t.test('idle connections that were lost are not given to the next statements', async (t) => {
      await Promise.all(Array.from({ length: 10 }, () => query(sluice.url, 'SELECT 1')));
      await server.kill();
      await server.restart();
      const answers = await Promise.all(Array.from({ length: 20 }, () => query(sluice.url, 'SELECT 1')));
      for (const { last } of answers) t.match(last, { state: 'Succeeded', data: [[1]] });
    });

    await t.test('a connection that an operator kills fails its statement and nothing else', async (t) => {
      const victim = (await post(sluice.url, { sql: "SELECT SLEEP(600), 'victim'", ...noWait })).json;
      const other = (await post(sluice.url, { sql: "SELECT SLEEP(600), 'other'", ...noWait })).json;
      const find = `SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = "SELECT SLEEP(600), 'victim'"`;
      const id = await until(
        () => server.sql(find),
        (id) => id !== '',
      );
      await server.sql(`KILL ${id}`);
      const last = await follow(sluice.url, victim);
      t.match(last, { state: 'Failed', error: { code: 90006 } }, `${last.error?.code} ${last.error?.message}`);
      t.equal((await get(sluice.url, other.stats_uri)).json.state, 'Running');
      t.equal((await get(sluice.url, other.final_uri)).status, 200);
    });

    await t.test('requests to a paused database fail after --connect_timeout_secs', async (t) => {
      await server.pause();
      try {
        const begin = performance.now();
        const replies = await Promise.all([
          post(wary.url, { sql: 'SELECT 1' }),
          // The last readiness check may have been just before the pause.
          until(
            () => get(wary.url, '/ready'),
            ({ status }) => status !== 200,
          ),
          post(wary.url, { sql: 'SELECT 1' }, { user: 'somebody' }),
        ]);
        const tookMs = performance.now() - begin;
        for (const reply of replies) t.equal(reply.status, 503, reply.text);
        t.match(replies[0].headers, { 'retry-after': /\d/ });
        t.ok(tookMs < 10 * CONNECT_TIMEOUT_SECS * 1000, `${Math.round(tookMs)} ms`);
        t.equal((await get(wary.url, '/health')).status, 200);
      } finally {
        server.resume();
      }
      await untilReady(wary.url);
      t.same((await query(wary.url, 'SELECT 1')).rows, [[1]]);
    });

    await t.test('a statement that a paused database does not answer can be polled and cancelled', async (t) => {
      const kept = (await query(sluice.url, 'SELECT 1', { body: { session: { max_idle_time: 60 } } })).last;
      await server.pause();
      try {
        const session = { id: kept.session_id };
        const first = (await post(sluice.url, { sql: 'SELECT 1', session, ...noWait })).json;
        t.equal(first.state, 'Running');
        const polled = (await get(sluice.url, first.next_uri as string)).json;
        t.equal(polled.state, 'Running');
        t.equal((await get(sluice.url, `${first.stats_uri}/kill`)).status, 200);
        t.match((await get(sluice.url, first.stats_uri)).json, { state: 'Failed', error: { code: 90002 } });
      } finally {
        server.resume();
      }
      await untilReady(sluice.url);
      t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
    });

    await t.test('a login fails when the database becomes silent at any point of it', async (t) => {
      t.same((await query(wary.url, 'SELECT 1')).rows, [[1]], 'the connection through the proxy works');
      // Bytes of the database that are let through: none, half a greeting, the greeting, and parts of what follows.
      for (const bytes of [0, 20, 95, 100, 110, 120, 130, 140]) {
        proxy.silenceAfter(bytes);
        const begin = performance.now();
        const reply = await post(wary.url, { sql: 'SELECT 1' }, { user: 'root' });
        const tookMs = Math.round(performance.now() - begin);
        t.equal(reply.status, 503, `${bytes} bytes: ${reply.text}`);
        t.ok(tookMs < 10 * CONNECT_TIMEOUT_SECS * 1000, `${bytes} bytes: ${tookMs} ms`);
      }
      proxy.silenceAfter(Number.POSITIVE_INFINITY);
      await untilReady(wary.url);
      t.same((await query(wary.url, 'SELECT 1')).rows, [[1]]);
    });

    await t.test('a database that speaks another protocol is unavailable', async (t) => {
      const strange = await listen(t, (socket) => {
        socket.on('error', () => {});
        socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nthis is no database, whatever you think');
      });
      const stranger = await start(t, ['--mysql_url', `mysql://root@127.0.0.1:${strange}/`, '--worker_threads', '1']);
      await isUnavailable(t, stranger, /./);
      t.equal((await get(stranger.url, '/health')).status, 200);
    });

    await t.test('a statement that is too long for the database fails, and later statements succeed', async (t) => {
      const { last } = await query(sluice.url, `SELECT LENGTH('${'x'.repeat(6 * MIB)}')`);
      t.equal(last.state, 'Failed');
      // The database sends an error before it closes the connection, but the close may be noticed first.
      t.ok([1153, 90006].includes(last.error?.code ?? 0), `${last.error?.code} ${last.error?.message}`);
      t.same((await query(sluice.url, `SELECT LENGTH('${'x'.repeat(3 * MIB)}')`)).rows, [[3 * MIB]]);
    });

    await t.test('clients that disconnect at any moment leave nothing behind', { timeout: 540_000 }, async (t) => {
      const user = `gone_${randomBytes(4).toString('hex')}`;
      await server.sql(`CREATE USER ${user}@'%'`);
      const sluice = await start(t, [
        '--mysql_url',
        url,
        '--connections_max',
        '16',
        '--connection_idle_secs',
        '1',
        '--result_timeout_secs',
        '2',
        // The results of the clients may fill every buffer, and used memory is not returned to the system at once.
        '--query_buffer_bytes_max',
        `${2 * MIB}`,
        '--page_bytes_max',
        `${MIB}`,
      ]);
      await query(sluice.url, 'SELECT 1', { user });
      const random = seeded(t);
      const crowd = async (clients: number): Promise<void> => {
        for (let done = 0; done < clients; done += 10) {
          await Promise.all(Array.from({ length: 10 }, () => vanish(sluice, user, random)));
        }
      };
      const fdsBefore = sluice.descriptors();
      await crowd(FIRST_CLIENTS);
      const memoryBefore = sluice.memoryBytes();
      await crowd(LATER_CLIENTS);
      const rest = await until(
        () =>
          server.sql(
            `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${user}' AND COMMAND <> 'Sleep'`,
          ),
        (count) => count === '0',
      );
      t.equal(rest, '0', 'none of their statements runs after the unpolled results have expired');
      await until(
        () => server.sql(`SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${user}'`),
        (count) => count === '0',
      );
      const fds = await until(
        () => sluice.descriptors(),
        (count) => count <= fdsBefore + 4,
      );
      t.ok(fds <= fdsBefore + 4, `${fdsBefore} descriptors before, ${fds} after`);
      const grownMib = (sluice.memoryBytes() - memoryBefore) / MIB;
      t.comment(`memory has grown by ${grownMib.toFixed(1)} MiB`);
      t.ok(grownMib < 100, `memory has grown by ${grownMib.toFixed(1)} MiB`);
      t.same((await query(sluice.url, 'SELECT 1', { user })).rows, [[1]]);
      t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
    });
  });
}

async function start(t: Test, args: readonly string[]): Promise<SluiceProcess> {
  const common = ['--connect_timeout_secs', `${CONNECT_TIMEOUT_SECS}`, '--drain_secs', '0'];
  const threads = args.includes('--worker_threads') ? [] : ['--worker_threads', '2'];
  const sluice = await startSluice([...common, ...threads, ...args]);
  t.teardown(() => sluice.kill());
  return sluice;
}

async function isUnavailable(t: Test, sluice: SluiceProcess, reason: RegExp): Promise<void> {
  const ready = await until(
    () => get(sluice.url, '/ready'),
    ({ status }) => status !== 200,
  );
  t.equal(ready.status, 503);
  t.match(ready.text, reason, 'readiness gives the reason');
  const reply = await post(sluice.url, { sql: 'SELECT 1' });
  t.equal(reply.status, 503, reply.text);
  t.match(reply.text, reason);
  t.notMatch(reply.text, /\n|at \S+:\d+:\d+/, 'in one line');
  t.match(reply.headers, { 'retry-after': /^\d+$/ });
}

/** Sends a part of a request or all of it, reads a part of the answer or none, and disconnects. */
async function vanish(sluice: SluiceProcess, user: string, random: Random): Promise<void> {
  const statements = ['SELECT SLEEP(600)', 'SELECT 1', manyRows, `SELECT REPEAT('x', ${3 * MIB})`, 'nonsense'];
  const sql = pick(random, statements);
  const body = JSON.stringify({ sql, pagination: { wait_time_secs: random(3), max_rows_per_page: 1 + random(5000) } });
  const headers = {
    'Content-Type': 'application/json',
    Authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}`,
  };
  const whole = requestText('POST /v1/query HTTP/1.1', headers, body);
  const sent = random(4) === 0 ? whole.subarray(0, random(whole.length)) : whole;
  const socket = connectTo(sluice.url);
  socket.on('error', () => {});
  await new Promise<void>((resolve) => {
    socket.once('close', () => resolve());
    const leave = (): void => {
      if (random(2) === 0) socket.destroy();
      else socket.resetAndDestroy();
    };
    socket.write(sent, () => {
      // Disconnects at a random moment, or at the first bytes of the answer if they come first.
      if (random(2) === 0) socket.once('data', leave);
      setTimeout(leave, random(60));
    });
  });
}
