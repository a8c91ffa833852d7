import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import t, { type Test } from 'tap';
import { requestClass } from '#src/http/incoming-request.js';
import { connectTo, exchange, requestText } from '../support/raw-http.ts';

const CHUNKED = headOf('/');

function headOf(path: string): string {
  return String(requestText(`POST ${path} HTTP/1.1`, { 'Transfer-Encoding': 'chunked', Connection: undefined }));
}

/** A body in the most chunks that a client can use. */
function inChunksOfOne(body: string): string {
  return body.replaceAll(/./g, '1\r\n$&\r\n');
}

const digits = '0123456789'.repeat(10_000);

t.test('short chunks of a body reach their reader joined', async (t) => {
  const { request, socket } = await begin(t);
  socket.write(inChunksOfOne(digits));
  socket.write(`3\r\nend\r\n0\r\n\r\n`);
  const pieces = await piecesOf(request);
  t.equal(pieces.join(''), `${digits}end`);
  t.ok(pieces.length < digits.length / 1_000, `${pieces.length} pieces`);
});

t.test('short and long chunks keep their order', async (t) => {
  const { request, socket } = await begin(t);
  const long = 'x'.repeat(5_000);
  const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
  const texts = ['a', long, 'bc', 'd', long, long, 'e', digits.slice(0, 1_023), digits.slice(0, 1_024), 'f'];
  socket.write(`${texts.map(chunk).join('')}0\r\nTrailer: 1\r\n\r\n`);
  t.equal((await piecesOf(request)).join(''), texts.join(''));
  t.equal(request.complete, true);
});

t.test('a short chunk is delivered without waiting for more', async (t) => {
  const { request, socket } = await begin(t);
  for (const letter of 'abc') {
    socket.write(`1\r\n${letter}\r\n`);
    t.equal(String((await once(request, 'data'))[0]), letter);
  }
});

t.test('a body that is not read yet is buffered in few pieces, and the connection waits', async (t) => {
  const { request, socket } = await begin(t);
  let hasClientSentAll = false;
  socket.write(`${inChunksOfOne(digits.repeat(10))}0\r\n\r\n`, () => {
    hasClientSentAll = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.ok(request.readableLength <= 64 * 1024, `${request.readableLength} bytes are held`);
  t.equal(hasClientSentAll, false);
  const pieces = await piecesOf(request);
  t.equal(pieces.join('') === digits.repeat(10), true);
});

t.test('a reader that pauses and resumes gets the complete body', async (t) => {
  const { request, socket } = await begin(t);
  socket.write(`${inChunksOfOne(digits)}0\r\n\r\n`);
  const pieces: string[] = [];
  request.on('data', (piece: Buffer) => {
    pieces.push(String(piece));
    request.pause();
    setTimeout(() => request.resume(), 1);
  });
  await once(request, 'end');
  t.equal(pieces.join(''), digits);
});

t.test('in one turn of the event loop no more is processed than one read of the socket returns', async (t) => {
  let ofTurn = 0;
  let most = 0;
  let all = 0;
  class Counted extends requestClass {
    override push(chunk: unknown, encoding?: BufferEncoding): boolean {
      if (chunk !== null) {
        if (ofTurn === 0) {
          setImmediate(() => {
            ofTurn = 0;
          });
        }
        ofTurn++;
        all++;
        most = Math.max(most, ofTurn);
      }
      return super.push(chunk, encoding);
    }
  }
  const { request, socket } = await begin(t, Counted);
  socket.write(`${inChunksOfOne(digits)}0\r\n\r\n`);
  t.equal((await piecesOf(request)).join(''), digits);
  t.equal(all, digits.length);
  // 64 KiB, of which a chunk takes six bytes.
  t.ok(most <= (64 * 1024) / 6 + 1, `${most} chunks`);
});

t.test('requests after one in short chunks are handled, whether its body was read or not', async (t) => {
  const server = createServer({ IncomingMessage: requestClass }, (request, response) => {
    if (request.url !== '/read') {
      response.end('not read');
      return;
    }
    let length = 0;
    request.on('data', (piece: Buffer) => {
      length += piece.length;
    });
    request.on('end', () => response.end(`${length}`));
  });
  const url = await listen(t, server);
  const post = (path: string): string => `${headOf(path)}${inChunksOfOne(digits.slice(0, 5_000))}0\r\n\r\n`;
  const text = [post('/read'), post('/'), post('/read'), post('/'), requestText('GET / HTTP/1.1', {})].join('');
  const { replies } = await exchange(url, text, { replies: 5 });
  t.strictSame(
    replies.map(({ body }) => body),
    ['5000', 'not read', '5000', 'not read', 'not read'],
  );
});

t.test('a client that disconnects during short chunks aborts the request', async (t) => {
  const { request, socket } = await begin(t);
  const errors: string[] = [];
  request.on('error', (error) => errors.push(error.message));
  request.resume();
  socket.write(inChunksOfOne(digits.slice(0, 3_000)));
  await once(request, 'data');
  socket.destroy();
  await new Promise((resolve) => request.once('close', resolve));
  t.equal(request.complete, false);
  t.strictSame(errors, ['aborted']);
});

/** A request whose head has arrived. */
async function begin(t: Test, made = requestClass): Promise<{ request: IncomingMessage; socket: Socket }> {
  const server = createServer({ IncomingMessage: made });
  const socket = connectTo(await listen(t, server));
  socket.on('error', () => {});
  t.teardown(() => socket.destroy());
  socket.write(CHUNKED);
  const [request] = (await once(server, 'request')) as [IncomingMessage];
  return { request, socket };
}

async function listen(t: Test, server: ReturnType<typeof createServer>): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function piecesOf(request: IncomingMessage): Promise<string[]> {
  const pieces: string[] = [];
  for await (const piece of request) pieces.push(String(piece));
  return pieces;
}
