import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { type DatabaseKind, type DatabaseServer, isInstalled, startServer } from '../support/servers.ts';
import { get, post, type QueryResponse, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * `outcome` and `retryable` of failed statements are compared with the actual data.
 */

t.setTimeout(540_000);

const noWait = { pagination: { wait_time_secs: 0 } };
const longWait = { pagination: { wait_time_secs: 20 } };

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  t.test(kind, { skip: !isInstalled(kind) }, async (t) => {
    const server = await startServer(kind, ['--innodb-lock-wait-timeout=1']);
    t.teardown(() => server.stop());
    const name = `outcomes_${randomBytes(4).toString('hex')}`;
    await server.sql(`CREATE DATABASE ${name}; USE ${name};
      CREATE TABLE t (i INT PRIMARY KEY); INSERT INTO t VALUES (1), (2);
      DELIMITER //
      CREATE PROCEDURE half() BEGIN INSERT INTO t VALUES (100); COMMIT; INSERT INTO t VALUES (1); END//
      CREATE PROCEDURE dynamic() BEGIN
        INSERT INTO t VALUES (101); COMMIT; PREPARE s FROM 'nonsense here'; EXECUTE s;
      END//
      CREATE PROCEDURE two() BEGIN INSERT INTO t VALUES (102); SELECT 1; SELECT 2; END//`);
    const there = async (i: number): Promise<boolean> =>
      (await server.sql(`SELECT i FROM ${name}.t WHERE i = ${i}`)) !== '';
    const sluice = await start(t, server, name);

    t.test('errors that the database reports', async (t) => {
      const cases: [sql: string, code: number, outcome: string, retryable: boolean][] = [
        ['SELEC 1', 1064, 'not_started', false],
        ['/* a comment */ INSERT INTO t VALUES', 1064, 'not_started', false],
        ['', 1065, 'not_started', false],
        ['SELECT * FROM missing', 1146, 'rolled_back', false],
        ['INSERT INTO t VALUES (50), (1)', 1062, 'rolled_back', false],
        ['UPDATE t SET i = 2 WHERE i = 1', 1062, 'rolled_back', false],
        ['CREATE TABLE t (i INT)', 1050, 'rolled_back', false],
        ['WITH c AS (SELECT 1 AS i) SELECT missing FROM c', 1054, 'rolled_back', false],
        ['CALL half()', 1062, 'unknown', false],
        ['CALL dynamic()', 1064, 'unknown', false],
      ];
      for (const [sql, code, outcome, retryable] of cases) {
        const { last } = await query(sluice.url, sql);
        t.match(last, { state: 'Failed', error: { code, outcome, retryable } }, `${sql}: ${last.error?.message}`);
      }
      t.notOk(await there(50), 'the rows of a statement that was rolled back do not exist');
      t.ok((await there(100)) && (await there(101)), 'rows of a statement with an unknown outcome may exist');
      const two = await query(sluice.url, 'CALL two()');
      t.match(two.last.error, { code: 90008, outcome: 'committed', retryable: false });
      t.ok(await there(102));
    });

    t.test(
      'a statement that MariaDB executes in parts is not reported as rolled back',
      { skip: kind !== 'mariadb' },
      async (t) => {
        const [first, second] = [1, 2].map((number) => `${name}_${number}`);
        await server.sql(`CREATE TABLE ${name}.old (i INT); CREATE USER ${second}`);
        const cases: [sql: string, code: number, check: string, left: string][] = [
          [
            'CREATE OR REPLACE TABLE old (i INT PRIMARY KEY) AS SELECT 1 AS i UNION ALL SELECT 1',
            1062,
            `SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '${name}' AND TABLE_NAME = 'old'`,
            '0',
          ],
          [
            `CREATE USER ${first}, ${second}`,
            1396,
            `SELECT COUNT(*) FROM mysql.user WHERE User IN ('${first}', '${second}')`,
            '2',
          ],
        ];
        for (const [sql, code, check, left] of cases) {
          const { last } = await query(sluice.url, sql);
          t.equal(await server.sql(check), left, `the statement has changed data: ${sql}`);
          t.match(last.error, { code, outcome: 'unknown', retryable: false }, sql);
        }
      },
    );

    t.test('a lock wait timeout is retryable, unless the statement belongs to a session', async (t) => {
      const body = { session: { max_idle_time: 60 } };
      const { session_id } = (await query(sluice.url, 'BEGIN', { body })).last;
      const own = { session: { id: session_id } };
      await query(sluice.url, 'UPDATE t SET i = 2 WHERE i = 2', { body: own });
      const blocked = (await query(sluice.url, 'UPDATE t SET i = 3 WHERE i = 2', { body: longWait })).last;
      t.match(blocked.error, { code: 1205, outcome: 'rolled_back', retryable: true });
      const other = (await query(sluice.url, 'BEGIN', { body })).last.session_id;
      const inSession = { session: { id: other }, ...longWait };
      t.match((await query(sluice.url, 'DELETE FROM t WHERE i = 2', { body: inSession })).last.error, {
        code: 1205,
        outcome: 'rolled_back',
        retryable: false,
      });
      for (const id of [session_id, other]) await query(sluice.url, 'ROLLBACK', { body: { session: { id } } });
      t.ok(await there(2));
    });

    t.test('the statement is cancelled, times out or is not started', async (t) => {
      const read = await begin(sluice, 'SELECT SLEEP(600)');
      const write = await begin(sluice, 'INSERT INTO t SELECT 60 + SLEEP(600)');
      await until(async () => (await server.sql(countSleeping('SLEEP(600)'))) === '2');
      for (const { stats_uri } of [read, write]) await get(sluice.url, `${stats_uri}/kill`);
      t.match((await get(sluice.url, read.stats_uri)).json.error, {
        code: 90002,
        outcome: 'rolled_back',
        retryable: true,
      });
      const { error } = (await get(sluice.url, write.stats_uri)).json;
      t.match(error, { code: 90002, outcome: 'unknown', retryable: false });
      t.match(error?.message, /whether the statement took effect is unknown/);
      const late = await query(sluice.url, 'SELECT SLEEP(600)', { body: { timeout_secs: 1, ...longWait } });
      t.match(late.last.error, { code: 90005, outcome: 'rolled_back', retryable: false });
      const orphan = await query(sluice.url, 'SELECT 1', { body: { session: { id: 'none' } } });
      t.match(orphan.last.error, { code: 90001, outcome: 'not_started', retryable: false });
      const nowhere = await query(sluice.url, 'SELECT 1', { body: { session: { database: 'nowhere' } } });
      t.match(nowhere.last.error, { code: 1049, outcome: 'not_started', retryable: false });
    });

    t.test('the connection is lost while the statement runs', async (t) => {
      const kept = (await query(sluice.url, 'SELECT 1', { body: { session: { max_idle_time: 60 } } })).last.session_id;
      const own = { session: { id: kept } };
      const read = await begin(sluice, "SELECT SLEEP(600), 'lost'");
      const write = await begin(sluice, "INSERT INTO t SELECT 70 + SLEEP(600) FROM (SELECT 'lost') a");
      const inSession = await begin(sluice, "SELECT SLEEP(600), 'lost too'", own);
      const behind = await begin(sluice, 'INSERT INTO t VALUES (71)', own);
      await until(async () => Number(await server.sql(countSleeping('lost'))) === 3);
      await server.kill();
      const errors = await Promise.all([read, write, inSession, behind].map((one) => settledError(sluice, one)));
      t.match(errors[0], { code: 90006, outcome: 'rolled_back', retryable: true }, 'a one-off read');
      t.match(errors[1], { code: 90006, outcome: 'unknown', retryable: false }, 'a write');
      t.match(
        errors[2],
        { code: 90006, outcome: 'rolled_back', retryable: false },
        'a read in a session, which has ended',
      );
      t.match(
        errors[3],
        { code: 90006, outcome: 'not_started', retryable: false },
        'a statement that waited in that session',
      );
      await server.restart();
      t.notOk(await there(71));
    });
  });
}

/** A query that counts the sleeping statements with this text. */
function countSleeping(text: string): string {
  return `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%${text}%' AND STATE LIKE '%sleep%'`;
}

async function begin(sluice: SluiceProcess, sql: string, more: object = {}): Promise<QueryResponse> {
  const { json } = await post(sluice.url, { sql, ...noWait, ...more });
  return json;
}

async function settledError(sluice: SluiceProcess, { stats_uri }: QueryResponse) {
  let last = (await get(sluice.url, stats_uri)).json;
  await until(async () => {
    last = (await get(sluice.url, stats_uri)).json;
    return last.state !== 'Running';
  });
  return last.error;
}

async function start(t: Test, server: DatabaseServer, database: string): Promise<SluiceProcess> {
  const options = ['--drain_secs', '0', '--worker_threads', '2', '--connect_timeout_secs', '3'];
  const sluice = await startSluice(['--mysql_url', `${server.url}${database}`, ...options]);
  t.teardown(() => sluice.kill());
  return sluice;
}
