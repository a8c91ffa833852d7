import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Observe } from '../events.ts';
import { RefusalError, RequestAbortedError } from '../refusal-error.ts';
import { originOf } from './answer.ts';
import { userOf } from './auth.ts';
import { HttpError, httpErrors, refusal } from './http-error.ts';
import { replyError, replyErrorUnended } from './reply.ts';
import { hasBody } from './request-head.ts';
import { withoutAuthority } from './router.ts';
import type { Site } from './site.ts';

/** How long the rest of a refused body is read and dropped, so that the client can read the refusal. */
export const lingerMs = 2_000;

/** Characters of a path, and of a reason, in the log. */
const loggedPathMax = 200;
const loggedReasonMax = 500;

/** Answers requests that fail, and logs why. */
export class Refusals {
  readonly #site: Site;
  readonly #observe: Observe;
  /** Connections that a refusal closes: no later request of theirs is handled (RFC 9112, section 9.6). */
  readonly #closing = new WeakSet<Socket>();

  constructor(site: Site, observe: Observe) {
    this.#site = site;
    this.#observe = observe;
  }

  /** Whether the connection has its last answer and is about to be closed. */
  isClosing(socket: Socket): boolean {
    return this.#closing.has(socket);
  }

  /** @param error an HttpError, RefusalError or RequestAbortedError; anything else is a defect of the server */
  refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (error instanceof RequestAbortedError) response.destroy();
    else if (error instanceof HttpError) this.#reply(request, response, error);
    else if (error instanceof RefusalError) this.#reply(request, response, refusal(error));
    else this.#reply(request, response, this.#logDefect(request, response, error as Error));
  }

  /** The client gets an id, by which the operator finds the error in the log. */
  #logDefect(request: IncomingMessage, response: ServerResponse, error: Error): HttpError {
    const defect = randomBytes(6).toString('hex');
    this.#observe({
      type: 'request_failed',
      defect,
      method: request.method ?? '',
      path: loggedPath(request.url ?? ''),
      ...originOf(request, response),
      error,
    });
    return httpErrors.defect(defect);
  }

  #reply(request: IncomingMessage, response: ServerResponse, error: HttpError): void {
    if (response.headersSent) {
      response.destroy();
      return;
    }
    this.#log(request, response, error);
    const isComplete = request.complete || !hasBody(request);
    if (!isComplete || error.headers['Connection'] === 'close') this.#closing.add(request.socket);
    if (isComplete) {
      replyError(response, error, this.#site.refusalOf(request, error));
      return;
    }
    // An unread body would be parsed as the next request, so this is the last answer of the connection. Node closes the
    // connection with the end of that answer, and the system resets a connection that is closed with unread bytes: a client
    // that still sends would never read the refusal. So the rest of the body is dropped for a while before the answer is ended.
    replyErrorUnended(response, error, this.#site.refusalOf(request, error));
    const end = (): void => {
      clearTimeout(timer);
      response.end();
    };
    const timer = setTimeout(end, lingerMs);
    request.once('close', end);
    request.resume();
  }

  /** A defect has been logged with its error. */
  #log(request: IncomingMessage, response: ServerResponse, { status, message }: HttpError): void {
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
}

/** An authority and a query string can contain a secret. */
function loggedPath(target: string): string {
  return withoutAuthority(target).split('?', 1)[0]?.slice(0, loggedPathMax) ?? '';
}

const notJson = 'the body is not JSON';

/** JSON.parse quotes the text around an error, and other reasons quote members of a body: either can be SQL. */
function loggedReason(status: number, reason: string): string {
  if (reason.startsWith(notJson)) return notJson;
  const shown = status === 400 ? reason.replace(/"(?:[^"\\]|\\.)*"/g, '"…"') : reason;
  return shown.slice(0, loggedReasonMax);
}
