import { aligned } from '../../formats/arrow/messages.ts';
import { type Cells, notInKernel, nullCell } from './cells.ts';
import { arrowKernel, viewOf } from './kernel.ts';

/**
 * The body of a record batch: the buffers of its columns, one after the other. It is in the kernel's memory unless it is larger
 * than that, so there may be one only in a thread.
 */
export class BatchBody {
  bytes: Buffer = arrowKernel.body;
  view = arrowKernel.bodyView;
  /** Up to the end of the last buffer, aligned. */
  length = 0;
  /** The position and the length of each buffer. */
  readonly buffers: number[] = [];

  /** For the next batch. */
  clear(): void {
    this.length = 0;
    this.buffers.length = 0;
    this.bytes = arrowKernel.body;
    this.view = arrowKernel.bodyView;
  }

  /**
   * Makes room for a buffer of at most so many bytes. Until `end`, no other is begun.
   * @returns its position
   */
  begin(bytesMax: number): number {
    const needed = aligned(this.length + bytesMax);
    if (needed > this.bytes.length) {
      const before = this.bytes.subarray(0, this.length);
      this.bytes = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2));
      this.view = viewOf(this.bytes);
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
   * Lets the kernel write a buffer of so many bytes from a position on.
   * @param write returns whether the kernel knew all values
   * @returns whether the buffer is written; if not, there is none
   */
  writeInKernel({ kernelCell }: Cells, bytes: number, write: (at: number) => boolean): boolean {
    if (kernelCell === notInKernel) return false;
    const at = this.begin(bytes);
    if (this.bytes !== arrowKernel.body || !write(at)) return false;
    this.end(bytes);
    return true;
  }

  /**
   * Writes which cells are not NULL.
   * @returns the number of those that are
   */
  writeValidity(cells: Cells): number {
    const { lengths, rows } = cells;
    const nulls = countNulls(cells);
    if (nulls === 0) {
      // None are, if there is no bitmap.
      this.end(0);
      return 0;
    }
    const size = (rows + 7) >> 3;
    const { functions } = arrowKernel;
    const isWritten = this.writeInKernel(cells, size, (at) => {
      functions.writeValidity(cells.kernelCell, rows, at);
      return true;
    });
    if (isWritten) return nulls;
    const start = this.begin(size);
    const { bytes } = this;
    bytes.fill(0, start, start + size);
    for (let row = 0; row < rows; row++) {
      if (lengths[row] !== nullCell) (bytes[start + (row >> 3)] as number) |= 1 << (row & 7);
    }
    this.end(size);
    return nulls;
  }
}

function countNulls({ lengths, rows, kernelCell }: Cells): number {
  if (kernelCell !== notInKernel) return arrowKernel.functions.countNulls(kernelCell, rows);
  let nulls = 0;
  for (let row = 0; row < rows; row++) if (lengths[row] === nullCell) nulls++;
  return nulls;
}
