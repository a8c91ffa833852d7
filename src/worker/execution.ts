import { constants, crc32, deflateRawSync } from 'node:zlib';
import type { FromWorker, StatementEnd, ToldColumns, ToWorker } from '../wire/messages.ts';
import { type Batch, type Column, type Failure, failures, type GzipRequest } from '../wire/statement.ts';
import type { ResultSink } from './answers.ts';
import { type ColumnDefinition, describeColumn } from './columns.ts';
import { saysNothing } from './comments.ts';
import { type DriverError, emptyStatement, statementFailure } from './failures.ts';
import { type KernelStop, kernel, kernelStop } from './kernel.ts';
import type { Ending } from './packets.ts';
import { RowEncoder } from './row-encoder.ts';

/** Rows but the first wait this long for company, so that a trickle does not make a message of every row. */
const flushMs = 4;
/** Below this size a batch is not compressed: what that saves is less than what it costs. */
const deflateBytesMin = 1024;
/** Below this size a batch is copied to the main thread; handing memory over costs more than copying so little. */
const transferBytesMin = 16 * 1024;

interface Description {
  readonly columns: readonly Column[];
  readonly kinds: Uint8Array;
}

/** Definitions are the same array if they are known, and then their description is. */
const descriptions = new WeakMap<readonly ColumnDefinition[], Description>();

function describe(definitions: readonly ColumnDefinition[]): Description {
  const known = descriptions.get(definitions);
  if (known !== undefined) return known;
  const described = definitions.map(describeColumn);
  const description = {
    columns: described.map(({ column }) => column),
    kinds: Uint8Array.from(described, ({ kind }) => kind),
  };
  descriptions.set(definitions, description);
  return description;
}

type News = FromWorker & { type: 'news' };

/** What an execution needs of the lease that it runs in. */
export interface ExecutionHost {
  readonly rowBytesMax: number;
  /** @param transfer memory that is handed over instead of copied */
  post(message: News, transfer?: ArrayBuffer): void;
  /** How the main thread is told of columns. */
  toldAs(columns: readonly Column[]): ToldColumns;
  pause(): void;
  resume(): void;
  /** A row is too large: the statement is to be ended in the database. */
  stop(): void;
  /** The statement has ended in the database; `error` is why it failed, if the database is to be believed. */
  ended(error: DriverError | null): void;
}

/**
 * One statement on the connection: turns what the database sends into messages, as far as the reader's credit goes.
 * States: told (its end is known to the main thread, or of no interest any more; what still comes is dropped), ended
 * (the database is done with it).
 */
export class Execution implements ResultSink {
  readonly number: number;
  readonly clean: boolean;
  readonly sql: string;
  readonly #host: ExecutionHost;
  #creditBytes: number;
  #creditRows: number;
  readonly #gzip: GzipRequest | null;
  #columns: readonly Column[] | null = null;
  #columnsTold = false;
  #toldRows = 0;
  #encoder: RowEncoder | null = null;
  #end: StatementEnd | null = null;
  #told = false;
  #manyResultSets = false;
  #leftUtf8 = false;
  #sessionChanged = true;
  #paused = false;
  #ended = false;
  #flushTimer: NodeJS.Timeout | null = null;
  /** The first news waits for no more than what has arrived already. */
  #firstFlush: NodeJS.Immediate | null = null;

  constructor(message: ToWorker & { type: 'execute' }, host: ExecutionHost) {
    this.number = message.statement;
    this.clean = message.clean;
    this.sql = message.sql;
    this.#creditBytes = message.creditBytes;
    this.#creditRows = message.creditRows;
    this.#gzip = message.gzip;
    this.#host = host;
  }

  /** Whether the database is done with the statement. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Whether text would come in another character set from now on. */
  get leftUtf8(): boolean {
    return this.#leftUtf8;
  }

  /** Whether it may have changed its session, as far as the database tells; a failure does not tell. */
  get sessionChanged(): boolean {
    return this.#sessionChanged;
  }

  columns(definitions: readonly ColumnDefinition[]): void {
    if (this.#columns !== null) {
      this.#manyResultSets = true;
      this.#dropRows();
      return;
    }
    const { columns, kinds } = describe(definitions);
    this.#columns = columns;
    if (this.#told) return;
    this.#encoder = new RowEncoder(kinds, this.#host.rowBytesMax, (batch) => this.#tell(batch));
    this.#flushSoon();
  }

  rows(from: number, to: number): KernelStop {
    for (let at = from; ; at = kernel.consumed) {
      // Rows that are not wanted are stepped over packet by packet.
      if (this.#encoder === null) return skip(at);
      const stop = this.#encoder.encode(at, to, this.#batchRowsMax);
      if (stop === kernelStop.rowTooLarge) this.rowTooLarge();
      else this.#afterRows();
      if (this.#paused || (stop !== kernelStop.outputFull && stop !== kernelStop.rowsMax)) return stop;
    }
  }

  row(bytes: Buffer, start: number, end: number): void {
    if (this.#encoder === null) return;
    if (this.#encoder.append(bytes, start, end)) this.#afterRows();
    else this.rowTooLarge();
  }

  rowTooLarge(): void {
    // Of rows that are dropped anyway, none is too large.
    if (this.#encoder === null) return;
    this.fail(failures.rowTooLarge(this.#host.rowBytesMax));
    this.#host.stop();
  }

  ended(ending: Ending): void {
    this.#leftUtf8 = ending.leftUtf8;
    this.#sessionChanged = ending.sessionChanged;
    if (this.#manyResultSets) this.#end = { ok: false, failure: failures.manyResultSets() };
    else if (this.#columns === null && saysNothing(this.sql)) this.#end = { ok: false, failure: emptyStatement };
    else this.#end = { ok: true, outcome: ending.outcome };
    this.#ended = true;
    this.#host.ended(null);
  }

  failed(error: DriverError): void {
    this.#end = { ok: false, failure: statementFailure(error) };
    this.#ended = true;
    this.#host.ended(error);
  }

  /** The reader takes so much more. */
  credit(bytes: number, rows: number): void {
    this.#creditBytes += bytes;
    this.#creditRows += rows;
    if (this.#creditBytes > 0 && this.#creditRows > 0) this.#resume();
  }

  /** Nobody wants to know any more. What the database still sends is read, as it cannot end while its socket is full. */
  abandon(): void {
    this.#told = true;
    this.#dropRows();
    this.#resume();
  }

  /** Tells that it has failed, whatever the database may still say. */
  fail(failure: Failure): void {
    this.#end = { ok: false, failure };
    this.tellEnd(false);
  }

  /**
   * Tells the last rows and the end, if they are not told.
   * @param idle whether to say as well that the connection is ready for its next statement
   * @returns whether anything was said
   */
  tellEnd(idle: boolean): boolean {
    if (this.#told || this.#end === null) return false;
    this.#told = true;
    const batch = this.#encoder?.take() ?? null;
    this.#post(batch === null ? null : this.#packed(batch), this.#end, idle);
    this.#dropRows();
    return true;
  }

  /** Ends its timers and gives its memory back. */
  close(): void {
    this.#dropRows();
  }

  /** Rows that the batch under way may have. Compressed ones end where pages do, so that full pages are made of them. */
  get #batchRowsMax(): number {
    if (this.#gzip === null) return this.#creditRows;
    return Math.min(this.#creditRows, this.#gzip.pageRows - (this.#toldRows % this.#gzip.pageRows));
  }

  #afterRows(): void {
    const rows = this.#encoder?.rows ?? 0;
    if (rows >= this.#batchRowsMax) this.#flush();
    else if (rows > 0) this.#flushSoon();
  }

  #flushSoon(): void {
    if (this.#toldRows === 0) this.#firstFlush ??= setImmediate(() => this.#flush());
    else this.#flushTimer ??= setTimeout(() => this.#flush(), flushMs);
  }

  #cancelFlush(): void {
    if (this.#firstFlush !== null) clearImmediate(this.#firstFlush);
    if (this.#flushTimer !== null) clearTimeout(this.#flushTimer);
    this.#firstFlush = null;
    this.#flushTimer = null;
  }

  #flush(): void {
    const batch = this.#encoder?.take() ?? null;
    if (batch !== null) this.#tell(batch);
    else if (!this.#columnsTold) this.#post(null, null, false);
  }

  /** Tells a batch, and stops reading if that was the last of the credit. */
  #tell(encoded: Batch): void {
    const batch = this.#packed(encoded);
    // To be asked before the memory is given away, since it is then no longer ours to measure.
    this.#creditBytes -= batch.buffer.byteLength;
    this.#creditRows -= batch.rows;
    this.#toldRows += batch.rows;
    this.#post(batch, null, false);
    if (this.#creditBytes > 0 && this.#creditRows > 0) return;
    this.#paused = true;
    this.#host.pause();
  }

  /** The batch as it is sent. */
  #packed(batch: Batch): Batch {
    if (this.#gzip === null || batch.length < deflateBytesMin) return batch;
    const text = new Uint8Array(batch.buffer, 0, batch.length);
    const { length, rows } = batch;
    const { level } = this.#gzip;
    // Room for all of it in one piece, lest it be put together from many.
    const deflated = deflateRawSync(text, { level, finishFlush: constants.Z_SYNC_FLUSH, chunkSize: length + 1024 });
    const bytes = Buffer.allocUnsafeSlow(deflated.length);
    bytes.set(deflated);
    return { buffer: bytes.buffer as ArrayBuffer, length, rows, deflatedCrc: crc32(text) };
  }

  #post(batch: Batch | null, end: StatementEnd | null, idle: boolean): void {
    this.#cancelFlush();
    const columns = this.#columnsTold ? null : this.#columns;
    this.#columnsTold = this.#columns !== null;
    this.#host.post(
      {
        type: 'news',
        statement: this.number,
        ...(columns === null ? {} : { columns: this.#host.toldAs(columns) }),
        ...(batch === null ? {} : { batch }),
        ...(end === null ? {} : { end }),
        ...(idle ? { idle: true } : {}),
      },
      batch !== null && batch.buffer.byteLength >= transferBytesMin ? batch.buffer : undefined,
    );
  }

  #resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#host.resume();
  }

  #dropRows(): void {
    this.#cancelFlush();
    this.#encoder?.release();
    this.#encoder = null;
  }
}

/** Leaves a row in the kernel's memory to be handed over by itself. */
function skip(at: number): KernelStop {
  kernel.consumed = at;
  return kernelStop.notARow;
}
