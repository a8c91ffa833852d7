import type { IncomingMessage, ServerResponse } from 'node:http';
import { everyAnswer } from './reply.ts';

/** What a page may send beside what every page may (Fetch standard, "CORS-safelisted request-header"). */
const requestHeaders = 'Authorization, Content-Type, Content-Encoding, Idempotency-Key, X-Request-Id';
/** What a page may read beside what every page may. */
const responseHeaders = 'Retry-After, WWW-Authenticate, X-Request-Id';
/** How long a browser need not ask again, in seconds; Chromium takes no more than this. */
const preflightSecs = 7_200;

/** Lets pages of other web origins read the answers (Fetch standard, "CORS protocol"): of those that are named, or of all. */
export class Cors {
  /** null: all. */
  readonly #origins: ReadonlySet<string> | null;

  /**
   * @param option origins, parted by commas, or `*`
   * @throws Error of one line, which names the option and what is wrong in it
   */
  constructor(option: string) {
    this.#origins = option.trim() === '*' ? null : new Set(option.split(',').map((part) => parseOrigin(part.trim())));
  }

  /** Header lines for an answer to what is no proper request: it may have come from any page, and so only any can be let in. */
  get unaskedHeaders(): string {
    return this.#origins === null ? 'Access-Control-Allow-Origin: *\r\n' : '';
  }

  /** Says in the answer, whatever it will be, whether the page that asked may read it. */
  mark(request: IncomingMessage, response: ServerResponse): void {
    const allowed = this.#allowed(request);
    // A cache must not give one origin what was said to another.
    if (this.#origins !== null) response.setHeader('Vary', 'Origin');
    if (allowed === null) return;
    response.setHeader('Access-Control-Allow-Origin', allowed);
    response.setHeader('Access-Control-Expose-Headers', responseHeaders);
  }

  /**
   * Answers a browser that asks whether a page may send its request.
   * @returns false if it is no such question, or not of a page that may
   */
  preflight(request: IncomingMessage, response: ServerResponse, methods: readonly string[]): boolean {
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return false;
    if (this.#allowed(request) === null) return false;
    response.writeHead(204, {
      'Access-Control-Allow-Methods': methods.join(', '),
      'Access-Control-Allow-Headers': requestHeaders,
      'Access-Control-Max-Age': preflightSecs,
      ...everyAnswer,
    });
    response.end();
    return true;
  }

  /** What to let the request's page in by; null if it may not, or no page asks. */
  #allowed({ headers: { origin } }: IncomingMessage): string | null {
    if (origin === undefined) return null;
    if (this.#origins === null) return '*';
    return this.#origins.has(origin) ? origin : null;
  }
}

/** The origin as browsers write it, which leave out the default port. */
function parseOrigin(text: string): string {
  const url = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*]+$/i.test(text) && URL.canParse(text) ? new URL(text) : null;
  if (url === null) {
    throw new Error(`--cors_origin has '${text}'; it must be a list of scheme://host[:port] without a path, or *`);
  }
  // Of a scheme that it does not know, such as an extension's, URL gives no origin.
  return url.origin === 'null' ? text : url.origin;
}
