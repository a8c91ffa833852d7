import type { Socket } from 'node:net';
import { setImmediate as afterThisTurn } from 'node:timers';
import type { Answer } from './answer.ts';
import { type ClientConnection, IdleConnections } from './idle-connections.ts';
import { hasBody } from './request-head.ts';

/** A connection that HTTP is read from. */
interface OpenConnection {
  readonly client: ClientConnection | undefined;
  /** The responses that are not sent to their end, in the order of the requests. */
  unanswered: readonly Answer[];
  isClosed: boolean;
}

const none: readonly Answer[] = [];

/**
 * The HTTP connections of a server, and the unanswered requests of each: those whose response has not been sent to its end. There
 * may be tens of thousands, so what follows a socket or a response is one listener for all of them, and no closure for each.
 *
 * While a client waits for the answer to its first unanswered request, the connection's timeout does not run.
 */
export class HttpConnections {
  /** The sockets that were accepted. With HTTPS, each has a TLS socket above it. */
  readonly #sockets = new Map<Socket, ClientConnection>();
  /** By the socket that HTTP is read from: with HTTPS, the TLS socket. */
  readonly #open = new Map<Socket, OpenConnection>();
  readonly #idle = new IdleConnections();
  /** Connections that HTTP is not read from yet, by the client's address and port, which the TLS socket has, too. */
  readonly #opening = new Map<string, ClientConnection>();
  readonly #max: number;
  readonly #onSocketClose: (this: Socket) => void;
  readonly #onOpenClose: (this: Socket) => void;
  readonly #onResponseClose: (this: Answer) => void;
  #accepted = 0;
  /** Resolves the promise of `empty`. */
  #resolveEmpty: (() => void) | null = null;

  /** @param max the most connections at once */
  constructor(max: number) {
    this.#max = max;
    const connections = this;
    this.#onSocketClose = function () {
      connections.#removeSocket(this);
    };
    this.#onOpenClose = function () {
      connections.#close(this);
    };
    this.#onResponseClose = function () {
      connections.#end(this);
    };
  }

  /** The connections that are open. */
  get size(): number {
    return this.#sockets.size;
  }

  /** The connections that were accepted so far. */
  get accepted(): number {
    return this.#accepted;
  }

  /**
   * Adds a socket that was accepted. If there are too many, the connection is closed that can best be spared (see `IdleConnections`).
   * @returns 'refused': none of the others could be spared
   */
  add(socket: Socket): 'added' | 'replaced another' | 'refused' {
    this.#accepted++;
    const client = this.#idle.add(socket);
    this.#sockets.set(socket, client);
    client.peer = peerOf(socket);
    this.#opening.set(client.peer, client);
    socket.on('close', this.#onSocketClose);
    const spared = this.#idle.size > this.#max ? this.#idle.longestIdle() : undefined;
    if (spared === undefined) return 'added';
    // Not counted from now on: the system closes the descriptor at once, and Node reports it later.
    this.#idle.remove(spared);
    spared.socket.destroy();
    return spared === client ? 'refused' : 'replaced another';
  }

  #removeSocket(socket: Socket): void {
    const client = this.#sockets.get(socket);
    if (client === undefined) return;
    this.#sockets.delete(socket);
    this.#idle.remove(client);
    if (this.#opening.get(client.peer) === client) this.#opening.delete(client.peer);
    if (this.#sockets.size === 0) this.#resolveEmpty?.();
  }

  /** Adds a socket that HTTP is read from. */
  open(socket: Socket): void {
    const peer = peerOf(socket);
    const client = this.#opening.get(peer);
    this.#opening.delete(peer);
    if (client !== undefined) {
      client.socket = socket;
      client.peer = '';
    }
    this.#open.set(socket, { client, unanswered: none, isClosed: false });
    socket.on('close', this.#onOpenClose);
  }

  #close(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    connection.isClosed = true;
    for (const response of connection.unanswered) if (response.socket === null) response.destroy();
    // Node 20 and 22 emit 'close' on the response that has the socket, and not on those queued behind it. Later lines emit it
    // on each destroyed response, in the next tick. A response is not among the unanswered any more after its 'close'.
    afterThisTurn(() => {
      this.#open.delete(socket);
      for (const response of connection.unanswered) response.emit('close');
    });
  }

  /** The responses of a connection that are not sent, in the order of their requests; undefined if it is not open. */
  unansweredOf(socket: Socket): readonly Answer[] | undefined {
    const connection = this.#open.get(socket);
    return connection?.isClosed === false ? connection.unanswered : undefined;
  }

  /** Adds the response to a request until it is sent. */
  begin(socket: Socket, response: Answer): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    const { client, unanswered } = connection;
    // Not by `push`, which makes room for 16 more.
    connection.unanswered = unanswered.length === 0 ? [response] : [...unanswered, response];
    if (client !== undefined) this.#idle.busy(client);
    if (unanswered.length === 0) pauseIdleTime(response);
    response.on('close', this.#onResponseClose);
  }

  #end(response: Answer): void {
    const connection = this.#open.get(response.req.socket);
    if (connection === undefined) return;
    const { client, unanswered } = connection;
    const isOnly = unanswered.length === 1 && unanswered[0] === response;
    connection.unanswered = isOnly ? none : unanswered.filter((other) => other !== response);
    const next = connection.unanswered[0];
    if (next === undefined) {
      if (client !== undefined) this.#idle.idle(client);
    } else if (!next.headersSent) pauseIdleTime(next);
  }

  /** Whether a response was begun before its request was complete. */
  isAnswered(socket: Socket): boolean {
    for (const response of this.unansweredOf(socket) ?? []) if (response.headersSent) return true;
    return false;
  }

  /** Makes the last response that each connection waits for the last one of the connection. */
  endAfterAnswers(): void {
    for (const { unanswered } of this.#open.values()) {
      const last = unanswered.at(-1);
      if (last !== undefined) last.shouldKeepAlive = false;
    }
  }

  /** Resolves when no connection is open, or when the time has passed. */
  async empty(timeoutMs: number): Promise<void> {
    if (this.#sockets.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#resolveEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#resolveEmpty = null;
  }

  destroy(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
  }
}

/** Unless it is the server that waits, for the rest of the request. */
function pauseIdleTime(response: Answer): void {
  if (response.req.complete || !hasBody(response.req)) response.pauseIdleTime();
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
