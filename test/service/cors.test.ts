import t, { type Test } from 'tap';
import { exchange, type RawReply, requestText } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, type SluiceProcess, startSluice } from '../support/sluice.ts';

const page = 'https://page.example';
const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;
const json = { Authorization: authorization, 'Content-Type': 'application/json' };
const noWait = { pagination: { wait_time_secs: 0 } };
const statement = JSON.stringify({ sql: 'SELECT 1' });

/** One request for each kind of answer: the name, the request, and the status of the answer. */
function requests(headers: Record<string, string>): [string, Buffer | string, number][] {
  const ask = (line: string, more: Record<string, string> = {}, body = ''): Buffer =>
    requestText(`${line} HTTP/1.1`, { ...headers, ...more }, body);
  return [
    ['a page', ask('POST /v1/query', json, statement), 200],
    ['text', ask('GET /health'), 200],
    ['no JSON', ask('POST /v1/query', json, '{'), 400],
    ['a bad path', ask('GET /%'), 400],
    ['no credentials', ask('POST /v1/query', { 'Content-Type': 'application/json' }, statement), 401],
    ['no such path', ask('GET /nothing'), 404],
    ['no such query', ask('GET /v1/query/none', json), 404],
    ['another method', ask('PUT /health'), 405],
    ['an unread body', ask('POST /nothing', { 'Content-Length': '9' }, 'x'), 404],
    ['a body too large', ask('POST /v1/query', { ...json, 'Content-Length': '99999999' }), 413],
    ['another type', ask('POST /v1/query', { ...json, 'Content-Type': 'text/plain' }, statement), 415],
    ['an expectation', ask('GET /health', { Expect: 'miracles' }), 417],
    ['another host name', ask('GET /health', { Host: 'elsewhere.example' }), 421],
    ['no host', `GET /health HTTP/1.1\r\nOrigin: ${headers['Origin'] ?? ''}\r\n\r\n`, 400],
    ['a head', ask('HEAD /health'), 200],
    ['too many queries of a user', ask('POST /v1/query', json, '{"sql":"SELECT SLEEP(60)"}'), 429],
  ];
}

/** Malformed requests, whose origin is unknown. */
const improper: [string, string, number][] = [
  ['no HTTP', 'garbage\r\n\r\n', 400],
  ['a head too large', `GET /health HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
];

async function start(t: Test, args: readonly string[]): Promise<SluiceProcess> {
  const [server] = await sharedServers();
  const own = ['--queries_per_user_max', '1', '--drain_secs', '0'];
  const sluice = await startSluice(['--mysql_url', server?.url as string, ...own, ...args]);
  t.teardown(() => sluice.stop());
  return sluice;
}

async function replyTo(sluice: SluiceProcess, bytes: Buffer | string): Promise<RawReply> {
  const { replies } = await exchange(sluice.url, bytes);
  return replies.at(-1) as RawReply;
}

/** Checks each kind of answer; the last is sent while the user already runs a statement. */
async function eachReply(
  t: Test,
  sluice: SluiceProcess,
  headers: Record<string, string>,
  check: (reply: RawReply, name: string) => void,
): Promise<void> {
  for (const [name, bytes, status] of requests(headers)) {
    const running = status === 429 ? await post(sluice.url, { sql: 'SELECT SLEEP(60)', ...noWait }) : null;
    // HEAD has a length and no body.
    const reply = name === 'a head' ? headOf((await exchange(sluice.url, bytes)).text) : await replyTo(sluice, bytes);
    if (running !== null) await get(sluice.url, running.json.final_uri);
    t.equal(reply.status, status, name);
    check(reply, name);
  }
}

function headOf(text: string): RawReply {
  const lines = text.split('\r\n');
  const headers = lines.slice(1).map((line) => line.split(': ') as [string, string]);
  return {
    status: Number(lines[0]?.split(' ')[1]),
    headers: new Map(headers.map(([name, value]) => [name.toLowerCase(), value])),
    body: '',
  };
}

function namesOf({ headers }: RawReply): string[] {
  return [...headers.keys()].filter((name) => name.startsWith('access-control-'));
}

// Most of the time is spent waiting, so the tests run concurrently.
t.jobs = 5;

t.test('every answer forbids content sniffing and storing', async (t) => {
  const sluice = await start(t, []);
  const check = ({ headers }: RawReply, name: string): void => {
    t.equal(headers.get('x-content-type-options'), 'nosniff', name);
    t.equal(headers.get('cache-control'), 'no-store', name);
  };
  await eachReply(t, sluice, {}, check);
  for (const [name, bytes] of improper) check(await replyTo(sluice, bytes), name);
});

t.test('without the option, pages of other origins may read nothing', async (t) => {
  const sluice = await start(t, []);
  await eachReply(t, sluice, { Origin: page }, (reply, name) => {
    t.strictSame(namesOf(reply), [], name);
    t.equal(reply.headers.get('vary'), undefined, name);
  });
  const asked = { Origin: page, 'Access-Control-Request-Method': 'POST' };
  const reply = await replyTo(sluice, requestText('OPTIONS /v1/query HTTP/1.1', asked));
  t.equal(reply.status, 405);
  t.strictSame(namesOf(reply), []);
});

t.test('pages of the listed origins may read every answer, and other pages none', async (t) => {
  const sluice = await start(t, ['--cors_origin', 'http://localhost:3000, https://PAGE.example:443']);
  const exposed =
    'Accept-Ranges, Content-Disposition, Content-Range, ETag, Retry-After, WWW-Authenticate, X-Request-Id';
  for (const origin of [page, 'http://localhost:3000']) {
    await eachReply(t, sluice, { Origin: origin }, ({ headers }, name) => {
      t.equal(headers.get('access-control-allow-origin'), origin, name);
      t.equal(headers.get('access-control-expose-headers'), exposed, name);
      t.equal(headers.get('vary'), 'Origin', name);
      t.equal(headers.get('x-content-type-options'), 'nosniff', name);
      t.equal(headers.get('cache-control'), 'no-store', name);
    });
  }
  for (const origin of ['https://other.example', 'http://page.example', `${page}.evil`, `${page}:8443`, 'null', '']) {
    for (const [name, bytes] of requests({ Origin: origin }).slice(0, 6)) {
      const reply = await replyTo(sluice, bytes);
      t.strictSame(namesOf(reply), [], `${name} to ${origin}`);
      t.equal(reply.headers.get('vary'), 'Origin', name);
    }
  }
  for (const [name, bytes] of improper) t.strictSame(namesOf(await replyTo(sluice, bytes)), [], name);

  const big = JSON.stringify({ sql: "SELECT REPEAT('x', 10000)" });
  const zipped = { ...json, Origin: page, 'Accept-Encoding': 'gzip' };
  const reply = await replyTo(sluice, requestText('POST /v1/query HTTP/1.1', zipped, big));
  t.equal(reply.headers.get('content-encoding'), 'gzip');
  t.equal(reply.headers.get('vary'), 'Origin, Accept-Encoding');
});

t.test('with *, pages of all origins may read every answer', async (t) => {
  const sluice = await start(t, ['--cors_origin', '*']);
  await eachReply(t, sluice, { Origin: page }, ({ headers }, name) => {
    t.equal(headers.get('access-control-allow-origin'), '*', name);
    t.equal(headers.get('vary'), undefined, name);
  });
  for (const [name, bytes] of improper) {
    t.equal((await replyTo(sluice, bytes)).headers.get('access-control-allow-origin'), '*', name);
  }
});

t.test('the answer to a preflight request lists what a page may send', async (t) => {
  const sluice = await start(t, ['--cors_origin', page]);
  const ask = (path: string, headers: Record<string, string>) =>
    replyTo(sluice, requestText(`OPTIONS ${path} HTTP/1.1`, headers));
  const asked = { Origin: page, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'x' };
  for (const [path, methods] of [
    ['/v1/query', 'POST'],
    ['/v1/query/abc', 'GET, HEAD'],
    ['/v1/query/abc/page/1', 'GET'],
    ['/v1/query/abc/kill?delete=true', 'GET, POST'],
    ['/v1/session/abc', 'DELETE'],
    ['/ready', 'GET, HEAD'],
  ] as const) {
    const { status, headers, body } = await ask(path, asked);
    t.equal(status, 204, path);
    t.equal(body, '');
    t.equal(headers.get('access-control-allow-origin'), page);
    t.equal(headers.get('access-control-allow-methods'), methods);
    const allowed =
      'Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-None-Match, If-Range, Range, X-Request-Id';
    t.equal(headers.get('access-control-allow-headers'), allowed);
    t.equal(headers.get('access-control-max-age'), '7200');
    t.equal(headers.get('vary'), 'Origin');
    t.equal(headers.get('x-content-type-options'), 'nosniff');
    t.equal(headers.get('cache-control'), 'no-store');
  }
  t.equal((await ask('/nothing', asked)).status, 404);
  const other = await ask('/v1/query', { ...asked, Origin: 'https://other.example' });
  t.equal(other.status, 405);
  t.strictSame(namesOf(other), []);
  t.match(await ask('/v1/query', { Origin: page }), { status: 405 }, 'an OPTIONS that is not a preflight request');
});
