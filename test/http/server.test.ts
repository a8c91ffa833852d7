import { EventEmitter, once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { readJsonBytes } from '#src/http/body.js';
import { HostNames } from '#src/http/host-names.js';
import { httpErrors } from '#src/http/http-error.js';
import { replyText } from '#src/http/reply.js';
import { type Route, Router } from '#src/http/router.js';
import { HttpServer, type ServerOptions } from '#src/http/server.js';
import type { Site } from '#src/http/site.js';
import { RequestAbortedError } from '#src/refusal-error.js';
import { makeCertificate } from '../support/certificates.ts';
import { connectTo, exchange, requestText } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;

/** A body of a statement is received at once; a request without a body waits for its turn. */
const smallPost = 'POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}';
const CHUNKED_JSON = { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' };

/** Outside of Linux, 127.0.0.1 is the only loopback address. */
const linuxOnly = { skip: process.platform !== 'linux' };

const OPTIONS: ServerOptions = {
  httpHandlerHost: '127.0.0.1',
  httpHandlerPort: 0,
  httpConnectionsMax: 100,
  headerBytesMax: 16 * 1024,
  pipelinedRequestsMax: 10,
  pipelinedBytesMax: 1024 * 1024,
  requestTimeoutMs: 30_000,
  httpIdleMs: 60_000,
  certificate: null,
  hostNames: new HostNames('127.0.0.1', ''),
  cors: null,
};

/** The arguments that the router passes to a handler. */
interface SeenRoute {
  readonly name: string;
  readonly id?: string;
  readonly page?: number;
}

const table: readonly [name: string, methods: readonly string[], path: string][] = [
  ['query', ['POST'], '/v1/query'],
  ['stats', ['GET', 'HEAD'], '/v1/query/:id'],
  ['page', ['GET'], '/v1/query/:id/page/#number'],
  ['kill', ['GET', 'POST'], '/v1/query/:id/kill'],
  ['login', ['POST'], '/v1/session/login'],
  ['logout', ['POST'], '/v1/session/logout'],
  ['heartbeat', ['POST'], '/v1/session/heartbeat'],
  ['session', ['DELETE'], '/v1/session/:id'],
  ['health', ['GET', 'HEAD'], '/health'],
  ['ready', ['GET', 'HEAD'], '/ready'],
  ['metrics', ['GET', 'HEAD'], '/metrics'],
];

type Handle = (route: SeenRoute, request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

t.test('a known route is handled, and an unknown one is refused with the reason', async (t) => {
  const { url } = await start(t, (route, _request, response) => replyText(response, 200, JSON.stringify(route)));
  const cases: [string, number, string | RegExp][] = [
    ['GET /health HTTP/1.1', 200, '{"name":"health"}'],
    ['GET /v1/query/a/page/7 HTTP/1.1', 200, '{"name":"page","id":"a","page":7}'],
    ['GET /nothing HTTP/1.1', 404, 'there is nothing at this path'],
    ['GET /% HTTP/1.1', 400, /percent/],
    ['OPTIONS * HTTP/1.1', 400, /not a path/],
    ['PUT /health HTTP/1.1', 405, 'PUT is not allowed here; allowed: GET, HEAD'],
    ['GET /v1/query HTTP/1.1', 405, /POST/],
  ];
  for (const [line, status, body] of cases) {
    const { replies } = await exchange(url, requestText(line));
    t.equal(replies.length, 1, line);
    t.equal(replies[0]?.status, status, line);
    t.match(replies[0]?.body, body, line);
    if (status !== 200) t.equal(replies[0]?.headers.get('content-type'), 'text/plain; charset=utf-8');
    if (status === 405) t.ok(replies[0]?.headers.get('allow'), 'the Allow header is present');
  }
});

t.test('a refusal keeps the connection open, unless a body is still arriving', async (t) => {
  const { url } = await start(t, (_route, _request, response) => replyText(response, 200, 'ok'));
  const keep = { Connection: 'keep-alive' };
  const lines = ['GET /nothing HTTP/1.1', 'PUT /health HTTP/1.1', 'GET /% HTTP/1.1', 'GET /health HTTP/1.1'];
  const requests = lines.map((line) => requestText(line, keep));
  const { replies } = await exchange(url, Buffer.concat(requests), { replies: lines.length });
  t.same(
    replies.map(({ status }) => status),
    [404, 405, 400, 200],
  );
  const unread = await exchange(url, requestText('POST /nothing HTTP/1.1', { ...keep, 'Content-Length': '9' }, 'GET'));
  t.match(unread.replies, [{ status: 404 }]);
  t.equal(unread.replies[0]?.headers.get('connection'), 'close');
});

t.test('a defect is answered with an id that also appears in the log, without internal details', async (t) => {
  const throwers: Handle[] = [
    () => {
      throw new TypeError('the secret reason');
    },
    () => Promise.reject(new Error('the secret reason')),
    async (_route, _request, response) => {
      await new Promise((resolve) => setImmediate(resolve));
      response.setHeader('X-Half', 'done');
      throw new RangeError('the secret reason');
    },
  ];
  for (const thrower of throwers) {
    const { url, events } = await start(t, thrower);
    const { replies } = await exchange(
      url,
      requestText(`GET http://ann:pw@host/v1/query/${'i'.repeat(5000)}?token=1 HTTP/1.1`),
    );
    t.equal(replies[0]?.status, 500);
    const id = /^a defect of the server, logged as ([0-9a-f]{12})$/.exec(replies[0]?.body ?? '')?.[1];
    t.ok(id, 'the body contains an id');
    t.equal(events.length, 1);
    const event = events[0] as ServiceEvent & { type: 'request_failed' };
    t.match(event, { type: 'request_failed', defect: id, method: 'GET', error: { message: 'the secret reason' } });
    t.match(event.error.stack, /server\.test/, 'the log has the stack');
    t.match(event.path, /^\/v1\/query\/i{100}/, 'text that may contain a password is omitted');
    t.ok(event.path.length <= 200, 'a long path is truncated in the log');
    t.notMatch(replies[0]?.body, /secret|Error|at /);
  }
});

t.test('a defect after the head has been sent cuts the answer off, so that it does not look complete', async (t) => {
  const { url, events } = await start(t, (_route, _request, response) => {
    response.writeHead(200, { 'Content-Length': 100 });
    response.write('half');
    throw new Error('late');
  });
  const { replies } = await exchange(url, requestText('GET /health HTTP/1.1'));
  t.same(replies, [], 'no complete answer');
  t.equal(events.length, 1, 'it is logged');
});

t.test('a request of a client that disconnected gets no answer and is not logged as a defect', async (t) => {
  const signals = new EventEmitter<{ seen: []; over: [unknown] }>();
  const { url, events } = await start(t, async (_route, request) => {
    signals.emit('seen');
    await readJsonBytes(request, MIB).catch((error: unknown) => {
      signals.emit('over', error);
      throw error;
    });
  });
  const seen = once(signals, 'seen');
  const over = once(signals, 'over');
  const head = { 'Content-Type': 'application/json', 'Content-Length': '100' };
  const socket = connectTo(url);
  socket.write(requestText('POST /v1/query HTTP/1.1', head, '{'));
  await seen;
  socket.destroy();
  t.type((await over)[0], RequestAbortedError);
  const { replies } = await exchange(url, requestText('GET /% HTTP/1.1'));
  t.equal(replies[0]?.status, 400, 'the server continues');
  t.match(events, [{ type: 'request_refused', path: '/%' }]);
  t.equal(events.length, 1);
});

t.test('invalid HTTP gets 400 and closes the connection', async (t) => {
  const { url, seen } = await start(t, (_route, _request, response) => replyText(response, 200, 'ok'));
  const body = { 'Content-Type': 'application/json' };
  const requests: [string, string | Buffer][] = [
    ['no request line', 'hello\r\n\r\n'],
    ['TLS', Buffer.from('16030100a5010000a10303', 'hex')],
    ['half a version', 'GET /health HTTP\r\n\r\n'],
    ['a wrong version', 'GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n'],
    ['an unknown method', 'FROB /health HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a method in lower case', 'get /health HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a NUL in a header', 'GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: a\0b\r\n\r\n'],
    ['a NUL in the target', 'GET /hea\0lth HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a header without colon', 'GET /health HTTP/1.1\r\nHost: localhost\r\nnocolon\r\n\r\n'],
    ['a blank in the name of a header', 'GET /health HTTP/1.1\r\nHost: localhost\r\nX A: b\r\n\r\n'],
    ['no host', 'GET /health HTTP/1.1\r\n\r\n'],
    ['a length that is no number', requestText('POST /health HTTP/1.1', { ...body, 'Content-Length': 'ten' }, '{}')],
    ['a negative length', requestText('POST /health HTTP/1.1', { ...body, 'Content-Length': '-1' }, '{}')],
    ['two lengths', 'POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}'],
    [
      'a length and chunks',
      'POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'an unknown transfer encoding',
      'POST /v1/query HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n',
    ],
  ];
  for (const [name, bytes] of requests) {
    const before = seen.length;
    const { replies } = await exchange(url, bytes);
    t.equal(replies.length, 1, name);
    t.match(replies[0], { status: 400, body: /^the request (is not HTTP|has no Host header)$/ }, name);
    t.equal(replies[0]?.headers.get('connection'), 'close', name);
    t.equal(seen.length, before, `${name}: no handler is called`);
  }
});

t.test('D6: more than one Host header, or one with an invalid value, gets 400', async (t) => {
  const { url, seen } = await start(t, (_route, _request, response) => replyText(response, 200, 'ok'), {
    hostNames: new HostNames('', '*'),
  });
  const bad: [string, RegExp][] = [
    ['HTTP/1.1\r\nHost: a\r\nHost: b', /more than one Host header/],
    ['HTTP/1.1\r\nHost: a\r\nX-A: b\r\nhOST: a', /more than one Host header/],
    ['HTTP/1.0\r\nHost: a\r\nHost: b', /more than one Host header/],
    ...[
      'a b',
      'a/b',
      'a@b',
      'a:b',
      'a:1:2',
      '::1',
      '[::1',
      '[::g]',
      '[]',
      '[::1]a',
      'a%',
      'a%2',
      '"a"',
      'a\\b',
      'ä',
    ].map((host): [string, RegExp] => [`HTTP/1.1\r\nHost: ${host}`, /^the Host header is not a host name or address/]),
    [`HTTP/1.1\r\nHost: ${'a'.repeat(2_000)}`, /^the Host header is not/],
  ];
  for (const [head, body] of bad) {
    const { replies } = await exchange(url, `GET /health ${head}\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n`);
    t.match(replies, [{ status: 400, body }], head);
    t.equal(replies.length, 1, `${head}: nothing after it is read`);
    t.equal(replies[0]?.headers.get('connection'), 'close', head);
  }
  t.same(seen, [], 'no handler is called');
  const hosts = [
    'a',
    'a:8000',
    'a:',
    '',
    ':80',
    '127.0.0.1:1',
    '[::1]',
    '[::1]:8000',
    '[::ffff:1.2.3.4]',
    'a_b-c.d~e',
    'a%20',
  ];
  for (const host of hosts) {
    const { replies } = await exchange(url, requestText('GET /health HTTP/1.1', { Host: host }));
    t.match(replies, [{ status: 200 }], host);
  }
});

t.test('D6: CONNECT is refused with a reason, after the answers to earlier requests', async (t) => {
  const waiting: ServerResponse[] = [];
  const certificate = await makeCertificate(t);
  for (const tls of [null, certificate]) {
    const { url, seen } = await start(t, (_route, _request, response) => void waiting.push(response), {
      certificate: tls,
    });
    const text = await new Promise<string>((resolve, reject) => {
      const port = Number(new URL(url).port);
      const socket = tls === null ? connect(port, '127.0.0.1') : connectTls({ port, ca: tls.cert, host: '127.0.0.1' });
      let text = '';
      socket.on('data', (chunk) => {
        text += chunk;
      });
      socket.on('error', reject);
      socket.on('end', () => resolve(text));
      socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(2));
      // Bytes after a CONNECT belong to the tunnel.
      socket.write('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n');
      socket.write(Buffer.alloc(100_000, 'x'));
      let answered = 0;
      const answer = (): void => {
        for (const response of waiting.splice(0)) {
          replyText(response, 200, 'ok');
          answered++;
        }
        if (answered < 2) setTimeout(answer, 10);
      };
      setTimeout(answer, 10);
    });
    t.equal(seen.length, 2);
    t.strictSame(
      [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status),
      ['200', '200', '501'],
    );
    t.match(text, /\r\nConnection: close\r\n.*\r\n\r\nthis server is not a proxy: it does not support CONNECT\n$/s);
  }
  const { url } = await start(t, () => {});
  const { replies } = await exchange(url, 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n');
  t.match(replies, [{ status: 501 }], 'as the first request');
});

t.test('D6: a request with Upgrade is answered as if it had none', async (t) => {
  const { url } = await start(t, async (_route, request, response) => {
    replyText(response, 200, request.method === 'POST' ? String(await readJsonBytes(request, MIB)) : 'ok');
  });
  const keep = { Connection: 'keep-alive, Upgrade' };
  const web = requestText('GET /health HTTP/1.1', { ...keep, Upgrade: 'websocket' });
  const { replies } = await exchange(url, Buffer.concat([web, requestText('GET /health HTTP/1.1')]));
  t.match(replies, [{ status: 200, body: 'ok' }]);
  t.equal(replies[0]?.headers.get('connection'), 'close', 'the client learns that nothing after it was read');
  const h2c = { ...keep, Upgrade: 'h2c', 'HTTP2-Settings': 'AAMAAABkAARAAAAAAAIAAAAA' };
  const json = { ...h2c, 'Content-Type': 'application/json' };
  const requests = [
    requestText('GET /health HTTP/1.1', h2c),
    requestText('POST /v1/query HTTP/1.1', json, '{}'),
    requestText('GET /health HTTP/1.1', { Connection: 'close' }),
  ];
  const several = await exchange(url, (socket) => {
    // One after the other.
    socket.on('data', () => socket.write(requests.shift() ?? ''));
    socket.write(requests.shift() ?? '');
  });
  t.match(several.replies, [
    { status: 200, body: 'ok' },
    { status: 200, body: '{}' },
    { status: 200, body: 'ok' },
  ]);
});

t.test('a request line or headers past the limit get 431', async (t) => {
  const { url } = await start(t, (_route, _request, response) => replyText(response, 200, 'ok'));
  const many = Array.from({ length: 3000 }, (_, index) => `X-Header-${index}: v\r\n`).join('');
  const requests: [string, string][] = [
    ['64 KiB of path', `GET /${'a'.repeat(65_536)} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    ['64 KiB of one header', `GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ${'a'.repeat(65_536)}\r\n\r\n`],
    ['3,000 headers', `GET /health HTTP/1.1\r\nHost: localhost\r\n${many}\r\n`],
  ];
  for (const [name, bytes] of requests) {
    const { replies } = await exchange(url, bytes);
    t.match(replies, [{ status: 431, body: /--header_bytes_max/ }], name);
  }
  const { replies } = await exchange(url, requestText(`GET /health?${'a'.repeat(15_000)} HTTP/1.1`));
  t.equal(replies[0]?.status, 200, 'a request below the limit is accepted');
});

t.test('a request that does not arrive in time gets 408', async (t) => {
  const { url } = await start(
    t,
    async (_route, request, response) => replyText(response, 200, String(await readJsonBytes(request, MIB))),
    { requestTimeoutMs: 300 },
  );
  const requests: [string, string | Buffer][] = [
    ['half a request line', 'GET /hea'],
    ['half the headers', 'GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: '],
    [
      'half the body',
      requestText('POST /v1/query HTTP/1.1', { 'Content-Type': 'application/json', 'Content-Length': '10' }, '{"s'),
    ],
    ['no end of the chunks', requestText('POST /v1/query HTTP/1.1', CHUNKED_JSON, '3\r\n{"s\r\n')],
  ];
  const exchanges = requests.map(async ([name, bytes]) => {
    const { replies } = await exchange(url, bytes);
    t.match(replies, [{ status: 408, body: /--request_timeout_secs/ }], name);
  });
  await Promise.all(exchanges);
});

t.test('a refused request that never completes gets no second answer', async (t) => {
  const refuse = (): never => {
    throw httpErrors.badRequest('no');
  };
  const { url } = await start(t, refuse, { requestTimeoutMs: 300 });
  const head = requestText('POST /v1/query HTTP/1.1', { 'Content-Length': '10' }, '{"s');
  const { replies } = await exchange(url, head);
  t.match(replies, [{ status: 400, body: 'no' }]);
  t.equal(replies.length, 1);
});

t.test('a client that sends its request in small pieces has a time limit', async (t) => {
  const { url } = await start(t, (_route, _request, response) => replyText(response, 200, 'ok'), {
    requestTimeoutMs: 500,
  });
  let timer: NodeJS.Timeout | undefined;
  const { replies } = await exchange(url, (socket) => {
    socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n');
    timer = setInterval(() => socket.write('X-A: b\r\n'), 50);
  });
  clearInterval(timer);
  t.equal(replies[0]?.status, 408);
});

t.test('an idle connection is closed', async (t) => {
  const { url } = await start(t, (_route, _request, response) => replyText(response, 200, 'ok'), {
    httpIdleMs: 500,
  });
  const idle = await exchange(url, requestText('GET /health HTTP/1.1', { Connection: 'keep-alive' }));
  t.equal(idle.replies[0]?.status, 200);
  const silent = await exchange(url, '');
  t.same(silent.replies, []);
});

t.test('a connection is not idle while its client waits for an answer', async (t) => {
  const { url } = await start(
    t,
    async (_route, _request, response) => {
      await sleep(1_000);
      replyText(response, 200, 'ok');
    },
    { httpIdleMs: 300 },
  );
  const asked = requestText('GET /health HTTP/1.1', { Connection: 'keep-alive' });
  const { replies } = await exchange(url, Buffer.concat([asked, asked]));
  t.same(
    replies.map(({ status }) => status),
    [200, 200],
    'the second, too, which is served when the first was sent',
  );
});

t.test('a client that owes the rest of its request is idle, even if it does not heed a refusal', async (t) => {
  const post = 'POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';
  const health = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n';
  const halves: readonly [string, string][] = [
    ['no body', `${post}Content-Length: 10\r\n\r\n`],
    ['half a body', `${post}Content-Length: 10\r\n\r\n{"a"`],
    ['chunks that are none', `${post}Transfer-Encoding: chunked\r\n\r\nzz\r\n`],
    ['no body, behind another request', `${health}${post}Content-Length: 10\r\n\r\n`],
    ['a tunnel, behind another request', `${health}CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n`],
  ];
  for (const [name, sent] of halves) {
    const { url, server } = await start(
      t,
      async ({ name }, request, response) => {
        if (name === 'query') await readJsonBytes(request, 100);
        else await sleep(200);
        replyText(response, 200, 'ok');
      },
      { httpIdleMs: 500, requestTimeoutMs: 100 },
    );
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true });
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    socket.write(sent);
    await until(() => server.connections === 1);
    await until(() => server.connections === 0);
    t.pass(name);
  }
});

t.test('a client that does not read its answer is idle, even if it asks for more', async (t) => {
  const bytes = 64 * MIB;
  let ended = 0;
  const { url } = await start(
    t,
    (_route, _request, response) => {
      response.once('close', () => ended++);
      replyText(response, 200, 'x'.repeat(bytes));
    },
    { httpIdleMs: 500 },
  );
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  const asked = requestText('GET /health HTTP/1.1', { Connection: 'keep-alive' });
  socket.write(asked);
  await once(socket, 'data');
  socket.pause();
  socket.write(asked);
  await until(() => ended > 0);
  t.ok(socket.bytesRead < bytes, 'the connection was closed before the end of the answer');
});

/** Sends a request on a new connection, which stays open. */
async function visit(t: Test, url: string, target = '/health', localAddress = '127.0.0.1') {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress });
  t.teardown(() => socket.destroy());
  const visitor = { socket, replies: 0, isClosed: false };
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    visitor.replies += chunk.toString().split('HTTP/1.1 200').length - 1;
  });
  socket.once('close', () => {
    visitor.isClosed = true;
  });
  socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  if (target === '/health') await until(() => visitor.replies > 0 || visitor.isClosed);
  return visitor;
}

/** Answers all requests but those for a query. */
function answerHealth({ name }: SeenRoute, _request: IncomingMessage, response: ServerResponse): void {
  if (name === 'health') replyText(response, 200, 'ok');
}

t.test('at the limit of connections, a new one replaces the one that has been idle for the longest', async (t) => {
  const { url, server, seen, events } = await start(t, answerHealth, { httpConnectionsMax: 3 });
  const first = await visit(t, url);
  const waiting = await visit(t, url, '/v1/query/1');
  await until(() => seen.some(({ name }) => name === 'stats'));
  const second = await visit(t, url);
  // From now on, the other one has been idle for longer.
  first.socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await until(() => first.replies === 2);
  const third = await visit(t, url);
  await until(() => second.isClosed);
  t.strictSame([first.isClosed, waiting.isClosed, third.replies], [false, false, 1]);
  const silent = connectTo(url);
  t.teardown(() => silent.destroy());
  await until(() => first.isClosed);
  const fourth = await visit(t, url);
  await until(() => third.isClosed);
  t.strictSame([waiting.isClosed, fourth.replies], [false, 1], 'connections without a request are idle, too');
  await until(() => server.connections === 3);
  t.strictSame(
    events.map(({ type }) => type),
    ['http_connection_replaced', 'http_connection_replaced', 'http_connection_replaced'],
  );
});

t.test('at the limit of connections, the address with the most of them loses one first', linuxOnly, async (t) => {
  const { url } = await start(t, answerHealth, { httpConnectionsMax: 5 });
  const oldest = await visit(t, url, '/health', '127.0.0.2');
  const greedy: Awaited<ReturnType<typeof visit>>[] = [];
  for (let count = 0; count < 4; count++) greedy.push(await visit(t, url));
  for (let count = 0; count < 6; count++) greedy.push(await visit(t, url));
  const other = await visit(t, url, '/health', '127.0.0.3');
  t.equal(other.replies, 1);
  await until(() => greedy.filter(({ isClosed }) => isClosed).length === 7);
  t.strictSame([oldest.isClosed, other.isClosed], [false, false]);
  t.equal(greedy.at(-1)?.isClosed, false);
});

t.test('if no connection is idle at the limit, the new one is refused', async (t) => {
  const { url, seen, events } = await start(t, answerHealth, { httpConnectionsMax: 2 });
  const waiting = [await visit(t, url, '/v1/query/1'), await visit(t, url, '/v1/query/2')];
  await until(() => seen.length === 2);
  const refused = await visit(t, url);
  t.strictSame([refused.isClosed, refused.replies], [true, 0]);
  t.ok(waiting.every(({ isClosed }) => !isClosed));
  t.match(events, [{ type: 'http_connection_refused', reason: /--http_connections_max/ }]);
});

t.test('with TLS, connections during the handshake are replaced, too, and those with a request are not', async (t) => {
  const certificate = await makeCertificate(t);
  const { url, seen } = await start(t, answerHealth, { certificate, httpConnectionsMax: 3 });
  const { hostname: host, port: portText } = new URL(url);
  const port = Number(portText);
  const ask = (target: string) => {
    const socket = connectTls({ host, port, ca: certificate.cert });
    const client = { socket, text: '', isClosed: false };
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      client.text += chunk.toString();
    });
    socket.once('close', () => {
      client.isClosed = true;
    });
    socket.write(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    return client;
  };
  const waiting = ask('/v1/query/1');
  await until(() => seen.length === 1);
  const idle = ask('/health');
  await until(() => idle.text.includes('200 OK'));
  const silent = connect(port, host).on('error', () => {});
  t.teardown(() => silent.destroy());
  const silentClosed = once(silent, 'close');
  await once(silent, 'connect');
  const next = ask('/health');
  await until(() => next.text.includes('200 OK'));
  await until(() => idle.isClosed);
  const last = ask('/health');
  await until(() => last.text.includes('200 OK'));
  await silentClosed;
  t.strictSame([waiting.isClosed, next.isClosed], [false, false]);
});

t.test('a client that continues to send a refused body can read the refusal', async (t) => {
  const { url } = await start(t, async (_route, request, response) => {
    if (request.method === 'GET') throw httpErrors.notFound('nothing');
    replyText(response, 200, String(await readJsonBytes(request, MIB)));
  });
  const length = 24 * MIB;
  const piece = Buffer.alloc(256 * 1024, ' ');
  const bodies: [string, Record<string, string>, (bytes: Buffer) => Buffer, number][] = [
    ['declared', { 'Content-Type': 'application/json', 'Content-Length': `${length}` }, (bytes) => bytes, 413],
    ['chunked', CHUNKED_JSON, (bytes) => Buffer.concat([Buffer.from('40000\r\n'), bytes, Buffer.from('\r\n')]), 413],
    ['of a wrong type', { 'Content-Type': 'text/xml', 'Content-Length': `${length}` }, (bytes) => bytes, 415],
  ];
  for (const [name, headers, frame, status] of bodies) {
    const { replies } = await exchange(url, async (socket) => {
      socket.write(requestText('POST /v1/query HTTP/1.1', headers));
      // Like a simple client, it sends everything before it reads the answer.
      socket.pause();
      for (let sent = 0; sent < length && !socket.destroyed; sent += piece.length) await written(socket, frame(piece));
      socket.resume();
    });
    t.equal(replies[0]?.status, status, name);
    t.equal(replies.length, 1, `${name}: the rest is not taken for another request`);
  }
});

t.test('a refused client that never stops sending is disconnected', async (t) => {
  const { url } = await start(t, (_route, request) => readJsonBytes(request, MIB).then(() => {}));
  const begin = performance.now();
  const { replies } = await exchange(url, (socket) => {
    socket.write(requestText('POST /v1/query HTTP/1.1', CHUNKED_JSON));
    const piece = Buffer.concat([Buffer.from('40000\r\n'), Buffer.alloc(256 * 1024, ' '), Buffer.from('\r\n')]);
    const more = (): void => {
      if (!socket.destroyed) socket.write(piece, () => setTimeout(more, 5));
    };
    socket.on('error', () => {});
    more();
  });
  t.equal(replies[0]?.status, 413);
  // Usually two seconds; without the limit it would not end.
  t.ok(performance.now() - begin < 20_000);
});

t.test('a connection that pipelines too many requests is closed, and others are not', async (t) => {
  let waiting = 0;
  const { url } = await start(t, () => {
    waiting++;
  });
  const port = Number(new URL(url).port);
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => {});
  socket.write(smallPost.repeat(11));
  await closed;
  t.equal(waiting, 10);
  const other = connect(port, '127.0.0.1');
  t.teardown(() => other.destroy());
  other.write(smallPost.repeat(10));
  await until(() => waiting === 20);
  t.equal(other.destroyed, false);
});

t.test(
  'F (Node 24, 26): when a connection ends, every request on it gets one close event, pipelined ones included',
  async (t) => {
    const responses: ServerResponse[] = [];
    const closes: number[] = [];
    const { url } = await start(t, (_route, _request, response) => {
      const number = responses.push(response) - 1;
      response.on('close', () => closes.push(number));
    });
    const socket = connectTo(url);
    socket.write(smallPost.repeat(3));
    await until(() => responses.length === 3);
    t.strictSame(closes, []);
    socket.destroy();
    await until(() => closes.length >= 3);
    await new Promise((resolve) => setTimeout(resolve, 50));
    t.strictSame(closes.sort(), [0, 1, 2]);
    for (const response of responses) {
      t.equal(response.destroyed, true);
      t.doesNotThrow(() => replyText(response, 200, 'too late'));
    }
  },
);

t.test('B (attack): a pipelined request without a body is handled when the previous one is answered', async (t) => {
  const responses: ServerResponse[] = [];
  const { url } = await start(t, (_route, _request, response) => {
    responses.push(response);
  });
  const socket = connectTo(url);
  t.teardown(() => socket.destroy());
  socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(3));
  for (let served = 1; served <= 3; served++) {
    await until(
      () => responses.length,
      (count) => count >= served,
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    t.equal(responses.length, served);
    replyText(responses[served - 1] as ServerResponse, 200, 'ok');
  }
});

t.test('B (attack): pipelined requests of all connections share one memory limit', async (t) => {
  // The single address of this test may use three quarters of it.
  const { url, server, seen } = await start(t, () => {}, { pipelinedBytesMax: 84 * 1024 });
  const head = `GET /health HTTP/1.1\r\nHost: localhost\r\nX-Filler: ${'x'.repeat(10_000)}\r\n\r\n`;
  const closed: number[] = [];
  const sockets = Array.from({ length: 4 }, (_, number) => {
    const socket = connectTo(url);
    t.teardown(() => socket.destroy());
    socket.once('close', () => closed.push(number));
    return socket;
  });
  // There is room for three requests besides the first of each connection.
  const [first, second, third, fourth] = sockets as [Socket, Socket, Socket, Socket];
  first.write(head.repeat(4));
  await new Promise((resolve) => setTimeout(resolve, 50));
  for (const socket of [second, third]) socket.write(head);
  fourth.write(head.repeat(2));
  await until(
    () => closed.length,
    (count) => count > 0,
  );
  t.strictSame(closed, [3], 'the connection that sends one more is closed');
  // By then all four were accepted, because the first request of each is handled, and the fourth is closed.
  await until(() => seen.length === 4 && server.connections === 3);
  first.destroy();
  await until(
    () => server.connections,
    (count) => count === 2,
  );
  // The memory is released one turn of the event loop after the connection is closed.
  await new Promise(setImmediate);
  second.write(head.repeat(3));
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.strictSame(closed, [3, 0], 'the memory of a closed connection is available to others');
});

t.test('pipelined requests of one address leave memory for those of another', linuxOnly, async (t) => {
  const { url } = await start(t, () => {}, { pipelinedBytesMax: 100 * 1024, pipelinedRequestsMax: 100 });
  const port = Number(new URL(url).port);
  const request = 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n';
  const greedy = Array.from({ length: 20 }, () => connectTo(url));
  let ended = 0;
  for (const socket of greedy) {
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    socket.once('close', () => {
      ended++;
    });
    socket.write(request.repeat(3));
  }
  await until(
    () => ended,
    (count) => count >= 14,
  );
  t.ok(ended < 20, 'some of the memory is for this address');
  const other = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' });
  t.teardown(() => other.destroy());
  let isClosed = false;
  other.once('close', () => {
    isClosed = true;
  });
  other.write(request.repeat(3));
  // After another round trip, the server has received the three.
  await exchange(url, 'GET /% HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.notOk(isClosed, 'another address gets memory');
});

t.test('a refusal that closes the connection waits for the answers to earlier requests', async (t) => {
  const { url, seen } = await start(t, async (_route, _request, response) => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    replyText(response, 200, 'ok');
  });
  const keep = { Connection: 'keep-alive' };
  const good = requestText('GET /health HTTP/1.1', keep);
  // The rest of its body never arrives.
  const bad = requestText('POST /nothing HTTP/1.1', { ...keep, 'Content-Length': '9' }, '{}');
  const { replies } = await exchange(url, Buffer.concat([good, good, good, bad]));
  t.strictSame(
    replies.map(({ status }) => status),
    [200, 200, 200, 404],
  );
  t.equal(seen.length, 3);
});

t.test('a request with a body that is not a statement is handled when the previous one is answered', async (t) => {
  const responses: ServerResponse[] = [];
  const { url, seen } = await start(t, (_route, _request, response) => {
    responses.push(response);
  });
  const socket = connectTo(url);
  t.teardown(() => socket.destroy());
  const keep = { Connection: 'keep-alive' };
  const kill = requestText('POST /v1/query/a/kill HTTP/1.1', keep, '{}');
  socket.write(Buffer.concat([requestText('GET /health HTTP/1.1', keep), kill]));
  await until(
    () => responses.length,
    (count) => count === 1,
  );
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.match(seen, [{ name: 'health' }]);
  t.equal(seen.length, 1);
  replyText(responses[0] as ServerResponse, 200, 'ok');
  await until(
    () => seen.length,
    (count) => count === 2,
  );
  t.match(seen[1], { name: 'kill' });
});

t.test('pipelined requests are answered in order', async (t) => {
  const { url } = await start(t, async (route, _request, response) => {
    // The first is the slowest.
    const { page = 0 } = route;
    await new Promise((resolve) => setTimeout(resolve, 100 - 10 * page));
    replyText(response, 200, JSON.stringify(route));
  });
  const lines = Array.from({ length: 10 }, (_, page) => `GET /v1/query/a/page/${page} HTTP/1.1`);
  const requests = lines.map((line) => requestText(line, { Connection: 'keep-alive' }));
  const { replies } = await exchange(url, Buffer.concat(requests), { replies: 10 });
  t.same(
    replies.map(({ body }) => JSON.parse(body).page),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  );
});

t.test('a complete request keeps its connection, whether refused or not', async (t) => {
  const { url } = await start(t, async (_route, request, response) => {
    const text = String(await readJsonBytes(request, MIB));
    if (text === 'bad') throw httpErrors.badRequest('no');
    replyText(response, 200, text);
  });
  const post = (body: string, type = 'application/json'): Buffer =>
    requestText('POST /v1/query HTTP/1.1', { 'Content-Type': type, Connection: 'keep-alive' }, body);
  for (const requests of [
    [post('bad'), post('good'), post('good')],
    [post('good'), post('bad'), post('good')],
    [post('bad'), post('bad'), post('bad')],
    [post('good', 'text/plain'), post('good')],
  ]) {
    const statuses = requests.map((request) =>
      request.includes('text/plain') ? 415 : request.includes('bad') ? 400 : 200,
    );
    // In one chunk, as clients send small bodies.
    const { replies } = await exchange(url, Buffer.concat(requests), { replies: requests.length });
    t.strictSame(
      replies.map(({ status }) => status),
      statuses,
    );
    for (const { headers } of replies) t.equal(headers.get('connection'), 'keep-alive');
  }
});

t.test('a valid request followed by garbage is answered', async (t) => {
  const { url } = await start(t, (_route, _request, response) => replyText(response, 200, 'ok'));
  const good = requestText('GET /health HTTP/1.1', { Connection: 'keep-alive' });
  const { replies } = await exchange(url, Buffer.concat([good, Buffer.from('garbage\r\n\r\n')]));
  t.match(replies, [{ status: 200 }, { status: 400 }]);
});

t.test('HTTP/1.0, Expect: 100-continue and HEAD are answered correctly', async (t) => {
  const { url } = await start(t, async (route, request, response) => {
    replyText(response, 200, route.name === 'query' ? String(await readJsonBytes(request, MIB)) : 'ok');
  });
  const old = await exchange(url, 'GET /health HTTP/1.0\r\n\r\n');
  t.match(old.replies, [{ status: 200, body: 'ok' }]);

  const json = { 'Content-Type': 'application/json', Expect: '100-continue' };
  const patient = await exchange(url, (socket) => {
    socket.write(requestText('POST /v1/query HTTP/1.1', { ...json, 'Content-Length': '2' }));
    socket.once('data', () => socket.write('{}'));
  });
  t.match(patient.replies, [{ status: 100 }, { status: 200, body: '{}' }]);

  const strange = await exchange(url, requestText('POST /v1/query HTTP/1.1', { ...json, Expect: 'a-miracle' }, '{}'));
  t.equal(strange.replies[0]?.status, 417);

  const head = await exchange(url, requestText('HEAD /health HTTP/1.1'));
  t.match(head.text, /^HTTP\/1\.1 200 .*\r\n\r\n$/s, 'a head without a body');
});

t.test('two servers cannot listen on one port, and the second fails with the reason', async (t) => {
  const { url } = await start(t, () => {});
  const port = Number(new URL(url).port);
  const second = new HttpServer({ ...OPTIONS, httpHandlerPort: port }, {} as Site, () => {});
  await t.rejects(second.listen(), { message: /EADDRINUSE.*--http_handler_port$/, cause: { code: 'EADDRINUSE' } });
});

t.test('the address is a URL, also for IPv6', async (t) => {
  const server = new HttpServer({ ...OPTIONS, httpHandlerHost: '::1' }, {} as Site, () => {});
  const url = await server.listen();
  t.match(url, /^http:\/\/\[::1\]:\d+$/);
  await server.close(0);
});

t.test('loopback addresses are recognised', async (t) => {
  const hosts: [string, boolean][] = [
    ['127.0.0.1', true],
    ['127.1.2.3', true],
    ['::1', true],
    ['localhost', true],
    ['::ffff:127.0.0.1', true],
    ['0.0.0.0', false],
    ['::', false],
  ];
  for (const [httpHandlerHost, isLoopback] of hosts) {
    const { server } = await start(t, () => {}, { httpHandlerHost });
    t.equal(server.isLoopback, isLoopback, httpHandlerHost);
  }
});

t.test('the end of the server closes open connections', async (t) => {
  const { url, server } = await start(t, () => {});
  const waiting = exchange(url, requestText('GET /health HTTP/1.1'));
  await new Promise<void>((resolve) => {
    const socket = connectTo(url);
    socket.on('connect', resolve);
    socket.on('error', () => {});
  });
  await server.close(0);
  t.same((await waiting).replies, []);
});

t.test('empty() waits for all connections, with TLS too, also during a TLS handshake', async (t) => {
  const certificate = await makeCertificate(t);
  for (const tls of [null, certificate]) {
    const { url, server } = await start(t, (_, _request, response) => replyText(response, 200, 'ok'), {
      certificate: tls,
    });
    await server.empty(60_000);
    const { hostname: host, port: portText } = new URL(url);
    const port = Number(portText);
    const silent = connect(port, host);
    const asking = tls === null ? connect(port, host) : connectTls({ host, port, ca: tls.cert });
    asking.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await once(asking, 'data');
    asking.destroy();
    await once(asking, 'close');
    // Timers of equal duration fire in the order in which they were set.
    let isOver = false;
    const isEarly = new Promise((resolve) => setTimeout(() => resolve(isOver), 50));
    await server.empty(50);
    isOver = true;
    t.equal(await isEarly, false, 'with one connection left it waits for the time limit');
    const begin = performance.now();
    const empty = server.empty(60_000);
    silent.destroy();
    await empty;
    // If the connection stayed open, it would take 60 s.
    t.ok(performance.now() - begin < 30_000);
  }
});

t.test('a draining server answers all requests of a connection and closes it with the last answer', async (t) => {
  const waiting: ServerResponse[] = [];
  const { url, server } = await start(t, (_route, _request, response) => {
    waiting.push(response);
  });
  const count = async (number: number): Promise<void> => {
    await until(() => waiting.length >= number);
  };
  const { replies } = await exchange(url, async (socket) => {
    socket.write(smallPost.repeat(2));
    await count(2);
    server.drain();
    socket.write(smallPost);
    await count(3);
    for (const response of waiting) replyText(response, 200, 'ok');
  });
  t.strictSame(
    replies.map(({ headers }) => headers.get('connection')),
    ['keep-alive', 'keep-alive', 'close'],
  );
});

t.test('a closing server answers received requests within its time limit', async (t) => {
  for (const answers of [true, false]) {
    const responses: ServerResponse[] = [];
    const { url, server } = await start(t, (_route, _request, response) => {
      responses.push(response);
    });
    const asked = exchange(url, 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await until(() => responses.length > 0);
    const begin = performance.now();
    const closed = server.close(answers ? 60_000 : 300);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await t.rejects(once(connectTo(url), 'connect'), { code: 'ECONNREFUSED' }, 'no new connection is accepted');
    if (answers) replyText(responses[0] as ServerResponse, 200, 'ok');
    await closed;
    const tookMs = performance.now() - begin;
    t.equal((await asked).replies.length, answers ? 1 : 0);
    t.ok(answers ? tookMs < 30_000 : tookMs >= 280, `${Math.round(tookMs)} ms`);
  }
});

t.test('the end of the server closes connections during their TLS handshake', async (t) => {
  const { url, server } = await start(t, () => {}, { certificate: await makeCertificate(t) });
  const silent = connectTo(url).on('error', () => {});
  await once(silent, 'connect');
  // The server accepts connections in order.
  const asking = connectTls({ port: Number(new URL(url).port), rejectUnauthorized: false }).on('error', () => {});
  await once(asking, 'secureConnect');
  const begin = performance.now();
  await server.close(0);
  // Usually some milliseconds. The request timeout of 30 s would close the connection too.
  t.ok(performance.now() - begin < 10_000);
});

async function start(t: Test, handle: Handle, options: Partial<ServerOptions> = {}) {
  const events: ServiceEvent[] = [];
  const seen: SeenRoute[] = [];
  const routes = table.map(
    ([name, methods, path]): Route => ({
      methods,
      path,
      ...(name === 'query' ? { receivesAhead: true } : {}),
      handle: async ({ request, response, params: [id, page] }) => {
        const route = {
          name,
          ...(id === undefined ? {} : { id }),
          ...(page === undefined ? {} : { page: Number(page) }),
        };
        seen.push(route);
        await handle(route, request, response);
      },
    }),
  );
  const router = new Router(routes);
  const site: Site = {
    match: (method, target) => {
      const found = router.match(method, target);
      return found.type === 'found' ? { ...found, route: found.routes[0] } : found;
    },
    refusalOf: () => null,
  };
  const observe = (event: ServiceEvent): void => {
    events.push(event);
  };
  const server = new HttpServer({ ...OPTIONS, ...options }, site, observe);
  const url = await server.listen();
  t.teardown(() => server.close(0));
  return { url, server, events, seen };
}

function written(socket: Socket, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off('close', done);
      resolve();
    };
    socket.once('close', done);
    socket.write(bytes, done);
  });
}
