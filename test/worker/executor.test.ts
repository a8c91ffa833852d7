import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { LargeResults } from '#src/wire/large-results.js';
import { Link } from '#src/wire/link.js';
import type { FromWorker, SpillLimits, ToWorker } from '#src/wire/messages.js';
import { SpillUsage } from '#src/wire/spill-usage.js';
import { Connection } from '#src/worker/connection.js';
import serve from '#src/worker/entry.js';
import { open, Peer, processCount, type Reported, runs, startExecutor, task, uniqueName } from '../support/executor.ts';
import { figure } from '../support/form.ts';
import { seeded } from '../support/random.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { unshared } from '../support/spill.ts';
import { until } from '../support/until.ts';

// Both servers share the machine with other processes.
t.setTimeout(540_000);

const KiB = 1024;
const MiB = 1024 * KiB;

for (const server of await sharedServers()) {
  t.test(`an executor on ${server.kind} ${server.version}`, async (t) => {
    await t.test('a small result is reported in one message, with the idle connection', async (t) => {
      const { peer } = await open(t, server);
      const before = peer.messages.length;
      const reported = await peer.run("SELECT 1 AS a, 'é' AS b UNION ALL SELECT 2, NULL");
      t.strictSame(reported.order, ['columns+batch+end+idle']);
      t.equal(reported.batches.join(), '[1,"é"],[2,null]');
      t.strictSame(
        reported.columns?.map(({ name }) => name),
        ['a', 'b'],
      );
      t.strictSame(reported.end, {
        ok: true,
        outcome: { affectedRows: '0', lastInsertId: null, warnings: 0 },
        rowsToCome: 0,
      });
      t.strictSame((await peer.run('DO 1')).order, ['end+idle']);
      t.strictSame((await peer.run('SELECT nothing')).order, ['end+idle']);
      t.equal(peer.messages.length, before + 3, 'it is not reported twice');
    });

    await t.test('the end of a one-off statement reports the idle connection, or a later message does', async (t) => {
      const { peer } = await open(t, server);
      const before = peer.messages.length;
      let together = 0;
      for (let round = 0; round < 100; round++) {
        const idles = peer.idles;
        const reported = await peer.run(`SELECT ${round}`, { after: 'clean' });
        t.equal(peer.idles, idles + 1);
        t.equal(reported.batches.join(), `[${round}]`);
        if (reported.order.at(-1)?.endsWith('+idle')) together++;
        // The end that does not say so itself comes first.
        else t.equal(peer.messages.at(-1)?.type, 'idle');
      }
      t.comment(`${together} of 100 were reported in one message`);
      const alone = peer.messages.slice(before).filter(({ type }) => type === 'idle').length;
      t.equal(alone + together, 100);
    });

    await t.test('a statement without rows, one that fails, and one after it', async (t) => {
      const { peer } = await open(t, server);
      t.strictSame((await peer.run('DO 1')).order, ['end+idle']);
      const failed = await peer.run('SELECT * FROM no_database_here.t');
      t.match(failed.end, { ok: false, failure: { message: /no_database_here/ } });
      t.equal(failed.columns, null);
      const empty = await peer.run('SELECT 1 AS a FROM DUAL WHERE FALSE');
      t.equal(empty.columns?.length, 1, 'columns are reported without rows');
      t.equal(empty.rows, 0);
      t.equal((await peer.run('SELECT 3')).batches.join(), '[3]');
    });

    await t.test('a statement whose large row waits for memory can be cancelled, and the next one runs', async (t) => {
      const { peer } = await open(t, server);
      peer.grantsLargeRows = false;
      const large = (): FromWorker[] => peer.messages.filter(({ type }) => type === 'large_row');
      const sql = `SELECT REPEAT('x', ${2 * MiB}) UNION ALL SELECT 'y'`;
      const statement = peer.start(sql);
      await until(() => large().length === 1);
      t.equal(peer.reported(statement).rows, 0);
      peer.post({ type: 'cancel', statement });
      await until(() => peer.idles === 1);
      t.match(large(), [
        { statement, bytes: 2 * MiB + 4 },
        { statement, bytes: 0 },
      ]);
      peer.grantsLargeRows = true;
      t.equal((await peer.run(sql)).batches.join(), `["${'x'.repeat(2 * MiB)}"],["y"]`);
      t.match(large().slice(2), [{ bytes: 2 * MiB + 4 }, { bytes: 0 }]);
    });

    await t.test('after the cancel of a statement, only the idle connection is reported', async (t) => {
      const { id, peer } = await open(t, server);
      const statement = peer.start('SELECT 1 AS a FROM (SELECT SLEEP(100)) AS s');
      await runs(server, id);
      peer.post({ type: 'cancel', statement });
      await until(() => peer.idles === 1);
      t.equal(peer.reported(statement).end, null, 'not even its end');
    });

    await t.test('rows stop when the credit is used up and continue with new credit', async (t) => {
      const { peer } = await open(t, server);
      const total = figure(80_000, 300_000);
      const statement = peer.start(numbers(total), { creditBytes: MiB, creditRows: 1_000_000 });
      const reported = peer.reported(statement);
      await until(() => reported.bytes >= MiB);
      const before = reported.bytes;
      t.ok(before < MiB + 600 * KiB, `${before} bytes for a credit of 1 MiB`);
      await settled(server, peer);
      t.equal(reported.bytes, before, 'nothing comes without credit');
      t.equal(reported.end, null);
      peer.post({ type: 'credit', statement, bytes: 2 * MiB, rows: 0 });
      await until(() => reported.bytes >= before + 2 * MiB - 600 * KiB);
      await settled(server, peer);
      t.ok(reported.bytes < before + 2 * MiB + 600 * KiB);
      t.equal(reported.end, null);
      peer.post({ type: 'credit', statement, bytes: 512 * MiB, rows: 0 });
      await until(() => peer.idles === 1);
      t.equal(reported.rows, total);
      const rows = JSON.parse(`[${reported.batches.join(',')}]`) as [number, string][];
      t.equal(new Set(rows.map(([number]) => number)).size, total, 'no row is lost or comes twice');
    });

    await t.test('an end that uses up the credit leaves the connection to the next statement', async (t) => {
      const { peer } = await open(t, server);
      t.strictSame((await peer.run('SELECT 1', { creditBytes: 1 })).order, ['columns+batch+end+idle']);
      t.equal((await peer.run('SELECT 2', { creditBytes: 1, after: 'clean' })).batches.join(), '[2]');
      t.equal((await peer.run('SELECT 3')).batches.join(), '[3]');
    });

    await t.test('the row credit holds as well', async (t) => {
      const { peer } = await open(t, server);
      const statement = peer.start(numbers(5_000), { creditRows: 100 });
      const reported = peer.reported(statement);
      await until(() => reported.rows >= 100);
      t.equal(reported.rows, 100);
      await settled(server, peer);
      t.equal(reported.rows, 100);
      peer.post({ type: 'credit', statement, bytes: 0, rows: 1 });
      await until(() => reported.rows > 100);
      t.equal(reported.rows, 101);
      peer.post({ type: 'credit', statement: statement + 1, bytes: MiB, rows: 1_000 });
      await settled(server, peer);
      t.equal(reported.rows, 101, 'the credit of another statement does not count');
      peer.post({ type: 'credit', statement, bytes: 0, rows: 10_000 });
      await until(() => peer.idles === 1);
      t.equal(reported.rows, 5_000);
    });

    await t.test('a statement is cancelled while it runs, while its rows arrive, and while they wait', async (t) => {
      const { peer, id } = await open(t, server);
      for (const [what, sql, more] of [
        ['sleeping', 'SELECT SLEEP(100)', {}],
        ['sending', numbers(3_000_000), { creditBytes: 1024 * MiB, creditRows: 10_000_000 }],
        ['waiting', numbers(3_000_000), { creditRows: 10 }],
      ] as const) {
        const idles = peer.idles;
        const statement = peer.start(sql, more);
        const reported = peer.reported(statement);
        if (what === 'sleeping') await runs(server, id);
        else await until(() => reported.rows >= 10);
        peer.post({ type: 'cancel', statement });
        peer.post({ type: 'cancel', statement });
        // Long before its end: usually within 0.1 s.
        await until(() => peer.idles > idles);
        t.equal(reported.end, null, `${what}: nothing more is reported about it`);
        t.equal((await peer.run('SELECT 7')).batches.join(), '[7]', `${what}: the next statement is not affected`);
      }
    });

    await t.test('a cancel that comes too late has no effect', async (t) => {
      const { peer } = await open(t, server);
      for (let round = 1; round <= 20; round++) {
        const statement = peer.start('SELECT 1');
        peer.post({ type: 'cancel', statement });
        await until(() => peer.idles === 2 * round - 1);
        peer.post({ type: 'cancel', statement });
        t.equal((await peer.run('SELECT SLEEP(0.001)')).batches.join(), '[0]');
      }
    });

    await t.test('a row that is too large fails only its own statement, after the rows before it', async (t) => {
      const { peer } = await open(t, server, { rowBytesMax: 100 * KiB });
      for (const size of [100 * KiB, 300 * KiB, 20 * MiB]) {
        const reported = await peer.run(`SELECT 'a' UNION ALL SELECT REPEAT('b', ${size}) UNION ALL SELECT 'c'`);
        t.match(reported.end, { ok: false, failure: { code: 90_007, message: /102400/ } });
        t.equal(reported.batches.join(), '["a"]');
      }
      t.equal((await peer.run(`SELECT REPEAT('b', ${100 * KiB - 4})`)).batches.join().length, 100 * KiB);
    });

    await t.test('the size of a row is that of its JSON, not of its packets', async (t) => {
      // From here on the length of a cell takes nine bytes, more than its quotes and brackets.
      const { peer } = await open(t, server, { rowBytesMax: 17 * MiB });
      for (const more of [0, 1]) {
        const reported = await peer.run(`SELECT REPEAT('b', ${17 * MiB - '[""]'.length + more})`);
        t.match(reported.end, more === 0 ? { ok: true } : { ok: false, failure: { code: 90_007 } });
        t.equal(reported.rows, 1 - more);
      }
    });

    await t.test(
      'a row that is too large is detected by its last packet too, and the connection continues',
      async (t) => {
        const { peer } = await open(t, server, { rowBytesMax: MiB });
        // With nine bytes for its length, such a cell fills its packets, and an empty one follows.
        for (const size of [2 * 0xffffff - 9, 0xffffff - 4]) {
          const reported = await peer.run(`SELECT 'a' UNION ALL SELECT REPEAT('b', ${size})`);
          t.match(reported.end, { ok: false, failure: { code: 90_007 } });
          t.equal((await peer.run('SELECT 1')).batches.join(), '[1]');
        }
      },
    );

    await t.test('statements on two connections take turns without mixing their rows', async (t) => {
      // All rows of the table, as below. Some are too large for the kernel.
      const [total, largeEvery] = figure([10_000, 1_000], [100_000, 10_000]) as [number, number];
      const word = 'abc é " 😀';
      const sums = await Promise.all(
        [0, 1].map(async (which) => {
          const { peer } = await open(t, server);
          const columns = which === 0 ? 'i, x' : `CONCAT(i, '${word}'), NULL, -i, HEX(i)`;
          const large = `REPEAT('y', IF(i % ${largeEvery} = ${which}, 150000, 5))`;
          const sql = `SELECT ${columns}, ${large} AS y FROM (${numbers(total)}) AS n`;
          const statement = peer.start(sql, { creditBytes: 300 * KiB });
          const reported = peer.reported(statement);
          await until(() => {
            if (peer.idles === 0) peer.post({ type: 'credit', statement, bytes: 2 * MiB, rows: 0 });
            return peer.idles === 1;
          });
          t.match(reported.end, { ok: true });
          t.equal(reported.rows, total);
          const rows = JSON.parse(`[${reported.batches.join(',')}]`) as (number | string)[][];
          let sum = 0;
          for (const [first, ...others] of rows) {
            const i = Number.parseInt(`${first}`, 10);
            const y = (i % largeEvery === which ? 'y'.repeat(150_000) : 'yyyyy') as string;
            const expected = which === 0 ? ['x'.repeat(90), y] : [null, -i, i.toString(16).toUpperCase(), y];
            const firstExpected = which === 0 ? i : `${i}${word}`;
            if (first === firstExpected && others.every((cell, column) => cell === expected[column])) sum += i;
          }
          return sum;
        }),
      );
      t.strictSame(sums, [(total * (total + 1)) / 2, (total * (total + 1)) / 2]);
    });

    await t.test('columns are reported in full or by number, for any number of earlier ones', async (t) => {
      const { peer } = await open(t, server);
      for (let round = 0; round < 3; round++) {
        for (let columns = 1; columns <= 40; columns++) {
          const names = Array.from({ length: columns }, (_, column) => `c${columns}_${column}`);
          const reported = await peer.run(`SELECT ${names.map((name) => `1 AS ${name}`).join()}`, {
            after: round === 1 ? 'clean' : 'keep',
          });
          const reportedNames = reported.columns?.map(({ name }) => name).join();
          if (reportedNames !== names.join()) t.fail(`round ${round}, ${columns} columns: ${reportedNames}`);
        }
      }
      const before = peer.messages.length;
      for (const sql of ['SELECT 1 AS a', 'SELECT 2 AS a']) await peer.run(sql);
      t.match(peer.messages[before], { columns: { columns: [{ name: 'a' }] } });
      const again = peer.messages[before + 1] as FromWorker & { type: 'update' };
      t.strictSame(Object.keys(again.columns ?? {}), ['number'], 'columns that were reported before have a number');
    });

    await t.test('batches are compressed on request, and end where pages do', async (t) => {
      const { peer } = await open(t, server);
      // All rows of the table, because the database may choose a different part each time.
      const total = figure(10_000, 100_000);
      const pageRows = 1_000;
      const sql = `SELECT * FROM (${numbers(total)}) AS n ORDER BY i`;
      const plain = await peer.run(sql);
      const before = peer.messages.length;
      const zipped = await peer.run(sql, { gzipLevel: 1, pageRows });
      t.equal(zipped.rows, total);
      t.ok(zipped.batches.join() === plain.batches.join(), 'the text is the same');
      t.ok(zipped.bytes < plain.bytes / 5, `${zipped.bytes} bytes instead of ${plain.bytes}`);
      let rows = 0;
      let across = 0;
      for (const message of peer.messages.slice(before)) {
        if (message.type !== 'update' || message.batch === undefined) continue;
        if ((rows % pageRows) + message.batch.rows > pageRows) across++;
        rows += message.batch.rows;
      }
      t.equal(across, 0);
      t.equal((await peer.run('SELECT 1', { gzipLevel: 9, pageRows })).batches.join(), '[1]');
    });

    await t.test('only the first of several result sets is kept, and the statement fails', async (t) => {
      const { database, peer } = await open(t, server);
      await server.sql(
        `CREATE PROCEDURE one() SELECT 1 AS a;
        CREATE PROCEDURE none() SET @ran = 1;
        DELIMITER //
        CREATE PROCEDURE two() BEGIN SELECT 1 AS a; SELECT 2 AS b, 3 AS c; SET @ran = 2; END//
        CREATE PROCEDURE many() BEGIN
          DECLARE i INT DEFAULT 0;
          WHILE i < 50 DO SELECT REPEAT('x', 100000); SET i = i + 1; END WHILE;
        END//
        CREATE PROCEDURE breaks() BEGIN SELECT 1 AS a; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'broken'; END//`,
        { database },
      );
      const one = await peer.run('CALL one()');
      t.equal(one.batches.join(), '[1]');
      t.match(one.end, { ok: true });
      t.match((await peer.run('CALL none()')).end, { ok: true });
      const two = await peer.run('CALL two()');
      t.match(two.end, { ok: false, failure: { code: 90_008 } });
      t.notMatch(two.batches.join(), /2/, 'no row of the second result is delivered');
      t.equal((await peer.run('SELECT @ran + 0')).batches.join(), '[2]', 'the procedure runs to its end');
      t.match((await peer.run('CALL many()')).end, { ok: false, failure: { code: 90_008 } });
      t.match((await peer.run('CALL breaks()')).end, { ok: false, failure: { message: 'broken' } });
      t.equal((await peer.run('SELECT 1')).batches.join(), '[1]');
    });

    await t.test('a row of a second result set is never too large, and the procedure runs to its end', async (t) => {
      const { database, peer } = await open(t, server, { rowBytesMax: 100 * KiB });
      await server.sql(
        `DELIMITER //
        CREATE PROCEDURE two(bytes INT) BEGIN SELECT 1 AS a; SELECT REPEAT('x', bytes); SET @ran = bytes; END//`,
        { database },
      );
      // Only the last one is larger than a packet reader accepts. The others are dropped before they are measured.
      for (const bytes of [10, 300 * KiB, 20 * MiB]) {
        const two = await peer.run(`CALL two(${bytes})`);
        t.match(two.end, { ok: false, failure: { code: 90_008 } }, `${bytes} bytes`);
        t.equal((await peer.run('SELECT @ran + 0')).batches.join(), `[${bytes}]`, 'nothing stopped it');
      }
    });

    await t.test('LOAD DATA LOCAL is refused, even if the server allows it', async (t) => {
      const { database, peer } = await open(t, server);
      await server.sql('CREATE TABLE loaded (a TEXT)', { database });
      t.equal(await server.sql('SELECT @@local_infile'), '1');
      for (const sql of [
        "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE loaded",
        "load  data /* x */ low_priority LOCAL infile '/etc/hostname' INTO TABLE loaded",
      ]) {
        const reported = await peer.run(sql);
        t.match(reported.end, { ok: false, failure: { code: 90_009 } }, sql);
      }
      t.equal((await peer.run('SELECT COUNT(*) FROM loaded')).batches.join(), '[0]');
    });

    await t.test('a one-off statement leaves a clean connection, whether it succeeds or fails', async (t) => {
      const { database, peer } = await open(t, server);
      for (const sql of [
        'SET @x = 1, SESSION sql_mode = DEFAULT',
        'SET @x = 1, net_write_timeout = 7, character_set_results = latin1',
        'SET @x = 1, nothing = 2',
        'USE mysql',
        'SELECT nothing',
        'BEGIN',
      ]) {
        await peer.run(sql, { after: 'clean' });
        const reported = await peer.run(lookAround, { after: 'clean' });
        t.equal(reported.batches.join(), cleanSessionState(database), sql);
      }
    });

    await t.test('a cancel during the reset leaves a clean connection', async (t) => {
      const random = seeded(t);
      const ends = { cancelled: 0, reported: 0, lost: 0 };
      let lease = await open(t, server);
      let round = 0;
      // The moment of a cancel is random, so the test repeats, with longer delays, until cancels came both in time and too late.
      const isEnough = (): boolean => round >= 150 && ends.cancelled > 10 && ends.reported > 10;
      for (; !isEnough() && round < 3_000; round++) {
        const { database, peer } = lease;
        const idles = peer.idles;
        const sql =
          random(2) === 0
            ? `SELECT @x := ${round}, SLEEP(${random(4) / 1000})`
            : `SET @x = ${round}, net_write_timeout = 7`;
        const statement = peer.start(sql, { after: 'clean' });
        await delay(random(8 + Math.floor(round / 50)) / 2);
        peer.post({ type: 'cancel', statement });
        await until(() => peer.idles > idles || peer.closed);
        ends[peer.reported(statement).end === null ? 'cancelled' : 'reported']++;
        if (peer.closed) {
          ends.lost++;
          t.match(peer.messages.at(-1), { type: 'lost', reason: /closed the connection|ECONNRESET/ });
          lease = await open(t, server);
          continue;
        }
        const around = await peer.run(lookAround, { after: 'clean' });
        if (around.batches.join() !== cleanSessionState(database)) t.fail(`round ${round}: ${around.batches.join()}`);
      }
      t.comment(ends);
      t.ok(ends.cancelled > 10 && ends.reported > 10, 'cancels came in time and too late');
      // A kill during COM_RESET_CONNECTION makes MariaDB close the connection.
      t.ok(ends.lost <= (server.kind === 'mariadb' ? round / 15 : 0), `${ends.lost} connections of ${round} are lost`);
    });

    await t.test('foreign kills during the reset may lose the connection, but reports stay correct', async (t) => {
      const random = seeded(t);
      const killer = await Connection.open({
        address: { socketPath: server.socketPath },
        user: 'root',
        password: '',
        timeoutMs: 10_000,
        rowBytesMax: MiB,
      });
      t.teardown(() => killer.close());
      const ends = { well: 0, failed: 0, lost: 0, unknown: 0 };
      const database = uniqueName();
      await server.sql(`CREATE DATABASE ${database}; CREATE TABLE ${database}.t (a INT PRIMARY KEY, b INT)`);
      t.teardown(() => server.sql(`DROP DATABASE ${database}`));
      const wrong: string[] = [];
      let lease = await open(t, server);
      // The moment of a kill is random, so the test repeats until both outcomes have occurred.
      const isEnough = (round: number): boolean => round >= figure(40, 120) && ends.well > 10 && ends.failed > 0;
      for (let round = 0; !isEnough(round) && round < 3_000; round++) {
        const { id, peer } = lease;
        const idles = peer.idles;
        // Some rounds kill until the statement has ended, and others stop earlier, so both outcomes occur at any speed.
        let kills = random(4) > 0 ? Number.POSITIVE_INFINITY : random(4);
        const storm = (async (): Promise<void> => {
          for (; kills > 0; kills--) {
            await killer.query(`KILL QUERY ${id}`).catch(() => {});
            await delay(random(3));
          }
        })();
        await delay(random(3));
        const sql = `INSERT INTO ${database}.t SELECT ${round}, SLEEP(${random(6) / 1000})`;
        const statement = peer.start(`${sql} + (@x := 1)`, { after: 'clean' });
        await until(() => peer.idles > idles || peer.closed);
        kills = 0;
        await storm;
        const { end } = peer.reported(statement);
        const [[count]] = (await killer.query(`SELECT COUNT(*) FROM ${database}.t WHERE a = ${round}`)) as [[string]];
        const isThere = count === '1';
        if (end === null || (!end.ok && end.failure.code === 90_006)) ends.unknown++;
        else ends[end.ok ? 'well' : 'failed']++;
        if (end === null) wrong.push(`round ${round}: no end was reported`);
        else if (end.ok !== isThere && (end.ok || end.failure.code !== 90_006)) {
          wrong.push(`round ${round}: ${JSON.stringify(end)}, and the row is ${isThere ? '' : 'not '}there`);
        }
        if (peer.closed) {
          ends.lost++;
          lease = await open(t, server);
          continue;
        }
        // The last kill may be kept for the next statement.
        await peer.run('DO 0');
        const around = await peer.run(lookAround);
        if (around.batches.join() !== cleanSessionState(lease.database)) {
          wrong.push(`round ${round}: ${around.batches.join()}`);
        }
      }
      t.comment(ends);
      t.strictSame(wrong, []);
      t.ok(ends.well > 10 && ends.failed > 0, 'some statements were killed and some were not');
    });

    await t.test("a failed reset loses the connection, and the statement's end is reported unchanged", async (t) => {
      for (const [sql, end] of [
        ['DROP DATABASE %', { ok: true, outcome: { affectedRows: '0' } }],
        ['SELECT nothing /* drop */', { ok: false, failure: { code: 1054 } }],
        ["SELECT 'drop'", { ok: true }],
      ] as const) {
        const { database, peer } = await open(t, server);
        if (!sql.startsWith('DROP')) await server.sql(`DROP DATABASE ${database}`);
        const statement = peer.start(sql.replace('%', database), { after: 'clean' });
        await until(() => peer.closed);
        const reported = peer.reported(statement);
        t.match(reported.end, end, sql);
        t.equal(reported.batches.join(), sql.endsWith("'drop'") ? '["drop"]' : '');
        t.equal(peer.idles, 0);
        t.match(peer.messages.at(-1), { type: 'lost', reason: /could not be made ready.*database/is });
      }
    });

    await t.test('a database that does not answer', async (t) => {
      // These tests only wait.
      t.jobs = 6;

      t.test('an end is reported although the reset after it is not answered', async (t) => {
        for (const [what, sql, withDatabase, forward] of [
          // The first packet of a write.
          ['the reset after a one-off statement', 'SELECT 1', true, firstPacket],
          [
            'a new login after a one-off statement',
            'USE mysql',
            false,
            (chunk) => (chunk[4] === 0x11 ? nothing : chunk),
          ],
          [
            'the character set after a statement of a session',
            'SET NAMES latin1',
            true,
            (chunk) => (chunk.includes('utf8mb4') ? nothing : chunk),
          ],
        ] as [string, string, boolean, (chunk: Buffer) => Buffer][]) {
          const proxy = await startProxy(t, server.port);
          const lease = await open(t, server, { killTimeoutMs: 500 }, { address: proxy.address, withDatabase });
          const { peer } = lease;
          proxy.forward = forward;
          const statement = peer.start(sql, { after: sql !== 'SET NAMES latin1' ? 'clean' : 'keep' });
          await until(() => peer.closed);
          t.match(peer.reported(statement).end, { ok: true }, what);
          t.match(peer.messages.at(-1), {
            type: 'lost',
            reason: /not made ready for the next statement within 500 ms/,
          });
          t.equal(peer.idles, 0);
        }
      });

      t.test('a database that falls silent after the login is unavailable', async (t) => {
        for (const forward of [
          (chunk: Buffer) => (chunk.includes('\x02mysql') ? nothing : chunk),
          (chunk: Buffer) => (chunk.includes('net_write_timeout') ? nothing : chunk),
        ]) {
          const proxy = await startProxy(t, server.port);
          proxy.forward = forward;
          const peer = startExecutor(t, {
            ...task(server, 'mysql', { connectTimeoutMs: 500 }),
            address: proxy.address,
          });
          await until(() => peer.closed);
          t.match(peer.messages, [{ type: 'refused', refusal: { kind: 'unavailable', failure: { code: 2002 } } }]);
        }
      });

      t.test('an unanswered kill is repeated on another connection', async (t) => {
        const proxy = await startProxy(t, server.port);
        // The login has the same limit.
        const { id, peer } = await open(t, server, { connectTimeoutMs: 1_500 }, { address: proxy.address });
        let kills = 0;
        proxy.forward = (chunk) => (chunk.includes('KILL QUERY') && kills++ === 0 ? nothing : chunk);
        const statement = peer.start('SELECT SLEEP(100)', { after: 'clean' });
        await runs(server, id);
        peer.post({ type: 'cancel', statement });
        await until(() => peer.idles === 1 || peer.closed);
        t.notOk(peer.closed, 'the connection is not closed');
        t.ok(kills > 1, `${kills} kills`);
        t.equal((await peer.run('SELECT 7')).batches.join(), '[7]');
      });

      t.test('B (attack): the kill timeout starts when the kill is answered', async (t) => {
        const proxy = await startProxy(t, server.port);
        const { id, peer } = await open(t, server, { killTimeoutMs: 500 }, { address: proxy.address });
        let late: { chunk: Buffer; far: Socket } | null = null;
        proxy.forward = (chunk, far) => {
          if (late !== null || !chunk.includes('KILL QUERY')) return chunk;
          late = { chunk, far };
          return nothing;
        };
        const statement = peer.start('SELECT SLEEP(100)', { after: 'clean' });
        await runs(server, id);
        peer.post({ type: 'cancel', statement });
        await until(() => late !== null);
        // Like a database that has many other kills to handle first.
        await delay(1_000);
        const { chunk, far } = late as unknown as { chunk: Buffer; far: Socket };
        far.write(chunk);
        await until(() => peer.idles === 1 || peer.closed);
        t.notOk(peer.closed, 'the connection is not closed, as the database was still killing');

        // The database answers no kill at all.
        proxy.forward = (chunk) => (chunk.includes('KILL QUERY') ? nothing : chunk);
        const second = peer.start('SELECT SLEEP(100)', { after: 'clean' });
        await runs(server, id);
        peer.post({ type: 'cancel', statement: second });
        await until(() => peer.closed);
        t.match(peer.messages.at(-1), { type: 'lost', reason: /did not end within 2000 ms/ });
      });

      t.test('a connection that waits for the answers to its kills is not taken for silent', async (t) => {
        const proxy = await startProxy(t, server.port);
        const limits = { connectTimeoutMs: 1_000, pingMs: 300, killTimeoutMs: 20_000 };
        const { id, peer } = await open(t, server, limits, { address: proxy.address });
        const statement = peer.start('SELECT SLEEP(100)', { after: 'keep' });
        await runs(server, id);
        // From the first kill on, the database answers on this connection only.
        let isMute = false;
        proxy.forward = (chunk) => {
          isMute ||= chunk.includes('KILL QUERY');
          return isMute ? nothing : chunk;
        };
        peer.post({ type: 'cancel', statement });
        await until(() => isMute);
        await server.sql(`KILL QUERY ${id}`);
        await delay(3_000);
        t.notOk(peer.closed, JSON.stringify(peer.messages.at(-1)));
        proxy.forward = (chunk) => chunk;
        await until(() => peer.idles === 1 || peer.closed);
        t.equal((await peer.run('SELECT 7')).batches.join(), '[7]');
      });

      t.test('an abandoned kill that arrives late does not hit a later statement', async (t) => {
        const proxy = await startProxy(t, server.port);
        // The login has the same limit.
        const { id, peer } = await open(t, server, { connectTimeoutMs: 1_500 }, { address: proxy.address });
        let late: { chunk: Buffer; far: Socket } | null = null;
        proxy.forward = (chunk, far) => {
          if (late !== null || !chunk.includes('KILL QUERY')) return chunk;
          late = { chunk, far };
          return nothing;
        };
        // Like a slow database, which still reads the data of a client that disconnected.
        proxy.left = (far) => {
          if (far !== late?.far) far.destroy();
        };
        const statement = peer.start('SELECT SLEEP(100)', { after: 'clean' });
        await runs(server, id);
        peer.post({ type: 'cancel', statement });
        await until(async () => (await server.sql(`${processCount} WHERE ID = ${id} AND INFO IS NOT NULL`)) === '0');
        await delay(200);
        const { chunk, far } = late as unknown as { chunk: Buffer; far: Socket };
        far.resume();
        far.write(chunk, () => far.end());
        await once(far, 'close');
        await until(() => peer.idles === 1 || peer.closed);
        t.notOk(peer.closed, 'the connection is not closed');
        // MariaDB keeps a kill of an idle connection for its next statement; MySQL forgets it.
        const command = await server.sql(`SELECT COMMAND FROM information_schema.PROCESSLIST WHERE ID = ${id}`);
        t.equal(command, 'Sleep', 'no kill is pending');
        t.match((await peer.run('SELECT 7, SLEEP(0.01)')).end, { ok: true });
      });
    });

    await t.test('a statement that ended in the database while its reader is slow is not killed', async (t) => {
      for (const after of ['keep', 'clean'] as const) {
        const { id, peer } = await open(t, server);
        const statement = peer.start(numbers(500), { after, creditRows: 10 });
        await until(() => peer.reported(statement).rows === 10);
        // The database is done when the rest of the result is in memory.
        await until(async () => (await server.sql(`${processCount} WHERE ID = ${id} AND INFO IS NOT NULL`)) === '0');
        peer.post({ type: 'cancel', statement });
        await until(() => peer.idles === 1 || peer.closed);
        t.notOk(peer.closed, JSON.stringify(peer.messages.at(-1)));
        t.equal((await peer.run('SELECT 7')).batches.join(), '[7]');
      }
    });

    await t.test('text is correct after a statement that sets other character sets', async (t) => {
      const { database, peer } = await open(t, server);
      await server.sql(
        `CREATE PROCEDURE names() SET NAMES latin1;
        CREATE TABLE t (a TEXT CHARACTER SET utf8mb4, n INT); INSERT INTO t VALUES ('é 😀', 1234)`,
        { database },
      );
      await peer.run("PREPARE p FROM 'SET NAMES latin1'");
      for (const sql of [
        'SET NAMES latin1',
        'SET character_set_results = utf16',
        'SET character_set_results = NULL',
        'SET CHARACTER SET latin1',
        'SET @@session.character_set_results = binary',
        'SET character_set_client = latin1',
        'CALL names()',
        'EXECUTE p',
      ]) {
        t.match((await peer.run(sql)).end, { ok: true }, sql);
        t.equal((await peer.run("SELECT a, n, 'ß', a = 'é 😀' FROM t")).batches.join(), '["é 😀",1234,"ß",1]', sql);
      }
    });

    await t.test('a session keeps its collation when it changes character sets other than its own', async (t) => {
      const { peer } = await open(t, server);
      await peer.run("SET collation_connection = 'utf8mb4_bin'");
      for (const variable of ['character_set_server', 'character_set_database', 'character_set_filesystem']) {
        t.match((await peer.run(`SET ${variable} = latin1`)).end, { ok: true }, variable);
        t.equal((await peer.run('SELECT @@collation_connection')).batches.join(), '["utf8mb4_bin"]', variable);
      }
    });

    await t.test('internal statements do not overwrite the diagnostics of the last statement', async (t) => {
      const { database, peer } = await open(t, server);
      await server.sql("CREATE TABLE names (a CHAR(3)); INSERT INTO names VALUES ('a'), ('b')", { database });
      await peer.run("SET SESSION sql_mode = ''");
      t.match((await peer.run("INSERT INTO names VALUES ('much too long'), ('x')")).end, {
        ok: true,
        outcome: { affectedRows: '2', warnings: 1 },
      });
      t.match((await peer.run('SHOW WARNINGS')).batches.join(), /Data truncated/, 'the warning can be shown');
      await peer.run("UPDATE names SET a = 'z'");
      t.equal((await peer.run('SELECT ROW_COUNT()')).batches.join(), '[4]');
    });

    await t.test('a connection that the database closes is reported as lost, with its statement', async (t) => {
      const { id, peer } = await open(t, server);
      const statement = peer.start('SELECT SLEEP(100)');
      await runs(server, id);
      await server.sql(`KILL CONNECTION ${id}`);
      await until(() => peer.closed);
      t.match(peer.reported(statement).end, { ok: false, failure: { code: 90_006 } });
      t.equal(peer.messages.filter(({ type }) => type === 'lost').length, 1);
      t.match(peer.messages.at(-1), { type: 'lost', received: statement });
    });

    await t.test(
      'an idle connection that the database closes is reported as lost, with its last statement',
      async (t) => {
        for (const statements of [0, 2]) {
          const { id, peer } = await open(t, server);
          for (let done = 0; done < statements; done++) await peer.run('SELECT 1');
          await server.sql(`KILL CONNECTION ${id}`);
          await until(() => peer.closed);
          t.match(peer.messages.at(-1), { type: 'lost', received: statements + 1 });
          // A later statement is not accepted.
          peer.start('SELECT 1');
          await delay(20);
          t.match(peer.messages.at(-1), { type: 'lost', received: statements + 1 });
        }
      },
    );

    await t.test('a close ends the connection, and its running statement is cut off', async (t) => {
      const { id, peer } = await open(t, server);
      peer.start(numbers(3_000_000), { creditRows: 10 });
      await until(() => peer.messages.length > 1);
      peer.channel.close();
      await until(async () => (await server.sql(`${processCount} WHERE ID = ${id}`)) === '0');
      t.pass();
    });

    await t.test('the number of examined rows is reported on request', async (t) => {
      const { peer } = await open(t, server);
      const statement = peer.start(
        `SELECT COUNT(*) FROM (${numbers(30_000)}) a, (${numbers(30_000)}) b WHERE a.i * b.i = -1`,
      );
      const examined = (): number[] =>
        peer.messages.flatMap((message) => (message.type === 'examined' ? [message.rows ?? 0] : []));
      await until(() => {
        if (peer.idles === 0) peer.post({ type: 'examine', statement });
        return peer.idles > 0 || examined().some((rows) => rows > 0);
      });
      peer.post({ type: 'cancel', statement });
      await until(() => peer.idles > 0);
      t.ok(
        examined().some((rows) => rows > 0),
        'a count was reported',
      );
    });

    await t.test('unread rows go to disk, which frees the connection for the next statement', async (t) => {
      for (const waitMs of [0, 1, 50]) {
        const { peer } = await open(t, server, { spill: spillOf(t, { waitMs }) });
        const total = figure(60_000, 200_000);
        const statement = peer.start(`${numbers(total)} /* ${waitMs} */`, { creditBytes: 64 * KiB });
        const reported = peer.reported(statement);
        await until(() => peer.idles === 1 && reported.end !== null);
        t.match(reported.end, { ok: true });
        t.ok(reported.bytes < 512 * KiB, `${reported.bytes} bytes came for a credit of 64 KiB`);
        t.equal(reported.rows + rowsToCome(reported), total, 'the end reports how many rows are to come');
        t.equal(reported.rows + reported.spilled.rows, total, 'all other rows are on disk');
        t.equal((await peer.run('SELECT 7')).batches.join(), '[7]', 'the next statement runs');
        const failed = peer.run('SELECT nothing');
        while (reported.rows < total) {
          const before = reported.rows;
          peer.post({ type: 'credit', statement, bytes: 3 * MiB, rows: 0 });
          await until(() => reported.rows > before);
        }
        t.match((await failed).end, { ok: false });
        t.match(reported.end, { ok: true });
        const rows = JSON.parse(`[${reported.batches.join(',')}]`) as [number, string][];
        t.equal(new Set(rows.map(([number]) => number)).size, total, 'no row is lost or comes twice');
        t.equal(peer.spillUsage.bytes, 0, 'the disk space is freed');
        t.equal((await peer.run('SELECT 8')).batches.join(), '[8]');
      }
    });

    await t.test('a database that was paused over its last rows continues with the next statement', async (t) => {
      // A small file limit, so that rows wait in memory.
      const { peer } = await open(t, server, { spill: spillOf(t, { bytesMax: 300 * KiB }) });
      for (let rows = 3_000; ; rows += rows < 6_000 ? 1_000 : 100) {
        const idles = peer.idles;
        const statement = peer.start(numbers(rows), { creditBytes: 1 });
        const reported = peer.reported(statement);
        await until(() => peer.idles > idles, Boolean, rows === 3_000 ? undefined : 2_000).catch(() => {});
        // From here on, the database waits for the reader before it sends its last rows.
        if (peer.idles === idles) {
          t.ok(rows > 3_000, `${rows} rows`);
          peer.post({ type: 'cancel', statement });
          return;
        }
        t.equal((await peer.run('SELECT 7')).batches.join(), '[7]', `after a statement of ${rows} rows`);
        peer.post({ type: 'credit', statement, bytes: 64 * MiB, rows: 0 });
        await until(() => reported.rows === rows);
      }
    });

    await t.test('a cancel frees the disk space, before the end of a statement and after it', async (t) => {
      const { peer } = await open(t, server, { spill: spillOf(t) });
      for (const rows of [figure(60_000, 200_000), 3_000_000]) {
        const idles = peer.idles;
        const statement = peer.start(numbers(rows), { creditBytes: 1 });
        const reported = peer.reported(statement);
        await until(() => reported.spilled.rows > 0 && (rows > 1_000_000 || reported.end !== null));
        t.ok(peer.spillUsage.bytes > 0);
        t.equal(reported.end === null, rows > 1_000_000);
        const before = reported.rows;
        peer.post({ type: 'cancel', statement });
        peer.post({ type: 'credit', statement, bytes: MiB, rows: 1_000 });
        await until(() => peer.spillUsage.bytes === 0 && peer.idles > idles);
        t.equal((await peer.run('SELECT 7')).batches.join(), '[7]');
        t.equal(reported.rows, before, 'nothing comes after it');
        t.equal(peer.spillUsage.bytes, 0);
      }
    });

    await t.test('rows on disk outlive a lost or closed connection, and then the channel closes', async (t) => {
      for (const how of ['lost', 'let go']) {
        const { id, peer } = await open(t, server, { spill: spillOf(t) });
        const statements = [0, 1].map(() => 0);
        for (const index of statements.keys()) {
          statements[index] = peer.start(numbers(50_000), { creditBytes: 1 });
          await until(() => peer.idles > index && peer.reported(statements[index] ?? 0).end !== null);
        }
        const running = peer.start('SELECT SLEEP(100)');
        await runs(server, id);
        if (how === 'lost') await server.sql(`KILL CONNECTION ${id}`);
        else peer.post({ type: 'close' });
        await until(async () => (await server.sql(`${processCount} WHERE ID = ${id}`)) === '0');
        if (how === 'lost') await until(() => peer.reported(running).end !== null);
        // It is sent while the loss is being reported, and nothing receives it.
        const late = peer.start('SELECT 1');
        for (const statement of statements) {
          t.equal(peer.closed, false, how);
          const reported = peer.reported(statement);
          t.ok(reported.rows < 10_000);
          peer.post({ type: 'credit', statement, bytes: 64 * MiB, rows: 100_000 });
          await until(() => reported.rows === 50_000);
        }
        await until(() => peer.closed);
        t.equal(peer.spillUsage.bytes, 0);
        t.equal(peer.reported(running).rows, 0);
        t.equal(peer.reported(late).end, null);
      }
    });

    await t.test('closing the channel frees the disk space', async (t) => {
      const { peer } = await open(t, server, { spill: spillOf(t) });
      peer.start(numbers(50_000), { creditBytes: 1 });
      await until(() => peer.idles === 1);
      peer.start(numbers(3_000_000), { creditBytes: 1 });
      await until(() => peer.reported(3).spilled.rows > 0);
      t.ok(peer.spillUsage.bytes > 0);
      peer.channel.close();
      await until(() => peer.spillUsage.bytes === 0);
      await delay(20);
      t.equal(peer.spillUsage.bytes, 0);
    });

    await t.test('rows on disk outlive a statement that ends its own connection', async (t) => {
      const { peer } = await open(t, server, { spill: spillOf(t) });
      const statement = peer.start(numbers(50_000), { creditBytes: 1 });
      await until(() => peer.idles === 1 && peer.reported(statement).end !== null);
      const kill = peer.start('KILL CONNECTION_ID()');
      await until(() => peer.reported(kill).end !== null);
      t.match(peer.reported(kill).end, { ok: false });
      peer.post({ type: 'credit', statement, bytes: 64 * MiB, rows: 100_000 });
      await until(() => peer.reported(statement).rows === 50_000);
      await until(() => peer.closed || peer.messages.some(({ type }) => type === 'lost'));
    });

    await t.test('a close without rows on disk closes the connection and the channel', async (t) => {
      const { id, peer } = await open(t, server);
      peer.post({ type: 'close' });
      await until(() => peer.closed);
      await until(async () => (await server.sql(`${processCount} WHERE ID = ${id}`)) === '0');
      t.equal(peer.messages.filter(({ type }) => type === 'lost').length, 0);
    });

    await t.test('a statement whose rows cannot be written to disk fails alone and keeps the connection', async (t) => {
      const folder = join(t.testdir({ file: '' }), 'file', 'spill');
      const { peer } = await open(t, server, { spill: spillOf(t, { folder }) });
      const reported = await peer.run(numbers(1_000_000), { creditBytes: 1 });
      t.match(reported.end, { ok: false, failure: { code: 90_010, outcome: 'rolled_back' } });
      t.equal(peer.spillUsage.bytes, 0);
      t.equal((await peer.run('SELECT 7')).batches.join(), '[7]');
    });

    await t.test('the entry serves many connections, each until it is closed or refused', async (t) => {
      const { port1, port2 } = new MessageChannel();
      const link = new Link<ToWorker, FromWorker>(port1);
      const { address, limits } = task(server, null);
      const spillUsage = SpillUsage.forThreads(1, unshared(0)).shared;
      const largeResults = new SharedArrayBuffer(LargeResults.bytes);
      const served = serve({ port: port2, address, limits, slot: 0, spillUsage, largeResults });
      const peers = [0, 1].map(() => {
        const peer = new Peer(link.open());
        peer.post({ type: 'open', login: { user: 'root', password: '', database: null }, spillSlot: 0 });
        return peer;
      }) as [Peer, Peer];
      await until(() => peers.every(({ messages }) => messages.length > 0));
      for (const peer of peers) {
        t.match(peer.messages[0], { type: 'opened', connection: Number });
        t.equal((await peer.run('SELECT 1')).batches.join(), '[1]');
      }
      peers[0].channel.close();
      t.equal((await peers[1].run('SELECT 2')).batches.join(), '[2]');

      for (const [login, kind, code] of [
        [{ user: uniqueName(), password: 'wrong', database: null }, 'denied', 1045],
        [{ user: 'root', password: '', database: uniqueName() }, 'database', 1049],
      ] as const) {
        const other = new Peer(link.open());
        other.post({ type: 'open', login, spillSlot: 0 });
        await until(() => other.closed);
        t.equal(other.messages.length, 1);
        t.match(other.messages[0], { type: 'refused', refusal: { kind, failure: { code } } });
      }
      link.close();
      await served;
    });
  });
}

/** Rows go to disk as soon as they wait for their reader. */
function spillOf(t: Test, changed: Partial<SpillLimits> = {}): SpillLimits {
  const folder = changed.folder ?? t.testdir();
  return { folder, bytesMax: 1024 * MiB, total: unshared(1024 * MiB), waitMs: 0, ...changed };
}

function rowsToCome({ end }: Reported): number {
  return end?.ok ? end.rowsToCome : 0;
}

/** State that a statement may leave behind, and its values on a clean connection. */
const lookAround = 'SELECT @x, DATABASE(), @@character_set_results, @@net_write_timeout';
function cleanSessionState(database: string): string {
  return `[null,"${database}","utf8mb4",86400]`;
}

const nothing = Buffer.alloc(0);

function firstPacket(chunk: Buffer): Buffer {
  return chunk.subarray(0, 4 + chunk.readUIntLE(0, 3));
}

/** A proxy between an executor and the database. `forward` returns the bytes that the database receives. */
async function startProxy(t: Test, port: number) {
  const listener = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    near.on('data', (chunk) => far.write(proxy.forward(chunk, far)));
    far.pipe(near);
    for (const end of [near, far]) end.on('error', () => {});
    near.on('close', () => proxy.left(far));
    far.on('close', () => near.destroy());
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.teardown(() => listener.close());
  const address = { host: '127.0.0.1', port: (listener.address() as { port: number }).port, tls: null };
  const proxy = {
    address,
    forward: (chunk: Buffer, _far: Socket): Buffer => chunk,
    /** The client has closed its connection. */
    left: (far: Socket): void => {
      far.destroy();
    },
  };
  return proxy;
}

/** A statement of that many numbered rows of about 100 bytes. */
function numbers(count: number): string {
  const digits = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((digit) => `SELECT ${digit} AS d`).join(' UNION ALL ');
  const powers = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000].filter((power) => power < count);
  const tables = powers.map((power) => `(${digits}) AS t${power}`).join(' STRAIGHT_JOIN ');
  const sum = powers.map((power) => `t${power}.d * ${power}`).join(' + ');
  return `SELECT ${sum} + 1 AS i, REPEAT('x', 90) AS x FROM ${tables} LIMIT ${count}`;
}

/** Waits until no messages are in transit: a round trip in each direction after the database has answered. */
async function settled(server: DatabaseServer, peer: Peer): Promise<void> {
  const before = peer.messages.length;
  await server.sql('DO SLEEP(0.1)');
  await new Promise(setImmediate);
  if (peer.messages.length !== before) await settled(server, peer);
}
