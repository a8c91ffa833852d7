import type { ColumnDefinition } from './columns.ts';
import type { DriverError } from './failures.ts';
import type { KernelStop } from './kernel.ts';
import {
  isEof,
  isError,
  type OkPacket,
  type Prepared,
  readColumnCount,
  readColumnDefinition,
  readEof,
  readError,
  readOk,
  readPrepared,
} from './packets.ts';

/** Receives the result of a statement. Bytes are only valid during a call. `ended` or `failed` comes last, once. */
export interface ResultSink {
  /** The most columns of a result; no limit if omitted. */
  readonly columnsMax?: number;
  /** A result has more columns; their definitions are skipped. */
  tooManyColumns?(): void;
  /**
   * @param definitions the same array for the same columns while they are cached
   * @param isBinary whether the rows are in the binary protocol
   */
  columns(definitions: readonly ColumnDefinition[], isBinary: boolean): void;
  /** Takes row packets in the kernel's memory (see `PacketReader`); without it, every row comes through `row`. */
  rows?(from: number, to: number): KernelStop;
  /** See `PacketReader.wantsLarge`; without it, every large row is received. */
  wantsLargeRow?(bytesMax: number): boolean;
  /** Takes the payload of one row, `bytes[start, end)`, that `rows` did not take. */
  row(bytes: Buffer, start: number, end: number): void;
  /** A row exceeds the size limit and is dropped. */
  rowTooLarge(): void;
  ended(packet: OkPacket): void;
  failed(error: DriverError): void;
}

/** Parsed definitions by the bytes of their packets, since most statements are run repeatedly. One cache per thread. */
const knownDefinitions = new Map<string, readonly ColumnDefinition[]>();
const knownDefinitionsMax = 256;
/** Longer definitions, all packets together, are not cached. */
const knownBytesMax = 8 * 1024;

function definitionsOf(packets: readonly string[], extendedMetadata: boolean): readonly ColumnDefinition[] {
  // Each part of a packet has a length prefix, so different lists never join to the same key.
  const key = packets.join('');
  const known = knownDefinitions.get(key);
  if (known !== undefined) return known;
  const definitions = packets.map((packet) => readColumnDefinition(Buffer.from(packet, 'latin1'), 0, extendedMetadata));
  if (key.length > knownBytesMax) return definitions;
  if (knownDefinitions.size >= knownDefinitionsMax) knownDefinitions.clear();
  knownDefinitions.set(key, definitions);
  return definitions;
}

/** Reads an answer that is expected: its packets in order, or the reason why no more will come. */
export interface Answer {
  /** Non-null while rows come next that the kernel can encode. */
  readonly takeRows: ((from: number, to: number) => KernelStop) | null;
  /** @returns whether that was its last packet */
  packet(bytes: Buffer, start: number, end: number): boolean;
  wantsLarge(bytesMax: number): boolean;
  payloadTooLarge(): void;
  failed(error: DriverError): void;
}

/** The server requests a local file, although the connection has not agreed to LOCAL INFILE. */
export class LocalInfileError extends Error {
  override readonly name = 'LocalInfileError';

  constructor() {
    super('the database asked for a local file, which the connection has not agreed to');
  }
}

/**
 * The answer to a COM_QUERY (MySQL internals manual, "COM_QUERY Response"): one or more result sets. The answer to a
 * COM_STMT_EXECUTE differs only in its rows, which are in the binary protocol.
 */
export class StatementAnswer implements Answer {
  readonly #sink: ResultSink;
  readonly #isBinary: boolean;
  readonly #extendedMetadata: boolean;
  readonly #takeRows: Answer['takeRows'];
  #expected: 'header' | 'column' | 'columns end' | 'row' = 'header';
  /** Definitions that have yet to arrive. */
  #columnsLeft = 0;
  #isSkipped = false;
  /** The packets of the definitions so far, in latin1. */
  #columns: string[] = [];
  #sessionChanged = false;

  /**
   * @param extendedMetadata whether the connection has agreed on MARIADB_CLIENT_EXTENDED_METADATA
   * @param isBinary whether it answers a COM_STMT_EXECUTE
   */
  constructor(sink: ResultSink, extendedMetadata: boolean, isBinary = false) {
    this.#sink = sink;
    this.#isBinary = isBinary;
    this.#extendedMetadata = extendedMetadata;
    this.#takeRows =
      sink.rows === undefined ? null : (from, to) => (sink.rows as NonNullable<ResultSink['rows']>)(from, to);
  }

  get takeRows(): Answer['takeRows'] {
    return this.#expected === 'row' ? this.#takeRows : null;
  }

  packet(bytes: Buffer, start: number, end: number): boolean {
    if (isError(bytes, start) && this.#expected !== 'column') {
      this.#sink.failed(readError(bytes, start, end));
      return true;
    }
    switch (this.#expected) {
      case 'header':
        return this.#header(bytes, start, end);
      case 'column':
        if (!this.#isSkipped) this.#columns.push(bytes.toString('latin1', start, end));
        this.#columnsLeft--;
        if (this.#columnsLeft === 0) this.#expected = 'columns end';
        return false;
      case 'columns end':
        this.#expected = 'row';
        if (!this.#isSkipped) this.#sink.columns(definitionsOf(this.#columns, this.#extendedMetadata), this.#isBinary);
        // The definitions can take megabytes, and the rows can take hours to arrive.
        this.#columns = [];
        return false;
      case 'row':
        if (isEof(bytes, start, end)) return this.#end(readEof(bytes, start));
        this.#sink.row(bytes, start, end);
        return false;
    }
  }

  wantsLarge(bytesMax: number): boolean {
    return this.#expected !== 'row' || this.#sink.wantsLargeRow?.(bytesMax) !== false;
  }

  payloadTooLarge(): void {
    this.#sink.rowTooLarge();
  }

  failed(error: DriverError): void {
    this.#sink.failed(error);
  }

  #header(bytes: Buffer, start: number, end: number): boolean {
    const first = bytes[start];
    if (first === 0x00) return this.#end(readOk(bytes, start, end));
    if (first === 0xfb) throw new LocalInfileError();
    this.#columnsLeft = readColumnCount(bytes, start);
    this.#columns = [];
    this.#isSkipped = this.#columnsLeft > (this.#sink.columnsMax ?? this.#columnsLeft);
    if (this.#isSkipped) this.#sink.tooManyColumns?.();
    this.#expected = 'column';
    return false;
  }

  #end(packet: OkPacket): boolean {
    this.#expected = 'header';
    this.#sessionChanged ||= packet.sessionChanged;
    if (packet.moreResults) return false;
    this.#sink.ended({ ...packet, sessionChanged: this.#sessionChanged });
    return true;
  }
}

/** The answer to a command; its rows, if it has any, are dropped. */
export class PlainAnswer implements Answer {
  readonly takeRows = null;
  readonly #done: (error: DriverError | null) => void;
  readonly failed: (error: DriverError) => void;
  readonly #onOk: ((packet: OkPacket) => void) | null;
  /** Packets until the rows begin: the columns, and the EOF after them. */
  #columnPackets = 0;
  #inRows = false;

  /**
   * @param done called when the command has ended, with its error if it failed
   * @param lost called instead when no answer will come
   * @param onOk receives the OK packet of a command that succeeded without rows, before `done`
   */
  constructor(
    done: (error: DriverError | null) => void,
    lost: (error: DriverError) => void,
    onOk: ((packet: OkPacket) => void) | null = null,
  ) {
    this.#done = done;
    this.failed = lost;
    this.#onOk = onOk;
  }

  packet(bytes: Buffer, start: number, end: number): boolean {
    if (this.#columnPackets > 0) {
      this.#columnPackets--;
      this.#inRows = this.#columnPackets === 0;
      return false;
    }
    if (isError(bytes, start)) {
      this.#done(readError(bytes, start, end));
      return true;
    }
    if (this.#inRows ? isEof(bytes, start, end) : bytes[start] === 0x00) {
      if (!this.#inRows) this.#onOk?.(readOk(bytes, start, end));
      this.#done(null);
      return true;
    }
    if (!this.#inRows) this.#columnPackets = readColumnCount(bytes, start) + 1;
    return false;
  }

  wantsLarge(): boolean {
    return !this.#inRows;
  }

  payloadTooLarge(): void {}
}

/** A prepared statement. */
export interface PreparedStatement extends Prepared {
  /** Of the columns of its result; null: they were not asked for, or are too many. */
  readonly definitions: readonly ColumnDefinition[] | null;
}

/** How the definitions of columns in the answer to a COM_STMT_PREPARE are read. */
export interface ColumnReading {
  /** The definitions of more columns are skipped; 0: all are, as the answer to COM_STMT_EXECUTE repeats them. */
  readonly columnsMax: number;
  /** See `StatementAnswer`. */
  readonly extendedMetadata: boolean;
}

const skippingColumns: ColumnReading = { columnsMax: 0, extendedMetadata: false };

/** The answer to a COM_STMT_PREPARE (MySQL internals manual, "COM_STMT_PREPARE Response"). */
export class PrepareAnswer implements Answer {
  readonly takeRows = null;
  readonly #done: (prepared: PreparedStatement) => void;
  readonly failed: (error: DriverError) => void;
  readonly #reading: ColumnReading;
  #prepared: Prepared | null = null;
  /** Packets of definitions that have yet to arrive. */
  #definitions = 0;
  /** The packets of the columns' definitions so far, in latin1. */
  readonly #columns: string[] = [];

  constructor(
    done: (prepared: PreparedStatement) => void,
    failed: (error: DriverError) => void,
    reading = skippingColumns,
  ) {
    this.#done = done;
    this.failed = failed;
    this.#reading = reading;
  }

  get #keepsColumns(): boolean {
    return this.#prepared !== null && this.#prepared.columns <= this.#reading.columnsMax;
  }

  packet(bytes: Buffer, start: number, end: number): boolean {
    if (this.#prepared === null) {
      if (isError(bytes, start)) {
        this.failed(readError(bytes, start, end));
        return true;
      }
      this.#prepared = readPrepared(bytes, start);
      const { placeholders, columns } = this.#prepared;
      // An EOF packet follows the definitions.
      this.#definitions = (placeholders === 0 ? 0 : placeholders + 1) + (columns === 0 ? 0 : columns + 1);
    } else {
      // The columns come last, and an EOF packet after them.
      const isColumn = this.#definitions > 1 && this.#definitions <= this.#prepared.columns + 1;
      if (isColumn && this.#keepsColumns) this.#columns.push(bytes.toString('latin1', start, end));
      this.#definitions--;
    }
    if (this.#definitions > 0) return false;
    const { extendedMetadata } = this.#reading;
    const definitions = this.#keepsColumns ? definitionsOf(this.#columns, extendedMetadata) : null;
    this.#done({ ...this.#prepared, definitions });
    return true;
  }

  wantsLarge(): boolean {
    return true;
  }

  payloadTooLarge(): void {}
}
