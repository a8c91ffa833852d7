import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { HttpError, httpErrors } from './http-error.ts';

/** The first size of a body whose chunks are yet to come. */
const growthBytesMin = 4 * 1024;

/** The client went away before its request was whole; there is nobody to answer. */
export class RequestAbortedError extends Error {
  override readonly name = 'RequestAbortedError';
}

/**
 * The bytes of a JSON request.
 * @param bytesMax of the body as sent and, if it is compressed, of what it inflates to
 * @throws HttpError 400, 413, 415
 * @throws RequestAbortedError
 */
export async function readJsonBytes(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  checkContentType(request.headers['content-type']);
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) throw httpErrors.bodyTooLarge(bytesMax);
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw httpErrors.unsupportedMediaType(`the content encoding "${encoding.slice(0, 50)}" is not supported; gzip is`);
  }
  // Node hands a request over before the body that came in the same chunk, and runs no promise before it has taken that in.
  await null;
  if (request.destroyed) throw new RequestAbortedError('the request was cut off');
  return encoding === 'gzip' ? inflate(request, bytesMax) : collectPlain(request, bytesMax);
}

function checkContentType(contentType: string | undefined): void {
  if (contentType === 'application/json') return;
  const [type, ...parameters] = (contentType ?? '').toLowerCase().split(';');
  if (type?.trim() !== 'application/json') {
    throw httpErrors.unsupportedMediaType('the content type must be application/json');
  }
  const charset = parameters.map((parameter) => parameter.trim()).find((parameter) => parameter.startsWith('charset='));
  if (charset !== undefined && !/^charset="?utf-?8"?$/.test(charset)) {
    throw httpErrors.unsupportedMediaType('the character set must be UTF-8');
  }
}

function collectPlain(request: IncomingMessage, bytesMax: number): Buffer | Promise<Buffer> {
  const length = request.readableLength;
  if (length !== Number(request.headers['content-length'])) return collect(request, request, bytesMax);
  // The whole body is buffered, so no listener is needed, nor the wait for `end`.
  const first = (request.read() as Buffer | null) ?? Buffer.alloc(0);
  const bytes = first.length === length ? first : withBuffered(first, request, length);
  request.resume();
  return bytes;
}

/** From Node 26 on, `read()` returns one chunk at a time, and not all that is buffered. */
function withBuffered(first: Buffer, request: IncomingMessage, length: number): Buffer {
  const body = new GrowingBuffer(length);
  for (let chunk: Buffer | null = first; chunk !== null; chunk = request.read() as Buffer | null) body.append(chunk);
  return body.bytes;
}

async function inflate(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const gunzip = createGunzip();
  let sentBytes = 0;
  // What inflates to nothing could otherwise be sent without end.
  const countSent = (chunk: Buffer): void => {
    sentBytes += chunk.length;
    if (sentBytes > bytesMax) gunzip.destroy(httpErrors.bodyTooLarge(bytesMax));
  };
  try {
    request.on('data', countSent);
    request.pipe(gunzip);
    return await collect(gunzip, request, bytesMax);
  } catch (error) {
    if (error instanceof HttpError || error instanceof RequestAbortedError) throw error;
    throw httpErrors.badRequest(`the body is not gzip: ${(error as Error).message}`);
  } finally {
    request.off('data', countSent);
    request.unpipe(gunzip);
    gunzip.destroy();
  }
}

function collect(stream: Readable, request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const body = new GrowingBuffer(growthBytesMin);
    const settle = (finish: () => void): void => {
      stream.off('data', onData);
      stream.off('end', onEnd);
      stream.off('error', onError);
      request.off('close', onClose);
      // An error that comes after the end must not be thrown for want of a listener.
      stream.on('error', ignore);
      finish();
    };
    const onData = (chunk: Buffer): void => {
      if (body.length + chunk.length > bytesMax) settle(() => reject(httpErrors.bodyTooLarge(bytesMax)));
      else body.append(chunk);
    };
    const onEnd = (): void => settle(() => resolve(body.bytes));
    const onClose = (): void => {
      if (!request.complete) settle(() => reject(new RequestAbortedError('the request was cut off')));
    };
    const onError = (error: Error): void =>
      settle(() => reject(stream === request ? new RequestAbortedError(error.message) : error));
    stream.on('data', onData);
    stream.on('end', onEnd);
    stream.on('error', onError);
    request.on('close', onClose);
  });
}

/**
 * Bytes of a body in one piece. Chunks are copied as they arrive, since a list of millions of them, each of one byte, would
 * take a hundred times the memory of the body and hold up the thread when they are joined.
 */
class GrowingBuffer {
  #bytes: Buffer;
  #length = 0;

  constructor(capacity: number) {
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  get length(): number {
    return this.#length;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  append(chunk: Buffer): void {
    const length = this.#length + chunk.length;
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    this.#bytes.set(chunk, this.#length);
    this.#length = length;
  }
}

function ignore(): void {}
