import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { connectTo, exchange, requestText } from '../support/raw-http.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { get, post, type Reply, type RequestOptions, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * The memory of a request is reserved before it is allocated, for each user and for all. A request that gets no memory
 * is refused with 429 (the user's share) or 503 (all memory), and can be repeated when other requests have ended.
 */

t.setTimeout(540_000);

const KIB = 1024;
const MIB = 1024 * KIB;
const noWait = { pagination: { wait_time_secs: 0 } };

/** Limit for all requests of one user in these tests; the limit for all users is a third higher. */
const userBytesMax = 12 * MIB;
const limits = ['--body_bytes_max', `${2 * MIB}`, '--request_bytes_max', `${16 * MIB}`];

const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no server');

t.test('B1: the waiting and running statements of one user hold no more than its share', async (t) => {
  const { sluice, users } = await prepare(t, server, 3, limits);
  const [greedy = '', second = '', third = ''] = users;
  const large = `SELECT SLEEP(600) /* ${'x'.repeat(MIB)} */`;
  const first = await startUntilRefused(sluice, greedy, large);
  t.equal(first.refused?.status, 429);
  t.match(first.refused?.text, /--request_bytes_per_user_max/);
  t.match(first.refused?.headers, { 'retry-after': /^\d+$/ });
  t.ok(first.taken.length >= 3 && first.taken.length <= 6, `${first.taken.length} were accepted`);
  const reservedBytes = await requestBytes(sluice);
  const leastBytes = first.taken.length * 2 * MIB;
  t.ok(reservedBytes > leastBytes && reservedBytes <= userBytesMax, `${reservedBytes} bytes are reserved`);

  const one = { sql: 'SELECT 1', pagination: { wait_time_secs: 30 } };
  t.match((await post(sluice.url, one, { user: second })).json, { state: 'Succeeded', data: [[1]] });
  const { taken, refused } = await startUntilRefused(sluice, second, large);
  t.ok(taken.length >= 1, 'a second user has a share of what is left');
  t.equal(refused?.status, 503);
  t.match(refused?.text, /--request_bytes_max/);
  t.match(refused?.headers, { 'retry-after': /^\d+$/ });
  t.match((await post(sluice.url, one, { user: third })).json, { state: 'Succeeded', data: [[1]] });

  for (const { json } of first.taken) await get(sluice.url, `${json.stats_uri}/kill`, { user: greedy });
  // A statement ends when its kill has been answered.
  await until(
    () => start(sluice, greedy, large),
    ({ status }) => status === 200,
  );
});

t.test('bodies in chunks of one byte need no more memory than others', async (t) => {
  const { sluice, users } = await prepare(t, server, 1, []);
  const [user = ''] = users;
  // Each byte costs the server the work of a chunk.
  const size = figure(40_000, 100_000);
  const sql = `SELECT LENGTH('${'x'.repeat(size)}')`;
  // Twenty such bodies at once take a busy machine longer than the default.
  const pagination = { wait_time_secs: 20 };
  const plain = Buffer.from(JSON.stringify({ sql, pagination }));
  // Hard to compress, so that there are as many chunks.
  const compressed = gzipSync(
    JSON.stringify({ sql: `SELECT LENGTH('${randomBytes(size).toString('base64url')}')`, pagination }),
  );
  const before = sluice.memoryBytes();
  for (const [body, encoding, length] of [
    [plain, 'identity', size],
    [compressed, 'gzip', Math.ceil((size * 4) / 3)],
  ] as const) {
    const head = {
      Authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}`,
      'Content-Type': 'application/json',
      'Content-Encoding': encoding,
      'Transfer-Encoding': 'chunked',
    };
    const request = requestText('POST /v1/query HTTP/1.1', head, inChunksOfOne(body));
    const exchanges = await Promise.all(Array.from({ length: 20 }, () => exchange(sluice.url, request)));
    const answers = exchanges.map(({ replies: [reply] }) => JSON.parse(reply?.body ?? '').data);
    t.strictSame(answers, Array(20).fill([[length]]), encoding);
  }
  const moreBytes = sluice.peakMemoryBytes() - before;
  t.ok(moreBytes < figure(150, 250) * MIB, `${Math.round(moreBytes / MIB)} MiB`);
});

t.test('B1: the reserved memory is released, however the statement ends', async (t) => {
  const { sluice, users } = await prepare(t, server, 1, limits);
  const [user = ''] = users;
  const text = 'x'.repeat(100_000);
  const wait = { pagination: { wait_time_secs: 20 } };
  const posts: [string, object, RequestOptions?][] = [
    ['succeeds', { sql: `SELECT LENGTH('${text}')` }],
    ['fails in the database', { sql: `SELECT nothing_of_that_name /* ${text} */` }],
    ['has params', { sql: 'SELECT LENGTH(?)', params: [text] }],
    ['has the wrong number of params', { sql: 'SELECT LENGTH(?)', params: [text, text] }],
    ['is no QueryRequest', { sql: text, foo: 1 }],
    ['names an unknown session', { sql: text, session: { id: 'x' } }],
    ['names an unknown database', { sql: text, session: { database: 'nowhere' } }],
    ['opens a session', { sql: `SELECT LENGTH('${text}')`, session: { max_idle_time: 5 } }],
    ['has an idempotency key', { sql: `SELECT LENGTH('${text}')` }, { headers: { 'idempotency-key': 'k' } }],
    ['repeats the idempotency key', { sql: `SELECT LENGTH('${text}')` }, { headers: { 'idempotency-key': 'k' } }],
    ['repeats the idempotency key with another body', { sql: text }, { headers: { 'idempotency-key': 'k' } }],
    ['times out', { sql: `SELECT SLEEP(600) /* ${text} */`, timeout_secs: 1 }],
    [
      'is in Databend’s dialect',
      { sql: `SELECT LENGTH('${text}')`, session: { settings: { time_zone: 'UTC', a: text.slice(0, 1_000) } } },
      { headers: { 'x-databend-query-id': 'q' } },
    ],
  ];
  for (const [what, body, options = {}] of posts) {
    const reply = await post(
      sluice.url,
      { ...body, ...(options.headers?.['x-databend-query-id'] ? {} : wait) },
      { user, ...options },
    );
    t.ok([200, 400, 409].includes(reply.status), `${what}: ${reply.status}`);
    if (reply.status === 200) await get(sluice.url, reply.json.final_uri ?? reply.json.next_uri, { user });
    // The connection becomes idle shortly after the answer.
    await until(
      () => requestBytes(sluice),
      (bytes) => bytes === 0,
    );
  }
  const abort = new AbortController();
  const cut = post(sluice.url, { sql: `SELECT SLEEP(600) /* ${text} */`, ...wait }, { user, signal: abort.signal });
  await until(
    () => requestBytes(sluice),
    (bytes) => bytes > 0,
  );
  abort.abort();
  await t.rejects(cut);
  await until(
    () => requestBytes(sluice),
    (bytes) => bytes === 0,
  );
  t.pass('a statement whose client disconnects');
});

t.test(
  'B1: bodies in transit hold no more than the share of their user, and announced bytes hold no memory',
  async (t) => {
    const { sluice, users } = await prepare(t, server, 2, limits);
    const [greedy = '', other = ''] = users;
    const announced = Array.from({ length: 50 }, () => new Upload(sluice, greedy, 2 * MIB));
    await until(
      () => requestBytes(sluice),
      (bytes) => bytes >= announced.length * KIB,
    );
    const announcedBytes = await requestBytes(sluice);
    t.ok(announcedBytes < 2 * MIB, `${announcedBytes} bytes are reserved for ${announced.length} bodies of 2 MiB`);

    for (const upload of announced) upload.send(Buffer.alloc(2 * MIB - 1, ' '));
    await until(
      () => announced.filter(({ answer }) => answer !== '').length,
      (count) => count >= 30,
    );
    const answers = announced.map(({ answer }) => answer).filter((answer) => answer !== '');
    const others = answers.filter(
      (answer) => !answer.startsWith('HTTP/1.1 429 ') || !answer.includes('--request_bytes_per_user_max'),
    );
    t.strictSame(others, [], 'bodies that get no memory are refused');
    t.ok(answers.length < announced.length, 'other bodies are still being received');
    const one = { sql: 'SELECT 1', pagination: { wait_time_secs: 30 } };
    t.match((await post(sluice.url, one, { user: other })).json, { state: 'Succeeded', data: [[1]] });

    for (const upload of announced) upload.end();
    await until(
      () => requestBytes(sluice),
      (bytes) => bytes === 0,
    );
    t.equal((await start(sluice, greedy, 'SELECT 1')).status, 200);
  },
);

/** A POST whose body the test sends in parts. */
class Upload {
  answer = '';
  readonly #socket: Socket;

  constructor({ url }: SluiceProcess, user: string, length: number) {
    this.#socket = connectTo(url);
    this.#socket.on('error', () => {});
    this.#socket.on('data', (chunk) => {
      this.answer += chunk;
    });
    const authorization = `Basic ${Buffer.from(`${user}:`).toString('base64')}`;
    const headers = { authorization, 'Content-Type': 'application/json', 'Content-Length': `${length}` };
    this.#socket.write(requestText('POST /v1/query HTTP/1.1', headers));
  }

  send(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  end(): void {
    this.#socket.destroy();
  }
}

async function requestBytes(sluice: SluiceProcess): Promise<number> {
  const { text } = await get(sluice.url, '/metrics');
  return Number(/^sluice_request_bytes (\d+)$/m.exec(text)?.[1]);
}

async function startUntilRefused(
  sluice: SluiceProcess,
  user: string,
  sql: string,
): Promise<{ readonly taken: readonly Reply[]; readonly refused: Reply | undefined }> {
  const taken: Reply[] = [];
  while (taken.length < 20) {
    const reply = await start(sluice, user, sql);
    if (reply.status !== 200) return { taken, refused: reply };
    taken.push(reply);
  }
  return { taken, refused: undefined };
}

function start(sluice: SluiceProcess, user: string, sql: string): Promise<Reply> {
  return post(sluice.url, { sql, ...noWait }, { user });
}

interface Prepared {
  readonly sluice: SluiceProcess;
  readonly users: readonly string[];
}

function inChunksOfOne(body: Buffer): Buffer {
  const chunks = [...body].map((byte) => Buffer.from([...Buffer.from('1\r\n'), byte, ...Buffer.from('\r\n')]));
  return Buffer.concat([...chunks, Buffer.from('0\r\n\r\n')]);
}

async function prepare(t: Test, server: DatabaseServer, userCount: number, args: readonly string[]): Promise<Prepared> {
  const name = `memory_${randomBytes(4).toString('hex')}`;
  const users = Array.from({ length: userCount }, (_, number) => `${name}_${number}`);
  for (const user of users) await server.sql(`CREATE USER '${user}'@'localhost'; CREATE USER '${user}'@'127.0.0.1'`);
  const sluice = await startSluice(['--mysql_url', server.url, '--drain_secs', '0', ...args]);
  t.teardown(async () => {
    await sluice.stop();
    for (const user of users) await server.sql(`DROP USER '${user}'@'localhost'; DROP USER '${user}'@'127.0.0.1'`);
  });
  return { sluice, users };
}
