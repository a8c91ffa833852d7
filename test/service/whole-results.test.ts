import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import mysql from 'mysql2/promise';
import t from 'tap';
import { parseCsv } from '../support/csv.ts';
import { figure } from '../support/form.ts';
import { holdStatement } from '../support/held-statement.ts';
import { metric } from '../support/metrics.ts';
import { connectTo, exchange, requestText } from '../support/raw-http.ts';
import { type DatabaseServer, sharedServers, startServer } from '../support/servers.ts';
import { post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;
const rowsCount = figure(20_000, 1_000_000);

interface Whole {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly trailers: IncomingMessage['trailers'];
  readonly body: Buffer;
  readonly text: string;
  /** Whether the answer came to its end. */
  readonly isComplete: boolean;
}

/** @param read what is done with the answer before its body is read */
async function whole(
  sluice: SluiceProcess,
  statement: string | object,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  read: (response: IncomingMessage) => Promise<void> = async () => {},
): Promise<Whole> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(`${sluice.url}/v1/query${path}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', ...headers },
    });
    sent.on('response', resolve).on('error', reject);
    sent.end(JSON.stringify(typeof statement === 'string' ? { sql: statement } : statement));
  });
  await read(response);
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer);
  } catch {
    // It was cut off.
  }
  const body = Buffer.concat(chunks);
  const { statusCode: status = 0, trailers, complete: isComplete } = response;
  return { status, headers: response.headers, trailers, body, text: body.toString(), isComplete };
}

function parseTsv(text: string): (string | null)[][] {
  const letters: Readonly<Record<string, string>> = { t: '\t', n: '\n', '\\': '\\', '0': '\0' };
  const lines = text.split('\n').slice(0, -1);
  return lines.map((line) =>
    line
      .split('\t')
      .map((cell) =>
        cell === '\\N' ? null : cell.replace(/\\(.)/g, (_, letter: string) => letters[letter] as string),
      ),
  );
}

/** A table with columns of all kinds, and cells that every format has to take care of. */
async function makeTable(server: DatabaseServer): Promise<string> {
  const schema = `whole_${randomBytes(4).toString('hex')}`;
  const texts = [
    "''",
    'NULL',
    "'a,b'",
    '\'say "hi"\'',
    "'two\\r\\nlines'",
    "'tab\\tbackslash\\\\N'",
    "'é😀'",
    "'plain'",
  ];
  await server.sql(`CREATE DATABASE ${schema} CHARACTER SET utf8mb4`);
  await server.sql(
    `CREATE TABLE kinds (id INT NOT NULL PRIMARY KEY, big BIGINT UNSIGNED, price DECIMAL(30,10), real8 DOUBLE, day DATE,
       moment DATETIME(6), span TIME(3), bits BIT(12), txt TEXT, bytes VARBINARY(20), doc JSON);
     INSERT INTO kinds SELECT n, 18446744073709551615 - n, n / 7, IF(n % 5 = 0, NULL, n / 3), DATE_ADD('1999-12-31', INTERVAL n % 9999 DAY),
       DATE_ADD('2020-01-01 00:00:00.000001', INTERVAL n MICROSECOND), SEC_TO_TIME(n % 3000000), n % 4096,
       ELT(1 + n % 8, ${texts.join(', ')}), UNHEX(LEFT(SHA2(n, 256), 32)), JSON_OBJECT('n', n, 'text', 'a "b", c')
     FROM (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000) SELECT a.n + 1000 * (b.n - 1) AS n
           FROM numbers a JOIN numbers b ON b.n <= ${rowsCount / 1_000}) AS sequence`,
    { database: schema },
  );
  return schema;
}

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const sluice = await startSluice(['--mysql_url', server.url]);
    t.teardown(() => sluice.kill());
    const schema = await makeTable(server);
    t.teardown(() => server.sql(`DROP DATABASE ${schema}`));
    const sql = `SELECT * FROM ${schema}.kinds ORDER BY id`;

    await t.test('rows of one empty text are as many lines', async (t) => {
      for (const headers of [{}, { 'accept-encoding': 'gzip' }] as Record<string, string>[]) {
        const {
          body,
          trailers,
          headers: answer,
        } = await whole(sluice, `SELECT '' AS nothing FROM ${schema}.kinds`, '?format=tsv&header=0', headers);
        const text = answer['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
        t.equal(text.toString(), '\n'.repeat(rowsCount));
        t.equal(trailers['sluice-rows'], String(rowsCount));
      }
    });

    await t.test('every format has the cells of the pages', async (t) => {
      const { rows, last } = await query(sluice.url, sql);
      const names = last.schema.fields.map(({ name }) => name);
      // Numbers of more digits than a double has are compared as the text of a page.
      const texts = rows.map((row) => row.map((cell) => (cell === null ? null : String(cell))));
      const pages = await query(sluice.url, `SELECT id, CAST(big AS CHAR), doc FROM ${schema}.kinds ORDER BY id`);
      for (const [index, [, big, doc]] of pages.rows.entries()) {
        const row = texts[index] as (string | null)[];
        row[1] = String(big);
        // MariaDB's JSON is text.
        row[10] = JSON.stringify(typeof doc === 'string' ? JSON.parse(doc) : doc);
      }
      const withDocuments = (parsed: readonly (readonly (string | null)[])[]): (string | null)[][] =>
        parsed.map((row) => [...row.slice(0, 10), JSON.stringify(JSON.parse(row[10] as string))]);
      const csv = await whole(sluice, sql, '?format=csv');
      t.equal(csv.status, 200);
      t.equal(csv.headers['content-type'], 'text/csv; charset=utf-8; header=present');
      t.equal(csv.trailers['sluice-rows'], String(rowsCount));
      const [header, ...cells] = parseCsv(csv.text);
      t.strictSame(header, names);
      t.ok(sameRows(withDocuments(cells), texts), 'CSV');
      const tsv = await whole(sluice, sql, '?format=tsv&header=0');
      t.ok(sameRows(withDocuments(parseTsv(tsv.text)), texts), 'TSV');
      const lines = (await whole(sluice, sql, '?format=ndjson')).text.split('\n').slice(0, -1);
      const objects = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      t.strictSame(Object.keys(objects[0] ?? {}), names);
      t.ok(sameRows(objects.map(Object.values), rows), 'NDJSON, objects');
      const arrays = (await whole(sluice, sql, '?format=ndjson&rows=arrays')).text.split('\n').slice(0, -1);
      t.ok(
        sameRows(
          arrays.map((line) => JSON.parse(line)),
          rows,
        ),
        'NDJSON, arrays',
      );
      t.match(arrays[0], /18446744073709551614/, 'every digit');
      const json = JSON.parse((await whole(sluice, sql, '?format=json')).text) as { schema: object; data: unknown[][] };
      t.strictSame(json.schema, last.schema);
      t.ok(sameRows(json.data, rows), 'JSON');
    });

    await t.test('an Accept header chooses a format, and gzip is sent to those who accept it', async (t) => {
      const plain = await whole(sluice, sql, '', { accept: 'text/csv' });
      t.equal(plain.headers['content-encoding'], undefined);
      const zipped = await whole(sluice, sql, '', { accept: 'text/html, text/csv;q=0.9', 'accept-encoding': 'gzip' });
      t.equal(zipped.headers['content-encoding'], 'gzip');
      t.ok(gunzipSync(zipped.body).equals(plain.body), 'the same bytes');
      t.ok(zipped.body.length < plain.body.length / 2);
      const tsv = await whole(sluice, 'SELECT 1 AS a', '', { accept: 'text/csv;q=0.5, text/tab-separated-values' });
      t.equal(tsv.text, 'a\n1\n');
      const wins = await whole(sluice, 'SELECT 1 AS a', '?format=ndjson', { accept: 'text/csv' });
      t.equal(wins.text, '{"a":1}\n', 'the parameter wins');
      const plainJson = ['application/json', '*/*', 'text/csv;q=0.1, application/json'];
      // A weight that is none counts as if its type were not named.
      const invalid = ['NaN', '2', '1.001', '-1', '0x1', '1e0', '0.1234', '', '"1"'].map(
        (weight) => `text/csv;q=${weight}`,
      );
      for (const accept of [...plainJson, ...invalid, ...invalid.map((type) => `${type}, application/json;q=0.1`)])
        t.match((await whole(sluice, 'SELECT 1 AS a', '', { accept })).text, /"next_uri":null/, accept);
    });

    await t.test('results without rows, without columns and of one row', async (t) => {
      const text = async (sql: string, path: string): Promise<string> => (await whole(sluice, sql, path)).text;
      t.equal(await text('SELECT 1 AS a WHERE 1 = 0', '?format=csv'), 'a\r\n');
      t.equal(await text('SELECT 1 AS a WHERE 1 = 0', '?format=ndjson'), '');
      t.equal(await text('DO 1', '?format=csv'), '');
      t.equal(await text("SELECT 1 AS `a,b`, '' AS `c`, NULL", '?format=csv'), '"a,b",c,NULL\r\n1,"",\r\n');
      t.equal(await text("SELECT 1 AS `a`, '' AS `c`, NULL", '?format=tsv'), 'a\tc\tNULL\n1\t\t\\N\n');
    });

    await t.test('64-bit integers are strings for who asks for that', async (t) => {
      const ask = async (path: string): Promise<string> => {
        const body = { sql: 'SELECT 9007199254740993 AS big', integers: 'string' };
        return (await whole(sluice, body, path)).text.trim();
      };
      t.equal(await ask('?format=ndjson'), '{"big":"9007199254740993"}');
      t.equal(await ask('?format=ndjson&rows=arrays'), '["9007199254740993"]');
      t.match(await ask('?format=json'), /"data":\[\["9007199254740993"\]\]/);
      t.equal(await ask('?format=tsv&header=0'), '9007199254740993');
    });

    await t.test('pages that a client asks for beside a format change nothing', async (t) => {
      const pagination = { wait_time_secs: 0, max_rows_per_page: 1 };
      // Looking for rows without a pause would leave no time for other clients.
      const [late, beside] = await Promise.all([
        whole(sluice, { sql: 'SELECT 1 AS a UNION ALL SELECT SLEEP(1)', pagination }, '?format=csv'),
        query(sluice.url, 'SELECT 2'),
      ]);
      t.equal(late.text, 'a\r\n1\r\n0\r\n');
      t.strictSame(beside.rows, [[2]]);
    });

    await t.test('what is not there, or cannot be, is refused with a reason', async (t) => {
      const refused = async (path: string, status: number, reason: RegExp, sql = 'SELECT 1 AS a'): Promise<void> => {
        const answer = await whole(sluice, sql, path);
        t.equal(answer.status, status, path);
        t.match(answer.text, reason);
      };
      await refused('?format=xlsx', 406, /there are csv, tsv, ndjson, json/);
      await refused('?format=', 406, /there are csv/);
      await refused('?format=csv&header=maybe', 400, /"header" must be 1 or 0/);
      await refused('?format=ndjson&rows=1', 400, /"rows" must be objects or arrays/);
      await refused('?format=ndjson', 400, /several columns have the name "a"/, 'SELECT 1 AS a, 2 AS a, 3 AS b');
      await refused('?format=csv', 400, /"code":1054,/, 'SELECT nothing_of_the_kind');
      const keyed = await whole(sluice, 'SELECT 1', '?format=csv', { 'idempotency-key': 'one' });
      t.equal(keyed.status, 400);
      t.match(keyed.text, /cannot be repeated/);
      await until(
        () => server.sql('SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE "SELECT 1 AS a, 2%"'),
        (count) => count.trim() === '0',
      );
    });

    await t.test('a statement that fails after its first rows cuts the body off', async (t) => {
      const held = await holdStatement(t, server);
      const cut = await whole(sluice, held.sql, '?format=csv', {}, async (response) => {
        await once(response, 'readable');
        await held.kill();
      });
      t.equal(cut.status, 200);
      t.notOk(cut.isComplete, 'the client sees that the end is missing');
      t.equal(cut.trailers['sluice-rows'], undefined);
      t.match(cut.headers.trailer, /Sluice-Error/);
      const body = JSON.stringify({ sql: held.sql });
      const head = { authorization, 'content-type': 'application/json', connection: undefined };
      const old = await exchange(sluice.url, async (socket) => {
        socket.write(requestText('POST /v1/query?format=csv HTTP/1.0', head, body));
        await once(socket, 'data');
        await held.kill();
      });
      t.ok(old.reset, 'a client of HTTP/1.0 is told by a reset');
    });

    await t.test('a client that goes away ends its statement', async (t) => {
      const socket = connectTo(sluice.url);
      t.teardown(() => socket.destroy());
      const mark = randomBytes(4).toString('hex');
      const running = (): Promise<string> =>
        server.sql(
          `SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(600) AS s${mark}%'`,
        );
      const head = { authorization, 'content-type': 'application/json' };
      const body = JSON.stringify({ sql: `SELECT SLEEP(600) AS s${mark}` });
      socket.write(requestText('POST /v1/query?format=csv HTTP/1.1', head, body));
      await until(running, (count) => count.trim() === '1');
      socket.destroy();
      await until(running, (count) => count.trim() === '0');
      t.pass('it runs no more');

      // Pages of other results may still be kept.
      const held = (): Promise<number> => metric(sluice, 'sluice_buffered_bytes');
      const before = await held();
      const reader = connectTo(sluice.url);
      t.teardown(() => reader.destroy());
      const many = JSON.stringify({ sql: `SELECT a.* FROM ${schema}.kinds a JOIN ${schema}.kinds b ON b.id < 50` });
      reader.write(requestText('POST /v1/query?format=csv HTTP/1.1', head, many));
      await once(reader, 'data');
      reader.pause();
      await until(held, (bytes) => bytes > before);
      reader.destroy();
      await until(held, (bytes) => bytes <= before);
      t.pass('nothing of a result that is read in part is left');
    });

    await t.test('rows are sent as they come, to clients who read as slowly as they like', async (t) => {
      const held = await holdStatement(t, server);
      const lines = await whole(sluice, held.sql, '?format=csv', {}, async (response) => {
        // The last row cannot be there yet.
        await new Promise<void>((resolve) => {
          response.once('readable', () => resolve());
        });
        await held.release();
      });
      t.match(lines.text, /^a\r\n""\r\nx+\r\n1\r\n$/);
      const wide = `SELECT id, REPEAT(txt, 200) AS r FROM ${schema}.kinds ORDER BY id`;
      const fast = await whole(sluice, wide, '?format=csv');
      const slow = await whole(sluice, wide, '?format=csv', {}, async (response) => {
        response.pause();
        await sleep(1_500);
      });
      t.ok(fast.isComplete && slow.isComplete);
      t.equal(digest(slow.body), digest(fast.body), 'the same bytes');
    });
  });
}

t.test('an answer outlives the time that a connection may be idle, while the database works', async (t) => {
  const [server] = await sharedServers();
  if (server === undefined) throw new Error('there is no database');
  const args = ['--wait_time_secs_max', '1', '--http_idle_secs', '2'];
  const sluice = await startSluice(['--mysql_url', server.url, ...args]);
  t.teardown(() => sluice.kill());
  const late = await whole(sluice, 'SELECT SLEEP(5) AS s', '?format=csv');
  t.equal(late.text, 's\r\n0\r\n');
  const { json } = await post(sluice.url, { sql: 'SELECT 1 AS one' });
  t.strictSame(json.data, [[1]]);

  const reader = connectTo(sluice.url);
  t.teardown(() => reader.destroy());
  const queries = (): Promise<number> => metric(sluice, 'sluice_queries');
  // The page of the statement before is kept.
  await until(queries, (count) => count <= 1);
  const sql =
    "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900) SELECT a.n, REPEAT('x', 500) FROM n a, n b";
  const head = { authorization, 'content-type': 'application/json' };
  reader.write(requestText('POST /v1/query?format=csv HTTP/1.1', head, JSON.stringify({ sql })));
  await once(reader, 'data');
  reader.pause();
  await until(queries, (count) => count === 2);
  await until(queries, (count) => count <= 1);
  t.pass('a client that stops reading has its answer ended');
});

for (const kind of ['mariadb', 'mysql'] as const) {
  t.test(`${kind}: what was saved can be loaded again`, async (t) => {
    const server = await startServer(kind, ['--local-infile=1']);
    t.teardown(() => server.stop());
    const sluice = await startSluice(['--mysql_url', server.url]);
    t.teardown(() => sluice.kill());
    const schema = await makeTable(server);
    const saved = 'id, big, price, real8, day, moment, span, txt, HEX(bytes) AS bytes';
    const select = `SELECT ${saved} FROM ${schema}.kinds ORDER BY id`;
    const { port, socketPath } = server;
    const connection = await mysql.createConnection({
      host: '127.0.0.1',
      port,
      socketPath,
      user: 'root',
      database: schema,
    });
    t.teardown(() => connection.end());
    const checksum = async (table: string): Promise<unknown> => {
      const columns = ['id', 'big', 'price', 'real8', 'day', 'moment', 'span', 'txt', 'HEX(bytes)'];
      const cell = columns.map((name) => `COALESCE(CONCAT('=', ${name}), 'NULL')`).join(', ');
      const [rows] = await connection.query(
        `SELECT COUNT(*) AS count, SUM(CRC32(CONCAT_WS('|', ${cell}))) AS sum, SUM(txt IS NULL) AS nulls FROM ${table}`,
      );
      return rows;
    };
    const expected = await checksum('kinds');
    const loads = {
      tsv: `(id, big, price, real8, day, moment, span, txt, @bytes) SET bytes = UNHEX(@bytes)`,
      csv:
        `FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' ESCAPED BY '' LINES TERMINATED BY '\\r\\n' ` +
        `(id, big, price, @real8, day, moment, span, @txt, @bytes) ` +
        // These readers do not tell an empty field from an empty text: the source has one for each.
        `SET real8 = NULLIF(@real8, ''), txt = IF(@txt = '' AND id % 8 = 1, NULL, @txt), bytes = UNHEX(@bytes)`,
    };
    for (const [format, how] of Object.entries(loads)) {
      const { body } = await whole(sluice, select, `?format=${format}&header=0`);
      await connection.query(`CREATE TABLE loaded_${format} LIKE kinds`);
      const { Readable } = await import('node:stream');
      await connection.query({
        sql: `LOAD DATA LOCAL INFILE 'saved' INTO TABLE loaded_${format} CHARACTER SET utf8mb4 ${how}`,
        infileStreamFactory: () => Readable.from([body]),
      } as mysql.QueryOptions);
      t.strictSame(await checksum(`loaded_${format}`), expected, format);
    }
  });
}

function sameRows(first: readonly (readonly unknown[])[], second: readonly (readonly unknown[])[]): boolean {
  return digest(JSON.stringify(first)) === digest(JSON.stringify(second));
}

function digest(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}
