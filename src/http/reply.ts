import type { ServerResponse } from 'node:http';
import type { BodyParts } from '../protocol/v1/response.ts';
import type { HttpError } from './http-error.ts';

/** Bodies up to this size are sent in one piece with their head. */
const onePieceBytes = 64 * 1024;

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

/** The parts are written as they are: nothing is joined that is long. */
export function replyJson(response: ServerResponse, parts: BodyParts): void {
  const buffers = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part));
  let length = 0;
  for (const buffer of buffers) length += buffer.length;
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Length': length,
    'Cache-Control': 'no-store',
  });
  if (length <= onePieceBytes) {
    response.end(Buffer.concat(buffers, length));
    return;
  }
  response.cork();
  for (const buffer of buffers) if (buffer.length > 0) response.write(buffer);
  response.end();
}
