import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { readJsonBytes } from '#src/http/body.js';
import { HttpError } from '#src/http/http-error.js';
import { RequestMemory, type RequestReservation } from '#src/query/request-memory.js';
import { RequestAbortedError } from '#src/refusal-error.js';
import { connectTo, requestText } from '../support/raw-http.ts';
import { until } from '../support/until.ts';

const BYTES_MAX = 100_000;
const JSON_TYPE = { 'Content-Type': 'application/json' };
const GZIP = { ...JSON_TYPE, 'Content-Encoding': 'gzip' };
const CHUNKED = { 'Transfer-Encoding': 'chunked' };

type Outcome = { readonly text: string } | { readonly error: unknown };

t.test('a body is returned as its text', async (t) => {
  for (const body of ['{}', '', '{"sql":"SELECT \'ä😀\'"}', 'x'.repeat(BYTES_MAX), '\ufeff{}', 'a\0b']) {
    const name = `${body.slice(0, 20)} (${body.length})`;
    t.same(await read(t, post(JSON_TYPE, body)), { text: body }, name);
    t.same(await read(t, post({ ...JSON_TYPE, ...CHUNKED }, chunks(body))), { text: body }, `${name}, chunked`);
    t.same(await read(t, post(GZIP, gzipSync(body))), { text: body }, `${name}, compressed`);
  }
});

t.test('a body that arrives byte by byte, with characters cut in two, is complete', async (t) => {
  const text = '{"sql":"äöü😀長江"}';
  const bytes = [...Buffer.from(text)].map((byte) => Uint8Array.of(byte));
  const { text: read_ } = (await readInPieces(t, bytes)) as { text: string };
  t.equal(read_, text);
});

t.test('F (Node 26): a body that is in several chunks when it is read is complete', async (t) => {
  const pieces = ['{"sql":"', 'SELECT 1', '"}'];
  const length = pieces.join('').length;
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const socket = connectTo(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.teardown(() => socket.destroy());
  socket.setNoDelay();
  socket.write(requestText('POST / HTTP/1.1', { ...JSON_TYPE, 'Content-Length': `${length}` }));
  const [request] = (await once(server, 'request')) as [IncomingMessage];
  let buffered = 0;
  for (const piece of pieces) {
    socket.write(piece);
    buffered += piece.length;
    await until(
      () => request.readableLength,
      (bytes) => bytes === buffered,
    );
  }
  t.equal(await readJsonBytes(request, BYTES_MAX).then(String), pieces.join(''));
});

t.test('the content type is JSON in UTF-8, in any valid spelling', async (t) => {
  const types = [
    'application/json',
    'Application/JSON',
    'application/json;charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json ; charset="utf-8"',
    'application/json; charset=utf8',
    'application/json; version=1; charset=utf-8',
    'application/json;',
    ' application/json ',
  ];
  for (const type of types) t.same(await read(t, post({ 'Content-Type': type }, '{}')), { text: '{}' }, type);
});

t.test('another content type is refused', async (t) => {
  const types = [
    undefined,
    '',
    'text/plain',
    'text/json',
    'application/jsonx',
    'application/x-json',
    'application/vnd.api+json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=application/json',
    '*/*',
    'json',
    'text/plain; application/json',
    'application/json, text/plain',
  ];
  for (const type of types) {
    await refuses(t, post({ 'Content-Type': type }, '{}'), 415, /content type must be application\/json/, `${type}`);
  }
  for (const charset of ['latin1', 'utf-16', 'iso-8859-1', 'utf-8x', '']) {
    const type = `application/json; charset=${charset}`;
    await refuses(t, post({ 'Content-Type': type }, '{}'), 415, /character set must be UTF-8/, type);
  }
});

t.test('another content encoding is refused', async (t) => {
  for (const encoding of ['br', 'deflate', 'gzip, gzip', 'gzip, identity', 'utf-8', `x${'y'.repeat(1000)}`]) {
    const headers = { ...JSON_TYPE, 'Content-Encoding': encoding };
    const error = await refuses(t, post(headers, '{}'), 415, /content encoding ".*gzip is/, encoding.slice(0, 40));
    t.ok(error.message.length < 200, 'its value is truncated in the message');
  }
  for (const encoding of ['identity', 'IDENTITY', ' identity ']) {
    t.same(await read(t, post({ ...JSON_TYPE, 'Content-Encoding': encoding }, '{}')), { text: '{}' }, encoding);
  }
  t.same(await read(t, post({ ...JSON_TYPE, 'Content-Encoding': 'GZip' }, gzipSync('{}'))), { text: '{}' });
});

t.test('a body past the limit is refused, with and without a content length', async (t) => {
  const reason = new RegExp(`larger than ${BYTES_MAX} bytes \\(--body_bytes_max\\)`);
  const long = 'x'.repeat(BYTES_MAX + 1);
  await refuses(t, post(JSON_TYPE, long), 413, reason, 'declared');
  await refuses(t, post({ ...JSON_TYPE, 'Content-Length': '99999999999' }, 'x'), 413, reason, 'declared, none sent');
  await refuses(t, post({ ...JSON_TYPE, ...CHUNKED }, chunks(long)), 413, reason, 'chunked');
  await refuses(t, post(GZIP, gzipSync(long)), 413, reason, 'compressed');
  await refuses(t, post({ ...GZIP, ...CHUNKED }, chunks(gzipSync(long))), 413, reason, 'compressed and chunked');
});

t.test('a gzip bomb is refused before it is decompressed', async (t) => {
  const bomb = gzipSync(Buffer.alloc(512 * 1024 * 1024));
  t.comment(`512 MiB in ${bomb.length} bytes`);
  const before = process.memoryUsage().rss;
  // The compressed bomb is longer than the limit of this reader, so this reader gets a higher limit for compressed bytes.
  await refuses(t, post(GZIP, bomb), 413, /larger than/, 'the bomb', bomb.length + 1);
  t.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024, 'no memory was used for it');
});

t.test('compressed bytes count as sent, even if they decompress to nothing', async (t) => {
  const nothing = gzipSync('');
  const many = Buffer.concat(Array.from({ length: Math.ceil(BYTES_MAX / nothing.length) + 1 }, () => nothing));
  await refuses(t, post({ ...GZIP, ...CHUNKED }, chunks(many)), 413, /larger than/, 'empty members');
});

t.test('invalid or incomplete gzip is refused', async (t) => {
  const whole = gzipSync('{"sql":"SELECT 1"}');
  const damaged = Buffer.from(whole);
  damaged[damaged.length - 6] = (damaged[damaged.length - 6] as number) ^ 0xff;
  const bodies: [string, Buffer | string][] = [
    ['plain text', '{"sql":"SELECT 1"}'],
    ['half of it', whole.subarray(0, whole.length / 2)],
    ['without its last byte', whole.subarray(0, -1)],
    ['its first byte', whole.subarray(0, 1)],
    ['a wrong checksum', damaged],
  ];
  for (const [name, body] of bodies) await refuses(t, post(GZIP, body), 400, /the body is not gzip/, name);
});

t.test('a client that disconnects before its body is complete is not reported as a bad body', async (t) => {
  const bodies: [string, Record<string, string>, Uint8Array][] = [
    ['declared', { ...JSON_TYPE, 'Content-Length': '100' }, Buffer.from('{"sql"')],
    ['chunked', { ...JSON_TYPE, ...CHUNKED }, Buffer.from('5\r\n{"sql')],
    ['compressed', { ...GZIP, 'Content-Length': '1000' }, gzipSync('x'.repeat(1000)).subarray(0, 12)],
    ['nothing sent', { ...JSON_TYPE, 'Content-Length': '100' }, Buffer.alloc(0)],
  ];
  for (const [name, headers, body] of bodies) {
    for (const how of ['reset', 'destroy'] as const) {
      const outcome = await read(t, post(headers, body), { cut: how });
      t.type('error' in outcome ? outcome.error : undefined, RequestAbortedError, `${name}, ${how}`);
    }
  }
});

t.test('B1: memory is reserved for a body as it arrives, and a body without memory is refused', async (t) => {
  const size = 90_000;
  const plain = Buffer.alloc(size, ' ');
  const requests: [string, Buffer][] = [
    ['announced', post(JSON_TYPE, plain)],
    ['chunked', post({ ...JSON_TYPE, ...CHUNKED }, chunks(plain))],
    ['compressed', post(GZIP, gzipSync(plain))],
  ];
  for (const [name, request] of requests) {
    const memory = new RequestMemory({ max: 1_000_000, perUserMax: 1_000_000 });
    t.match(await read(t, request, { reservation: memory.reserve('u', 0) }), { text: String(plain) }, name);
    t.ok(memory.reservedBytes >= size && memory.reservedBytes <= 2 * size, `${name}: ${memory.reservedBytes} bytes`);

    const small = new RequestMemory({ max: 50_000, perUserMax: 50_000 });
    const refused = await read(t, request, { reservation: small.reserve('u', 0) });
    t.match(refused, { error: { name: 'RequestMemoryError', reason: 'too many' } }, name);
    t.ok(small.reservedBytes <= 50_000, 'it reserves no more than the limit');
  }
});

t.test('B1: an announced body that is not sent reserves little memory', async (t) => {
  const memory = new RequestMemory({ max: 1_000_000, perUserMax: 1_000_000 });
  const head = requestText('POST / HTTP/1.1', { ...JSON_TYPE, 'Content-Length': `${BYTES_MAX}` });
  const { url, arrived, outcome } = await listen(t, BYTES_MAX, memory.reserve('u', 0));
  const socket = connectTo(url);
  socket.write(head);
  await arrived;
  await until(
    () => memory.reservedBytes,
    (bytes) => bytes > 0,
  );
  t.ok(memory.reservedBytes < 32 * 1024, `${memory.reservedBytes} bytes`);
  socket.destroy();
  t.match(await outcome, { error: { name: 'RequestAbortedError' } });
});

function post(headers: Record<string, string | undefined>, body: string | Uint8Array): Buffer {
  return requestText('POST / HTTP/1.1', headers, body);
}

/** The body in chunks of a thousand bytes. */
function chunks(body: string | Uint8Array): Buffer {
  const bytes = Buffer.from(body as Uint8Array);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 1000) {
    const piece = bytes.subarray(at, at + 1000);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')]);
}

/** The result of readJsonBytes. With `cut`, the client disconnects once the request has reached the server. */
async function read(
  t: Test,
  request: Uint8Array,
  options: { cut?: 'reset' | 'destroy'; bytesMax?: number; reservation?: RequestReservation } = {},
): Promise<Outcome> {
  const { url, arrived, outcome } = await listen(t, options.bytesMax, options.reservation);
  const socket = connectTo(url);
  socket.on('error', () => {});
  socket.write(request);
  await arrived;
  if (options.cut === 'reset') socket.resetAndDestroy();
  else if (options.cut === 'destroy') socket.destroy();
  const result = await outcome;
  socket.destroy();
  return result;
}

async function readInPieces(t: Test, pieces: readonly Uint8Array[]): Promise<Outcome> {
  const { url, arrived, outcome } = await listen(t);
  const socket = connectTo(url);
  socket.setNoDelay();
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  socket.write(requestText('POST / HTTP/1.1', { ...JSON_TYPE, 'Content-Length': `${length}` }));
  await arrived;
  for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
  const result = await outcome;
  socket.destroy();
  return result;
}

async function listen(t: Test, bytesMax = BYTES_MAX, reservation: RequestReservation | null = null) {
  const server = createServer();
  const arrived = once(server, 'request') as Promise<[IncomingMessage]>;
  const outcome: Promise<Outcome> = arrived.then(([request]) =>
    readJsonBytes(request, bytesMax, reservation).then(
      (bytes) => ({ text: bytes.toString() }),
      (error: unknown) => ({ error }),
    ),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, arrived, outcome };
}

async function refuses(
  t: Test,
  request: Uint8Array,
  status: number,
  reason: RegExp,
  name: string,
  bytesMax?: number,
): Promise<HttpError> {
  const outcome = await read(t, request, bytesMax === undefined ? {} : { bytesMax });
  const error = 'error' in outcome ? (outcome.error as HttpError) : new HttpError(200, 'it was accepted');
  t.type(error, HttpError, name);
  t.equal(error.status, status, `${name}: ${error.message}`);
  t.match(error.message, reason, name);
  return error;
}
