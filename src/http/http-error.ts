import type { RefusalError } from '../refusal-error.ts';

/** An answer other than 200: the status, and the reason as one line of plain text (docs/api.md, "Status codes"). */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, reason: string, headers: Readonly<Record<string, string>> = {}) {
    super(reason.replace(/\s+/g, ' '));
    this.status = status;
    this.headers = headers;
  }
}

/** Retry-After of a request that was refused because a limit is reached, in seconds. */
const retryAfterSecs = 1;

export const httpErrors = {
  badRequest: (reason: string) => new HttpError(400, reason),
  badHost: (reason: string) => new HttpError(400, reason, { Connection: 'close' }),
  unauthorized: (reason: string) => new HttpError(401, reason, { 'WWW-Authenticate': 'Basic realm="sluice"' }),
  notFound: (reason: string) => new HttpError(404, reason),
  conflict: (reason: string) => new HttpError(409, reason),
  gone: (reason: string) => new HttpError(410, reason),
  preconditionFailed: () => new HttpError(412, 'the file is another than the one that the request names (If-Match)'),
  methodNotAllowed: (method: string, allow: readonly string[]) =>
    new HttpError(405, `${method} is not allowed here; allowed: ${allow.join(', ')}`, { Allow: allow.join(', ') }),
  notAcceptable: (reason: string) => new HttpError(406, reason),
  bodyTooLarge: (max: number) => new HttpError(413, `the body is larger than ${max} bytes (--body_bytes_max)`),
  unsupportedMediaType: (reason: string) => new HttpError(415, reason),
  rangeNotSatisfiable: (contentRange: string) =>
    new HttpError(416, `the range lies beyond the end: ${contentRange}`, { 'Content-Range': contentRange }),
  misdirected: (host: string) =>
    new HttpError(
      421,
      `this server is not known by the host name '${host}': add the name to --http_host_names, or use an IP address`,
    ),
  expectationFailed: (expected: string) => new HttpError(417, `this expectation cannot be met: ${expected}`),
  tooManyRequests: (reason: string, afterSecs = retryAfterSecs) =>
    new HttpError(429, reason, { 'Retry-After': String(afterSecs) }),
  defect: (id: string) => new HttpError(500, `a defect of the server, logged as ${id}`),
  unavailable: (reason: string) => new HttpError(503, reason, { 'Retry-After': String(retryAfterSecs) }),
} as const;

/** The answer to a request that is refused before its statement runs. */
export function refusal({ message, reason, retryAfterSecs }: RefusalError): HttpError {
  switch (reason) {
    case 'denied':
      return httpErrors.unauthorized(message);
    case 'too many':
      return httpErrors.tooManyRequests(message, retryAfterSecs);
    case 'unavailable':
      return httpErrors.unavailable(message);
    case 'conflict':
      return httpErrors.conflict(message);
    case 'gone':
      return httpErrors.gone(message);
    case 'impossible':
      return httpErrors.badRequest(message);
  }
}
