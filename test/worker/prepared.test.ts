import t, { type Test } from 'tap';
import type { Params } from '#src/wire/statement.js';
import { Connection } from '#src/worker/connection.js';
import { open as openExecutor, type Reported, runs } from '../support/executor.ts';
import { startProxy } from '../support/proxy.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { until } from '../support/until.ts';

// Both servers share the machine with other processes.
t.setTimeout(540_000);

const MiB = 1024 * 1024;

for (const server of await sharedServers()) {
  t.test(`prepared statements on ${server.kind}`, async (t) => {
    await server.sql(`SET GLOBAL max_allowed_packet = ${64 * MiB}`);

    await t.test('every kind of value arrives unchanged', async (t) => {
      const { database, run, leftovers } = await open(t, server);
      await server.sql(
        `CREATE TABLE v (n INT AUTO_INCREMENT PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED, d DECIMAL(65,30), f DOUBLE, b TINYINT,
          s LONGTEXT) CHARACTER SET utf8mb4`,
        { database },
      );
      const big = '9'.repeat(35);
      const decimal = `-${big}.${'123456789'.repeat(3)}123`;
      const texts = [
        '',
        `it's "quoted" \`so\` \\ and \\' %_ -- # /* ? :a`,
        'a\0b\u001a\r\n\t',
        'é 😀 ß \u{10ffff}',
        ...[250, 251, 65_535, 65_536].map((length) => 'x'.repeat(length)),
      ];
      for (const s of texts) {
        const params = [-(2 ** 53 - 1), '18446744073709551615', decimal, 0.1, true, s];
        const reported = await run('INSERT INTO v (i, u, d, f, b, s) VALUES (?, ?, ?, ?, ?, ?)', params);
        t.match(reported.end, { ok: true, outcome: { affectedRows: '1', warnings: 0 } });
        t.match(reported.order, ['end+idle']);
        const id = reported.end?.ok ? reported.end.outcome.lastInsertId : null;
        t.equal(
          await server.clientSql(`SELECT i, u, d, f, b, HEX(s) FROM v WHERE n = ${id}`, { database }),
          [...params.slice(0, 4), 1, Buffer.from(s).toString('hex').toUpperCase()].join('\t'),
        );
      }
      await run('INSERT INTO v (i, u, d, f, b, s) VALUES (?, ?, ?, ?, ?, ?)', [null, 0, -0, 1e300, false, null]);
      await run('INSERT INTO v (i, u, d, f, b, s) VALUES (:i, :u, :i, 1, :b, :u)', {
        i: '-9223372036854775808',
        u: '9007199254740993',
        b: null,
        more: 'not asked for',
      });
      t.equal(
        await server.clientSql(`SELECT i, u, d, f, b, s FROM v WHERE n > ${texts.length}`, { database }),
        [
          ['NULL', 0, `0.${'0'.repeat(30)}`, '1e300', 0, 'NULL'].join('\t'),
          [
            '-9223372036854775808',
            '9007199254740993',
            `-9223372036854775808.${'0'.repeat(30)}`,
            1,
            'NULL',
            '9007199254740993',
          ].join('\t'),
        ].join('\n'),
      );
      t.match((await run('DELETE FROM v WHERE u = ? LIMIT ?', ['18446744073709551615', 3])).end, {
        outcome: { affectedRows: '3' },
      });
      t.match((await run('DELETE FROM v WHERE d = ?', [decimal])).end, {
        outcome: { affectedRows: `${texts.length - 3}` },
      });
      t.equal(await leftovers(), 0);
    });

    await t.test('values longer than a packet arrive complete', async (t) => {
      const { run, database, leftovers } = await open(t, server);
      await server.sql('CREATE TABLE v (n INT, s LONGTEXT, m TEXT) CHARACTER SET utf8mb4', { database });
      // In the last two, the packets end where a value does.
      for (const length of [MiB, 20 * MiB, 0xffffff - 38, 0xffffff - 39, 2 * 0xffffff - 43]) {
        const reported = await run('INSERT INTO v VALUES (?, ?, ?)', [length, 'é'.repeat(length / 2), 'end']);
        t.match(reported.end, { ok: true }, `${length}`);
      }
      t.equal(
        await server.sql("SELECT COUNT(*) FROM v WHERE s = REPEAT('é', FLOOR(n / 2)) AND m = 'end'", { database }),
        '5',
      );
      t.equal(await leftovers(), 0);
    });

    await t.test('a string compares like a literal', async (t) => {
      const { run, database } = await open(t, server);
      await server.sql(
        `CREATE TABLE v (a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, b VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_general_ci, c BIGINT, d DATE);
        INSERT INTO v VALUES ('é', 'é', 9007199254740993, '2024-02-29')`,
        { database },
      );
      for (const [where, param, count] of [
        ['a = ?', 'é', 1],
        ['a = ?', 'É', 0],
        ['b = ?', 'É', 1],
        ['c = ?', '9007199254740993', 1],
        ['d = ?', '2024-02-29', 1],
        ['d > ?', '2024-03-01', 0],
        ['a LIKE ?', '_', 1],
        ['? IS NULL', null, 1],
        ['? AND TRUE', false, 0],
      ] as const) {
        const reported = await run(`UPDATE v SET a = a WHERE ${where}`, [param]);
        t.match(reported.end, { ok: true }, where);
        const matched = await run(`DELETE FROM v WHERE ${where} AND (SELECT 1)`, [param]);
        t.match(matched.end, { outcome: { affectedRows: `${count}` } }, `${where} ${param}`);
        if (count === 1)
          await server.sql("INSERT INTO v VALUES ('é', 'é', 9007199254740993, '2024-02-29')", { database });
      }
    });

    await t.test('a wrong number of values is an error, and nothing runs', async (t) => {
      const { database, run, leftovers } = await open(t, server);
      await server.sql('CREATE TABLE v (a INT)', { database });
      for (const [sql, params, message] of [
        ['INSERT INTO v VALUES (?), (?)', [1, 2, 3], 'the statement has 2 placeholders, and params has 3 values'],
        ['INSERT INTO v VALUES (?)', [], 'the statement has 1 placeholder, and params has 0 values'],
        ['INSERT INTO v VALUES (1)', [1], 'the statement has 0 placeholders, and params has 1 value'],
        ['INSERT INTO v VALUES (:a), (?)', { a: 1 }, 'the statement has 2 placeholders, and params has 1 value'],
        ['INSERT INTO v VALUES (:a), (:b)', { a: 1 }, 'params has no value for the placeholder :b'],
      ] as const) {
        for (const after of ['clean', 'keep', 'pin'] as const) {
          t.strictSame((await run(sql, params, after)).end, {
            ok: false,
            failure: { code: 1210, sqlstate: 'HY000', message, outcome: 'not_started', retryable: false },
          });
        }
      }
      for (const params of [[], {}, { a: 1 }])
        t.match((await run('INSERT INTO v VALUES (7)', params)).end, { ok: true });
      t.equal(await server.sql('SELECT SUM(a) FROM v', { database }), '21');
      t.equal(await leftovers(), 0);
    });

    await t.test('errors are those of the database, with the outcome of their stage', async (t) => {
      const { database, run, leftovers } = await open(t, server);
      await server.sql('CREATE TABLE v (a INT PRIMARY KEY) SELECT 1 AS a', { database });
      for (const [sql, params, failure] of [
        ['nonsense ?', [1], { code: 1064, sqlstate: '42000', outcome: 'not_started' }],
        ['INSERT INTO nothing VALUES (?)', [1], { code: 1146, sqlstate: '42S02', outcome: 'not_started' }],
        ['INSERT INTO v VALUES (?)', [1], { code: 1062, sqlstate: '23000', outcome: 'rolled_back' }],
        ['INSERT INTO v VALUES (?)', ['x'], { code: 1366, outcome: 'rolled_back' }],
        ['', [], { code: 1065, outcome: 'not_started' }],
        ['/* nothing */', [], { code: 1065, outcome: 'not_started' }],
        ['DO 1; DO ?', [1], { code: 1064, outcome: 'not_started' }],
        ["LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE v", [], { outcome: 'not_started' }],
        ["PREPARE x FROM 'SELECT 1'", [], { code: 1295, outcome: 'not_started' }],
      ] as const) {
        for (const after of ['clean', 'keep', 'pin'] as const) {
          t.match((await run(sql, params, after)).end, { ok: false, failure: { ...failure, retryable: false } }, sql);
        }
      }
      t.equal(await server.sql('SELECT COUNT(*) FROM v', { database }), '1');
      t.equal(await leftovers(), 0);
    });

    await t.test('a statement is cancelled during its prepare and during its execution', async (t) => {
      const { database, id, peer, run, leftovers } = await open(t, server);
      await server.sql('CREATE TABLE v (a INT)', { database });
      for (const after of ['clean', 'keep', 'pin'] as const) {
        for (const isSoon of [true, false]) {
          const idles = peer.idles;
          const statement = peer.start('INSERT INTO v SELECT SLEEP(?)', { params: [100], after });
          if (!isSoon) await runs(server, id);
          peer.post({ type: 'cancel', statement });
          await until(() => peer.idles > idles);
          t.equal(peer.reported(statement).end, null);
          t.match((await run('INSERT INTO v VALUES (?)', [7], after)).end, { ok: true });
        }
      }
      // In MySQL, a killed SLEEP() returns, and its statement continues.
      t.equal(await server.sql('SELECT COUNT(*) FROM v WHERE a = 7', { database }), '6');
      t.equal(await leftovers(), 0);
    });

    await t.test('a connection that is lost is reported as with any statement', async (t) => {
      for (const [sql, failure] of [
        ['DO SLEEP(?)', { code: 90_006, outcome: 'unknown', retryable: false }],
        ['SELECT SLEEP(?)', { code: 90_006, outcome: 'rolled_back', retryable: true }],
      ] as const) {
        const { id, peer } = await open(t, server);
        const statement = peer.start(sql, { params: [100], after: 'clean' });
        await runs(server, id);
        await server.sql(`KILL ${id}`);
        await until(() => peer.closed);
        t.match(peer.reported(statement).end, { ok: false, failure }, sql);
      }
    });

    await t.test('a connection that is lost during the prepare gives the outcome not_started', async (t) => {
      // A session is lost with its connection, so a retried statement would not find the same session.
      for (const [after, retryable, message] of [
        ['clean', true, /^the connection .* was lost before the statement was sent/],
        ['keep', false, /^the session ended before the statement was sent/],
      ] as const) {
        const proxy = await startProxy(t, server.port);
        const address = { host: '127.0.0.1', port: proxy.port, tls: null };
        const { peer } = await openExecutor(t, server, {}, { address });
        proxy.fallSilent();
        const statement = peer.start('DO ?', { params: [1], after });
        await until(() => proxy.droppedBytes > 0);
        proxy.resetAll();
        await until(() => peer.closed);
        t.match(
          peer.reported(statement).end,
          { failure: { code: 90_006, outcome: 'not_started', retryable, message } },
          after,
        );
      }
    });

    await t.test('procedures are called and run to their end', async (t) => {
      const { database, run, leftovers } = await open(t, server);
      await server.sql(
        `CREATE TABLE v (a INT);
        DELIMITER //
        CREATE PROCEDURE none(x INT) INSERT INTO v VALUES (x) //
        CREATE PROCEDURE two(x INT) BEGIN SELECT x; SELECT x + 1; INSERT INTO v VALUES (x); END //`,
        { database },
      );
      t.match((await run('CALL none(?)', [1])).end, { ok: true, outcome: { affectedRows: '1' } });
      t.match((await run('CALL two(?)', [2])).end, { ok: false, failure: { code: 90_008, outcome: 'committed' } });
      t.match((await run('CALL none(?)', [3], 'pin')).session, { isPinned: false, inTransaction: false });
      t.equal(await server.sql('SELECT GROUP_CONCAT(a ORDER BY a) FROM v', { database }), '1,2,3');
      t.equal(await leftovers(), 0);
    });

    await t.test('a session is pinned by the effects of a prepared statement, and not by the prepare', async (t) => {
      const { database, peer, run, leftovers } = await open(t, server);
      await server.sql('CREATE TABLE v (a INT)', { database });
      t.match((await run('INSERT INTO v VALUES (?)', [1], 'pin')).session, { isPinned: false });
      t.match((await run('SELECT ? FROM v WHERE FALSE', [1], 'pin')).session, { isPinned: false });
      t.match((await run('SET sql_mode = ?', ['ANSI'], 'pin')).session, {
        isPinned: false,
        variables: { sql_mode: /ANSI/ },
      });
      await peer.run('BEGIN', { after: 'pin' });
      t.match((await run('INSERT INTO v VALUES (?)', [2], 'pin')).session, { isPinned: true, inTransaction: true });
      t.equal(await leftovers(), 0);
      t.match((await run('nonsense ?', [2], 'pin')).session, { isPinned: true, inTransaction: true });
      t.match((await run('INSERT INTO v VALUES (?)', [], 'pin')).session, { isPinned: true, inTransaction: true });
      t.equal(await leftovers(), 0);
      t.match((await run('COMMIT', [], 'pin')).session, { isPinned: false });
      t.match((await run('SET @x = ?', ['x'], 'pin')).session, { isPinned: true });
      t.match((await run('DO 1', [], 'clean')).end, { ok: true });
      t.match((await run('DO 1', [], 'pin')).session, { isPinned: false });
      t.equal(await server.sql('SELECT COUNT(*) FROM v', { database }), '2');
    });

    await t.test('a read-only server runs prepared statements in its read-only transaction', async (t) => {
      const { database, run, leftovers } = await open(t, server, true);
      await server.sql('CREATE TABLE v (a INT)', { database });
      for (const after of ['clean', 'keep', 'pin'] as const) {
        for (const sql of ['INSERT INTO v VALUES (?)', 'CREATE TABLE w AS SELECT ?', 'CALL x(?)', 'COMMIT /* ? */']) {
          t.match((await run(sql, [1], after)).end, { failure: { code: 1792, sqlstate: '25006' } }, sql);
        }
        t.match((await run('DO ?', [1], after)).end, { ok: true });
      }
      t.equal(await server.sql('SELECT COUNT(*) FROM v', { database }), '0');
      t.equal(await leftovers(), 0);
    });

    await t.test('rows come in the binary protocol', async (t) => {
      const connection = await Connection.open({
        address: { socketPath: server.socketPath },
        user: 'root',
        password: '',
        timeoutMs: 10_000,
        rowBytesMax: MiB,
      });
      t.teardown(() => connection.close());
      const { id, placeholders, columns } = await connection.prepare(
        'SELECT ? AS a, ? AS b, 7 UNION ALL SELECT NULL, 1, 2',
      );
      t.strictSame([placeholders, columns], [2, 3]);
      const rows: string[] = [];
      let names: string[] = [];
      await new Promise<void>((resolve, reject) => {
        const sink = {
          columns: (definitions: readonly { name: string }[]) => {
            names = definitions.map(({ name }) => name);
          },
          row: (bytes: Buffer, start: number, end: number) => rows.push(bytes.toString('hex', start, end)),
          rowTooLarge: () => {},
          ended: () => resolve(),
          failed: reject,
        };
        connection.execute({ id, values: ['é', 5] }, sink);
      });
      t.strictSame(names, ['a', 'b', '7']);
      t.equal(rows.length, 2);
      // A header, the NULL bits from the third bit on, and the values.
      t.match(rows[0], /^000002c3a9/);
      t.match(rows[1], /^0004/);
    });
  });
}

/** @returns among others the number of statements that are prepared on the connection */
async function open(t: Test, server: DatabaseServer, readOnly = false) {
  const { database, id, peer } = await openExecutor(t, server, { readOnly });
  return {
    database,
    id,
    peer,
    run: (sql: string, params: Params, after: 'clean' | 'keep' | 'pin' = 'keep'): Promise<Reported> =>
      peer.run(sql, { params, after }),
    leftovers: async (): Promise<number> => {
      // MariaDB shows the values of another session. MySQL shows only totals, which may include other sessions.
      const counts = await peer.run(
        server.kind === 'mysql'
          ? `SELECT COUNT(*) + 0 FROM performance_schema.prepared_statements_instances WHERE OWNER_THREAD_ID = PS_CURRENT_THREAD_ID()`
          : "SELECT VARIABLE_VALUE + 0 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Prepared_stmt_count'",
      );
      return Number(counts.batches.join().replaceAll(/\D/g, ''));
    },
  };
}
