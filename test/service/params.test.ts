import { randomBytes } from 'node:crypto';
import t from 'tap';
import { sharedServers } from '../support/servers.ts';
import { post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';

/* Values that the database binds to placeholders. The returned types are tested in test/worker/binary-rows.test.ts. */

const hostile = ["it's", '"', '\\', "\\'; DROP TABLE kept; --", '`', '\0', '\n', '%_', '😀', '-- x', '/* x */', ''];

for (const server of await sharedServers()) {
  t.test(`on ${server.kind}`, { timeout: 540_000 }, async (t) => {
    const name = `params_${randomBytes(4).toString('hex')}`;
    await server.sql(
      `CREATE DATABASE ${name}; CREATE TABLE ${name}.kept (i INT PRIMARY KEY AUTO_INCREMENT, big BIGINT UNSIGNED,
         exact DECIMAL(65, 30), text VARCHAR(200) CHARACTER SET utf8mb4, bytes BLOB)`,
    );
    const { port } = new URL(server.url);
    const sluice: SluiceProcess = await startSluice(['--mysql_url', `mysql://root@127.0.0.1:${port}/${name}`]);
    t.teardown(async () => {
      await sluice.kill();
      await server.sql(`DROP DATABASE ${name}`);
    });
    const run = (sql: string, params: unknown, more: object = {}) =>
      query(sluice.url, sql, { body: { params, pagination: { wait_time_secs: 10 }, ...more } });

    await t.test('every JSON type is bound as the corresponding SQL type', async (t) => {
      const values = [null, true, false, 7, -2.5, 'x', { a: [1, "'"] }, '[1,null]'];
      const { last, rows } = await run(`SELECT ${values.map((_, at) => `? AS p${at}`).join()}`, values);
      t.equal(last.error, null);
      t.strictSame(rows, [[null, 1, 0, 7, -2.5, 'x', `{"a":[1,"'"]}`, '[1,null]']]);
    });

    await t.test('no part of a string is read as SQL', async (t) => {
      const { rows } = await run(`SELECT ${hostile.map(() => '?').join()}`, hostile);
      t.strictSame(rows, [hostile]);
      for (const text of hostile) {
        const inserted = await run('INSERT INTO kept (text, bytes) VALUES (?, ?)', [text, text]);
        t.equal(inserted.last.affected_rows, 1, JSON.stringify(text));
        const found = await run('SELECT text FROM kept WHERE text = :text AND i = :id', {
          text,
          id: inserted.last.last_insert_id,
        });
        t.strictSame(found.rows, [[text]]);
      }
    });

    await t.test('a number that exceeds a JSON number is sent as a string, and keeps every digit', async (t) => {
      const [big, exact] = ['18446744073709551615', `-${'9'.repeat(35)}.${'1'.repeat(30)}`];
      await run('INSERT INTO kept (big, exact) VALUES (?, ?)', [big, exact]);
      const { pages } = await run('SELECT big, exact FROM kept WHERE big = ?', [big]);
      t.match(pages[0]?.text, `[[${big},"${exact}"]]`);
      const refused = await post(sluice.url, { sql: 'SELECT ?', params: [2 ** 60] });
      t.equal(refused.status, 400);
      t.match(refused.text, /params\[0\].*as a string/);
      t.equal((await post(sluice.url, { sql: 'SELECT ?', params: [{ a: [2 ** 60] }] })).status, 400, 'nested too');
    });

    await t.test('an exact fraction is bound by CAST, and a plain number as a double', async (t) => {
      const sum = (value: string) => `SELECT CAST('12345678901234567.89' AS DECIMAL(30,2)) + ${value} AS sum`;
      t.strictSame((await run(sum('CAST(? AS DECIMAL(30,2))'), ['0.01'])).rows, [['12345678901234567.90']]);
      t.strictSame((await run(sum('?'), [0.01])).rows, [[12345678901234568]]);
    });

    await t.test('A7: a list is bound to as many placeholders as it has values', async (t) => {
      const sql = 'SELECT 7 IN (?), 3 IN (?), ?';
      t.strictSame((await run(sql, [[1, 7], [1, 7], 'x'])).rows, [[1, 0, 'x']]);
      t.strictSame((await run('SELECT 7 IN (:ids), :one, 3 IN (:ids)', { ids: [1, 7], one: 1 })).rows, [[1, 1, 0]]);
      const many = Array.from({ length: 65_535 }, (_, index) => index);
      t.strictSame((await run('SELECT 65534 IN (?)', [many])).rows, [[1]], 'as many as the database allows');
      t.match((await run('SELECT 1 IN (:a), 1 IN (:a)', { a: many })).last.error, {
        code: 1390,
        outcome: 'not_started',
      });
      t.match((await run('SELECT ?, ?', [[1, 2]])).last.error, { code: 1210, outcome: 'not_started' });
      const empty = await post(sluice.url, { sql: 'SELECT 1 IN (?)', params: [[]] });
      t.equal(empty.status, 400);
      t.match(empty.text, /"params\[0\]" is an empty list/);
    });

    await t.test('A7: a fraction that a JSON number cannot represent exactly is refused', async (t) => {
      const refused = await post(sluice.url, '{"sql":"SELECT ?","params":[0.12345678901234567890]}');
      t.equal(refused.status, 400);
      t.match(refused.text, /"params\[0\]".*0\.12345678901234567890.*as a string/);
    });

    await t.test(
      'a named value may be used several times, and text that is not a placeholder stays unchanged',
      async (t) => {
        const { rows } = await run("SELECT :a, :b, :a, ':a', '\\':b' /* :c */ -- :d", { a: 1, b: 'two', more: 3 });
        t.strictSame(rows, [[1, 'two', 1, ':a', "':b"]]);
      },
    );

    await t.test('a wrong count or a missing name fails the statement, which is not started', async (t) => {
      for (const [sql, params, message] of [
        ['INSERT INTO kept (text) VALUES (?)', [], /1 placeholder.*0 values/],
        ['INSERT INTO kept (text) VALUES (?)', [1, 2], /1 placeholder.*2 values/],
        ['SELECT 1', [1], /0 placeholders.*1 value/],
        ['SELECT :a, :b', { a: 1 }, /:b/],
      ] as const) {
        const { last } = await run(sql, params);
        t.match(last, { state: 'Failed', error: { code: 1210, outcome: 'not_started' } }, sql);
        t.match(last.error?.message, message);
      }
      t.match((await run('SELECT nothing, ?', [1])).last.error, { code: 1054 });
    });

    await t.test('many rows are paged as without params', async (t) => {
      const sql = (from: string) =>
        `WITH RECURSIVE c AS (SELECT ${from} AS i UNION ALL SELECT i + 1 FROM c WHERE i < 900)
         SELECT a.i, CONCAT(b.i, '"') AS text, a.i / 7 AS part, NULL AS nothing FROM c a JOIN c b ON b.i <= 20`;
      const prepared = await run(sql('?'), [1], { pagination: { wait_time_secs: 10, max_rows_per_page: 999 } });
      const plain = await query(sluice.url, sql('1'), { body: { pagination: { wait_time_secs: 10 } } });
      t.equal(prepared.last.error, null);
      t.equal(prepared.rows.length, 18_000);
      t.strictSame([...prepared.rows].sort(), [...plain.rows].sort());
    });
  });
}
