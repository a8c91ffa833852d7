import type { Socket } from 'node:net';
import type { Observe } from '../events.ts';
import { addressOf, type StatusCounts } from './answer.ts';
import type { HttpConnections } from './connections.ts';
import { lingerMs, type Refusals } from './refusals.ts';

const requestTimeout = 'ERR_HTTP_REQUEST_TIMEOUT';
/** The status for a request that is not valid HTTP, by Node's error code. */
const clientErrors: Readonly<Record<string, [number, string]>> = {
  [requestTimeout]: [408, 'Request Timeout'],
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
};
const clientErrorReasons: Readonly<Record<number, string>> = {
  400: 'the request is not HTTP',
  408: 'the request did not arrive in time (--request_timeout_secs)',
  431: 'the request line and headers are too large (--header_bytes_max)',
};
const noTunnel = 'this server is not a proxy: it does not support CONNECT';

/** Answers on the socket itself, and closes it, where Node makes no response: to bytes that are not HTTP, and to CONNECT. */
export class RawRefusals {
  readonly #connections: HttpConnections;
  readonly #refusals: Refusals;
  readonly #counts: StatusCounts;
  readonly #observe: Observe;
  /** Header lines, each with its line end. */
  readonly #extraHeaders: string;

  constructor(
    connections: HttpConnections,
    refusals: Refusals,
    counts: StatusCounts,
    observe: Observe,
    extraHeaders: string,
  ) {
    this.#connections = connections;
    this.#refusals = refusals;
    this.#counts = counts;
    this.#observe = observe;
    this.#extraHeaders = extraHeaders;
  }

  /** Handles Node's `clientError`: the parser has failed, or the request took too long. */
  refuseMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#refusals.isClosing(socket)) return;
    if (error.code === requestTimeout && this.#connections.isAnswered(socket)) return;
    // Before the end of the TLS handshake, the client could not read an answer.
    if (this.#connections.unansweredOf(socket) === undefined || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    const [status, phrase] = clientErrors[error.code ?? ''] ?? [400, 'Bad Request'];
    // A client that disconnects in the middle of its request has not been refused.
    const isCut = error.code === 'HPE_INVALID_EOF_STATE';
    this.#refuse(socket, status, phrase, clientErrorReasons[status] ?? '', isCut);
  }

  /** Answers CONNECT, after the answers to the requests before it. Node no longer handles the socket. */
  refuseTunnel(socket: Socket): void {
    socket.on('error', () => socket.destroy());
    socket.on('timeout', () => socket.destroy());
    // Unread bytes would reset the connection before the client has read the answer.
    socket.resume();
    const answer = (): void => {
      // An answer before this one was the last of the connection.
      if (!socket.writable) return;
      this.#refuse(socket, 501, 'Not Implemented', noTunnel);
      const timer = setTimeout(() => socket.destroy(), lingerMs);
      socket.once('close', () => clearTimeout(timer));
    };
    const last = this.#connections.unansweredOf(socket)?.at(-1);
    if (last === undefined) answer();
    else last.once('close', answer);
  }

  #refuse(socket: Socket, status: number, phrase: string, reason: string, isCut = false): void {
    // A socket that is closed has no address any more.
    const client = addressOf(socket);
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    socket.end(
      `HTTP/1.1 ${status} ${phrase}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n` +
        `Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n${this.#extraHeaders}` +
        `Content-Length: ${Buffer.byteLength(reason) + 1}\r\n\r\n${reason}\n`,
    );
    this.#counts.set(status, (this.#counts.get(status) ?? 0) + 1);
    if (!isCut) this.#observe({ type: 'request_refused', status, reason, client });
  }
}
