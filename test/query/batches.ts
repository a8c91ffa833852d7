import { constants, crc32, deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Rows } from '#src/query/ring.js';
import { type Batch, rowEndsOffset } from '#src/wire/statement.js';

/** A batch as a worker makes it: the rows' JSON texts parted by commas, and after them where each row ends. */
export function batchOf(rows: readonly string[]): Batch {
  const text = Buffer.from(rows.join(','));
  const endsAt = rowEndsOffset(text.length);
  const buffer = new ArrayBuffer(endsAt + rows.length * Uint32Array.BYTES_PER_ELEMENT);
  new Uint8Array(buffer).set(text);
  const ends = new Uint32Array(buffer, endsAt, rows.length);
  let end = -1;
  for (const [index, row] of rows.entries()) {
    end += 1 + Buffer.byteLength(row);
    ends[index] = end;
  }
  return { buffer, length: text.length, rows: rows.length };
}

/** The same batch, compressed as a worker does it. */
export function deflated(batch: Batch): Batch {
  const text = new Uint8Array(batch.buffer, 0, batch.length);
  const run = deflateRawSync(text, { finishFlush: constants.Z_SYNC_FLUSH });
  const buffer = new ArrayBuffer(run.length);
  new Uint8Array(buffer).set(run);
  return { ...batch, buffer, deflatedCrc: crc32(text) };
}

/** The JSON text of rows that were taken, as a response puts it together. */
export function textOf(rows: Rows): string {
  return rows.pieces
    .map((piece) => ('crc' in piece ? inflateRawSync(piece.bytes, { finishFlush: constants.Z_SYNC_FLUSH }) : piece))
    .map((bytes) => Buffer.from(bytes).toString())
    .join(',');
}
