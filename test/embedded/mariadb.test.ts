import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Connection, createConnection, type RowDataPacket } from 'mysql2/promise';
import t, { type Test } from 'tap';
import { type EmbeddedDatabase, startEmbedded } from '#src/embedded/mariadb.js';
import { serversBelow } from '#src/embedded/processes.js';
import { findPrograms } from '#src/embedded/programs.js';
import type { Observe } from '#src/events.js';
import { identify } from '#src/process-identity.js';
import { putPrivateData } from '../support/private-data.ts';
import { until } from '../support/until.ts';

const HOLDER = fileURLToPath(new URL('./holder.js', import.meta.url));
const BASE_TABLES = [
  'river',
  'operator',
  'station',
  'gate',
  'reading',
  'alarm',
  'gate_move',
  'inspection',
  'type_gallery',
];

// One folder serves most tests in turn, because its first start takes seconds.
const dataDir = realpathSync(await mkdtemp(join(tmpdir(), 'embedded é ')));
t.teardown(() => rm(dataDir, { recursive: true, force: true }));
let firstSums = '';

t.test('a first start that is killed while it creates the sample is repeated from the beginning', async (t) => {
  const holder = hold(t, dataDir);
  const sample = join(dataDir, 'mariadb/data-unfinished/waterways/reading.ibd');
  await until(() => existsSync(sample));
  holder.process.kill('SIGKILL');
  await holder.ended;
  t.ok(existsSync(sample), 'it is killed before it completes');
});

t.test('the first start reports its steps and creates the sample database', async (t) => {
  const said: string[] = [];
  const database = await start(t, dataDir, said);
  t.match(said, [/sample database/]);
  t.notOk(existsSync(join(dataDir, 'mariadb/data-unfinished')), 'the remains of the interrupted start are removed');
  const connection = await connect(t, database);
  const { alarm, ...rows } = await counts(connection);
  t.match(rows, {
    river: 40,
    operator: 60,
    station: 200,
    gate: 600,
    reading: 292_800,
    gate_move: 36_000,
    type_gallery: 3,
  });
  t.ok(Number(alarm) > 1000, 'some readings have raised an alarm');
  t.same(await column(connection, 'SELECT COUNT(*) FROM station_now'), [200]);
  t.same(await column(connection, "SELECT name FROM river WHERE name = '長江'"), ['長江']);
  firstSums = await checksums(connection);
  await connection.end();
  await database.stop();
});

t.test('a second start keeps the data', async (t) => {
  const said: string[] = [];
  const begin = performance.now();
  const database = await start(t, dataDir, said);
  const tookMs = performance.now() - begin;
  t.comment(`second start: ${Math.round(tookMs)} ms`);
  // Usually less than two seconds.
  t.ok(tookMs < 20_000);
  t.same(said, []);
  const connection = await connect(t, database);
  t.equal(await checksums(connection), firstSums);
});

t.test('the sample has every column type and no row without its parent', async (t) => {
  const connection = await connect(t, await start(t, dataDir));
  const types = await column(
    connection,
    "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_schema = 'waterways' ORDER BY 1",
  );
  const expected =
    'bigint binary bit blob char date datetime decimal double enum float geometry geometrycollection inet4 inet6 int ' +
    'linestring longblob longtext mediumblob mediumint mediumtext multilinestring multipoint multipolygon point ' +
    'polygon set smallint text time timestamp tinyblob tinyint tinytext uuid varbinary varchar year';
  t.same(types, expected.split(' '));
  const [keys] = await connection.query<RowDataPacket[]>(
    `SELECT table_name AS child, column_name AS field, referenced_table_name AS parent
     FROM information_schema.key_column_usage
     WHERE table_schema = 'waterways' AND referenced_table_name IS NOT NULL`,
  );
  t.equal(keys.length, 10);
  for (const { child, field, parent } of keys) {
    const orphans = `SELECT COUNT(*) FROM ${child} AS c LEFT JOIN ${parent} AS p ON p.id = c.${field}
      WHERE c.${field} IS NOT NULL AND p.id IS NULL`;
    t.same(await column(connection, orphans), [0], `${child}.${field}`);
  }
});

t.test('only its own user can connect, and only through the socket', async (t) => {
  const database = await start(t, dataDir);
  const root = join(dataDir, 'mariadb');
  for (const folder of [dirname(database.socketPath), join(root, 'data'), join(root, 'files')]) {
    t.equal(statSync(folder).mode & 0o777, 0o700, folder);
  }
  // Root starts MariaDB as another user, who needs access to the folder.
  t.equal(statSync(root).mode & 0o777, process.getuid?.() === 0 ? 0o711 : 0o700);
  t.equal(statSync(root).uid, process.getuid?.());
  t.equal(statSync(join(root, 'error.log')).mode & 0o077, 0);
  const connection = await connect(t, database);
  t.same(await column(connection, "SELECT CONCAT(@@skip_networking, ' ', @@port, ' ', @@local_infile)"), ['ON 0 OFF']);
  t.same(await column(connection, 'SELECT @@secure_file_priv'), [`${join(root, 'files')}/`]);
  t.same(readdirSync(join(root, 'files')), [], 'the folder that SQL may read from is empty');
  t.same(
    readdirSync(dirname(database.socketPath)).sort(),
    ['mariadb.pid', 'mariadb.sock'],
    'no password is left there',
  );
});

t.test('C: MariaDB does not run as root, and owns its files', { skip: notRoot() }, async (t) => {
  const database = await start(t, dataDir);
  const { uid } = statSync(`/proc/${await serverPid(t, database)}`);
  t.not(uid, 0);
  const root = join(dataDir, 'mariadb');
  for (const name of ['data', 'data/ibdata1', 'data/waterways/reading.ibd', 'files', 'tmp', 'run/mariadb.sock']) {
    t.equal(statSync(join(root, name)).uid, uid, name);
  }
});

t.test(
  'C: if no other user can enter the folder, MariaDB runs as root, which is reported',
  { skip: notRoot() },
  async (t) => {
    const shut = await mkdtemp(join(tmpdir(), 'shut-'));
    t.teardown(() => rm(shut, { recursive: true, force: true }));
    const said: string[] = [];
    // The user can be determined without a start.
    const folder = join(shut, 'data');
    await t.rejects(startEmbedded({ dataDir: folder, startTimeoutMs: 20, observe: messagesTo(said) }));
    t.match(said[0], /^the private MariaDB runs as root, because .* can enter .*mariadb: .*--data_dir/);
    t.equal(statSync(join(folder, 'mariadb')).mode & 0o777, 0o700);
    t.equal(statSync(folder).mode & 0o777, 0o700);
  },
);

t.test('C: the account of the process has a new password at each start, and few privileges', async (t) => {
  const passwords = new Set<string>();
  for (let round = 0; round < 2; round++) {
    const database = await start(t, dataDir);
    const { socketPath, user, password } = database;
    passwords.add(password);
    t.match(password, /^[0-9a-f]{64}$/);
    const connection = await createConnection({ socketPath, user, password, database: 'waterways' });
    const grants = (await column(connection, 'SHOW GRANTS')).map((grant) => String(grant).split(' TO ')[0]);
    t.same(grants, ['GRANT USAGE ON *.*', 'GRANT SELECT ON `waterways`.*']);
    connection.destroy();
    for (const wrong of ['', 'x', ...[...passwords].filter((other) => other !== password)]) {
      await t.rejects(createConnection({ socketPath, user, password: wrong }), { code: 'ER_ACCESS_DENIED_ERROR' });
    }
    await database.stop();
  }
  t.equal(passwords.size, 2);
});

t.test('a stop leaves nothing behind and may be repeated', async (t) => {
  const database = await start(t, dataDir);
  const pid = await serverPid(t, database);
  await Promise.all([database.stop(), database.stop()]);
  t.equal(identify(pid), undefined, 'the server has ended');
  t.same(left(dataDir), ['data', 'error.log', 'files']);
  t.match(readFileSync(join(dataDir, 'mariadb/error.log'), 'utf8'), /Shutdown complete/);
});

t.test('kill removes the files at once and keeps the data', async (t) => {
  const database = await start(t, dataDir);
  const pid = await serverPid(t, database);
  database.kill();
  t.same(left(dataDir), ['data', 'error.log', 'files']);
  await gone(pid);
  const connection = await connect(t, await start(t, dataDir));
  t.equal(await checksums(connection), firstSums);
});

t.test('a server that ends by itself is reported with the end of its log', async (t) => {
  const database = await start(t, dataDir);
  process.kill(await serverPid(t, database), 'SIGKILL');
  const error = await database.exited;
  t.match(error.message, /^mariadbd ended \(SIGKILL\): .*error\.log\)$/);
  await database.stop();
  t.same(left(dataDir), ['data', 'error.log', 'files']);
});

t.test('a second server on the same data directory is refused in one line', async (t) => {
  const database = await start(t, dataDir);
  await t.rejects(start(t, dataDir), {
    message: `the data directory ${dataDir} is in use by process ${process.pid}: give each server its own --data_dir`,
  });
  const connection = await connect(t, database);
  t.same(await column(connection, 'SELECT 1'), [1], 'the first server is not affected');
});

t.test('a stale lock of a dead process is taken over', async (t) => {
  const lock = join(dataDir, 'mariadb/lock');
  writeFileSync(lock, `${process.pid} an-earlier-boot/1\n`);
  const database = await start(t, dataDir);
  await database.stop();
  t.notOk(existsSync(lock));
});

t.test('the next start ends a server that was left behind', async (t) => {
  const { server } = await findPrograms();
  const data = join(realpathSync(dataDir), 'mariadb/data');
  const socket = join(dataDir, 'left.sock');
  const user = process.getuid?.() === 0 ? ['--user=root'] : [];
  const stale = spawn(
    server,
    [
      '--no-defaults',
      ...user,
      '--skip-networking',
      `--datadir=${data}`,
      `--socket=${socket}`,
      '--innodb-log-file-size=32M',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const ended = once(stale, 'exit');
  for await (const line of createInterface(stale.stderr)) if (line.includes('ready for connections')) break;
  stale.stderr.resume();
  const connection = await connect(t, await start(t, dataDir));
  t.same((await ended)[0], 0, 'it was stopped cleanly, not killed');
  t.equal(await checksums(connection), firstSums);
});

t.test('the server ends when its parent is killed, and the next start works', { skip: noParentDeath() }, async (t) => {
  const holder = hold(t, dataDir);
  const socketPath = await holder.ready;
  const connection = await createConnection({ socketPath, user: 'root' });
  const pid = Number(readFileSync(join(dirname(socketPath), 'mariadb.pid'), 'utf8'));
  connection.on('error', () => {});
  const closed = new Promise((resolve) => connection.on('end', resolve));
  holder.process.kill('SIGKILL');
  await closed;
  await gone(pid);
  await (await start(t, dataDir)).stop();
  t.same(left(dataDir), ['data', 'error.log', 'files']);
});

t.test('the server has its own process group, which a Ctrl-C in the terminal does not reach', async (t) => {
  const database = await start(t, dataDir);
  const pid = await serverPid(t, database);
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const [, , group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  t.same([group, session], [String(pid), String(pid)]);
});

t.test(
  'with a path too long for a socket, a folder elsewhere is used and removed at the stop or by the next start',
  async (t) => {
    const deep = join(t.testdir(), 'd'.repeat(60), 'e'.repeat(60));
    await putPrivateData(deep);
    const first = await start(t, deep);
    const folder = dirname(first.socketPath);
    t.notOk(folder.startsWith(deep));
    t.equal(statSync(folder).mode & 0o777, 0o700);
    t.ok(lstatSync(join(deep, 'mariadb/run')).isSymbolicLink());
    const connection = await connect(t, first);
    t.equal(await checksums(connection), firstSums, 'another first start creates the same data');
    await connection.end();
    await first.stop();
    t.notOk(existsSync(folder));

    const holder = hold(t, deep);
    const abandoned = dirname(await holder.ready);
    holder.process.kill('SIGKILL');
    await holder.ended;
    const last = await start(t, deep);
    t.notOk(existsSync(abandoned));
    await rm(deep, { recursive: true });
    await last.stop();
    t.notOk(existsSync(dirname(last.socketPath)), 'even if the data directory was removed meanwhile');
  },
);

t.test('a first start that is aborted leaves no process and no data', async (t) => {
  const folder = realpathSync(t.testdir());
  const abort = new AbortController();
  const starting = startEmbedded({
    dataDir: folder,
    startTimeoutMs: 30_000,
    signal: abort.signal,
    observe: () => setImmediate(() => abort.abort(new Error('changed my mind'))),
  });
  await t.rejects(starting, { message: 'changed my mind' });
  t.same(left(folder), ['error.log', 'files']);
  for (const { pid } of serversBelow(folder)) await gone(pid);
});

t.test('a start that takes too long is aborted', async (t) => {
  const folder = t.testdir();
  const starting = startEmbedded({ dataDir: folder, startTimeoutMs: 20, observe: () => {} });
  await t.rejects(starting, { message: /^mariadb-install-db was not done after 20 ms: / });
  t.same(left(folder), ['error.log', 'files']);
});

t.test("a data directory that MariaDB cannot read fails with MariaDB's own error, in one line", async (t) => {
  const folder = t.testdir();
  mkdirSync(join(folder, 'mariadb/data'), { recursive: true });
  writeFileSync(join(folder, 'mariadb/data/ibdata1'), 'not a table space');
  const error = await start(t, folder).then(
    () => undefined,
    (reason: Error) => reason,
  );
  t.match(error?.message, /^mariadbd ended \(exit code 1\): .*\[ERROR\].*error\.log\)$/);
  t.same(left(folder), ['data', 'error.log', 'files']);
});

t.test('without MariaDB the error names the package to install', async (t) => {
  await t.rejects(findPrograms(t.testdir(), []), {
    message: /^no mariadbd found: install MariaDB .*mariadb-server-core.*--mysql_url$/,
  });
});

function messagesTo(said: string[]): Observe {
  return (event) => {
    if (event.type === 'embedded_database') said.push(event.message);
  };
}

/** Starts a database that stops with the test, whatever its outcome. */
async function start(t: Test, folder: string, said: string[] = []): Promise<EmbeddedDatabase> {
  const database = await startEmbedded({
    dataDir: folder,
    startTimeoutMs: 120_000,
    observe: messagesTo(said),
  });
  t.teardown(() => database.stop());
  return database;
}

async function connect(t: Test, database: EmbeddedDatabase): Promise<Connection> {
  const connection = await createConnection({
    socketPath: database.socketPath,
    user: 'root',
    database: database.database,
  });
  connection.on('error', () => {});
  t.teardown(() => connection.destroy());
  return connection;
}

/** Starts a process that starts a database; `ready` is the path of its socket. */
function hold(t: Test, folder: string): { process: ChildProcess; ready: Promise<string>; ended: Promise<unknown> } {
  const holder = spawn(process.execPath, [HOLDER, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(holder, 'exit');
  t.teardown(() => holder.kill('SIGKILL'));
  const ready = new Promise<string>((resolve) => {
    createInterface(holder.stdout).on('line', (line) => {
      if (line.startsWith('ready ')) resolve(line.slice('ready '.length));
    });
  });
  return { process: holder, ready, ended };
}

async function serverPid(t: Test, database: EmbeddedDatabase): Promise<number> {
  const connection = await connect(t, database);
  const [file] = await column(connection, 'SELECT @@pid_file');
  return Number(readFileSync(String(file), 'utf8'));
}

/** Waits for the end of a process that is not a child, for which there is no event. */
async function gone(pid: number): Promise<void> {
  await until(() => identify(pid) === undefined);
}

/** The files in the database's folder. */
function left(folder: string): string[] {
  return readdirSync(join(folder, 'mariadb')).sort();
}

async function column(connection: Connection, sql: string): Promise<unknown[]> {
  const [rows] = await connection.query<RowDataPacket[][]>({ sql, rowsAsArray: true });
  return rows.map(([value]) => value);
}

async function counts(connection: Connection): Promise<Record<string, number>> {
  const result: Record<string, number> = {};
  for (const table of BASE_TABLES) {
    const [count] = await column(connection, `SELECT COUNT(*) FROM ${table}`);
    result[table] = Number(count);
  }
  return result;
}

async function checksums(connection: Connection): Promise<string> {
  const [rows] = await connection.query(`CHECKSUM TABLE ${BASE_TABLES.join(', ')}`);
  return JSON.stringify(rows);
}

function notRoot(): string | false {
  return process.getuid?.() === 0 ? false : 'only root can start MariaDB as another user';
}

function noParentDeath(): string | false {
  return process.platform === 'linux' ? false : 'only Linux tells a child of its parent’s death';
}
