import { once } from 'node:events';
import { createServer, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { constants, crc32, deflateRawSync, gunzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { EncodedText } from '#src/http/encoded-text.js';
import { HttpError, httpErrors } from '#src/http/http-error.js';
import { replyBody, replyEmpty, replyError, replyPage, replyText } from '#src/http/reply.js';

t.test('text is plain UTF-8 with its length in bytes', async (t) => {
  const answer = await answered(t, (response) => replyText(response, 200, 'größe 😀'));
  t.equal(answer.status, 200);
  t.equal(answer.body.toString(), 'größe 😀\n');
  t.match(answer.headers, { 'content-type': 'text/plain; charset=utf-8', 'content-length': '13' });
  t.equal(answer.headers['cache-control'], 'no-store');
});

t.test('an error has a status, its reason as one line, and headers', async (t) => {
  const cases: [HttpError, number, object][] = [
    [httpErrors.badRequest('bad'), 400, {}],
    [httpErrors.unauthorized('who?'), 401, { 'www-authenticate': 'Basic realm="sluice"' }],
    [httpErrors.notFound('gone'), 404, {}],
    [httpErrors.methodNotAllowed('PUT', ['GET', 'HEAD']), 405, { allow: 'GET, HEAD' }],
    [httpErrors.bodyTooLarge(5), 413, {}],
    [httpErrors.unsupportedMediaType('type'), 415, {}],
    [httpErrors.tooManyRequests('slow down'), 429, { 'retry-after': '1' }],
    [httpErrors.defect('abc'), 500, {}],
    [httpErrors.unavailable('later'), 503, { 'retry-after': '1' }],
  ];
  for (const [error, status, headers] of cases) {
    const answer = await answered(t, (response) => replyError(response, error, null));
    t.equal(answer.status, status);
    t.equal(answer.body.toString(), `${error.message}\n`);
    t.match(answer.headers, { ...headers, 'content-type': 'text/plain; charset=utf-8' });
  }
});

t.test('a reason of several lines becomes one line', async (t) => {
  const error = new HttpError(400, 'first\r\n\tsecond\n\nthird');
  t.equal(error.message, 'first second third');
});

t.test('an empty answer has no body and a length of zero', async (t) => {
  const answer = await answered(t, (response) => replyEmpty(response));
  t.equal(answer.status, 200);
  t.equal(answer.body.length, 0);
  t.equal(answer.headers['content-length'], '0');
});

t.test('JSON is the parts in order and a newline, for any number and size of parts', async (t) => {
  const large = Buffer.alloc(3 * 1024 * 1024, 'x');
  const bodies: (string | Uint8Array)[][] = [
    ['{', '}'],
    ['["ä', '', Buffer.from('😀'), '"]'],
    ['[', large, ',', large.subarray(0, 1), new Uint8Array(0), ']'],
    Array.from({ length: 5000 }, (_, index) => `${index},`),
    ['x'.repeat(64 * 1024)],
    ['"', Buffer.from('ä😀'.repeat(16 * 1024)), '"'],
    [''],
  ];
  for (const parts of bodies) {
    const expected = Buffer.concat([...parts, '\n'].map((part) => Buffer.from(part as string)));
    const answer = await answered(t, (response) => replyBody(response, parts));
    t.equal(answer.status, 200);
    t.equal(answer.headers['content-type'], 'application/json');
    t.equal(answer.headers['content-length'], `${expected.length}`);
    t.equal(answer.headers['cache-control'], 'no-store');
    t.ok(answer.body.equals(expected), `${parts.length} parts, ${expected.length} bytes`);
  }
});

t.test('an encoded text stands among other parts, compressed or not', async (t) => {
  const encoded = new EncodedText('"größe 語",'.repeat(20_000));
  const rows = Buffer.from('[1,2],'.repeat(1_000));
  const deflated = {
    bytes: deflateRawSync(rows, { finishFlush: constants.Z_SYNC_FLUSH }),
    length: rows.length,
    crc: crc32(rows),
  };
  const expected = `{${encoded.bytes}${rows}}\n`;
  const plain = await answered(t, (response) => replyBody(response, ['{', encoded, rows, '}']));
  t.equal(plain.headers['content-length'], `${Buffer.byteLength(expected)}`);
  t.ok(plain.body.toString() === expected);
  for (const asGzip of [true, false, true]) {
    const page = await answered(t, (response) => replyPage(response, ['{', encoded, deflated, '}'], asGzip));
    t.equal(page.headers['content-encoding'], asGzip ? 'gzip' : undefined);
    t.ok((asGzip ? gunzipSync(page.body) : page.body).toString() === expected);
  }
});

t.test('the answer to HEAD has the length of the body and no body', async (t) => {
  const answer = await answered(t, (response) => replyText(response, 200, 'ok'), 'HEAD');
  t.equal(answer.headers['content-length'], '3');
  t.equal(answer.body.length, 0);
});

t.test('an answer to a client that disconnected does no harm', async (t) => {
  for (const reply of [
    (response: ServerResponse) => replyBody(response, ['x'.repeat(1_000_000)]),
    (response: ServerResponse) => replyText(response, 200, 'ok'),
    (response: ServerResponse) => replyEmpty(response),
  ]) {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const outgoing = request({ port: (server.address() as AddressInfo).port });
    outgoing.on('error', () => {});
    outgoing.end();
    const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
    outgoing.destroy();
    await once(response, 'close');
    t.doesNotThrow(() => reply(response));
    server.close();
  }
});

async function answered(t: Test, reply: (response: ServerResponse) => void, method = 'GET') {
  const server = createServer((_request, response) => reply(response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const outgoing = request({ port: (server.address() as AddressInfo).port, method, agent: false });
  outgoing.end();
  const [incoming] = await once(outgoing, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return { status: incoming.statusCode as number, headers: incoming.headers, body: Buffer.concat(chunks) };
}
