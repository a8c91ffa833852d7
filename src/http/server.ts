import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate as afterThisTurn } from 'node:timers';
import { setImmediate } from 'node:timers/promises';
import type { Observe } from '../events.ts';
import { BlockedError } from '../session/accounts.ts';
import { RefusedError } from '../session/lease.ts';
import { RequestAbortedError } from './body.ts';
import type { Certificate } from './certificate.ts';
import type { Cors } from './cors.ts';
import type { Handlers } from './handlers.ts';
import type { HostNames } from './host-names.ts';
import { HttpError, httpErrors, refusal } from './http-error.ts';
import { replyError, replyErrorUnended } from './reply.ts';
import { match, withoutAuthority } from './router.ts';

export interface ServerOptions {
  readonly host: string;
  readonly port: number;
  readonly connectionsMax: number;
  readonly headerBytesMax: number;
  /** Requests that one connection may send before the first of them is answered. */
  readonly pipelinedMax: number;
  /** Time for a request to arrive whole. */
  readonly requestTimeoutMs: number;
  /** Time without a byte either way after which a connection is closed, be it that its client does not read. */
  readonly idleTimeoutMs: number;
  /** To serve HTTPS with; null: plain HTTP. */
  readonly certificate: Certificate | null;
  /** The names by which clients may address the server. */
  readonly hostNames: HostNames;
  /** Which pages of other origins may read the answers; null: none. */
  readonly cors: Cors | null;
}

/** How long what is left of a refused body is read and dropped, so that the client gets to see the refusal. */
const lingerMs = 2_000;
const timeoutCheckMs = 1_000;

const requestTimeout = 'ERR_HTTP_REQUEST_TIMEOUT';
/** What a connection is told that sent no proper request, by Node's code for what is wrong. */
const clientErrors: Readonly<Record<string, [number, string]>> = {
  [requestTimeout]: [408, 'Request Timeout'],
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
};
const clientErrorReasons: Readonly<Record<number, string>> = {
  400: 'the request is not HTTP',
  408: 'the request did not arrive in time (--request_timeout_secs)',
  431: 'the request line and headers are too large (--header_bytes_max)',
};

/** A listener is quiet when it has taken no connection for so many turns of the event loop; it is waited for no longer than this. */
const quietTurns = 2;
const quietTurnsMax = 100;

/**
 * The HTTP side: takes requests, finds their route, has them handled, and turns what is thrown into an answer. States:
 * listening; draining, when each answer is the last of its connection; closing, when no more connections are taken.
 */
export class HttpServer {
  readonly #server: Server | TlsServer;
  readonly #handlers: Handlers;
  readonly #options: ServerOptions;
  readonly #observe: Observe;
  /** As they were accepted: with HTTPS, below what is encrypted. */
  readonly #sockets = new Set<Socket>();
  readonly #unanswered = new Map<Socket, Set<ServerResponse>>();
  #accepted = 0;
  #isDraining = false;
  #onEmpty: (() => void) | null = null;

  constructor(options: ServerOptions, handlers: Handlers, observe: Observe) {
    this.#options = options;
    this.#handlers = handlers;
    this.#observe = observe;
    const serverOptions = {
      maxHeaderSize: options.headerBytesMax,
      requestTimeout: options.requestTimeoutMs,
      headersTimeout: options.requestTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
      keepAliveTimeout: options.idleTimeoutMs,
      noDelay: true,
      // Node's own answer to a request without one lacks what each of ours has.
      requireHostHeader: false,
    };
    const take = (request: IncomingMessage, response: ServerResponse): void => {
      if (this.#admit(request.socket, response)) void this.#serve(request, response);
    };
    const { certificate } = options;
    this.#server =
      certificate === null
        ? createServer(serverOptions, take)
        : createTlsServer({ ...serverOptions, ...certificate, handshakeTimeout: options.requestTimeoutMs }, take);
    this.#server.on('connection', (socket: Socket) => this.#count(socket));
    this.#server.on(certificate === null ? 'connection' : 'secureConnection', (socket: Socket) => this.#accept(socket));
    this.#server.on('checkExpectation', take);
    this.#server.maxConnections = options.connectionsMax;
    this.#server.setTimeout(options.idleTimeoutMs);
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      // That of a refused request has its answer, and is about to be closed.
      if (error.code === requestTimeout && this.#isAnswered(socket)) return;
      // Whoever has not yet come to terms on the encryption could read no answer.
      if (this.#unanswered.has(socket)) refuseConnection(error, socket, options.cors?.unaskedHeaders ?? '');
      else socket.destroy();
    });
  }

  /** @returns the address as a URL, with the port that was really taken */
  async listen(): Promise<string> {
    const { host, port } = this.#options;
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    // What goes wrong from now on concerns one connection, such as one too many for the process.
    this.#server.on('error', (error) => this.#observe({ type: 'accept_failed', error }));
    const scheme = this.#options.certificate === null ? 'http' : 'https';
    return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${this.#address.port}`;
  }

  /** Whether only this machine can reach it. */
  get isLoopback(): boolean {
    return /^(?:::ffff:)?127\.|^::1$/.test(this.#address.address);
  }

  /** Shows another certificate from now on; connections that are open keep theirs. */
  renew(certificate: Certificate): void {
    (this.#server as TlsServer).setSecureContext(certificate);
  }

  /** From now on each answer says that it is its connection's last, so that clients go elsewhere. */
  drain(): void {
    this.#isDraining = true;
    for (const unanswered of this.#unanswered.values()) {
      let last: ServerResponse | null = null;
      for (const response of unanswered) last = response;
      if (last !== null) last.shouldKeepAlive = false;
    }
  }

  /** Resolves when no connection is open, or when the time has passed. */
  async empty(timeoutMs: number): Promise<void> {
    if (this.#sockets.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#onEmpty = null;
  }

  /** Takes no more connections, lets requests that have come be answered for a while, and ends the connections that are left. */
  async close(answerMs: number): Promise<void> {
    this.drain();
    await this.#quiet();
    // Node closes with the listener those connections that wait for their next request.
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const timer = setTimeout(() => {
      this.#server.closeAllConnections();
      // Those that have not yet come to terms on the encryption are none of HTTP's.
      for (const socket of this.#sockets) socket.destroy();
    }, answerMs);
    await closed;
    clearTimeout(timer);
  }

  get #address(): AddressInfo {
    return this.#server.address() as AddressInfo;
  }

  /**
   * The system accepts connections ahead of this process, and resets with the listener those that this process has not
   * taken. There are none at the end of a turn in which the event loop has looked and found no other.
   */
  async #quiet(): Promise<void> {
    let quiet = 0;
    for (let turn = 0; quiet < quietTurns && turn < quietTurnsMax; turn++) {
      const before = this.#accepted;
      await setImmediate();
      quiet = this.#accepted === before ? quiet + 1 : 0;
    }
  }

  #count(socket: Socket): void {
    this.#accepted++;
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      if (this.#sockets.size === 0) this.#onEmpty?.();
    });
  }

  #accept(socket: Socket): void {
    const unanswered = new Set<ServerResponse>();
    this.#unanswered.set(socket, unanswered);
    socket.once('close', () => {
      this.#unanswered.delete(socket);
      for (const response of unanswered) if (response.socket === null) response.destroy();
      // Node 20 and 22 emit 'close' on the response whose turn it is and not on those queued behind it; later lines emit it
      // on each destroyed one, in the next tick. A response leaves the set with its 'close'.
      afterThisTurn(() => {
        for (const response of unanswered) response.emit('close');
      });
    });
  }

  /** Counts the requests of a connection that are not yet answered; one too many costs it the connection. */
  #admit(socket: Socket, response: ServerResponse): boolean {
    const unanswered = this.#unanswered.get(socket);
    if (unanswered === undefined || unanswered.size >= this.#options.pipelinedMax) {
      socket.destroy();
      return false;
    }
    if (this.#isDraining) {
      // The one before it was to be the last, and would take this one with it.
      for (const earlier of unanswered) earlier.shouldKeepAlive = true;
      response.shouldKeepAlive = false;
    }
    unanswered.add(response);
    response.once('close', () => unanswered.delete(response));
    return true;
  }

  /** Whether a request has been answered before it was whole. */
  #isAnswered(socket: Socket): boolean {
    for (const response of this.#unanswered.get(socket) ?? []) if (response.headersSent) return true;
    return false;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const method = request.method ?? '';
    const target = request.url ?? '';
    const { cors } = this.#options;
    cors?.mark(request, response);
    try {
      checkHead(request, this.#options.hostNames);
      const found = match(method, target);
      switch (found.type) {
        case 'route':
          return await this.#handlers.handle(found.route, request, response);
        case 'malformed':
          throw httpErrors.badRequest(found.reason);
        case 'not found':
          throw httpErrors.notFound('there is nothing at this path');
        case 'method not allowed':
          if (cors?.preflight(request, response, found.allow)) return;
          throw httpErrors.methodNotAllowed(method, found.allow);
      }
    } catch (error) {
      // In the midst of the chunk that the request came in, Node cannot tell yet whether it is whole.
      if (!request.complete && hasBody(request)) await setImmediate();
      if (error instanceof RequestAbortedError) {
        response.destroy();
      } else if (error instanceof HttpError) {
        this.#refuse(request, response, error);
      } else if (error instanceof RefusedError || error instanceof BlockedError) {
        this.#refuse(request, response, refusal(error));
      } else {
        const defect = randomBytes(6).toString('hex');
        // An authority may have a password in it.
        const path = withoutAuthority(target).slice(0, 200);
        this.#observe({ type: 'request_failed', defect, method, path, error: error as Error });
        this.#refuse(request, response, httpErrors.defect(defect));
      }
    }
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: HttpError): void {
    if (response.headersSent) {
      response.destroy();
      return;
    }
    if (request.complete || !hasBody(request)) {
      replyError(response, error, this.#handlers.errorReply(request, error));
      return;
    }
    // A body that nobody will read would be taken for the next request, so this is the connection's last answer. Node
    // closes the connection with the end of that, and a client that still sends would be reset before it has read it:
    // so the rest is dropped for a while, and the answer ended after that.
    replyErrorUnended(response, error, this.#handlers.errorReply(request, error));
    const end = (): void => {
      clearTimeout(timer);
      response.end();
    };
    const timer = setTimeout(end, lingerMs);
    request.once('close', end);
    request.resume();
  }
}

/** @throws HttpError for what Node leaves to us to refuse (RFC 9110, sections 7.2, 7.4 and 10.1.1) */
function checkHead({ headers, httpVersion }: IncomingMessage, hostNames: HostNames): void {
  if (headers.host !== undefined && !hostNames.allows(headers.host)) {
    throw httpErrors.misdirected(headers.host.slice(0, 100));
  }
  if (httpVersion !== '1.1') return;
  if (headers.host === undefined) throw httpErrors.noHost();
  if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue') {
    throw httpErrors.expectationFailed(headers.expect.slice(0, 50));
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function refuseConnection(error: NodeJS.ErrnoException, socket: Socket, headers: string): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const [status, phrase] = clientErrors[error.code ?? ''] ?? [400, 'Bad Request'];
  const reason = clientErrorReasons[status] ?? '';
  socket.end(
    `HTTP/1.1 ${status} ${phrase}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n${headers}` +
      `Content-Length: ${Buffer.byteLength(reason)}\r\n\r\n${reason}`,
  );
}
