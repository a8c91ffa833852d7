import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { figure } from '../support/form.ts';
import { pick, type Random, seeded } from '../support/random.ts';
import { type DatabaseKind, isInstalled, type PrivateServer, sharedServers, startServer } from '../support/servers.ts';
import { get, post, type QueryResponse, query, startSluice } from '../support/sluice.ts';

// Both servers share the machine with other work.
t.setTimeout(540_000);

const refused = { code: 1792, sqlstate: '25006' } as const;
const randomSequences = figure(50, 500);
const killRounds = figure(3, 20);
const readRows = figure(20_000, 100_000);
const lanes = 8;
const random: Random = seeded(t);

/** Writes that only an open read-only transaction prevents: they reset the session variable themselves. */
const turningWrites = ['SELECT turn_and_write_plain()', 'SELECT turn_and_write_untransacted()'] as const;

/** Writes that Sluice sends and the database refuses. */
const rowWrites = [
  'INSERT INTO plain (b) VALUES (9)',
  'INSERT INTO untransacted (b) VALUES (9)',
  'INSERT INTO volatile VALUES (9, 9)',
  'UPDATE plain SET b = 9',
  'UPDATE untransacted SET b = 9',
  'UPDATE seen SET b = 9',
  'DELETE FROM plain',
  'DELETE FROM volatile',
  'REPLACE INTO untransacted VALUES (1, 9)',
  'INSERT INTO plain (b) SELECT write_plain()',
  'SELECT write_plain()',
  'SELECT write_untransacted()',
  ...turningWrites,
  'SELECT turn(), write_plain()',
  'SELECT * FROM writing',
  'SELECT write_temporary()',
  'SELECT * FROM plain FOR UPDATE',
  'SET @a = write_plain()',
  'SET autocommit = 0, autocommit = 1, @a = write_untransacted()',
  'DO write_untransacted()',
  'SHOW TABLES WHERE write_untransacted()',
  "UPDATE mysql.user SET User = 'x' WHERE 0",
  'INSERT INTO performance_schema.setup_actors VALUES (1, 2, 3, 4, 5)',
];

const ofMariadb = [
  'INSERT INTO aria VALUES (9, 9)',
  'SELECT NEXTVAL(counter)',
  'SELECT SETVAL(counter, 100)',
  'ANALYZE DELETE FROM plain',
  'INSERT INTO plain (b) VALUES (9) RETURNING a',
];

const ofMysql = [
  'WITH x AS (SELECT 1 AS a) DELETE FROM plain WHERE a IN (SELECT a FROM x)',
  'EXPLAIN ANALYZE SELECT write_untransacted()',
  'INSERT INTO performance_schema.setup_objects VALUES (1, 2, 3, 4, 5)',
];

/** Statements that Sluice does not send: they end the transaction, or write despite it. */
const waysOut = [
  ...['COMMIT', 'ROLLBACK', 'BEGIN', 'START TRANSACTION READ WRITE', 'COMMIT AND CHAIN', 'SAVEPOINT a', "XA START 'a'"],
  ...['CALL leave()', "PREPARE a FROM 'COMMIT'", 'EXECUTE a', "EXECUTE IMMEDIATE 'COMMIT'", 'LOCK TABLES plain WRITE'],
  'BEGIN NOT ATOMIC COMMIT; INSERT INTO plain (b) VALUES (9); END',
  'IF 1 THEN COMMIT; INSERT INTO plain (b) VALUES (9); END IF',
  'SET STATEMENT tx_read_only = 0 FOR INSERT INTO plain (b) VALUES (9)',
  '/*! COMMIT */',
  '/*!50000 INSERT INTO plain (b) VALUES (9) */',
  '/*M! START TRANSACTION READ WRITE */',
  'CREATE TABLE more (a INT)',
  'CREATE TEMPORARY TABLE more (a INT)',
  'CREATE OR REPLACE VIEW seen AS SELECT 1 AS a',
  'ALTER TABLE plain ADD COLUMN c INT',
  'DROP TABLE untransacted',
  'DROP DATABASE held',
  'TRUNCATE TABLE plain',
  'RENAME TABLE plain TO fancy',
  "GRANT SELECT ON held.* TO 'somebody'@'%'",
  "ALTER USER 'somebody'@'%' DEFAULT ROLE NONE",
  "SET PASSWORD FOR 'somebody'@'%' = ''",
  "SET @a = 1, PASSWORD = ''",
  "SET DEFAULT ROLE NONE TO 'somebody'@'%'",
  'SET GLOBAL group_concat_max_len = 4444',
  'SET SESSION sql_mode = DEFAULT, @@GLOBAL.group_concat_max_len = 4445',
  'SET /*!50000GLOBAL group_concat_max_len = 4446*/',
  'SET PERSIST group_concat_max_len = 4447',
  'OPTIMIZE TABLE untransacted',
  'ANALYZE TABLE plain',
  'REPAIR TABLE untransacted',
  'CHECK TABLE untransacted',
  'FLUSH TABLES',
  'HANDLER plain OPEN',
  "LOAD DATA INFILE '/etc/hostname' INTO TABLE untransacted (b)",
  "SELECT 1 INTO OUTFILE 'read-only-test'",
  "SELECT /*!50000 1 INTO OUTFILE 'read-only-test' */",
  "SELECT 1 /*! INTO DUMPFILE 'read-only-test' */",
  'KILL 1',
  'SHUTDOWN',
];

/** Statements that run, and whose effect on the session must not change the transaction of the next statement. */
const preparations = [
  'SET SESSION TRANSACTION READ WRITE',
  'SET autocommit = 0',
  'SET autocommit = 1',
  'SET completion_type = 1',
  'SET completion_type = 2',
  'SELECT turn()',
  "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
  'SET NAMES gbk',
  'USE mysql',
  'USE held',
  'SELECT * FROM held.plain',
  "SELECT GET_LOCK('held', 0)",
  'SET @a = 5',
];
const preparationsOfMariadb = [
  'SET SESSION tx_read_only = 0',
  "SET sql_mode = 'ORACLE'",
  'SET @@session.tx_read_only = OFF',
];
const preparationsOfMysql = ['SET SESSION transaction_read_only = 0', 'SET @@session.transaction_read_only = OFF'];

/** Harmless statements that fail. */
const failing = [
  'SET TRANSACTION READ WRITE',
  'SELECT 1 /*! ; INSERT INTO plain (b) VALUES (9) */',
  'SELECT nothing',
  '(',
];

for (const kind of ['mariadb', 'mysql'] as const) {
  if (!isInstalled(kind)) continue;
  const writes = [...rowWrites, ...(kind === 'mariadb' ? ofMariadb : ofMysql)];
  const turns = [...preparations, ...(kind === 'mariadb' ? preparationsOfMariadb : preparationsOfMysql)];

  t.test(`--read_only prevents all writes (${kind})`, async (t) => {
    const server = await startServer(kind);
    t.teardown(() => server.stop());
    await server.sql(schema(kind));
    const room = [
      '--sessions_max=1000',
      '--sessions_per_user_max=1000',
      '--connections_max=1100',
      '--connections_per_user_max=1100',
    ];
    const sluice = await startSluice([
      '--mysql_url',
      `${server.url}held`,
      '--read_only',
      '--worker_threads=1',
      ...room,
    ]);
    t.teardown(() => sluice.stop());
    const { url } = sluice;
    const before = await pictureOf(server);
    const session = async (): Promise<string> =>
      (await post(url, { sql: 'SELECT 1', session: { max_idle_time: 600 } })).json.session_id;
    const run = async (sql: string, id: string | null): Promise<QueryResponse> =>
      (await query(url, sql, { body: id === null ? {} : { session: { id } } })).last;

    await t.test('a statement that writes fails with the error of the database', async (t) => {
      for (const id of [null, await session()]) {
        for (const sql of writes) {
          const { state, error } = await run(sql, id);
          t.match({ state, error }, { state: 'Failed', error: refused }, `${sql}, ${id === null ? 'one-off' : 'kept'}`);
          t.match(error?.message, /^Cannot execute statement in a READ ONLY transaction\.?$/);
        }
      }
    });

    await t.test('a statement that could end the transaction, or could write despite it, is not sent', async (t) => {
      for (const id of [null, await session()]) {
        const asked = await statementsOf(server);
        for (const sql of waysOut) {
          const { state, error } = await run(sql, id);
          t.match({ state, error }, { state: 'Failed', error: refused }, `${sql}, ${id === null ? 'one-off' : 'kept'}`);
          t.match(error?.message, /\(--read_only\): (.* (is|are) refused: |.*executable comment)/);
        }
        t.strictSame(changed(asked, await statementsOf(server)), [], 'the database counted none of them');
      }
    });

    await t.test('no setting of a session makes its next statement writable', async (t) => {
      for (const turn of turns) {
        const id = await session();
        const { error } = await run(turn, id);
        t.equal(error, null, turn);
        for (const sql of [...writes.slice(0, 2), 'SELECT turn_and_write_untransacted()'].map(qualified)) {
          t.match((await run(sql, id)).error, refused, `${sql} after ${turn}`);
        }
        const variable = kind === 'mariadb' ? '@@tx_read_only' : '@@transaction_read_only';
        const { rows } = await query(url, `SELECT ${variable}`, { body: { session: { id } } });
        t.strictSame(rows, [[1]], `the session is read-only again after ${turn}`);
      }
      const id = await session();
      for (const sql of failing) t.equal((await run(sql, id)).state, 'Failed', sql);
    });

    await t.test('reads and the state of a session work as without --read_only', async (t) => {
      const many = `WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ${readRows}) SELECT i FROM n`;
      const id = await session();
      const deep = kind === 'mysql' ? 'SET cte_max_recursion_depth = 100000' : 'SET max_recursive_iterations = 100000';
      t.equal((await run(deep, id)).error, null);
      const { rows, pages } = await query(url, many, {
        body: { session: { id }, pagination: { max_rows_per_page: 999 } },
      });
      t.equal(rows.length, readRows);
      t.ok(rows.every(([i], index) => i === index + 1));
      t.ok(pages.length > readRows / 1_000);
      await run("SET @a = 'kept'", id);
      await run('USE mysql', id);
      const kept = await query(url, 'SELECT @a, DATABASE()', { body: { session: { id } } });
      t.strictSame(kept.rows, [['kept', 'mysql']]);
      t.strictSame((await query(url, 'SELECT DATABASE(), @a')).rows, [['held', null]]);
      for (const sql of ['(SELECT b FROM plain WHERE a = 1)', 'SHOW TABLES', 'DESCRIBE plain', 'EXPLAIN SELECT 1']) {
        t.equal((await query(url, sql)).last.error, null, sql);
      }
    });

    await t.test('no transaction is open between the statements of a session', async (t) => {
      const id = await session();
      for (const turn of ['SELECT 1', 'SET completion_type = 1', 'SET autocommit = 0']) {
        await run(turn, id);
        const count = { body: { session: { id } } };
        t.strictSame((await query(url, 'SELECT COUNT(*) FROM side', count)).rows, [[0]]);
        await server.sql('SET lock_wait_timeout = 2; INSERT INTO side VALUES (1); ALTER TABLE side COMMENT "changed"', {
          database: 'held',
        });
        t.strictSame((await query(url, 'SELECT COUNT(*) FROM side', count)).rows, [[1]], 'the new row is visible');
        await server.sql('TRUNCATE side; ALTER TABLE side COMMENT ""', { database: 'held' });
      }
    });

    await t.test('a kill that hits START TRANSACTION lets no write through', async (t) => {
      const codes = new Map<number, number>();
      const isLost = ({ error }: QueryResponse): boolean => {
        const code = error?.code ?? 0;
        codes.set(code, (codes.get(code) ?? 0) + 1);
        return code === 90001;
      };
      // Whether a kill hits is random: repeat until one has.
      for (let round = 0; round < killRounds || (round < 200 && !codes.has(1317)); round++) {
        const id = await session();
        const { rows } = await query(url, 'SELECT CONNECTION_ID()', { body: { session: { id } } });
        // A further kill while the session is cleaned ends the session. Then there is nothing left to kill.
        const killing = server.sql(`KILL QUERY ${rows[0]?.[0]};`.repeat(1000)).catch(() => {});
        let isOver = false;
        void killing.then(() => {
          isOver = true;
        });
        while (!isOver && !isLost(await run(pick(random, turningWrites), id)));
        await killing;
      }
      const summary = JSON.stringify([...codes]);
      t.ok(codes.has(1317), `kills have hit: ${summary}`);
      const others = [...codes.keys()].filter((code) => ![1317, 1792, 90001, 90006].includes(code));
      t.strictSame(others, [], summary);
    });

    await t.test(`${randomSequences} random sequences, cancelled at random, change nothing`, async (t) => {
      const all = [writes, writes.map(qualified), waysOut, turns, turns, failing];
      let sequences = 0;
      const sqlErrors = new Map<number, number>();
      const lane = async (): Promise<void> => {
        while (sequences++ < randomSequences) {
          const id = random(4) === 0 ? null : await session();
          for (let step = 0; step < 6; step++) {
            const sql = random(8) === 0 ? 'SELECT SLEEP(0.02)' : pick(random, pick(random, all));
            const session = id === null ? {} : { session: { id } };
            if (random(3) === 0) {
              const { json } = await post(url, { sql, ...session, pagination: { wait_time_secs: 0 } });
              await delay(random(4));
              await get(url, json.final_uri);
            } else {
              const { code } = (await query(url, sql, { body: session })).last.error ?? { code: 0 };
              sqlErrors.set(code, (sqlErrors.get(code) ?? 0) + 1);
            }
          }
        }
      };
      await Promise.all(Array.from({ length: lanes }, lane));
      t.ok((sqlErrors.get(1792) ?? 0) > randomSequences, JSON.stringify([...sqlErrors]));
      t.notOk(sqlErrors.has(90006), 'no connection was closed');
    });

    t.equal(await pictureOf(server), before, 'the database is unchanged at the end');
  });
}

for (const server of await sharedServers()) {
  t.test(`a statement is sent only after its transaction has started (${server.kind})`, async (t) => {
    const begin = 'START TRANSACTION READ ONLY';
    let spoils = false;
    let cuts = false;
    let sent: string[] = [];
    const sockets = new Set<Socket>();
    const between = createServer((near) => {
      const far = connect(server.port, '127.0.0.1');
      for (const socket of [near, far]) sockets.add(socket.on('error', () => {}));
      far.pipe(near);
      near.on('data', async (chunk) => {
        const text = chunk.toString('latin1');
        sent.push(text);
        const begins = text.includes(begin);
        // Long enough to detect a statement that does not wait for the answer.
        if (begins && cuts) {
          near.destroy();
          return;
        }
        if (begins) await delay(50);
        if (begins) sent.push('passed on');
        far.write(begins && spoils ? Buffer.from(text.replace(begin, begin.replace('ONLY', 'OILY')), 'latin1') : chunk);
      });
    });
    between.listen(0, '127.0.0.1');
    await once(between, 'listening');
    const { port } = between.address() as AddressInfo;
    const sluice = await startSluice(['--mysql_url', `mysql://root@127.0.0.1:${port}/`, '--read_only']);
    t.teardown(async () => {
      await sluice.stop();
      for (const socket of sockets) socket.destroy();
      between.close();
    });
    const { url } = sluice;
    const session = (await post(url, { sql: 'SELECT 1', session: { max_idle_time: 60 } })).json.session_id;
    for (const body of [{}, { session: { id: session } }]) {
      for (spoils of [false, true, false]) {
        sent = [];
        const { error } = (await query(url, "SELECT 'a statement'", { body })).last;
        const begun = sent.indexOf('passed on');
        const statement = sent.findIndex((text) => text.includes('a statement'));
        t.ok(begun > 0, 'START TRANSACTION was sent');
        if (spoils) {
          t.match(error, { code: 1064 }, 'the statement fails with the error of START TRANSACTION');
          t.equal(statement, -1, 'the statement is never sent');
        } else {
          t.equal(error, null);
          t.ok(statement > begun, 'the statement is sent after START TRANSACTION');
        }
      }
    }
    cuts = true;
    const { error } = (await query(url, "SELECT 'a statement'")).last;
    t.match(
      error,
      { code: 90006, message: /before the statement was sent/ },
      'the error says that the connection was lost before the statement was sent',
    );
  });
}

/** The statement with qualified names, for sessions whose current database is another one. */
function qualified(sql: string): string {
  return sql.replace(
    /\b(plain|untransacted|volatile|seen|writing|aria|counter|(?:turn|write)\w*)(?!\w|\.)/g,
    'held.$1',
  );
}

function schema(kind: DatabaseKind): string {
  const readWrite = 'SET SESSION TRANSACTION READ WRITE';
  const functionOf = (name: string, body: string) =>
    `CREATE FUNCTION ${name}() RETURNS INT BEGIN ${body}; RETURN 1; END//`;
  return `CREATE DATABASE held; USE held;
    CREATE TABLE plain (a INT PRIMARY KEY AUTO_INCREMENT, b INT); INSERT INTO plain (b) VALUES (1), (2);
    CREATE TABLE untransacted (a INT PRIMARY KEY AUTO_INCREMENT, b INT) ENGINE = MyISAM;
    INSERT INTO untransacted (b) VALUES (1), (2);
    CREATE TABLE volatile (a INT PRIMARY KEY, b INT) ENGINE = MEMORY; INSERT INTO volatile VALUES (1, 1);
    CREATE TABLE side (a INT);
    ${kind === 'mariadb' ? 'CREATE TABLE aria (a INT PRIMARY KEY, b INT) ENGINE = Aria; CREATE SEQUENCE counter;' : ''}
    CREATE VIEW seen AS SELECT a, b FROM plain;
    CREATE TRIGGER writes BEFORE UPDATE ON plain FOR EACH ROW INSERT INTO untransacted (b) VALUES (9);
    CREATE USER 'somebody'@'%';
    DELIMITER //
    ${functionOf('write_plain', 'INSERT INTO plain (b) VALUES (9)')}
    ${functionOf('write_untransacted', 'INSERT INTO untransacted (b) VALUES (9)')}
    ${functionOf('write_temporary', 'CREATE TEMPORARY TABLE IF NOT EXISTS brief (a INT); INSERT INTO brief VALUES (1)')}
    ${functionOf('turn', readWrite)}
    ${functionOf('turn_and_write_plain', `${readWrite}; INSERT INTO plain (b) VALUES (9)`)}
    ${functionOf('turn_and_write_untransacted', `${readWrite}; INSERT INTO untransacted (b) VALUES (9)`)}
    CREATE PROCEDURE \`leave\`() BEGIN COMMIT; INSERT INTO plain (b) VALUES (9); END//
    CREATE VIEW writing AS SELECT write_untransacted() AS a//`;
}

/** Everything that a statement could have changed, as text. */
async function pictureOf(server: PrivateServer): Promise<string> {
  const ofKind = server.kind === 'mariadb' ? ', aria, counter' : '';
  return await server.sql(
    `CHECKSUM TABLE plain, untransacted, volatile, side, mysql.user, mysql.db, mysql.tables_priv${ofKind};
    SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES
      WHERE TABLE_SCHEMA IN ('held', 'mysql') ORDER BY 1, 2;
    SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'held' ORDER BY 1, 2;
    SELECT ROUTINE_NAME, LAST_ALTERED FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'held' ORDER BY 1;
    SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'held' ORDER BY 1;
    SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'held';
    SELECT SCHEMA_NAME FROM information_schema.SCHEMATA ORDER BY 1;
    SHOW GLOBAL VARIABLES WHERE Variable_name IN ('group_concat_max_len', 'autocommit', 'sql_mode');
    SHOW GLOBAL VARIABLES LIKE '%read_only'`,
    { database: 'held' },
  );
}

/** How many statements of each kind the database has run, without those that Sluice and this test send. */
async function statementsOf(server: PrivateServer): Promise<string[]> {
  const counts = await server.sql("SHOW GLOBAL STATUS LIKE 'Com\\_%'");
  // Statements of this test, and those that prepare connections.
  return counts
    .split('\n')
    .filter(
      (line) =>
        !/^Com_(show_status|select|set_option|commit|begin|reset_\w*|set_role|change_db|admin_commands|set_resource_group)\t/.test(
          line,
        ),
    );
}

function changed(before: readonly string[], after: readonly string[]): string[] {
  return after.filter((line) => !before.includes(line));
}
