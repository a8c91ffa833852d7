import type { Cause } from '../wire/failures.ts';
import type { KeepRequest, KeptBatch } from '../wire/kept-rows.ts';
import type { StatementUpdate } from '../wire/messages.ts';
import type { Batch, Column, StatementRequest } from '../wire/statement.ts';
import { ArrowBatches } from './arrow/arrow-batches.ts';
import type { ArrowRowFormat } from './arrow/arrow-columns.ts';
import type { BatchDelivery } from './batch-delivery.ts';
import { deflated } from './deflate.ts';
import { Delivery } from './delivery.ts';
import { FlushTimer } from './flush-timer.ts';
import { KeptDelivery, type KeptDeliveryHost } from './kept-delivery.ts';
import type { KeptColumns } from './kept-file.ts';
import { type KernelStop, kernel, kernelStop } from './kernel.ts';
import { LargeRow, type LargeRowHost } from './large-row.ts';
import type { RowBatches } from './row-batches.ts';
import { RowCollector } from './row-collector.ts';
import { RowEncoder } from './row-encoder.ts';
import type { RowFormat } from './row-format.ts';
import type { RowOutputHost, RowOutputListener, RowSource } from './row-output-host.ts';

/** A smaller batch is copied to the main thread; transferring its memory would cost more. */
const transferBytesMin = 16 * 1024;

/** Replaces columns that have been reported. */
const noColumns: readonly Column[] = [];
const noDetails = {};
const fromDiskDetails = { fromDisk: true } as const;

/** The part of an update that is not columns or rows. */
type UpdateDetails = Omit<StatementUpdate, 'type' | 'statement' | 'columns' | 'batch'>;

/**
 * Sends the columns and rows of one statement to the main thread: encodes rows, gathers them in batches, and decides when a batch
 * is due. `Delivery` then sends it as far as the reader's credit goes.
 */
export class RowOutput implements KeptDeliveryHost, LargeRowHost {
  readonly #owner: RowOutputListener;
  readonly #source: RowSource;
  readonly #host: RowOutputHost;
  readonly #gzipLevel: number;
  readonly #pageRows: number;
  /** null: the rows are sent to the reader. */
  readonly #keep: KeepRequest | null;
  #creditBytes: number;
  #creditRows: number;
  /** Created for the first batch that is sent before the end, since most results have none. */
  #delivery: BatchDelivery | null = null;
  #columns: readonly Column[] | null = null;
  #areColumnsReported = false;
  #sentRows = 0;
  /** Whether the rows of a batch can be divided between pages. */
  #areDivisible: boolean;
  #encoder: RowBatches | null = null;
  readonly #largeRow = new LargeRow(this);
  /** The delivery has paused the connection. */
  #isPaused = false;
  readonly #flushTimer: FlushTimer;

  constructor(
    { creditBytes, creditRows, gzipLevel, pageRows, keep }: StatementRequest,
    owner: RowOutputListener,
    source: RowSource,
    host: RowOutputHost,
  ) {
    this.#owner = owner;
    this.#source = source;
    this.#host = host;
    this.#gzipLevel = keep === null ? gzipLevel : 0;
    this.#pageRows = pageRows;
    this.#areDivisible = this.#gzipLevel === 0;
    this.#keep = keep;
    this.#flushTimer = new FlushTimer(keep !== null, () => this.#flush());
    this.#creditBytes = creditBytes;
    this.#creditRows = creditRows;
  }

  /** Whether there is a result set. */
  get hasColumns(): boolean {
    return this.#columns !== null;
  }

  /** Whether rows are on disk, or are being written. */
  get isSpilling(): boolean {
    return this.#delivery?.isSpilling === true;
  }

  /** Whether rows are encoded and not dropped. */
  get wantsRows(): boolean {
    return this.#encoder !== null;
  }

  /** Rows so far. */
  get rowCount(): number {
    return this.#sentRows + (this.#encoder?.rows ?? 0);
  }

  /** See `RowEncoder.invalid`. */
  get invalid(): number {
    return this.#encoder?.invalid ?? 0;
  }

  /** The columns are reported with the next update. */
  setColumns(columns: readonly Column[]): void {
    this.#columns = columns;
  }

  /** The result has too many columns. The statement fails, so they are not reported. */
  omitColumns(): void {
    this.#columns = noColumns;
    this.#areColumnsReported = true;
  }

  /** Rows follow. Without this call, they are dropped. */
  start(format: RowFormat | ArrowRowFormat, columns: KeptColumns): void {
    const { rowBytesMax } = this.#host.limits;
    const send = (batch: Batch): void => this.#send(batch);
    if (!('layout' in format)) {
      const failed = (cause: Cause): void => this.#owner.unrepresentable(cause);
      this.#encoder = new ArrowBatches(format, rowBytesMax, send, failed);
      this.#areDivisible = false;
    } else if (this.#keep === null) {
      this.#encoder = new RowEncoder(format, rowBytesMax, send);
    } else {
      this.#encoder = new RowCollector(format, rowBytesMax, send);
      this.#delivery = new KeptDelivery(this.#keep, columns, this.#creditBytes, this);
    }
    this.#flushTimer.start(this.#sentRows === 0);
  }

  /** See `ResultSink.rows`. */
  rows(from: number, to: number): KernelStop {
    for (let at = from; ; at = kernel.consumed) {
      // Unwanted rows are skipped packet by packet.
      if (this.#encoder === null) return skip(at);
      const stop = this.#encoder.encode(at, to, this.#batchRowsMax);
      if (stop === kernelStop.rowTooLarge) this.#owner.rowTooLarge();
      else this.#afterRows();
      if (this.#delivery?.isPaused || (stop !== kernelStop.outputFull && stop !== kernelStop.rowsMax)) return stop;
    }
  }

  /** See `ResultSink.row`. */
  row(bytes: Buffer, start: number, end: number): void {
    if (this.#encoder === null) return;
    if (this.#encoder.append(bytes, start, end)) this.#afterRows();
    else this.#owner.rowTooLarge();
    if (this.#delivery?.hasLarge !== true) this.largeGone();
  }

  /** See `ResultSink.wantsLargeRow`. */
  wantsLargeRow(bytesMax: number): boolean {
    if (this.#encoder === null) return false;
    if (this.#largeRow.isReserved) return true;
    // While memory is reserved, only the large row itself may use up the reader's credit, so the rows before it go first.
    this.#flush(true);
    if (!this.#isPaused) this.#largeRow.reserve(bytesMax);
    return true;
  }

  /** The main thread has reserved memory for the large row. */
  memoryGranted(): void {
    this.#largeRow.granted();
  }

  /** The reader takes this much more. */
  credit(bytes: number, rows: number): void {
    if (this.#delivery !== null) {
      this.#delivery.credit(bytes, rows);
      return;
    }
    this.#creditBytes += bytes;
    this.#creditRows += rows;
  }

  /** Reports columns that are not reported yet, a batch if there is one, and the details. */
  post(batch: Batch | null, details: UpdateDetails): void {
    this.#flushTimer.cancel();
    const columns = this.#areColumnsReported ? null : this.#columns;
    this.#areColumnsReported = this.#columns !== null;
    // The columns can take megabytes, and the rows can take hours to arrive.
    if (columns !== null) this.#columns = noColumns;
    this.#host.post(
      {
        type: 'update',
        statement: this.#owner.number,
        ...(columns === null ? noDetails : { columns: this.#host.columnsRefs.refTo(columns) }),
        ...(batch === null ? noDetails : { batch }),
        ...details,
      },
      batch !== null && batch.buffer.byteLength >= transferBytesMin ? batch.buffer : undefined,
    );
  }

  /** No other rows follow: whatever is wrong with the last of them is reported now. */
  complete(): void {
    this.#encoder?.complete();
  }

  /** The rows that have not been sent. Later ones are dropped. */
  takeLast(): Batch | null {
    const batch = this.#encoder?.take() ?? null;
    const last = batch === null ? null : this.#packed(batch);
    this.dropRows();
    return last;
  }

  /**
   * Ends a result whose rows are being written to disk.
   * @param last see `takeLast`
   * @param report receives the number of rows that have yet to be delivered, once the rest is on disk
   */
  drain(last: Batch | null, report: (rowsToCome: number) => void): void {
    if (last !== null) this.#delivery?.send(last);
    this.#delivery?.end(report);
  }

  /** Drops rows that have not been sent, and those that have yet to come. */
  dropRows(): void {
    this.#flushTimer.cancel();
    this.#encoder?.release();
    this.#encoder = null;
    if (this.#largeRow.isNone || this.#delivery?.hasLarge) return;
    this.#source.dropLarge();
    this.#largeRow.release();
  }

  /** Drops everything and frees memory, disk space and timers. */
  close(): void {
    this.dropRows();
    this.#delivery?.close();
  }

  /** For `Delivery`, as are the methods up to `done`. */
  deliver(batch: Batch, fromDisk: boolean): void {
    this.post(batch, fromDisk ? fromDiskDetails : noDetails);
  }

  spilled(rows: number, bytes: number): void {
    this.post(null, { spilled: { rows, bytes } });
  }

  kept(batch: KeptBatch): void {
    this.post(null, { kept: batch });
  }

  unwritten(bytes: number): void {
    this.#host.post({ type: 'unwritten', statement: this.#owner.number, bytes });
    this.#largeRow.release();
  }

  largeGone(): void {
    this.#largeRow.gone(this.#encoder !== null);
  }

  pause(): void {
    this.#isPaused = true;
    this.#source.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.onMemory();
  }

  onDrain(): void {
    this.#flush();
  }

  failed(error: NodeJS.ErrnoException): void {
    this.#owner.rowsLost(error);
  }

  done(): void {
    this.#owner.rowsDelivered();
  }

  /** For `LargeRow`, as are the next two. */
  requestMemory(bytes: number): void {
    this.#source.pause();
    this.#host.post({ type: 'large_row', statement: this.#owner.number, bytes });
  }

  releaseMemory(): void {
    this.#host.post({ type: 'large_row', statement: this.#owner.number, bytes: 0 });
  }

  onMemory(): void {
    if (!this.#isPaused && !this.#largeRow.isRequested) this.#source.resume();
  }

  /** The most rows of the current batch. One that cannot be divided ends where a page does, so that full pages consist of whole batches. */
  get #batchRowsMax(): number {
    const wanted = this.#delivery?.rowsWanted ?? this.#creditRows;
    if (this.#areDivisible) return wanted;
    return Math.min(wanted, this.#pageRows - (this.#sentRows % this.#pageRows));
  }

  #afterRows(): void {
    const rows = this.#encoder?.rows ?? 0;
    if (rows >= this.#batchRowsMax) this.#flush(true);
    else if (rows > 0) this.#flushTimer.start(this.#sentRows === 0);
  }

  /** @param isFull whether the batch may have no more rows, so that it must go now */
  #flush(isFull = false): void {
    // A reader who is behind reads from disk and does not wait for these rows; small batches would fragment the file.
    if (!isFull && this.#keep === null && this.#delivery?.isSpilling && this.#areColumnsReported) {
      this.#flushTimer.cancel();
      return;
    }
    const batch = this.#encoder?.take() ?? null;
    if (batch !== null) this.#send(batch);
    else if (!this.#areColumnsReported) this.post(null, noDetails);
  }

  #send(encoded: Batch): void {
    const batch = this.#packed(encoded);
    this.#sentRows += batch.rows;
    this.#flushTimer.cancel();
    const { limits, spillUsage } = this.#host;
    this.#delivery ??= new Delivery(this.#creditBytes, this.#creditRows, limits.spill, spillUsage, this);
    this.#delivery.send(batch);
  }

  #packed(batch: Batch): Batch {
    return this.#gzipLevel === 0 ? batch : deflated(batch, this.#gzipLevel);
  }
}

/** Leaves a row in the kernel's memory to be taken as a single packet. */
function skip(at: number): KernelStop {
  kernel.consumed = at;
  return kernelStop.notARow;
}
