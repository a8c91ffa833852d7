import type { PlacedBatch } from '../wire/kept-reading.ts';
import type { KeptBatch } from '../wire/kept-rows.ts';

/** Where the rows of a kept result are in its file. */
export class BatchIndex {
  readonly #batches: PlacedBatch[] = [];
  /** By batch, the number of rows up to its end. */
  readonly #rowEnds: number[] = [];
  /** By batch, the bytes of text before it. */
  readonly #textStarts: number[] = [];
  #bytes = 0;
  #textBytes = 0;

  get batches(): number {
    return this.#batches.length;
  }

  get rows(): number {
    return this.#rowEnds.at(-1) ?? 0;
  }

  /** On disk. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Of the rows as JSON. */
  get textBytes(): number {
    return this.#textBytes;
  }

  add(batch: KeptBatch): void {
    this.#batches.push({ ...batch, position: this.#bytes });
    this.#rowEnds.push(this.rows + batch.rows);
    this.#textStarts.push(this.#textBytes);
    this.#bytes += batch.bytes;
    this.#textBytes += batch.textBytes;
  }

  /**
   * The batches that have the rows from `from` on, which must be less than `rows`.
   * @param bytesMax no more batches are returned than have so much text, but at least one
   */
  find(from: number, count: number, bytesMax: number): { batches: readonly PlacedBatch[]; skippedRows: number } {
    const first = this.#batchOf(from);
    const skippedRows = from - (this.#rowEnds[first - 1] ?? 0);
    let last = first;
    // The first batch may count in part, so it does not count.
    let bytes = 0;
    while (last + 1 < this.#batches.length && (this.#rowEnds[last] as number) < from + count && bytes < bytesMax) {
      last++;
      bytes += this.#batches[last]?.textBytes ?? 0;
    }
    return { batches: this.#batches.slice(first, last + 1), skippedRows };
  }

  /** Bytes of text from the batch with that row on. */
  textBytesFrom(row: number): number {
    return this.#textBytes - (this.#textStarts[this.#batchOf(row)] ?? this.#textBytes);
  }

  #batchOf(row: number): number {
    let low = 0;
    let high = this.#rowEnds.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#rowEnds[middle] as number) <= row) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
