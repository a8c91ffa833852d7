import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as afterThisTurn } from 'node:timers';

/** The HTTP connections of a server, and the unanswered requests of each: those whose response has not been sent to its end. */
export class HttpConnections {
  /** The sockets that were accepted. With HTTPS, each has a TLS socket above it. */
  readonly #sockets = new Set<Socket>();
  /** By the socket that HTTP is read from: with HTTPS, the TLS socket. In the order of the requests. */
  readonly #unanswered = new Map<Socket, Set<ServerResponse>>();
  #accepted = 0;
  /** Resolves the promise of `empty`. */
  #resolveEmpty: (() => void) | null = null;

  /** The connections that are open. */
  get size(): number {
    return this.#sockets.size;
  }

  /** The connections that were accepted so far. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Adds a socket that was accepted. */
  add(socket: Socket): void {
    this.#accepted++;
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      if (this.#sockets.size === 0) this.#resolveEmpty?.();
    });
  }

  /** Adds a socket that HTTP is read from. */
  open(socket: Socket): void {
    const unanswered = new Set<ServerResponse>();
    this.#unanswered.set(socket, unanswered);
    socket.once('close', () => {
      this.#unanswered.delete(socket);
      for (const response of unanswered) if (response.socket === null) response.destroy();
      // Node 20 and 22 emit 'close' on the response that has the socket, and not on those queued behind it. Later lines emit it
      // on each destroyed response, in the next tick. A response leaves the set with its 'close'.
      afterThisTurn(() => {
        for (const response of unanswered) response.emit('close');
      });
    });
  }

  /** The responses of a connection that are not sent, in the order of their requests; undefined if it is not open. */
  unansweredOf(socket: Socket): Set<ServerResponse> | undefined {
    return this.#unanswered.get(socket);
  }

  /** Whether a response was begun before its request was complete. */
  isAnswered(socket: Socket): boolean {
    for (const response of this.#unanswered.get(socket) ?? []) if (response.headersSent) return true;
    return false;
  }

  /** Makes the last response that each connection waits for the last one of the connection. */
  endAfterAnswers(): void {
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
      this.#resolveEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#resolveEmpty = null;
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

export function lastOf(responses: Iterable<ServerResponse>): ServerResponse | null {
  let last: ServerResponse | null = null;
  for (const response of responses) last = response;
  return last;
}
