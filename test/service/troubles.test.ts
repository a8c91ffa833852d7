import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import { metric } from '../support/metrics.ts';
import { startProxy } from '../support/proxy.ts';
import { connectTo } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

// Most of the time is spent waiting.
t.jobs = 4;

/** One thread fewer to start, for tests that do not depend on the number of threads. */
const oneThread = ['--worker_threads', '1'];

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly trouble?: string;
  readonly reason?: string;
  readonly failures?: number;
}

/** The log lines about the trouble of that name. */
function linesOf(sluice: SluiceProcess, trouble: string): Line[] {
  const lines = sluice.log().split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Line).filter((line) => line.trouble === trouble);
}

function ended(sluice: SluiceProcess, trouble: string): Promise<Line | undefined> {
  return until(
    () => linesOf(sluice, trouble).find(({ msg }) => msg === 'trouble_ended'),
    (line) => line !== undefined,
  );
}

for (const server of await sharedServers()) {
  const user = `trouble_${randomBytes(4).toString('hex')}`;
  const at = new URL(server.url);
  const urlOf = (login: string, schema = ''): string => `mysql://${login}@${at.hostname}:${at.port}/${schema}`;

  t.test(
    `D2: ${server.kind}: a wrong password in --mysql_url is logged at the start, and /ready says so`,
    async (t) => {
      await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'right-pw'`);
      t.teardown(() => server.sql(`DROP USER ${user}`));
      const sluice = await startSluice([...oneThread, '--mysql_url', urlOf(`${user}:wrong-pw`)]);
      t.teardown(() => sluice.stop());
      // Before the first request.
      await until(() => linesOf(sluice, 'database_login_refused').length > 0);
      const reason = /the database refuses the user and password of --mysql_url: Access denied/;
      t.match(linesOf(sluice, 'database_login_refused'), [{ level: 50, msg: 'trouble_began', reason }]);
      t.match(await get(sluice.url, '/ready'), { status: 503, text: reason });
      t.match(await query(sluice.url, 'SELECT 1'), { rows: [[1]] }, 'statements of other users run');
      t.equal(linesOf(sluice, 'database_login_refused').length, 1, 'one line for all failures');
      t.notMatch(sluice.log(), /wrong-pw/);
      t.ok((await metric(sluice, 'sluice_troubles_total{event="database_login_refused"}')) >= 1);

      await server.sql(`ALTER USER ${user}@'%' IDENTIFIED BY 'wrong-pw'`);
      t.match(await ended(sluice, 'database_login_refused'), { level: 30 });
      t.equal((await get(sluice.url, '/ready')).status, 200);
    },
  );

  t.test(
    `D2: ${server.kind}: an unknown schema in --mysql_url is logged at the start, and /ready says so`,
    async (t) => {
      const sluice = await startSluice([...oneThread, '--mysql_url', urlOf('root', 'no_such_schema')]);
      t.teardown(() => sluice.stop());
      await until(() => linesOf(sluice, 'database_login_refused').length > 0);
      const reason = /the database refuses the schema of --mysql_url: Unknown database 'no_such_schema'/;
      t.match(linesOf(sluice, 'database_login_refused'), [{ level: 50, reason }]);
      t.match(await get(sluice.url, '/ready'), { status: 503, text: reason });
    },
  );
}

const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no database to test with');

t.test('D2: an unknown host in --mysql_url is logged at the start, and /ready says so', async (t) => {
  const sluice = await startSluice([...oneThread, '--mysql_url', 'mysql://root@database.invalid:3306']);
  t.teardown(() => sluice.stop());
  await until(() => linesOf(sluice, 'database_unavailable').length > 0);
  const reason = /the database cannot be reached: .*database\.invalid/;
  t.match(linesOf(sluice, 'database_unavailable'), [{ level: 50, msg: 'trouble_began', reason }]);
  t.match(await get(sluice.url, '/ready'), { status: 503, text: reason });
});

t.test('D2: without a user in --mysql_url, /ready says whether the database answers', async (t) => {
  const at = new URL(server.url);
  const sluice = await startSluice([...oneThread, '--mysql_url', `mysql://${at.host}`]);
  t.teardown(() => sluice.stop());
  t.equal((await get(sluice.url, '/ready')).status, 200);
  t.notMatch(sluice.log(), /trouble_began/);
});

t.test('D2: an unreachable database is logged once when the trouble begins and once when it ends', async (t) => {
  let isCut = false;
  const proxy = await startProxy(t, Number(new URL(server.url).port), { cutAfter: () => (isCut ? 1 : Infinity) });
  const sluice = await startSluice([
    ...oneThread,
    '--mysql_url',
    `mysql://root@127.0.0.1:${proxy.port}`,
    '--auth_cache_secs',
    '0',
  ]);
  t.teardown(() => sluice.stop());
  await query(sluice.url, 'SELECT 1');
  t.strictSame(linesOf(sluice, 'database_unavailable'), []);
  isCut = true;
  proxy.resetAll();
  const statuses = await Promise.all(
    Array.from({ length: 20 }, () => post(sluice.url, { sql: 'SELECT 1' }).then(({ status }) => status)),
  );
  t.ok(statuses.includes(503));
  await until(() => linesOf(sluice, 'database_unavailable').length > 0);
  for (let count = 0; count < 5; count++) await post(sluice.url, { sql: 'SELECT 1' });
  t.match(linesOf(sluice, 'database_unavailable'), [
    { level: 50, msg: 'trouble_began', reason: /cannot be reached|lost/ },
  ]);
  t.ok((await metric(sluice, 'sluice_troubles_total{event="connect_failed"}')) >= 5);
  t.equal(await metric(sluice, 'sluice_database_up'), 0);
  isCut = false;
  // Without requests: the server detects it by itself.
  const last = await ended(sluice, 'database_unavailable');
  t.ok((last?.failures ?? 0) >= 5, `${last?.failures} failures`);
  t.equal(linesOf(sluice, 'database_unavailable').length, 2);
  await until(async () => (await metric(sluice, 'sluice_database_up')) === 1);
});

t.test('D2: failed logins are logged once when they begin, and counted', async (t) => {
  const user = `trouble_${randomBytes(4).toString('hex')}`;
  await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'right-pw'`);
  t.teardown(() => server.sql(`DROP USER ${user}`));
  const sluice = await startSluice([...oneThread, '--mysql_url', server.url, '--auth_failures_max', '5']);
  t.teardown(() => sluice.stop());
  for (let count = 0; count < 8; count++)
    await post(sluice.url, { sql: 'SELECT 1' }, { user, password: `guess${count}` });
  t.match(linesOf(sluice, 'logins_failing'), [{ level: 40, msg: 'trouble_began', reason: /Access denied/ }]);
  t.equal(await metric(sluice, 'sluice_failed_logins_total{reason="denied"}'), 5);
  t.equal(await metric(sluice, 'sluice_failed_logins_total{reason="blocked"}'), 3);
});

t.test('D2: reaching --http_connections_max is logged once when it begins and once when it ends', async (t) => {
  const sluice = await startSluice([...oneThread, '--mysql_url', server.url, '--http_connections_max', '3']);
  t.teardown(() => sluice.stop());
  await holdConnections(sluice, 10, () => linesOf(sluice, 'http_connections_full').length > 0);
  const [first] = linesOf(sluice, 'http_connections_full');
  t.match(first, { level: 50, msg: 'trouble_began', reason: /--http_connections_max/ });
  t.match(await ended(sluice, 'http_connections_full'), { level: 30 });
});

const prlimit = spawnSync('prlimit', ['--version']).status === 0;
t.test(
  'D2: a lack of file descriptors is logged once when it begins and once when it ends',
  { skip: !prlimit && 'there is no prlimit' },
  async (t) => {
    const sluice = await startSluice([...oneThread, '--mysql_url', server.url, '--auth_cache_secs', '0']);
    t.teardown(() => sluice.stop());
    await query(sluice.url, 'SELECT 1');
    const limit = (count: number): void => {
      spawnSync('prlimit', ['--pid', `${sluice.pid}`, `--nofile=${count}:`]);
    };
    limit(sluice.descriptors() + 3);
    await holdConnections(sluice, 20, () => linesOf(sluice, 'out_of_descriptors').length > 0);
    const lines = linesOf(sluice, 'out_of_descriptors');
    t.match(lines[0], { level: 50, msg: 'trouble_began', reason: /EMFILE/ });
    t.ok(lines.length <= 2, 'not a line for each connection');
    t.notMatch(sluice.log(), /"msg":"accept_failed"/);
    limit(1_000);
    t.match(await ended(sluice, 'out_of_descriptors'), { level: 30 });
    t.match(await query(sluice.url, 'SELECT 1'), { rows: [[1]] });
  },
);

t.test(
  'clients that open any number of connections leave descriptors for connections to the database',
  { skip: !prlimit && 'there is no prlimit' },
  async (t) => {
    const args = [
      ...oneThread,
      '--mysql_url',
      server.url,
      '--connections_max',
      '20',
      '--logins_max',
      '4',
      '--spill_files_max',
      '20',
    ];
    const sluice = await startSluice(args, {}, ['prlimit', '--nofile=600:600']);
    t.teardown(() => sluice.stop());
    await until(() => /"reason":"[^"]*leaves room for 300 HTTP connections/.test(sluice.log()));
    // The HTTP connection of this request is kept alive.
    await query(sluice.url, 'SELECT 1');
    await holdConnections(
      sluice,
      700,
      () => linesOf(sluice, 'http_connections_full').length > 0,
      async () => {
        for (let session = 0; session < 10; session++) {
          const body = { session: { max_idle_time: 60 } };
          t.match(await query(sluice.url, 'SELECT 1', { body }), { rows: [[1]] });
        }
        t.match((await get(sluice.url, '/metrics')).text, /^sluice_http_connections_limit 300$/m);
      },
    );
    t.strictSame(linesOf(sluice, 'out_of_descriptors'), []);
  },
);

/** Opens so many connections, and closes them when the condition holds and `meanwhile` has ended. */
async function holdConnections(
  sluice: SluiceProcess,
  count: number,
  condition: () => boolean,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  const sockets = new Set<Socket>();
  const openOne = async (): Promise<void> => {
    const socket = connectTo(sluice.url).on('error', () => {});
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  };
  for (let index = 0; index < count; index++) await openOne();
  // On a busy machine some connections may be closed before the others are opened.
  await until(async () => {
    if (sockets.size < count) await openOne();
    return condition();
  });
  await meanwhile();
  for (const socket of sockets) socket.destroy();
}
