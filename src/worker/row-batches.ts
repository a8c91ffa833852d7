import type { Batch } from '../wire/statement.ts';
import type { KernelStop } from './kernel.ts';

/** Gathers the rows of a result in batches. */
export interface RowBatches {
  /** Bits of `invalidCell`, of all rows so far. */
  readonly invalid: number;
  /** Rows in the batch that is being filled. */
  readonly rows: number;
  /**
   * Takes row packets in the kernel's memory by `Kernel.encode`, whose results remain readable.
   * @param rowsMax the most rows of the current batch, including those already in it
   */
  encode(from: number, to: number, rowsMax: number): KernelStop;
  /**
   * Appends a row of any size, whose packet's payload is `source[start, end)`.
   * @returns false, without appending anything, if its text exceeds the limit for a row
   * @throws RangeError if a cell reaches past the end of the packet
   */
  append(source: Uint8Array, start: number, end: number): boolean;
  /** No other rows follow: whatever is wrong with the current batch is found out now. */
  complete(): void;
  /** Returns the current batch and starts a new one. Null if there are no rows. */
  take(): Batch | null;
  /** Must be the last call: others reuse its memory. */
  release(): void;
}
