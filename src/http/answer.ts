import { randomBytes } from 'node:crypto';
import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  type ServerOptions,
  ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import type { QueryOrigin } from '../query/identity.ts';
import { RequestAbortedError } from '../refusal-error.ts';

/** Responses by their HTTP status. */
export type StatusCounts = Map<number, number>;

/** Characters that need no escaping in a log, and a length that proxies accept too. */
const requestIdForm = /^[\w.:+/=@~-]{1,128}$/;

/** The prefix of the ids that this process gives to requests without one: random, so that they differ between processes. */
const idPrefix = `${randomBytes(6).toString('hex')}-`;
let requestCount = 0;

/** The server that an answer is of. */
export interface AnsweringServer {
  /** The responses so far, by their status. */
  readonly responses: StatusCounts;
  /** How long nothing may happen on a connection. */
  readonly idleMs: number;
  /** For `Answer.fail`. */
  fail(response: Answer, error: unknown): void;
}

/** A response with the id of its request. It is counted by its status. */
export class Answer extends ServerResponse {
  requestId = '';
  server: AnsweringServer | null = null;
  /** Resolves when the request in front of it on the connection is answered; null: it was answered before this one came. */
  turn: Promise<void> | null = null;

  /** The client is not idle while it waits for the server. */
  pauseIdleTime(): void {
    this.req.socket.setTimeout(0);
  }

  /** From now on, the client must read. */
  resumeIdleTime(): void {
    this.req.socket.setTimeout(this.server?.idleMs ?? 0);
  }

  /** Answers a request that fails after its route has handled it. */
  fail(error: unknown): void {
    this.server?.fail(this, error);
  }

  override writeHead(
    status: number,
    second?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
    third?: OutgoingHttpHeaders | OutgoingHttpHeader[],
  ): this {
    if (this.socket !== null) this.resumeIdleTime();
    const counts = this.server?.responses;
    counts?.set(status, (counts.get(status) ?? 0) + 1);
    if (typeof second === 'object' && !Array.isArray(second)) {
      // A header set by setHeader makes Node merge the two lists, which costs more than the rest of this method.
      if (this.requestId !== '') second['X-Request-Id'] = this.requestId;
      return super.writeHead(status, second);
    }
    if (this.requestId !== '') this.setHeader('X-Request-Id', this.requestId);
    return typeof second === 'string' ? super.writeHead(status, second, third) : super.writeHead(status, second);
  }
}

/**
 * Waits until the responses in front of it on its connection are sent.
 * @throws RequestAbortedError if one of them was the last of the connection
 */
export async function turnOf(response: ServerResponse): Promise<void> {
  if (!(response instanceof Answer) || response.turn === null) return;
  await response.turn;
  // Node assigns the socket to the next response unless the one before was the last of the connection.
  if (response.socket === null) throw new RequestAbortedError('its connection ended before its turn');
}

/** `Answer`, in the type that `createServer` expects. */
export const answerClass = Answer as unknown as NonNullable<ServerOptions['ServerResponse']>;

/** The X-Request-Id of the request, or a new id if it has none or a malformed one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  if (typeof given === 'string' && requestIdForm.test(given)) return given;
  requestCount++;
  return idPrefix + requestCount;
}

export function originOf({ socket }: IncomingMessage, response: ServerResponse): QueryOrigin {
  return { requestId: response instanceof Answer ? response.requestId : '', client: addressOf(socket) };
}

/** The client's address. On a listener for both families, IPv4 addresses come mapped to IPv6, and are unmapped here. */
export function addressOf(socket: Socket): string {
  const address = socket.remoteAddress ?? '';
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}
