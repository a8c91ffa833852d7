import { Agent, request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { type QueryResponse, type SluiceProcess, startSluice } from '../support/sluice.ts';

t.setTimeout(540_000);

interface Answer {
  readonly isGzip: boolean;
  readonly vary: string | undefined;
  readonly sentBytes: number;
  readonly text: string;
  readonly json: QueryResponse;
}

const agent = new Agent({ keepAlive: true });
t.teardown(() => agent.destroy());

function ask(sluice: SluiceProcess, path: string, acceptEncoding: string | null, body?: object): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Basic ${Buffer.from('root:').toString('base64')}`,
      'content-type': 'application/json',
      ...(acceptEncoding === null ? {} : { 'accept-encoding': acceptEncoding }),
    };
    const sent = request(`${sluice.url}${path}`, { agent, method: body === undefined ? 'GET' : 'POST', headers });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const bytes = Buffer.concat(chunks);
        const isGzip = response.headers['content-encoding'] === 'gzip';
        const text = (isGzip ? gunzipSync(bytes) : bytes).toString();
        if (response.statusCode !== 200) return reject(new Error(`${response.statusCode}: ${text}`));
        const json = text === '' ? null : JSON.parse(text);
        resolve({ isGzip, vary: response.headers.vary, sentBytes: bytes.length, text, json });
      });
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** All pages of a result. `accept` returns the Accept-Encoding of each page. */
async function readAll(sluice: SluiceProcess, sql: string, accept: (page: number) => string | null): Promise<Answer[]> {
  const pages = [
    await ask(sluice, '/v1/query', accept(0), { sql, pagination: { max_rows_per_page: 1_000, wait_time_secs: 20 } }),
  ];
  for (;;) {
    const next = pages.at(-1)?.json.next_uri;
    if (next === null || next === undefined) break;
    pages.push(await ask(sluice, next, accept(pages.length)));
  }
  return pages;
}

function rowsOf(pages: readonly Answer[]): string {
  return pages.map(({ text }) => text.slice(text.indexOf('"data":[') + 8, text.lastIndexOf('],"stats":'))).join(',');
}

/** 20,000 rows of text, binary and numbers. Each thousandth row has more text than fits into a batch. */
const rowsSql = `WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 199)
  SELECT a.i * 100 + b.i AS id, CONCAT('größe ', a.i * b.i) AS name, UNHEX(LPAD(HEX(b.i * 7919), 8, '0')) AS bytes, a.i / 7 AS part,
    IF(b.i = 50 AND a.i % 10 = 0, REPEAT('long "text" ', 40000), NULL) AS long_text
  FROM n a, n b WHERE b.i < 100 ORDER BY a.i, b.i`;

async function start(t: Test, server: DatabaseServer, ...options: string[]): Promise<SluiceProcess> {
  const sluice = await startSluice(['--mysql_url', `${server.url}`, '--drain_secs', '0', ...options]);
  t.teardown(() => sluice.stop());
  return sluice;
}

for (const server of await sharedServers()) {
  t.test(`compressed answers are the same as plain ones (${server.kind})`, async (t) => {
    const sluice = await start(t, server);
    const plain = await readAll(sluice, rowsSql, () => null);
    t.ok(plain.every(({ isGzip, vary }) => !isGzip && vary === undefined));
    const gzip = await readAll(sluice, rowsSql, () => 'deflate, gzip;q=0.8');
    t.ok(gzip.every(({ isGzip, vary }) => isGzip && vary === 'Accept-Encoding'));
    t.ok(rowsOf(gzip) === rowsOf(plain), 'every byte of every row');
    const sum = (pages: readonly Answer[]): number => pages.reduce((bytes, { sentBytes }) => bytes + sentBytes, 0);
    t.ok(sum(gzip) < 0.5 * sum(plain), `${sum(gzip)} bytes instead of ${sum(plain)}`);
    const counts = gzip.map(({ json }) => json.data.length);
    t.ok(
      counts.every((count) => count <= 1_000),
      'no page has more rows than the limit',
    );
    t.equal(
      counts.reduce((all, count) => all + count, 0),
      20_000,
    );

    await t.test('a client may request each page with or without gzip, also a repeated one', async (t) => {
      const mixed = await readAll(sluice, rowsSql, (page) => (page % 2 === 0 ? 'gzip' : 'identity'));
      t.strictSame(
        mixed.map(({ isGzip }) => isGzip),
        mixed.map((_, page) => page % 2 === 0),
      );
      t.ok(rowsOf(mixed) === rowsOf(plain));
      const body = { sql: rowsSql, pagination: { max_rows_per_page: 1_000, wait_time_secs: 20 } };
      const first = await ask(sluice, '/v1/query', 'gzip', body);
      const path = `/v1/query/${first.json.id}/page/0`;
      for (const accept of ['gzip', null, 'gzip;q=0', '*']) {
        const again = await ask(sluice, path, accept);
        t.equal(again.isGzip, accept === 'gzip' || accept === '*', `${accept}`);
        t.equal(again.text, first.text);
      }
      await ask(sluice, first.json.final_uri, null);
    });

    await t.test('small answers, and results whose POST did not accept gzip, are not compressed', async (t) => {
      t.equal((await ask(sluice, '/v1/query', 'gzip', { sql: 'SELECT 1' })).isGzip, false);
      t.equal((await ask(sluice, '/v1/query', 'gzip', { sql: 'SELECT nothing' })).isGzip, false);
      for (const accept of ['identity', 'br', 'gzip;q=0, *', '']) {
        const [page] = await readAll(sluice, `${rowsSql} LIMIT 500`, () => accept);
        t.equal(page?.isGzip, false, accept);
      }
      const later = await readAll(sluice, rowsSql, (page) => (page === 0 ? null : 'gzip'));
      t.ok(later.every(({ isGzip }) => !isGzip));
    });
  });

  t.test(`the level is an option, and 0 disables compression (${server.kind})`, async (t) => {
    const sizes: number[] = [];
    for (const level of [1, 9]) {
      const sluice = await start(t, server, '--gzip_level', `${level}`);
      const [page] = await readAll(sluice, `${rowsSql} LIMIT 900`, () => 'gzip');
      sizes.push(page?.sentBytes ?? 0);
    }
    t.ok((sizes[1] as number) < (sizes[0] as number), `${sizes} bytes at levels 1 and 9`);
    const sluice = await start(t, server, '--gzip_level', '0');
    const [page] = await readAll(sluice, `${rowsSql} LIMIT 900`, () => 'gzip');
    t.equal(page?.isGzip, false);
  });
}
