import type { ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { Deflated } from '../wire/statement.ts';
import { gzipPieces, inflated, isDeflated } from './gzip.ts';
import type { HttpError } from './http-error.ts';

/** A body in the order in which it is sent; what is long comes as the bytes that the worker made, compressed or not. */
export type BodyParts = readonly (string | Uint8Array | Deflated)[];

export interface Reply {
  /** Empty: there is no body. */
  readonly body: BodyParts;
  readonly headers: Readonly<Record<string, string>>;
}

export const noHeaders: Readonly<Record<string, string>> = {};

/** In every answer: it is kept by nobody, and taken for nothing but what it says that it is. */
export const everyAnswer = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' } as const;

export function replyText(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  const body = Buffer.from(text.endsWith('\n') ? text : `${text}\n`);
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': body.length,
    ...everyAnswer,
    ...headers,
  });
  response.end(body);
}

/**
 * Says why a request is refused.
 * @param asJson what to say instead of the reason alone; null: nothing
 */
export function replyError(response: ServerResponse, error: HttpError, asJson: Reply | null): void {
  response.end(writeError(response, error, asJson, {}));
}

/** As `replyError`, but the caller ends the answer; the client has the whole of it, and keeps the connection so long. */
export function replyErrorUnended(response: ServerResponse, error: HttpError, asJson: Reply | null): void {
  response.write(writeError(response, error, asJson, { Connection: 'close' }));
}

/** @returns the body, which is still to be sent */
function writeError(response: ServerResponse, error: HttpError, asJson: Reply | null, headers: object): Buffer {
  const body = Buffer.from(`${asJson === null ? error.message : asJson.body.join('')}\n`);
  response.writeHead(error.status, {
    'Content-Type': asJson === null ? 'text/plain; charset=utf-8' : 'application/json',
    'Content-Length': body.length,
    ...everyAnswer,
    ...asJson?.headers,
    ...headers,
    ...error.headers,
  });
  return body;
}

/** 200 with an empty body, which is all that `final_uri` answers. */
export function replyEmpty(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Length': 0, ...everyAnswer });
  response.end();
}

/** An answer none of which is compressed. */
export function reply(response: ServerResponse, { body, headers }: Reply): void {
  if (body.length === 0) replyEmpty(response);
  else replyJson(response, body as readonly (string | Uint8Array)[], headers);
}

/** Up to this length a body is made one text, which Node sends with the head as one. */
const joinedLengthMax = 4 * 1024;

/**
 * A newline follows the text, so that the prompt of a shell begins on a line of its own.
 * @param parts the pieces of one text in UTF-8
 */
export function replyJson(response: ServerResponse, parts: readonly (string | Uint8Array)[], headers = {}): void {
  let length = 0;
  for (const part of parts) length += part.length;
  replyParts(response, length <= joinedLengthMax ? [`${joined(parts)}\n`] : [...parts, '\n'], headers);
}

/**
 * As `replyJson`, of parts some of which may be compressed. If so, all go out as gzip, but for a client that asked for it
 * with its statement and does not with this page.
 */
export function replyPage(
  response: ServerResponse,
  parts: BodyParts,
  asGzip: boolean,
  more = noHeaders,
): void | Promise<void> {
  if (!parts.some(isDeflated)) return replyJson(response, parts as readonly (string | Uint8Array)[], more);
  // What the answer was already said to vary by (see cors.ts).
  const vary = response.getHeader('Vary');
  const headers = { ...more, Vary: vary === undefined ? 'Accept-Encoding' : `${vary}, Accept-Encoding` };
  if (!asGzip) return inflated(parts).then((plain) => replyJson(response, plain, headers));
  replyParts(response, gzipPieces([...parts, '\n']), { ...headers, 'Content-Encoding': 'gzip' });
}

/** The parts are written as they are, and joined by nobody: Node sends the head and all of them at once. */
function replyParts(response: ServerResponse, parts: readonly (string | Uint8Array)[], headers: object): void {
  let length = 0;
  for (const part of parts) length += typeof part === 'string' ? Buffer.byteLength(part) : part.length;
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Length': length,
    ...everyAnswer,
    ...headers,
  });
  if (length > tlsBytesMax && isEncrypted(response)) {
    writeInSteps(response, piecesOf(parts, tlsBytesMax), length);
    return;
  }
  const last = parts.length - 1;
  for (let index = 0; index < last; index++) response.write(parts[index]);
  response.end(parts[last]);
}

/** The most that a connection with TLS is given before its client has taken what it was given before. */
const tlsBytesMax = 64 * 1024;

function isEncrypted({ req }: ServerResponse): boolean {
  return (req.socket as Partial<TLSSocket>).encrypted === true;
}

/**
 * TLS encrypts at once whatever it is given, and holds the encrypted copy until the client reads it. Plain connections share the
 * memory of a page that is sent on many of them; with TLS each would hold a copy of its own, which nobody counts.
 */
function writeInSteps(response: ServerResponse, pieces: Iterator<Uint8Array>, length: number): void {
  let left = length;
  while (!response.destroyed) {
    const { value, done } = pieces.next();
    if (done === true) {
      // To its client, the next answer on the connection would be the rest of one that is too short.
      if (left > 0) response.destroy();
      else response.end();
      return;
    }
    left -= value.length;
    if (!response.write(value)) {
      response.once('drain', () => writeInSteps(response, pieces, left));
      return;
    }
  }
}

function* piecesOf(parts: readonly (string | Uint8Array)[], bytesMax: number): Generator<Uint8Array, void> {
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part;
    for (let at = 0; at < bytes.length; at += bytesMax) yield bytes.subarray(at, at + bytesMax);
  }
}

function joined(parts: readonly (string | Uint8Array)[]): string {
  let text = '';
  for (const part of parts) {
    text += typeof part === 'string' ? part : Buffer.from(part.buffer, part.byteOffset, part.length).toString();
  }
  return text;
}
