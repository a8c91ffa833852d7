import t, { type Test } from 'tap';
import { AdminPool } from '#src/worker/admin-pool.js';
import { Connection } from '#src/worker/connection.js';
import type { ConnectOptions } from '#src/worker/driver.js';
import { sweepOrphans } from '#src/worker/orphans.js';
import { isListed, processList } from '#src/worker/process-list.js';
import { type DatabaseServer, isInstalled, sharedServers, startServer } from '../support/servers.ts';
import { until } from '../support/until.ts';

t.setTimeout(120_000);

const MiB = 1024 * 1024;

async function testsOf(t: Test, server: DatabaseServer): Promise<void> {
  const user = `emoji_${server.pid}`;
  await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'secret'`);
  t.teardown(() => server.sql(`DROP USER ${user}`).catch(() => {}));
  const address = { socketPath: server.socketPath };
  const options: ConnectOptions = { address, user, password: 'secret', timeoutMs: 10_000, rowBytesMax: MiB };
  const [busy, idle] = [await Connection.open(options), await Connection.open(options)];
  const pool = AdminPool.of(new Map(), options);
  t.teardown(() => {
    for (const connection of [busy, idle]) connection.destroy();
    pool.close();
  });
  const emoji = busy.query("SELECT '😀', SLEEP(600)");
  emoji.catch(() => {});
  const stateOf = async (id: number) => (await processList(pool, [busy.id, idle.id], 5_000))?.get(id);
  await until(async () => (await stateOf(busy.id))?.command !== 'Sleep');

  t.match(await stateOf(idle.id), { command: 'Sleep' });
  t.ok(await isListed(idle, busy.id));
  t.ok(await isListed(idle, idle.id));
  t.notOk(await isListed(idle, 2 ** 31 - 1));
  const orphan = { id: busy.id, user, openedMs: 0, lostMs: 0 };
  t.same(await sweepOrphans(pool, [orphan]), { left: [], ended: 1 });
  await t.rejects(emoji);
}

for (const server of await sharedServers()) {
  t.test(`${server.kind}: the process list is read while a statement in it has an emoji`, (t) => testsOf(t, server));
}

t.test('mysql: the process list is read without the performance schema', { skip: !isInstalled('mysql') }, async (t) => {
  const server = await startServer('mysql', ['--performance-schema=OFF']);
  t.teardown(() => server.stop());
  const address = { socketPath: server.socketPath };
  const connection = await Connection.open({
    address,
    user: 'root',
    password: '',
    timeoutMs: 10_000,
    rowBytesMax: MiB,
  });
  t.teardown(() => connection.destroy());
  t.ok(await isListed(connection, connection.id));
  t.notOk(await isListed(connection, 2 ** 31 - 1));
});
