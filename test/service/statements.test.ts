import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { figure } from '../support/form.ts';
import { rawRows } from '../support/raw-rows.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, query, type Reply, type SluiceProcess, split, startSluice } from '../support/sluice.ts';

// Both servers share the machine with other work.
t.setTimeout(540_000);

const MiB = 1024 * 1024;

/** The digits of a member of the answer, which may exceed a JavaScript number. */
function member(body: string, name: string): string | undefined {
  return new RegExp(`"${name}":([^,]+),`).exec(body)?.[1];
}

for (const server of await sharedServers()) {
  const { kind } = server;
  t.test(`statements on ${kind} ${server.version}`, async (t) => {
    const database = `statements_${randomUUID().replaceAll('-', '')}`;
    await server.sql(`CREATE DATABASE ${database} CHARACTER SET utf8mb4`);
    t.teardown(() => server.sql(`DROP DATABASE ${database}`));
    const start = async (...args: readonly string[]): Promise<SluiceProcess> => {
      const sluice = await startSluice(['--mysql_url', `${server.url}${database}`, '--worker_threads', '1', ...args]);
      t.teardown(() => sluice.stop());
      return sluice;
    };
    const { url } = await start();
    const withLimits = await start('--columns_max', '1000', '--row_bytes_max', String(200 * MiB));

    /** Runs a statement without rows. @returns its affected rows, insert id and warnings as text */
    const outcome = async (sql: string, body: Record<string, unknown> = {}): Promise<(string | undefined)[]> => {
      const { last, pages } = await query(url, sql, { body });
      t.equal(last.error, null, sql.slice(0, 80));
      t.strictSame(last.data, []);
      t.strictSame(last.schema.fields, []);
      const text = pages.at(-1)?.text ?? '';
      return ['affected_rows', 'last_insert_id', 'warnings'].map((name) => member(text, name));
    };

    await t.test('a result with more columns than --columns_max fails only its statement', async (t) => {
      await server.sql(`CREATE TABLE ${database}.written (n INT)`);
      const columns = (count: number): string => Array.from({ length: count }, (_, n) => `1 AS \`column ${n}\``).join();
      await server.sql(
        `\nDELIMITER ;;\nCREATE PROCEDURE ${database}.write_and_read() ` +
          `BEGIN INSERT INTO written VALUES (1); SELECT ${columns(1_001)}; SELECT 1; END;;\n`,
      );
      const { url } = withLimits;
      const tooMany = { code: 90007, message: /more than 1000 columns \(--columns_max\)/ };
      for (const databend of [{}, { 'x-databend-query-id': '' }]) {
        const headers = databend;
        const body = { session: { database } };
        const most = await query(url, `SELECT ${columns(1_000)}`, { headers, body });
        t.equal(most.rows[0]?.length, 1_000);
        const tooWide = `SELECT ${columns(1_001)} FROM information_schema.COLUMNS`;
        // The answer waits for the end of the statement.
        const pagination = { wait_time_secs: -1 };
        t.match((await post(url, { sql: tooWide, ...body, pagination }, { headers })).json.error, {
          ...tooMany,
          code: 'x-databend-query-id' in headers ? 60007 : 90007,
        });
      }
      const withParams = await query(url, `SELECT ?, ${columns(1_000)}`, { body: { params: [1] } });
      t.match(withParams.last.error, { ...tooMany, outcome: 'rolled_back', retryable: false });

      const session = (await query(url, 'SET @kept = 1', { body: { session: { max_idle_time: 60 } } })).last.session_id;
      const inSession = async (sql: string) => query(url, sql, { body: { session: { id: session } } });
      t.match((await inSession(`SELECT ${columns(1_001)}`)).last.error, { ...tooMany, outcome: 'rolled_back' });
      t.match((await inSession('CALL write_and_read()')).last.error, { ...tooMany, outcome: 'committed' });
      t.strictSame((await inSession('SELECT @kept, COUNT(*) FROM written')).rows, [[1, 1]]);
      t.match((await inSession(`SELECT 1, ${columns(999)}`)).last.error, null);
    });

    await t.test('E (newline): every body ends with one newline, which Content-Length includes', async (t) => {
      const check = ({ body, headers }: Reply, name: string): void => {
        t.match(body, /[^\n]\n$/, name);
        if (headers['content-encoding'] === undefined)
          t.equal(headers['content-length'], `${Buffer.byteLength(body)}`, `the length of ${name}`);
      };
      const key = { 'idempotency-key': randomUUID() };
      const sql = "SELECT REPEAT('é', 3000) FROM information_schema.COLUMNS LIMIT 3";
      const body = { sql, pagination: { max_rows_per_page: 1, wait_time_secs: 20 } };
      const first = await post(url, body, { headers: key });
      check(first, 'a first page');
      check(await post(url, { sql: 'SELECT 1' }), 'a small answer');
      const again = await post(url, body, { headers: key });
      check(again, 'the answer to a repeated POST');
      t.strictSame(again.json.data, first.json.data);
      for (const [path, name] of [
        [first.json.next_uri ?? '', 'a page'],
        [first.json.next_uri ?? '', 'a repeated page'],
        [first.json.stats_uri, 'an answer without data'],
        ['/v1/query/none', 'a 404'],
        ['/nothing', 'an unknown path'],
        ['/health', '/health'],
        ['/ready', '/ready'],
        ['/metrics', '/metrics'],
      ] as const) {
        check(await get(url, path), name);
      }
      check(await post(url, 'no JSON'), 'a 400');
      check(
        await post(url, { sql: 'SELECT 1' }, { headers: { 'x-databend-client': '1' } }),
        "an answer in Databend's dialect",
      );
      check(await post(url, 'no JSON', { headers: { 'x-databend-client': '1' } }), "a refusal in Databend's dialect");
      t.equal((await get(url, first.json.final_uri)).body, '', 'an empty answer stays empty');
    });

    await t.test('E (kill_uri): every answer has kill_uri, and a request to it cancels the statement', async (t) => {
      const sleep = { sql: 'SELECT SLEEP(600)', pagination: { wait_time_secs: 0 } };
      const { json } = await post(url, sleep);
      t.equal(json.kill_uri, `${json.stats_uri}/kill`);
      t.equal((await get(url, json.stats_uri)).json.kill_uri, json.kill_uri);
      t.equal((await get(url, json.kill_uri, { method: 'POST' })).status, 200);
      const killed = (await get(url, json.stats_uri)).json;
      t.match(killed, { state: 'Failed', error: { code: 90002 }, kill_uri: json.kill_uri });
      t.equal((await get(url, json.final_uri)).status, 200);
    });

    await t.test('4,096 columns are returned, and more where the database returns more', async (t) => {
      const columns = Array.from({ length: 4096 }, (_, index) => `${index} AS column_${index}`);
      const { last, rows } = await query(url, `SELECT ${columns}`);
      t.equal(last.error, null);
      t.equal(last.schema.fields.map(({ name }) => name).join(), columns.map((_, index) => `column_${index}`).join());
      t.ok(isDeepStrictEqual(rows, [columns.map((_, index) => index)]));
      const more = await query(url, `SELECT ${columns}, 'one more'`);
      t.equal(more.rows[0]?.[4096], 'one more', 'without a table, the databases return more');
    });

    await t.test('a table with the most columns that the server allows can be read', async (t) => {
      const names = Array.from({ length: 1000 }, (_, index) => `c${index}`);
      await outcome(`CREATE TABLE wide (${names.map((name) => `${name} TINYINT`)})`);
      await outcome(`INSERT INTO wide (c0, c999) VALUES (1, 2)`);
      const { rows } = await query(url, 'SELECT * FROM wide');
      t.strictSame(rows, [[1, ...new Array<null>(998).fill(null), 2]]);
    });

    await t.test('statements without columns report what they changed', async () => {
      t.strictSame(await outcome('DO 1'), ['0', 'null', '0']);
      await outcome('CREATE TABLE k (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, v INT, UNIQUE (v))');
      t.strictSame(await outcome('INSERT INTO k (v) VALUES (10), (20), (30)'), ['3', '1', '0']);
      t.strictSame(await outcome('UPDATE k SET v = v'), ['0', 'null', '0'], 'an unchanged row is not counted');
      t.strictSame(await outcome('UPDATE k SET v = v + 1 ORDER BY v DESC LIMIT 2'), ['2', 'null', '0']);
      const upsert = 'INSERT INTO k (id, v) VALUES (1, 10) ON DUPLICATE KEY UPDATE v = 11';
      t.strictSame((await outcome(upsert))[0], '2');
      t.strictSame((await outcome('REPLACE INTO k VALUES (1, 12)'))[0], '2');
      t.strictSame(await outcome('DELETE FROM k'), ['3', 'null', '0']);
    });

    await t.test('ids above 2^53 and 2^63 keep all digits', async (t) => {
      await outcome('CREATE TABLE ids (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, v INT)');
      for (const id of ['9007199254740993', '9223372036854775813', '18446744073709551613']) {
        await outcome(`ALTER TABLE ids AUTO_INCREMENT = ${id}`);
        t.strictSame(await outcome('INSERT INTO ids (v) VALUES (1)'), ['1', id, '0']);
        const { pages } = await query(url, `SELECT id FROM ids WHERE id = ${id}`);
        t.strictSame(rawRows(pages[0]?.text ?? ''), [[id]]);
      }
      const set = 'UPDATE ids SET v = 2, id = LAST_INSERT_ID(18446744073709551615) WHERE id = 9007199254740993';
      t.strictSame(await outcome(set), ['1', '18446744073709551615', '0']);
    });

    await t.test('warnings are counted, for statements with and without rows', async (t) => {
      const { last } = await query(url, "SELECT CAST('abc' AS SIGNED), CAST('def' AS SIGNED)");
      t.equal(last.warnings, 2);
      t.equal((await query(url, 'SELECT 1')).last.warnings, 0);
      const kept = await query(url, "SET SESSION sql_mode = ''", { body: { session: { max_idle_time: 60 } } });
      const body = { session: { id: kept.last.session_id } };
      await outcome('CREATE TABLE names (short CHAR(2))', body);
      t.strictSame(await outcome("INSERT INTO names VALUES ('abc'), ('d'), ('efg')", body), ['3', 'null', '2']);
      const shown = await query(url, 'SHOW WARNINGS', { body });
      t.equal(shown.rows.length, 2, 'the session can show them');
      t.match(shown.rows[0]?.[2], /Data truncated/);
    });

    await t.test('several result sets fail the statement, which still runs to its end', async (t) => {
      await server.sql(
        `CREATE TABLE ran (what TEXT);
        CREATE PROCEDURE one() SELECT 1 AS a UNION SELECT 2;
        CREATE PROCEDURE none() INSERT INTO ran VALUES ('none'), ('none');
        DELIMITER //
        CREATE PROCEDURE two() BEGIN SELECT 1 AS a; SELECT 2 AS b; INSERT INTO ran VALUES ('two'); END//`,
        { database },
      );
      const one = await query(url, 'CALL one()');
      t.equal(one.last.error, null);
      t.strictSame(one.rows, [[1], [2]]);
      t.strictSame((await outcome('CALL none()'))[1], 'null');
      const two = await query(url, 'CALL two()');
      t.match(two.last, { state: 'Failed', error: { code: 90_008, sqlstate: 'HY000' }, data: [], next_uri: null });
      t.strictSame((await query(url, 'SELECT what FROM ran ORDER BY what')).rows, [['none'], ['none'], ['two']]);
    });

    await t.test('a session that changes its character sets can still read and write any text', async (t) => {
      await outcome('CREATE TABLE texts (v TEXT CHARACTER SET utf8mb4)');
      for (const sql of [
        'SET NAMES latin1',
        'SET NAMES utf8',
        'SET character_set_results = utf16',
        'SET character_set_results = NULL',
        "EXECUTE IMMEDIATE 'SET NAMES latin1'",
      ]) {
        // MySQL has no EXECUTE IMMEDIATE.
        if (kind === 'mysql' && sql.startsWith('EXECUTE')) continue;
        const { last } = await query(url, sql, { body: { session: { max_idle_time: 60 } } });
        t.equal(last.error, null, sql);
        const body = { session: { id: last.session_id } };
        t.strictSame((await outcome("INSERT INTO texts VALUES ('é 長 😀')", body))[0], '1');
        const read = await query(url, "SELECT v, 'ü 😀' AS `名`, 17 FROM texts LIMIT 1", { body });
        t.strictSame(read.rows, [['é 長 😀', 'ü 😀', 17]], sql);
        t.equal(read.last.schema.fields[1]?.name, '名', sql);
        const failed = await query(url, "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'é 長'", { body });
        t.equal(failed.last.error?.message, 'é 長', sql);
      }
      t.strictSame((await query(url, 'SELECT COUNT(DISTINCT BINARY v) FROM texts')).rows, [[1]]);
    });

    await t.test('a row larger than --row_bytes_max fails its statement with 90007', async (t) => {
      const exact = await query(url, `SELECT LENGTH(REPEAT('x', ${64 * MiB}))`);
      t.strictSame(exact.rows, [[64 * MiB]]);
      for (const sql of [`SELECT REPEAT('x', ${64 * MiB})`, `SELECT REPEAT(0xff, ${32 * MiB})`]) {
        const { last } = await query(url, sql);
        t.match(last, { state: 'Failed', error: { code: 90_007 }, data: [], next_uri: null });
        t.match(last.error?.message, /--row_bytes_max/);
      }
      t.strictSame((await query(url, 'SELECT 1')).rows, [[1]]);
    });

    await t.test('a cell of 64 MiB is returned complete if the limit allows it', async (t) => {
      // Each byte is two hex digits.
      const hexBytes = figure(34, 64) * MiB;
      for (const [sql, expected] of [
        [`SELECT REPEAT('x', ${64 * MiB})`, 'x'.repeat(64 * MiB)],
        [`SELECT REPEAT(0xfe, ${hexBytes})`, 'FE'.repeat(hexBytes)],
      ] as const) {
        let { text } = await post(withLimits.url, { sql, pagination: { wait_time_secs: 30 } });
        let data = '';
        for (;;) {
          const { head, rowsText } = split(text);
          t.equal(head.error, null);
          data += rowsText;
          if (head.next_uri === null) {
            await get(withLimits.url, head.final_uri);
            break;
          }
          text = (await get(withLimits.url, head.next_uri)).text;
        }
        t.equal(data.length, expected.length + '[""]'.length);
        t.ok(data === `["${expected}"]`);
      }
    });
  });
}
