// HTTP as bytes on a socket, for what no client library can be made to send.

import { connect, type Socket } from 'node:net';

export interface RawReply {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** Without the newline at its end. */
  readonly body: string;
}

export interface RawExchange {
  /** The answers, in order, as far as they are whole. Those of status 100 are among them. */
  readonly replies: readonly RawReply[];
  /** Whatever came, whole or not. */
  readonly text: string;
  /** Whether the connection was reset by the server instead of ended. */
  readonly reset: boolean;
}

export interface RawOptions {
  /** The exchange is over when so many answers have come; by default when the server has ended the connection. */
  readonly replies?: number;
  readonly timeoutMs?: number;
}

/** The URL's server as a socket, connected or soon to be. */
export function connectTo(url: string): Socket {
  const { hostname, port } = new URL(url);
  return connect(Number(port), hostname);
}

/**
 * Sends what is given, or lets a function send, and collects what comes back until the server ends the connection.
 * Rejects when that takes too long.
 */
export function exchange(
  url: string,
  send: string | Uint8Array | ((socket: Socket) => void | Promise<void>),
  options: RawOptions = {},
): Promise<RawExchange> {
  const { timeoutMs = 60_000 } = options;
  return new Promise((resolve, reject) => {
    const socket = connectTo(url);
    const chunks: Buffer[] = [];
    let reset = false;
    const timer = setTimeout(() => {
      const soFar = Buffer.concat(chunks).toString().slice(0, 500);
      finish(() =>
        reject(new Error(`the server did not end the connection within ${timeoutMs} ms; it said: ${soFar}`)),
      );
    }, timeoutMs);
    const finish = (settle: () => void) => {
      clearTimeout(timer);
      socket.destroy();
      settle();
    };
    const done = () => {
      const bytes = Buffer.concat(chunks);
      finish(() => resolve({ replies: parseReplies(bytes), text: bytes.toString(), reset }));
    };
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      if (options.replies === undefined) return;
      if (parseReplies(Buffer.concat(chunks)).length >= options.replies) done();
    });
    socket.on('end', done);
    socket.on('close', done);
    // The server's output before it closed counts; a write that fails after that does not.
    socket.on('error', (error: NodeJS.ErrnoException) => {
      reset ||= error.code === 'ECONNRESET';
    });
    socket.on('connect', () => {
      if (typeof send === 'function') Promise.resolve(send(socket)).catch((error) => finish(() => reject(error)));
      else socket.write(send);
    });
  });
}

/** A request as text. Content-Length and Host are added unless they are given. */
export function requestText(
  line: string,
  headers: Readonly<Record<string, string | undefined>> = {},
  body: string | Uint8Array = '',
): Buffer {
  const defaults: Record<string, string | undefined> = {
    Host: 'localhost',
    Connection: 'close',
    ...(body.length > 0 && headers['Transfer-Encoding'] === undefined
      ? { 'Content-Length': `${Buffer.byteLength(body)}` }
      : {}),
    ...headers,
  };
  const lines = Object.entries(defaults).filter(([, value]) => value !== undefined);
  const head = [line, ...lines.map(([name, value]) => `${name}: ${value}`), '', ''].join('\r\n');
  return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]);
}

function parseReplies(bytes: Buffer): RawReply[] {
  const replies: RawReply[] = [];
  // A character for each byte, since lengths count bytes, and a compressed body is no text.
  let rest = bytes.toString('latin1');
  for (;;) {
    const headEnd = rest.indexOf('\r\n\r\n');
    const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(rest)?.[1]);
    if (headEnd < 0 || Number.isNaN(status)) return replies;
    const headers = new Map(
      rest
        .slice(0, headEnd)
        .split('\r\n')
        .slice(1)
        .map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
    );
    const length = Number(headers.get('content-length') ?? 0);
    const body = rest.slice(headEnd + 4, headEnd + 4 + length);
    if (body.length < length) return replies;
    replies.push({ status, headers, body: Buffer.from(body.replace(/\n$/, ''), 'latin1').toString() });
    rest = rest.slice(headEnd + 4 + length);
  }
}
