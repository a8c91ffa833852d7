import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { RequestMemoryError, type RequestReservation } from '../query/request-memory.ts';
import { RequestAbortedError } from '../refusal-error.ts';
import { HttpError, httpErrors } from './http-error.ts';

/** The first size of a body whose chunks are yet to come. */
const growthBytesMin = 4 * 1024;

/** The most that is held of a body that arrives at once with its head; it is not reserved, as it is parsed in the same turn. */
const unreservedBytesMax = 64 * 1024;
/** About what a body costs while it is received, beside its bytes: the stream, and what the socket has read ahead. */
const receivingBytes = 16 * 1024;
const inflatedChunkBytes = 64 * 1024;
/** The same of a decompressor: its window, and its input and output. */
const inflatingBytes = 128 * 1024;

/**
 * The bytes of a JSON request. Memory is reserved as they arrive, and not when they are announced: a client that announces much
 * and sends little holds little.
 * @param bytesMax of the body as sent and, if it is compressed, of what it inflates to
 * @param reservation grows with the body, and is that of its bytes in the end; null: none
 * @throws HttpError 400, 413, 415
 * @throws RequestMemoryError
 * @throws RequestAbortedError
 */
export async function readJsonBytes(
  request: IncomingMessage,
  bytesMax: number,
  reservation: RequestReservation | null = null,
): Promise<Buffer> {
  checkContentType(request.headers['content-type']);
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) throw httpErrors.bodyTooLarge(bytesMax);
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding !== 'identity' && encoding !== 'gzip') {
    throw httpErrors.unsupportedMediaType(`the content encoding "${encoding.slice(0, 50)}" is not supported; gzip is`);
  }
  // Node hands a request over before the body that came in the same chunk, and runs no promise before it has taken that in.
  await null;
  if (request.destroyed) throw new RequestAbortedError('the request was cut off');
  const buffered = encoding === 'identity' ? takeBuffered(request) : null;
  if (buffered !== null) return buffered;
  const bytes = await (encoding === 'gzip'
    ? inflate(request, bytesMax, reservation)
    : collect(request, request, bytesMax, reservation, receivingBytes));
  reservation?.resize(bytes.buffer.byteLength);
  return bytes;
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

/** A body that is buffered whole, so that no listener is needed, nor the wait for `end`; null if it is not. */
function takeBuffered(request: IncomingMessage): Buffer | null {
  const length = request.readableLength;
  if (length !== Number(request.headers['content-length']) || length > unreservedBytesMax) return null;
  const first = (request.read() as Buffer | null) ?? Buffer.alloc(0);
  const bytes = first.length === length ? first : withBuffered(first, request, length);
  request.resume();
  return bytes;
}

/** From Node 26 on, `read()` returns one chunk at a time, and not all that is buffered. */
function withBuffered(first: Buffer, request: IncomingMessage, length: number): Buffer {
  const body = new GrowingBuffer(length, length, () => {});
  for (let chunk: Buffer | null = first; chunk !== null; chunk = request.read() as Buffer | null) body.append(chunk);
  return body.bytes;
}

async function inflate(
  request: IncomingMessage,
  bytesMax: number,
  reservation: RequestReservation | null,
): Promise<Buffer> {
  reservation?.resize(inflatingBytes);
  // The default, 16 KiB, makes a thousand turns of a large body.
  const gunzip = createGunzip({ chunkSize: inflatedChunkBytes });
  let sentBytes = 0;
  // What inflates to nothing could otherwise be sent without end.
  const countSent = (chunk: Buffer): void => {
    sentBytes += chunk.length;
    if (sentBytes > bytesMax) gunzip.destroy(httpErrors.bodyTooLarge(bytesMax));
  };
  try {
    request.on('data', countSent);
    request.pipe(gunzip);
    return await collect(gunzip, request, bytesMax, reservation, inflatingBytes);
  } catch (error) {
    if (error instanceof HttpError || error instanceof RequestAbortedError || error instanceof RequestMemoryError)
      throw error;
    throw httpErrors.badRequest(`the body is not gzip: ${(error as Error).message}`);
  } finally {
    request.off('data', countSent);
    request.unpipe(gunzip);
    gunzip.destroy();
  }
}

/** @param otherBytes to be reserved beside those that are collected */
function collect(
  stream: Readable,
  request: IncomingMessage,
  bytesMax: number,
  reservation: RequestReservation | null,
  otherBytes: number,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const reserve = (bytes: number): void => reservation?.resize(otherBytes + bytes);
    const body = new GrowingBuffer(growthBytesMin, lengthMax(stream, request, bytesMax), reserve);
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
      try {
        if (body.length + chunk.length > bytesMax) throw httpErrors.bodyTooLarge(bytesMax);
        body.append(chunk);
      } catch (error) {
        settle(() => reject(error as Error));
      }
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
  readonly #capacityMax: number;
  readonly #reserve: (bytes: number) => void;
  #bytes: Buffer;
  #length = 0;

  /**
   * @param capacityMax the most that will be needed
   * @param reserve called before there is more capacity
   */
  constructor(capacity: number, capacityMax: number, reserve: (bytes: number) => void) {
    this.#capacityMax = capacityMax;
    this.#reserve = reserve;
    const least = Math.min(capacity, capacityMax);
    reserve(least);
    this.#bytes = Buffer.allocUnsafeSlow(least);
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
      const capacity = Math.max(length, Math.min(2 * this.#bytes.length, this.#capacityMax));
      // The old buffer is copied, and given up at once.
      this.#reserve(capacity);
      const larger = Buffer.allocUnsafeSlow(capacity);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    this.#bytes.set(chunk, this.#length);
    this.#length = length;
  }
}

/** The length of the body if it is announced, and is not that of what it inflates to. */
function lengthMax(stream: Readable, request: IncomingMessage, bytesMax: number): number {
  return stream === request ? Number(request.headers['content-length'] ?? bytesMax) : bytesMax;
}

function ignore(): void {}
