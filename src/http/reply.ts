import type { ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { Deflated } from '../wire/statement.ts';
import { EncodedText } from './encoded-text.ts';
import { gzipPieces, inflated, isDeflated } from './gzip.ts';
import type { HttpError } from './http-error.ts';

/** A part of a body without compression. */
type PlainPart = string | Uint8Array | EncodedText;

/** The parts of a body in order. Rows are the bytes from the worker, compressed or not. */
export type BodyParts = readonly (PlainPart | Deflated)[];

export interface Reply {
  /** Empty: there is no body. JSON, unless `headers` have another content type. */
  readonly body: BodyParts;
  readonly headers: Readonly<Record<string, string>>;
}

export const noHeaders: Readonly<Record<string, string>> = {};

/** The headers of every answer: no cache may store it, and no browser may guess its type. */
export const commonHeaders = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' } as const;

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
    ...commonHeaders,
    ...headers,
  });
  response.end(body);
}

/**
 * Sends a refusal.
 * @param asJson the body in place of the reason; null: the reason as plain text
 */
export function replyError(response: ServerResponse, error: HttpError, asJson: Reply | null): void {
  response.end(writeError(response, error, asJson, {}));
}

/** As `replyError`, but the caller ends the answer. The client can read all of it before that, and the connection stays open. */
export function replyErrorUnended(response: ServerResponse, error: HttpError, asJson: Reply | null): void {
  response.write(writeError(response, error, asJson, { Connection: 'close' }));
}

/** @returns the body, which the caller sends */
function writeError(response: ServerResponse, error: HttpError, asJson: Reply | null, headers: object): Buffer {
  const body = Buffer.from(`${asJson === null ? error.message : asJson.body.join('')}\n`);
  response.writeHead(error.status, {
    'Content-Type': asJson === null ? 'text/plain; charset=utf-8' : 'application/json',
    'Content-Length': body.length,
    ...commonHeaders,
    ...asJson?.headers,
    ...headers,
    ...error.headers,
  });
  return body;
}

/** 200 with an empty body, such as the answer of `final_uri`. */
export function replyEmpty(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Length': 0, ...commonHeaders });
  response.end();
}

/** Sends an answer without compressed parts. */
export function reply(response: ServerResponse, { body, headers }: Reply): void {
  if (body.length === 0) replyEmpty(response);
  else replyBody(response, body as readonly PlainPart[], headers);
}

/** Up to this length a body is joined to one text, which Node sends in one piece with the head. */
const joinedLengthMax = 4 * 1024;

/**
 * Sends a body. A newline follows JSON, after which the prompt of a shell is on a line of its own.
 * @param parts the parts of one text in UTF-8, unless the headers have another content type
 */
export function replyBody(response: ServerResponse, parts: readonly PlainPart[], headers = noHeaders): void {
  if (!isJson(headers)) {
    replyParts(response, parts, headers);
    return;
  }
  let length = 0;
  for (const part of parts) length += part.length;
  replyParts(response, length <= joinedLengthMax ? [`${joined(parts)}\n`] : [...parts, '\n'], headers);
}

function isJson(headers: Readonly<Record<string, string>>): boolean {
  return headers['Content-Type'] === undefined;
}

/**
 * As `replyBody`, with parts that may be compressed. If one is, the body is sent as gzip.
 * @param asGzip whether the client accepts gzip. It may have accepted it with its statement, and not with this request; then the
 * parts are inflated
 */
export function replyPage(
  response: ServerResponse,
  parts: BodyParts,
  asGzip: boolean,
  more = noHeaders,
): void | Promise<void> {
  if (!parts.some(isDeflated)) return replyBody(response, parts as readonly PlainPart[], more);
  const headers = { ...more, Vary: varyingByEncoding(response) };
  if (!asGzip) return inflated(parts).then((plain) => replyBody(response, plain, headers));
  replyParts(response, gzipPieces(isJson(more) ? [...parts, '\n'] : parts), { ...headers, 'Content-Encoding': 'gzip' });
}

/** The header Vary of an answer that may be compressed. `Cors` may have set another part of it. */
export function varyingByEncoding(response: ServerResponse): string {
  const vary = response.getHeader('Vary');
  return vary === undefined ? 'Accept-Encoding' : `${vary}, Accept-Encoding`;
}

/** Writes the parts without joining them: Node sends the head and all of them in one system call. */
function replyParts(response: ServerResponse, parts: readonly PlainPart[], headers: object): void {
  let length = 0;
  for (const part of parts) length += typeof part === 'string' ? Buffer.byteLength(part) : part.length;
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Length': length,
    ...commonHeaders,
    ...headers,
  });
  if (length > tlsBytesMax && isEncrypted(response)) {
    writeInSteps(response, piecesOf(parts, tlsBytesMax), length);
    return;
  }
  const last = parts.length - 1;
  for (let index = 0; index < last; index++) response.write(written(parts[index] as PlainPart));
  response.end(written(parts[last] as PlainPart));
}

function written(part: PlainPart): string | Uint8Array {
  return part instanceof EncodedText ? part.bytes : part;
}

/** The bytes that are written to a TLS connection at once. More follow when they are sent. */
const tlsBytesMax = 64 * 1024;

function isEncrypted({ req }: ServerResponse): boolean {
  return (req.socket as Partial<TLSSocket>).encrypted === true;
}

/**
 * Limits the memory of a long answer on a TLS connection. TLS encrypts all bytes as they are written, and keeps the encrypted
 * copy until the client reads it. Plain connections share the memory of a page; with TLS each connection would hold a copy that
 * no limit counts.
 */
function writeInSteps(response: ServerResponse, pieces: Iterator<Uint8Array>, length: number): void {
  let left = length;
  while (!response.destroyed) {
    const { value, done } = pieces.next();
    if (done === true) {
      // If bytes are missing, the client would read the next answer as the rest of this one.
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

function* piecesOf(parts: readonly PlainPart[], bytesMax: number): Generator<Uint8Array, void> {
  for (const part of parts) {
    const plain = written(part);
    const bytes = typeof plain === 'string' ? Buffer.from(plain) : plain;
    for (let at = 0; at < bytes.length; at += bytesMax) yield bytes.subarray(at, at + bytesMax);
  }
}

/** The text of parts in UTF-8. */
export function joined(parts: readonly PlainPart[]): string {
  let text = '';
  for (const part of parts) {
    const plain = written(part);
    text += typeof plain === 'string' ? plain : Buffer.from(plain.buffer, plain.byteOffset, plain.length).toString();
  }
  return text;
}
