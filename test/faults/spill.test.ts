import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, isLong, measured } from '../support/form.ts';
import { pick, seeded } from '../support/random.ts';
import { type DatabaseKind, type DatabaseServer, isInstalled, sharedServers, startServer } from '../support/servers.ts';
import { get, post, type QueryResponse, query, type SluiceProcess, split, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * Rows on disk: the database finishes long before the reader. The reader still gets every row, whether the session, the
 * connection or the database is lost meanwhile. A disk that fails affects only the query that uses it.
 */

t.setTimeout(540_000);

const MIB = 1024 * 1024;
const preload = new URL('../support/disk-faults.js', import.meta.url).href;
const plain = { headers: { 'accept-encoding': 'identity' } };
const json = { 'content-type': 'application/json' };
const noWait = { pagination: { wait_time_secs: 0 } };
const longWait = { pagination: { wait_time_secs: 20 } };
/** So small that most results here are spilled at once. */
const smallBuffers = [
  ...['--query_buffer_bytes_max', `${MIB}`, '--page_bytes_max', `${MIB}`, '--spill_wait_ms', '0'],
  ...['--drain_secs', '0', '--worker_threads', '2'],
];
/** About five times the size of the buffers. */
const rowCount = figure(24_000, 60_000);
const rounds = figure(6, 200);
/** The most writes that succeed before one fails: fewer than a result needs. */
const writesMax = figure(10, 24);
const lostCount = figure(3, 5);
/** Room for at most one result. */
const smallDisk = figure('4m', '8m');
const digest = digestOf(Array.from({ length: rowCount }, (_, at) => rowText(at + 1)));

/** Limits other than the small buffers. In the short form each is tried on one of the databases. */
const limits: readonly (readonly string[])[] = [
  ['--spill_bytes_max', `${2 * MIB}`],
  ['--spill_total_bytes_max', `${3 * MIB}`],
  ['--spill_bytes_max', '0'],
  ['--spill_wait_ms', '20', '--gzip_level', '6'],
];

// Much of the time is spent waiting, so both databases are tested concurrently.
t.jobs = 2;

for (const server of await sharedServers()) {
  const { kind } = server;
  const name = `spill_${randomBytes(4).toString('hex')}`;
  const sql = `SELECT i, SHA2(i, 512), REPEAT('é', i % 50) FROM ${name}.t ORDER BY i`;

  t.test(kind, async (t) => {
    await fill(server, name);
    t.teardown(() => server.sql(`DROP DATABASE ${name}`));
    // Most tests share one service. Its disk works while this file of instructions is empty.
    const orders = join(await temporaryFolder(t), 'orders');
    writeFileSync(orders, '');
    const environment = { NODE_OPTIONS: `--import=${preload}`, DISK_FAULTS: orders };
    const { sluice, dataDir } = await start(t, server, smallBuffers, environment);
    const folder = join(dataDir, 'spill');
    const untilClosed = () =>
      until(
        () => openFiles(sluice, folder),
        ({ length }) => length === 0,
      );

    for (const [what, pagination, encoding] of [
      ['a buffer', { max_rows_in_buffer: 500 }, 'identity'],
      ['a compressed page', { max_rows_per_page: 700 }, 'gzip'],
    ] as const) {
      t.test(`the row limit of ${what} also holds while rows are written to disk`, async (t) => {
        const reply = await fetch(`${sluice.url}/v1/query`, {
          method: 'POST',
          headers: { authorization: `Basic ${btoa('root:')}`, ...json, 'accept-encoding': encoding },
          body: JSON.stringify({ sql, pagination: { ...pagination, wait_time_secs: 20 } }),
        });
        const begun = await reply.text();
        await delay(300);
        const read = await readAll(sluice, begun);
        t.equal(read.digest, digest, `${read.rows} rows`);
        t.equal(read.last.state, 'Succeeded', read.last.error?.message ?? '');
        await get(sluice.url, read.last.final_uri);
      });
    }

    t.test('rows that are written while others are read are complete, with any limits', async (t) => {
      const random = seeded(t);
      const readFour = async (sluice: SluiceProcess, folder: string, what: string): Promise<void> => {
        await Promise.all(
          Array.from({ length: 4 }, async () => {
            const pagination = { wait_time_secs: 20, max_rows_per_page: 100 + random(20_000) };
            const begun = await post(sluice.url, { sql, pagination }, plain);
            const read = await readAll(sluice, begun.text, { pauseMs: () => (random(4) === 0 ? random(30) : 0) });
            t.equal(read.digest, digest, what);
            await get(sluice.url, read.last.final_uri);
          }),
        );
        t.strictSame(openFiles(sluice, folder), []);
      };
      await readFour(sluice, folder, 'small buffers');
      for (const more of limits.filter((_, index) => isLong || index % 2 === (kind === 'mariadb' ? 0 : 1))) {
        const other = await start(t, server, [...smallBuffers, ...more]);
        await readFour(other.sluice, join(other.dataDir, 'spill'), more.join(' '));
        await other.sluice.stop();
      }
    });

    t.test('a query that is finished, expires or is cancelled frees its disk space', async (t) => {
      await untilClosed();
      const expiring = { sql, result_timeout_secs: 2, ...noWait };
      const begun = await Promise.all([0, 1, 2].map(async () => (await post(sluice.url, expiring, plain)).json));
      // Polls all queries until the last one has ended, so that none expires before.
      const settled = await until(
        () => Promise.all(begun.map(async ({ stats_uri }) => (await get(sluice.url, stats_uri)).json)),
        (answers) => answers.every(({ state }) => state !== 'Running'),
      );
      for (const { state } of settled) t.equal(state, 'Succeeded');
      const countFiles = (): number => openFiles(sluice, folder).length;
      t.equal(countFiles(), 3);
      await get(sluice.url, begun[0]?.final_uri ?? '');
      // The client finishes one query, and then the others expire.
      await until(countFiles, (count) => count === 2);
      await until(countFiles, (count) => count === 0);
      t.match((await get(sluice.url, begun[1]?.next_uri ?? '')).text, /expired: not polled for 2 s/);
    });

    t.test('a disk that fails at any write affects only the query that uses it', async (t) => {
      const random = seeded(t);
      for (let round = 0; round < rounds; round++) {
        const code = pick(random, ['ENOSPC', 'EIO', 'EROFS', 'EDQUOT']);
        writeFileSync(orders, `${code} ${random(writesMax)} ${round}`);
        const begun = (await post(sluice.url, { sql, ...noWait }, plain)).json;
        const small = await query(sluice.url, 'SELECT 1');
        t.same(small.rows, [[1]], 'a query that needs no disk is not affected');
        const settled = await untilSettled(sluice, begun);
        t.equal(settled.state, 'Failed', `${code}: ${progress(settled, 'spill_progress').rows} rows`);
        t.match(settled.error, { code: 90010, outcome: 'rolled_back', retryable: true });
        t.match(settled.error?.message, /disk/);
        t.notMatch(settled.error?.message, dataDir, 'the client does not learn the path');
        t.match((await get(sluice.url, begun.next_uri ?? '')).json, { state: 'Failed', data: [], next_uri: null });
        // The worker closes the file after it has reported the failure.
        t.strictSame(await untilClosed(), []);
      }
      writeFileSync(orders, '');
      measured(t, `${rounds} disks failed at a random write: each affected one query, and left nothing`);
      const again = await readAll(sluice, (await post(sluice.url, { sql, ...longWait }, plain)).text);
      t.equal(again.digest, digest, 'queries work again when the disk works');
      await get(sluice.url, again.last.final_uri);
      t.notMatch(sluice.log(), /"level":50/, 'a disk fault is not logged as a defect');
    });

    t.test(
      'rows that are lost on disk after the statement has succeeded turn its query Failed, and are logged',
      async (t) => {
        const random = seeded(t);
        const logged = (): number => sluice.log().split('rows_lost').length - 1;
        const failuresBefore = await ownFailures(sluice);
        const loggedBefore = logged();
        for (let round = 0; round < lostCount; round++) {
          const begun = await post(sluice.url, { sql, ...noWait }, plain);
          const { id, stats_uri } = begun.json;
          t.match(await untilSettled(sluice, begun.json), { state: 'Succeeded', error: null });
          writeFileSync(orders, `EIO ${random(6)} ${round} read`);
          const { last, lastRows, rows } = await readAll(sluice, begun.text);
          writeFileSync(orders, '');
          t.equal(lastRows, '');
          t.match(last, { state: 'Failed', error: { code: 90010, message: /disk/ } }, `after ${rows} rows`);
          t.match((await get(sluice.url, stats_uri)).json, { state: 'Failed', error: { code: 90010 } });
          const lost = await until(
            () =>
              sluice
                .log()
                .split('\n')
                .find((line) => line.includes('rows_lost') && line.includes(id)),
            (line) => line !== undefined,
          );
          t.match(JSON.parse(lost ?? ''), { level: 40, user: 'root', code: 90010, reason: /disk/ });
        }
        // On a busy machine, /metrics repeats a reading for a second.
        const failures = await until(
          () => ownFailures(sluice),
          (count) => count > failuresBefore,
        );
        t.equal(failures - failuresBefore, lostCount);
        const done = (await post(sluice.url, { sql, ...noWait }, plain)).json;
        t.match(await untilSettled(sluice, done), { state: 'Succeeded' });
        await get(sluice.url, done.final_uri);
        t.equal(logged() - loggedBefore, lostCount, 'rows that the client does not request are not lost');
      },
    );

    t.test('a full file system, and a read-only one', async (t) => {
      await untilClosed();
      const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${smallDisk}`, 'tmpfs', folder]);
      if (mounted.status !== 0) {
        t.comment('NOT TESTED HERE: no file system may be mounted');
        return;
      }
      t.teardown(() => spawnSync('umount', ['-l', folder]));
      const begun = await Promise.all([0, 1, 2].map(() => post(sluice.url, { sql, ...noWait }, plain)));
      const settled = await Promise.all(begun.map((one) => untilSettled(sluice, one.json)));
      const failed = settled.filter(({ state }) => state === 'Failed');
      t.ok(failed.length >= 2, `${failed.length} of three results find no room`);
      for (const { error } of failed) t.match(error, { code: 90010, message: /no space left/ });
      const whole = begun.find((_, index) => settled[index]?.state === 'Succeeded');
      if (whole !== undefined) {
        t.equal((await readAll(sluice, whole.text)).digest, digest, 'the result that found room is complete');
      }
      for (const one of begun) await get(sluice.url, one.json.final_uri);
      const free = spawnSync('df', ['--output=used', '-B1', folder], { encoding: 'utf8' }).stdout.split('\n')[1];
      t.equal(Number(free), 0, 'all disk space is freed');

      t.equal(spawnSync('mount', ['-o', 'remount,ro', folder]).status, 0);
      const refused = await untilSettled(sluice, (await post(sluice.url, { sql, ...noWait }, plain)).json);
      t.match(refused, { state: 'Failed', error: { code: 90010, message: /cannot be written/ } });
      t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
      t.equal(spawnSync('mount', ['-o', 'remount,rw', folder]).status, 0);
    });

    let next: SluiceProcess | undefined;

    t.test('a killed server leaves no file, not even one that was not yet unlinked', async (child) => {
      const begun = (await post(sluice.url, { sql, ...noWait }, plain)).json;
      await untilSettled(sluice, begun);
      const left = join(folder, randomBytes(12).toString('hex'));
      writeFileSync(left, '');
      await sluice.kill();
      const args = ['--mysql_url', server.url, '--data_dir', dataDir, ...smallBuffers, '--connections_max', '1'];
      const second = await startSluice(args);
      t.teardown(() => second.kill());
      child.notOk(existsSync(left));
      child.same((await query(second.url, 'SELECT 1')).rows, [[1]]);
      next = second;
    });

    t.test('the database finishes, its locks and connection are free, and the reader reads later', async (t) => {
      if (next === undefined) throw new Error('the previous test started no server');
      const sluice = next;
      const session = (await query(sluice.url, 'SELECT 1', { body: { session: { max_idle_time: 60 } } })).last;
      const own = { session: { id: session.session_id } };
      const locking = `${sql} LOCK IN SHARE MODE`;
      const begun = await post(sluice.url, { sql: locking, ...own, ...noWait }, plain);
      const ended = await untilSettled(sluice, begun.json);
      t.equal(ended.state, 'Succeeded', ended.error?.message ?? '');
      const spilled = progress(ended, 'spill_progress');
      t.ok(spilled.rows > rowCount / 2 && spilled.rows < rowCount, `${spilled.rows} rows are on disk`);
      t.equal(progress(ended, 'result_progress').rows, rowCount);
      t.ok(spilled.bytes > 100 * spilled.rows);

      t.strictSame(readdirSync(folder), [], 'the file is unlinked');
      const files = openFiles(sluice, folder);
      t.equal(files.length, 1, 'the file is still open');
      t.match(files[0], { isDeleted: true, mode: '600' });

      const following = await query(sluice.url, `SELECT COUNT(*) FROM ${name}.t`, { body: own });
      t.same(following.rows, [[rowCount]], 'the next statement of the session runs meanwhile');
      const free = await server.sql(`SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_rows_locked > 1000`);
      t.equal(free, '0', 'no row is locked any more');

      await query(sluice.url, 'KILL CONNECTION_ID()', { body: own });
      const read = await readAll(sluice, begun.text, { replays: true });
      t.equal(read.digest, digest, 'all rows, in order, although the connection is lost');
      t.equal(read.last.state, 'Succeeded');
      await get(sluice.url, read.last.final_uri);
      t.strictSame(openFiles(sluice, folder), [], 'then the file is closed');
    });
  });
}

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  t.test(`${kind}: a database that is slow or lost`, { skip: !isInstalled(kind) }, async (t) => {
    // By default this database closes a connection whose client does not read for a second.
    const server = await startServer(kind, ['--net-write-timeout=1']);
    t.teardown(() => server.stop());
    await fill(server, 'own');
    const { sluice } = await start(t, server, [...smallBuffers, '--spill_bytes_max', `${2 * MIB}`]);

    t.test('a reader that pauses for longer than net_write_timeout loses no rows', async (t) => {
      // More than fits in the service, on its disk and in the sockets.
      const wide = 800;
      const sql = `SELECT i, REPEAT('x', ${wide}) FROM own.t ORDER BY i`;
      const begun = await post(sluice.url, { sql, ...longWait }, plain);
      await delay(2_500);
      const running = (await get(sluice.url, begun.json.stats_uri)).json;
      t.equal(running.state, 'Running', 'the database waits');
      const read = await readAll(sluice, begun.text);
      const expected = digestOf(Array.from({ length: rowCount }, (_, at) => `[${at + 1},"${'x'.repeat(wide)}"]`));
      t.equal(read.digest, expected, `${read.rows} rows ${read.last.error?.message ?? ''}`);
      await get(sluice.url, read.last.final_uri);
    });

    t.test('a complete result can be read after its database was killed', async (t) => {
      // Less than the disk limit.
      const count = 12_000;
      const sql = `SELECT i, SHA2(i, 512), REPEAT('é', i % 50) FROM own.t WHERE i <= ${count} ORDER BY i`;
      const whole = await post(sluice.url, { sql, ...noWait }, plain);
      const settled = await untilSettled(sluice, whole.json);
      t.equal(settled.state, 'Succeeded');
      t.ok(progress(settled, 'spill_progress').rows > 0, 'some rows are on disk');
      await server.kill();
      const read = await readAll(sluice, whole.text);
      const expected = digestOf(Array.from({ length: count }, (_, at) => rowText(at + 1)));
      t.equal(read.digest, expected, `${read.rows} rows ${read.last.error?.message ?? ''}`);
      t.equal(read.last.state, 'Succeeded');
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

/** A row as JSON, computed here from the expressions of the statement. */
function rowText(i: number): string {
  return JSON.stringify([i, createHash('sha512').update(`${i}`).digest('hex'), 'é'.repeat(i % 50)]);
}

/** The digest of rows as they appear in an answer. */
function digestOf(rows: readonly string[]): string {
  return createHash('sha256').update(rows.join()).digest('hex');
}

interface ReadOptions {
  /** Requests each page twice, and compares. */
  readonly replays?: boolean;
  readonly pauseMs?: () => number;
}

/**
 * Reads from the first answer to the end. Rows are not parsed, because that would cost more than the rest of the test.
 * @param first the text of the first answer
 */
async function readAll(sluice: SluiceProcess, first: string, { replays = false, pauseMs }: ReadOptions = {}) {
  const sum = createHash('sha256');
  let rows = 0;
  let page = split(first);
  for (;;) {
    if (page.rowsText !== '') {
      sum.update(rows === 0 ? page.rowsText : `,${page.rowsText}`);
      // No cell contains brackets.
      rows += page.rowsText.split('],[').length;
    }
    const { head } = page;
    if (head.next_uri === null) return { rows, digest: sum.digest('hex'), last: head, lastRows: page.rowsText };
    const reply = await get(sluice.url, head.next_uri, plain);
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    page = split(reply.text);
    if (replays && page.rowsText !== '') {
      const again = split((await get(sluice.url, head.next_uri, plain)).text);
      if (again.rowsText !== page.rowsText) throw new Error(`${head.next_uri} differs the second time`);
    }
    const ms = pauseMs?.() ?? 0;
    if (ms > 0) await delay(ms);
  }
}

/** The number of queries that failed because of the disk, as the service counts them. */
async function ownFailures(sluice: SluiceProcess): Promise<number> {
  const { text } = await get(sluice.url, '/metrics');
  return Number(/^sluice_own_failures_total\{code="90010"\} (\d+)$/m.exec(text)?.[1] ?? 0);
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
    try {
      const target = readlinkSync(link);
      if (!target.startsWith(`${folder}/`)) continue;
      files.push({ isDeleted: target.endsWith(' (deleted)'), mode: (statSync(link).mode & 0o777).toString(8) });
    } catch {
      // It is closed just then.
    }
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
