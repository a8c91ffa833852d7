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

/** What others accept as an id, without anything that would have to be escaped in a log. */
const requestIdForm = /^[\w.:+/=@~-]{1,128}$/;

/** Ids of requests that bring none: unique among all processes as far as chance goes, and cheap. */
const processId = randomBytes(6).toString('hex');
let requestCount = 0;

/** A response that carries the id of its request, and counts itself by its status. */
export class Answer extends ServerResponse {
  requestId = '';
  counts: StatusCounts | null = null;
  /** Of a request that was sent before the one in front of it on its connection was answered: resolves when that one is answered. */
  turn: Promise<void> | null = null;

  override writeHead(
    status: number,
    second?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
    third?: OutgoingHttpHeaders | OutgoingHttpHeader[],
  ): this {
    this.counts?.set(status, (this.counts.get(status) ?? 0) + 1);
    if (typeof second === 'object' && !Array.isArray(second)) {
      // A header that was set before writeHead makes Node join the two lists, which costs more than all of this.
      if (this.requestId !== '') second['X-Request-Id'] = this.requestId;
      return super.writeHead(status, second);
    }
    if (this.requestId !== '') this.setHeader('X-Request-Id', this.requestId);
    return typeof second === 'string' ? super.writeHead(status, second, third) : super.writeHead(status, second);
  }
}

/**
 * Waits until the answers in front of it on its connection have left.
 * @throws RequestAbortedError if the connection has ended with one of them
 */
export async function turnOf(response: ServerResponse): Promise<void> {
  if (!(response instanceof Answer) || response.turn === null) return;
  await response.turn;
  // Node gives the connection to the next response unless the one before was the last.
  if (response.socket === null) throw new RequestAbortedError('its connection ended before its turn');
}

/** For `createServer`, which makes its responses of it. */
export const answerClass = Answer as unknown as NonNullable<ServerOptions['ServerResponse']>;

/** The X-Request-Id of the request, or a new id if it has none or a malformed one. */
export function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  if (typeof given === 'string' && requestIdForm.test(given)) return given;
  requestCount++;
  return `${processId}-${requestCount}`;
}

export function originOf({ socket }: IncomingMessage, response: ServerResponse): QueryOrigin {
  return { requestId: response instanceof Answer ? response.requestId : '', client: addressOf(socket) };
}

/** An IPv4 address is shown as such, on a listener for both families too. */
export function addressOf(socket: Socket): string {
  const address = socket.remoteAddress ?? '';
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}
