import { constants, crc32, deflateRawSync } from 'node:zlib';
import type { Batch } from '../wire/statement.ts';

/** A smaller batch costs more to compress than that saves. */
const deflateBytesMin = 1024;

/**
 * Compresses a batch (see `Deflated`), unless it is small.
 * @param level of zlib
 */
export function deflated(batch: Batch, level: number): Batch {
  const { buffer, length, rows } = batch;
  if (length < deflateBytesMin) return batch;
  const text = new Uint8Array(buffer, 0, length);
  // With room for all of the output in one chunk, zlib does not have to join chunks.
  const chunk = deflateRawSync(text, { level, finishFlush: constants.Z_SYNC_FLUSH, chunkSize: length + 1024 });
  const bytes = Buffer.allocUnsafeSlow(chunk.length);
  bytes.set(chunk);
  return { buffer: bytes.buffer as ArrayBuffer, length, rows, deflatedCrc: crc32(text) };
}
