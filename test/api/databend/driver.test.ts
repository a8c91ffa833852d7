import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Row, RowIterator } from 'databend-driver';
import t, { type Test } from 'tap';
import { figure } from '../../support/form.ts';
import { sharedServers } from '../../support/servers.ts';
import { until } from '../../support/until.ts';
import { makeCellTables, nameOf, tableOf } from './cells.ts';
import { cell, each, next, pinnedIdleSecs, resultTimeoutSecs, Stage, valuesOf } from './stage.ts';

// The driver from npm, with the real service and both databases.
t.setTimeout(500_000);

interface PlainAnswer {
  readonly data: readonly (readonly unknown[])[];
  readonly error: { readonly code: number; readonly message: string } | null;
  readonly session: object | null;
  readonly next_uri: string | null;
}

function plainHeaders({ user, password }: Stage): Record<string, string> {
  return {
    authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
    'content-type': 'application/json',
    'user-agent': 'databend-driver-nodejs/0.34.0',
    'x-databend-query-id': randomUUID().replaceAll('-', ''),
  };
}

/** Starts a statement like a client without heartbeats. */
async function postPlainly(stage: Stage, body: object): Promise<PlainAnswer> {
  const options = { method: 'POST', headers: plainHeaders(stage), body: JSON.stringify(body) };
  return (await fetch(`${stage.sluice.url}/v1/query`, options)).json() as Promise<PlainAnswer>;
}

/** The value that the driver returns for a cell's text. */
function decoded(name: string, text: string | null): unknown {
  if (text === null) return null;
  if (name === 'UInt64') return BigInt(text);
  if (/^(?:U?Int|Float)/.test(name)) return Number(text);
  if (name === 'Date') return new Date(`${text}T00:00:00Z`);
  // The cell has microseconds, which JavaScript dates lack.
  if (name === 'Timestamp') return new Date(`${text.slice(0, 23).replace(' ', 'T')}Z`);
  if (name === 'Binary') return Buffer.from(text, 'hex');
  return text;
}

/** In which the driver asks for rows. */
const formats = ['json', 'arrow'] as const;
type Format = (typeof formats)[number];

/** The type as the driver concludes it from that in Arrow. */
function arrowName(name: string): string {
  if (name === 'Variant') return 'Nullable(String)';
  const [, precision, scale] = /^Decimal\((\d+), (\d+)\)$/.exec(name) ?? [];
  return Number(precision) > 38 ? `Nullable(Decimal(76, ${scale}))` : `Nullable(${name})`;
}

const numbersCount = figure(20_000, 1_000_000);

// Each database has its own service, and most of their tests wait.
t.jobs = 2;

for (const server of await sharedServers()) {
  t.test(`databend-driver on ${server.kind} ${server.version}`, async (t) => {
    const stage = await Stage.start(t, server);
    await server.sql(
      `CREATE TABLE digits (d INT PRIMARY KEY); INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
      CREATE TABLE numbers (id INT PRIMARY KEY, v VARCHAR(40), d DECIMAL(12, 3));
      INSERT INTO numbers SELECT n, IF(n % 7 = 0, NULL, CONCAT('row ', n)), n / 8 FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d
      + 100000 * f.d AS n FROM digits a, digits b, digits c, digits d, digits e, digits f) AS t WHERE n < ${numbersCount}`,
      { database: stage.database },
    );
    await testReading(t, stage);
    await testWriting(t, stage);
    await testSessions(t, stage);
    await testEnds(t, stage);
    await testMillion(t, stage);
    await t.test('state that heartbeats keep alive', (t) => testHeartbeats(t, stage));
  });
}

async function testReading(t: Test, stage: Stage): Promise<void> {
  const { server, database } = stage;

  await t.test('it connects and identifies the server', async (t) => {
    const connection = await stage.connect();
    const info = await connection.info();
    t.match(info, { user: stage.user, database, host: '127.0.0.1', port: stage.witness.port });
    t.equal(await connection.version(), await server.sql('SELECT VERSION()'));
    t.strictSame(valuesOf(await connection.queryAll('SELECT 1 AS a, NULL AS b, CURRENT_USER() AS c')), [
      [1, null, `${stage.user}@%`],
    ]);
    const login = stage.witness.seen.find(({ path }) => path.startsWith('/v1/session/login'));
    t.equal(login?.status, 200);
  });

  await t.test('a wrong password and an unknown database', async (t) => {
    await t.rejects(stage.connect('', 'wrong'), /AuthFailure/);
    await t.rejects(stage.connect('', ''), /AuthFailure/);
    const lost = stage.connect('', stage.password, 'absent').then((connection) => connection.exec('SELECT 1'));
    await t.rejects(lost, /\b(?:1049|1044)\b/);
  });

  const cells = await makeCellTables(server, database);
  for (const format of formats) await t.test(`rows in ${format}`, (t) => testRows(t, stage, cells, format));
}

async function testRows(
  t: Test,
  stage: Stage,
  cells: Awaited<ReturnType<typeof makeCellTables>>,
  format: Format,
): Promise<void> {
  const { server } = stage;
  const option = `&query_result_format=${format}`;

  await t.test('rows are read one by one, all at once, and as a stream', async (t) => {
    const connection = await stage.connect(`&max_rows_per_page=10${option}`);
    const sql = 'SELECT id, v FROM numbers WHERE id < 35 ORDER BY id';
    const lines = (await stage.direct(sql)).split('\n');
    const line = (values: unknown[]) => values.map((value) => value ?? 'NULL').join('\t');

    const single: string[] = [];
    for await (const values of each(await connection.queryIter(sql))) single.push(line(values));
    t.strictSame(single, lines);
    t.strictSame(valuesOf(await connection.queryAll(sql)).map(line), lines);
    t.equal(line((await connection.queryRow(sql))?.values() ?? []), lines[0]);
    const streamed: string[] = [];
    for await (const row of (await connection.queryIter(sql)).stream()) streamed.push(line((row as Row).values()));
    t.strictSame(streamed, lines);

    t.equal(await connection.queryRow('SELECT 1 FROM numbers WHERE id < 0'), null);
    const none = await connection.queryIter('SELECT id, v FROM numbers WHERE id < 0');
    t.strictSame(
      none
        .schema()
        .fields()
        .map(({ name, dataType }) => [name, dataType]),
      [
        ['id', 'Int32'],
        ['v', 'Nullable(String)'],
      ],
    );
    t.equal(await none.next(), null);
    t.strictSame((await connection.queryRow('SELECT 1 AS a, 2 AS a'))?.values(), [1, 2], 'names may be repeated');
    const isArrow = stage.witness.seen.some(({ type }) => type === 'application/vnd.apache.arrow.stream');
    t.equal(isArrow, format === 'arrow', `the rows come in ${format}`);
  });

  await t.test('rows come with statistics', async (t) => {
    const connection = await stage.connect();
    const rows = await connection.queryIterExt('SELECT id FROM numbers WHERE id < 100');
    let count = 0;
    let stats = 0;
    for (let item = await rows.next(); item !== null; item = await rows.next()) {
      if (item instanceof Error) throw item;
      if (item.row !== null) count++;
      else if (item.stats !== null) stats++;
    }
    t.equal(count, 100);
    t.ok(stats > 0);
  });

  await t.test('values of every type equal a direct read', async (t) => {
    const connection = await stage.connect(option);
    for (const [cellCase, printed] of cells) {
      const rows = await connection.queryIter(`SELECT v FROM ${tableOf(cellCase)} ORDER BY id`);
      const name = nameOf(cellCase, server.kind);
      t.strictSame(
        rows
          .schema()
          .fields()
          .map(({ dataType }) => dataType),
        [format === 'arrow' ? arrowName(name) : `Nullable(${name})`],
        cellCase.type,
      );
      const read: unknown[] = [];
      for await (const values of each(rows)) read.push(values[0]);
      t.strictSame(
        read,
        printed.map((text) => decoded(name, text)),
        cellCase.type,
      );
    }
  });

  await t.test('a timestamp is in the zone of the session', async (t) => {
    const connection = await stage.connect();
    await connection.exec("SET time_zone = '+02:00'");
    t.strictSame(await cell(connection, "SELECT TIMESTAMP '2026-01-02 03:04:05'"), new Date('2026-01-02T01:04:05Z'));
    await connection.exec("SET time_zone = '+05:30'");
    t.type(await cell(connection, "SELECT TIMESTAMP '2026-01-02 03:04:05'"), Date, 'any zone is accepted');
  });

  await t.test("a timestamp out of the driver's range fails, and can be read as text", async (t) => {
    const connection = await stage.connect();
    const moment = "TIMESTAMP '9999-12-31 23:59:59'";
    await t.rejects(connection.queryAll(`SELECT ${moment}`), /9999-12-31/);
    t.equal(await cell(connection, `SELECT CAST(${moment} AS CHAR)`), '9999-12-31 23:59:59');
    t.equal(await cell(connection, 'SELECT 1'), 1);
  });

  await t.test('a large result over many pages', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=1000');
    const from = stage.witness.seen.length;
    const count = figure(10_000, 30_000);
    const sql = `SELECT id, v, d FROM numbers WHERE id < ${count} ORDER BY id`;
    const rows = valuesOf(await connection.queryAll(sql));
    const direct = await stage.direct(sql);
    t.equal(rows.length, count);
    t.equal(rows.map((values) => values.map((value) => value ?? 'NULL').join('\t')).join('\n') === direct, true);
    t.ok(stage.statuses('GET', /\/page\/\d+$/, from).length >= count / 1_000 - 1, 'it came in several pages');
    t.strictSame(await stage.answered('GET', /\/final$/, from), [200]);
  });

  await t.test('a text of 8 MiB', async (t) => {
    const connection = await stage.connect();
    const text = (await cell(connection, `SELECT REPEAT('é😀', ${((8 * 1024 * 1024) / 6) | 0})`)) as string;
    t.equal(text.length, 3 * (((8 * 1024 * 1024) / 6) | 0));
  });
}

async function testWriting(t: Test, stage: Stage): Promise<void> {
  await t.test('affected rows are counted, of slow statements too', async (t) => {
    const connection = await stage.connect('&wait_time_secs=1');
    t.equal(await connection.exec('CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, v INT)'), 0);
    t.equal(await connection.exec('INSERT INTO counted (v) VALUES (1), (2), (3)'), 3);
    t.equal(await connection.exec('UPDATE counted SET v = v + 1 WHERE id < 3'), 2);
    t.equal(await connection.exec('UPDATE counted SET v = v'), 0, 'unchanged rows do not count');
    t.equal(await connection.exec('REPLACE INTO counted VALUES (1, 5)'), 2);
    t.equal(await connection.exec('DELETE FROM counted WHERE id = 2'), 1);
    t.equal(await connection.exec('SELECT * FROM counted'), 0);
    const slow = 'INSERT INTO counted (v) SELECT 5 + SLEEP(0.6) FROM digits WHERE d < 4';
    t.equal(await connection.exec(slow), 4, 'a statement that takes longer than the wait of the POST');
    t.equal(await connection.exec('UPDATE counted SET v = 7 + SLEEP(0.4) WHERE v = 5 AND id > 3'), 4);
    t.equal(await connection.exec('DELETE FROM counted WHERE v = 7 AND SLEEP(0.4) = 0'), 4);
    t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM counted'), '1,3');
  });

  await t.test('parameters that the driver substitutes', async (t) => {
    const connection = await stage.connect();
    const params = [1, -1, 1.5, 1e300, true, null, 'text', 'é 😀 "double" ?', '', 9007199254740991];
    const marks = params.map(() => '?').join(', ');
    t.strictSame((await connection.queryRow(`SELECT ${marks}`, params))?.values(), [
      ...[1, -1, '1.5', 1e300, 1, null, 'text', 'é 😀 "double" ?', '', '9007199254740991.0'],
    ]);
    t.strictSame((await connection.queryRow('SELECT :b, :a, :b', { a: 1, b: 'x' }))?.values(), ['x', 1, 'x']);
    await connection.exec('CREATE TABLE given (a INT, b VARCHAR(50), c DECIMAL(5, 2))');
    t.equal(await connection.exec('INSERT INTO given VALUES (?, ?, ?)', [1, 'two', 3.25]), 1);
    t.strictSame((await connection.queryRow('SELECT * FROM given WHERE b = ?', ['two']))?.values(), [1, 'two', '3.25']);
    // It escapes nothing. The database reports the error, and nothing is read or lost.
    await t.rejects(connection.queryAll('SELECT ?', ["it's"]), /\[1064\]/);
  });

  await t.test('parameters that newer drivers send to the server', async (t) => {
    const texts = [
      "it's",
      'back\\slash',
      '\\',
      "\\'; DROP TABLE given; -- ",
      '"',
      '`',
      'a\u0000b\u001a\n',
      '?',
      ':a',
      '😀',
    ];
    const ask = (sql: string, params: unknown) =>
      postPlainly(stage, { session: { database: stage.database }, sql, params });
    const list = await ask(`SELECT ${texts.map(() => '?')}`, texts);
    t.strictSame(list.data, [texts]);
    const kinds = [1, -1, 2.5, true, false, null, '9007199254740993', '12345678901234567890.123456789', ''];
    const { data } = await ask(`SELECT ${kinds.map(() => '?')}`, kinds);
    t.equal(data[0]?.length, kinds.length);
    t.strictSame(
      [data[0]?.[0], data[0]?.[1], Number(data[0]?.[2]), ...(data[0] ?? []).slice(3)],
      ['1', '-1', 2.5, '1', '0', null, '9007199254740993', '12345678901234567890.123456789', ''],
    );
    const named = await ask("SELECT :b, :a, ':a', :b", { a: 1, b: "it's \\" });
    t.strictSame(named.data, [["it's \\", '1', ':a', "it's \\"]]);
    t.match((await ask('INSERT INTO given VALUES (?, ?, ?)', [2, texts[3], null])).data, [['1']]);
    t.strictSame((await ask('SELECT a FROM given WHERE b = ?', [texts[3]])).data, [['2']]);
    for (const [sql, params] of [
      ['SELECT ?, ?', [1]],
      ['SELECT ?', [1, 2]],
      ['SELECT :a, :b', { a: 1 }],
    ] as const) {
      const { error, data } = await ask(sql, params);
      t.match(error, { message: /./ }, `${sql} ${JSON.stringify(params)}`);
      t.strictSame(data, []);
    }
  });

  await t.test('a lost answer does no harm', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=10');
    await connection.exec('CREATE TABLE lost (v INT)');
    const from = stage.witness.seen.length;
    stage.witness.cutNext('POST', /^\/v1\/query$/);
    t.equal(await connection.exec('INSERT INTO lost VALUES (1)'), 1);
    const posts = stage.witness.seen
      .slice(from)
      .filter(({ method, path }) => method === 'POST' && path === '/v1/query');
    t.equal(posts.length, 2, 'it was sent again');
    t.equal(posts[0]?.headers['x-databend-query-id'], posts[1]?.headers['x-databend-query-id']);
    t.equal(await stage.direct('SELECT COUNT(*) FROM lost'), '1', 'it ran once');
    stage.witness.cutNext('POST', /^\/v1\/query$/, 300);
    t.equal(
      await connection.exec('INSERT INTO lost SELECT 2 + SLEEP(2)'),
      1,
      'also if the POST is repeated while it runs',
    );
    t.equal(await stage.direct('SELECT COUNT(*) FROM lost'), '2');
    const all = 'SELECT id FROM numbers WHERE id < 45 ORDER BY id';
    const expected = Array.from({ length: 45 }, (_, id) => [id]);
    for (const path of [/\/page\/2$/, /\/final$/]) {
      stage.witness.cutNext('GET', path);
      t.strictSame(valuesOf(await connection.queryAll(all)), expected, `${path}`);
    }
  });
}

async function testSessions(t: Test, stage: Stage): Promise<void> {
  const { database } = stage;

  await t.test('USE and SET apply to the next statement', async (t) => {
    const [connection, bystander] = [await stage.connect(), await stage.connect()];
    await connection.exec(`USE ${database}_b`);
    t.equal(await cell(connection, 'SELECT DATABASE()'), `${database}_b`);
    t.equal((await connection.info()).database, `${database}_b`);
    await connection.exec('SET SESSION group_concat_max_len = 4321');
    await connection.exec("SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'");
    t.equal(Number(await cell(connection, 'SELECT @@group_concat_max_len')), 4321);
    t.equal(await cell(connection, `SELECT '\\' AS "a"`), '\\');
    t.equal(await cell(connection, 'SELECT DATABASE()'), `${database}_b`);
    t.equal(await cell(bystander, 'SELECT DATABASE()'), database);
    t.equal(await cell(bystander, 'SELECT "a"'), 'a');
  });

  await t.test('settings of the DSN are set, and unknown ones have no effect', async (t) => {
    const connection = await stage.connect('&group_concat_max_len=5432&max_threads=8');
    t.equal(Number(await cell(connection, 'SELECT @@group_concat_max_len')), 5432);
    await connection.exec(`USE ${database}_b`);
    t.equal(Number(await cell(connection, 'SELECT @@group_concat_max_len')), 5432);
  });

  await t.test('the connection survives the drop of its database', async (t) => {
    const connection = await stage.connect();
    await connection.exec(`CREATE DATABASE ${database}_c`);
    await connection.exec(`USE ${database}_c`);
    await connection.exec(`DROP DATABASE ${database}_c`);
    t.equal(await cell(connection, 'SELECT DATABASE()'), null);
    await connection.exec('SET @mark = 1');
    t.equal(await cell(connection, 'SELECT DATABASE()'), null, 'also in a pinned session');
    await connection.exec(`USE ${database}_b`);
    t.equal(await cell(connection, 'SELECT DATABASE()'), `${database}_b`);
    await t.rejects(connection.exec(`USE ${database}_c`), /\[1049\]/);
    t.equal(await cell(connection, 'SELECT DATABASE()'), `${database}_b`, 'an unknown database is not selected');
  });

  await t.test('a user variable is kept', async (t) => {
    const connection = await stage.connect();
    await connection.exec("SET @mark = 'kept'");
    t.equal(String(await cell(connection, 'SELECT CONVERT(@mark USING utf8mb4)')), 'kept');
  });

  await t.test('a transaction is committed, and another is rolled back', async (t) => {
    const connection = await stage.connect();
    await connection.exec('CREATE TABLE moved (id INT PRIMARY KEY)');
    const seen = () => stage.direct('SELECT COUNT(*) FROM moved');
    for (const [begin, end, expected] of [
      ['BEGIN', 'ROLLBACK', '0'],
      ['START TRANSACTION', 'COMMIT', '1'],
    ] as const) {
      await connection.exec(begin);
      t.equal(await connection.exec('INSERT INTO moved VALUES (1)'), 1);
      t.equal(await seen(), '0', 'no other connection sees the row yet');
      t.equal(Number(await cell(connection, 'SELECT COUNT(*) FROM moved')), 1);
      await t.rejects(connection.exec('INSERT INTO moved VALUES (1)'), /\[1062\]/);
      await connection.exec(end);
      t.equal(await seen(), expected, end);
    }
    await connection.exec('INSERT INTO moved VALUES (2)');
    t.equal(await seen(), '2', 'after it every statement commits by itself');
  });

  await t.test('without autocommit a transaction lasts until it is committed', async (t) => {
    const connection = await stage.connect();
    await connection.exec('CREATE TABLE manual (id INT PRIMARY KEY)');
    await connection.exec('SET autocommit = 0');
    await connection.exec('INSERT INTO manual VALUES (1)');
    await connection.exec('COMMIT');
    await connection.exec('INSERT INTO manual VALUES (2)');
    t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM manual'), '1');
    await connection.exec('ROLLBACK');
    await connection.exec('SET autocommit = 1');
    await connection.exec('INSERT INTO manual VALUES (3)');
    t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM manual'), '1,3');
  });

  await t.test('unread or dropped results do not block a transaction', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=10');
    await connection.exec('CREATE TABLE gone_on (id INT PRIMARY KEY)');
    await connection.exec('BEGIN');
    const count = figure(3_000, 20_000);
    const rows = await connection.queryIter(`SELECT id FROM numbers WHERE id < ${count} ORDER BY id`);
    t.strictSame(await next(rows), [0]);
    t.equal(await connection.exec('INSERT INTO gone_on VALUES (1)'), 1);
    const endless = await connection.queryIter('SELECT a.id FROM numbers a, numbers b');
    t.ok(await next(endless));
    endless.close();
    t.equal(await connection.exec('INSERT INTO gone_on VALUES (2)'), 1);
    const rest: unknown[] = [];
    for await (const [id] of each(rows)) rest.push(id);
    t.equal(
      rest.join(),
      Array.from({ length: count - 1 }, (_, index) => index + 1).join(),
      'the first result is unchanged',
    );
    const both = ['INSERT INTO gone_on VALUES (3)', 'INSERT INTO gone_on VALUES (4)'];
    t.strictSame(
      await Promise.all(both.map((sql) => connection.exec(sql))),
      [1, 1],
      'concurrent statements run one after the other',
    );
    t.equal(await stage.direct('SELECT COUNT(*) FROM gone_on'), '0');
    await connection.exec('COMMIT');
    t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM gone_on'), '1,2,3,4');
  });

  await t.test('closing a connection in a transaction rolls it back', async (t) => {
    const connection = await stage.connect();
    await connection.exec('CREATE TABLE left_open (id INT PRIMARY KEY)');
    await connection.exec('BEGIN');
    await connection.exec('INSERT INTO left_open VALUES (1)');
    const from = stage.witness.seen.length;
    await connection.close();
    t.strictSame(await stage.answered('POST', /\/logout$/, from), [200]);
    const other = await stage.connect();
    t.equal(await other.exec('INSERT INTO left_open VALUES (1)'), 1, 'its lock is released at once');
  });

  await t.test('a temporary table', async (t) => {
    const [connection, bystander] = [await stage.connect(), await stage.connect()];
    await connection.exec('CREATE TEMPORARY TABLE passing (v INT)');
    t.equal(await connection.exec('INSERT INTO passing VALUES (1), (2)'), 2);
    t.equal(Number(await cell(connection, 'SELECT SUM(v) FROM passing')), 3);
    await t.rejects(bystander.queryAll('SELECT * FROM passing'), /\[1146\]/);
    await connection.exec('DROP TEMPORARY TABLE passing');
    await t.rejects(connection.queryAll('SELECT * FROM passing'), /\[1146\]/);
  });

  await t.test('two concurrent connections', async (t) => {
    const pair = [
      await stage.connect('&max_rows_per_page=100'),
      await stage.connect('&max_rows_per_page=100', stage.password, `${database}_b`),
    ] as const;
    const count = figure(1_000, 2_000);
    await stage.direct(`CREATE TABLE ${database}_b.numbers AS SELECT 0 - id AS id FROM numbers WHERE id < ${count}`);
    const sql = `SELECT id FROM numbers WHERE ABS(id) < ${count} ORDER BY ABS(id)`;
    const [ours, theirs] = await Promise.all(pair.map((connection) => connection.queryIter(sql)));
    const read: unknown[] = [];
    for (let id = 0; id <= count; id++) {
      read.push(...(await Promise.all([next(ours as RowIterator), next(theirs as RowIterator)])));
    }
    const expected = [...Array.from({ length: count }, (_, id) => [[id], [0 - id]]).flat(), null, null];
    t.ok(isDeepStrictEqual(read, expected), 'each has the rows of its own database');
    // Each waits for the other.
    await pair[0].exec('CREATE TABLE met (id INT PRIMARY KEY)');
    await pair[0].exec('BEGIN');
    await pair[0].exec('INSERT INTO met VALUES (1)');
    const waiting = pair[1].exec(`INSERT INTO ${database}.met VALUES (1)`);
    await until(async () => (await stage.running('INSERT INTO % VALUES (1)')) === 1);
    await pair[0].exec('ROLLBACK');
    t.equal(await waiting, 1);
  });
}

async function testEnds(t: Test, stage: Stage): Promise<void> {
  await t.test('errors have the code of the database', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=1000');
    await t.rejects(connection.queryAll('SELECT * FROM absent'), /\[1146\].*absent/);
    await t.rejects(connection.exec('SELEC 1'), /\[1064\]/);
    await t.rejects(connection.exec(''), /\[1065\]/);
    // The rows before the error are more than the server receives before it has answered with the first page.
    const failingId = figure(15_000, 50_000);
    const late = `SELECT IF(id = ${failingId}, (SELECT d FROM digits), id), REPEAT('x', 500) FROM numbers ORDER BY id`;
    const rows = await connection.queryIter(late);
    const read = async () => {
      for await (const _ of each(rows));
    };
    await t.rejects(read(), /\[1242\]/, 'also after the first rows');
    await t.rejects(
      connection.exec("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = 'é'"),
      /\[30001\]é/,
    );
    t.equal(await cell(connection, 'SELECT 1'), 1, 'the connection continues');
  });

  await t.test('statements for Databend alone give an ordinary error or an answer', async (t) => {
    const connection = await stage.connect();
    for (const sql of [
      'SELECT name FROM system.functions',
      'SELECT * FROM system.user_functions',
      'PRESIGN UPLOAD @~/x',
    ]) {
      await t.rejects(connection.queryAll(sql), /QueryFailed: \[\d+\]/, sql);
    }
    for (const sql of ['SHOW TABLES', 'SHOW DATABASES', 'SHOW VARIABLES', 'SELECT version()', 'DESCRIBE numbers']) {
      t.ok((await connection.queryAll(sql)).length > 0, sql);
    }
  });

  await t.test('errors of the service have a form that the driver reads', async (t) => {
    const connection = await stage.connect();
    await stage.direct('DELIMITER //\nCREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2; END//');
    const error = await connection.exec('CALL two()').then(String, String);
    t.match(error, /QueryFailed: \[\d{3,5}\]/);
  });

  await t.test('closing an iterator ends its statement', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=100');
    const mark = `m${randomUUID().replaceAll('-', '')}`;
    const rows = await connection.queryIter(`SELECT a.id AS ${mark} FROM numbers a, numbers b`);
    t.equal((await next(rows))?.length, 1);
    t.equal(await stage.running(mark), 1);
    const from = stage.witness.seen.length;
    rows.close();
    await until(async () => (await stage.running(mark)) === 0);
    t.strictSame(await stage.answered('POST', /\/final$/, from), [200]);
    await t.rejects(next(rows), /closed/);
    t.equal(await cell(connection, 'SELECT 1'), 1);
  });

  await t.test('E (/final): a cursor of a query that was killed fails, and can be closed', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=100');
    const open = (): Promise<RowIterator> => connection.queryIter('SELECT id FROM numbers ORDER BY id');
    const [first, second, third] = [await open(), await open(), await open()];
    const lastId = connection.lastQueryId();
    for (const rows of [first, second, third]) t.strictSame(await next(rows), [0]);
    const from = stage.witness.seen.length;
    await connection.killQuery(lastId ?? '');
    const drain = async (rows: RowIterator) => {
      let count = 0;
      for await (const _ of each(rows)) if (++count === 1_000) return count;
      return count;
    };
    await t.rejects(drain(third), /cancelled by the client/);
    t.equal(await drain(first), 1_000, 'the other cursors continue');
    second.close();
    third.close();
    first.close();
    t.equal(await cell(connection, 'SELECT 1'), 1);
    t.strictSame([...new Set(await stage.answered('POST', /\/final$/, from, 2))], [200]);
  });

  await t.test("E (query id): a query has the driver's id", async (t) => {
    const connection = await stage.connect();
    const from = stage.witness.seen.length;
    await connection.exec('SELECT 1');
    const [post] = stage.witness.seen
      .slice(from)
      .filter(({ method, path }) => method === 'POST' && path === '/v1/query');
    t.equal(connection.lastQueryId(), post?.headers['x-databend-query-id']);
  });

  await t.test('a statement can be killed by its id', async (t) => {
    const connection = await stage.connect('&wait_time_secs=1');
    const mark = `m${randomUUID().replaceAll('-', '')}`;
    const failed = connection.exec(`SELECT SLEEP(600) AS ${mark}`).then(() => 'it came to an end', String);
    const id = await until(() => connection.lastQueryId());
    t.equal(await stage.running(mark), 1);
    await connection.killQuery(id ?? '');
    t.match(await failed, /APIError/);
    await until(async () => (await stage.running(mark)) === 0);
  });
}

async function testHeartbeats(t: Test, stage: Stage): Promise<void> {
  const beats = (from: number) => stage.witness.seen.slice(from).filter(({ path }) => path === '/v1/session/heartbeat');
  const naming = (from: number) => beats(from).filter(({ body }) => body !== '{"node_to_queries":{}}');
  const unnamed = (from: number) => beats(from).filter(({ body }) => body === '{"node_to_queries":{}}');
  // The connections of other tests also send heartbeats for their pinned sessions.
  await stage.closeAll();
  // These tests only wait, so they run concurrently.
  t.jobs = 4;

  t.test('heartbeats keep a result that nobody reads', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=10');
    const from = stage.witness.seen.length;
    const rows = await connection.queryIter('SELECT id FROM numbers WHERE id < 200 ORDER BY id');
    const read = [await next(rows)];
    await sleep(2 * resultTimeoutSecs * 1_000);
    for await (const values of each(rows)) read.push(values);
    t.strictSame(
      read,
      Array.from({ length: 200 }, (_, id) => [id]),
    );
    t.equal(naming(from)[0]?.status, 200, 'heartbeats named the query');
    t.ok(naming(from).every(({ status }) => status === 200));
  });

  t.test('without heartbeats it expires', async (t) => {
    const sql = `SELECT id FROM ${stage.database}.numbers`;
    const { next_uri } = await postPlainly(stage, { sql, pagination: { max_rows_per_page: 10 } });
    t.ok(next_uri);
    await sleep((resultTimeoutSecs + 2) * 1_000);
    const answer = await fetch(stage.sluice.url + next_uri, { headers: plainHeaders(stage) });
    t.equal(answer.status, 400);
    t.match(await answer.json(), { error: { code: Number, message: /./ } });
  });

  t.test('heartbeats keep a transaction and a temporary table', async (t) => {
    const [connection, other] = [await stage.connect(), await stage.connect()];
    await connection.exec('CREATE TABLE patient (id INT PRIMARY KEY)');
    await connection.exec('BEGIN');
    await connection.exec('INSERT INTO patient VALUES (1)');
    await other.exec('CREATE TEMPORARY TABLE passing (v INT)');
    const from = stage.witness.seen.length;
    await sleep(1.5 * pinnedIdleSecs * 1_000);
    t.ok(
      beats(from).some(({ body }) => body === '{"node_to_queries":{}}'),
      'they name no query',
    );
    await connection.exec('INSERT INTO patient VALUES (2)');
    await connection.exec('COMMIT');
    t.equal(await stage.direct('SELECT COUNT(*) FROM patient'), '2');
    t.equal(Number(await cell(other, 'SELECT COUNT(*) FROM passing')), 0);
    await other.exec('DROP TEMPORARY TABLE passing');
    // A heartbeat may be in transit; they are sent every second.
    await until(async () => {
      const after = stage.witness.seen.length;
      await sleep(2_100);
      return unnamed(after).length === 0;
    });
    t.pass('E (temporary tables): heartbeats end with the state that they kept');
  });

  t.test('without heartbeats a transaction is rolled back, and the next statement gets an error', async (t) => {
    await stage.direct('CREATE TABLE impatient (id INT PRIMARY KEY)');
    const begun = await postPlainly(stage, { session: { database: stage.database }, sql: 'BEGIN' });
    t.match(begun.session, { txn_state: 'Active', internal: /./ });
    const sql = 'INSERT INTO impatient VALUES (1)';
    const { session, error } = await postPlainly(stage, { session: begun.session, sql });
    t.equal(error, null);
    await sleep((pinnedIdleSecs + 1.5) * 1_000);
    const late = await postPlainly(stage, {
      session: session ?? begun.session,
      sql: 'INSERT INTO impatient VALUES (2)',
    });
    t.match(late.error, { code: Number, message: /./ });
    t.equal(await stage.direct('SELECT COUNT(*) FROM impatient'), '0');
  });
}

async function testMillion(t: Test, stage: Stage): Promise<void> {
  for (const format of formats)
    await t.test(`${numbersCount} rows in ${format} equal a direct read`, async (t) => {
      const sql = 'SELECT id, v, d FROM numbers ORDER BY id';
      const direct = createHash('sha256')
        .update(await stage.direct(sql))
        .digest('hex');
      // On a busy machine the driver takes longer for a page than an unpolled result is kept here.
      const connection = await stage.connect(`&http_handler_result_timeout_secs=60&query_result_format=${format}`);
      const hash = createHash('sha256');
      let count = 0;
      let lines = '';
      // Row by row, the driver alone takes a minute.
      for (const row of await connection.queryAll(sql)) {
        const [id, v, d] = row.values();
        lines += `${count++ === 0 ? '' : '\n'}${id}\t${v ?? 'NULL'}\t${d}`;
        if (lines.length < 65_536) continue;
        hash.update(lines);
        lines = '';
      }
      t.equal(count, numbersCount);
      t.equal(hash.update(lines).digest('hex'), direct);
    });
}
