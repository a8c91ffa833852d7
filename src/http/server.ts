import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import { type AddressInfo, isIPv6, type Socket } from 'node:net';
import { setImmediate as afterThisTurn } from 'node:timers';
import { setImmediate } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { Counts } from '../counts.ts';
import type { Observe } from '../events.ts';
import { RefusalError, RequestAbortedError } from '../refusal-error.ts';
import { defaultPerUserMax, mayTake, type SharedLimit } from '../share.ts';
import { type Answer, addressOf, answerClass, originOf, requestIdOf, type StatusCounts, turnOf } from './answer.ts';
import { userOf } from './auth.ts';
import type { Certificate } from './certificate.ts';
import type { Cors } from './cors.ts';
import type { HostNames } from './host-names.ts';
import { HttpError, httpErrors, refusal } from './http-error.ts';
import { requestClass } from './incoming-request.ts';
import { type Reply, replyError, replyErrorUnended } from './reply.ts';
import { type Match, type Route, withoutAuthority } from './router.ts';

/** The route of a request, or why there is none. */
export type Found =
  | { readonly type: 'found'; readonly route: Route; readonly params: readonly string[]; readonly search: string }
  | Exclude<Match<Route>, { readonly type: 'found' }>;

/** What the server serves. */
export interface Site {
  match(method: string, target: string, headers: IncomingHttpHeaders): Found;
  /** How a refusal is written for the client of the request; null: as plain text. */
  refusalOf(request: IncomingMessage, error: HttpError): Reply | null;
}

/** TLS, and checks of the Host and Origin headers. */
export interface HttpSecurity {
  /** For HTTPS; null: plain HTTP. */
  readonly certificate: Certificate | null;
  /** The names by which clients may address the server. */
  readonly hostNames: HostNames;
  /** Which pages of other origins may read the answers; null: none. */
  readonly cors: Cors | null;
}

export type ServerOptions = Config['http'] &
  Pick<Config['listening'], 'httpHandlerHost' | 'httpHandlerPort'> &
  HttpSecurity;

/** Characters of a path, and of a reason, in the log. */
const loggedPathMax = 200;
const loggedReasonMax = 500;

/** How long the rest of a refused body is read and dropped, so that the client can read the refusal. */
const lingerMs = 2_000;
const timeoutCheckMs = 1_000;
/** A DNS name has at most 253 characters; percent codes and the port take more. */
const hostLengthMax = 1_024;

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
/** About the memory of a request without a body that waits for its turn, beside the text of its head. */
const pipelinedRequestBytes = 8 * 1024;
const connectionsFull = 'there are as many HTTP connections as there may be (--http_connections_max, ulimit -n)';
const noTunnel = 'this server is not a proxy: it does not support CONNECT';

/** A listener is quiet when it has taken no connection for so many turns of the event loop; it is waited for no longer than this. */
const quietTurns = 2;
const quietTurnsMax = 100;

/**
 * The HTTP side: takes requests, finds their route, has them handled, and turns what is thrown into an answer. States:
 * listening; draining, when each answer is the last of its connection; closing, when no more connections are taken.
 */
export class HttpServer {
  readonly #server: Server | TlsServer;
  readonly #site: Site;
  readonly #options: ServerOptions;
  readonly #observe: Observe;
  /** As they were accepted: with HTTPS, below what is encrypted. */
  readonly #sockets = new Set<Socket>();
  readonly #unanswered = new Map<Socket, Set<ServerResponse>>();
  /** Connections that a refusal closes: no request behind it is handled (RFC 9112, section 9.6). */
  readonly #refused = new WeakSet<Socket>();
  readonly #counts: StatusCounts = new Map();
  #accepted = 0;
  readonly #pipelinedShare: SharedLimit;
  #pipelinedBytes = 0;
  /** The same by the addresses of the clients: their users are not known before their turn. */
  readonly #pipelinedByAddress = new Counts();
  /** The Host that was checked last and is allowed: nearly all requests have the same. */
  #allowedHost: string | null = null;
  #isDraining = false;
  #onEmpty: (() => void) | null = null;

  constructor(options: ServerOptions, site: Site, observe: Observe) {
    this.#options = options;
    const { pipelinedBytesMax } = options;
    this.#pipelinedShare = { max: pipelinedBytesMax, perUserMax: defaultPerUserMax(pipelinedBytesMax) };
    this.#site = site;
    this.#observe = observe;
    const serverOptions = {
      IncomingMessage: requestClass,
      ServerResponse: answerClass,
      maxHeaderSize: options.headerBytesMax,
      requestTimeout: options.requestTimeoutMs,
      headersTimeout: options.requestTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
      keepAliveTimeout: options.httpIdleMs,
      noDelay: true,
      // Node's own answer to a request without one lacks what each of ours has.
      requireHostHeader: false,
    };
    const take = (request: IncomingMessage, response: ServerResponse): void => {
      const answer = response as Answer;
      answer.requestId = requestIdOf(request);
      answer.counts = this.#counts;
      if (this.#admit(request, response)) void this.#serve(request, response);
    };
    const { certificate } = options;
    this.#server =
      certificate === null
        ? createServer(serverOptions, take)
        : createTlsServer({ ...serverOptions, ...certificate, handshakeTimeout: options.requestTimeoutMs }, take);
    this.#server.on('connection', (socket: Socket) => this.#count(socket));
    this.#server.on(certificate === null ? 'connection' : 'secureConnection', (socket: Socket) => this.#accept(socket));
    this.#server.on('checkExpectation', take);
    // Node closes the connection in silence if nobody listens for CONNECT.
    this.#server.on('connect', (_request, socket: Socket) => this.#refuseTunnel(socket));
    this.#server.maxConnections = options.httpConnectionsMax;
    this.#server.on('drop', () => observe({ type: 'http_connection_refused', reason: connectionsFull }));
    this.#server.setTimeout(options.httpIdleMs);
    this.#server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
      // It has its answer, and is about to be closed.
      if (this.#refused.has(socket)) return;
      if (error.code === requestTimeout && this.#isAnswered(socket)) return;
      // Before the end of the TLS handshake, the client could not read an answer.
      if (!this.#unanswered.has(socket) || error.code === 'ECONNRESET') {
        socket.destroy();
        return;
      }
      const [status, phrase] = clientErrors[error.code ?? ''] ?? [400, 'Bad Request'];
      // A client that goes away in the midst of its request has not been refused.
      const isCut = error.code === 'HPE_INVALID_EOF_STATE';
      this.#refuseSocket(socket, status, phrase, clientErrorReasons[status] ?? '', isCut);
    });
  }

  /** @returns the address as a URL, with the port that was really taken */
  async listen(): Promise<string> {
    const { httpHandlerHost: host, httpHandlerPort: port } = this.#options;
    this.#server.listen(port, host);
    try {
      await once(this.#server, 'listening');
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      throw new Error(`${message}${adviceOn(code, port)}`, { cause: error });
    }
    // Later errors are about one connection, such as one that exceeds the process's descriptors.
    this.#server.on('error', (error) => this.#observe({ type: 'accept_failed', error }));
    const scheme = this.#options.certificate === null ? 'http' : 'https';
    return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${this.#address.port}`;
  }

  /** The responses so far, by their status. */
  get responses(): ReadonlyMap<number, number> {
    return this.#counts;
  }

  /** HTTP connections that are open. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Whether only this machine can reach it. */
  get isLoopback(): boolean {
    return /^(?:::ffff:)?127\.|^::1$/.test(this.#address.address);
  }

  /** Uses another certificate for new connections; open ones keep theirs. */
  renew(certificate: Certificate): void {
    (this.#server as TlsServer).setSecureContext(certificate);
  }

  /** From now on each answer says that it is its connection's last, so that clients go elsewhere. */
  drain(): void {
    this.#isDraining = true;
    for (const unanswered of this.#unanswered.values()) {
      const last = lastOf(unanswered);
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

  /** Stops accepting connections, lets received requests be answered for a while, and closes the remaining connections. */
  async close(answerMs: number): Promise<void> {
    this.drain();
    await this.#quiet();
    // Node closes with the listener those connections that wait for their next request.
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const timer = setTimeout(() => {
      this.#server.closeAllConnections();
      // Connections before the end of their TLS handshake are unknown to the HTTP server.
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

  /**
   * Counts the requests of a connection that are not yet answered; one too many costs it the connection.
   * @returns whether it is to be served now; if not, it is refused, or served in its turn
   */
  #admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    if (this.#refused.has(socket)) return false;
    const unanswered = this.#unanswered.get(socket);
    if (unanswered === undefined || unanswered.size >= this.#options.pipelinedRequestsMax) {
      socket.destroy();
      return false;
    }
    const before = lastOf(unanswered);
    if (before !== null && !this.#countPipelined(request, response)) {
      socket.destroy();
      return false;
    }
    if (willSwitch(request)) response.shouldKeepAlive = false;
    if (this.#isDraining) {
      // The one before it was to be the last, and would take this one with it.
      for (const earlier of unanswered) earlier.shouldKeepAlive = true;
      response.shouldKeepAlive = false;
    }
    unanswered.add(response);
    response.once('close', () => unanswered.delete(response));
    if (before === null) return true;
    if (hasBody(request)) {
      // A body is read as it comes, and counted. What it asks for is done in its turn.
      (response as Answer).turn = new Promise((resolve) => before.once('close', () => resolve()));
      return true;
    }
    // Other requests have nothing to do before their turn, and hold no answers till then.
    before.once('close', () => {
      // Node gives the connection to the next response unless the one before was the last.
      if (response.socket !== null && !this.#refused.has(socket)) void this.#serve(request, response);
    });
    return false;
  }

  /** Counts a request that is sent before the one in front of it is answered. @returns whether there is memory for it */
  #countPipelined({ rawHeaders, url = '', socket }: IncomingMessage, response: ServerResponse): boolean {
    let bytes = pipelinedRequestBytes + url.length;
    for (const text of rawHeaders) bytes += text.length;
    const address = addressOf(socket);
    const held = this.#pipelinedByAddress.of(address);
    if (!mayTake(this.#pipelinedShare, held, bytes, this.#pipelinedShare.max - this.#pipelinedBytes)) return false;
    this.#addPipelined(address, bytes);
    response.once('close', () => this.#addPipelined(address, -bytes));
    return true;
  }

  #addPipelined(address: string, bytes: number): void {
    this.#pipelinedBytes += bytes;
    this.#pipelinedByAddress.add(address, bytes);
  }

  /** Answers CONNECT, behind the answers to the requests before it. Node has left the socket to this function. */
  #refuseTunnel(socket: Socket): void {
    socket.on('error', () => socket.destroy());
    // Bytes that nobody reads would reset the connection before the client has read the answer.
    socket.resume();
    const answer = (): void => {
      // An answer before this one was the connection's last.
      if (!socket.writable) return;
      this.#refuseSocket(socket, 501, 'Not Implemented', noTunnel);
      const timer = setTimeout(() => socket.destroy(), lingerMs);
      socket.once('close', () => clearTimeout(timer));
    };
    const unanswered = this.#unanswered.get(socket) ?? [];
    const last = lastOf(unanswered);
    if (last === null) answer();
    else last.once('close', answer);
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
    const isSentAhead = (response as Answer).turn !== null;
    cors?.mark(request, response);
    try {
      this.#checkHead(request);
      const found = this.#site.match(method, target, request.headers);
      switch (found.type) {
        case 'found': {
          const { route, params, search } = found;
          // Bodies of other routes are short, or not read at all.
          if (isSentAhead && route.receivesAhead !== true) await turnOf(response);
          return await route.handle({ request, response, params, search });
        }
        case 'malformed':
          throw httpErrors.badRequest(found.reason);
        case 'not found':
          throw httpErrors.notFound('there is nothing at this path');
        case 'method not allowed':
          if (cors?.preflight(request, response, found.allow)) return;
          throw httpErrors.methodNotAllowed(method, found.allow);
      }
    } catch (caught) {
      let error: unknown = caught;
      // A refusal may be the connection's last answer, and those in front of it are to be sent before.
      if (isSentAhead) {
        await turnOf(response).catch((ended: unknown) => {
          error = ended;
        });
      }
      // In the midst of the chunk that the request came in, Node cannot tell yet whether it is whole.
      if (!request.complete && hasBody(request)) await setImmediate();
      if (error instanceof RequestAbortedError) {
        response.destroy();
      } else if (error instanceof HttpError) {
        this.#refuse(request, response, error);
      } else if (error instanceof RefusalError) {
        this.#refuse(request, response, refusal(error));
      } else {
        const defect = randomBytes(6).toString('hex');
        this.#observe({
          type: 'request_failed',
          defect,
          method,
          path: loggedPath(target),
          ...originOf(request, response),
          error: error as Error,
        });
        this.#refuse(request, response, httpErrors.defect(defect));
      }
    }
  }

  /** @throws HttpError for what Node leaves to us to refuse (RFC 9110, sections 7.4 and 10.1.1; RFC 9112, section 3.2) */
  #checkHead({ headers, rawHeaders, httpVersion }: IncomingMessage): void {
    const { host, expect } = headers;
    if (host !== undefined) {
      // Node keeps the first of several.
      if (countHosts(rawHeaders) > 1) throw httpErrors.badHost('the request has more than one Host header');
      if (host !== this.#allowedHost) this.#checkHost(host);
    }
    if (httpVersion !== '1.1') return;
    if (host === undefined) throw httpErrors.badHost('the request has no Host header');
    if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
      throw httpErrors.expectationFailed(expect.slice(0, 50));
    }
  }

  #checkHost(host: string): void {
    if (!isHost(host)) throw httpErrors.badHost('the Host header is not a host name or address with an optional port');
    if (!this.#options.hostNames.allows(host)) throw httpErrors.misdirected(host.slice(0, 100));
    this.#allowedHost = host;
  }

  /** A defect has a line of its own. */
  #observeRefusal(request: IncomingMessage, response: ServerResponse, { status, message }: HttpError): void {
    if (status === 500) return;
    this.#observe({
      type: 'request_refused',
      status,
      reason: loggedReason(status, message),
      method: request.method ?? '',
      path: loggedPath(request.url ?? ''),
      user: userOf(request.headers.authorization),
      ...originOf(request, response),
    });
  }

  /** Answers on a socket that no response stands for, and ends the connection. */
  #refuseSocket(socket: Socket, status: number, phrase: string, reason: string, isCut = false): void {
    const client = addressOf(socket);
    if (!endWith(socket, status, phrase, reason, this.#options.cors?.unaskedHeaders ?? '')) return;
    this.#counts.set(status, (this.#counts.get(status) ?? 0) + 1);
    if (!isCut) this.#observe({ type: 'request_refused', status, reason, client });
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: HttpError): void {
    if (response.headersSent) {
      response.destroy();
      return;
    }
    this.#observeRefusal(request, response, error);
    const isWhole = request.complete || !hasBody(request);
    if (!isWhole || error.headers['Connection'] === 'close') this.#refused.add(request.socket);
    if (isWhole) {
      replyError(response, error, this.#site.refusalOf(request, error));
      return;
    }
    // A body that nobody will read would be taken for the next request, so this is the connection's last answer. Node
    // closes the connection with the end of that, and a client that still sends would be reset before it has read it:
    // so the rest is dropped for a while, and the answer ended after that.
    replyErrorUnended(response, error, this.#site.refusalOf(request, error));
    const end = (): void => {
      clearTimeout(timer);
      response.end();
    };
    const timer = setTimeout(end, lingerMs);
    request.once('close', end);
    request.resume();
  }
}

function lastOf(responses: Iterable<ServerResponse>): ServerResponse | null {
  let last: ServerResponse | null = null;
  for (const response of responses) last = response;
  return last;
}

/** An authority and a query string may have a secret in them. */
function loggedPath(target: string): string {
  return withoutAuthority(target).split('?', 1)[0]?.slice(0, loggedPathMax) ?? '';
}

const notJson = 'the body is not JSON';

/** JSON.parse quotes the text around an error, and other reasons quote members of a body: either may be SQL. */
function loggedReason(status: number, reason: string): string {
  if (reason.startsWith(notJson)) return notJson;
  const shown = status === 400 ? reason.replace(/"(?:[^"\\]|\\.)*"/g, '"…"') : reason;
  return shown.slice(0, loggedReasonMax);
}

/** Advice on an address that the server cannot listen on. */
function adviceOn(code: string | undefined, port: number): string {
  switch (code) {
    case 'EADDRINUSE':
      return `; another program listens on port ${port}: choose another port by --http_handler_port`;
    case 'EACCES':
      return `; this user may not listen on port ${port}: choose another port by --http_handler_port`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return '; --http_handler_host must be an address or a name of this machine';
    default:
      return '';
  }
}

/** @param rawHeaders names and values in turn */
function countHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count++;
  }
  return count;
}

/** `uri-host [":" port]` (RFC 3986, section 3.2.2: an address in brackets, or a registered name, which may be empty). */
function isHost(value: string): boolean {
  if (value.length > hostLengthMax) return false;
  if (!value.startsWith('[')) return /^(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?::\d*)?$/.test(value);
  const end = value.indexOf(']');
  return isIPv6(value.slice(1, end)) && /^(?::\d*)?$/.test(value.slice(end + 1));
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/**
 * Whether the client waits for another protocol. What Node 20 reads behind such a request in the same chunk is lost, so the
 * answer is the connection's last. Clients that offer h2c repeat it with every request and stay with HTTP/1.1.
 */
function willSwitch({ headers: { upgrade } }: IncomingMessage): boolean {
  return upgrade !== undefined && upgrade.toLowerCase() !== 'h2c';
}

/** @returns whether the socket could still be written to; else it is destroyed */
function endWith(socket: Socket, status: number, phrase: string, reason: string, headers: string): boolean {
  if (!socket.writable) {
    socket.destroy();
    return false;
  }
  socket.end(
    `HTTP/1.1 ${status} ${phrase}\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n${headers}` +
      `Content-Length: ${Buffer.byteLength(reason) + 1}\r\n\r\n${reason}\n`,
  );
  return true;
}
