import { close, open, read } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SendOptions } from 'send';
import { fileTrouble, isFileError } from '../wire/file-trouble.ts';
import { httpErrors } from './http-error.ts';
import { commonHeaders } from './reply.ts';

/** A file that is sent as an answer. Its content never changes. */
export interface FileToSend {
  readonly path: string;
  readonly etag: string;
  readonly contentType: string;
  /** The name under which a browser saves it. */
  readonly downloadName: string;
}

/** Bytes that are read from the disk at once. */
const pieceBytes = 256 * 1024;
/** The memory that a client can hold who reads slowly: one piece on its way, and one read ahead. */
export const fileMemoryBytes = 2 * pieceBytes;

/** Of a file that is not open. */
const noDescriptor = 0;

/** Of a file alone, and not of a refusal. */
const fileHeaders = ['ETag', 'Content-Disposition', 'Content-Type', 'Content-Range', 'Accept-Ranges'];

/** Opens the file for each piece, so that clients who read slowly keep no descriptor. The members are those that a stream uses. */
function reopening(path: string): object {
  return {
    open: (_path: string, _flags: string, _mode: number, done: (error: null, descriptor: number) => void) =>
      done(null, noDescriptor),
    read: (
      _descriptor: number,
      buffer: Buffer,
      offset: number,
      length: number,
      position: number,
      done: (error: Error | null, bytes: number, buffer: Buffer) => void,
    ) =>
      open(path, 'r', (error, descriptor) => {
        if (error !== null) {
          done(error, 0, buffer);
          return;
        }
        read(descriptor, buffer, offset, length, position, (readError, bytes) => {
          close(descriptor, () => done(readError, bytes, buffer));
        });
      }),
    close: (_descriptor: number, done: (error: null) => void) => done(null),
  };
}

/**
 * Sends a file, or the part of it that the request asks for: HEAD, Range, If-Range and If-None-Match are answered (RFC 9110,
 * sections 13 and 14). A request for several ranges gets the whole. Resolves when the answer has left.
 * @throws HttpError 410, 412, 416, 503
 */
export async function replyFile(
  request: IncomingMessage,
  response: ServerResponse,
  { path, etag, contentType, downloadName }: FileToSend,
): Promise<void> {
  // Loaded with the first file: it would be a tenth of every start.
  const { default: send } = await import('send');
  await new Promise<void>((resolve, reject) => {
    response.once('close', resolve);
    if (response.destroyed) resolve();
    // `send` takes a weak tag for a strong one, and If-Range compares strongly (RFC 9110, section 13.1.5).
    const ifRange = request.headers['if-range'];
    if (ifRange !== undefined && ifRange !== etag) delete request.headers.range;
    // The last two go to the stream that reads the file.
    const options = {
      etag: false,
      lastModified: false,
      cacheControl: false,
      dotfiles: 'allow',
      highWaterMark: pieceBytes,
      fs: reopening(path),
    };
    send(request, encodeURI(path), options as SendOptions)
      .on('headers', (sent: ServerResponse) => {
        sent.setHeader('ETag', etag);
        sent.setHeader('Content-Type', contentType);
        sent.setHeader('Content-Disposition', `attachment; filename="${downloadName}"`);
        for (const [name, value] of Object.entries(commonHeaders)) sent.setHeader(name, value);
      })
      .on('error', (error: NodeJS.ErrnoException & { status?: number; headers?: Record<string, string> }) => {
        if (!response.headersSent) for (const name of fileHeaders) response.removeHeader(name);
        if (error.status === 416) reject(httpErrors.rangeNotSatisfiable(error.headers?.['Content-Range'] ?? ''));
        else if (error.status === 412) reject(httpErrors.preconditionFailed());
        else if (error.status === 404 || error.code === 'ENOENT')
          reject(httpErrors.gone('the file is no longer there'));
        else if (isFileError(error))
          reject(httpErrors.unavailable(`the file cannot be read now: ${fileTrouble(error)}`));
        else reject(error);
      })
      .pipe(response);
  });
}
