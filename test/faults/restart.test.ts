import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, isLong, measured } from '../support/form.ts';
import { type DatabaseKind, isInstalled, type PrivateServer, startServer } from '../support/servers.ts';
import { get, post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * A server that is killed while it has statements in the database. A database that counts, sleeps or waits for a lock does not
 * detect that its client disconnected. The next server ends these statements, and only those that are provably its own.
 */

// Both servers share the machine with other processes.
t.setTimeout(540_000);

/** Ten times the promised time, because the machine may be busy. The measured time is printed. */
const readyMsMax = 20_000;
const goneMsMax = 10_000;
/** Rows that nobody reads stay in the database, so that it is not busy with them until the test ends. */
const noSpill = ['--spill_bytes_max', '0'];
const noWait = { pagination: { wait_time_secs: 0 } };
const users = ['anna', 'bert'];
const statements = 50;
/** Of these statements, this many count. */
const counting = figure(1, 2);
const kinds = ['mariadb', 'mysql'] satisfies DatabaseKind[];

/** A database, and the service that uses it. A test that kills the service starts the next one for the test that follows. */
interface Place {
  readonly server: PrivateServer;
  readonly url: string;
  readonly dataDir: string;
  sluice: SluiceProcess;
}

const places = new Map<DatabaseKind, Place>();

for (const kind of kinds) {
  const options = { skip: !isInstalled(kind), timeout: 540_000 };
  t.test(`${kind}: the next server ends the statements of a killed server`, options, async (child) => {
    const server = await startDatabase(t, kind);
    const dataDir = folder(t);
    const url = `mysql://root@127.0.0.1:${server.port}/`;
    const sluice = await start(t, dataDir, url);
    await runAll(sluice, server);
    const foreign = server.sql("SELECT SLEEP(500), 'foreign'", { user: 'anna' });
    foreign.catch(() => {});
    await until(async () => (await countOf(server, '%foreign%')) === 1);
    await sluice.kill();
    child.equal(journals(dataDir).length, 1, 'it leaves a journal');
    child.ok((await countOf(server)) > statements / 2, 'the statements still run');

    const begun = performance.now();
    const next = await start(t, dataDir, url);
    const listensMs = Math.round(performance.now() - begun);
    child.ok(listensMs < readyMsMax, `it listens after ${listensMs} ms`);
    await until(async () => (await get(next.url, '/ready')).status === 200);
    const readyMs = Math.round(performance.now() - begun);
    child.ok(readyMs < readyMsMax, `it is ready after ${readyMs} ms`);
    await until(async () => (await countOf(server)) === 0);
    const goneMs = Math.round(performance.now() - begun);
    child.ok(goneMs < goneMsMax, `the statements are gone after ${goneMs} ms`);
    measured(
      child,
      `${statements} statements: listening ${listensMs} ms after the start, ready ${readyMs} ms, all gone ${goneMs} ms`,
    );
    child.equal(await countOf(server, '%foreign%'), 1, 'statements of other clients are not affected');
    await until(async () => journals(dataDir).length === 1);
    await server.sql(`KILL ${await idOf(server, '%foreign%')}`);
    child.same((await query(next.url, 'SELECT 1')).rows, [[1]]);
    places.set(kind, { server, url, dataDir, sluice: next });
  });
}

// Most of the time is spent waiting, so both databases are tested concurrently.
t.jobs = 2;

for (const kind of kinds) {
  t.test(kind, { skip: !isInstalled(kind), timeout: 540_000 }, async (t) => {
    const place = places.get(kind);
    if (place === undefined) throw new Error('the previous test left no place');
    const { server } = place;
    /** Tests of files alone: in the short form they run on one of the databases. */
    const isTried = (chosen: DatabaseKind): boolean => isLong || kind === chosen || !isInstalled(chosen);

    await t.test('if the server lacks the privilege, statements are ended when their users return', async (t) => {
      const dataDir = folder(t);
      const url = `mysql://127.0.0.1:${server.port}/`;
      const sluice = await start(t, dataDir, url);
      for (const user of users) {
        for (let n = 0; n < 3; n++) await post(sluice.url, { sql: 'SELECT SLEEP(600), 1', ...noWait }, { user });
      }
      await until(async () => (await countOf(server)) === 6);
      await sluice.kill();
      const next = await start(t, dataDir, url);
      for (const [index, user] of users.entries()) {
        t.equal(await countOf(server), 6 - 3 * index);
        t.same((await query(next.url, 'SELECT 1', { user })).rows, [[1]]);
        await until(async () => (await countOf(server)) === 3 - 3 * index);
      }
      await until(async () => journals(dataDir).length === 1);
    });

    await t.test('B5: statements are ended also if the journal has another form of the user name', async () => {
      const { dataDir, sluice } = place;
      await post(sluice.url, { sql: 'SELECT SLEEP(600), 5', ...noWait }, { user: 'anna' });
      await until(async () => (await countOf(server)) === 1);
      await sluice.kill();
      for (const name of journals(dataDir)) {
        const path = join(dataDir, 'connections', name);
        writeFileSync(path, readFileSync(path, 'utf8').replaceAll('"anna"', `"'anna'"`));
      }
      const next = await startNext(place);
      await until(async () => (await countOf(server)) === 0);
      await until(async () => journals(dataDir).length === 1);
      await until(() => /"connections":[0-9]+.*orphans_ended/.test(next.log()));
    });

    await t.test('after a restart of the database, connections that reuse an old id are not killed', async (t) => {
      const { dataDir, sluice } = place;
      for (let n = 0; n < 10; n++) await post(sluice.url, { sql: 'SELECT SLEEP(600), 2', ...noWait });
      await until(async () => (await countOf(server)) === 10);
      const ids = (await idOf(server, 'SELECT SLEEP(%')).split('\n').map(Number);
      await sluice.kill();
      // More than the clocks of two processes may differ by.
      await delay(3_000);
      await server.restart();
      const holder = server.sql("SELECT GET_LOCK('gate', 0); SELECT SLEEP(60), 'holder'");
      holder.catch(() => {});
      await until(async () => (await countOf(server, '%holder%')) === 1);
      // Other connections have the ids now, and run statements until the next server has checked them.
      while (Number(await server.sql('SELECT CONNECTION_ID()')) < Math.min(...ids) - 1);
      const count = Math.max(...ids) - Math.min(...ids) + 1;
      const others = Array.from({ length: count }, () => server.sql("SELECT GET_LOCK('gate', 60), 'bystander'"));
      await until(async () => (await countOf(server, '%bystander%')) === count);
      const theirs = (await idOf(server, '%bystander%')).split('\n').map(Number);
      t.ok(
        theirs.some((id) => ids.includes(id)),
        'some connections reuse ids of the killed server',
      );
      await delay(2_500);
      const next = await startNext(place);
      await until(async () => journals(dataDir).length === 1);
      await server.sql(`KILL ${await idOf(server, '%holder%')}`);
      for (const other of await Promise.allSettled(others)) t.equal(other.status, 'fulfilled');
      await next.stop();
      t.notMatch(next.log(), 'orphans_ended', 'B5: the log does not report ended statements if there were none');
      t.equal(journals(dataDir).length, 0, 'a clean stop leaves no journal');
    });

    if (isTried('mysql')) {
      await t.test('a journal of another database, or of no server, is not touched', async (t) => {
        const dataDir = folder(t);
        const sluice = await start(t, dataDir, `mysql://root@127.0.0.1:${server.port}/`);
        const held = await post(sluice.url, { sql: 'SELECT SLEEP(600), 3', ...noWait });
        t.equal(held.json.state, 'Running');
        await until(async () => (await countOf(server)) === 1);
        await sluice.kill();
        writeFileSync(join(dataDir, 'connections', 'notes.txt'), 'hello');
        writeFileSync(join(dataDir, 'connections', '999999999.x'), '{"database":"127.0.0.1:1"}\n+{"id":1}\n');
        const other = await start(t, dataDir, `mysql://root@localhost:${server.port}/`);
        await delay(1_500);
        t.equal(await countOf(server), 1);
        t.same((await query(other.url, 'SELECT 1')).rows, [[1]]);
        await other.stop();
        t.equal(journals(dataDir).length, 3);
        const same = await start(t, dataDir, `mysql://root@127.0.0.1:${server.port}/`);
        await until(async () => (await countOf(server)) === 0);
        // The server learns that the statement has ended a moment after the database does.
        await until(() => journals(dataDir).length === 3);
        await same.stop();
        t.strictSame(journals(dataDir).sort(), ['999999999.x', 'notes.txt']);
      });
    }

    if (isTried('mariadb')) {
      await t.test('a start without a writable journal is refused', async (t) => {
        const dataDir = folder(t);
        writeFileSync(join(dataDir, 'connections'), '');
        const starting = start(t, dataDir, `mysql://root@127.0.0.1:${server.port}/`);
        await t.rejects(starting, /cannot start: the data directory .* cannot be written: .*connections/);
      });
    }

    if (isTried('mariadb')) {
      await t.test('a journal contains no password', async (t) => {
        const dataDir = folder(t);
        const password = randomBytes(8).toString('hex');
        const user = `secret_${randomBytes(4).toString('hex')}`;
        await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY '${password}'`);
        const sluice = await start(t, dataDir, `mysql://${user}:${password}@127.0.0.1:${server.port}/`);
        await post(sluice.url, { sql: 'SELECT SLEEP(600), 4', ...noWait }, { user, password });
        await until(async () => (await countOf(server)) === 1);
        const [journal = ''] = journals(dataDir).map((name) =>
          readFileSync(join(dataDir, 'connections', name), 'utf8'),
        );
        t.match(journal, user);
        t.notMatch(journal, password);
        await sluice.stop();
      });
    }
  });
}

async function startDatabase(t: Test, kind: DatabaseKind): Promise<PrivateServer> {
  const server = await startServer(kind);
  t.teardown(() => server.stop());
  await server.sql(`CREATE DATABASE faults; CREATE TABLE faults.held (a INT PRIMARY KEY) ENGINE = InnoDB;
    INSERT INTO faults.held VALUES (1)`);
  for (const user of users) await server.sql(`CREATE USER ${user}@'%'; GRANT ALL ON faults.* TO ${user}@'%'`);
  return server;
}

async function start(t: Test, dataDir: string, url: string): Promise<SluiceProcess> {
  const args = ['--mysql_url', url, '--data_dir', dataDir, '--drain_secs', '0', '--ping_secs', '1'];
  const sluice = await startSluice([...args, '--worker_threads', '2', '--session_idle_secs_max', '60', ...noSpill]);
  t.teardown(() => sluice.kill());
  return sluice;
}

/** Starts the next service of a place. The previous one must have been killed. */
async function startNext(place: Place): Promise<SluiceProcess> {
  place.sluice = await start(t, place.dataDir, place.url);
  return place.sluice;
}

/** Starts sleeps, counts, lock waits and results that nobody reads, of several users, and waits until all run in the database. */
async function runAll(sluice: SluiceProcess, server: PrivateServer): Promise<void> {
  const tables = ['a', 'b', 'c', 'd'].map((name) => `information_schema.COLUMNS ${name}`).join(' CROSS JOIN ');
  const holder = { user: 'anna', body: { session: { max_idle_time: 60 } } };
  const { last } = await query(sluice.url, 'START TRANSACTION', holder);
  const session = { id: last.session_id };
  await query(sluice.url, 'UPDATE faults.held SET a = 1 WHERE a = 1', { user: 'anna', body: { session } });
  await query(sluice.url, 'SELECT * FROM faults.held FOR UPDATE', { user: 'anna', body: { session } });
  await post(sluice.url, { sql: 'SELECT SLEEP(600)', session, ...noWait }, { user: 'anna' });
  for (let n = 1; n < statements; n++) {
    const sql =
      // These start last, because they keep a processor busy from then on. With more of them than processors, the start time
      // would measure their scheduling.
      n >= statements - counting
        ? `SELECT COUNT(*) FROM ${tables}`
        : n % 10 === 1
          ? `SELECT REPEAT('x', 1000) FROM ${tables}`
          : n % 2 === 0
            ? 'UPDATE faults.held SET a = 2 WHERE a = 1'
            : 'SELECT SLEEP(600)';
    await post(sluice.url, { sql, ...noWait }, { user: users[n % users.length] as string });
  }
  await until(async () => (await countOf(server)) === statements);
}

const ours = `(INFO LIKE 'SELECT SLEEP(600)%' OR INFO LIKE '%FROM information_schema.COLUMNS a%' OR INFO LIKE 'UPDATE faults%')`;

/** Counts the statements in the database's process list: those of the service, or those that match a pattern. */
async function countOf(server: PrivateServer, like?: string): Promise<number> {
  return Number(await server.sql(`SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ${condition(like)}`));
}

/** The ids of their connections, one per line. */
function idOf(server: PrivateServer, like: string): Promise<string> {
  return server.sql(`SELECT ID FROM information_schema.PROCESSLIST WHERE ${condition(like)}`);
}

function condition(like?: string): string {
  const what = like === undefined ? ours : `INFO LIKE '${like}'`;
  return `ID <> CONNECTION_ID() AND COMMAND <> 'Sleep' AND ${what}`;
}

function folder(t: Test): string {
  const made = mkdtempSync(join(tmpdir(), 'sluice-restart-'));
  t.teardown(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

function journals(dataDir: string): string[] {
  const path = join(dataDir, 'connections');
  return existsSync(path) ? readdirSync(path) : [];
}
