import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import type { Observe } from '../events.ts';
import { BlockedError } from '../session/accounts.ts';
import { RefusedError } from '../session/lease.ts';
import { RequestAbortedError } from './body.ts';
import type { Handlers } from './handlers.ts';
import { HttpError, httpErrors, refusal } from './http-error.ts';
import { replyError, replyErrorUnended } from './reply.ts';
import { match } from './router.ts';

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

/** The HTTP side: takes requests, finds their route, has them handled, and turns what is thrown into an answer. */
export class HttpServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #handlers: Handlers;
  readonly #options: ServerOptions;
  readonly #observe: Observe;
  readonly #unanswered = new WeakMap<Socket, Set<ServerResponse>>();

  constructor(options: ServerOptions, handlers: Handlers, observe: Observe) {
    this.#options = options;
    this.#handlers = handlers;
    this.#observe = observe;
    this.#server = createServer(
      {
        maxHeaderSize: options.headerBytesMax,
        requestTimeout: options.requestTimeoutMs,
        headersTimeout: options.requestTimeoutMs,
        connectionsCheckingInterval: timeoutCheckMs,
        keepAliveTimeout: options.idleTimeoutMs,
        noDelay: true,
      },
      (request, response) => {
        if (this.#admit(request.socket, response)) void this.#serve(request, response);
      },
    );
    this.#server.on('connection', (socket: Socket) => this.#accept(socket));
    this.#server.maxConnections = options.connectionsMax;
    this.#server.setTimeout(options.idleTimeoutMs);
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      // That of a refused request has its answer, and is about to be closed.
      if (error.code === requestTimeout && this.#isAnswered(socket)) return;
      refuseConnection(error, socket);
    });
  }

  /** @returns the address as a URL, with the port that was really taken */
  async listen(): Promise<string> {
    const { host, port } = this.#options;
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    // What goes wrong from now on concerns one connection, such as one too many for the process.
    this.#server.on('error', (error) => this.#observe({ type: 'accept_failed', error }));
    const taken = (this.#server.address() as AddressInfo).port;
    return `http://${host.includes(':') ? `[${host}]` : host}:${taken}`;
  }

  #accept(socket: Socket): void {
    const unanswered = new Set<ServerResponse>();
    this.#unanswered.set(socket, unanswered);
    socket.once('close', () => {
      for (const response of unanswered) {
        if (response.socket !== null) continue;
        // Node tells of its client's end only the response whose turn it is, not those that wait in line behind it.
        response.destroy();
        response.emit('close');
      }
    });
  }

  /** Counts the requests of a connection that are not yet answered; one too many costs it the connection. */
  #admit(socket: Socket, response: ServerResponse): boolean {
    const unanswered = this.#unanswered.get(socket);
    if (unanswered === undefined || unanswered.size >= this.#options.pipelinedMax) {
      socket.destroy();
      return false;
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
    try {
      const found = match(method, target);
      switch (found.type) {
        case 'route':
          return await this.#handlers.handle(found.route, request, response);
        case 'malformed':
          throw httpErrors.badRequest(found.reason);
        case 'not found':
          throw httpErrors.notFound('there is nothing at this path');
        case 'method not allowed':
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
        this.#observe({ type: 'request_failed', defect, method, path: target.slice(0, 200), error: error as Error });
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
      replyError(response, error);
      return;
    }
    // A body that nobody will read would be taken for the next request, so this is the connection's last answer. Node
    // closes the connection with the end of that, and a client that still sends would be reset before it has read it:
    // so the rest is dropped for a while, and the answer ended after that.
    replyErrorUnended(response, error);
    const end = (): void => {
      clearTimeout(timer);
      response.end();
    };
    const timer = setTimeout(end, lingerMs);
    request.once('close', end);
    request.resume();
  }

  /** Takes no more connections, and ends those that are open. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const [status, phrase] = clientErrors[error.code ?? ''] ?? [400, 'Bad Request'];
  const reason = clientErrorReasons[status] ?? '';
  socket.end(
    `HTTP/1.1 ${status} ${phrase}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(reason)}\r\n\r\n${reason}`,
  );
}
