import type { ServerResponse } from 'node:http';
import type { BodyParts } from '../protocol/v1/response.ts';
import { gzipPieces, inflated, isDeflated } from './gzip.ts';
import type { HttpError } from './http-error.ts';

/** In every answer: it is kept by nobody, and taken for nothing but what it says that it is. */
export const everyAnswer = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' } as const;

export function replyText(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  const body = Buffer.from(text);
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': body.length,
    ...everyAnswer,
    ...headers,
  });
  response.end(body);
}

export function replyError(response: ServerResponse, error: HttpError): void {
  replyText(response, error.status, error.message, error.headers);
}

/** As `replyError`, but the caller ends the answer; the client has the whole of it, and keeps the connection so long. */
export function replyErrorUnended(response: ServerResponse, error: HttpError): void {
  const body = Buffer.from(error.message);
  response.writeHead(error.status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Length': body.length,
    ...everyAnswer,
    Connection: 'close',
    ...error.headers,
  });
  response.write(body);
}

/** 200 with an empty body, which is all that `final_uri` answers. */
export function replyEmpty(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Length': 0, ...everyAnswer });
  response.end();
}

/** Up to this length a body is made one text, which Node sends with the head as one. */
const joinedLengthMax = 4 * 1024;

/** @param parts the pieces of one text in UTF-8 */
export function replyJson(response: ServerResponse, parts: readonly (string | Uint8Array)[], headers = {}): void {
  let length = 0;
  for (const part of parts) length += part.length;
  replyParts(response, length <= joinedLengthMax ? [joined(parts)] : parts, headers);
}

/**
 * As `replyJson`, of parts some of which may be compressed. If so, all go out as gzip, but for a client that asked for it
 * with its statement and does not with this page.
 */
export function replyPage(response: ServerResponse, parts: BodyParts, asGzip: boolean): void | Promise<void> {
  if (!parts.some(isDeflated)) return replyJson(response, parts as readonly (string | Uint8Array)[]);
  // What the answer was already said to vary by (see cors.ts).
  const vary = response.getHeader('Vary');
  const headers = { Vary: vary === undefined ? 'Accept-Encoding' : `${vary}, Accept-Encoding` };
  if (!asGzip) return inflated(parts).then((plain) => replyJson(response, plain, headers));
  replyParts(response, gzipPieces(parts), { ...headers, 'Content-Encoding': 'gzip' });
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
  const last = parts.length - 1;
  for (let index = 0; index < last; index++) response.write(parts[index]);
  response.end(parts[last]);
}

function joined(parts: readonly (string | Uint8Array)[]): string {
  let text = '';
  for (const part of parts) {
    text += typeof part === 'string' ? part : Buffer.from(part.buffer, part.byteOffset, part.length).toString();
  }
  return text;
}
