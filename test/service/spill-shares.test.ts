import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { metric } from '../support/metrics.ts';
import { connectTo } from '../support/raw-http.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { get, post, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const noWait = { pagination: { wait_time_secs: 0 }, result_timeout_secs: 600 };
const [server] = (await sharedServers()) as [DatabaseServer];

function rowsOf4KiB(count: number): string {
  return `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    SELECT i, REPEAT('x', 4096) FROM n`;
}

const limited = spawnSync('prlimit', ['--version']).status === 0;

async function start(t: Test, args: string[], command: string[] = []): Promise<SluiceProcess> {
  const small = ['--query_buffer_bytes_max', '65536', '--page_bytes_max', '65536', '--spill_wait_ms', '0'];
  const sluice = await startSluice(
    ['--mysql_url', server.url, '--worker_threads', '2', ...small, ...args],
    {},
    command,
  );
  t.teardown(() => sluice.stop());
  return sluice;
}

async function users(t: Test, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, () => `spiller_${randomBytes(4).toString('hex')}`);
  for (const name of names) {
    await server.sql(`CREATE USER ${name}@'%'`);
    t.teardown(() => server.sql(`DROP USER ${name}`));
  }
  return names;
}

/** Starts a statement whose result nobody reads. @returns its state */
async function leaveUnread(sluice: SluiceProcess, user: string, sql: string): Promise<() => Promise<string>> {
  const { json } = await post(sluice.url, { sql, ...noWait }, { user });
  return async () => (await get(sluice.url, json.stats_uri, { user })).json.state;
}

t.test('the unread results of one user leave disk space for those of others', async (t) => {
  const sluice = await start(t, ['--spill_total_bytes_max', `${8 * MIB}`]);
  const [greedy, modest] = (await users(t, 2)) as [string, string];
  const states = await Promise.all([1, 2, 3, 4].map(() => leaveUnread(sluice, greedy, rowsOf4KiB(900))));
  await until(async () => (await metric(sluice, 'sluice_spilled_bytes')) > 5.5 * MIB);
  const state = await leaveUnread(sluice, modest, rowsOf4KiB(400));
  await until(state, (reached) => reached === 'Succeeded');
  t.ok((await metric(sluice, 'sluice_spilled_bytes')) <= 8 * MIB);
  const reached = await Promise.all(states.map((state) => state()));
  t.ok(reached.includes('Running'), 'statements of the user whose share is used up wait for their reader');
});

t.test('--spill_bytes_per_user_max limits the rows of one user on disk', async (t) => {
  const sluice = await start(t, ['--spill_bytes_per_user_max', `${2 * MIB}`]);
  const [user, other] = (await users(t, 2)) as [string, string];
  await Promise.all([1, 2, 3].map(() => leaveUnread(sluice, user, rowsOf4KiB(900))));
  const spilled = await until(
    () => metric(sluice, 'sluice_spilled_bytes'),
    (bytes) => bytes > 1.5 * MIB,
  );
  t.ok(spilled <= 2 * MIB, `${spilled} bytes`);
  const state = await leaveUnread(sluice, other, rowsOf4KiB(400));
  await until(state, (reached) => reached === 'Succeeded');
  t.ok((await metric(sluice, 'sluice_spilled_bytes')) <= 4 * MIB);
});

t.test('the unread results of one user leave files for those of others', async (t) => {
  const sluice = await start(t, ['--spill_files_max', '4']);
  const [greedy, modest] = (await users(t, 2)) as [string, string];
  for (let count = 0; count < 6; count++) await leaveUnread(sluice, greedy, rowsOf4KiB(900));
  await until(async () => (await metric(sluice, 'sluice_spill_files')) === 3);
  const state = await leaveUnread(sluice, modest, rowsOf4KiB(900));
  await until(state, (reached) => reached === 'Succeeded');
  await until(async () => (await metric(sluice, 'sluice_spill_files')) === 4);
  t.equal(await metric(sluice, 'sluice_spill_files_limit'), 4);
});

t.test(
  'unread results, statements and HTTP connections together leave descriptors for others',
  { skip: !limited && 'there is no prlimit' },
  async (t) => {
    const limits = ['--connections_max', '20', '--logins_max', '4', '--log_level', 'debug'];
    const sluice = await start(t, limits, ['prlimit', '--nofile=400:400']);
    const [greedy, modest] = (await users(t, 2)) as [string, string];
    // Of 400 descriptors, half are for the process, and 24 for connections to the database. Of the rest, a quarter is for files.
    await until(() => /leaves room for 44 files/.test(sluice.log()));
    t.match(sluice.log(), /leaves room for 132 HTTP connections/);
    for (let count = 0; count < 60; count++) await leaveUnread(sluice, greedy, rowsOf4KiB(900));
    await until(async () => (await metric(sluice, 'sluice_spill_files')) === 33);
    const sockets = Array.from({ length: 131 }, () => connectTo(sluice.url).on('error', () => {}));
    t.teardown(() => {
      for (const socket of sockets) socket.destroy();
    });
    await until(async () => (await metric(sluice, 'sluice_http_connections')) >= 130);
    const state = await leaveUnread(sluice, modest, rowsOf4KiB(900));
    await until(state, (reached) => reached === 'Succeeded');
    t.ok(sluice.descriptors() < 400, `${sluice.descriptors()} descriptors`);
    t.notMatch(sluice.log(), /descriptors_exhausted|out_of_descriptors/);
  },
);
