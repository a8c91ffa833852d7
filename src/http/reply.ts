import type { ServerResponse } from 'node:http';
import type { BodyParts } from '../protocol/v1/response.ts';
import { gzipPieces, inflated, isDeflated } from './gzip.ts';
import type { HttpError } from './http-error.ts';

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
    'Cache-Control': 'no-store',
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
    'Cache-Control': 'no-store',
    Connection: 'close',
    ...error.headers,
  });
  response.write(body);
}

/** 200 with an empty body, which is all that `final_uri` answers. */
export function replyEmpty(response: ServerResponse): void {
  response.writeHead(200, { 'Content-Length': 0, 'Cache-Control': 'no-store' });
  response.end();
}

/** The parts are written as they are, and joined by nobody: Node sends the head and all of them at once. */
export function replyJson(response: ServerResponse, parts: readonly (string | Uint8Array)[], headers = {}): void {
  let length = 0;
  for (const part of parts) length += typeof part === 'string' ? Buffer.byteLength(part) : part.length;
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Length': length,
    'Cache-Control': 'no-store',
    ...headers,
  });
  for (const part of parts) response.write(part);
  response.end();
}

/**
 * As `replyJson`, of parts some of which may be compressed. If so, all go out as gzip, but for a client that asked for it
 * with its statement and does not with this page.
 */
export async function replyPage(response: ServerResponse, parts: BodyParts, asGzip: boolean): Promise<void> {
  if (parts.some(isDeflated)) {
    const headers = { Vary: 'Accept-Encoding' };
    if (asGzip) replyJson(response, gzipPieces(parts), { ...headers, 'Content-Encoding': 'gzip' });
    else replyJson(response, await inflated(parts), headers);
  } else {
    replyJson(response, parts as readonly (string | Uint8Array)[]);
  }
}
