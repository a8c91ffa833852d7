import { freeBuffers } from '../wire/free-buffers.ts';
import { type Batch, rowEndsOffset } from '../wire/statement.ts';
import { headerBytes, payloadBytesMax } from './kernel/shared/row-packet.ts';
import { type KernelStop, kernel } from './kernel.ts';
import type { RowBatches } from './row-batches.ts';
import { batchBytes, RowEncoder } from './row-encoder.ts';
import type { RowFormat } from './row-format.ts';

const firstBufferBytes = 8 * 1024;
/** A full batch, and what one call of the kernel adds to it. */
const fullBufferBytes = 512 * 1024;
/** A larger buffer, for a large row, is not kept for the next batch. */
const keptBufferBytesMax = 1024 * 1024;
const firstRows = 256;

/** A batch of row packets, each with its header, and their ends (see `Batch`). */
export interface CollectedBatch extends Batch {
  /** Bytes of its rows as text. */
  readonly textBytes: number;
}

/**
 * Collects row packets as the database sent them. Each row is encoded as well, and the text is dropped: that finds out whether the
 * row can be encoded, and how large its text is, and takes little time.
 */
export class RowCollector implements RowBatches {
  readonly #format: RowFormat;
  readonly #rowBytesMax: number;
  readonly #emit: (batch: CollectedBatch) => void;
  #out: Buffer = Buffer.allocUnsafeSlow(firstBufferBytes);
  #rowEnds = new Uint32Array(firstRows);
  #length = 0;
  #rows = 0;
  #textBytes = 0;
  #invalid = 0;

  /** @param emit receives each full batch and owns its memory */
  constructor(format: RowFormat, rowBytesMax: number, emit: (batch: CollectedBatch) => void) {
    this.#format = format;
    this.#rowBytesMax = rowBytesMax;
    this.#emit = emit;
  }

  get invalid(): number {
    return this.#invalid;
  }

  get rows(): number {
    return this.#rows;
  }

  encode(from: number, to: number, rowsMax: number): KernelStop {
    const stop = kernel.encode(this.#format, from, to, 0, rowsMax - this.#rows, this.#rowBytesMax);
    const { rows, length, consumed } = kernel;
    this.#invalid |= kernel.takeInvalid();
    if (rows === 0) return stop;
    if (this.#length > 0 && this.#length + consumed - from > batchBytes) this.#emitBatch();
    this.#reserve(consumed - from, rows);
    const { input } = kernel;
    for (let at = from; at < consumed; ) {
      at += headerBytes + input.readUIntLE(at, 3);
      this.#rowEnds[this.#rows++] = this.#length + at - from;
    }
    input.copy(this.#out, this.#length, from, consumed);
    this.#length += consumed - from;
    this.#textBytes += length;
    this.#emitIfFull();
    return stop;
  }

  append(source: Uint8Array, start: number, end: number): boolean {
    let textBytes = 0;
    const encoder = new RowEncoder(this.#format, this.#rowBytesMax, ({ length }) => {
      textBytes = length;
    });
    const fits = encoder.append(source, start, end);
    textBytes += encoder.take()?.length ?? 0;
    this.#invalid |= encoder.invalid;
    encoder.release();
    if (!fits) return false;
    const bytes = headerBytes + end - start;
    if (this.#length > 0 && this.#length + bytes > batchBytes) this.#emitBatch();
    this.#reserve(bytes, 1);
    // The length of a longer row follows from its end.
    this.#out.writeUIntLE(Math.min(end - start, payloadBytesMax), this.#length, headerBytes);
    this.#out.set(source.subarray(start, end), this.#length + headerBytes);
    this.#length += bytes;
    this.#rowEnds[this.#rows++] = this.#length;
    this.#textBytes += textBytes;
    this.#emitIfFull();
    return true;
  }

  take(): CollectedBatch | null {
    if (this.#rows === 0) return null;
    const [length, rows, textBytes] = [this.#length, this.#rows, this.#textBytes];
    const offset = rowEndsOffset(length);
    const bytes = Buffer.allocUnsafeSlow(offset + rows * Uint32Array.BYTES_PER_ELEMENT);
    this.#out.copy(bytes, 0, 0, length);
    bytes.fill(0, length, offset);
    const buffer = bytes.buffer as ArrayBuffer;
    new Uint32Array(buffer, offset, rows).set(this.#rowEnds.subarray(0, rows));
    this.#length = 0;
    this.#rows = 0;
    this.#textBytes = 0;
    if (this.#out.length > keptBufferBytesMax) this.#replaceOut(Buffer.allocUnsafeSlow(firstBufferBytes));
    return { buffer, length, rows, textBytes };
  }

  release(): void {
    freeBuffers([this.#out.buffer as ArrayBuffer]);
  }

  #replaceOut(out: Buffer): void {
    freeBuffers([this.#out.buffer as ArrayBuffer]);
    this.#out = out;
  }

  #emitIfFull(): void {
    if (this.#length >= batchBytes) this.#emitBatch();
  }

  #emitBatch(): void {
    const batch = this.take();
    if (batch !== null) this.#emit(batch);
  }

  #reserve(bytes: number, rows: number): void {
    if (this.#length + bytes > this.#out.length) {
      const grown = Buffer.allocUnsafeSlow(
        Math.max(this.#length + bytes, Math.min(fullBufferBytes, this.#out.length * 4)),
      );
      this.#out.copy(grown, 0, 0, this.#length);
      this.#replaceOut(grown);
    }
    if (this.#rows + rows > this.#rowEnds.length) {
      const grown = new Uint32Array(Math.max(this.#rows + rows, this.#rowEnds.length * 2));
      grown.set(this.#rowEnds.subarray(0, this.#rows));
      this.#rowEnds = grown;
    }
  }
}
