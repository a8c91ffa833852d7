import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { RequestMemoryError, type RequestReservation } from '../query/request-memory.ts';
import { RequestAbortedError } from '../refusal-error.ts';
import { HttpError, httpErrors } from './http-error.ts';

/** The first size of the buffer of a body that arrives in chunks. */
const growthBytesMin = 4 * 1024;

/** The largest body without a reservation: one that arrives together with its head, and is parsed in the same turn. */
const unreservedBytesMax = 64 * 1024;
/** About the memory of receiving a body, beside its bytes: the stream, and the bytes that the socket has read ahead. */
const receivingBytes = 16 * 1024;
const inflatedChunkBytes = 64 * 1024;
/** The same for a compressed body: also the decompressor's window, input and output. */
const inflatingBytes = 128 * 1024;

/**
 * Receives the body of a JSON request. Memory is reserved as bytes arrive, not by Content-Length: a client that announces much
 * and sends little reserves little.
 * @param bytesMax limit of the body as sent and, if it is compressed, of the inflated body
 * @param reservation grows with the body, and is resized to the body in the end; null: none
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
  // Node emits a request before it parses the body in the same chunk. It has parsed the chunk when promises run again.
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

/** A body that is buffered completely, so that no listener is needed and no wait for `end`; null if it is not. */
function takeBuffered(request: IncomingMessage): Buffer | null {
  const length = request.readableLength;
  if (length !== Number(request.headers['content-length']) || length > unreservedBytesMax) return null;
  const first = (request.read() as Buffer | null) ?? Buffer.alloc(0);
  const bytes = first.length === length ? first : withBuffered(first, request, length);
  request.resume();
  return bytes;
}

/** From Node 26 on, `read()` returns one chunk at a time, and not the whole buffer. */
function withBuffered(first: Buffer, request: IncomingMessage, length: number): Buffer {
  const body = new GrowingBuffer(length, length, null, 0);
  for (let chunk: Buffer | null = first; chunk !== null; chunk = request.read() as Buffer | null) body.append(chunk);
  return body.bytes;
}

async function inflate(
  request: IncomingMessage,
  bytesMax: number,
  reservation: RequestReservation | null,
): Promise<Buffer> {
  reservation?.resize(inflatingBytes);
  // With the default of 16 KiB, a large body takes a thousand turns of the event loop.
  const gunzip = createGunzip({ chunkSize: inflatedChunkBytes });
  let sentBytes = 0;
  // Input that inflates to nothing would otherwise never reach the limit.
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

/** @param otherBytes reserved beside the bytes of the body */
function collect(
  stream: Readable,
  request: IncomingMessage,
  bytesMax: number,
  reservation: RequestReservation | null,
  otherBytes: number,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const body = new GrowingBuffer(growthBytesMin, lengthMax(stream, request, bytesMax), reservation, otherBytes);
    const settle = (finish: () => void): void => {
      stream.off('data', onData);
      stream.off('end', onEnd);
      stream.off('error', onError);
      request.off('close', onClose);
      // An error after the end has no other listener, and would be thrown.
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
 * The bytes of a body in one buffer. Chunks are copied as they arrive: a list of millions of chunks of one byte would take a
 * hundred times the memory of the body, and joining them would block the thread.
 */
class GrowingBuffer {
  readonly #capacityMax: number;
  readonly #reservation: RequestReservation | null;
  readonly #otherBytes: number;
  #bytes: Buffer;
  #length = 0;

  /**
   * @param capacityMax the largest capacity
   * @param reservation enlarged before the buffer is; null: none
   * @param otherBytes reserved beside the buffer
   * @throws RequestMemoryError
   */
  constructor(capacity: number, capacityMax: number, reservation: RequestReservation | null, otherBytes: number) {
    this.#capacityMax = capacityMax;
    this.#reservation = reservation;
    this.#otherBytes = otherBytes;
    const least = Math.min(capacity, capacityMax);
    this.#reserve(least);
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
      // The old buffer is not reserved: it is dropped as soon as it is copied.
      this.#reserve(capacity);
      const larger = Buffer.allocUnsafeSlow(capacity);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    this.#bytes.set(chunk, this.#length);
    this.#length = length;
  }

  #reserve(capacity: number): void {
    this.#reservation?.resize(this.#otherBytes + capacity);
  }
}

/** The largest length of the collected bytes: Content-Length if there is one, unless the body is inflated. */
function lengthMax(stream: Readable, request: IncomingMessage, bytesMax: number): number {
  return stream === request ? Number(request.headers['content-length'] ?? bytesMax) : bytesMax;
}

function ignore(): void {}
