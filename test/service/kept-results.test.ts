import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import mysql from 'mysql2/promise';
import t, { type Test } from 'tap';
import { figure, isLong } from '../support/form.ts';
import { seeded } from '../support/random.ts';
import { createTables } from '../support/random-statements.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import {
  follow,
  get,
  post,
  type QueryResponse,
  query,
  type SluiceProcess,
  split,
  startSluice,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';

t.setTimeout(540_000);

const diskFaults = new URL('../support/disk-faults.js', import.meta.url).href;
const rowsCount = figure(12_000, 1_000_000);
const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;

interface Place {
  readonly server: DatabaseServer;
  readonly schema: string;
  readonly dataDir: string;
}

async function makePlace(t: Test, server: DatabaseServer): Promise<Place> {
  const schema = `kept_${randomBytes(4).toString('hex')}`;
  await server.sql(`CREATE DATABASE ${schema} CHARACTER SET utf8mb4`);
  t.teardown(() => server.sql(`DROP DATABASE ${schema}`));
  await createTables(server, schema);
  await server.sql(
    `CREATE TABLE numbers (id INT NOT NULL PRIMARY KEY, text VARCHAR(60), price DECIMAL(20,6), moment DATETIME(3), span TIME);
     INSERT INTO numbers SELECT n, IF(n % 11 = 0, NULL, CONCAT('row ', n, ', "é😀"')), n / 7, DATE_ADD('2020-01-01', INTERVAL n SECOND), SEC_TO_TIME(n)
     FROM (WITH RECURSIVE digits (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM digits WHERE n < 1000) SELECT a.n + 1000 * (b.n - 1) AS n
           FROM digits a JOIN digits b ON b.n <= ${rowsCount / 1_000}) AS sequence`,
    { database: schema },
  );
  const dataDir = mkdtempSync(join(tmpdir(), 'kept-'));
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));
  return { server, schema, dataDir };
}

/** With one thread unless told otherwise, as most tests here start several servers and a thread takes a third of a start. */
async function start(t: Test, { server, dataDir }: Place, args = ['--worker_threads', '1']): Promise<SluiceProcess> {
  const sluice = await startSluice(['--mysql_url', server.url, '--data_dir', dataDir, ...args]);
  t.teardown(() => sluice.kill());
  return sluice;
}

interface KeptResponse extends QueryResponse {
  readonly result_uri: string;
}

/** Runs a statement whose result is kept, until it has ended. */
async function keep(sluice: SluiceProcess, sql: string, more: object = {}): Promise<KeptResponse> {
  const body = { sql, result: { keep_secs: 3_600 }, pagination: { wait_time_secs: 20 }, ...more };
  const first = await post(sluice.url, body);
  if (first.status !== 200) throw new Error(`${first.status} ${first.text}`);
  const { stats_uri } = first.json;
  await until(async () => (await get(sluice.url, stats_uri)).json.state !== 'Running');
  return first.json as KeptResponse;
}

/** The text of all rows, by next_uri. */
async function textOfPages(sluice: SluiceProcess, first: string): Promise<string[]> {
  const texts: string[] = [];
  for (let uri: string | null = first; uri !== null; ) {
    const { text } = await get(sluice.url, uri);
    const { head, rowsText } = split(text);
    texts.push(rowsText);
    uri = head.next_uri;
  }
  return texts;
}

interface RowsAnswer {
  readonly state: string;
  readonly error: { readonly code: number; readonly outcome: string } | null;
  readonly schema: { readonly fields: readonly unknown[] };
  readonly from: number;
  readonly rows: number;
  readonly data: readonly (readonly unknown[])[];
  readonly next_uri: string | null;
}

async function rowsOf(sluice: SluiceProcess, uri: string, range: string): Promise<RowsAnswer> {
  const { status, text } = await get(sluice.url, `${uri}/rows${range}`);
  if (status !== 200) throw new Error(`${status} ${text}`);
  return JSON.parse(text) as RowsAnswer;
}

async function bytesOf(
  sluice: SluiceProcess,
  uri: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<{ status: number; headers: Headers; bytes: Buffer }> {
  const response = await fetch(`${sluice.url}${uri}`, { method, headers: { authorization, ...headers } });
  return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
}

function digestOf(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function resultFolders({ dataDir }: Place): string[] {
  const folder = join(dataDir, 'results');
  return existsSync(folder) ? readdirSync(folder) : [];
}

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const place = await makePlace(t, server);
    const { schema, dataDir } = place;
    const sluice = await start(t, place, []);
    const sql = `SELECT * FROM ${schema}.numbers ORDER BY id`;
    // An expression that the two protocols send in different ways, so that it is kept as text.
    const asText = `SELECT id, text, price, moment, SEC_TO_TIME(id / 7) AS span FROM ${schema}.numbers ORDER BY id`;

    await t.test('its pages are those of the same statement, and each can be asked for at any time', async (t) => {
      for (const statement of [sql, asText, `SELECT * FROM ${schema}.every ORDER BY id`]) {
        const plain = (await post(sluice.url, { sql: statement, pagination: { wait_time_secs: 20 } })).text;
        const plainRows = [
          split(plain).rowsText,
          ...(split(plain).head.next_uri === null
            ? []
            : await textOfPages(sluice, split(plain).head.next_uri as string)),
        ];
        const kept = await keep(sluice, statement);
        const pages = await textOfPages(sluice, `/v1/query/${kept.id}/page/0`);
        t.equal(digestOf(pages.join()), digestOf(plainRows.join()), statement);
        const again = await textOfPages(sluice, `/v1/query/${kept.id}/page/0`);
        t.strictSame(again.map(digestOf), pages.map(digestOf), 'the same pages again');
        t.equal((await get(sluice.url, `/v1/query/${kept.id}/page/99999999`)).status, 404, 'no such page');
        t.equal((await get(sluice.url, kept.final_uri)).status, 200);
        t.strictSame(resultFolders(place), [], 'with the answer it is gone from the disk');
        t.equal((await get(sluice.url, `/v1/query/${kept.id}/page/0`)).status, 404);
        t.equal((await get(sluice.url, kept.result_uri)).status, 404);
      }
    });

    await t.test('ranges of rows, in any order', async (t) => {
      const random = seeded(t);
      const { rows } = await query(sluice.url, sql);
      const { result_uri } = await keep(sluice, sql);
      for (let round = 0; round < 40; round++) {
        const from = random(rowsCount + 1);
        const count = 1 + random(round % 3 === 0 ? 15_000 : 200);
        const answer = await rowsOf(sluice, result_uri, `?from=${from}&count=${count}`);
        t.match(answer, { state: 'Succeeded', from, rows: rowsCount });
        const expected = rows.slice(from, from + answer.data.length);
        t.ok(JSON.stringify(answer.data) === JSON.stringify(expected), `${count} rows from ${from}`);
        t.ok(answer.data.length === Math.min(count, rowsCount - from), `all of them: ${answer.data.length}`);
        const end = from + answer.data.length;
        t.equal(answer.next_uri, end === rowsCount ? null : `${result_uri}/rows?from=${end}&count=${count}`);
      }
      for (const [range, status] of [
        ['?from=-1', 400],
        ['?from=1e3', 400],
        ['?from=NaN', 400],
        ['?count=0', 400],
        ['?count=-5', 400],
        ['?from=99999999999999999999', 400],
        [`?from=${rowsCount + 1}`, 400],
        ['?count=999999999999', 200],
        ['', 200],
      ] as const) {
        const { status: got, text } = await get(sluice.url, `${result_uri}/rows${range}`);
        t.equal(got, status, `${range}: ${text.slice(0, 200)}`);
      }
    });

    await t.test('rows are read while the statement runs', async (t) => {
      // The statement waits at the 31st row. MariaDB sends rows when they fill its buffer, so they are long.
      const holder = await mysql.createConnection({ socketPath: server.socketPath, user: 'root' });
      t.teardown(() => holder.destroy());
      await holder.query(`SELECT GET_LOCK('${schema}', 0)`);
      const slow = `SELECT id, RPAD(id, 40000, 'x'), IF(id = 31, GET_LOCK('${schema}', 600), 0) FROM ${schema}.numbers WHERE id <= 60 ORDER BY id`;
      const body = { sql: slow, result: { keep_secs: 60 }, pagination: { wait_time_secs: 1, max_rows_per_page: 20 } };
      const first = (await post(sluice.url, body)).json as KeptResponse;
      const early = await until(
        () => rowsOf(sluice, first.result_uri, '?from=15&count=3'),
        ({ data }) => data.length === 3,
      );
      t.match(early, { state: 'Running', from: 15 });
      t.strictSame(
        early.data.map(([id]) => id),
        [16, 17, 18],
      );
      const startedAt = performance.now();
      const none = await rowsOf(sluice, first.result_uri, '?from=40&count=3');
      t.match(none, { state: 'Running', data: [], next_uri: `${first.result_uri}/rows?from=40&count=3` });
      t.ok(performance.now() - startedAt >= 900, 'it waits for rows that are not there yet');
      t.equal((await get(sluice.url, `${first.result_uri}.csv`)).status, 409, 'a file needs all rows');
      await holder.query(`SELECT RELEASE_LOCK('${schema}')`);
      t.equal((await follow(sluice.url, first)).state, 'Succeeded');
      t.equal((await rowsOf(sluice, first.result_uri, '?from=0&count=100')).data.length, 60);
    });

    await t.test('files of every format have the bytes of the result in one answer', async (t) => {
      // As texts, they are longer than in JSON.
      const documents = `SELECT JSON_ARRAY(REPEAT('"', 50), REPEAT(CHAR(92), 50)) AS doc FROM ${schema}.numbers LIMIT 500`;
      for (const statement of [
        sql,
        asText,
        documents,
        `SELECT * FROM ${schema}.every`,
        `SELECT * FROM ${schema}.numbers LIMIT 0`,
      ]) {
        const { result_uri, id } = await keep(sluice, statement);
        for (const [name, parameters] of [
          ['csv', ''],
          ['csv', '&header=0'],
          ['tsv', ''],
          ['ndjson', ''],
          ['ndjson', '&rows=arrays'],
        ] as const) {
          const whole = await fetch(`${sluice.url}/v1/query?format=${name}${parameters}`, {
            method: 'POST',
            headers: { authorization, 'content-type': 'application/json' },
            body: JSON.stringify({ sql: statement }),
          });
          const file = await bytesOf(sluice, `${result_uri}.${name}?${parameters.slice(1)}`);
          t.equal(file.status, 200, file.bytes.toString().slice(0, 200));
          t.equal(
            digestOf(file.bytes),
            digestOf(Buffer.from(await whole.arrayBuffer())),
            `${name}${parameters}: ${statement}`,
          );
          t.equal(file.headers.get('content-type'), whole.headers.get('content-type'));
          t.equal(file.headers.get('content-length'), `${file.bytes.length}`);
          t.equal(file.headers.get('content-disposition'), `attachment; filename="${id}.${name}"`);
        }
        const json = JSON.parse((await bytesOf(sluice, `${result_uri}.json`)).bytes.toString());
        t.ok(JSON.stringify(json.data) === JSON.stringify((await query(sluice.url, statement)).rows), statement);
        await get(sluice.url, `/v1/query/${id}/kill?delete=true`);
      }
    });

    await t.test('parts of a file: HEAD, Range, If-Range, If-None-Match', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      const uri = `${result_uri}.csv`;
      const whole = await bytesOf(sluice, uri);
      const size = whole.bytes.length;
      const etag = whole.headers.get('etag') as string;
      const head = await bytesOf(sluice, uri, {}, 'HEAD');
      t.match([head.status, head.bytes.length, head.headers.get('content-length')], [200, 0, `${size}`]);
      const random = seeded(t);
      for (let round = 0; round < 20; round++) {
        const from = random(size);
        const to = Math.min(size - 1, from + random(100_000));
        const part = await bytesOf(sluice, uri, { range: `bytes=${from}-${to}` });
        t.equal(part.status, 206);
        t.equal(part.headers.get('content-range'), `bytes ${from}-${to}/${size}`);
        t.ok(part.bytes.equals(whole.bytes.subarray(from, to + 1)), `${from} to ${to}`);
      }
      for (const [headers, status, bytes] of [
        [{ range: 'bytes=-10' }, 206, whole.bytes.subarray(-10)],
        [{ range: `bytes=${size - 5}-` }, 206, whole.bytes.subarray(-5)],
        [{ range: 'bytes=0-9', 'if-range': etag }, 206, whole.bytes.subarray(0, 10)],
        [{ range: 'bytes=0-9', 'if-range': '"another"' }, 200, whole.bytes],
        [{ range: 'bytes=0-9', 'if-range': `W/${etag}` }, 200, whole.bytes],
        [{ range: 'bytes=0-9', 'if-range': `"another", ${etag}` }, 200, whole.bytes],
        [{ range: 'bytes=0-9', 'if-range': new Date().toUTCString() }, 200, whole.bytes],
        [{ range: 'bytes=0-1,10-11' }, 200, whole.bytes],
        [{ range: 'bytes=0-9,5-14' }, 206, whole.bytes.subarray(0, 15)],
        [{ range: `bytes=${Array.from({ length: 1_000 }, (_, n) => `${3 * n}-${3 * n}`).join()}` }, 200, whole.bytes],
        [{ range: 'rows=0-1' }, 200, whole.bytes],
      ] as const) {
        const part = await bytesOf(sluice, uri, headers);
        t.equal(part.status, status, JSON.stringify(headers).slice(0, 100));
        t.ok(part.bytes.equals(bytes), `${part.bytes.length} bytes`);
      }
      t.equal((await get(sluice.url, uri, { headers: { 'if-none-match': etag } })).status, 304);
      const changed = await get(sluice.url, uri, { headers: { 'if-match': '"another"' } });
      t.match(
        [changed.status, changed.headers['etag'], changed.headers['content-disposition']],
        [412, undefined, undefined],
      );
      const beyond = await bytesOf(sluice, uri, { range: `bytes=${size}-` });
      t.match([beyond.status, beyond.headers.get('content-range')], [416, `bytes */${size}`]);
      t.equal((await get(sluice.url, `${result_uri}.xml`)).status, 406);
      t.match((await get(sluice.url, `${result_uri}.xml`)).text, /csv, tsv, ndjson, json/);
    });

    await t.test('curl resumes a download after every tenth of it', async (t) => {
      const { result_uri } = await keep(sluice, sql);
      const whole = await bytesOf(sluice, `${result_uri}.csv`);
      const file = join(dataDir, 'download.csv');
      for (let tenth = 0; tenth <= 10; tenth++) {
        writeFileSync(file, whole.bytes.subarray(0, Math.floor((whole.bytes.length * tenth) / 10)));
        const curl = spawnSync('curl', ['-sS', '-u', 'root:', '-C', '-', '-o', file, `${sluice.url}${result_uri}.csv`]);
        t.equal(digestOf(readFileSync(file)), digestOf(whole.bytes), `from ${tenth} tenths: ${curl.stderr}`);
      }
    });

    await t.test('the statement runs once, whatever is read', async (t) => {
      const { result_uri } = await keep(sluice, 'SELECT UUID() AS once');
      const [[once] = []] = (await rowsOf(sluice, result_uri, '')).data;
      for (const name of ['csv', 'tsv', 'ndjson', 'json']) {
        t.ok((await bytesOf(sluice, `${result_uri}.${name}`)).bytes.includes(String(once)), name);
      }
    });

    await t.test('rows that take more space than is reserved at once', async (t) => {
      const mebibytes = [20, 0, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 0, 1];
      const selects = mebibytes.map(
        (size, index) => `SELECT ${index} AS id, REPEAT('x', ${size} * 1048576 + 1) AS text`,
      );
      const { result_uri, final_uri } = await keep(sluice, selects.join(' UNION ALL '));
      for (const [index, size] of mebibytes.entries()) {
        const { rows, data } = await rowsOf(sluice, result_uri, `?from=${index}&count=1`);
        t.equal(rows, mebibytes.length);
        t.strictSame([data[0]?.[0], String(data[0]?.[1]).length], [index, size * 1_048_576 + 1]);
      }
      const csv = await bytesOf(sluice, `${result_uri}.csv`);
      t.equal(csv.bytes.toString('latin1').split('\n').length, mebibytes.length + 2);
      await get(sluice.url, final_uri);
    });

    await t.test('a statement without rows, and one that fails', async (t) => {
      await server.sql(`CREATE TABLE ${schema}.written (a INT)`);
      const insert = await keep(sluice, `INSERT INTO ${schema}.written VALUES (1), (2)`);
      t.match(insert, { state: 'Succeeded', affected_rows: 2 });
      t.match(await rowsOf(sluice, insert.result_uri, ''), { state: 'Succeeded', rows: 0, data: [], next_uri: null });
      t.equal((await bytesOf(sluice, `${insert.result_uri}.csv`)).bytes.length, 0);
      const failed = await keep(
        sluice,
        `SELECT id, (SELECT 1 UNION SELECT id DIV 9999 FROM ${schema}.numbers b WHERE b.id = a.id) FROM ${schema}.numbers a ORDER BY id`,
      );
      const stats = (await get(sluice.url, failed.stats_uri)).json;
      t.match(stats, { state: 'Failed', error: { code: 1242 } });
      const rest = await rowsOf(sluice, failed.result_uri, '?count=5');
      t.match(rest, { state: 'Failed', error: { code: 1242 } });
      t.equal((await get(sluice.url, `${failed.result_uri}.csv`)).status, 409);
    });

    await t.test('a result is its user’s', async (t) => {
      const user = `stranger_${randomBytes(4).toString('hex')}`;
      await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'x'; GRANT SELECT ON ${schema}.* TO ${user}@'%'`);
      t.teardown(() => server.sql(`DROP USER ${user}`));
      const stranger = { user, password: 'x' };
      const { result_uri, id } = await keep(sluice, sql);
      const absent = result_uri.replace(/.{8}$/, '00000000');
      for (const path of ['', '/rows', '.csv', '.json']) {
        const denied = await get(sluice.url, `${result_uri}${path}`, stranger);
        t.equal(denied.status, 404);
        t.equal(
          denied.text.replace(id, ''),
          (await get(sluice.url, `${absent}${path}`, stranger)).text.replace(/\w{44}/, ''),
        );
      }
      t.equal((await get(sluice.url, result_uri, { ...stranger, method: 'DELETE' })).status, 404);
      t.same(JSON.parse((await get(sluice.url, '/v1/results', stranger)).text), { results: [] });
      const own = JSON.parse((await get(sluice.url, '/v1/results')).text).results as { id: string }[];
      t.match(own[0], { id, state: 'Succeeded', rows: rowsCount, sql: null, result_uri });
      const folder = join(dataDir, 'results', id);
      t.equal(statSync(folder).mode & 0o777, 0o700);
      for (const name of readdirSync(folder)) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name);
      t.equal((await get(sluice.url, result_uri, { method: 'DELETE' })).status, 200);
      t.notOk(existsSync(folder), 'with the answer it is gone from the disk');
      t.match((await get(sluice.url, result_uri)).text, /was finished by the client/);
    });

    await t.test('a result expires, on disk as well, however often it is read', async (t) => {
      const { result_uri, id } = await keep(sluice, 'SELECT 1', { result: { keep_secs: 2 } });
      await until(async () => (await get(sluice.url, `${result_uri}/rows`)).status === 404);
      await until(() => !existsSync(join(dataDir, 'results', id)));
      t.match((await get(sluice.url, result_uri)).text, /expired/);
    });

    await t.test('a request that cannot be kept is refused', async (t) => {
      for (const result of [{}, { keep_secs: 0 }, { keep_secs: 86_401 }, { keep_secs: '5' }, { keep: 5 }, 5]) {
        const { status, text } = await post(sluice.url, { sql: 'SELECT 1', result });
        t.equal(status, 400, text);
      }
      const streamed = await fetch(`${sluice.url}/v1/query?format=csv`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify({ sql: 'SELECT 1', result: { keep_secs: 5 } }),
      });
      t.match([streamed.status, await streamed.text()], [400, /files of every format/]);
    });

    await t.test('killed and started again, the server serves the same bytes', async (t) => {
      let current = sluice;
      const posted = Array.from({ length: 8 }, () => post(current.url, { sql, result: { keep_secs: 600 } }));
      const answered = (await Promise.race(posted)).json as KeptResponse;
      await current.kill();
      await Promise.allSettled(posted);
      current = await start(t, place);
      t.equal((await get(current.url, answered.result_uri)).status, 200, 'a result that a client knows of is found');
      for (const { id } of JSON.parse((await get(current.url, '/v1/results')).text).results as { id: string }[]) {
        await get(current.url, `/v1/query/${id}/kill?delete=true`);
      }
      const kept = await keep(current, sql);
      const files = ['.csv', '.ndjson', '.json'] as const;
      const digests = async (): Promise<string[]> => {
        const found = [digestOf((await textOfPages(current, `/v1/query/${kept.id}/page/0`)).join())];
        for (const file of files) found.push(digestOf((await bytesOf(current, `${kept.result_uri}${file}`)).bytes));
        return [...found, digestOf((await get(current.url, `/v1/query/${kept.id}/page/0`)).text)];
      };
      const before = await digests();
      for (const points of [
        [0, 0.5],
        [0.01, 0.99],
      ]) {
        // Statements that have come so far when the server is killed. Each waits there for a lock.
        const holder = await mysql.createConnection({ socketPath: server.socketPath, user: 'root' });
        const stopped = await Promise.all(
          points.map(async (point) => {
            const at = 1 + Math.floor(point * rowsCount);
            const lock = `${schema}_${at}`;
            await holder.query(`SELECT GET_LOCK('${lock}', 0)`);
            // The databases send rows when they fill a buffer, which may have grown to some hundred kilobytes.
            const wide = (waits: string): string =>
              `SELECT id, text, RPAD('', 400, 'x') AS wide, ${waits} AS waits FROM ${schema}.numbers ORDER BY id`;
            const running = wide(`IF(id = ${at}, GET_LOCK('${lock}', 600), 0)`);
            const body = { sql: running, result: { keep_secs: 600 }, pagination: { wait_time_secs: 1 } };
            const { result_uri } = (await post(current.url, body)).json as KeptResponse;
            return { result_uri, at, whole: (await query(current.url, wide('0'))).rows };
          }),
        );
        const known = await Promise.all(
          stopped.map(async ({ result_uri, at }) =>
            until(
              async () => (await rowsOf(current, result_uri, '?count=1')).rows,
              // The database keeps the last rows in its buffer.
              (rows) => rows > at - 1_500,
            ),
          ),
        );
        await current.kill();
        holder.destroy();
        current = await start(t, place);
        t.strictSame(await digests(), before, `killed at ${points}`);
        for (const [index, { result_uri, at, whole }] of stopped.entries()) {
          const found: (readonly unknown[])[] = [];
          let rest = await rowsOf(current, result_uri, '');
          const { rows } = rest;
          t.match(rest, { state: 'Failed', error: { code: 90006, outcome: 'rolled_back' } });
          if (rows > 0) t.equal(rest.schema.fields.length, 4);
          for (; rest.next_uri !== null; rest = JSON.parse((await get(current.url, rest.next_uri)).text)) {
            found.push(...rest.data);
          }
          found.push(...rest.data);
          t.ok(rows >= (known[index] as number) && rows < at, `${rows} rows before row ${at}`);
          t.equal(digestOf(JSON.stringify(found)), digestOf(JSON.stringify(whole.slice(0, rows))), 'every one of them');
          t.equal((await get(current.url, result_uri, { method: 'DELETE' })).status, 200);
        }
      }
      t.match(await rowsOf(current, kept.result_uri, `?from=${rowsCount}`), { rows: rowsCount, data: [] });
      t.equal(await current.stop(), 0);
      current = await start(t, place);
      t.strictSame(await digests(), before, 'after a stop');
      t.equal((await get(current.url, kept.final_uri)).status, 200);
      await current.stop();
    });
  });

  // Nothing in these depends on the database.
  const ofDisk = !isLong && server.kind === 'mysql' ? 'only in the long form' : false;
  t.test(
    `${server.kind}: of servers that start at once with one data directory, each result has one`,
    { skip: ofDisk },
    async (t) => {
      const place = await makePlace(t, server);
      let first = await start(t, place);
      const ids: string[] = [];
      for (let count = 0; count < 12; count++) ids.push((await keep(first, `SELECT ${count} AS a`)).id);
      const idsOf = async ({ url }: SluiceProcess): Promise<string[]> =>
        (JSON.parse((await get(url, '/v1/results')).text).results as { id: string }[]).map(({ id }) => id);
      for (let round = 0; round < figure(2, 5); round++) {
        await first.kill();
        const servers = await Promise.all([1, 2, 3].map(() => start(t, place)));
        const found = await Promise.all(servers.map(idsOf));
        t.strictSame(found.flat().sort(), [...ids].sort(), `${found.map(({ length }) => length)} results`);
        const owner = servers.find((_, index) => found[index]?.length === ids.length);
        if (owner === undefined) throw new Error('no server has all');
        for (const other of servers) if (other !== owner) await other.kill();
        const last = ids.pop() as string;
        t.equal((await get(owner.url, `/v1/result/${last}`, { method: 'DELETE' })).status, 200);
        first = owner;
      }
      await first.stop();
    },
  );

  t.test(`${server.kind}: limits`, { skip: ofDisk }, async (t) => {
    const place = await makePlace(t, server);
    const sql = `SELECT a.* FROM ${place.schema}.numbers a, ${place.schema}.every b`;
    const small = ['--kept_bytes_max', `${20 * 1024 * 1024}`, '--kept_count_max', '8', '--kept_secs_max', '100'];
    const sluice = await start(t, place, small);
    t.equal((await post(sluice.url, { sql, result: { keep_secs: 101 } })).status, 400);
    const first = (
      await post(sluice.url, {
        sql: `SELECT c.* FROM (${sql}) c JOIN ${place.schema}.every d`,
        result: { keep_secs: 60 },
      })
    ).json as KeptResponse;
    const failed = await follow(sluice.url, first);
    t.match(failed, { state: 'Failed', error: { code: 90010, message: /--kept_bytes_per_user_max/ } });
    t.equal((await get(sluice.url, first.result_uri, { method: 'DELETE' })).status, 200);
    for (let count = 0; count < 6; count++) await keep(sluice, 'SELECT 1', { result: { keep_secs: 60 } });
    const refused = await post(sluice.url, { sql: 'SELECT 1', result: { keep_secs: 60 } });
    t.match([refused.status, refused.text], [429, /--kept_count_max/]);
    t.equal((await post(sluice.url, { sql: 'SELECT 1' })).status, 200, 'other statements run');
    await sluice.stop();
    const none = await start(t, place, ['--kept_secs_max', '0']);
    t.match((await post(none.url, { sql: 'SELECT 1', result: { keep_secs: 1 } })).text, /--kept_secs_max/);
    await none.stop();
  });

  t.test(`${server.kind}: damage is found, and costs the result that it hits`, { skip: ofDisk }, async (t) => {
    const place = await makePlace(t, server);
    const sql = `SELECT * FROM ${place.schema}.numbers ORDER BY id`;
    let sluice = await start(t, place);
    const folderOf = ({ id }: QueryResponse): string => join(place.dataDir, 'results', id);
    const flip = (path: string, at: number): void => {
      const bytes = readFileSync(path);
      bytes[at] = (bytes[at] as number) ^ 4;
      writeFileSync(path, bytes);
    };
    const results: KeptResponse[] = [];
    for (let count = 0; count < 8; count++) results.push(await keep(sluice, sql));
    const [flipped, cut, index, manifest, another, linked, removed, whole] = results as [
      KeptResponse,
      KeptResponse,
      KeptResponse,
      KeptResponse,
      KeptResponse,
      KeptResponse,
      KeptResponse,
      KeptResponse,
    ];
    flip(join(folderOf(flipped), 'rows'), 1_000);
    const denied = await get(sluice.url, `${flipped.result_uri}/rows?from=0`);
    t.match([denied.status, denied.text], [410, /damaged: the checksum of its rows is wrong/]);
    t.equal((await get(sluice.url, `${flipped.result_uri}.csv`)).status, 410);
    t.equal(
      (await rowsOf(sluice, flipped.result_uri, `?from=${rowsCount - 10}`)).data.length,
      10,
      'other rows are whole',
    );
    const { size } = statSync(join(folderOf(cut), 'rows'));
    flip(join(folderOf(cut), 'rows'), size - 1_000);
    for (const name of ['csv', 'arrow', 'parquet']) {
      const late = await get(sluice.url, `${cut.result_uri}.${name}`);
      t.match([late.status, late.text], [410, /damaged: the checksum of its rows is wrong/], `far behind, as ${name}`);
    }
    rmSync(folderOf(removed), { recursive: true });
    t.equal((await get(sluice.url, `${removed.result_uri}/rows`)).status, 410);
    t.equal((await get(sluice.url, removed.final_uri)).status, 200);

    await sluice.kill();
    const rows = readFileSync(join(folderOf(cut), 'rows'));
    writeFileSync(join(folderOf(cut), 'rows'), rows.subarray(0, rows.length - 1));
    flip(join(folderOf(index), 'index'), 30);
    writeFileSync(join(folderOf(manifest), 'manifest.json'), '{"version":1,"id":');
    const theirs = JSON.parse(readFileSync(join(folderOf(another), 'manifest.json'), 'utf8'));
    writeFileSync(join(folderOf(another), 'manifest.json'), JSON.stringify({ ...theirs, user: 'somebody_else' }));
    const target = join(place.dataDir, 'elsewhere');
    writeFileSync(join(place.dataDir, 'precious.txt'), 'kept');
    symlinkSync(folderOf(whole), join(place.dataDir, 'results', 'link'));
    rmSync(folderOf(linked), { recursive: true });
    symlinkSync(place.dataDir, folderOf(linked));
    writeFileSync(join(place.dataDir, 'results', 'notes.txt'), 'of the operator');
    sluice = await start(t, place);
    for (const { result_uri } of [manifest, another, linked, removed]) {
      t.equal((await get(sluice.url, result_uri)).status, 404);
    }
    for (const { result_uri } of [cut, index]) {
      const answer = await rowsOf(sluice, result_uri, '?count=1');
      t.match(answer, { state: 'Failed', error: { code: 90010 } });
      t.ok(answer.rows < rowsCount, `${answer.rows} rows`);
    }
    t.match(await rowsOf(sluice, whole.result_uri, '?count=1'), { state: 'Succeeded', rows: rowsCount });
    t.equal(readFileSync(join(place.dataDir, 'precious.txt'), 'utf8'), 'kept');
    t.equal(readFileSync(join(place.dataDir, 'results', 'notes.txt'), 'utf8'), 'of the operator');
    t.notOk(existsSync(target));
    await delay(1);
    await sluice.stop();
  });
  t.test(`${server.kind}: a disk that is full or broken costs the query that it hits`, { skip: ofDisk }, async (t) => {
    const place = await makePlace(t, server);
    const random = seeded(t);
    const orders = join(place.dataDir, 'orders');
    writeFileSync(orders, '');
    const environment = { NODE_OPTIONS: `--import=${diskFaults}`, DISK_FAULTS: orders };
    const args = ['--mysql_url', server.url, '--data_dir', place.dataDir, '--worker_threads', '1'];
    const sluice = await startSluice(args, environment);
    t.teardown(() => sluice.kill());
    const sql = `SELECT a.* FROM ${place.schema}.numbers a, ${place.schema}.every b`;
    const whole = await keep(sluice, sql);
    for (const code of ['ENOSPC', 'EIO', 'EROFS', 'EDQUOT']) {
      writeFileSync(orders, `${code} ${random(30)} ${random(1_000_000)}`);
      const hit = await keep(sluice, sql);
      const { error } = (await get(sluice.url, hit.stats_uri)).json;
      t.match(error, { code: 90010, message: /could not be kept on the server's disk \(--data_dir\)/ });
      writeFileSync(orders, '');
      t.equal((await rowsOf(sluice, whole.result_uri, '?count=1')).rows, 6 * rowsCount);
      t.equal((await get(sluice.url, hit.result_uri, { method: 'DELETE' })).status, 200);
      t.equal((await get(sluice.url, (await keep(sluice, sql)).final_uri)).status, 200, 'the next one is kept');
    }
    await until(() => resultFolders(place).length === 1);
    await sluice.stop();
  });
}
