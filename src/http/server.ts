import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import type { Observe } from '../events.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
import { type Answer, type AnsweringServer, answerClass, requestIdOf, type StatusCounts, turnOf } from './answer.ts';
import type { Certificate } from './certificate.ts';
import { HttpConnections } from './connections.ts';
import type { Cors } from './cors.ts';
import type { HostNames } from './host-names.ts';
import { httpErrors } from './http-error.ts';
import { requestClass } from './incoming-request.ts';
import { type ListenOptions, listen } from './listen.ts';
import { PipelinedMemory } from './pipelined-memory.ts';
import { RawRefusals } from './raw-refusals.ts';
import { Refusals } from './refusals.ts';
import { HeadCheck, hasBody, willSwitch } from './request-head.ts';
import type { Site } from './site.ts';

/** TLS, and checks of the Host and Origin headers. */
export interface HttpSecurity {
  /** For HTTPS; null: plain HTTP. */
  readonly certificate: Certificate | null;
  /** The names by which clients may address the server. */
  readonly hostNames: HostNames;
  /** The origins whose pages may read the answers; null: none. */
  readonly cors: Cors | null;
}

export type ServerOptions = Config['http'] & ListenOptions & HttpSecurity;

const timeoutCheckMs = 1_000;
const connectionsFull = 'there are as many HTTP connections as there may be (--http_connections_max, ulimit -n)';
const replaced = `${connectionsFull}: an idle one was closed for a new one`;

/** A listener is quiet when it has accepted no connection for this many turns of the event loop. */
const quietTurns = 2;
/** The turns after which a listener that is not quiet is closed nevertheless. */
const quietTurnsMax = 100;

type Phase = 'created' | 'listening' | 'draining' | 'closing' | 'closed';

const transitions: Transitions<Phase> = {
  created: ['listening'],
  listening: ['draining'],
  draining: ['closing'],
  closing: ['closed'],
  closed: [],
};

/**
 * Takes requests, finds their routes, has them handled, and answers those that fail.
 *
 *     created ──▶ listening ──▶ draining ──▶ closing ──▶ closed
 *
 *     draining   each answer is the last of its connection, so that clients go to another server
 *     closing    no new connections; the requests that were received are answered
 */
export class HttpServer implements AnsweringServer {
  readonly responses: StatusCounts = new Map();
  #phase: Phase = 'created';
  readonly #server: Server | TlsServer;
  readonly #site: Site;
  readonly #options: ServerOptions;
  readonly #observe: Observe;
  readonly #connections: HttpConnections;
  readonly #pipelinedMemory: PipelinedMemory;
  readonly #headCheck: HeadCheck;
  readonly #refusals: Refusals;

  constructor(options: ServerOptions, site: Site, observe: Observe) {
    const { certificate, cors } = options;
    this.#options = options;
    this.#site = site;
    this.#observe = observe;
    this.#connections = new HttpConnections(options.httpConnectionsMax);
    this.#pipelinedMemory = new PipelinedMemory(options.pipelinedBytesMax);
    this.#headCheck = new HeadCheck(options.hostNames);
    this.#refusals = new Refusals(site, observe);
    const rawHeaders = cors?.unaskedHeaders ?? '';
    const rawRefusals = new RawRefusals(this.#connections, this.#refusals, this.responses, observe, rawHeaders);
    const serverOptions = {
      IncomingMessage: requestClass,
      ServerResponse: answerClass,
      maxHeaderSize: options.headerBytesMax,
      requestTimeout: options.requestTimeoutMs,
      headersTimeout: options.requestTimeoutMs,
      connectionsCheckingInterval: timeoutCheckMs,
      keepAliveTimeout: options.httpIdleMs,
      noDelay: true,
      // Node's own answer to a request without Host lacks the headers that all our answers have.
      requireHostHeader: false,
    };
    const take = (request: IncomingMessage, response: ServerResponse): void => {
      const answer = response as Answer;
      answer.requestId = requestIdOf(request);
      answer.server = this;
      if (this.#admit(request, answer)) void this.#serve(request, answer);
    };
    this.#server =
      certificate === null
        ? createServer(serverOptions, take)
        : createTlsServer({ ...serverOptions, ...certificate, handshakeTimeout: options.requestTimeoutMs }, take);
    this.#server.setTimeout(options.httpIdleMs);
    this.#server.on('connection', (socket: Socket) => this.#accept(socket));
    const opened = certificate === null ? 'connection' : 'secureConnection';
    this.#server.on(opened, (socket: Socket) => this.#connections.open(socket));
    this.#server.on('checkExpectation', take);
    // Without a listener, Node closes the connection of a CONNECT without an answer.
    this.#server.on('connect', (_request, socket: Socket) => rawRefusals.refuseTunnel(socket));
    this.#server.on('clientError', (error, socket: Socket) => rawRefusals.refuseMalformed(error, socket));
  }

  /** @returns the address as a URL, with the actual port */
  async listen(): Promise<string> {
    const { httpHandlerHost: host } = this.#options;
    await listen(this.#server, this.#options);
    this.#enter('listening');
    // Later errors are about one connection, such as one for which the process has no file descriptor.
    this.#server.on('error', (error) => this.#observe({ type: 'accept_failed', error }));
    const scheme = this.#options.certificate === null ? 'http' : 'https';
    return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${this.#address.port}`;
  }

  /** HTTP connections that are open. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Whether only this machine can reach it. */
  get isLoopback(): boolean {
    return /^(?:::ffff:)?127\.|^::1$/.test(this.#address.address);
  }

  /** Uses another certificate for new connections; open ones keep theirs. */
  renew(certificate: Certificate): void {
    (this.#server as TlsServer).setSecureContext(certificate);
  }

  /** Makes each answer the last of its connection. */
  drain(): void {
    if (this.#phase !== 'listening') return;
    this.#enter('draining');
    this.#connections.endAfterAnswers();
  }

  /** Resolves when no connection is open, or when the time has passed. */
  empty(timeoutMs: number): Promise<void> {
    return this.#connections.empty(timeoutMs);
  }

  /**
   * Stops accepting connections, and closes those that are still open after a while. A second call can only make it sooner.
   * @param answerMs how long received requests may take to be answered
   */
  async close(answerMs: number): Promise<void> {
    this.drain();
    await this.#quiet();
    if (this.#phase === 'draining') this.#enter('closing');
    // Together with the listener, Node closes the connections that have no request.
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const timer = setTimeout(() => {
      this.#server.closeAllConnections();
      // Node's HTTP server does not know the connections whose TLS handshake is not finished.
      this.#connections.destroy();
    }, answerMs);
    await closed;
    clearTimeout(timer);
    if (this.#phase === 'closing') this.#enter('closed');
  }

  #enter(phase: Phase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }

  /** For `Answer`. */
  get idleMs(): number {
    return this.#options.httpIdleMs;
  }

  get #address(): AddressInfo {
    return this.#server.address() as AddressInfo;
  }

  /**
   * Waits for the connections that the system has accepted and this process has not: the system resets them when the listener is
   * closed. None is left once the event loop has polled the listener and found no other.
   */
  async #quiet(): Promise<void> {
    let quiet = 0;
    for (let turn = 0; quiet < quietTurns && turn < quietTurnsMax; turn++) {
      const before = this.#connections.accepted;
      await setImmediate();
      quiet = this.#connections.accepted === before ? quiet + 1 : 0;
    }
  }

  #accept(socket: Socket): void {
    const accepted = this.#connections.add(socket);
    if (accepted === 'refused') this.#observe({ type: 'http_connection_refused', reason: connectionsFull });
    if (accepted === 'replaced another') this.#observe({ type: 'http_connection_replaced', reason: replaced });
  }

  /**
   * Counts the unanswered requests of a connection, and closes the connection if there are too many.
   * @returns whether to serve the request now; if not, it is refused, or served in its turn
   */
  #admit(request: IncomingMessage, response: Answer): boolean {
    const { socket } = request;
    if (this.#refusals.isClosing(socket)) return false;
    const unanswered = this.#connections.unansweredOf(socket);
    if (unanswered === undefined || unanswered.length >= this.#options.pipelinedRequestsMax) {
      socket.destroy();
      return false;
    }
    const before = unanswered.at(-1);
    if (before !== undefined && !this.#pipelinedMemory.reserve(request, response)) {
      socket.destroy();
      return false;
    }
    if (willSwitch(request)) response.shouldKeepAlive = false;
    if (this.#phase !== 'listening') {
      // The response before this one was to be the last, and would close the connection before this one is sent.
      for (const earlier of unanswered) earlier.shouldKeepAlive = true;
      response.shouldKeepAlive = false;
    }
    this.#connections.begin(socket, response);
    if (before === undefined) return true;
    if (hasBody(request)) {
      // Its body is received now and counted as the memory of requests. The statement in it is run in its turn.
      response.turn = new Promise((resolve) => before.once('close', () => resolve()));
      return true;
    }
    // Other requests have nothing to do before their turn, and hold no answers until then.
    before.once('close', () => {
      // Node assigns the socket to the next response unless the one before was the last of the connection.
      if (response.socket !== null && !this.#refusals.isClosing(socket)) void this.#serve(request, response);
    });
    return false;
  }

  async #serve(request: IncomingMessage, response: Answer): Promise<void> {
    const method = request.method ?? '';
    const target = request.url ?? '';
    const { cors } = this.#options;
    const isSentAhead = response.turn !== null;
    cors?.mark(request, response);
    try {
      this.#headCheck.check(request);
      const found = this.#site.match(method, target, request.headers);
      switch (found.type) {
        case 'found': {
          const { route, params, search } = found;
          // The bodies of other routes are short, or not read at all.
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
    } catch (error) {
      await this.#refuse(request, response, error);
    }
  }

  /** For `Answer`. */
  fail(response: Answer, error: unknown): void {
    void this.#refuse(response.req, response, error);
  }

  async #refuse(request: IncomingMessage, response: Answer, caught: unknown): Promise<void> {
    let error = caught;
    // The refusal may be the last answer of the connection, so the answers before it are sent first.
    if (response.turn !== null) {
      await turnOf(response).catch((ended: unknown) => {
        error = ended;
      });
    }
    // While Node parses the chunk that the request came in, it does not know yet whether the request is complete.
    if (!request.complete && hasBody(request)) await setImmediate();
    this.#refusals.refuse(request, response, error);
  }
}
