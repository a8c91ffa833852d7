import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Row, RowIterator } from 'databend-driver';
import t, { type Test } from 'tap';
import { figure } from '../../support/form.ts';
import { sharedServers } from '../../support/servers.ts';
import { until } from '../../support/until.ts';
import { cellCases, makeCellTable, nameOf } from './cells.ts';
import { cell, each, next, pinnedIdleSecs, resultTimeoutSecs, Stage, valuesOf } from './stage.ts';

// The real driver, as it comes from npm, against the real service and both databases.
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

/** Starts a statement as a driver would that keeps nothing alive. */
async function postPlainly(stage: Stage, body: object): Promise<PlainAnswer> {
  const options = { method: 'POST', headers: plainHeaders(stage), body: JSON.stringify(body) };
  return (await fetch(`${stage.sluice.url}/v1/query`, options)).json() as Promise<PlainAnswer>;
}

/** What the driver makes of a cell's text. */
function decoded(name: string, text: string | null): unknown {
  if (text === null) return null;
  if (name === 'UInt64') return BigInt(text);
  if (/^(?:U?Int|Float)/.test(name)) return Number(text);
  if (name === 'Date') return new Date(`${text}T00:00:00Z`);
  // It has microseconds, and JavaScript's dates have none.
  if (name === 'Timestamp') return new Date(`${text.slice(0, 23).replace(' ', 'T')}Z`);
  if (name === 'Binary') return Buffer.from(text, 'hex');
  return text;
}

const numbersCount = figure(100_000, 1_000_000);

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
    // Each test has connections of its own, and what most of them do is wait.
    await testReading(t, stage);
    await testWriting(t, stage);
    await testSessions(t, stage);
    await testEnds(t, stage);
    await testMillion(t, stage);
    await t.test('what heartbeats keep', (t) => testHeartbeats(t, stage));
  });
}

async function testReading(t: Test, stage: Stage): Promise<void> {
  const { server, database } = stage;

  await t.test('it connects, and learns where it is', async (t) => {
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

  await t.test('a wrong password, and a database that is not there', async (t) => {
    await t.rejects(stage.connect('', 'wrong'), /AuthFailure/);
    await t.rejects(stage.connect('', ''), /AuthFailure/);
    const lost = stage.connect('', stage.password, 'absent').then((connection) => connection.exec('SELECT 1'));
    await t.rejects(lost, /\b(?:1049|1044)\b/);
  });

  await t.test('rows are read one by one, as a whole, and as a stream', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=10');
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
    t.strictSame((await connection.queryRow('SELECT 1 AS a, 2 AS a'))?.values(), [1, 2], 'names may come twice');
  });

  await t.test('statistics come with rows', async (t) => {
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

  await t.test('values of every type, as they are read directly', async (t) => {
    const connection = await stage.connect();
    for (const [number, cellCase] of cellCases.entries()) {
      const printed = await makeCellTable(server, database, `cells_${number}`, cellCase);
      const rows = await connection.queryIter(`SELECT v FROM cells_${number} ORDER BY id`);
      const name = nameOf(cellCase, server.kind);
      t.strictSame(
        rows
          .schema()
          .fields()
          .map(({ dataType }) => dataType),
        [`Nullable(${name})`],
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

  await t.test('a moment is in the zone of the session', async (t) => {
    const connection = await stage.connect();
    await connection.exec("SET time_zone = '+02:00'");
    t.strictSame(await cell(connection, "SELECT TIMESTAMP '2026-01-02 03:04:05'"), new Date('2026-01-02T01:04:05Z'));
    await connection.exec("SET time_zone = '+05:30'");
    t.type(await cell(connection, "SELECT TIMESTAMP '2026-01-02 03:04:05'"), Date, 'no zone breaks a query');
  });

  await t.test('a moment past what the driver can hold fails, and can be read as text', async (t) => {
    const connection = await stage.connect();
    const moment = "TIMESTAMP '9999-12-31 23:59:59'";
    await t.rejects(connection.queryAll(`SELECT ${moment}`), /9999-12-31/);
    t.equal(await cell(connection, `SELECT CAST(${moment} AS CHAR)`), '9999-12-31 23:59:59');
    t.equal(await cell(connection, 'SELECT 1'), 1);
  });

  await t.test('a large result over many pages', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=1000');
    const from = stage.witness.seen.length;
    const rows = valuesOf(await connection.queryAll('SELECT id, v, d FROM numbers WHERE id < 30000 ORDER BY id'));
    const direct = await stage.direct('SELECT id, v, d FROM numbers WHERE id < 30000 ORDER BY id');
    t.equal(rows.length, 30_000);
    t.equal(rows.map((values) => values.map((value) => value ?? 'NULL').join('\t')).join('\n') === direct, true);
    t.ok(stage.statuses('GET', /\/page\/\d+$/, from).length >= 29, 'it came by pages');
    t.strictSame(stage.statuses('GET', /\/final$/, from), [200]);
  });

  await t.test('a text of 8 MiB', async (t) => {
    const connection = await stage.connect();
    const text = (await cell(connection, `SELECT REPEAT('é😀', ${((8 * 1024 * 1024) / 6) | 0})`)) as string;
    t.equal(text.length, 3 * (((8 * 1024 * 1024) / 6) | 0));
  });
}

async function testWriting(t: Test, stage: Stage): Promise<void> {
  await t.test('rows that are changed are counted, of slow statements too', async (t) => {
    const connection = await stage.connect('&wait_time_secs=1');
    t.equal(await connection.exec('CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, v INT)'), 0);
    t.equal(await connection.exec('INSERT INTO counted (v) VALUES (1), (2), (3)'), 3);
    t.equal(await connection.exec('UPDATE counted SET v = v + 1 WHERE id < 3'), 2);
    t.equal(await connection.exec('UPDATE counted SET v = v'), 0, 'rows that stay as they are do not count');
    t.equal(await connection.exec('REPLACE INTO counted VALUES (1, 5)'), 2);
    t.equal(await connection.exec('DELETE FROM counted WHERE id = 2'), 1);
    t.equal(await connection.exec('SELECT * FROM counted'), 0);
    const slow = 'INSERT INTO counted (v) SELECT 5 + SLEEP(0.6) FROM digits WHERE d < 4';
    t.equal(await connection.exec(slow), 4, 'one that takes longer than the POST waits');
    t.equal(await connection.exec('UPDATE counted SET v = 7 + SLEEP(0.4) WHERE v = 5 AND id > 3'), 4);
    t.equal(await connection.exec('DELETE FROM counted WHERE v = 7 AND SLEEP(0.4) = 0'), 4);
    t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM counted'), '1,3');
  });

  await t.test('parameters that the driver writes into the statement', async (t) => {
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
    // It escapes nothing: what comes of that is the database's to say, and nothing is read or lost.
    await t.rejects(connection.queryAll('SELECT ?', ["it's"]), /\[1064\]/);
  });

  await t.test('parameters that newer drivers leave to the server', async (t) => {
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

  await t.test('an answer that is lost on its way does no harm', async (t) => {
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
    t.equal(await stage.direct('SELECT COUNT(*) FROM lost'), '1', 'and run once');
    stage.witness.cutNext('POST', /^\/v1\/query$/, 300);
    t.equal(await connection.exec('INSERT INTO lost SELECT 2 + SLEEP(2)'), 1, 'also if it comes again while it runs');
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

  await t.test('USE and SET reach the next statement', async (t) => {
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

  await t.test('settings of the DSN are set, and those that are unknown break nothing', async (t) => {
    const connection = await stage.connect('&group_concat_max_len=5432&max_threads=8');
    t.equal(Number(await cell(connection, 'SELECT @@group_concat_max_len')), 5432);
    await connection.exec(`USE ${database}_b`);
    t.equal(Number(await cell(connection, 'SELECT @@group_concat_max_len')), 5432);
  });

  await t.test('a database that is dropped does not take the connection with it', async (t) => {
    const connection = await stage.connect();
    await connection.exec(`CREATE DATABASE ${database}_c`);
    await connection.exec(`USE ${database}_c`);
    await connection.exec(`DROP DATABASE ${database}_c`);
    t.equal(await cell(connection, 'SELECT 1'), 1);
    await connection.exec(`USE ${database}_b`);
    t.equal(await cell(connection, 'SELECT DATABASE()'), `${database}_b`);
    await t.rejects(connection.exec(`USE ${database}_c`), /\[1049\]/);
    t.equal(await cell(connection, 'SELECT DATABASE()'), `${database}_b`, 'one that is not there is not selected');
  });

  await t.test('a user variable stays', async (t) => {
    const connection = await stage.connect();
    await connection.exec("SET @mark = 'kept'");
    t.equal(String(await cell(connection, 'SELECT CONVERT(@mark USING utf8mb4)')), 'kept');
  });

  await t.test('a transaction is committed, and one is rolled back', async (t) => {
    const connection = await stage.connect();
    await connection.exec('CREATE TABLE moved (id INT PRIMARY KEY)');
    const seen = () => stage.direct('SELECT COUNT(*) FROM moved');
    for (const [begin, end, expected] of [
      ['BEGIN', 'ROLLBACK', '0'],
      ['START TRANSACTION', 'COMMIT', '1'],
    ] as const) {
      await connection.exec(begin);
      t.equal(await connection.exec('INSERT INTO moved VALUES (1)'), 1);
      t.equal(await seen(), '0', 'nobody else sees the row yet');
      t.equal(Number(await cell(connection, 'SELECT COUNT(*) FROM moved')), 1);
      await t.rejects(connection.exec('INSERT INTO moved VALUES (1)'), /\[1062\]/);
      await connection.exec(end);
      t.equal(await seen(), expected, end);
    }
    await connection.exec('INSERT INTO moved VALUES (2)');
    t.equal(await seen(), '2', 'after it every statement is by itself again');
  });

  await t.test('without autocommit there is a transaction until it is committed', async (t) => {
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

  await t.test('results that are not read, or dropped, do not stop a transaction', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=10');
    await connection.exec('CREATE TABLE gone_on (id INT PRIMARY KEY)');
    await connection.exec('BEGIN');
    const rows = await connection.queryIter('SELECT id FROM numbers WHERE id < 20000 ORDER BY id');
    t.strictSame(await next(rows), [0]);
    t.equal(await connection.exec('INSERT INTO gone_on VALUES (1)'), 1);
    const endless = await connection.queryIter('SELECT a.id FROM numbers a, numbers b');
    t.ok(await next(endless));
    endless.close();
    t.equal(await connection.exec('INSERT INTO gone_on VALUES (2)'), 1);
    const rest: unknown[] = [];
    for await (const [id] of each(rows)) rest.push(id);
    t.strictSame(
      rest,
      Array.from({ length: 19_999 }, (_, index) => index + 1),
      'the first result is as it was',
    );
    const both = ['INSERT INTO gone_on VALUES (3)', 'INSERT INTO gone_on VALUES (4)'];
    t.strictSame(
      await Promise.all(both.map((sql) => connection.exec(sql))),
      [1, 1],
      'two statements at once wait for another',
    );
    t.equal(await stage.direct('SELECT COUNT(*) FROM gone_on'), '0');
    await connection.exec('COMMIT');
    t.equal(await stage.direct('SELECT GROUP_CONCAT(id) FROM gone_on'), '1,2,3,4');
  });

  await t.test('a connection that is closed in a transaction rolls it back', async (t) => {
    const connection = await stage.connect();
    await connection.exec('CREATE TABLE left_open (id INT PRIMARY KEY)');
    await connection.exec('BEGIN');
    await connection.exec('INSERT INTO left_open VALUES (1)');
    const from = stage.witness.seen.length;
    await connection.close();
    t.strictSame(stage.statuses('POST', /\/logout$/, from), [200]);
    const other = await stage.connect();
    t.equal(await other.exec('INSERT INTO left_open VALUES (1)'), 1, 'its lock is gone at once');
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

  await t.test('two connections at once', async (t) => {
    const pair = [
      await stage.connect('&max_rows_per_page=100'),
      await stage.connect('&max_rows_per_page=100', stage.password, `${database}_b`),
    ] as const;
    await stage.direct(`CREATE TABLE ${database}_b.numbers AS SELECT 0 - id AS id FROM numbers WHERE id < 2000`);
    const [ours, theirs] = await Promise.all(
      pair.map((connection) => connection.queryIter('SELECT id FROM numbers WHERE ABS(id) < 2000 ORDER BY ABS(id)')),
    );
    const read: unknown[] = [];
    for (let id = 0; id <= 2000; id++) {
      read.push(...(await Promise.all([next(ours as RowIterator), next(theirs as RowIterator)])));
    }
    t.strictSame(read, [...Array.from({ length: 2000 }, (_, id) => [[id], [0 - id]]).flat(), null, null]);
    // Each waits for what the other does.
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
  await t.test('errors are told with the code of the database', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=1000');
    await t.rejects(connection.queryAll('SELECT * FROM absent'), /\[1146\].*absent/);
    await t.rejects(connection.exec('SELEC 1'), /\[1064\]/);
    await t.rejects(connection.exec(''), /\[1065\]/);
    const late = 'SELECT IF(id = 50000, (SELECT d FROM digits), id) FROM numbers ORDER BY id';
    const rows = await connection.queryIter(late);
    const read = async () => {
      for await (const _ of each(rows));
    };
    await t.rejects(read(), /\[1242\]/, 'also after the first rows');
    await t.rejects(
      connection.exec("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = 'é'"),
      /\[30001\]é/,
    );
    t.equal(await cell(connection, 'SELECT 1'), 1, 'the connection goes on');
  });

  await t.test('what clients ask of their own server is an ordinary error, or answered', async (t) => {
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

  await t.test('what the service itself finds is told in a form that the driver reads', async (t) => {
    const connection = await stage.connect();
    await stage.direct('DELIMITER //\nCREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2; END//');
    const error = await connection.exec('CALL two()').then(String, String);
    t.match(error, /QueryFailed: \[\d{3,5}\]/);
  });

  await t.test('an iterator that is closed ends its statement', async (t) => {
    const connection = await stage.connect('&max_rows_per_page=100');
    const mark = `m${randomUUID().replaceAll('-', '')}`;
    const rows = await connection.queryIter(`SELECT a.id AS ${mark} FROM numbers a, numbers b`);
    t.equal((await next(rows))?.length, 1);
    t.equal(await stage.running(mark), 1);
    const from = stage.witness.seen.length;
    rows.close();
    await until(async () => (await stage.running(mark)) === 0);
    t.strictSame(stage.statuses('POST', /\/final$/, from), [200]);
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
    t.equal(await drain(first), 1_000, 'the others go on');
    second.close();
    third.close();
    first.close();
    t.equal(await cell(connection, 'SELECT 1'), 1);
    await until(() => stage.statuses('POST', /\/final$/, from).length >= 2);
    t.strictSame([...new Set(stage.statuses('POST', /\/final$/, from))], [200]);
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
  // What connections of other tests hold is kept alive just so.
  await stage.closeAll();
  // All that these do is wait, which can be done side by side.
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
    t.equal(naming(from)[0]?.status, 200, 'there were heartbeats that named it');
    t.ok(naming(from).every(({ status }) => status === 200));
  });

  t.test('without them it would have expired', async (t) => {
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
    // One may be on its way; they come every second.
    await until(async () => {
      const after = stage.witness.seen.length;
      await sleep(2_100);
      return unnamed(after).length === 0;
    });
    t.pass('E (temporary tables): they end with what they kept');
  });

  t.test('without them a transaction is rolled back, and who goes on with it is told', async (t) => {
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
  await t.test(`${numbersCount} rows are those of a direct read`, async (t) => {
    const sql = 'SELECT id, v, d FROM numbers ORDER BY id';
    const direct = createHash('sha256')
      .update(await stage.direct(sql))
      .digest('hex');
    // On a busy machine the driver takes longer for a page than results are kept here for want of a poll.
    const connection = await stage.connect('&http_handler_result_timeout_secs=60');
    const hash = createHash('sha256');
    let count = 0;
    let lines = '';
    // Row by row the driver takes a minute on its own account.
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
