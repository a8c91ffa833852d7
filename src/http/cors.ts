import type { IncomingMessage, ServerResponse } from 'node:http';
import { commonHeaders } from './reply.ts';

/** Request headers that a page may send beside the safelisted ones (Fetch standard, "CORS-safelisted request-header"). */
const requestHeaders =
  'Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-None-Match, If-Range, Range, X-Request-Id';
/** Response headers that a page may read beside the safelisted ones. */
const responseHeaders =
  'Accept-Ranges, Content-Disposition, Content-Range, ETag, Retry-After, WWW-Authenticate, X-Request-Id';
/** How long a browser may cache the answer to a preflight request, in seconds. Chromium accepts no more than this. */
const preflightSecs = 7_200;

/** Lets pages of other web origins read the answers (Fetch standard, "CORS protocol"): the origins in an option, or all. */
export class Cors {
  /** null: all. */
  readonly #origins: ReadonlySet<string> | null;

  /**
   * @param option the value of --cors_origin: origins, comma-separated, or `*`
   * @throws Error of one line, which names the option and the value
   */
  constructor(option: string) {
    this.#origins = option.trim() === '*' ? null : new Set(option.split(',').map((part) => parseOrigin(part.trim())));
  }

  /**
   * Header lines for an answer to malformed HTTP. Its origin is unknown, so the answer is readable only if every origin is
   * allowed.
   */
  get unaskedHeaders(): string {
    return this.#origins === null ? 'Access-Control-Allow-Origin: *\r\n' : '';
  }

  /** Sets the CORS headers of any answer to the request. */
  mark(request: IncomingMessage, response: ServerResponse): void {
    const allowed = this.#allowed(request);
    // A cache must not serve the headers for one origin to another.
    if (this.#origins !== null) response.setHeader('Vary', 'Origin');
    if (allowed === null) return;
    response.setHeader('Access-Control-Allow-Origin', allowed);
    response.setHeader('Access-Control-Expose-Headers', responseHeaders);
  }

  /**
   * Answers a preflight request.
   * @returns false if the request is none, or its origin is not allowed
   */
  preflight(request: IncomingMessage, response: ServerResponse, methods: readonly string[]): boolean {
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return false;
    if (this.#allowed(request) === null) return false;
    response.writeHead(204, {
      'Access-Control-Allow-Methods': methods.join(', '),
      'Access-Control-Allow-Headers': requestHeaders,
      'Access-Control-Max-Age': preflightSecs,
      ...commonHeaders,
    });
    response.end();
    return true;
  }

  /** The value of Access-Control-Allow-Origin; null if the origin is not allowed, or the request has none. */
  #allowed({ headers: { origin } }: IncomingMessage): string | null {
    if (origin === undefined) return null;
    if (this.#origins === null) return '*';
    return this.#origins.has(origin) ? origin : null;
  }
}

/** The origin as browsers serialize it: without the default port. */
function parseOrigin(text: string): string {
  const url = /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#@*]+$/i.test(text) && URL.canParse(text) ? new URL(text) : null;
  if (url === null) {
    throw new Error(`--cors_origin has '${text}'; it must be a list of scheme://host[:port] without a path, or *`);
  }
  // URL has no origin for schemes that it does not know, such as those of browser extensions.
  return url.origin === 'null' ? text : url.origin;
}
