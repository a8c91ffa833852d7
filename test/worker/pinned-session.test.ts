import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { SessionState } from '#src/wire/statement.js';
import { open as openExecutor, type Reported, runs } from '../support/executor.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { until } from '../support/until.ts';

// Both servers share the machine with other processes.
t.setTimeout(540_000);

/** The session state that a statement has left, as far as it can be queried, and whether the connection was reset since. */
const lookAround = `SELECT @x, DATABASE(), @@autocommit, @@sql_mode, @@net_write_timeout,
  @@session_track_transaction_info`;

for (const server of await sharedServers()) {
  t.test(`statements that may pin their session on ${server.kind}`, async (t) => {
    await t.test('a statement that leaves no state leaves a clean connection', async (t) => {
      const { peer, hold, isClean } = await open(t, server);
      for (const sql of [
        'SELECT 1',
        'INSERT INTO t (a) VALUES (1)',
        'DO 0',
        'SELECT nothing',
        'nonsense',
        'CALL nothing()',
      ]) {
        const reported = await hold(sql);
        t.match(reported.session, { inTransaction: false, isPinned: false, variables: {} }, sql);
        t.match(reported.order.at(-1), /end\+session$/, 'the end does not wait for the reset');
        t.equal(peer.messages.at(-1)?.type, 'idle');
        t.ok(await isClean(), sql);
      }
    });

    await t.test('a transaction pins its session until it ends in any way', async (t) => {
      const { hold, isClean, isPinned } = await open(t, server);
      for (const end of ['COMMIT', 'ROLLBACK', 'CREATE TABLE IF NOT EXISTS u (a INT)']) {
        for (const sql of [
          'BEGIN',
          'INSERT INTO t (a) VALUES (2)',
          'SELECT * FROM t',
          'nonsense',
          'UPDATE t SET a = 3',
        ]) {
          t.match((await hold(sql)).session, { inTransaction: true, isPinned: true }, sql);
        }
        t.ok(await isPinned());
        t.match((await hold(end)).session, { inTransaction: false, isPinned: false, variables: {} }, end);
        t.ok(await isClean(), end);
      }
    });

    await t.test('the next statement can query the diagnostics of the last one', async (t) => {
      const { hold } = await open(t, server);
      const variables = { sql_mode: '', no_such_variable: '1' };
      await hold('BEGIN', variables);
      t.match((await hold("INSERT INTO t (a, c) VALUES (1, 'too long')", variables)).end, { outcome: { warnings: 1 } });
      t.match((await hold('SHOW WARNINGS', variables)).batches.join(), /truncated/i);
      await hold('UPDATE t SET a = a + 10', variables);
      t.match((await hold('SELECT ROW_COUNT()', variables)).batches.join(), '[1]');
      await hold('SELECT * FROM nothing', variables);
      t.match((await hold('SHOW ERRORS', variables)).batches.join(), /nothing/);
      t.match((await hold('ROLLBACK')).session, { isPinned: false });
    });

    await t.test('a deadlock ends the transaction that it rolls back', async (t) => {
      const one = await open(t, server);
      const { database } = one;
      const two = await open(t, server);
      await one.hold(`INSERT INTO t (a) VALUES (1), (2)`);
      for (const [number, { hold }] of [one, two].entries()) {
        await hold('BEGIN');
        await hold(`UPDATE ${database}.t SET b = 1 WHERE a = ${number + 1}`);
      }
      const ends = await Promise.all([
        one.hold('UPDATE t SET b = 2 WHERE a = 2'),
        until(async () => {
          await delay(trxCacheMs);
          return (await server.sql(locksWaited)) !== '0';
        }).then(() => two.hold(`UPDATE ${database}.t SET b = 2 WHERE a = 1`)),
      ]);
      const failed = ends.findIndex(({ end }) => end?.ok === false);
      t.match(ends[failed], {
        end: { failure: { code: 1213, outcome: 'rolled_back', retryable: false } },
        session: { inTransaction: false, isPinned: false },
      });
      t.match(ends[1 - failed], { end: { ok: true }, session: { inTransaction: true, isPinned: true } });
      await [one, two][1 - failed]?.hold('COMMIT');
      for (const { isClean } of [one, two]) t.ok(await isClean());
    });

    await t.test('a lock wait timeout is retryable outside a transaction only', async (t) => {
      const { hold, database, isPinned } = await open(t, server);
      const other = await open(t, server);
      await hold('INSERT INTO t (a) VALUES (1)');
      await other.hold('BEGIN');
      await other.hold(`UPDATE ${database}.t SET b = 1`);
      const wait = { innodb_lock_wait_timeout: '1' };
      const alone = await hold('UPDATE t SET b = 2', wait);
      t.match(alone.end, { failure: { code: 1205, outcome: 'rolled_back', retryable: true } });
      await hold('BEGIN', wait);
      const held = await hold('UPDATE t SET b = 2', wait);
      t.match(held, { end: { failure: { code: 1205, retryable: false } }, session: { isPinned: true } });
      t.ok(await isPinned());
    });

    for (const [what, sql, inTransaction = false] of [
      ['a temporary table', 'CREATE TEMPORARY TABLE own (a INT)'],
      ['a temporary table with its rows', 'CREATE /* x */ TEMPORARY TABLE own AS SELECT 1 AS a'],
      ['a user variable', 'SET @x = 7'],
      ['a user variable beside a variable', "SET @x = 7, sql_mode = 'ANSI'"],
      ['a user variable in a SELECT', 'SELECT @x := 7'],
      ['a user variable that SELECT INTO sets', 'SELECT 7 INTO @x'],
      ['a user variable that a function sets', 'SELECT f()'],
      ['a user variable that a procedure sets', 'CALL p()'],
      ['a user variable beside a variable that a procedure sets', 'CALL q()'],
      ['a prepared statement', "PREPARE x FROM 'SELECT 1'"],
      ['a named lock', "SELECT GET_LOCK('x', 0)"],
      ['the characteristics of the next transaction', 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE'],
      ['a role', 'SET ROLE NONE'],
      ['a handler', 'HANDLER t OPEN'],
      ['tracking of other variables', "SET session_track_system_variables = 'autocommit'"],
      ['disabled tracking of changes', 'SET session_track_state_change = 0'],
      ['profiles', 'SET profiling = 1'],
      ['the next insert id', 'SET insert_id = 77'],
      ['locked tables', 'LOCK TABLES t WRITE', true],
      ['A (attack): the collation of SET NAMES', 'SET NAMES utf8mb4 COLLATE utf8mb4_bin'],
      ['A (attack): autocommit that is set off without a scope', 'SET @@autocommit = 0'],
      ['A (attack): the same beside others', "SET sql_mode = '', @@`autocommit`=OFF"],
    ] as const) {
      await t.test(`${what} pins the session`, async (t) => {
        const { peer, hold, isClean, isPinned } = await open(t, server);
        t.match(await hold(sql), { end: { ok: true }, session: { isPinned: true, inTransaction } });
        t.match((await hold('SELECT 1')).session, { isPinned: true, inTransaction });
        t.match((await hold('nonsense')).session, { isPinned: true, inTransaction });
        t.ok(await isPinned());
        await peer.run('DO 0', { after: 'clean' });
        t.ok(await isClean(), 'it is dropped when the session is unpinned');
      });
    }

    await t.test(
      'A (attack): a variable that is set without a scope is reported, or pins the session if it is not',
      async (t) => {
        for (const [sql, value] of [
          ["SET @@sql_mode = 'ANSI_QUOTES'", 'SELECT @@sql_mode'],
          ["SET @@time_zone = '+03:00'", 'SELECT @@time_zone'],
        ] as const) {
          const { hold } = await open(t, server);
          const { session } = await hold(sql);
          t.match((await hold(value, session?.variables)).batches.join(), /ANSI_QUOTES|\+03:00/, sql);
        }
      },
    );

    await t.test('A (attack): SET NAMES replaces a collation that was set before', async (t) => {
      const { hold } = await open(t, server);
      const { session } = await hold('SET collation_connection = utf8mb4_bin');
      t.match(session?.variables, { collation_connection: 'utf8mb4_bin' });
      const after = (await hold('SET NAMES utf8mb4', session?.variables)).session;
      t.notMatch((await hold('SELECT @@collation_connection', after?.variables)).batches.join(), /utf8mb4_bin/);
    });

    await t.test('a transaction with its own characteristics ends like any other', async (t) => {
      const { hold, isClean } = await open(t, server);
      for (const sql of ['SET TRANSACTION ISOLATION LEVEL SERIALIZABLE', 'BEGIN', 'SELECT * FROM t']) {
        t.match((await hold(sql)).session, { isPinned: true }, sql);
      }
      t.match((await hold('COMMIT')).session, { isPinned: false });
      t.match((await hold('START TRANSACTION READ ONLY')).session, { isPinned: true });
      t.match((await hold('COMMIT')).session, { isPinned: false });
      t.ok(await isClean());
    });

    await t.test('a schema and variables are reported and do not pin the session', async (t) => {
      const { database, hold, isClean } = await open(t, server);
      const sqlMode = 'NO_BACKSLASH_ESCAPES';
      t.strictSame((await hold('USE mysql')).session, { ...state('mysql'), isChanged: true });
      t.ok(await isClean());
      t.strictSame((await hold(`SET SESSION sql_mode = '${sqlMode}'`)).session, {
        ...state(database, { sql_mode: sqlMode }),
        isChanged: true,
      });
      t.ok(await isClean());
      t.strictSame((await hold('SET NAMES latin1')).session, state(database));
      t.strictSame((await hold('SET net_write_timeout = 7, wait_timeout = 8')).session, state(database));
      t.ok(await isClean());
      t.strictSame((await hold('SET @@global.max_connections = @@global.max_connections + 0')).session?.variables, {});
      await server.sql('CREATE DATABASE IF NOT EXISTS held_away');
      await hold('BEGIN');
      await hold('USE held_away');
      t.strictSame((await hold("SET time_zone = '+01:00'")).session, {
        ...state('held_away', { time_zone: '+01:00' }),
        inTransaction: true,
        isPinned: true,
        isChanged: true,
      });
      t.strictSame((await hold('DROP DATABASE held_away')).session, {
        ...state(null, { time_zone: '+01:00' }),
        isChanged: true,
      });
      t.ok(await isClean());
    });

    await t.test('A1: without autocommit, the session is pinned until it is on again', async (t) => {
      const { database, hold, isClean, isPinned } = await open(t, server);
      const off = { ...state(database, { autocommit: 'OFF' }), isPinned: true };
      t.strictSame((await hold('SET autocommit = 0')).session, { ...off, isChanged: true });
      t.strictSame((await hold('DO 0')).session, off);
      t.strictSame((await hold('SELECT * FROM t')).session, { ...off, inTransaction: true, isChanged: true });
      t.strictSame((await hold('SELECT * FROM t')).session, { ...off, inTransaction: true });
      t.strictSame((await hold('ROLLBACK')).session, { ...off, isChanged: true });
      t.ok(await isPinned());
      const on = { ...state(database, { autocommit: 'ON' }), isChanged: true };
      t.strictSame((await hold('SET autocommit = 1')).session, on);
      t.ok(await isClean());
      t.strictSame((await hold('DO 0', { autocommit: '0' })).session, off, 'the client has set it, not the statement');
      t.strictSame((await hold('SET autocommit = 1', { autocommit: 'OFF' })).session, on);
      t.ok(await isClean());
    });

    await t.test('A1: variables that are set for the client do not count as changes by the statement', async (t) => {
      const { hold } = await open(t, server);
      const variables = { foreign_key_checks: '0', sql_mode: 'ansi_quotes' };
      const isChanged = async (sql: string) => (await hold(sql, variables)).session?.isChanged;
      t.equal(await isChanged('SELECT 1'), false);
      t.equal(await isChanged("SET sql_mode = 'ANSI_QUOTES'"), false);
      t.equal(await isChanged("SET sql_mode = ''"), true);
      t.equal(await isChanged('INSERT INTO t (a) VALUES (1)'), false);
      t.equal(await isChanged('SET @x = 1'), true);
      t.equal(await isChanged('SELECT @x'), false);
      t.equal(await isChanged('BEGIN'), true);
      t.equal(await isChanged('INSERT INTO t (a) VALUES (1)'), false);
      t.equal(await isChanged('COMMIT'), true);
    });

    await t.test('E (temporary tables): a session is pinned until the last one is dropped', async (t) => {
      const { database, hold, isClean } = await open(t, server);
      for (const [creates, drops] of [
        [['CREATE TEMPORARY TABLE own (a INT)'], ['DROP TABLE own']],
        [['create temporary table if not exists `o``w n` select 1 as a'], ['drop temporary table `o``w n` ;']],
        [
          [`CREATE TEMPORARY TABLE ${database}.one (a INT)`, 'CREATE TEMPORARY TABLE two AS SELECT * FROM one'],
          ['DROP TEMPORARY TABLE IF EXISTS one', `DROP TABLE IF EXISTS other, ${database} . two`],
        ],
        [['CREATE TEMPORARY TABLE one (a INT)', 'CREATE TEMPORARY TABLE two (a INT)'], ['DROP TABLE one, two']],
      ] as const) {
        for (const sql of creates) t.match((await hold(sql)).session, { isPinned: true }, sql);
        t.match((await hold('SELECT 1')).session, { isPinned: true });
        t.match((await hold('DROP TABLE nothing')).session, { isPinned: true });
        for (const [index, sql] of drops.entries()) {
          t.match(
            (await hold(sql)).session,
            { isPinned: index < drops.length - 1, isChanged: index === drops.length - 1 },
            sql,
          );
        }
        t.ok(await isClean());
      }
    });

    await t.test('E (temporary tables): a session stays pinned if the remaining tables are uncertain', async (t) => {
      for (const statements of [
        [
          'CREATE TEMPORARY TABLE own (a INT)',
          'ALTER TABLE own RENAME TO renamed',
          'CREATE TABLE own (a INT)',
          'DROP TABLE own',
        ],
        ['CREATE TEMPORARY TABLE own (a INT)', 'USE mysql', 'DROP TABLE IF EXISTS own'],
        ['CREATE TEMPORARY TABLE own AS SELECT @x := 1 AS a', 'DROP TABLE own'],
        ['CREATE TEMPORARY TABLE own (a INT)', 'SET @x = 1', 'DROP TABLE own'],
        ['CREATE /* c */ TEMPORARY TABLE own (a INT)', 'DROP TABLE own'],
        ['CREATE TEMPORARY TABLE own (a INT)', 'DROP TABLE own, nothing'],
        ['CREATE TEMPORARY TABLE own (a INT)', 'CREATE TEMPORARY TABLE other (a INT)', 'DROP TABLE own'],
      ]) {
        const { hold } = await open(t, server);
        for (const sql of statements) t.match((await hold(sql)).session, { isPinned: true }, sql);
      }
    });

    await t.test('a session without a schema is pinned and reset as well', async (t) => {
      const { hold, isClean } = await open(t, server, { withDatabase: false });
      t.strictSame((await hold('SELECT 1')).session, state(null));
      t.strictSame((await hold('USE mysql')).session, { ...state('mysql'), isChanged: true });
      t.ok(await isClean());
      await hold('BEGIN');
      await hold('USE mysql');
      t.match((await hold('COMMIT')).session, { schema: 'mysql', isPinned: false });
      t.ok(await isClean());
    });

    await t.test('text is correct in a pinned session', async (t) => {
      const { hold } = await open(t, server);
      await hold('BEGIN');
      for (const sql of ['SET NAMES latin1', 'SET character_set_results = binary']) {
        t.match((await hold(sql)).session, { isPinned: true });
        t.equal((await hold("SELECT 'é 😀'")).batches.join(), '["é 😀"]');
      }
    });

    await t.test('the next idle after a cancelled statement reports whether the session is pinned', async (t) => {
      const { id, peer, hold, isClean } = await open(t, server);
      for (const inTransaction of [false, true]) {
        if (inTransaction) await hold('BEGIN');
        const idles = peer.idles;
        const statement = peer.start('SELECT SLEEP(100)', { after: 'pin' });
        await runs(server, id);
        peer.post({ type: 'cancel', statement });
        await until(() => peer.idles > idles);
        t.equal(peer.reported(statement).end, null);
        t.match(peer.messages.at(-1), { type: 'idle', session: { inTransaction, isPinned: inTransaction } });
        if (inTransaction) t.match((await hold('COMMIT')).session, { isPinned: false });
        t.ok(await isClean());
      }
    });

    await t.test('after a cancel at any time the session matches its report', async (t) => {
      const { peer, hold, isClean } = await open(t, server);
      for (let round = 0; round < 30; round++) {
        if (round % 2 === 1) await hold('BEGIN');
        const idles = peer.idles;
        const variables = { time_zone: `+0${round % 9}:00` };
        const statement = peer.start('SELECT SLEEP(0.003)', { after: 'pin', variables });
        await new Promise((resolve) => setTimeout(resolve, round % 7));
        peer.post({ type: 'cancel', statement });
        await until(() => peer.idles > idles || peer.closed);
        // A kill during COM_RESET_CONNECTION makes MariaDB close the connection.
        if (peer.closed) return;
        const isPinned = round % 2 === 1;
        t.match(
          (await hold('DO 0', variables)).session,
          { variables, inTransaction: isPinned, isPinned },
          `round ${round}`,
        );
        if (isPinned) await hold('ROLLBACK');
        if (!(await isClean())) t.fail(`round ${round}`);
      }
    });

    await t.test('a lost connection reports no session state', async (t) => {
      const { id, peer, hold } = await open(t, server);
      await hold('BEGIN');
      const statement = peer.start('DO SLEEP(100)', { after: 'pin' });
      await runs(server, id);
      await server.sql(`KILL ${id}`);
      await until(() => peer.closed);
      t.match(peer.reported(statement), { end: { failure: { code: 90_006, retryable: false } }, session: null });
    });

    await t.test('--read_only changes only the transactions', async (t) => {
      const { database, hold, isClean, isPinned } = await open(t, server, { readOnly: true });
      t.match((await hold('INSERT INTO t (a) VALUES (1)')).end, { failure: { code: 1792 } });
      t.strictSame((await hold('SELECT * FROM t')).session, state(database));
      t.match((await hold('BEGIN')).session, { isPinned: false });
      t.match((await hold("SET sql_mode = ''")).session, { ...state(database, { sql_mode: '' }), isChanged: true });
      const readWrite = { transaction_read_only: 'OFF', tx_read_only: 'OFF', time_zone: '+02:00' };
      t.match(await hold('INSERT INTO t (a) VALUES (1)', readWrite), {
        end: { failure: { code: 1792 } },
        session: state(database, { time_zone: '+02:00' }),
      });
      t.strictSame((await hold('SET SESSION TRANSACTION READ WRITE')).session, state(database));
      t.match((await hold('INSERT INTO t (a) VALUES (1)')).end, { failure: { code: 1792 } });
      t.ok(await isClean());
      t.match((await hold('SET @x = 1')).session, { inTransaction: false, isPinned: true });
      t.match((await hold('INSERT INTO t (a) VALUES (@x)')).end, { failure: { code: 1792 } });
      t.ok(await isPinned());
    });
  });
}

/** INNODB_TRX is cached until it has not been read for 100 ms. */
const trxCacheMs = 150;
const locksWaited = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";

function state(schema: string | null, variables: SessionState['variables'] = {}): SessionState {
  return { schema, variables, inTransaction: false, isPinned: false, isChanged: false };
}

interface OpenOptions {
  readonly withDatabase?: boolean;
  readonly readOnly?: boolean;
}

async function open(t: Test, server: DatabaseServer, { withDatabase = true, readOnly = false }: OpenOptions = {}) {
  const { database, id, peer } = await openExecutor(t, server, { readOnly }, { withDatabase });
  await server.sql(
    `CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT, c CHAR(3), UNIQUE (a));
    SET GLOBAL log_bin_trust_function_creators = 1;
    DELIMITER //
    CREATE FUNCTION f() RETURNS INT BEGIN SET @x = 7; RETURN 1; END //
    CREATE PROCEDURE p() SET @x = 7 //
    CREATE PROCEDURE q() BEGIN SET @x = 7; SET sql_mode = ''; END //`,
    { database },
  );
  const look = async (): Promise<string> => (await peer.run(lookAround)).batches.join();
  const clean = await look();
  return {
    database,
    id,
    peer,
    hold: (sql: string, variables: SessionState['variables'] = {}): Promise<Reported> =>
      peer.run(sql, { after: 'pin', variables }),
    isClean: async (): Promise<boolean> => (await look()) === clean,
    isPinned: async (): Promise<boolean> => (await look()) !== clean,
  };
}
