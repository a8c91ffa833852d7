import { aligned } from '../../formats/arrow/messages.ts';
import { type Cells, nullCell } from './cells.ts';

const firstBytes = 256 * 1024;
/** A larger memory, for large rows, is not kept for the next batch. */
const keptBytesMax = 1024 * 1024;

/** The body of a record batch: the buffers of its columns, one after the other. Its memory is used for one batch after the other. */
export class BatchBody {
  bytes: Buffer = Buffer.allocUnsafeSlow(firstBytes);
  view = viewOf(this.bytes);
  /** Up to the end of the last buffer, aligned. */
  length = 0;
  /** The position and the length of each buffer. */
  readonly buffers: number[] = [];

  /** For the next batch. */
  clear(): void {
    this.length = 0;
    this.buffers.length = 0;
    if (this.bytes.length > keptBytesMax) this.#replace(firstBytes);
  }

  /**
   * Makes room for a buffer of at most so many bytes. Until `end`, no other is begun.
   * @returns its position
   */
  begin(bytesMax: number): number {
    const needed = aligned(this.length + bytesMax);
    if (needed > this.bytes.length) {
      const before = this.bytes.subarray(0, this.length);
      this.#replace(Math.max(needed, this.bytes.length * 2));
      this.bytes.set(before);
    }
    return this.length;
  }

  /** The buffer that was begun last has so many bytes. */
  end(bytes: number): void {
    const end = this.length + bytes;
    this.buffers.push(this.length, bytes);
    this.length = aligned(end);
    this.bytes.fill(0, end, this.length);
  }

  /**
   * Writes which cells are not NULL.
   * @returns the number of those that are
   */
  writeValidity({ lengths, rows }: Cells): number {
    let nulls = 0;
    for (let row = 0; row < rows; row++) if (lengths[row] === nullCell) nulls++;
    if (nulls === 0) {
      // None are, if there is no bitmap.
      this.end(0);
      return 0;
    }
    const size = (rows + 7) >> 3;
    const start = this.begin(size);
    const { bytes } = this;
    bytes.fill(0, start, start + size);
    for (let row = 0; row < rows; row++) {
      if (lengths[row] !== nullCell) (bytes[start + (row >> 3)] as number) |= 1 << (row & 7);
    }
    this.end(size);
    return nulls;
  }

  #replace(bytes: number): void {
    this.bytes = Buffer.allocUnsafeSlow(bytes);
    this.view = viewOf(this.bytes);
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
