import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { exchange, requestText } from '../support/raw-http.ts';
import { isInstalled, sharedServers, startServer } from '../support/servers.ts';
import { get, post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

function unique(): string {
  return `secrets_${process.pid}_${Math.random().toString(36).slice(2, 8)}`;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

function basic(pair: string): Record<string, string> {
  return { Authorization: `Basic ${base64(pair)}` };
}

async function start(t: Pick<Test, 'teardown'>, args: readonly string[], environment: Record<string, string> = {}) {
  const sluice = await startSluice([...args, '--drain_secs', '0', '--worker_threads', '1'], environment);
  t.teardown(() => sluice.stop());
  return sluice;
}

async function statusOf(sluice: SluiceProcess, sql: string, user: string, password: string): Promise<number> {
  return (await post(sluice.url, { sql }, { user, password })).status;
}

for (const server of await sharedServers()) {
  const { kind } = server;
  const snapshots = await mkdtemp(join(tmpdir(), 'heap-'));
  t.teardown(() => rm(snapshots, { recursive: true, force: true }));
  /** Logs everything except statements, and writes a heap snapshot on SIGUSR2. */
  const quiet = await start(
    t,
    ['--mysql_url', server.url, '--auth_cache_secs', '1', '--connection_idle_secs', '1', '--log_level', 'trace'],
    { NODE_OPTIONS: `--heapsnapshot-signal=SIGUSR2 --diagnostic-dir=${snapshots}` },
  );

  t.test(`${kind}: the log has statements only with --log_sql`, async (t) => {
    const withSql = await start(t, ['--mysql_url', server.url, '--log_sql']);
    for (const sluice of [quiet, withSql]) {
      await query(sluice.url, "SELECT 'marker_rows'");
      await query(sluice.url, 'SELECT marker_syntax FROM');
      await query(sluice.url, 'SELECT * FROM mysql.marker_table');
      await query(sluice.url, "SELECT 'marker_session'", { body: { session: { max_idle_time: 60 } } });
      const body = { sql: "SELECT SLEEP(100), 'marker_long'", pagination: { wait_time_secs: 0 } };
      const long = (await post(sluice.url, body)).json;
      t.match(await post(sluice.url, '{"sql": SELECT marker_body'), { status: 400 });
      t.match(await post(sluice.url, { sql: 1, marker_member: 'SELECT' }), { status: 400 });
      await server.sql(
        `KILL ${await until(
          () =>
            server.sql(
              "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' AND INFO LIKE 'SELECT SLEEP%marker_long%' LIMIT 1",
            ),
          (id) => id !== '',
        )}`,
      );
      await until(
        () => get(sluice.url, long.stats_uri),
        ({ json }) => json.state === 'Failed',
      );
    }
    // Log lines are written after the answers are sent.
    for (const sluice of [quiet, withSql]) {
      await until(
        () => sluice.log(),
        (log) => log.split('"query_settled"').length > 5 && log.includes('connection_lost'),
      );
    }
    t.notMatch(quiet.log(), /marker|SELECT/i, 'the log has no statement');
    const lines = withSql
      .log()
      .split('\n')
      .filter((line) => line.includes('query_settled'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    t.match(lines, [
      { level: 30, user: 'root', sql: "SELECT 'marker_rows'" },
      { level: 30, user: 'root', sql: 'SELECT marker_syntax FROM' },
      { sql: 'SELECT * FROM mysql.marker_table' },
      { sql: "SELECT 'marker_session'" },
      { sql: "SELECT SLEEP(100), 'marker_long'" },
    ]);
    t.equal(withSql.log().match(/marker_rows/g)?.length, 1);
  });

  const needsOwn = { skip: !isInstalled(kind), timeout: 540_000 };
  t.test(`${kind}: no answer, log line or process list contains a password`, needsOwn, async (t) => {
    const own = await startServer(kind);
    t.teardown(() => own.stop());
    const [operator, login, wrong, anonymous] = ['0p3rator', 'l0g1n', 'wr0ng', 'an0nymous'].map(
      (word) => `${word}-${unique()}`,
    ) as [string, string, string, string];
    await own.sql(
      `CREATE USER op@'%' IDENTIFIED BY '${operator}'; CREATE USER ann@'%' IDENTIFIED BY '${login}';` +
        `CREATE USER any@'%' IDENTIFIED BY '${anonymous}'; CREATE USER few@'%' IDENTIFIED BY '${login}' WITH MAX_USER_CONNECTIONS 1;` +
        `CREATE USER taken@'%' IDENTIFIED BY '${login}' WITH MAX_USER_CONNECTIONS 1`,
    );
    const sluice = await start(t, [
      ...['--mysql_url', `mysql://op:${operator}@127.0.0.1:${own.port}/`, '--log_level', 'trace'],
      ...['--anonymous_user', 'any', '--anonymous_password', anonymous, '--connect_timeout_secs', '1'],
      ...['--auth_failures_max', '3', '--auth_cache_secs', '1', '--log_sql'],
    ]);
    const commandLine = await readFile(`/proc/${sluice.pid}/cmdline`, 'utf8');
    t.match(commandLine, /^sluice\0*$/, 'the process list does not show the flags');

    const received: string[] = [];
    const record = async (reply: Promise<{ status: number; text: string; headers: unknown }>): Promise<number> => {
      const { status, text, headers } = await reply;
      received.push(text, JSON.stringify(headers));
      return status;
    };
    const body = { sql: 'SELECT 1' };
    const ask = (user: string, password: string, sent: unknown = body): Promise<number> =>
      record(post(sluice.url, sent, { user, password }));
    t.equal(await ask('ann', login), 200);
    t.equal(await record(post(sluice.url, body, { headers: { authorization: undefined } })), 200);
    t.equal(await ask('ann', login, { sql: 'SELECT nonsense' }), 200);
    t.equal(await ask('ann', login, { sql: 'SELECT 1', session: { database: 'nowhere' } }), 200);
    t.equal(await ask('ann', login, '{'), 400);
    t.equal(await ask('ann', login, { sql: 'SELECT 1', session: { id: 'none' } }), 200);
    t.equal(await record(get(sluice.url, '/v1/query/none', { user: 'ann', password: login })), 404);
    t.equal(await record(get(sluice.url, '/nothing', { user: 'ann', password: login })), 404);
    for (const expected of [401, 401, 401, 429]) t.equal(await ask('ann', `${wrong}${received.length}`), expected);
    const authorization = `Bearer ${base64(`ann:${login}`)}`;
    t.equal(await record(post(sluice.url, body, { headers: { authorization } })), 401);
    t.equal(await record(post(sluice.url, body, { headers: { authorization: `Basic ann:${login}` } })), 401);
    const kept = { sql: 'SELECT 1', session: { max_idle_time: 60 } };
    t.equal(await ask('few', login, kept), 200);
    t.equal(await ask('few', login), 200, 'a statement waits while its user has no free connection');
    const taken = own.sql('SELECT SLEEP(600)', { user: 'taken', password: login }).catch(() => {});
    await until(
      () => own.sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'taken' AND INFO LIKE '%SLEEP%'"),
      (count) => count === '1',
    );
    t.equal(await ask('taken', login), 503, 'a login fails while its user has no free connection');
    for (const text of [
      requestText('GET /% HTTP/1.1', basic(`ann:${login}`)),
      requestText('GET /health HTTP/9', basic(`ann:${login}`)),
      requestText('GET /health HTTP/1.1', { ...basic(`ann:${login}`), 'X-Long': 'x'.repeat(20_000) }),
      requestText('GET /health HTTP/1.1', { ...basic(`ann:${login}`), Expect: 'more' }),
    ]) {
      received.push((await exchange(sluice.url, text)).text);
    }
    await own.terminate();
    await taken;
    await until(
      () => ask('ann', login),
      (status) => status === 503,
    );
    t.equal(await record(get(sluice.url, '/ready')), 503);
    await sluice.stop();

    t.ok(received.length > 30);
    const output = [...received, sluice.log(), sluice.output()].join('\n');
    t.match(output, /Access denied/);
    t.match(output, /user_blocked/);
    for (const password of [operator, login, wrong, anonymous]) {
      t.notOk(output.includes(password), password);
      for (const user of ['op', 'ann', 'any', 'few']) {
        // The last characters depend on what follows.
        t.notOk(output.includes(base64(`${user}:${password}`).slice(0, -4)), `${user}:${password} in base64`);
      }
    }
  });

  t.test(`${kind}: a password is not kept in memory longer than necessary`, { timeout: 540_000 }, async (t) => {
    const sluice = quiet;
    const user = unique();
    const password = `k3pt-${unique()}-${unique()}`;
    await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY '${password}'`);
    t.teardown(() => server.sql(`DROP USER ${user}`));
    t.equal(await statusOf(sluice, 'SELECT 1', user, password), 200);
    t.equal(await statusOf(sluice, 'SELECT 1', user, `${password}!`), 401);
    const body = { session: { max_idle_time: 60 } };
    const { last } = await query(sluice.url, 'SELECT 1', { user, password, body });
    const long = { sql: 'SELECT SLEEP(30)', pagination: { wait_time_secs: 0 } };
    t.equal((await post(sluice.url, long, { user, password })).json.state, 'Running');
    const another = { sql: 'SELECT 2', session: { id: last.session_id }, pagination: { wait_time_secs: 30 } };
    t.match((await post(sluice.url, another, { user, password })).json, { data: [[2]] });
    // Idle connections are closed and the cached login has expired. The session and the running statement still exist.
    await delay(2_500);
    sluice.child.kill('SIGUSR2');
    const snapshot = await until(
      async () => {
        const [name] = await readdir(snapshots);
        return name === undefined ? '' : await readFile(join(snapshots, name), 'latin1');
      },
      // The snapshot is written in parts.
      (text) => text.trimEnd().endsWith(']}'),
    );
    t.ok(snapshot.includes(user), 'the snapshot contains the user');
    t.notOk(snapshot.includes(password), 'the snapshot does not contain the password');
    const encoded = base64(`${user}:${password}`);
    t.notOk(snapshot.includes(encoded.slice(0, -4)), 'the snapshot does not contain the password in base64');
  });
}
