import { freeBuffers } from '../wire/free-buffers.ts';
import { type Batch, rowEndsOffset } from '../wire/statement.ts';
import { headerBytes, payloadBytesMax } from './kernel/shared/row-packet.ts';

const firstBufferBytes = 8 * 1024;
/** A full batch, and what one call of the kernel adds to it. */
const fullBufferBytes = 512 * 1024;
/** A larger buffer, for a large row, is not kept for the next batch. */
const keptBufferBytesMax = 1024 * 1024;
const firstRows = 256;

/** The length that the header at `at` says. (`Buffer.readUIntLE` takes several times as long.) */
export function payloadLength(source: Uint8Array, at: number): number {
  return (source[at] as number) | ((source[at + 1] as number) << 8) | ((source[at + 2] as number) << 16);
}

/** Collects row packets as the database sent them, each with its header, and their ends. */
export class PacketCollector {
  #bytes: Buffer = Buffer.allocUnsafeSlow(firstBufferBytes);
  #ends = new Uint32Array(firstRows);
  #length = 0;
  #rows = 0;

  get rows(): number {
    return this.#rows;
  }

  get length(): number {
    return this.#length;
  }

  /** The packets so far. Valid until the next change. */
  get source(): Buffer {
    return this.#bytes;
  }

  /** By row, the end of its packet in `source`. Valid until the next change. */
  get ends(): Uint32Array {
    return this.#ends;
  }

  /** Adds the packets in `source[from, to)`, which are complete. */
  add(source: Buffer, from: number, to: number, rows: number): void {
    this.#reserve(to - from, rows);
    for (let at = from; at < to; ) {
      at += headerBytes + payloadLength(source, at);
      this.#ends[this.#rows++] = this.#length + at - from;
    }
    source.copy(this.#bytes, this.#length, from, to);
    this.#length += to - from;
  }

  /** Adds a row of any size by its payload. */
  addPayload(source: Uint8Array, start: number, end: number): void {
    const bytes = headerBytes + end - start;
    this.#reserve(bytes, 1);
    // The length of a longer row follows from its end.
    this.#bytes.writeUIntLE(Math.min(end - start, payloadBytesMax), this.#length, headerBytes);
    this.#bytes.set(source.subarray(start, end), this.#length + headerBytes);
    this.#length += bytes;
    this.#ends[this.#rows++] = this.#length;
  }

  /** The packets in memory of their own, with their ends behind them (see `Batch`). There must be some. */
  take(): Batch {
    const [length, rows] = [this.#length, this.#rows];
    const offset = rowEndsOffset(length);
    const bytes = Buffer.allocUnsafeSlow(offset + rows * Uint32Array.BYTES_PER_ELEMENT);
    this.#bytes.copy(bytes, 0, 0, length);
    bytes.fill(0, length, offset);
    const buffer = bytes.buffer as ArrayBuffer;
    new Uint32Array(buffer, offset, rows).set(this.#ends.subarray(0, rows));
    this.clear();
    return { buffer, length, rows };
  }

  clear(): void {
    this.#length = 0;
    this.#rows = 0;
    if (this.#bytes.length > keptBufferBytesMax) this.#replaceBytes(Buffer.allocUnsafeSlow(firstBufferBytes));
  }

  release(): void {
    freeBuffers([this.#bytes.buffer as ArrayBuffer]);
  }

  #replaceBytes(bytes: Buffer): void {
    freeBuffers([this.#bytes.buffer as ArrayBuffer]);
    this.#bytes = bytes;
  }

  #reserve(bytes: number, rows: number): void {
    if (this.#length + bytes > this.#bytes.length) {
      const grown = Buffer.allocUnsafeSlow(
        Math.max(this.#length + bytes, Math.min(fullBufferBytes, this.#bytes.length * 4)),
      );
      this.#bytes.copy(grown, 0, 0, this.#length);
      this.#replaceBytes(grown);
    }
    if (this.#rows + rows > this.#ends.length) {
      const grown = new Uint32Array(Math.max(this.#rows + rows, this.#ends.length * 2));
      grown.set(this.#ends.subarray(0, this.#rows));
      this.#ends = grown;
    }
  }
}
