import { constants, crc32, deflateRawSync } from 'node:zlib';
import { freeBuffers, freedBytesMin } from '../wire/free-buffers.ts';
import type { Batch } from '../wire/statement.ts';

/** A smaller batch costs more to compress than that saves. */
const deflateBytesMin = 1024;

/**
 * Compresses a batch (see `Deflated`), unless it is small, and frees the memory of the text.
 * @param level of zlib
 */
export function deflated(batch: Batch, level: number): Batch {
  const { buffer, length } = batch;
  if (length < deflateBytesMin) return batch;
  const text = new Uint8Array(buffer, 0, length);
  // With room for all of the output in one chunk, zlib does not have to join chunks.
  const chunkSize = length + 1024;
  const chunk = deflateRawSync(text, { level, finishFlush: constants.Z_SYNC_FLUSH, chunkSize });
  const bytes = Buffer.allocUnsafeSlow(chunk.length);
  bytes.set(chunk);
  const deflatedCrc = crc32(text);
  if (chunkSize >= freedBytesMin) {
    const unneeded = [buffer];
    // A small chunk may be part of the memory that Node shares among buffers.
    if (chunkSize > Buffer.poolSize && chunk.buffer.byteLength === chunkSize)
      unneeded.push(chunk.buffer as ArrayBuffer);
    freeBuffers(unneeded);
  }
  return { ...batch, buffer: bytes.buffer as ArrayBuffer, deflatedCrc };
}
