import { freeBuffers, freedBytesMin } from '../wire/free-buffers.ts';
import { type Batch, type Column, columnsBytes } from '../wire/statement.ts';
import { type Buffers, MemoryReservation } from './buffers.ts';
import { buffersOf, isHolding, noRows, Ring, type Rows, uncompressedBuffersOf } from './ring.ts';

/** Smaller sets of columns are not counted: most of them are shared by all results of the same statement. */
const countedColumnsBytesMin = 8 * 1024;

/** Pages that hold less are not counted while they are sent. */
export const countedPageBytesMin = 16 * 1024;

/** Rows and bytes that the worker may send in addition. */
export interface Credit {
  readonly bytes: number;
  readonly rows: number;
}

/**
 * The rows of one query on the main thread, and the memory that they take: rows that wait (`#ring`), those of the last
 * page, which may be requested again, and those of pages on their way to clients. The worker sends only as much as the
 * window has room for.
 */
export class RowBuffer {
  readonly #buffers: Buffers;
  readonly #reservation: MemoryReservation;
  readonly #ring = new Ring();
  /** Memory for rows that have not been handed out: those in the ring, and those that the worker has credit for. */
  #windowBytes: number;
  /** Whether rows may still come, so that the whole window is reserved. */
  #isReceiving = false;
  /** Rows, and the memory of batches, that the worker has sent and has not been credited for. */
  #uncreditedRows = 0;
  #uncreditedBytes = 0;
  #lastRows = noRows;
  /** Memory that the last page alone keeps of a batch, as the rest of the batch was dropped. */
  #partialBatchBytes = 0;
  #columnsBytes = 0;
  /** The size of a large row that a worker keeps in memory because the disk is full; 0: none. */
  #unwrittenBytes = 0;
  /** The memory of rows that are on their way to clients, by buffers, and in how many answers each is. */
  #sending: Map<ArrayBufferLike, number> | null = null;
  #isClosed = false;

  /** @param user whose query it is */
  constructor(buffers: Buffers, user: string) {
    this.#buffers = buffers;
    this.#reservation = new MemoryReservation(buffers, user);
    this.#windowBytes = buffers.floorBytes;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get rows(): number {
    return this.#ring.rows;
  }

  get bytes(): number {
    return this.#ring.bytes;
  }

  /** The limit of memory that the rows of all queries hold (`--results_bytes_max`). */
  get heldBytesMax(): number {
    return this.#buffers.heldBytesMax;
  }

  get windowBytes(): number {
    return this.#windowBytes;
  }

  /** Whether the query must fail: all rows exceed `heldBytesMax`, and its user holds more than an equal part. */
  get isOver(): boolean {
    return this.#reservation.isOver;
  }

  /** Whether the worker has used up its credit, so that no more rows come until a page is taken. */
  isOutOfCredit(bufferRows: number): boolean {
    return this.#uncreditedBytes >= this.#windowBytes || this.#uncreditedRows >= bufferRows;
  }

  set isReceiving(isReceiving: boolean) {
    this.#isReceiving = isReceiving;
    this.#updateReservation();
  }

  /** @returns false if there is no memory for the columns */
  holdColumns(columns: readonly Column[]): boolean {
    const bytes = columnsBytes(columns);
    if (bytes < countedColumnsBytesMin) return true;
    this.#columnsBytes = bytes;
    this.#updateReservation();
    if (!this.isOver) return true;
    this.#columnsBytes = 0;
    this.#updateReservation();
    return false;
  }

  set unwrittenBytes(bytes: number) {
    this.#unwrittenBytes = bytes;
    this.#updateReservation();
  }

  /**
   * @param mayGrow whether more rows may come; the window then doubles if there is memory
   * @returns bytes to credit to the worker
   */
  push(batch: Batch, mayGrow: boolean): number {
    this.#ring.push(batch);
    this.#uncreditedRows += batch.rows;
    this.#uncreditedBytes += batch.buffer.byteLength;
    const before = this.#windowBytes;
    if (mayGrow) this.#windowBytes = this.#buffers.grown(before);
    this.#updateReservation();
    return this.#windowBytes - before;
  }

  /**
   * Takes the rows of a page. Call `keep` with them if they are those of the last page from then on.
   * @returns the rows, and what to credit to the worker for them; null if there are none
   */
  take(pageRows: number, pageBytes: number): { readonly rows: Rows; readonly credit: Credit } | null {
    if (this.#ring.rows === 0) return null;
    const rows = this.#ring.take(pageRows, pageBytes);
    const freeBytes = this.#uncreditedBytes - this.#ring.heldBytes;
    this.#uncreditedRows -= rows.count;
    this.#uncreditedBytes -= freeBytes;
    const before = this.#windowBytes;
    this.#windowBytes = this.#buffers.shrunk(before, freeBytes);
    return { rows, credit: { bytes: freeBytes - (before - this.#windowBytes), rows: rows.count } };
  }

  /** The rows replace those of the last page. */
  keep(rows: Rows): void {
    const before = this.#lastRows;
    this.#partialBatchBytes = 0;
    this.#lastRows = rows;
    this.#freeRows(before);
    this.#updateReservation();
  }

  /** Drops the rows that have not been handed out. */
  drop(): void {
    this.#partialBatchBytes += this.#ring.partialBatch?.byteLength ?? 0;
    this.#unwrittenBytes = 0;
    this.#free(this.#ring.clear());
    this.#updateReservation();
  }

  /** Drops all rows but those that are on their way to clients, and releases their memory when these have left. */
  close(): void {
    this.#isClosed = true;
    this.#isReceiving = false;
    this.#columnsBytes = 0;
    this.#unwrittenBytes = 0;
    this.#free(this.#ring.clear());
    this.keep(noRows);
    if (this.#sending === null) this.#reservation.close();
  }

  /**
   * An answer with the rows of a page is on its way. A client may read it slowly, so the rows stay counted until `sent`, also after
   * the next page or the removal of the query. A few rows hold the whole batch that they are part of.
   */
  sending(rows: Rows): void {
    this.#sending ??= new Map();
    for (const buffer of buffersOf(rows)) this.#sending.set(buffer, (this.#sending.get(buffer) ?? 0) + 1);
    // The pages of a kept result are read from disk, and nothing has counted them before.
    this.#updateReservation();
  }

  /** The answer has left, or its client has gone. */
  sent(rows: Rows): void {
    const sending = this.#sending;
    if (sending === null) return;
    for (const buffer of buffersOf(rows)) {
      const answers = (sending.get(buffer) ?? 0) - 1;
      if (answers > 0) sending.set(buffer, answers);
      else sending.delete(buffer);
    }
    if (sending.size === 0) this.#sending = null;
    // The last page is kept for repeated requests.
    if (rows !== this.#lastRows) this.#freeRows(rows);
    this.#updateReservation();
    if (this.#isClosed && this.#sending === null) this.#reservation.close();
  }

  /**
   * Frees the memory of batches that nothing needs, at the end of the turn: a page that has just been made may be passed to
   * `sending` later in this turn.
   */
  #free(buffers: readonly ArrayBuffer[]): void {
    if (buffers.length === 0) return;
    const unneeded = new Set(buffers.filter(({ byteLength }) => byteLength >= freedBytesMin));
    if (unneeded.size === 0) return;
    setImmediate(() => {
      const needed = buffersOf(this.#lastRows);
      if (this.#ring.partialBatch !== null) needed.add(this.#ring.partialBatch);
      for (const buffer of unneeded) {
        // A buffer without bytes has been freed.
        if (buffer.byteLength === 0 || needed.has(buffer) || this.#sending?.has(buffer) === true)
          unneeded.delete(buffer);
      }
      freeBuffers([...unneeded]);
    });
  }

  #freeRows(rows: Rows): void {
    if (isHolding(rows, freedBytesMin)) this.#free(uncompressedBuffersOf(rows));
  }

  /** Reserves memory for rows that wait or may come, for the last page, and for pages that are on their way to clients. */
  #updateReservation(): void {
    const ringBytes = this.#ring.heldBytes;
    const windowBytes = this.#isReceiving ? Math.max(this.#windowBytes, ringBytes) : ringBytes;
    let otherBytes = this.#lastRows.heldBytes + this.#partialBatchBytes + this.#columnsBytes + this.#unwrittenBytes;
    if (this.#sending !== null) {
      // The buffers of the last page are counted already, with it or with the rest of their batch.
      const counted = buffersOf(this.#lastRows);
      for (const buffer of this.#sending.keys()) if (!counted.has(buffer)) otherBytes += buffer.byteLength;
    }
    this.#reservation.set(windowBytes + otherBytes, ringBytes + otherBytes);
  }
}
