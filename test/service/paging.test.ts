import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import mysql from 'mysql2';
import t from 'tap';
import { figure, isLong } from '../support/form.ts';
import { seeded } from '../support/random.ts';
import { type DatabaseServer, isInstalled, sharedServers, startServer } from '../support/servers.ts';
import {
  get,
  post,
  type QueryResponse,
  query,
  type Reply,
  type SluiceProcess,
  startSluice,
} from '../support/sluice.ts';

const mebibyte = 1024 * 1024;
const rowsCount = figure(30_000, 1_000_000);
/** For readers that pause at each page, so that there are many pages. */
const manyPages = figure({ max_rows_per_page: 1_500 }, {});
/** So that not all rows fit into one page. */
const pageLimit = figure(['--page_bytes_max', `${3 * mebibyte}`], []);
const growthBytesMax = 150 * mebibyte;

/** Rows of many types and sizes, about 100 MB of JSON in the long form. Without ORDER BY they are in key order. */
const selectAll = 'SELECT id, signed, big, price, real8, day, moment, name, bytes, maybe FROM mixed';

/** A database and a service that several tests of one server share. */
class Stage {
  readonly server: DatabaseServer;
  readonly sluice: SluiceProcess;
  readonly database: string;
  readonly #dataDir: string;

  private constructor(server: DatabaseServer, sluice: SluiceProcess, database: string, dataDir: string) {
    this.#dataDir = dataDir;
    this.server = server;
    this.sluice = sluice;
    this.database = database;
  }

  static async start(server: DatabaseServer, args: readonly string[] = []): Promise<Stage> {
    const database = `paging_${randomBytes(4).toString('hex')}`;
    await server.sql(`CREATE DATABASE ${database}`);
    // A separate folder, because several services run at a time, and each clears its spill folder at the start.
    const dataDir = mkdtempSync(join(tmpdir(), 'sluice-paging-'));
    const sluice = await startSluice(['--mysql_url', server.url + database, ...args], { SLUICE_DATA_DIR: dataDir });
    return new Stage(server, sluice, database, dataDir);
  }

  async kill(): Promise<void> {
    await this.sluice.kill();
    rmSync(this.#dataDir, { recursive: true, force: true });
  }

  async stop(): Promise<void> {
    await this.kill();
    await this.server.sql(`DROP DATABASE ${this.database}`);
  }

  post(sql: string, pagination: Readonly<Record<string, number>> = {}): Promise<Reply> {
    return post(this.sluice.url, { sql, pagination });
  }

  get(path: string): Promise<Reply> {
    return get(this.sluice.url, path);
  }

  /** A table `numbers` with n from 1 up. */
  async fillNumbers(count: number): Promise<void> {
    await this.server.sql(`CREATE TABLE numbers (n INT PRIMARY KEY) ${selectNumbers(this.server, count)}`, {
      database: this.database,
    });
  }

  async fillMixed(): Promise<void> {
    await this.server.sql(
      `CREATE TABLE mixed (
         id INT PRIMARY KEY, signed SMALLINT NOT NULL, big BIGINT UNSIGNED NOT NULL, price DECIMAL(20, 4),
         real8 DOUBLE, day DATE, moment DATETIME(3), name VARCHAR(200), bytes VARBINARY(40), maybe INT
       ) CHARACTER SET utf8mb4;
       INSERT INTO mixed SELECT n, n % 60000 - 30000, 18446744073709551615 - n, n / 7, n / 8, '2000-01-01' + INTERVAL n % 9000 DAY,
         '2001-02-03 04:05:06.789' + INTERVAL n SECOND,
         CONCAT('a "quoted" \\\\ name\\n', n, REPEAT('ü😀', n % 12)), LEFT(UNHEX(SHA2(n, 256)), n % 33), IF(n % 3 = 0, NULL, n) FROM numbers`,
      { database: this.database },
    );
  }
}

function selectNumbers(server: DatabaseServer, count: number): string {
  if (server.kind === 'mariadb') return `SELECT seq AS n FROM seq_1_to_${count}`;
  return `WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < ${count})
    SELECT /*+ SET_VAR(cte_max_recursion_depth = ${count}) */ n FROM r`;
}

/** A digest over the comma-separated JSON text of rows. */
class RowsDigest {
  readonly #hash = createHash('sha256');
  count = 0;

  /** @param data the text between the brackets of `data`, unchanged */
  addText(data: string, count: number): void {
    if (count === 0) return;
    if (this.count > 0) this.#hash.update(',');
    this.#hash.update(data);
    this.count += count;
  }

  hex(): string {
    return this.#hash.digest('hex');
  }
}

/** The rows of an answer as text, without the brackets around them. */
function dataText(reply: Reply): string {
  const start = reply.text.indexOf('"data":[') + '"data":['.length;
  const end = reply.text.lastIndexOf('],"stats":');
  return reply.text.slice(start, end);
}

/** The answer without its rows, because parsing the rows takes more time than everything else. */
function envelope(reply: Reply): QueryResponse {
  if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
  const start = reply.text.indexOf('"data":[') + '"data":['.length;
  return JSON.parse(
    reply.text.slice(0, start) + reply.text.slice(reply.text.lastIndexOf('],"stats":')),
  ) as QueryResponse;
}

function resultRows(response: QueryResponse): number {
  return (response.stats['result_progress'] as { rows: number }).rows;
}

/** A digest over the rows as mysql2 returns them, which this test converts from text to JSON, column by column. */
async function directDigest(stage: Stage): Promise<string> {
  const digest = createHash('sha256');
  const connection = mysql.createConnection({
    socketPath: stage.server.socketPath,
    user: 'root',
    database: stage.database,
    charset: 'utf8mb4',
    rowsAsArray: true,
    // Every value as the bytes that the server sends.
    typeCast: false,
  });
  const isNumber = [true, true, true, false, true, false, false, false, false, true];
  const toJson = (cell: Buffer | null, column: number): string => {
    if (cell === null) return 'null';
    if (column === 8) return `"${cell.toString('hex').toUpperCase()}"`;
    return isNumber[column] ? cell.toString('latin1') : JSON.stringify(cell.toString());
  };
  let pending = '';
  let count = 0;
  await new Promise<void>((resolve, reject) => {
    const rows = connection.query(selectAll);
    rows.on('result', (row) => {
      pending += `${count++ === 0 ? '' : ','}[${(row as unknown as (Buffer | null)[]).map(toJson).join(',')}]`;
      if (pending.length < mebibyte) return;
      digest.update(pending);
      pending = '';
    });
    rows.on('error', reject);
    rows.on('end', resolve);
  });
  connection.destroy();
  if (count !== rowsCount) throw new Error(`${count} rows were read`);
  return digest.update(pending).digest('hex');
}

interface Reading {
  readonly hex: string;
  readonly count: number;
  readonly sizes: readonly number[];
}

/** Reads a result to its end, page by page. `between` may replace each answer before it is used. */
async function read(
  stage: Stage,
  sql: string,
  pagination: Readonly<Record<string, number>>,
  between: (reply: Reply, number: number) => Promise<Reply> = async (reply) => reply,
): Promise<Reading> {
  const digest = new RowsDigest();
  const sizes: number[] = [];
  let reply = await stage.post(sql, pagination);
  let number = 0;
  for (;;) {
    reply = await between(reply, number);
    const response = envelope(reply);
    if (response.error !== null) throw new Error(response.error.message);
    const text = dataText(reply);
    const count = text === '' ? 0 : rowsIn(text);
    // Other results have no expected digest, so only their rows are counted.
    if (sql === selectAll) digest.addText(text, count);
    else digest.count += count;
    if (count > 0) sizes.push(count);
    if (response.next_uri === null) {
      if (resultRows(response) !== digest.count)
        throw new Error(`${digest.count} of ${resultRows(response)} rows came`);
      await stage.get(response.final_uri);
      return { hex: digest.hex(), count: digest.count, sizes };
    }
    number = Number(response.next_uri.split('/').at(-1));
    reply = await stage.get(response.next_uri);
  }
}

/** Rows in the text of a page. No string in these tests contains the separator of two rows. */
function rowsIn(text: string): number {
  let count = 1;
  for (let at = text.indexOf('],['); at >= 0; at = text.indexOf('],[', at + 3)) count++;
  return count;
}

/** Requests a path, and closes the connection after so many bytes of the body. */
function abandon(stage: Stage, path: string, bytes: number): Promise<void> {
  return new Promise((resolve) => {
    const agent = new Agent();
    const outgoing = request(
      stage.sluice.url + path,
      { agent, headers: { authorization: `Basic ${Buffer.from('root:').toString('base64')}` } },
      (incoming) => {
        let received = 0;
        incoming.on('data', (chunk: Buffer) => {
          received += chunk.length;
          if (received >= bytes) incoming.destroy();
        });
        incoming.on('error', () => {});
        incoming.on('close', () => resolve());
      },
    );
    outgoing.on('error', () => resolve());
    outgoing.end();
  });
}

const servers = await sharedServers();

for (const server of servers) {
  t.test(`rows of many types on ${server.kind}`, async (t) => {
    const stage = await Stage.start(server, pageLimit);
    t.teardown(() => stage.stop());
    const started = performance.now();
    await stage.fillNumbers(rowsCount);
    await stage.fillMixed();
    t.comment(`${Math.round(performance.now() - started)} ms to fill the tables`);
    const expected = await directDigest(stage);
    t.comment(`${Math.round(performance.now() - started)} ms until mysql2 had read them`);

    await t.test('the rows are the same with every page size', async (t) => {
      for (const pageRows of [1_000, 10_000, undefined, 7_777, 1_000_000]) {
        const started = performance.now();
        const pagination = pageRows === undefined ? {} : { max_rows_per_page: pageRows };
        const { hex, count, sizes } = await read(stage, selectAll, { wait_time_secs: 20, ...pagination });
        t.equal(hex, expected, `pages of ${pageRows ?? 'the default number of'} rows`);
        t.equal(count, rowsCount);
        if (pageRows !== 1_000_000) {
          const size = pageRows ?? 10_000;
          t.ok(
            sizes.slice(0, -1).every((rows) => rows === size),
            'every page but the last is full',
          );
        } else {
          t.ok(sizes.length > figure(1, 10), `the bytes are the limit: ${sizes.length} pages`);
        }
        t.comment(`${Math.round(performance.now() - started)} ms, ${sizes.length} pages`);
      }
    });

    await t.test('the rows are the same when every page is requested again', async (t) => {
      const random = seeded(t);
      let differing = 0;
      let abandoned = 0;
      const { hex, count } = await read(
        stage,
        selectAll,
        { wait_time_secs: 20, ...manyPages },
        async (reply, number) => {
          const path = `${envelope(reply).stats_uri}/page/${number}`;
          // Some answers are also cut off in the middle of their body.
          if (number === 1 || random(10) < 3) {
            abandoned++;
            await abandon(stage, path, random(reply.text.length));
          }
          const again = await stage.get(path);
          if (again.text !== reply.text) differing++;
          return again;
        },
      );
      t.equal(differing, 0, 'every repeated answer is identical');
      t.equal(hex, expected);
      t.equal(count, rowsCount);
      t.ok(abandoned > 0, `${abandoned} answers were cut off`);
    });

    await t.test('the rows are the same for a reader that sleeps between pages, and need little memory', async (t) => {
      const beforeBytes = stage.sluice.memoryBytes();
      let mostBytes = 0;
      const { hex, count } = await read(
        stage,
        selectAll,
        { wait_time_secs: 20, ...manyPages },
        async (reply, number) => {
          // Long enough for the service to fill the whole buffer of a query.
          await sleep(number % 10 === 0 ? 200 : 5);
          mostBytes = Math.max(mostBytes, stage.sluice.memoryBytes());
          return reply;
        },
      );
      t.equal(hex, expected);
      t.equal(count, rowsCount);
      const growth = mostBytes - beforeBytes;
      t.comment(`${(growth / mebibyte).toFixed(1)} MB more than before`);
      t.ok(growth <= growthBytesMax);
    });
  });

  t.test(`memory on ${server.kind}`, async (t) => {
    // A separate service, so that the baseline is the memory of a service that has not read a large result.
    const stage = await Stage.start(server);
    t.teardown(() => stage.stop());
    await stage.fillNumbers(rowsCount);
    for (let statement = 0; statement < 20; statement++) await query(stage.sluice.url, 'SELECT 1');
    const beforeBytes = stage.sluice.memoryBytes();

    await t.test('the memory grows by at most 150 MB for a reader that sleeps between wide rows', async (t) => {
      // Much larger than the permitted growth.
      const sql = `SELECT n, REPEAT('x', ${figure(8_000, 400)}), n / 3, n FROM numbers`;
      const { count } = await read(stage, sql, { wait_time_secs: 20 }, async (reply, number) => {
        await sleep(number % 10 === 0 ? 200 : 2);
        return reply;
      });
      t.equal(count, rowsCount);
      const growth = stage.sluice.peakMemoryBytes() - beforeBytes;
      t.comment(`${(growth / mebibyte).toFixed(1)} MB more than before at most`);
      t.ok(growth <= growthBytesMax);
    });

    const skip = isLong ? false : 'only in the long form';
    await t.test('ten million rows need no more memory', { skip }, async (t) => {
      // Each number with each of ten digits, which the database generates while it sends them.
      const digits = Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`).join(' UNION ALL ');
      const sql = `SELECT n, d FROM numbers JOIN (${digits}) digits`;
      let number = 0;
      const started = performance.now();
      const { count } = await read(stage, sql, { wait_time_secs: 20, max_rows_per_page: 100_000 }, async (reply) => {
        if (number++ % 25 === 0) await sleep(300);
        return reply;
      });
      t.equal(count, 10 * rowsCount);
      const growth = stage.sluice.peakMemoryBytes() - beforeBytes;
      t.comment(
        `${(growth / mebibyte).toFixed(1)} MB more than before at most, ${Math.round(performance.now() - started)} ms`,
      );
      t.ok(growth <= growthBytesMax);
    });
  });
}

// Most of the time of these tests is spent waiting, so they run concurrently.
t.jobs = 4;

for (const server of servers) {
  t.test(`the rules of paging on ${server.kind}`, async (t) => {
    const stage = await Stage.start(server, ['--page_bytes_max', '1024', '--query_buffer_bytes_max', '65536']);
    t.teardown(() => stage.stop());
    await stage.fillNumbers(5_000);

    await t.test('a page is full at its byte limit, and a larger row has a page of its own', async (t) => {
      // Row sizes vary from zero to three times a page.
      const sql = "SELECT n, REPEAT('y', (n * 37) % 3000) FROM numbers WHERE n <= 300 ORDER BY n";
      const { pages, rows } = await query(stage.sluice.url, sql, { body: { pagination: { wait_time_secs: 10 } } });
      t.strictSame(
        rows.map(([n, text]) => [n, (text as string).length]),
        Array.from({ length: 300 }, (_, index) => [index + 1, ((index + 1) * 37) % 3_000]),
      );
      let large = 0;
      pages.forEach((page, index) => {
        const bytes = dataText(page).length;
        const count = page.json.data.length;
        if (bytes > 1_024) {
          large++;
          if (count !== 1) t.fail(`page ${index} has ${count} rows and ${bytes} bytes`);
        }
        const following = pages[index + 1]?.json.data[0];
        if (following !== undefined && count > 0 && bytes + 1 + JSON.stringify(following).length <= 1_024) {
          t.fail(`page ${index} had room for the first row of the next one`);
        }
      });
      t.ok(large > 100, `${large} pages of one large row`);
    });

    await t.test('a page of one row is possible', async (t) => {
      const { pages, rows } = await query(stage.sluice.url, 'SELECT n FROM numbers WHERE n <= 40 ORDER BY n', {
        body: { pagination: { max_rows_per_page: 1, wait_time_secs: 10 } },
      });
      t.strictSame(
        rows.map(([n]) => n),
        Array.from({ length: 40 }, (_, index) => index + 1),
      );
      t.ok(pages.every((page) => page.json.data.length <= 1));
    });

    await t.test('a buffer of one or few rows does not delay polls', async (t) => {
      for (const bufferRows of [1, 3, 64]) {
        const started = performance.now();
        const { rows } = await query(stage.sluice.url, 'SELECT n FROM numbers WHERE n <= 200 ORDER BY n', {
          body: { pagination: { max_rows_in_buffer: bufferRows, wait_time_secs: 50 } },
        });
        t.equal(rows.length, 200);
        t.equal(rows.at(-1)?.[0], 200);
        // Usually takes half a second.
        t.ok(performance.now() - started < 45_000, 'no poll waited until its timeout');
      }
    });

    await t.test('the answer to the POST can be requested again as page 0', async (t) => {
      const first = await stage.post('SELECT n FROM numbers ORDER BY n', { max_rows_per_page: 5 });
      const again = await stage.get(`${first.json.stats_uri}/page/0`);
      t.equal(again.text, first.text);
      await stage.get(first.json.final_uri);
    });

    await t.test('only the last page and the next one exist, and one page past the end', async (t) => {
      const first = await stage.post('SELECT n FROM numbers WHERE n <= 12 ORDER BY n', {
        max_rows_per_page: 5,
        wait_time_secs: 10,
      });
      const page = (number: number | string): Promise<Reply> => stage.get(`${first.json.stats_uri}/page/${number}`);
      for (const number of [2, 3, 99, 999_999_999_999_999]) {
        const { status, text } = await page(number);
        t.equal(status, 404, `${number} at page 0`);
        t.equal(text, `query ${first.json.id} has no page ${number}, or has it no more`);
      }
      const second = await page(1);
      t.equal(second.json.next_uri, `${first.json.stats_uri}/page/2`);
      t.equal((await page(0)).status, 404, 'the page before the last one no longer exists');
      const third = await page(2);
      t.strictSame(third.json.data, [[11], [12]]);
      t.equal(third.json.next_uri, null);
      t.equal(third.json.state, 'Succeeded');
      for (let time = 0; time < 2; time++) {
        t.equal((await page(2)).text, third.text, 'the last page again');
        const past = await page(3);
        t.equal(past.status, 200, 'one past the end');
        t.strictSame(past.json.data, []);
        t.equal(past.json.next_uri, null);
        t.strictSame(past.json.schema, third.json.schema);
      }
      for (const number of [0, 1, 4]) t.equal((await page(number)).status, 404, `${number} at the end`);
      for (const number of ['-1', 'x', '1.0', '01', '1e0', '0x1', '']) {
        t.equal((await page(number)).status, 404, `"${number}"`);
      }
    });

    await t.test('two polls of one page at once get the same rows', async (t) => {
      let reply = await stage.post('SELECT n, SLEEP(0.002) FROM numbers WHERE n <= 300 ORDER BY n', {
        max_rows_per_page: 25,
        wait_time_secs: 10,
      });
      const numbers: unknown[] = [];
      for (;;) {
        for (const [n] of reply.json.data) numbers.push(n);
        const { next_uri } = reply.json;
        if (next_uri === null) break;
        const polls = await Promise.all([stage.get(next_uri), stage.get(next_uri), stage.get(next_uri)]);
        for (const other of polls) if (dataText(other) !== dataText(polls[0])) t.fail(`${next_uri} had different rows`);
        reply = polls[0];
      }
      t.strictSame(
        numbers,
        Array.from({ length: 300 }, (_, index) => index + 1),
      );
      await stage.get(reply.json.final_uri);
    });

    await t.test('a poll waits not at all, a second, or until the result is ready', async (t) => {
      const timed = async (secs: number, sql: string): Promise<[Reply, number]> => {
        const started = performance.now();
        const reply = await stage.post(sql, { wait_time_secs: secs });
        return [reply, performance.now() - started];
      };
      const [none, noneMs] = await timed(0, 'SELECT SLEEP(600)');
      t.equal(none.json.next_uri, `${none.json.stats_uri}/page/0`, 'an empty answer repeats the page number');
      t.ok(noneMs < 20_000, `${noneMs} ms`);
      t.equal(
        (await stage.get(none.json.next_uri ?? '')).json.state,
        'Running',
        'a poll waits as long as the POST asked for',
      );
      const [one, oneMs] = await timed(1, 'SELECT SLEEP(600)');
      t.equal(one.json.state, 'Running');
      t.ok(oneMs >= 990 && oneMs < 20_000, `${oneMs} ms`);
      const [ready, readyMs] = await timed(-1, 'SELECT SLEEP(2)');
      t.strictSame(ready.json.data, [[0]]);
      t.ok(readyMs >= 1_990, `${readyMs} ms`);
      for (const { json } of [none, one, ready]) await stage.get(json.final_uri);
    });

    await t.test(
      'rows that arrive slowly are returned page by page, and empty polls repeat the page number',
      async (t) => {
        // The databases send small rows only when their buffer is full. These rows are larger than the buffer.
        const sql = "SELECT n, SLEEP(IF(n % 4 = 0, 2.5, 0)), REPEAT('x', 40000) FROM numbers WHERE n <= 12 ORDER BY n";
        const { pages, rows } = await query(stage.sluice.url, sql, { body: { pagination: { wait_time_secs: 1 } } });
        t.strictSame(
          rows.map(([n]) => n),
          Array.from({ length: 12 }, (_, index) => index + 1),
        );
        let number = 0;
        let emptyAfterRows = 0;
        for (const { json } of pages.slice(0, -1)) {
          if (json.data.length > 0) number++;
          else if (number > 0) emptyAfterRows++;
          t.equal(json.next_uri, `${json.stats_uri}/page/${number}`);
        }
        t.ok(number >= 10, `${number} pages of rows`);
        t.ok(emptyAfterRows >= 2, `${emptyAfterRows} empty polls between them`);

        const still = await query(stage.sluice.url, 'SELECT SLEEP(4)', { body: { pagination: { wait_time_secs: 1 } } });
        t.strictSame(
          still.pages.slice(0, 2).map(({ json }) => [json.data.length, json.next_uri]),
          [0, 1].map(() => [0, `${still.last.stats_uri}/page/0`]),
        );
        t.strictSame(still.rows, [[0]]);
      },
    );

    await t.test(
      'a statement that fails after many rows is Failed, without rows and without a next page',
      async (t) => {
        const most = figure(1_500, 4_500);
        const sql = `SELECT n, (SELECT m.n FROM numbers m WHERE m.n <= IF(k.n < ${most}, 1, 2)) FROM numbers k ORDER BY k.n`;
        let reply = await stage.post(sql, { max_rows_per_page: 100, wait_time_secs: 10 });
        let rows = 0;
        while (reply.json.next_uri !== null) {
          t.equal(reply.json.error, null);
          rows += reply.json.data.length;
          reply = await stage.get(reply.json.next_uri);
        }
        t.match(reply.json, { state: 'Failed', error: { code: 1242, sqlstate: '21000' }, data: [], next_uri: null });
        t.ok(rows < 5_000, `${rows} rows before the failure`);
        t.match((await stage.get(reply.json.stats_uri)).json, { state: 'Failed', data: [], next_uri: null });
        await stage.get(reply.json.final_uri);
      },
    );

    await t.test('a statement that another connection kills is Failed with the error of the database', async (t) => {
      const mark = `m${randomBytes(6).toString('hex')}`;
      // It takes minutes, so it cannot end before the kill. The rows are slow, so that few of them are read before it.
      const sql = `SELECT a.n AS ${mark}, REPEAT('z', 50000), SLEEP(0.02) FROM numbers a, numbers b`;
      const first = await stage.post(sql, { wait_time_secs: 10 });
      t.ok(first.json.data.length > 0);
      t.equal(first.json.state, 'Running');
      const where = `FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT a.n AS ${mark}%'`;
      const id = await server.sql(`SELECT ID ${where}`);
      await server.sql(`KILL QUERY ${id}`);
      let reply = first;
      while (reply.json.next_uri !== null) reply = await stage.get(reply.json.next_uri);
      t.match(reply.json, { state: 'Failed', error: { code: 1317, sqlstate: '70100' }, data: [], next_uri: null });
      await stage.get(reply.json.final_uri);
    });
  });

  t.test(
    `a reader slower than net_write_timeout gets all rows on ${server.kind}`,
    { skip: !isInstalled(server.kind) },
    async (t) => {
      const own = await startServer(server.kind, ['--net-write-timeout=1']);
      t.teardown(() => own.stop());
      const bytesMax = figure('262144', '65536');
      const stage = await Stage.start(own, ['--page_bytes_max', bytesMax, '--query_buffer_bytes_max', bytesMax]);
      t.teardown(() => stage.kill());
      t.equal(await own.sql('SELECT @@global.net_write_timeout'), '1');
      const [rows, rowBytes] = figure([50_000, 800], [200_000, 200]) as [number, number];
      await stage.fillNumbers(rows);
      // Larger than all buffers in between, so that the database blocks at its socket while the reader sleeps.
      let slept = 0;
      const { count } = await read(
        stage,
        `SELECT n, REPEAT('w', ${rowBytes}) FROM numbers`,
        { wait_time_secs: 10 },
        async (reply) => {
          if (slept < 2) {
            slept++;
            await sleep(3_500);
          }
          return reply;
        },
      );
      t.equal(count, rows);
    },
  );
}
