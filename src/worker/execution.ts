import { constants, crc32, deflateRawSync } from 'node:zlib';
import { type Cause, causes, type Failure, failureOf, interrupted, lostBefore, undelivered } from '../wire/failures.ts';
import type { FromWorker, SpillLimits, StatementEnd, ToldColumns, ToWorker } from '../wire/messages.ts';
import type { SpillUsage } from '../wire/spill-usage.ts';
import { effectOfText, type SqlTraits, saysNothing } from '../wire/sql-traits.ts';
import {
  type Afterwards,
  type Batch,
  type CellFormat,
  type Column,
  type GzipRequest,
  noExtras,
  type SessionState,
} from '../wire/statement.ts';
import type { ResultSink } from './answers.ts';
import { invalidCell } from './cells.ts';
import { type ColumnDefinition, describeColumn, isSentInUtf8 } from './columns.ts';
import { Delivery } from './delivery.ts';
import { type DriverError, emptyStatement, notSentFailure, statementFailure } from './failures.ts';
import { type KernelStop, kernel, kernelStop } from './kernel.ts';
import type { Ending } from './packets.ts';
import { RowEncoder } from './row-encoder.ts';
import type { RowFormat } from './row-format.ts';
import { mayHideEncoding, setsUnscoped } from './untracked.ts';

/** Rows but the first wait this long for company, so that a trickle does not make a message of every row. */
const flushMs = 4;
/** Below this size a batch is not compressed: what that saves is less than what it costs. */
const deflateBytesMin = 1024;
/** Below this size a batch is copied to the main thread; handing memory over costs more than copying so little. */
const transferBytesMin = 16 * 1024;

/** For so long a statement keeps the memory that was reserved for a large row. Then those of others have their turn. */
const grantMs = 100;

const notUtf8 = causes.notUtf8();

interface Description {
  readonly columns: readonly Column[];
  readonly isInUtf8: boolean;
  readonly format: RowFormat;
}

/** Definitions are the same array if they are known, and then their descriptions are, by the format of cells and rows. */
const descriptions = new WeakMap<readonly ColumnDefinition[], Record<string, Description>>();

function describe(definitions: readonly ColumnDefinition[], cells: CellFormat, isBinary: boolean): Description {
  let known = descriptions.get(definitions);
  if (known === undefined) {
    known = {};
    descriptions.set(definitions, known);
  }
  const key = isBinary ? `${cells}, binary` : cells;
  known[key] ??= describeAnew(definitions, cells, isBinary);
  return known[key];
}

function describeAnew(definitions: readonly ColumnDefinition[], cells: CellFormat, isBinary: boolean): Description {
  const described = definitions.map((definition) => describeColumn(definition, cells, isBinary));
  return {
    columns: described.map(({ column }) => column),
    isInUtf8: definitions.every(isSentInUtf8),
    format: {
      kinds: Uint8Array.from(described, ({ kind }) => kind),
      values: isBinary ? Uint16Array.from(described, ({ value }) => value as number) : null,
      cells,
    },
  };
}

/** Instead of columns that have been told. */
const noColumns: readonly Column[] = [];

type News = FromWorker & { type: 'news' };

/** What else there is to say with some rows, or with the end. */
interface More {
  readonly fromDisk?: boolean;
  readonly spilled?: { readonly rows: number; readonly bytes: number };
  readonly idle?: boolean;
}

/** What a statement tells of the memory of its large rows. */
type LargeRowNews = FromWorker & { type: 'large_row' | 'unwritten' };

/** What an execution needs of the lease that it runs in. */
export interface ExecutionHost {
  readonly rowBytesMax: number;
  readonly columnsMax: number;
  readonly spill: SpillLimits;
  readonly spillUsage: SpillUsage;
  /** @param transfer memory that is handed over instead of copied */
  post(message: News | LargeRowNews, transfer?: ArrayBuffer): void;
  /** How the main thread is told of columns. */
  toldAs(columns: readonly Column[]): ToldColumns;
  pause(): void;
  resume(): void;
  /** Drops the large row that is being received. */
  dropLarge(): void;
  /** It has failed on our side: the statement is to be ended in the database. */
  stop(): void;
  /** The statement has ended in the database; `error` is why it failed, if the database is to be believed. */
  ended(error: DriverError | null): void;
  /** Its rows, which were on disk when it ended, have been handed over, or are lost. */
  delivered(): void;
}

/**
 * One statement on the connection: turns what the database sends into messages, as far as the reader's credit goes.
 * States: told (its end is known to the main thread, or of no interest any more; what still comes is dropped), ended
 * (the database is done with it). Its delivery may outlast both, if rows are on disk; the connection is then another's.
 */
export class Execution implements ResultSink {
  readonly number: number;
  readonly after: Afterwards;
  /** Whether it is of no session, so that nothing is lost but itself. */
  readonly isAlone: boolean;
  readonly sql: string;
  readonly traits: SqlTraits | undefined;
  /** What it has left its session in, to be told with its end; null if that is of no interest. */
  session: SessionState | null = null;
  readonly #host: ExecutionHost;
  #creditBytes: number;
  #creditRows: number;
  /** Made for the first batch that goes before the end; whoever has few rows needs none. */
  #delivery: Delivery | null = null;
  readonly #gzip: GzipRequest | null;
  readonly #cells: CellFormat;
  /** Whether its rows are of the binary protocol, as those of prepared statements are. */
  readonly #isBinary: boolean;
  #columns: readonly Column[] | null = null;
  #columnsTold = false;
  #toldRows = 0;
  #encoder: RowEncoder | null = null;
  #end: StatementEnd | null = null;
  #told = false;
  /** Why its result cannot be given back, which is told when it has ended. */
  #undeliverable: Cause | null = null;
  #ending: Ending | null = null;
  #ended = false;
  /**
   * `asked`: for memory for the next row, which is large; `granted`: until the row is handed over or written to disk; `kept`: for
   * a large row that may follow soon.
   */
  #largeRow: 'none' | 'asked' | 'granted' | 'kept' = 'none';
  #grantedBytes = 0;
  #grantedAt = 0;
  /** Ends `kept`. */
  #keptTimer: NodeJS.Timeout | null = null;
  /** Its delivery has paused the connection. */
  #isHeldUp = false;
  #flushTimer: NodeJS.Timeout | null = null;
  /** The first news waits for no more than what has arrived already. */
  #firstFlush: NodeJS.Immediate | null = null;

  constructor(message: ToWorker & { type: 'execute' }, host: ExecutionHost, isAlone: boolean) {
    this.number = message.statement;
    this.after = message.after;
    this.isAlone = isAlone;
    this.sql = message.sql;
    this.traits = message.traits;
    this.#gzip = message.gzip;
    const { cells, params } = message.extras ?? noExtras;
    this.#cells = cells;
    this.#isBinary = params !== null;
    this.#host = host;
    this.#creditBytes = message.creditBytes;
    this.#creditRows = message.creditRows;
  }

  get saysNothing(): boolean {
    return this.traits?.saysNothing ?? saysNothing(this.sql);
  }

  /** Whether the database is done with the statement. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Whether it has ended, and rows of it are still to be handed over. */
  get hasRowsToCome(): boolean {
    return this.#ended && this.#delivery?.isSpilling === true;
  }

  /** How it has ended in the database; null if it has not, or has failed. */
  get ending(): Ending | null {
    return this.#ending;
  }

  /** See `Ending`; null if the statement has failed too. What the database does not report is looked for in the text. */
  get leftUtf8(): Ending['leftUtf8'] {
    const ending = this.#ending;
    if (this.#undeliverable === notUtf8) return ending?.leftUtf8 ?? 'text';
    if (ending === null) return null;
    return ending.leftUtf8 ?? (mayHideEncoding(this, ending.changes) ? 'text' : null);
  }

  /** Whether it may have changed its session, as far as the database tells; a failure does not tell. */
  get sessionChanged(): boolean {
    return this.#ending?.sessionChanged !== false || setsUnscoped(this);
  }

  get columnsMax(): number {
    return this.#host.columnsMax;
  }

  tooManyColumns(): void {
    const isFirst = this.#columns === null;
    this.#columns ??= [];
    if (isFirst) this.#columnsTold = true;
    else this.#dropRows();
    const cause = isFirst ? causes.columnsTooMany(this.columnsMax) : causes.manyResultSets();
    this.#undeliverable ??= cause;
    // What may write runs to its end, so that it is known what it has done.
    if (isFirst && !this.#told && effectOfText(this) === 'read') this.#failHere(cause);
  }

  columns(definitions: readonly ColumnDefinition[]): void {
    if (this.#columns !== null) {
      this.#undeliverable ??= causes.manyResultSets();
      this.#dropRows();
      return;
    }
    const { columns, isInUtf8, format } = describe(definitions, this.#cells, this.#isBinary);
    this.#columns = columns;
    if (!isInUtf8) this.#undeliverable = notUtf8;
    if (this.#told) return;
    if (!isInUtf8) {
      // What may write runs to its end, so that it is known what it has done.
      if (effectOfText(this) === 'read') this.#failHere(notUtf8);
      return;
    }
    this.#encoder = new RowEncoder(format, this.#host.rowBytesMax, (batch) => this.#tell(batch));
    this.#flushSoon();
  }

  rows(from: number, to: number): KernelStop {
    for (let at = from; ; at = kernel.consumed) {
      // Rows that are not wanted are stepped over packet by packet.
      if (this.#encoder === null) return skip(at);
      const stop = this.#encoder.encode(at, to, this.#batchRowsMax);
      if (stop === kernelStop.rowTooLarge) this.rowTooLarge();
      else this.#afterRows();
      if (this.#delivery?.isPaused || (stop !== kernelStop.outputFull && stop !== kernelStop.rowsMax)) return stop;
    }
  }

  row(bytes: Buffer, start: number, end: number): void {
    if (this.#encoder === null) return;
    if (this.#encoder.append(bytes, start, end)) this.#afterRows();
    else this.rowTooLarge();
    if (this.#delivery?.hasLarge !== true) this.#largeRowGone();
  }

  wantsLargeRow(bytesMax: number): boolean {
    if (this.#encoder === null) return false;
    if (this.#largeRow === 'asked' || this.#largeRow === 'granted') return true;
    // Without rows before it, nothing but the row itself can use up the reader's credit while memory is reserved for it.
    this.#flush(true);
    if (this.#isHeldUp) return true;
    this.#cancelKeptTimer();
    if (this.#largeRow === 'kept' && bytesMax <= this.#grantedBytes) {
      this.#largeRow = 'granted';
      return true;
    }
    this.#largeRow = 'asked';
    this.#grantedBytes = bytesMax;
    this.#host.pause();
    // It takes the place of what is kept.
    this.#host.post({ type: 'large_row', statement: this.number, bytes: bytesMax });
    return true;
  }

  /** The memory for the large row is reserved. */
  roomGranted(): void {
    if (this.#largeRow !== 'asked') return;
    this.#largeRow = 'granted';
    this.#grantedAt = performance.now();
    this.#resume();
  }

  rowTooLarge(): void {
    // Of rows that are dropped anyway, none is too large.
    if (this.#encoder === null) return;
    this.#failHere(causes.rowTooLarge(this.#host.rowBytesMax));
  }

  ended(ending: Ending): void {
    this.#ending = ending;
    if (this.#undeliverable === null && this.#hasForeignText(ending)) this.#undeliverable = notUtf8;
    if (this.#undeliverable !== null) {
      this.#dropRows();
      this.#end = { ok: false, failure: undelivered(this.#undeliverable, effectOfText(this)) };
    } else if (this.#columns === null && this.saysNothing) this.#end = { ok: false, failure: emptyStatement };
    else this.#end = { ok: true, outcome: ending.outcome, rowsToCome: 0 };
    this.#ended = true;
    this.#host.ended(null);
  }

  /**
   * Whether the rows have text in another character set though the definitions of the columns did not say so. MySQL defines JSON
   * columns as binary, and sends no JSON that is invalid. MariaDB sends rows in another character set once a stored function has
   * set it, and says at their end that something has changed, as it does in a transaction that is tracked.
   */
  #hasForeignText({ sessionChanged, inTransaction }: Ending): boolean {
    const invalid = this.#encoder?.invalid ?? 0;
    if (invalid === 0) return false;
    return (invalid & invalidCell.json) !== 0 || (sessionChanged && !(inTransaction && this.after === 'hold'));
  }

  failed(error: DriverError): void {
    this.#endWith(error, statementFailure(error, effectOfText(this), this.isAlone));
  }

  /** It has not been executed, and will not be: what had to come before has failed. */
  notSent(error: DriverError): void {
    this.#endWith(error, notSentFailure(error, this.isAlone));
  }

  /** It will not be executed, for a reason of ours. */
  rejected(cause: Cause): void {
    this.#endWith(null, failureOf(cause, 'not_started'));
  }

  /** The reader takes so much more. */
  credit(bytes: number, rows: number): void {
    if (this.#delivery !== null) {
      this.#delivery.credit(bytes, rows);
      return;
    }
    this.#creditBytes += bytes;
    this.#creditRows += rows;
  }

  /** Nobody wants to know any more. What the database still sends is read, as it cannot end while its socket is full. */
  abandon(): void {
    this.#told = true;
    this.close();
  }

  /** The connection is lost: tells that it has failed. */
  lost(reason: string, wasSent: boolean): void {
    this.#fail(
      wasSent
        ? interrupted(causes.connectionLost(reason), effectOfText(this), this.isAlone)
        : lostBefore(reason, this.isAlone),
    );
  }

  /**
   * Tells the last rows and the end, if they are not told. If rows are being put to disk, that will be done when they are.
   * @param idle whether to say as well that the connection is ready for its next statement
   * @returns whether `idle` was said
   */
  tellEnd(idle: boolean): boolean {
    const end = this.#end;
    if (this.#told || end === null) return false;
    this.#told = true;
    const last = this.#encoder?.take() ?? null;
    const batch = last === null ? null : this.#packed(last);
    this.#dropRows();
    const delivery = this.#delivery;
    if (end.ok && delivery?.isSpilling) {
      if (batch !== null) delivery.send(batch);
      delivery.end((rowsToCome) => this.#post(null, { ...end, rowsToCome }));
      return false;
    }
    delivery?.close();
    this.#post(batch, end, { idle });
    return idle;
  }

  /** Ends its timers and gives its memory back, on disk too. */
  close(): void {
    this.#dropRows();
    this.#delivery?.close();
  }

  #endWith(error: DriverError | null, failure: Failure): void {
    this.#end = { ok: false, failure };
    this.#ended = true;
    this.#host.ended(error);
  }

  #fail(failure: Failure): void {
    this.#end = { ok: false, failure };
    this.tellEnd(false);
  }

  /** Tells that it has failed for a reason of ours, and has it ended in the database. */
  #failHere(cause: Cause): void {
    this.#fail(interrupted(cause, effectOfText(this), this.isAlone));
    this.#host.stop();
  }

  /** Rows are lost that were put to disk, or should be. */
  #lose(error: NodeJS.ErrnoException): void {
    const cause = causes.spillFailed(fileTrouble(error));
    // What is not told yet comes behind what is lost.
    this.#dropRows();
    if (!this.#ended) {
      this.#failHere(cause);
      return;
    }
    // The statement has done what it does.
    this.#told = true;
    this.#post(null, { ok: false, failure: undelivered(cause, effectOfText(this)) });
    this.#host.delivered();
  }

  /** Rows that the batch under way may have. Compressed ones end where pages do, so that full pages are made of them. */
  get #batchRowsMax(): number {
    const wanted = this.#delivery?.rowsWanted ?? this.#creditRows;
    if (this.#gzip === null) return wanted;
    return Math.min(wanted, this.#gzip.pageRows - (this.#toldRows % this.#gzip.pageRows));
  }

  #afterRows(): void {
    const rows = this.#encoder?.rows ?? 0;
    if (rows >= this.#batchRowsMax) this.#flush(true);
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

  /** @param isFull whether the batch may not have more rows, and has to go whoever waits for it */
  #flush(isFull = false): void {
    // Who reads from disk does not wait for these; and few rows would make small pieces there.
    if (!isFull && this.#delivery?.isSpilling && this.#columnsTold) {
      this.#cancelFlush();
      return;
    }
    const batch = this.#encoder?.take() ?? null;
    if (batch !== null) this.#tell(batch);
    else if (!this.#columnsTold) this.#post(null, null);
  }

  #tell(encoded: Batch): void {
    const batch = this.#packed(encoded);
    this.#toldRows += batch.rows;
    this.#cancelFlush();
    this.#delivery ??= this.#begun();
    this.#delivery.send(batch);
  }

  #begun(): Delivery {
    const host = this.#host;
    return new Delivery(this.#creditBytes, this.#creditRows, host.spill, host.spillUsage, {
      post: (batch, fromDisk) => this.#post(batch, null, { fromDisk }),
      spilled: (rows, bytes) => this.#post(null, null, { spilled: { rows, bytes } }),
      unwritten: (bytes) => {
        host.post({ type: 'unwritten', statement: this.number, bytes });
        this.#releaseLargeRow();
      },
      largeGone: () => this.#largeRowGone(),
      pause: () => {
        this.#isHeldUp = true;
        host.pause();
      },
      resume: () => {
        this.#isHeldUp = false;
        this.#resume();
      },
      hungry: () => this.#flush(),
      failed: (error) => this.#lose(error),
      done: () => host.delivered(),
    });
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

  #post(batch: Batch | null, end: StatementEnd | null, more: More = {}): void {
    this.#cancelFlush();
    const columns = this.#columnsTold ? null : this.#columns;
    this.#columnsTold = this.#columns !== null;
    // They can take megabytes, and the rows can take hours.
    if (columns !== null) this.#columns = noColumns;
    this.#host.post(
      {
        type: 'news',
        statement: this.number,
        ...(columns === null ? {} : { columns: this.#host.toldAs(columns) }),
        ...(batch === null ? {} : { batch }),
        ...(more.fromDisk ? { fromDisk: true } : {}),
        ...(more.spilled === undefined ? {} : { spilled: more.spilled }),
        ...(end === null ? {} : { end }),
        ...(end === null || this.session === null ? {} : { session: this.session }),
        ...(more.idle ? { idle: true } : {}),
      },
      batch !== null && batch.buffer.byteLength >= transferBytesMin ? batch.buffer : undefined,
    );
  }

  #dropRows(): void {
    this.#cancelFlush();
    this.#encoder?.release();
    this.#encoder = null;
    if (this.#largeRow === 'none' || this.#delivery?.hasLarge) return;
    this.#host.dropLarge();
    this.#releaseLargeRow();
  }

  /**
   * A large row is handed over, written or dropped. To ask anew for each of many would take longer than to receive those of a
   * megabyte.
   */
  #largeRowGone(): void {
    if (this.#largeRow === 'none' || this.#largeRow === 'asked') return;
    const leftMs = this.#grantedAt + grantMs - performance.now();
    if (leftMs <= 0 || this.#encoder === null) {
      this.#releaseLargeRow();
      return;
    }
    this.#largeRow = 'kept';
    this.#keptTimer ??= setTimeout(() => this.#releaseLargeRow(), leftMs);
  }

  #cancelKeptTimer(): void {
    if (this.#keptTimer !== null) clearTimeout(this.#keptTimer);
    this.#keptTimer = null;
  }

  #releaseLargeRow(): void {
    const state = this.#largeRow;
    if (state === 'none') return;
    this.#cancelKeptTimer();
    this.#largeRow = 'none';
    this.#host.post({ type: 'large_row', statement: this.number, bytes: 0 });
    if (state === 'asked') this.#resume();
  }

  #resume(): void {
    if (!this.#isHeldUp && this.#largeRow !== 'asked') this.#host.resume();
  }
}

/** Leaves a row in the kernel's memory to be handed over by itself. */
function skip(at: number): KernelStop {
  kernel.consumed = at;
  return kernelStop.notARow;
}

/** What a client may know of an error of the file system: not where it was. */
function fileTrouble({ code, message }: NodeJS.ErrnoException): string {
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return 'there is no space left on the device';
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
    // That a folder cannot be made is told so on some file systems.
    case 'ENOENT':
      return 'the folder cannot be written';
    default:
      return code ?? message;
  }
}
