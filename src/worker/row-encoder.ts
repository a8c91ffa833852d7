import { type Batch, rowEndsOffset } from '../wire/statement.ts';
import { valueBytes, valueText, valueType } from './binary-values.ts';
import {
  cellGrowthMax,
  cellKind,
  cellOverheadMax,
  invalidCell,
  isJsonText,
  nullCell,
  takeInvalid,
  writeCell,
} from './cells.ts';
import { cellPieceBytes, type KernelStop, kernel } from './kernel.ts';
import type { RowFormat } from './row-format.ts';

/** A batch of so many bytes, its row ends included, is given out: messages are to be few, and rows early. */
export const batchBytes = 224 * 1024;
/** A buffer for whoever fills batches, with some room beyond that. */
const bufferBytes = 256 * 1024;
/** What the kernel has made of one chunk becomes a batch of its own from this size on: it is copied only once then. */
const ownBatchBytes = 64 * 1024;
/** The first buffer of a statement: most results are smaller than one batch. */
const firstBufferBytes = 8 * 1024;
const firstRows = 256;
/** Cells up to this size are not worth the way to the kernel and back. */
const smallCellBytes = 256;
/** So that a buffer made for one large cell need not grow again for the few bytes after it. */
const growthSlackBytes = 1024;

interface Space {
  readonly out: Uint8Array;
  readonly rowEnds: Uint32Array;
}

/** What encoders began with that have ended, so that a small statement allocates none. Each thread has its own. */
const spareSpaces: Space[] = [];
const spareSpacesMax = 64;

const comma = 0x2c;
const bracketOpen = 0x5b;
const bracketClose = 0x5d;
const quote = 0x22;
const nullPrefix = 0xfb;
const binaryRowHeader = 0x00;
/** The first bits of a binary row's null bitmap are no column's. */
const nullBitsOffset = 2;

/**
 * Turns row packets into batches of JSON: `[1,"a",null],[2,…]`. They are of MySQL's text protocol ("Text Resultset Row": one
 * length-encoded string or 0xfb per column) or of the binary one ("Binary Protocol Resultset Row": a byte of 0, a bit per
 * column that says whether it is null, and the values that are not). It copies bytes; no string, number or object is made for a cell. The kernel does
 * the work; a row that is too large for it is written here cell by cell, with the same result.
 */
export class RowEncoder {
  readonly #format: RowFormat;
  readonly #nullBytes: Uint8Array;
  readonly #rowBytesMax: number;
  readonly #emit: (batch: Batch) => void;
  readonly #first: Space;
  #out: Uint8Array;
  #rowEnds: Uint32Array;
  #length = 0;
  #rows = 0;
  #invalid = 0;

  /** @param emit is given each batch that is full, its memory for keeps */
  constructor(format: RowFormat, rowBytesMax: number, emit: (batch: Batch) => void) {
    this.#format = format;
    this.#nullBytes = nullCell(format.cells);
    this.#rowBytesMax = rowBytesMax;
    this.#emit = emit;
    this.#first = spareSpaces.pop() ?? {
      out: Buffer.allocUnsafeSlow(firstBufferBytes),
      rowEnds: new Uint32Array(firstRows),
    };
    this.#out = this.#first.out;
    this.#rowEnds = this.#first.rowEnds;
  }

  /** Ends the use of the encoder. */
  release(): void {
    if (spareSpaces.length < spareSpacesMax) spareSpaces.push(this.#first);
  }

  /** What has been found in all rows: bits of `invalidCell`. */
  get invalid(): number {
    return this.#invalid;
  }

  /** Rows in the batch that is being filled. */
  get rows(): number {
    return this.#rows;
  }

  /**
   * Takes row packets that lie in the kernel's memory, as `Kernel.encode` does, and leaves its results behind.
   * @param rowsMax of the batch that is being filled, those in it included
   */
  encode(from: number, to: number, rowsMax: number): KernelStop {
    const before = this.#length;
    const stop = kernel.encode(this.#format, from, to, before, rowsMax - this.#rows, this.#rowBytesMax);
    const { rows, length } = kernel;
    this.#invalid |= kernel.takeInvalid();
    if (rows === 0) return stop;
    if (before > 0 && before + length > bufferBytes) this.#emitBatch();
    // If what was before them is gone, so is the comma between.
    const gone = before - this.#length;
    const skipped = gone > 0 ? 1 : 0;
    this.#reserveRows(rows);
    for (let row = 0; row < rows; row++) {
      this.#rowEnds[this.#rows++] = (kernel.rowEnds[row] as number) - gone - skipped;
    }
    const text = kernel.output.subarray(skipped, length);
    if (this.#length === 0 && text.length >= ownBatchBytes) {
      this.#length = text.length;
      this.#emit(this.#batchOf(text));
      return stop;
    }
    this.#reserve(text.length);
    this.#out.set(text, this.#length);
    this.#length += text.length;
    this.#emitIfFull();
    return stop;
  }

  /**
   * Appends the row whose packet's payload is `source[start … end)`, whatever its size.
   * @returns false, and appends nothing, if its JSON is larger than a row may be
   * @throws RangeError if a cell reaches past the end of the packet
   */
  append(source: Uint8Array, start: number, end: number): boolean {
    const before = this.#length;
    if (before > 0) {
      this.#reserve(1);
      this.#out[this.#length++] = comma;
    }
    const rowStart = this.#length;
    let fits = false;
    try {
      fits = this.#appendRow(source, start, end) && this.#length - rowStart <= this.#rowBytesMax;
    } finally {
      this.#invalid |= takeInvalid() | kernel.takeInvalid();
      if (!fits) this.#length = before;
    }
    if (!fits) return false;
    this.#reserveRows(1);
    this.#rowEnds[this.#rows++] = this.#length;
    this.#emitIfFull();
    return true;
  }

  #appendRow(source: Uint8Array, start: number, end: number): boolean {
    const view = new DataView(source.buffer, source.byteOffset, source.byteLength);
    const { kinds, values } = this.#format;
    const rowStart = this.#length;
    const nullsStart = start + 1;
    let from = start;
    if (values !== null) {
      from = nullsStart + ((kinds.length + nullBitsOffset + 7) >> 3);
      if (source[start] !== binaryRowHeader || from > end) throw new RangeError('a packet is no binary row');
    }
    this.#reserve(1);
    this.#out[this.#length++] = bracketOpen;
    for (let column = 0; column < kinds.length; column++) {
      this.#reserve(cellOverheadMax);
      if (column > 0) this.#out[this.#length++] = comma;
      const bit = column + nullBitsOffset;
      const isNull =
        values === null
          ? source[from] === nullPrefix
          : (((source[nullsStart + (bit >> 3)] as number) >> (bit & 7)) & 1) === 1;
      if (isNull) {
        this.#put(this.#nullBytes);
        if (values === null) from++;
        continue;
      }
      const kind = kinds[column] as number;
      const value = values?.[column] ?? valueType.string;
      const type = value & 0xff;
      if (type !== valueType.string) {
        const bytes = valueBytes(type, view, from);
        if (from + bytes > end) throw new RangeError('a cell reaches past the end of its row packet');
        const text = Buffer.from(valueText(type, value >> 8, view, from), 'latin1');
        if (!this.#appendCell(kind, text, 0, text.length, rowStart)) return false;
        from += bytes;
        continue;
      }
      let length = source[from++] as number;
      if (length === nullPrefix) throw new RangeError('a packet is no binary row');
      if (length === 0xfc) {
        length = view.getUint16(from, true);
        from += 2;
      } else if (length === 0xfd) {
        length = view.getUint16(from, true) | (view.getUint8(from + 2) << 16);
        from += 3;
      } else if (length === 0xfe) {
        length = Number(view.getBigUint64(from, true));
        from += 8;
      }
      if (from + length > end) throw new RangeError('a cell reaches past the end of its row packet');
      if (!this.#appendCell(kind, source, from, from + length, rowStart)) return false;
      from += length;
    }
    this.#reserve(1);
    this.#out[this.#length++] = bracketClose;
    return true;
  }

  #appendCell(kind: number, source: Uint8Array, start: number, end: number, rowStart: number): boolean {
    const length = end - start;
    if (this.#length - rowStart + length > this.#rowBytesMax) return false;
    if (length <= smallCellBytes || (kind !== cellKind.text && kind !== cellKind.hex && kind !== cellKind.json)) {
      this.#reserve(length * cellGrowthMax + cellOverheadMax);
      this.#length = writeCell(kind, this.#out, this.#length, source, start, end, this.#nullBytes);
      return true;
    }
    if (kind === cellKind.json) {
      if (isJsonText(source, start, end)) {
        this.#put(source.subarray(start, end));
        return true;
      }
      this.#invalid |= invalidCell.json;
    }
    this.#reserve((kind === cellKind.hex ? length * 2 : length) + cellOverheadMax);
    this.#out[this.#length++] = quote;
    for (let from = start; from < end; ) {
      const cut = Math.min(end, from + cellPieceBytes);
      const to = kind === cellKind.hex || cut === end ? cut : characterStart(source, cut);
      const piece = source.subarray(from, to);
      this.#put(kind === cellKind.hex ? kernel.hex(piece) : kernel.text(piece));
      if (this.#length - rowStart > this.#rowBytesMax) return false;
      from = to;
    }
    this.#reserve(1);
    this.#out[this.#length++] = quote;
    return true;
  }

  #put(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#out.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** The batch filled so far, or null if it has no row. */
  take(): Batch | null {
    if (this.#rows === 0) return null;
    const used = rowEndsOffset(this.#length) + this.#rows * Uint32Array.BYTES_PER_ELEMENT;
    if (used > this.#out.length || used <= this.#out.length - bufferBytes / 4 || this.#out === this.#first.out) {
      const batch = this.#batchOf(this.#out.subarray(0, this.#length));
      if (this.#out.length > bufferBytes) this.#out = this.#first.out;
      return batch;
    }
    const buffer = this.#out.buffer as ArrayBuffer;
    this.#out = this.#first.out;
    return this.#finish(buffer);
  }

  #emitIfFull(): void {
    if (this.#length + this.#rows * Uint32Array.BYTES_PER_ELEMENT >= batchBytes) this.#emitBatch();
  }

  #emitBatch(): void {
    const batch = this.take();
    if (batch !== null) this.#emit(batch);
  }

  /** A batch of that text and the rows counted so far, in memory of its own. */
  #batchOf(text: Uint8Array): Batch {
    const bytes = Buffer.allocUnsafeSlow(rowEndsOffset(text.length) + this.#rows * Uint32Array.BYTES_PER_ELEMENT);
    bytes.set(text);
    return this.#finish(bytes.buffer as ArrayBuffer);
  }

  #finish(buffer: ArrayBuffer): Batch {
    const batch = { buffer, length: this.#length, rows: this.#rows };
    new Uint32Array(buffer, rowEndsOffset(batch.length), batch.rows).set(this.#rowEnds.subarray(0, batch.rows));
    this.#length = 0;
    this.#rows = 0;
    return batch;
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#out.length) return;
    // Whoever fills more than the first buffer fills batches.
    const grown = Buffer.allocUnsafeSlow(
      needed <= bufferBytes ? bufferBytes : Math.max(needed + growthSlackBytes, this.#out.length * 2),
    );
    grown.set(this.#out.subarray(0, this.#length));
    this.#out = grown;
  }

  #reserveRows(rows: number): void {
    const needed = this.#rows + rows;
    if (needed <= this.#rowEnds.length) return;
    const grown = new Uint32Array(Math.max(needed, this.#rowEnds.length * 2));
    grown.set(this.#rowEnds.subarray(0, this.#rows));
    this.#rowEnds = grown;
  }
}

/** The start of the character that the byte at `at` belongs to, so that no piece ends within one. */
function characterStart(source: Uint8Array, at: number): number {
  for (let back = 0; back <= 3; back++) {
    if (((source[at - back] as number) & 0xc0) !== 0x80) return at - back;
  }
  return at;
}
