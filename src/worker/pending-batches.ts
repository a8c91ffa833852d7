import { type Batch, largeRowBytesMin } from '../wire/statement.ts';

/** Batches in memory that wait to be written to disk or delivered, first in, first out. */
export class PendingBatches<B extends Batch = Batch> {
  readonly #batches: B[] = [];
  #bytes = 0;
  #largeBytes = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** The size of the large batch, or 0. There is at most one, since the database is paused after it. */
  get largeBytes(): number {
    return this.#largeBytes;
  }

  get first(): B | undefined {
    return this.#batches[0];
  }

  push(batch: B): void {
    const { byteLength } = batch.buffer;
    this.#batches.push(batch);
    this.#bytes += byteLength;
    if (byteLength >= largeRowBytesMin) this.#largeBytes = byteLength;
  }

  /** To be called before the buffer of the first batch is transferred, since it has no length then. */
  dropFirst(): void {
    const bytes = this.#batches.shift()?.buffer.byteLength ?? 0;
    this.#bytes -= bytes;
    if (bytes >= largeRowBytesMin) this.#largeBytes = 0;
  }

  clear(): void {
    this.#batches.length = 0;
    this.#bytes = 0;
    this.#largeBytes = 0;
  }
}
