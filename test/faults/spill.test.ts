import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, measured } from '../support/form.ts';
import { pick, seeded } from '../support/random.ts';
import { type DatabaseKind, type DatabaseServer, isInstalled, sharedServers, startServer } from '../support/servers.ts';
import { get, post, type QueryResponse, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * Rows on disk: the database is done long before its reader; the reader gets every row all the same, whatever becomes of the
 * session, the connection or the database meanwhile; and a disk that fails costs the query that it hits.
 */

t.setTimeout(540_000);

const MIB = 1024 * 1024;
const preload = new URL('../support/disk-faults.js', import.meta.url).href;
const plain = { headers: { 'accept-encoding': 'identity' } };
const json = { 'content-type': 'application/json' };
const noWait = { pagination: { wait_time_secs: 0 } };
const longWait = { pagination: { wait_time_secs: 20 } };
/** Small enough that most results here go to disk at once. */
const smallBuffers = [
  ...['--query_buffer_bytes_max', `${MIB}`, '--page_bytes_max', `${MIB}`, '--spill_wait_ms', '0'],
  ...['--drain_secs', '0', '--worker_threads', '2'],
];
const rowCount = 60_000;
const rounds = figure(6, 200);

// Much of the time is spent waiting, so the two databases are tried side by side.
t.jobs = 2;

for (const server of await sharedServers()) {
  const { kind } = server;
  const name = `spill_${randomBytes(4).toString('hex')}`;
  const sql = `SELECT i, SHA2(i, 512), REPEAT('é', i % 50) FROM ${name}.t ORDER BY i`;

  t.test(kind, async (t) => {
    await fill(server, name);
    t.teardown(() => server.sql(`DROP DATABASE ${name}`));
    const expected = createHash('sha256');
    for (let i = 1; i <= rowCount; i++) expected.update(rowText(i));
    const digest = expected.digest('hex');

    for (const [what, pagination, encoding] of [
      ['a buffer', { max_rows_in_buffer: 500 }, 'identity'],
      ['a page that is compressed', { max_rows_per_page: 700 }, 'gzip'],
    ] as const) {
      t.test(`no more rows go into ${what} than may, be it on the way to disk`, async (t) => {
        const { sluice } = await start(t, server, smallBuffers);
        const reply = await fetch(`${sluice.url}/v1/query`, {
          method: 'POST',
          headers: { authorization: `Basic ${btoa('root:')}`, ...json, 'accept-encoding': encoding },
          body: JSON.stringify({ sql, pagination: { ...pagination, wait_time_secs: 20 } }),
        });
        const begun = (await reply.json()) as QueryResponse;
        await delay(300);
        const read = await readAll(sluice, begun);
        t.equal(read.digest, digest, `${read.rows} rows`);
        t.equal(read.last.state, 'Succeeded', read.last.error?.message ?? '');
      });
    }

    t.test('the database is done, its locks and connection are free, and the reader takes its time', async (t) => {
      const { sluice, dataDir } = await start(t, server, [...smallBuffers, '--connections_max', '1']);
      const session = (await query(sluice.url, 'SELECT 1', { body: { session: { max_idle_time: 60 } } })).last;
      const own = { session: { id: session.session_id } };
      const locking = `${sql} LOCK IN SHARE MODE`;
      const begun = (await post(sluice.url, { sql: locking, ...own, ...noWait }, plain)).json;
      const ended = await untilSettled(sluice, begun);
      t.equal(ended.state, 'Succeeded', ended.error?.message ?? '');
      const spilled = progress(ended, 'spill_progress');
      t.ok(spilled.rows > rowCount / 2 && spilled.rows < rowCount, `${spilled.rows} rows are on disk`);
      t.equal(progress(ended, 'result_progress').rows, rowCount);
      t.ok(spilled.bytes > 100 * spilled.rows);

      const folder = join(dataDir, 'spill');
      t.strictSame(readdirSync(folder), [], 'the file has no name');
      const files = openFiles(sluice, folder);
      t.equal(files.length, 1, 'but it is there');
      t.match(files[0], { isDeleted: true, mode: '600' });

      const next = await query(sluice.url, `SELECT COUNT(*) FROM ${name}.t`, { body: own });
      t.same(next.rows, [[rowCount]], 'the next statement of the session runs meanwhile');
      const free = await server.sql(`SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_locked > 1000`);
      t.equal(free, '0', 'no row is locked any more');

      await query(sluice.url, 'KILL CONNECTION_ID()', { body: own });
      const read = await readAll(sluice, begun, { replays: true });
      t.equal(read.digest, digest, 'all rows, in order, though the connection is gone');
      t.equal(read.last.state, 'Succeeded');
      await get(sluice.url, begun.final_uri);
      t.strictSame(openFiles(sluice, folder), [], 'and then the file is gone');
    });

    t.test('what is written while it is read comes out whole, whatever the limits', async (t) => {
      const random = seeded(t);
      for (const more of [
        [],
        ['--spill_bytes_max', `${2 * MIB}`],
        ['--spill_total_bytes_max', `${3 * MIB}`],
        ['--spill_bytes_max', '0'],
        ['--spill_wait_ms', '20', '--gzip_level', '6'],
      ]) {
        const { sluice, dataDir } = await start(t, server, [...smallBuffers, ...more]);
        await Promise.all(
          Array.from({ length: 4 }, async () => {
            const pagination = { wait_time_secs: 20, max_rows_per_page: 100 + random(20_000) };
            const begun = (await post(sluice.url, { sql, pagination }, plain)).json;
            const read = await readAll(sluice, begun, { pauseMs: () => (random(4) === 0 ? random(30) : 0) });
            t.equal(read.digest, digest, more.join(' '));
            await get(sluice.url, begun.final_uri);
          }),
        );
        t.strictSame(openFiles(sluice, join(dataDir, 'spill')), []);
        await sluice.stop();
      }
    });

    t.test('whoever leaves, expires or cancels gives the disk back', async (t) => {
      const { sluice, dataDir } = await start(t, server, [...smallBuffers, '--result_timeout_secs', '2']);
      const begun = await Promise.all(
        [0, 1, 2].map(async () => (await post(sluice.url, { sql, ...noWait }, plain)).json),
      );
      // All are asked about until the last is there, as none may expire before.
      const settled = await until(
        () => Promise.all(begun.map(async ({ stats_uri }) => (await get(sluice.url, stats_uri)).json)),
        (answers) => answers.every(({ state }) => state !== 'Running'),
      );
      for (const { state } of settled) t.equal(state, 'Succeeded');
      t.equal(openFiles(sluice, join(dataDir, 'spill')).length, 3);
      await get(sluice.url, begun[0]?.final_uri ?? '');
      const countFiles = (): number => openFiles(sluice, join(dataDir, 'spill')).length;
      // One is finished, and then the others expire.
      await until(countFiles, (count) => count === 2);
      await until(countFiles, (count) => count === 0);
      t.match((await get(sluice.url, begun[1]?.next_uri ?? '')).text, /expired: not polled for 2 s/);
    });

    t.test('a disk that fails at any write costs the query that it hits', async (t) => {
      const random = seeded(t);
      const orders = join(await temporaryFolder(t), 'orders');
      writeFileSync(orders, '');
      const environment = { NODE_OPTIONS: `--import=${preload}`, DISK_FAULTS: orders };
      const { sluice, dataDir } = await start(t, server, smallBuffers, environment);
      for (let round = 0; round < rounds; round++) {
        const code = pick(random, ['ENOSPC', 'EIO', 'EROFS', 'EDQUOT']);
        writeFileSync(orders, `${code} ${random(24)} ${round}`);
        const begun = (await post(sluice.url, { sql, ...noWait }, plain)).json;
        const small = await query(sluice.url, 'SELECT 1');
        t.same(small.rows, [[1]], 'what needs no disk is not concerned');
        const settled = await untilSettled(sluice, begun);
        t.equal(settled.state, 'Failed', `${code}: ${progress(settled, 'spill_progress').rows} rows`);
        t.match(settled.error, { code: 90010, outcome: 'rolled_back', retryable: true });
        t.match(settled.error?.message, /disk/);
        t.notMatch(settled.error?.message, dataDir, 'nobody is told where it is');
        t.match((await get(sluice.url, begun.next_uri ?? '')).json, { state: 'Failed', data: [], next_uri: null });
        // The thread closes it behind the news.
        const files = await until(
          () => openFiles(sluice, join(dataDir, 'spill')),
          ({ length }) => length === 0,
        );
        t.strictSame(files, []);
      }
      writeFileSync(orders, '');
      measured(t, `${rounds} disks failed at a random write: each cost its query, and left nothing`);
      const again = (await post(sluice.url, { sql, ...longWait }, plain)).json;
      t.equal((await readAll(sluice, again)).digest, digest, 'once the disk is well, all is well');
      t.notMatch(sluice.log(), /"level":50/, 'it is no defect of ours');
    });

    t.test('rows that are lost on disk after the statement has succeeded make it Failed, and are logged', async (t) => {
      const random = seeded(t);
      const orders = join(await temporaryFolder(t), 'orders');
      writeFileSync(orders, '');
      const environment = { NODE_OPTIONS: `--import=${preload}`, DISK_FAULTS: orders };
      const { sluice } = await start(t, server, smallBuffers, environment);
      const failing = 5;
      for (let round = 0; round < failing; round++) {
        const begun = (await post(sluice.url, { sql, ...noWait }, plain)).json;
        t.match(await untilSettled(sluice, begun), { state: 'Succeeded', error: null });
        writeFileSync(orders, `EIO ${random(6)} ${round} read`);
        const { last, rows } = await readAll(sluice, begun);
        writeFileSync(orders, '');
        t.match(last, { state: 'Failed', data: [], error: { code: 90010, message: /disk/ } }, `after ${rows} rows`);
        t.match((await get(sluice.url, begun.stats_uri)).json, { state: 'Failed', error: { code: 90010 } });
        const lost = await until(
          () =>
            sluice
              .log()
              .split('\n')
              .find((line) => line.includes('rows_lost') && line.includes(begun.id)),
          (line) => line !== undefined,
        );
        t.match(JSON.parse(lost ?? ''), { level: 40, user: 'root', code: 90010, reason: /disk/ });
      }
      t.match((await get(sluice.url, '/metrics')).text, `sluice_own_failures_total{code="90010"} ${failing}`);
      const done = (await post(sluice.url, { sql, ...noWait }, plain)).json;
      t.match(await untilSettled(sluice, done), { state: 'Succeeded' });
      await get(sluice.url, done.final_uri);
      t.equal(sluice.log().split('rows_lost').length, failing + 1, 'rows that their client does not want are not lost');
    });

    t.test('a disk that is really full, and one that is really read-only', async (t) => {
      const dataDir = await temporaryFolder(t);
      const folder = join(dataDir, 'spill');
      mkdirSync(folder);
      const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', folder]);
      if (mounted.status !== 0) {
        t.comment('NOT TESTED HERE: no file system may be mounted');
        return;
      }
      t.teardown(() => spawnSync('umount', ['-l', folder]));
      const { sluice } = await start(t, server, [...smallBuffers, '--data_dir', dataDir]);
      const begun = await Promise.all(
        [0, 1, 2].map(async () => (await post(sluice.url, { sql, ...noWait }, plain)).json),
      );
      const settled = await Promise.all(begun.map((one) => untilSettled(sluice, one)));
      const failed = settled.filter(({ state }) => state === 'Failed');
      t.ok(failed.length >= 2, `${failed.length} of three results of 10 MB find no room`);
      for (const { error } of failed) t.match(error, { code: 90010, message: /no space left/ });
      const whole = settled.findIndex(({ state }) => state === 'Succeeded');
      if (whole >= 0) {
        t.equal(
          (await readAll(sluice, begun[whole] as QueryResponse)).digest,
          digest,
          'the one that found room is whole',
        );
      }
      for (const { final_uri } of begun) await get(sluice.url, final_uri);
      const free = spawnSync('df', ['--output=used', '-B1', folder], { encoding: 'utf8' }).stdout.split('\n')[1];
      t.equal(Number(free), 0, 'all of the space is given back');

      t.equal(spawnSync('mount', ['-o', 'remount,ro', folder]).status, 0);
      const refused = await untilSettled(sluice, (await post(sluice.url, { sql, ...noWait }, plain)).json);
      t.match(refused, { state: 'Failed', error: { code: 90010, message: /cannot be written/ } });
      t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
      t.equal(spawnSync('mount', ['-o', 'remount,rw', folder]).status, 0);
      await sluice.kill();
    });

    t.test('a server that is killed leaves no file, not even one that it had just made', async (t) => {
      const dataDir = await temporaryFolder(t);
      const first = await start(t, server, [...smallBuffers, '--data_dir', dataDir]);
      const begun = (await post(first.sluice.url, { sql, ...noWait }, plain)).json;
      await untilSettled(first.sluice, begun);
      const left = join(dataDir, 'spill', 'made-and-not-yet-unlinked');
      writeFileSync(left, 'rows');
      await first.sluice.kill();
      const second = await start(t, server, [...smallBuffers, '--data_dir', dataDir]);
      t.notOk(existsSync(left));
      t.same((await query(second.sluice.url, 'SELECT 1')).rows, [[1]]);
    });
  });
}

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  t.test(`${kind}: the database may go`, { skip: !isInstalled(kind) }, async (t) => {
    // One that hangs up on whoever does not read for three seconds, unless told otherwise.
    const server = await startServer(kind, ['--net-write-timeout=3']);
    t.teardown(() => server.stop());
    await fill(server, 'own');
    const sql = "SELECT i, SHA2(i, 512), REPEAT('é', i % 50) FROM own.t ORDER BY i";

    t.test('a reader that is slower than the patience of the database loses nothing', async (t) => {
      const { sluice } = await start(t, server, [...smallBuffers, '--spill_bytes_max', '0']);
      const begun = (await post(sluice.url, { sql, ...longWait }, plain)).json;
      await delay(5_000);
      const running = (await get(sluice.url, begun.stats_uri)).json;
      t.equal(running.state, 'Running', 'the database waits');
      const read = await readAll(sluice, begun);
      t.equal(read.rows, rowCount, read.last.error?.message ?? '');
    });

    t.test('a result that is whole can be read when its database is dead', async (t) => {
      const { sluice } = await start(t, server, smallBuffers);
      const whole = (await post(sluice.url, { sql, ...noWait }, plain)).json;
      t.equal((await untilSettled(sluice, whole)).state, 'Succeeded');
      await server.kill();
      const read = await readAll(sluice, whole);
      t.equal(read.rows, rowCount, read.last.error?.message ?? '');
      t.equal(read.last.state, 'Succeeded');
      await server.restart();
    });
  });
}

async function fill(server: DatabaseServer, name: string): Promise<void> {
  const digits =
    '(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)';
  await server.sql(`
    CREATE DATABASE ${name}; CREATE TABLE ${name}.t (i INT PRIMARY KEY);
    INSERT INTO ${name}.t SELECT n FROM (
      SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n
      FROM ${digits} a, ${digits} b, ${digits} c, ${digits} d, ${digits} e) numbers WHERE n <= ${rowCount}`);
}

/** A row as JSON, made here from what the statement asks for. */
function rowText(i: number): string {
  return JSON.stringify([i, createHash('sha512').update(`${i}`).digest('hex'), 'é'.repeat(i % 50)]);
}

interface ReadOptions {
  /** Asks for each page twice, and compares. */
  readonly replays?: boolean;
  readonly pauseMs?: () => number;
}

/** Reads from the first answer to the end. */
async function readAll(sluice: SluiceProcess, first: QueryResponse, { replays = false, pauseMs }: ReadOptions = {}) {
  const sum = createHash('sha256');
  let rows = 0;
  let last = first;
  for (;;) {
    for (const row of last.data) sum.update(JSON.stringify(row));
    rows += last.data.length;
    if (last.next_uri === null) return { rows, digest: sum.digest('hex'), last };
    const uri = last.next_uri;
    const reply = await get(sluice.url, uri, plain);
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    last = reply.json;
    if (replays && last.data.length > 0) {
      const again = (await get(sluice.url, uri, plain)).json;
      if (JSON.stringify(again.data) !== JSON.stringify(last.data))
        throw new Error(`${uri} is another page the second time`);
    }
    const ms = pauseMs?.() ?? 0;
    if (ms > 0) await delay(ms);
  }
}

function untilSettled(sluice: SluiceProcess, { stats_uri }: QueryResponse): Promise<QueryResponse> {
  return until(
    async () => (await get(sluice.url, stats_uri)).json,
    ({ state }) => state !== 'Running',
  );
}

function progress({ stats }: QueryResponse, name: string): { readonly rows: number; readonly bytes: number } {
  return stats[name] as { rows: number; bytes: number };
}

/** The files in a folder that the service has open. */
function openFiles({ pid }: SluiceProcess, folder: string): { isDeleted: boolean; mode: string }[] {
  const files: { isDeleted: boolean; mode: string }[] = [];
  for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
    const link = `/proc/${pid}/fd/${descriptor}`;
    let target = '';
    try {
      target = readlinkSync(link);
    } catch {
      continue;
    }
    if (!target.startsWith(`${folder}/`)) continue;
    const mode = spawnSync('stat', ['-L', '-c', '%a', link], { encoding: 'utf8' }).stdout.trim();
    files.push({ isDeleted: target.endsWith(' (deleted)'), mode });
  }
  return files;
}

async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'spill-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function start(
  t: Test,
  server: DatabaseServer,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ sluice: SluiceProcess; dataDir: string }> {
  const dataDir = await temporaryFolder(t);
  const sluice = await startSluice(['--mysql_url', server.url, '--data_dir', dataDir, ...args], environment);
  t.teardown(() => sluice.kill());
  return { sluice, dataDir };
}
