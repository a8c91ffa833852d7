import type { ColumnDefinition } from './columns.ts';
import type { DriverError } from './failures.ts';
import type { KernelStop } from './kernel.ts';
import {
  type Ending,
  isEof,
  isError,
  type Prepared,
  readColumnCount,
  readColumnDefinition,
  readEof,
  readError,
  readOk,
  readPrepared,
} from './packets.ts';

/** Takes what a statement gives back. Bytes are only valid during a call. `ended` or `failed` comes last, once. */
export interface ResultSink {
  /** The most columns that a result may have; left out: any number. */
  readonly columnsMax?: number;
  /** A result has more columns, which are not read. */
  tooManyColumns?(): void;
  /** @param definitions the same array for the same columns, as far as they are remembered */
  columns(definitions: readonly ColumnDefinition[]): void;
  /** Takes row packets in the kernel's memory (see `PacketReader`); left out by those who want them all in `row`. */
  rows?(from: number, to: number): KernelStop;
  /** See `PacketReader.wantsLarge`, of a row; left out by those who want them all. */
  wantsLargeRow?(bytesMax: number): boolean;
  /** Takes one row's payload, `bytes[start, end)`, that was not for the kernel. */
  row(bytes: Buffer, start: number, end: number): void;
  /** A row is larger than any may be, and is dropped. */
  rowTooLarge(): void;
  ended(ending: Ending): void;
  failed(error: DriverError): void;
}

/** Definitions read before, by the bytes of their packets: few statements are run only once. Each thread has its own. */
const knownDefinitions = new Map<string, readonly ColumnDefinition[]>();
const knownDefinitionsMax = 256;
/** Of the packets together; what is longer is read anew each time. */
const knownBytesMax = 8 * 1024;

function definitionsOf(packets: readonly string[], extendedMetadata: boolean): readonly ColumnDefinition[] {
  // Each packet tells its own length, so that no two lists come out the same.
  const key = packets.join('');
  const known = knownDefinitions.get(key);
  if (known !== undefined) return known;
  const definitions = packets.map((packet) => readColumnDefinition(Buffer.from(packet, 'latin1'), 0, extendedMetadata));
  if (key.length > knownBytesMax) return definitions;
  if (knownDefinitions.size >= knownDefinitionsMax) knownDefinitions.clear();
  knownDefinitions.set(key, definitions);
  return definitions;
}

/** An answer that is awaited: its packets in order, or the reason why no more will come. */
export interface Answer {
  /** Whether rows come next, and where to if they are for the kernel. */
  readonly takeRows: ((from: number, to: number) => KernelStop) | null;
  /** @returns whether that was its last packet */
  packet(bytes: Buffer, start: number, end: number): boolean;
  wantsLarge(bytesMax: number): boolean;
  payloadTooLarge(): void;
  failed(error: DriverError): void;
}

/** The answer asks for a file of ours, which no honest server does: the connection has not agreed to LOCAL INFILE. */
export class LocalInfileError extends Error {
  override readonly name = 'LocalInfileError';

  constructor() {
    super('the database asked for a file though it was told that there are none');
  }
}

/**
 * The answer to a COM_QUERY (MySQL internals manual, "COM_QUERY Response"): result sets, the last of them ended. That to a
 * COM_STMT_EXECUTE is the same, but that its rows are in the binary protocol.
 */
export class StatementAnswer implements Answer {
  readonly #sink: ResultSink;
  readonly #extendedMetadata: boolean;
  readonly #takeRows: Answer['takeRows'];
  #expected: 'header' | 'column' | 'columns end' | 'row' = 'header';
  /** Definitions that are still to come. */
  #columnsLeft = 0;
  #isSkipped = false;
  /** The packets of the definitions so far, each byte a character. */
  #columns: string[] = [];
  #sessionChanged = false;

  /** @param extendedMetadata whether the connection has agreed on MARIADB_CLIENT_EXTENDED_METADATA */
  constructor(sink: ResultSink, extendedMetadata: boolean) {
    this.#sink = sink;
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
        if (!this.#isSkipped) this.#sink.columns(definitionsOf(this.#columns, this.#extendedMetadata));
        // They can take megabytes, and the rows can take hours.
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

  #end(ending: Ending): boolean {
    this.#expected = 'header';
    this.#sessionChanged ||= ending.sessionChanged;
    if (ending.moreResults) return false;
    this.#sink.ended({ ...ending, sessionChanged: this.#sessionChanged });
    return true;
  }
}

/** The answer to a command of which nobody wants the rows. */
export class PlainAnswer implements Answer {
  readonly takeRows = null;
  readonly #done: (error: DriverError | null) => void;
  readonly failed: (error: DriverError) => void;
  readonly #told: ((ending: Ending) => void) | null;
  /** Packets until the rows begin: the columns, and the EOF after them. */
  #columnPackets = 0;
  #inRows = false;

  /**
   * @param done called when the command has ended, with its error if it failed
   * @param lost called instead when no answer will come
   * @param told called before `done` with the end of a command that succeeded without rows
   */
  constructor(
    done: (error: DriverError | null) => void,
    lost: (error: DriverError) => void,
    told: ((ending: Ending) => void) | null = null,
  ) {
    this.#done = done;
    this.failed = lost;
    this.#told = told;
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
      if (!this.#inRows) this.#told?.(readOk(bytes, start, end));
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

/** The answer to a COM_STMT_PREPARE (MySQL internals manual, "COM_STMT_PREPARE Response"). What is said of columns is said again. */
export class PrepareAnswer implements Answer {
  readonly takeRows = null;
  readonly #done: (prepared: Prepared) => void;
  readonly failed: (error: DriverError) => void;
  #prepared: Prepared | null = null;
  /** Packets that are still to come. */
  #definitions = 0;

  constructor(done: (prepared: Prepared) => void, failed: (error: DriverError) => void) {
    this.#done = done;
    this.failed = failed;
  }

  packet(bytes: Buffer, start: number, end: number): boolean {
    if (this.#prepared === null) {
      if (isError(bytes, start)) {
        this.failed(readError(bytes, start, end));
        return true;
      }
      this.#prepared = readPrepared(bytes, start);
      const { placeholders, columns } = this.#prepared;
      // Behind definitions comes an EOF.
      this.#definitions = (placeholders === 0 ? 0 : placeholders + 1) + (columns === 0 ? 0 : columns + 1);
    } else {
      this.#definitions--;
    }
    if (this.#definitions > 0) return false;
    this.#done(this.#prepared);
    return true;
  }

  wantsLarge(): boolean {
    return true;
  }

  payloadTooLarge(): void {}
}
