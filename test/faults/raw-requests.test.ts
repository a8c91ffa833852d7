import { randomBytes } from 'node:crypto';
import t from 'tap';
import { figure, measured, testMsMax } from '../support/form.ts';
import type { Look } from '../support/probe.ts';
import { prepareProbe } from '../support/probe-process.ts';
import { generator, pick, type Random, seedOf } from '../support/random.ts';
import { connectTo } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, type QueryResponse, type RequestOptions, startSluice } from '../support/sluice.ts';
import { p99MsMax, startTraffic } from '../support/traffic.ts';
import { until } from '../support/until.ts';

/*
 * Mutated requests as raw bytes on sockets. Each connection is answered or closed in time, no input triggers a defect of the
 * service, nothing of it stays in memory, and other clients get correct answers.
 */

const MIB = 1024 * 1024;
const requestCount = figure(4_000, 200_000);
const lanes = 48;
const requestTimeoutSecs = 1;
/** Longer than a busy machine lets the regular clients wait for their turn. */
const idleSecs = 5;
/**
 * Ten times the sum of the request timeout, the idle timeout, the second between two checks of both, and the time for the rest of
 * a refused body.
 */
const endMsMax = 10 * (requestTimeoutSecs + idleSecs + 1 + 2) * 1_000;
/** How much the used memory may grow in the second half of the requests. */
const usedBytesMax = 16 * MIB;
/** The same for resident memory, which is not released at once. The time of garbage collection depends on the Node version. */
const residentBytesMax = 192 * MIB;
const windowMs = figure(2_000, 20_000);
/** Pause of the regular clients between two statements. */
const restMs = figure(25, 5);

/** The statuses that a malformed request may get. Any other status is a defect. */
const statuses = new Set([100, 200, 400, 401, 404, 405, 408, 413, 415, 417, 421, 429, 431, 501]);

interface Place {
  readonly authorization: string;
  /** Paths of a running query, so that statuses other than 404 occur. */
  readonly paths: readonly string[];
}

interface Case {
  readonly bytes: Buffer;
  readonly requests: number;
  /** Sends in two parts with a pause between them. */
  readonly cutAt: number | null;
  /** Either the client keeps its end open, so that the server must decide when to close, or the client closes it in some way. */
  readonly leave: 'open' | 'end' | 'reset';
}

// The database makes no difference here.
const [server] = await sharedServers();

t.test('mutated requests as raw bytes do no harm', { timeout: testMsMax }, async (t) => {
  if (server === undefined) throw new Error('there is no database to test with');
  const seed = seedOf(t);
  const user = `raw_${randomBytes(4).toString('hex')}`;
  const neighbour = `${user}_n`;
  await server.sql(`CREATE USER ${user}@'%', ${neighbour}@'%'`);
  const probe = await prepareProbe(t);
  const sluice = await startSluice(
    [
      ...['--mysql_url', server.url, '--drain_secs', '0', '--wait_time_secs_max', '1', '--result_timeout_secs', '30'],
      ...['--request_timeout_secs', `${requestTimeoutSecs}`, '--http_idle_secs', `${idleSecs}`],
      // Mutants of the credentials must not lock out the valid ones.
      ...['--auth_failures_max', '1000000'],
    ],
    probe.env,
  );
  t.teardown(async () => {
    await sluice.kill();
    await server.sql(`DROP USER ${user}, ${neighbour}`);
  });
  const login = { user };
  // A busy machine may take longer than the request timeout to send the first request on its new connection.
  const standing = await until(() => firstPage(sluice.url, login).catch(() => null));
  if (standing === null) throw new Error('the first page never came');
  const { id } = standing;
  const place: Place = {
    authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}`,
    paths: [`/v1/query/${id}`, `/v1/query/${id}/page/0`, `/v1/query/${id}/page/1`, `/v1/query/0${id.slice(1)}/kill`],
  };
  const traffic = startTraffic(sluice.url, { login: { user: neighbour }, restMs });
  await traffic.windows(1, 1_000);
  const descriptorsBefore = sluice.descriptors();

  const wrong: string[] = [];
  const counts = new Map<number, number>();
  let silent = 0;
  let latestMs = 0;
  let sent = 0;
  let number = 0;

  const one = async (number: number): Promise<void> => {
    const made = makeCase(generator(seed, number), place);
    sent += made.requests;
    const { text, tookMs } = await send(sluice.url, made);
    latestMs = Math.max(latestMs, tookMs);
    const complain = (what: string): void => {
      wrong.push(`case ${number}: ${what}: ${made.bytes.toString('latin1').slice(0, 500)}`);
    };
    if (tookMs > endMsMax) complain(`the connection did not end within ${endMsMax} ms`);
    const answers = [...text.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status]) => Number(status));
    if (answers.length === 0) silent++;
    for (const status of answers) {
      counts.set(status, (counts.get(status) ?? 0) + 1);
      if (!statuses.has(status)) complain(`${status} in ${text.slice(0, 1_000)}`);
    }
  };
  const run = async (upTo: number): Promise<void> => {
    const lane = async (): Promise<void> => {
      while (sent < upTo) await one(number++);
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  };

  const beganMs = performance.now();
  // The first half brings the memory to its working level; a leak appears in the second half.
  await run(requestCount / 2);
  const memoryBefore = await probe.look(sluice);
  // The server may close the connection of the last request as idle while the client reuses it.
  await until(() => get(sluice.url, standing.stats_uri, login).catch(() => null));
  const [[beside]] = await Promise.all([traffic.windows(1, windowMs), run(requestCount)]);
  const tookSecs = (performance.now() - beganMs) / 1_000;
  const memoryAfter = await probe.look(sluice);
  const [afterwards] = await traffic.windows(1, 500);
  await traffic.stop();

  t.strictSame(wrong.slice(0, 5), [], `${wrong.length} of ${number} connections were handled incorrectly`);
  t.ok(sent >= requestCount, `${sent} requests were sent`);
  for (const status of [200, 400, 401, 404, 405, 415, 431]) t.ok(counts.has(status), `some requests got ${status}`);
  t.strictSame(
    traffic.wrong.slice(0, 3),
    [],
    `all ${traffic.count} valid concurrent statements returned the right rows`,
  );
  for (const window of [beside, afterwards]) {
    const { p99Ms = Number.NaN, count = 0 } = window ?? {};
    t.ok(p99Ms <= p99MsMax, `${count} of them within ${p99Ms.toFixed(1)} ms (p99)`);
  }
  const descriptors = await until(
    () => sluice.descriptors(),
    (count) => count <= descriptorsBefore + 4,
  );
  t.ok(descriptors <= descriptorsBefore + 4, `${descriptorsBefore} descriptors before, ${descriptors} after`);
  const used = ({ heapBytes, externalBytes }: Look): number => heapBytes + externalBytes;
  const usedMib = (used(memoryAfter) - used(memoryBefore)) / MIB;
  const residentMib = (memoryAfter.residentBytes - memoryBefore.residentBytes) / MIB;
  t.ok(usedMib <= usedBytesMax / MIB, `memory in use grew by ${usedMib.toFixed(1)} MiB in the second half`);
  t.ok(residentMib <= residentBytesMax / MIB, `all memory grew by ${residentMib.toFixed(1)} MiB in the second half`);
  t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
  t.equal(await sluice.stop(), 0, 'the service stops cleanly');

  const table = [...counts].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`);
  t.comment(`answers by status: ${table.join(', ')}; ${silent} connections closed without one`);
  measured(
    t,
    `${sent} mutated requests on ${number} connections in ${tookSecs.toFixed(0)} s: ${wrong.length} wrong, the longest ` +
      `connection ${Math.round(latestMs)} ms, memory in use ${usedMib.toFixed(1)} MiB and resident ${residentMib.toFixed(1)} MiB in the second half, p99 of others ${beside?.p99Ms.toFixed(1)} ms beside`,
  );
});

/** The first page of a statement that has another, which nobody asks for. */
async function firstPage(url: string, login: RequestOptions): Promise<QueryResponse> {
  const body = { sql: 'SELECT 1 UNION ALL SELECT 2', pagination: { max_rows_per_page: 1 } };
  return (await post(url, body, login)).json;
}

/** Sends a case and waits until the server has closed the connection. */
function send(url: string, { bytes, cutAt, leave }: Case): Promise<{ text: string; tookMs: number }> {
  return new Promise((resolve) => {
    const beganMs = performance.now();
    const socket = connectTo(url);
    const chunks: Buffer[] = [];
    const done = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ text: Buffer.concat(chunks).toString('latin1'), tookMs: performance.now() - beganMs });
    };
    const timer = setTimeout(done, endMsMax + 1_000);
    const finish = (): void => {
      if (leave === 'end') socket.end();
      // Some of the answers may be on their way by then.
      else if (leave === 'reset') setTimeout(() => socket.resetAndDestroy(), 2);
    };
    socket.on('connect', () => {
      if (cutAt === null) {
        socket.write(bytes, finish);
        return;
      }
      socket.write(bytes.subarray(0, cutAt));
      setTimeout(() => socket.write(bytes.subarray(cutAt), finish), 2);
    });
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => {});
    socket.on('close', done);
  });
}

function makeCase(random: Random, place: Place): Case {
  const requests = random(3) === 0 ? 1 + random(8) : 1;
  const parts = Array.from({ length: requests }, () => makeRequest(random, place));
  let bytes: Buffer = Buffer.concat(parts);
  if (random(4) === 0) bytes = mutateBytes(random, bytes);
  if (random(100) === 0) bytes = Buffer.from(pick(random, strangers));
  const end = random(20);
  return {
    bytes,
    requests,
    cutAt: random(8) === 0 ? random(bytes.length + 1) : null,
    // A connection that the client leaves open occupies its lane for some seconds.
    leave: end === 0 && random(2) === 0 ? 'open' : end < 4 ? 'reset' : 'end',
  };
}

/** The first bytes of other protocols, and requests of other HTTP versions. */
const strangers = [
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0',
  'GET /health\r\n',
  'GET /health\r\n\r\n',
  'GET /health HTTP/1.0\r\n\r\n',
  'GET /health HTTP/0.9\r\n\r\n',
  'GET /health HTTP/2.0\r\n\r\n',
  'GET /health HTTP/1.9\r\nHost: localhost\r\n\r\n',
  'GET /health HTTP/9999999999.1\r\nHost: localhost\r\n\r\n',
  '\x16\x03\x01\0\xa5\x01\0\0\xa1\x03\x03',
  'SSH-2.0-OpenSSH_9.2\r\n',
  '\n\n\n\n',
  '\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  'CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\n',
  'OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'TRACE / HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: 1\r\n\r\n',
];

/** A request that is generated from a grammar. Each part is sometimes invalid. */
function makeRequest(random: Random, place: Place): Buffer {
  const isPost = random(2) === 0;
  const rare = <T>(usual: T, strange: readonly T[]): T => (random(12) === 0 ? pick(random, strange) : usual);
  const method = rare(isPost ? 'POST' : 'GET', [...methods, pick(random, methods).toLowerCase()]);
  const path = isPost ? '/v1/query' : pick(random, ['/health', '/ready', '/', ...place.paths]);
  const target = rare(path, [
    ...targets,
    `${path}?${'a=b&'.repeat(random(50))}`,
    `http://elsewhere${path}`,
    `/${path}/`,
  ]);
  const version = rare('HTTP/1.1', ['HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', 'HTTP/1.', 'HTTP/1.1 ', '']);
  const body = isPost ? makeBody(random) : rare(Buffer.alloc(0), [Buffer.from('{}'), Buffer.alloc(random(3_000), 'x')]);
  const isChunked = body.length > 0 && random(4) === 0;
  const headers: [string, string][] = [
    ['Host', rare('localhost', ['', 'a b', 'x'.repeat(300), '[::1]:99999', '\xff'])],
    ['Connection', rare('keep-alive', ['close', 'upgrade', 'keep-alive, close', ',,,'])],
    ['Authorization', rare(place.authorization, credentials)],
  ];
  if (isPost) headers.push(['Content-Type', rare('application/json', contentTypes)]);
  if (isChunked) headers.push(['Transfer-Encoding', rare('chunked', transferEncodings)]);
  else if (body.length > 0) {
    const length = body.length;
    headers.push([
      'Content-Length',
      rare(`${length}`, [...lengths, `${length + 1 + random(9)}`, `${Math.max(0, length - 1)}`]),
    ]);
  }
  for (let more = random(12) === 0 ? 1 + random(4) : 0; more > 0; more--) headers.push(pick(random, extraHeaders));
  if (random(400) === 0) headers.push(...Array.from({ length: 3_000 }, (): [string, string] => ['A', 'b']));
  if (random(400) === 0) headers.push(['X-Long', 'x'.repeat(20_000)]);
  if (random(10) === 0) headers.splice(random(headers.length), 1);
  if (random(20) === 0) headers.push(pick(random, headers));
  const eol = rare('\r\n', ['\n', '\r', '\r\n ', '\r\n\t']);
  const separator = rare(': ', [':', ' : ', ':\t', ' ', ':\0']);
  const lines = headers.map(
    ([name, value]) => `${rare(name, [name.toUpperCase(), ` ${name}`, `${name}\0`])}${separator}${value}`,
  );
  const head = [`${method}${rare(' ', ['  ', '\t', ''])}${target} ${version}`, ...lines, '', ''].join(eol);
  return Buffer.concat([Buffer.from(head, 'latin1'), isChunked ? chunked(random, body) : body]);
}

const methods = [
  'HEAD',
  'PUT',
  'DELETE',
  'PATCH',
  'OPTIONS',
  'TRACE',
  'CONNECT',
  'PROPFIND',
  'QUERY',
  'X',
  '\0',
  'GET\r\nA: b',
];

const targets = [
  '*',
  'health',
  '//health//',
  '/v1/query/%00',
  '/v1/query/%zz',
  '/v1/query/%ff%fe',
  '/v1/query/../../health',
  '/v1/query/x/page/99999999999999999999',
  '/v1/query/x/page/-1',
  '/v1/query/x/page/1e3',
  '/v1/query/x/kill?delete=maybe',
  '/v1/query/x/kill?delete=true&delete=false',
  '/v1/query/\xe4\xf6',
  '/v1/query/__proto__',
  '/v1/query/constructor/page/0',
  `/v1/query/${'a/'.repeat(2_000)}`,
  `/${'x'.repeat(20_000)}`,
  '/v1/query#fragment',
  'http://',
  'http:///v1/query',
  '/health HTTP/1.1\r\nInjected: yes\r\n',
  '/health%0d%0aInjected:%20yes',
];

const credentials = [
  '',
  'Basic',
  'Basic ',
  'Basic !!!!',
  'Basic Og==',
  'Basic AAAA',
  'Bearer x',
  `Basic ${Buffer.from('nobody:wrong').toString('base64')}`,
  `Basic ${Buffer.from('a\0b:c').toString('base64')}`,
  `Basic ${Buffer.from(`${'u'.repeat(5_000)}:p`).toString('base64')}`,
  `Basic ${Buffer.from([0xff, 0xfe, 0x3a, 0x80]).toString('base64')}`,
  'Digest username="x"',
];

const contentTypes = [
  'text/plain',
  '',
  'application/json; charset=latin1',
  'application/json;'.repeat(200),
  'a\0b',
  '/',
];

const transferEncodings = [
  'chunked, chunked',
  'gzip, chunked',
  'chunked;x=y',
  'identity',
  'xchunked',
  ' chunked',
  'CHUNKED',
  '',
];

const lengths = [
  '0',
  '-1',
  '+5',
  '1e3',
  '0x10',
  ' 7 ',
  '007',
  '',
  'x',
  '4294967296',
  '9007199254740993',
  '99999999999999999999999',
  '16777217',
  '5, 5',
  '5\r\nContent-Length: 6',
];

const extraHeaders: readonly [string, string][] = [
  ['Expect', '100-continue'],
  ['Expect', 'a miracle'],
  ['Upgrade', 'h2c'],
  ['Upgrade', 'websocket'],
  ['Transfer-Encoding', 'chunked'],
  ['Content-Length', '3'],
  ['Content-Encoding', 'gzip'],
  ['Content-Encoding', 'br'],
  ['Accept-Encoding', 'gzip;q=x, *;q=, ;;'],
  ['Accept-Encoding', `${'gzip,'.repeat(500)}`],
  ['Trailer', 'X'],
  ['Range', 'bytes=0-1'],
  ['If-Match', '*'],
  ['X-Forwarded-For', '127.0.0.1\r\nX: y'],
  ['Cookie', 'a=b; '.repeat(100)],
  ['__proto__', 'x'],
  ['constructor', 'x'],
  ['', 'no name'],
  ['a b', 'c'],
  ['X', '\x01\x02\x7f\xff'],
];

function makeBody(random: Random): Buffer {
  const statements = [
    'SELECT 1',
    'SELECT 1 UNION SELECT 2',
    'SELECT nonsense',
    'SELEC',
    '',
    ';',
    '/*',
    `SELECT '${'é'.repeat(random(100))}'`,
    'SET @a = 1',
    'SHOW WARNINGS',
  ];
  const body: Record<string, unknown> = { sql: pick(random, statements) };
  if (random(3) === 0) body['pagination'] = { wait_time_secs: random(3), max_rows_per_page: 1 + random(3) };
  if (random(6) === 0) body['session'] = pick(random, [{}, { id: 'none' }, { database: 'nowhere' }, { id: 1 }, null]);
  if (random(12) === 0) body[pick(random, ['x', '__proto__', 'SQL', ''])] = random(9);
  const bytes = Buffer.from(JSON.stringify(body));
  return random(6) === 0 ? mutateBytes(random, bytes) : bytes;
}

/** A chunked body. The chunk sizes are sometimes wrong. */
function chunked(random: Random, body: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const piece = body.subarray(at, at + 1 + random(body.length));
    at += piece.length;
    const size = piece.length.toString(16);
    const strange = [
      `-${size}`,
      `0x${size}`,
      `${size};ext="x`,
      `${size}${'0'.repeat(random(20))}`,
      ` ${size}`,
      'g',
      '',
      `0${size}`,
    ];
    const line = random(30) === 0 ? pick(random, strange) : size;
    pieces.push(Buffer.from(`${line}\r\n`), piece, Buffer.from(random(60) === 0 ? '\n' : '\r\n'));
  }
  const ends = ['', '0\r\n', '0\r\nTrailer: x\r\n\r\n', '00000\r\n\r\n', '0\r\n\r\n0\r\n\r\n', '0\n\n'];
  pieces.push(Buffer.from(random(15) === 0 ? pick(random, ends) : '0\r\n\r\n'));
  return Buffer.concat(pieces);
}

/** Flips, drops, duplicates or adds bytes at random positions. */
function mutateBytes(random: Random, bytes: Buffer): Buffer {
  let mutated = Buffer.from(bytes);
  for (let times = 1 + random(3); times > 0 && mutated.length > 0; times--) {
    const at = random(mutated.length);
    const length = 1 + random(Math.min(20, mutated.length - at));
    const [before, after] = [mutated.subarray(0, at), mutated.subarray(at)];
    switch (random(6)) {
      case 0:
        mutated[at] = (mutated[at] as number) ^ (1 << random(8));
        break;
      case 1:
        mutated = Buffer.concat([before, after.subarray(length)]);
        break;
      case 2:
        mutated = Buffer.concat([before, after.subarray(0, length), after]);
        break;
      case 3:
        mutated = Buffer.concat([before, Buffer.from(Uint8Array.from({ length }, () => random(256))), after]);
        break;
      case 4:
        mutated = Buffer.from(before);
        break;
      case 5:
        mutated = Buffer.concat([
          before,
          Buffer.from(pick(random, ['\r\n', '\r\n\r\n', '\0', ':', ' ', '"', '{'])),
          after,
        ]);
        break;
    }
  }
  return mutated;
}
