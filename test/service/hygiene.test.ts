import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { figure } from '../support/form.ts';
import { type Random, seeded } from '../support/random.ts';
import { type DatabaseKind, isInstalled, startServer } from '../support/servers.ts';
import { query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/** In the short form, each trace is tried about once. */
const pairCount = figure(70, 500);
const lanes = 12;
/**
 * How long other connections may see state that is only released by the clean-up after the answer; usually some
 * milliseconds.
 */
const cleanUpMsMax = 20_000;

/** Statements that leave residue, and one that detects it. `$` stands for a unique number. */
interface Trace {
  readonly leave: readonly string[];
  readonly look: string;
  readonly only?: DatabaseKind;
  /** Other connections can see it too, so `look` may run before the connection is cleaned. */
  readonly shared?: boolean;
  /** It blocks all other statements while it lasts. */
  readonly alone?: boolean;
  /** Not visible to the next statement of the same connection; tried because it could break that statement. */
  readonly unseen?: boolean;
}

const traces: readonly Trace[] = [
  { leave: ["SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"], look: 'SELECT @@sql_mode, "a", \'\\n\'' },
  { leave: ["SET SESSION time_zone = '+05:00'"], look: 'SELECT @@time_zone' },
  { leave: ['SET autocommit = 0'], look: 'SELECT @@autocommit' },
  {
    leave: ['SET SESSION foreign_key_checks = 0, unique_checks = 0'],
    look: 'SELECT @@foreign_key_checks, @@unique_checks',
  },
  { leave: ['SET sql_select_limit = 1'], look: 'SELECT * FROM t ORDER BY i' },
  {
    leave: ['SET SESSION net_write_timeout = 1, wait_timeout = 1'],
    look: 'SELECT @@net_write_timeout, @@wait_timeout',
  },
  { leave: ['SET SESSION max_statement_time = 3'], look: 'SELECT @@max_statement_time', only: 'mariadb' },
  { leave: ['SET SESSION max_execution_time = 3'], look: 'SELECT @@max_execution_time', only: 'mysql' },
  {
    leave: ['SET STATEMENT max_statement_time = 3 FOR SELECT 1'],
    look: 'SELECT @@max_statement_time',
    only: 'mariadb',
    unseen: true,
  },
  { leave: ['SET @x = 5, @y := 6'], look: 'SELECT @x, @y' },
  { leave: ['SELECT 7 INTO @x'], look: 'SELECT @x' },
  { leave: ['USE mysql'], look: 'SELECT DATABASE()' },
  { leave: ['CREATE DATABASE gone_$', 'USE gone_$', 'DROP DATABASE gone_$'], look: 'SELECT DATABASE()' },
  { leave: ['CREATE TEMPORARY TABLE leak_$ (i INT)'], look: 'SELECT * FROM leak_$' },
  { leave: ['CREATE TEMPORARY TABLE t AS SELECT 99 AS i'], look: 'SELECT * FROM t ORDER BY i' },
  {
    leave: ["SELECT GET_LOCK('leak_$', 0)"],
    look: "SELECT IS_FREE_LOCK('leak_$'), IS_USED_LOCK('leak_$')",
    shared: true,
  },
  { leave: ['BEGIN'], look: 'SELECT @@in_transaction', only: 'mariadb' },
  { leave: ['START TRANSACTION READ ONLY'], look: 'INSERT INTO log VALUES ($)' },
  { leave: ['SET TRANSACTION READ ONLY'], look: 'INSERT INTO log VALUES ($)' },
  { leave: ['SET SESSION TRANSACTION READ ONLY'], look: 'INSERT INTO log VALUES ($)' },
  {
    leave: ['SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE'],
    look: "SHOW SESSION VARIABLES LIKE '%isolation'",
  },
  {
    leave: ['START TRANSACTION WITH CONSISTENT SNAPSHOT'],
    look: `SELECT COUNT(*) FROM performance_schema.events_transactions_current e
      JOIN performance_schema.threads t USING (THREAD_ID)
      WHERE t.PROCESSLIST_ID = CONNECTION_ID() AND e.STATE = 'ACTIVE' AND e.AUTOCOMMIT = 'NO'`,
    only: 'mysql',
  },
  { leave: ['CALL leave_open($)'], look: 'SELECT COUNT(*) FROM log WHERE i = -$', shared: true },
  { leave: ['CALL leave_open($)'], look: 'INSERT INTO unique_log VALUES ($)', shared: true },
  { leave: ['LOCK TABLES t READ'], look: 'SELECT COUNT(*) FROM log WHERE i = -1' },
  { leave: ['LOCK TABLES t WRITE'], look: 'SELECT COUNT(*) FROM log WHERE i = -1' },
  { leave: ["PREPARE leak FROM 'SELECT 1'"], look: 'EXECUTE leak' },
  { leave: ['SET ROLE hygiene_role'], look: 'SELECT CURRENT_ROLE()' },
  {
    leave: ['SET NAMES latin1'],
    look: "SELECT @@character_set_client, @@character_set_results, @@collation_connection, 'ä€😀'",
    unseen: true,
  },
  { leave: ["SET collation_connection = 'utf8mb4_bin'"], look: 'SELECT @@collation_connection' },
  { leave: ["SET lc_time_names = 'de_DE'"], look: "SELECT DATE_FORMAT('2020-01-01', '%W')" },
  { leave: ['HANDLER t OPEN AS leak'], look: 'HANDLER leak READ FIRST' },
  { leave: ['SELECT LAST_INSERT_ID(7)'], look: 'SELECT LAST_INSERT_ID()' },
  { leave: ['INSERT INTO counted VALUES ()'], look: 'SELECT LAST_INSERT_ID(), @@last_insert_id, @@identity' },
  { leave: ['SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1'], look: 'SELECT FOUND_ROWS()' },
  { leave: ['DELETE FROM t WHERE i < 0', 'UPDATE counted SET v = v + 1'], look: 'SELECT ROW_COUNT()' },
  { leave: ["SELECT CAST('x' AS SIGNED)"], look: 'SHOW WARNINGS' },
  { leave: ["SELECT CAST('x' AS SIGNED)"], look: 'SELECT @@warning_count, @@error_count' },
  { leave: ['SELECT nonsense'], look: 'SHOW ERRORS' },
  { leave: ['SELECT nonsense'], look: 'SELECT @@warning_count, @@error_count' },
  { leave: ['SELECT NEXT VALUE FOR counter'], look: 'SELECT LASTVAL(counter)', only: 'mariadb' },
  { leave: ["XA START 'leak_$'"], look: 'COMMIT' },
  { leave: ['SET timestamp = 1000'], look: 'SELECT UNIX_TIMESTAMP() < 5000' },
  { leave: ['SET insert_id = 1000000'], look: 'SELECT @@insert_id' },
  { leave: ['SET last_insert_id = 9'], look: 'SELECT LAST_INSERT_ID()' },
  { leave: ['SET rand_seed1 = 1, rand_seed2 = 2'], look: 'SELECT RAND() < 0.0000001' },
  { leave: ['SET pseudo_thread_id = 1'], look: 'SELECT @@pseudo_thread_id = 1, CONNECTION_ID() = 1' },
  { leave: ['SET profiling = 1', 'SELECT 1'], look: 'SELECT @@profiling' },
  { leave: ['SET profiling = 1', 'SELECT 1'], look: 'SHOW PROFILES' },
  { leave: ['SET @@profiling = 1', 'SELECT 1'], look: 'SHOW PROFILES' },
  // A5: the trace outlives the variables that turned it on.
  {
    leave: ['CALL leave_trace()'],
    look: 'SELECT QUERY FROM information_schema.OPTIMIZER_TRACE',
    only: 'mysql',
  },
  { leave: ['CALL leave_trace()'], look: 'SELECT COUNT(*) FROM information_schema.OPTIMIZER_TRACE', only: 'mariadb' },
  { leave: ['SELECT COUNT(*) FROM t a, t b, t c'], look: "SHOW SESSION STATUS LIKE 'Last_query_cost'" },
  { leave: ["SELECT CAST('x' AS SIGNED)"], look: 'CALL show_diagnostics()' },
  { leave: ['SELECT nonsense'], look: 'CALL show_diagnostics()' },
  { leave: ['CALL hygiene.pack.keep(7)'], look: 'SELECT hygiene.pack.kept()', only: 'mariadb' },
  // Inside stored code, so that the statement's text does not show it.
  { leave: ['SELECT leave_role()'], look: 'SELECT CURRENT_ROLE()', only: 'mariadb' },
  { leave: ['SELECT * FROM leave_role_by_view'], look: 'SELECT CURRENT_ROLE()', only: 'mariadb' },
  { leave: ['SELECT leave_variable()'], look: 'SELECT @@sql_select_limit, @@group_concat_max_len' },
  { leave: ['SELECT leave_profiling()', 'SELECT 1'], look: 'SHOW PROFILES', only: 'mariadb' },
  {
    leave: ['SELECT leave_profiling(), (SELECT 1 UNION SELECT 2)', 'SELECT 1'],
    look: 'SHOW PROFILES',
    only: 'mariadb',
  },
  { leave: ['SET sql_safe_updates = 1'], look: 'DELETE FROM nothing' },
  { leave: ['SET SESSION group_concat_max_len = 4'], look: "SELECT GROUP_CONCAT('abcdef')" },
  { leave: ['KILL QUERY CONNECTION_ID()'], look: 'SELECT SLEEP(0.001)', unseen: true },
  {
    leave: ['SET RESOURCE GROUP hygiene_group'],
    look: 'SELECT RESOURCE_GROUP FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()',
    only: 'mysql',
  },
  { leave: ['FLUSH TABLES WITH READ LOCK'], look: 'INSERT INTO log VALUES ($)', shared: true, alone: true },
  { leave: ['FLUSH TABLES t WITH READ LOCK'], look: 'INSERT INTO log VALUES ($)', shared: true, alone: true },
  { leave: ['FLUSH TABLES t FOR EXPORT'], look: 'INSERT INTO log VALUES ($)', shared: true, alone: true },
  {
    leave: ['LOCK INSTANCE FOR BACKUP'],
    // Every DDL statement, also of other tests, has such a lock with the intention to be exclusive.
    look: "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'BACKUP LOCK' AND LOCK_TYPE = 'SHARED'",
    only: 'mysql',
    shared: true,
    alone: true,
  },
  { leave: ['BACKUP STAGE START'], look: 'BACKUP STAGE END', only: 'mariadb', alone: true },
  { leave: ['BACKUP LOCK t'], look: "ALTER TABLE t COMMENT = 'again'", only: 'mariadb', alone: true },
];

const leavingFunctions = `
  CREATE FUNCTION leave_role() RETURNS INT SQL SECURITY INVOKER BEGIN SET ROLE hygiene_role; RETURN 1; END//
  CREATE SQL SECURITY INVOKER VIEW leave_role_by_view AS SELECT leave_role() AS a//
  CREATE FUNCTION leave_profiling() RETURNS INT BEGIN SET profiling = 1; RETURN 1; END//
  SET sql_mode = ORACLE//
  CREATE PACKAGE pack AS PROCEDURE keep(x INT); FUNCTION kept RETURN INT; END//
  CREATE PACKAGE BODY pack AS
    v INT := 1;
    PROCEDURE keep(x INT) AS BEGIN v := x; END;
    FUNCTION kept RETURN INT AS BEGIN RETURN v; END;
  END//
  SET sql_mode = DEFAULT//`;

const login = { user: 'hygiene', password: 'pw' };

/** The parts of an answer that depend on the state of the connection. */
async function outcomeOf(sluice: SluiceProcess, sql: string, session?: object): Promise<string> {
  const body = { pagination: { wait_time_secs: 20 }, ...(session && { session }) };
  // The result is read to its end. A request that finishes the query would be a third more requests.
  const { last, rows } = await query(sluice.url, sql, { ...login, body, finish: false });
  return JSON.stringify([last.state, last.error?.code ?? null, rows]);
}

/** A kept session. Its connection is closed at its end, so that the next session has a new connection. */
async function openSession(sluice: SluiceProcess): Promise<{ id: string }> {
  const { last } = await query(sluice.url, 'SET @opened = 1', { ...login, body: { session: { max_idle_time: 60 } } });
  return { id: last.session_id };
}

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  const skip = !isInstalled(kind);
  t.test(`one-off statements leave no residue on ${kind}`, { skip, timeout: 540_000 }, async (t) => {
    const random = seeded(t);
    // Some of the residue would block all other tests on a shared server.
    const server = await startServer(kind);
    t.teardown(() => server.stop());
    await server.sql(`
      CREATE USER hygiene@'%' IDENTIFIED BY 'pw'; GRANT ALL ON *.* TO hygiene@'%';
      CREATE ROLE hygiene_role; GRANT hygiene_role TO hygiene@'%';
      CREATE DATABASE hygiene; USE hygiene;
      CREATE TABLE t (i INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3);
      CREATE TABLE log (i INT); CREATE TABLE unique_log (i INT PRIMARY KEY); CREATE TABLE nothing (i INT);
      CREATE TABLE counted (i INT AUTO_INCREMENT PRIMARY KEY, v INT DEFAULT 0);
      INSERT INTO counted VALUES (1, 1);
      ${kind === 'mariadb' ? 'CREATE SEQUENCE counter' : 'CREATE RESOURCE GROUP hygiene_group TYPE = USER'};
      DELIMITER //
      CREATE PROCEDURE leave_open(n INT) BEGIN
        START TRANSACTION; INSERT INTO log VALUES (-n); INSERT INTO unique_log VALUES (n);
      END//
      CREATE FUNCTION leave_variable() RETURNS INT READS SQL DATA BEGIN
        SET group_concat_max_len = 5; RETURN 1;
      END//
      CREATE PROCEDURE leave_trace() BEGIN
        SET optimizer_trace = 'enabled=on'; SELECT COUNT(*) AS secret FROM t;
      END//
      CREATE PROCEDURE show_diagnostics() BEGIN
        GET DIAGNOSTICS @conditions = NUMBER, @rows = ROW_COUNT; SELECT @conditions, @rows;
      END//
      ${kind === 'mariadb' ? leavingFunctions : ''}`);
    const sluice = await startSluice([
      ...['--mysql_url', `${server.url}hygiene`, '--connections_max', '4', '--worker_threads', '2'],
      ...['--auth_cache_secs', '3600', '--connection_idle_secs', '3600', '--drain_secs', '0'],
    ]);
    t.teardown(() => sluice.stop());
    const mine = traces.filter(({ only }) => only === undefined || only === kind);
    let number = 1_000;

    const expected = new Map<string, string>();
    t.test('each residue is visible in the session that left it', async (t) => {
      for (const { leave, look, unseen } of mine) {
        const fresh = await openSession(sluice);
        const clean = await outcomeOf(sluice, look.replaceAll('$', `${++number}`), fresh);
        await query(sluice.url, 'KILL CONNECTION_ID()', { ...login, body: { session: fresh } });
        expected.set(look, clean);
        const session = await openSession(sluice);
        number++;
        for (const sql of leave) await outcomeOf(sluice, sql.replaceAll('$', `${number}`), session);
        const found = await outcomeOf(sluice, look.replaceAll('$', `${number}`), session);
        await query(sluice.url, 'KILL CONNECTION_ID()', { ...login, body: { session } });
        if (!unseen) t.not(found, clean, leave.join('; '));
        await server.sql('DELETE FROM hygiene.unique_log');
      }
    });

    let lateLooks = 0;
    const connections = new Map<number, number>();

    /** Leaves residue and looks for it immediately. @returns a description of a leak, or null */
    const tryOut = async ({ leave, look, shared }: Trace): Promise<string | null> => {
      const own = `${++number}`;
      for (const sql of leave) await outcomeOf(sluice, sql.replaceAll('$', own));
      const began = performance.now();
      for (let attempt = 0; ; attempt++) {
        const found = await outcomeOf(sluice, look.replaceAll('$', own));
        if (attempt > 0) lateLooks++;
        if (found === expected.get(look)) return null;
        if (!shared || performance.now() - began > cleanUpMsMax) return `${leave.join('; ')} → ${look}: ${found}`;
        await delay(1);
      }
    };
    const noteConnection = async (): Promise<void> => {
      const { rows } = await query(sluice.url, 'SELECT CONNECTION_ID()', login);
      const id = rows[0]?.[0] as number;
      connections.set(id, (connections.get(id) ?? 0) + 1);
    };

    t.test(`${pairCount} pairs of statements that leave residue and look for it, sequential`, async (t) => {
      const began = performance.now();
      const found: string[] = [];
      for (const trace of drawn(mine, pairCount, random)) {
        const leak = await tryOut(trace);
        if (leak !== null) found.push(leak);
        await noteConnection();
      }
      t.strictSame(found, []);
      t.comment(
        `${Math.round(performance.now() - began)} ms; ${connections.size} connections; ${lateLooks} second looks`,
      );
      t.ok(connections.size <= 4, 'no connection was closed, so all of them were reused');
    });

    t.test(`${pairCount} pairs of statements that leave residue and look for it, concurrent`, async (t) => {
      const began = performance.now();
      const found: string[] = [];
      lateLooks = 0;
      connections.clear();
      const pairs = drawn(
        mine.filter(({ alone }) => !alone),
        pairCount,
        random,
      );
      const lane = async (): Promise<void> => {
        for (let trace = pairs.pop(); trace !== undefined; trace = pairs.pop()) {
          const leak = await tryOut(trace);
          if (leak !== null) found.push(leak);
          await noteConnection();
        }
      };
      await Promise.all(Array.from({ length: lanes }, lane));
      t.strictSame(found, []);
      t.comment(
        `${Math.round(performance.now() - began)} ms; ${connections.size} connections; ${lateLooks} second looks`,
      );
      t.ok(connections.size <= 4);
    });

    t.test('a kept session leaves no residue to the statements after it', async (t) => {
      for (const trace of mine.filter(({ alone, unseen }) => !alone && !unseen)) {
        const session = await openSession(sluice);
        const own = `${++number}`;
        for (const sql of trace.leave) await outcomeOf(sluice, sql.replaceAll('$', own), session);
        await query(sluice.url, 'KILL CONNECTION_ID()', { ...login, body: { session } });
        const clean = async () =>
          (await outcomeOf(sluice, trace.look.replaceAll('$', own))) === expected.get(trace.look);
        const isClean = trace.shared ? until(clean, Boolean, cleanUpMsMax).catch(() => false) : clean();
        t.ok(await isClean, trace.leave.join('; '));
      }
    });
  });
}

/** `count` traces in random order, each about equally often. */
function drawn(from: readonly Trace[], count: number, random: Random): Trace[] {
  const all = Array.from({ length: count }, (_, index) => from[index % from.length] as Trace);
  for (let last = all.length - 1; last > 0; last--) {
    const other = random(last + 1);
    [all[last], all[other]] = [all[other] as Trace, all[last] as Trace];
  }
  return all;
}
