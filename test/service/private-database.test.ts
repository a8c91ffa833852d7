// Attacks on the private database over HTTP by its own user. Everybody on the machine can log in as this user.

import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { findPrograms } from '#src/embedded/programs.js';
import { putPrivateData } from '../support/private-data.ts';
import { get, type QueryError, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

const isRoot = process.getuid?.() === 0;

// All tests use one folder, sequentially.
const dataDir = mkdtempSync(join(tmpdir(), 'private-'));
await putPrivateData(dataDir);
/** A world-writable folder in which no file may appear. */
const outside = mkdtempSync(join(tmpdir(), 'outside-'));
chmodSync(outside, 0o777);
t.teardown(() => {
  for (const folder of [dataDir, outside]) rmSync(folder, { recursive: true, force: true });
});

/** Statements that would read or write outside the folder of the database, or obtain the privilege to do so. */
const attacks: readonly string[] = [
  `SET GLOBAL general_log_file = '${outside}/log'`,
  'SET GLOBAL general_log = ON',
  `SET GLOBAL slow_query_log_file = '${outside}/log'`,
  `SET GLOBAL secure_file_priv = '${outside}'`,
  'SET GLOBAL local_infile = ON',
  'SET GLOBAL event_scheduler = ON',
  `SELECT 1 INTO OUTFILE '${outside}/rows'`,
  `SELECT 1 INTO DUMPFILE '${outside}/row'`,
  `SELECT 1 INTO OUTFILE '${dataDir}/mariadb/files/rows'`,
  "LOAD DATA INFILE '/etc/passwd' INTO TABLE river",
  "CREATE FUNCTION f RETURNS STRING SONAME 'lib.so'",
  "INSTALL SONAME 'lib'",
  "INSTALL PLUGIN plugin SONAME 'lib'",
  'CREATE USER somebody@localhost',
  'GRANT FILE ON *.* TO root@localhost',
  'GRANT SELECT ON waterways.* TO root@localhost',
  "SET PASSWORD FOR 'sluice.sys'@localhost = PASSWORD('')",
  "ALTER USER 'sluice.sys'@localhost IDENTIFIED BY ''",
  "UPDATE mysql.global_priv SET Priv = '{}'",
  'SELECT * FROM mysql.global_priv',
  'DROP DATABASE mysql',
  'CREATE DATABASE elsewhere',
  "CREATE DEFINER = 'sluice.sys'@localhost VIEW stolen AS SELECT 1",
  "CREATE DEFINER = 'mariadb.sys'@localhost FUNCTION stolen() RETURNS INT RETURN 1",
  "CREATE SERVER other FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1')",
  "CHANGE MASTER TO MASTER_HOST = '127.0.0.1'",
  'FLUSH TABLES WITH READ LOCK',
  'BACKUP STAGE START',
  'SHUTDOWN',
];

/** MariaDB's errors for a missing privilege, and for a variable that cannot be set at run time. */
const refusals = new Set([1044, 1045, 1142, 1227, 1238]);

const args = ['--data_dir', dataDir, '--drain_secs', '0', '--worker_threads', '1'];
/** For tests that need no restart. */
const first = await startSluice(args);
t.teardown(() => first.stop());

async function start(t: Test): Promise<SluiceProcess> {
  const sluice = await startSluice(args);
  t.teardown(() => sluice.stop());
  return sluice;
}

async function errorOf(sluice: SluiceProcess, sql: string, user = 'root'): Promise<QueryError | null> {
  return (await query(sluice.url, sql, { user })).last.error;
}

async function rowsOf(sluice: SluiceProcess, sql: string): Promise<readonly (readonly unknown[])[]> {
  const { rows, last } = await query(sluice.url, sql);
  if (last.error !== null) throw new Error(`${sql}: ${last.error.message}`);
  return rows;
}

async function isConfined(t: Test, sluice: SluiceProcess, user = 'root'): Promise<void> {
  for (const sql of attacks) {
    const error = await errorOf(sluice, sql, user);
    t.ok(refusals.has(error?.code ?? 0), `${user}: ${sql}: ${error?.code} ${error?.message}`);
  }
  t.same(readdirSync(outside), [], 'nothing was written outside');
  t.same(readdirSync(join(dataDir, 'mariadb/files')), []);
}

t.test('C: no user has a privilege over HTTP to write files or to access other data than the sample', async (t) => {
  const sluice = first;
  await isConfined(t, sluice);
  t.same(await rowsOf(sluice, "SELECT LOAD_FILE('/etc/passwd')"), [[null]]);
  t.same(
    (await rowsOf(sluice, 'SHOW GRANTS')).map(([grant]) => grant),
    [
      'GRANT USAGE ON *.* TO `root`@`localhost`',
      'GRANT ALL PRIVILEGES ON `waterways`.* TO `root`@`localhost`',
      'GRANT ALL PRIVILEGES ON `scratch%`.* TO `root`@`localhost`',
    ],
  );
  // MariaDB ignores these options, because --skip-symbolic-links is set.
  const table = "(a INT NOT NULL PRIMARY KEY) ENGINE=InnoDB DATA DIRECTORY='OUT'".replace('OUT', outside);
  const partition = `PARTITION BY HASH (a) (PARTITION p DATA DIRECTORY='${outside}' INDEX DIRECTORY='${outside}')`;
  for (const [index, definition] of [
    table,
    table.replace('InnoDB', 'Aria'),
    table.replace('InnoDB', 'MyISAM'),
    `(a INT NOT NULL PRIMARY KEY) ENGINE=InnoDB ${partition}`,
    `(a INT NOT NULL PRIMARY KEY) ENGINE=MyISAM ${partition}`,
  ].entries()) {
    await errorOf(sluice, `CREATE TABLE placed_${index} ${definition}`);
    await errorOf(sluice, `INSERT INTO placed_${index} VALUES (1)`);
    t.same(readdirSync(outside), [], definition);
    await errorOf(sluice, `DROP TABLE placed_${index}`);
  }
});

t.test(
  'C: the user of the sample has all privileges in it, and in schemas whose name starts with scratch',
  async (t) => {
    const sluice = first;
    for (const sql of [
      'CREATE TABLE mine (a INT PRIMARY KEY, b TEXT)',
      "INSERT INTO mine VALUES (1, 'x')",
      'ALTER TABLE mine ADD COLUMN c INT, ADD KEY (c)',
      'CREATE VIEW mine_view AS SELECT a FROM mine',
      'CREATE TRIGGER mine_trigger BEFORE UPDATE ON mine FOR EACH ROW SET NEW.c = 7',
      'CREATE FUNCTION mine_function() RETURNS INT RETURN (SELECT MAX(c) FROM mine)',
      'UPDATE mine SET c = 1',
      'CREATE TEMPORARY TABLE gone AS SELECT * FROM mine',
      'CREATE DATABASE scratch',
      'CREATE DATABASE scratch_2',
      'CREATE TABLE scratch_2.t AS SELECT * FROM waterways.river',
      'LOCK TABLES mine WRITE',
    ]) {
      t.equal(await errorOf(sluice, sql), null, sql);
    }
    t.same(await rowsOf(sluice, 'SELECT mine_function()'), [[7]]);
    t.same(await rowsOf(sluice, 'SELECT COUNT(*) FROM scratch_2.t'), [[40]]);
    for (const sql of [
      'DROP FUNCTION mine_function',
      'DROP VIEW mine_view',
      'DROP TABLE mine',
      'DROP DATABASE scratch_2',
    ]) {
      t.equal(await errorOf(sluice, sql), null, sql);
    }
  },
);

t.test('C: the account of the server itself cannot be used without its password', async (t) => {
  const sluice = first;
  for (const password of ['', 'sluice', '0'.repeat(64)]) {
    const reply = await get(sluice.url, '/v1/query/x', { user: 'sluice.sys', password });
    t.equal(reply.status, 401);
  }
  t.equal((await get(sluice.url, '/ready')).status, 200, 'the server can use its account');
});

t.test('C: the user of the sample can give itself a password, which a later start keeps', async (t) => {
  t.equal(await errorOf(first, "SET PASSWORD = PASSWORD('s3cret')"), null);
  await first.stop();
  const second = await start(t);
  t.equal((await get(second.url, '/v1/query/x', { password: '' })).status, 401);
  const unset = await query(second.url, "SET PASSWORD = ''", { password: 's3cret' });
  t.equal(unset.last.error, null);
  await second.stop();
  const third = await start(t);
  t.same(await rowsOf(third, 'SELECT CURRENT_USER()'), [['root@localhost']]);
});

t.test(
  'C: a data directory of an earlier version, where root had all privileges, is confined at the start',
  async (t) => {
    const { server } = await findPrograms();
    const data = join(dataDir, 'mariadb/data');
    if (isRoot) giveTo(data, 0);
    const earlier = [
      "UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.access', 18446744073709551615) WHERE User = 'root'",
      "DELETE FROM mysql.global_priv WHERE User = 'sluice.sys'",
      'DELETE FROM mysql.db',
      'FLUSH PRIVILEGES',
      "INSERT INTO mysql.proxies_priv (Host, User, With_grant) VALUES ('localhost', 'root', 1)",
      'CREATE USER boss@localhost',
      'GRANT ALL ON *.* TO boss@localhost WITH GRANT OPTION',
      'GRANT ALL ON `%`.* TO boss@localhost',
      'CREATE USER writer@localhost',
      'GRANT ALL ON waterways.* TO writer@localhost',
      'GRANT INSERT ON mysql.plugin TO writer@localhost',
      'GRANT INSERT ON mysql.func TO writer@localhost',
      ...['my_own%`\\\\schema', 'myxown'].flatMap((name) => {
        const quoted = `\`${name.replaceAll('`', '``').replaceAll('\\\\', '\\')}\``;
        return [`CREATE DATABASE ${quoted}`, `CREATE TABLE ${quoted}.t AS SELECT 42 AS a`];
      }),
      '',
    ];
    const user = isRoot ? ['--user=root'] : [];
    const bootstrap = spawnSync(
      server,
      ['--no-defaults', ...user, `--datadir=${data}`, '--innodb-log-file-size=32M', '--bootstrap'],
      { input: earlier.join(';\n'), encoding: 'utf8' },
    );
    t.equal(bootstrap.status, 0, bootstrap.stderr);
    t.notMatch(bootstrap.stderr, /^ERROR/m, bootstrap.stderr);

    const sluice = await start(t);
    for (const name of ['root', 'boss', 'writer']) await isConfined(t, sluice, name);
    t.same(await rowsOf(sluice, 'SELECT COUNT(*) FROM river'), [[40]]);
    for (const schema of ['`my_own%``\\schema`', 'myxown']) {
      t.same(await rowsOf(sluice, `SELECT a FROM ${schema}.t`), [[42]], `${schema} can still be accessed`);
      t.equal(await errorOf(sluice, `CREATE TABLE ${schema}.more (a INT)`), null);
    }
    t.equal((await errorOf(sluice, 'CREATE DATABASE myyown'))?.code, 1044, 'a schema name is not used as a pattern');
    t.equal((await query(sluice.url, 'SELECT COUNT(*) FROM river', { user: 'writer' })).last.error, null);
    const { uid } = statSync(join(data, 'ibdata1'));
    if (isRoot) t.not(uid, 0, 'the files belong to the user that MariaDB runs as');
  },
);

t.test('C: the start fails when the privileges cannot be set', async (t) => {
  const data = join(dataDir, 'mariadb/data');
  // Simulates a damaged data directory: the first statement that sets privileges fails.
  for (const name of readdirSync(join(data, 'mysql'))) {
    if (name.startsWith('proxies_priv.')) rmSync(join(data, 'mysql', name));
  }
  await t.rejects(startSluice(['--data_dir', dataDir]), /the privileges could not be set: .*proxies_priv.*error\.log/);
  await until(() => !existsSync(join(dataDir, 'mariadb/lock')));
  t.same(readdirSync(join(dataDir, 'mariadb')).sort(), ['data', 'error.log', 'files'], 'nothing is left running');
});

function giveTo(folder: string, uid: number): void {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    chownSync(join(entry.parentPath, entry.name), uid, uid);
  }
  chownSync(folder, uid, uid);
}
