import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { Connection } from '#src/worker/connection.js';
import { ConnectionReset } from '#src/worker/connection-reset.js';
import { type DriverError, ServerError } from '#src/worker/failures.js';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';

for (const server of await sharedServers()) {
  for (const withDatabase of [true, false]) {
    const title = `${server.kind}, ${withDatabase ? 'a' : 'no'} database selected`;
    t.test(`a connection is clean after any statement (${title})`, async (t) => {
      const [home, away, role] = [0, 0, 0].map(uniqueName) as [string, string, string];
      await server.sql(
        `CREATE DATABASE ${home}; CREATE DATABASE ${away}; CREATE TABLE ${home}.t (a INT);
        CREATE ROLE ${role}; GRANT ${role} TO root@localhost`,
      );
      t.teardown(() => server.sql(`DROP DATABASE ${home}; DROP DATABASE ${away}; DROP ROLE ${role}`));
      const connection = await open(t, server);
      if (withDatabase) await connection.query(`USE ${home}`);
      const reset = await ConnectionReset.prepare(connection, withDatabase ? home : null);
      const { id } = connection;
      const look = `SELECT DATABASE(), @x, @@character_set_results, @@sql_mode, @@net_write_timeout, FOUND_ROWS(),
        CURRENT_ROLE(), IS_FREE_LOCK('${home}')`;
      await connection.query('SELECT 1 LIMIT 0');
      const before = await connection.query(look);
      for (const sql of [
        `USE ${away}`,
        "SET @x = 1, sql_mode = 'ANSI', net_write_timeout = 7",
        `CREATE TEMPORARY TABLE ${home}.t (b INT)`,
        'BEGIN',
        `SELECT GET_LOCK('${home}', 0)`,
        "PREPARE p FROM 'SELECT 1'",
        `SET ROLE ${role}`,
        'SET character_set_results = latin1',
        'SELECT 1 UNION SELECT 2',
      ]) {
        await connection.query(sql);
      }
      t.notSame(await connection.query(look), before, 'the statements change the session state');
      t.equal(
        reset.pipelineAfter({ sql: `USE ${away}` }) === null,
        !withDatabase,
        'without a schema no command selects one',
      );
      await reset.run(connection, { sql: `USE ${away}` });
      t.equal(connection.id, id, 'the connection is the same');
      t.strictSame(await connection.query(look), before);
      t.strictSame(await connection.query(`SELECT * FROM ${home}.t`), [], 'the temporary table is dropped');
      t.equal(await server.sql(`SELECT IS_FREE_LOCK('${home}')`), '1');
      t.match(await failureOf(connection.query('EXECUTE p')), { errno: 1243 });
    });
  }

  const isMariadb = server.kind === 'mariadb';
  t.test(`a one-off statement leaves no residue (${server.kind})`, async (t) => {
    const [home, role] = [uniqueName(), uniqueName()];
    await server.sql(
      `CREATE DATABASE ${home}; CREATE ROLE ${role}; GRANT ${role} TO root@localhost; CREATE TABLE ${home}.t (a INT);
      DELIMITER //
      CREATE FUNCTION ${home}.variables() RETURNS INT BEGIN SET @x = 1, SESSION sql_mode = 'ANSI'; RETURN 1; END//
      CREATE PROCEDURE ${home}.all_of_it() BEGIN
        SET @x = 1, SESSION net_write_timeout = 7; SET ROLE ${role}; SELECT 1; SELECT 2; SELECT 1 UNION SELECT 2; END//
      ${isMariadb ? functions(home, role) : ''}`,
    );
    t.teardown(() => server.sql(`DROP DATABASE ${home}; DROP ROLE ${role}`));
    const connection = await open(t, server);
    await connection.query(`USE ${home}`);
    const reset = await ConnectionReset.prepare(connection, home);
    const look = `SELECT DATABASE(), @x, @@character_set_results, @@sql_mode, @@net_write_timeout, @@wait_timeout,
      @@profiling, @@autocommit, FOUND_ROWS(), CURRENT_ROLE(), IS_FREE_LOCK('${home}'), (SELECT COUNT(*) FROM t)`;
    await executeAndClean(connection, reset, 'DO 1');
    const before = await connection.query(look);
    for (const sql of [
      'SELECT 1 UNION SELECT 2',
      'SELECT @x := 1',
      'SET @x = 1, sql_mode = ANSI, net_write_timeout = 7, wait_timeout = 7',
      'SET @x = 1, nothing = 7',
      'SET NAMES latin1',
      'SET profiling = 1',
      'SET autocommit = 0',
      'BEGIN',
      `SET ROLE ${role}`,
      'USE mysql',
      'SELECT variables()',
      'CALL all_of_it()',
      `SELECT GET_LOCK('${home}', 0)`,
      'CREATE TEMPORARY TABLE t AS SELECT 1 AS a',
      'LOCK TABLES t READ',
      ...(isMariadb ? ofMariadb(role) : []),
    ]) {
      await executeAndClean(connection, reset, sql);
      t.strictSame(await connection.query(look), before, sql);
      t.strictSame(await connection.query('SHOW PROFILES'), [], `no profile shows ${sql}`);
      await executeAndClean(connection, reset, 'DO 1');
    }
  });

  t.test(`the character set of the schema is restored after any statement (${server.kind})`, async (t) => {
    const homes = ['latin1_swedish_ci', 'utf8mb4_0900_ai_ci', 'cp1251_ukrainian_ci'].map((collation) => {
      // MariaDB uses another name for the second one.
      return { home: uniqueName(), collation: isMariadb ? collation.replace('0900_ai_ci', 'general_ci') : collation };
    });
    for (const { home, collation } of homes) await server.sql(`CREATE DATABASE ${home} COLLATE ${collation}`);
    t.teardown(() => server.sql(homes.map(({ home }) => `DROP DATABASE ${home};`).join(' ')));
    for (const { home, collation } of homes) {
      const connection = await open(t, server);
      await connection.query(`USE ${home}`);
      const reset = await ConnectionReset.prepare(connection, home);
      const look = 'SELECT @@character_set_database, @@collation_database';
      for (const sql of ['DO 1', 'SET NAMES latin1', 'USE mysql']) {
        await executeAndClean(connection, reset, sql);
        t.strictSame(
          await connection.query(look),
          [[collation.split('_')[0], collation]],
          `equal to the state after a login: ${sql}`,
        );
        await reset.run(connection, null);
        t.strictSame(
          await connection.query(look),
          [[collation.split('_')[0], collation]],
          `after several statements: ${sql}`,
        );
      }
    }
  });

  t.test('a schema that a statement replaces is selected again', { skip: !isMariadb }, async (t) => {
    const home = uniqueName();
    await server.sql(`CREATE DATABASE ${home}`);
    t.teardown(() => server.sql(`DROP DATABASE ${home}`));
    const connection = await open(t, server);
    await connection.query(`USE ${home}`);
    const reset = await ConnectionReset.prepare(connection, home);
    for (const sql of [`CREATE OR REPLACE DATABASE ${home}`, `create or/**/replace schema\n${home}`]) {
      await executeAndClean(connection, reset, sql);
      t.strictSame(await connection.query('SELECT DATABASE()'), [[home]], sql);
    }
  });

  t.test('the time limit of the account is restored after any statement', { skip: !isMariadb }, async (t) => {
    const user = uniqueName();
    await server.sql(`CREATE USER ${user} WITH MAX_STATEMENT_TIME 7.5`);
    t.teardown(() => server.sql(`DROP USER ${user}`));
    const connection = await open(t, server, user);
    const reset = await ConnectionReset.prepare(connection, null);
    for (const sql of ['DO 1', 'SET max_statement_time = 3', 'SET STATEMENT max_statement_time = 3 FOR SELECT 1']) {
      await executeAndClean(connection, reset, sql);
      t.strictSame(await connection.query('SELECT @@max_statement_time'), [['7.500000']], sql);
    }
  });

  t.test(`a statement without residue is cleaned up in its own write (${server.kind})`, async (t) => {
    const connection = await open(t, server);
    const reset = await ConnectionReset.prepare(connection, null);
    for (const sql of ['SELECT 1', 'DO 1', 'SELECT 1 UNION SELECT 2', 'BEGIN']) {
      t.equal(await executeAndClean(connection, reset, sql), true, sql);
    }
    t.equal(await executeAndClean(connection, reset, 'SET ROLE NONE'), !isMariadb);
  });

  t.test(`a state that cannot be restored is an error (${server.kind})`, async (t) => {
    for (const way of ['after', 'right behind'] as const) {
      const home = uniqueName();
      await server.sql(`CREATE DATABASE ${home}`);
      const connection = await open(t, server);
      await connection.query(`USE ${home}`);
      const reset = await ConnectionReset.prepare(connection, home);
      const sql = `DROP DATABASE ${home}`;
      if (way === 'after') {
        await server.sql(sql);
        t.match(await failureOf(reset.run(connection, { sql })), { errno: 1049 });
      } else {
        t.match(await failureOf(executeAndClean(connection, reset, sql)), { errno: 1049 });
      }
    }
  });

  t.test(`only a command that may be refused can fail during a reset (${server.kind})`, async (t) => {
    const connection = await open(t, server);
    const reset = await ConnectionReset.prepare(connection, null);
    const pipeline = reset.pipelineAfter({ sql: 'SELECT 1' });
    if (pipeline === null) throw new Error('no commands clean up after such a statement');
    const none = new Array<DriverError | null>(pipeline.pipeline.length).fill(null);
    pipeline.check(none);
    const refused = new ServerError(1227, '42000', 'Access denied');
    const mayFail = none.filter((_, failing) => {
      try {
        pipeline.check(none.map((_, index) => (index === failing ? refused : null)));
        return true;
      } catch (error) {
        t.equal(error, refused);
        return false;
      }
    });
    // On MySQL, a user without the privilege cannot set the resource group, so it has not changed.
    t.equal(mayFail.length, isMariadb ? 0 : 1);
    for (const index of none.keys()) {
      const lost = none.with(index, new Error('the cable was cut'));
      t.throws(() => pipeline.check(lost), /the cable was cut/);
    }
  });
}

/** Statements that leave residue in MariaDB only, which it may not report. */
function ofMariadb(role: string): string[] {
  const untracked = ['session_track_state_change = OFF', "session_track_system_variables = ''"];
  return [
    'SELECT role()',
    'SELECT untracked_role()',
    'SELECT 1 FROM t WHERE untracked_role()',
    `BEGIN NOT ATOMIC SET ROLE ${role}; SET profiling = 1; END`,
    `BEGIN NOT ATOMIC SET session_track_state_change = OFF; SET ROLE ${role}; SET session_track_state_change = ON; END`,
    ...[...untracked, untracked.join(), untracked.toReversed().join()].flatMap((off) => [
      `SET ${off}, profiling = 1`,
      `BEGIN NOT ATOMIC SET ${off}; SET ROLE ${role}; SET profiling = 1; END`,
      `BEGIN NOT ATOMIC SET ROLE ${role}; SET profiling = 1; SET ${off}; END`,
      `SET STATEMENT ${off} FOR SET ROLE ${role}`,
    ]),
    ...[untracked, untracked.toReversed()].map(
      (off) => `BEGIN NOT ATOMIC SET ${off.join('; SET ')}; SET ROLE ${role}; SET profiling = 1; END`,
    ),
    'SET STATEMENT profiling = 1 FOR SELECT 1',
  ];
}

function functions(home: string, role: string): string {
  return `CREATE FUNCTION ${home}.role() RETURNS INT BEGIN SET ROLE ${role}; RETURN 1; END//
    CREATE FUNCTION ${home}.untracked_role() RETURNS INT BEGIN
      SET session_track_state_change = OFF; SET session_track_system_variables = '';
      SET ROLE ${role}; RETURN 1; END//`;
}

async function open(t: Test, server: DatabaseServer, user = 'root'): Promise<Connection> {
  const connection = await Connection.open({
    address: { socketPath: server.socketPath },
    user,
    password: '',
    timeoutMs: 10_000,
    rowBytesMax: 1024 * 1024,
  });
  t.teardown(() => connection.destroy());
  return connection;
}

/**
 * Runs a statement and its reset pipeline in one write, and the full reset if that was not sufficient.
 * @returns whether the pipeline was sufficient
 */
async function executeAndClean(connection: Connection, reset: ConnectionReset, sql: string): Promise<boolean> {
  const pipeline = reset.pipelineAfter({ sql });
  if (pipeline === null) throw new Error(`no commands clean up after ${sql}`);
  let sessionChanged = true;
  const errors = await connection.executeAndThen(
    sql,
    {
      columns: () => {},
      row: () => {},
      rowTooLarge: () => {},
      ended: (packet) => {
        sessionChanged = packet.sessionChanged;
      },
      failed: () => {},
    },
    pipeline.pipeline,
  );
  pipeline.check(errors);
  const isClean = reset.isCleanAfterPipeline(sessionChanged);
  if (!isClean) await reset.run(connection, { sql });
  return isClean;
}

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  return await work.then(
    () => null,
    (error: unknown) => error,
  );
}

function uniqueName(): string {
  return `c_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
}
