import { cellKind } from '../formats/cell-kind.ts';
import { freeBuffers } from '../wire/free-buffers.ts';
import { type Batch, rowEndsOffset } from '../wire/statement.ts';
import { valueBytes, valueText, valueType } from './binary-values.ts';
import { isQuotedInCsv, writeCsvPiece, writeTsv } from './cell-delimited.ts';
import { cellGrowthMax, cellOverheadMax, invalidCell, isJsonText, takeInvalid, writeCell } from './cells.ts';
import { quote } from './kernel/shared/ascii.ts';
import { binaryRowHeader, nullBitsOffset, nullPrefix, prefix2, prefix3, prefix8 } from './kernel/shared/row-packet.ts';
import { cellPieceBytes, type KernelStop, kernel } from './kernel.ts';
import type { RowBatches } from './row-batches.ts';
import type { RowFormat } from './row-format.ts';

/** A batch is emitted at this size, row ends included. Larger batches delay rows; smaller ones need more messages. */
export const batchBytes = 224 * 1024;
/** A full batch, with room for the rows that exceed `batchBytes`. */
const bufferBytes = 256 * 1024;
/** If one kernel call returns this much, it becomes a batch of its own, which saves a copy. */
const ownBatchBytes = 64 * 1024;
/** The first buffer of a statement. Most results are smaller than one batch. */
const firstBufferBytes = 8 * 1024;
const firstRows = 256;
/** Up to this size, JavaScript encodes a cell faster than it is copied to and from the kernel. */
const smallCellBytes = 256;
/** Keeps a buffer that was grown for one large cell from growing again for the bytes after it. */
const growthSlackBytes = 1024;

interface Space {
  readonly out: Uint8Array;
  readonly rowEnds: Uint32Array;
}

/** First buffers of released encoders, reused so that small statements allocate none. One list per thread. */
const spareSpaces: Space[] = [];
const spareSpacesMax = 64;

/**
 * Encodes row packets as batches of text, such as `[1,"a",null],[2,…]` in JSON. The packets are of MySQL's text protocol ("Text Resultset
 * Row": one length-encoded string or 0xfb per column) or of the binary protocol ("Binary Protocol Resultset Row": a byte of 0, a
 * bitmap of NULLs, and the other values). The kernel encodes rows that fit in its memory. Larger rows are encoded here, cell by
 * cell, with the same result.
 */
export class RowEncoder implements RowBatches {
  readonly #format: RowFormat;
  readonly #rowBytesMax: number;
  readonly #emit: (batch: Batch) => void;
  readonly #first: Space;
  #out: Uint8Array;
  #rowEnds: Uint32Array;
  #length = 0;
  #rows = 0;
  #invalid = 0;

  /** @param emit receives each full batch and owns its memory */
  constructor(format: RowFormat, rowBytesMax: number, emit: (batch: Batch) => void) {
    this.#format = format;
    this.#rowBytesMax = rowBytesMax;
    this.#emit = emit;
    this.#first = spareSpaces.pop() ?? {
      out: Buffer.allocUnsafeSlow(firstBufferBytes),
      rowEnds: new Uint32Array(firstRows),
    };
    this.#out = this.#first.out;
    this.#rowEnds = this.#first.rowEnds;
  }

  release(): void {
    if (spareSpaces.length < spareSpacesMax) spareSpaces.push(this.#first);
  }

  get invalid(): number {
    return this.#invalid;
  }

  get rows(): number {
    return this.#rows;
  }

  encode(from: number, to: number, rowsMax: number): KernelStop {
    const before = this.#length;
    const hasRows = this.#rows > 0;
    const stop = kernel.encode(this.#format, from, to, before, rowsMax - this.#rows, this.#rowBytesMax, hasRows);
    const { rows, length } = kernel;
    this.#invalid |= kernel.takeInvalid();
    if (rows === 0) return stop;
    if (hasRows && before + length > bufferBytes) this.#emitBatch();
    // If the rows before them have been emitted, what separates them is dropped.
    const emitted = before - this.#length;
    const skipped = hasRows && this.#rows === 0 ? 1 : 0;
    this.#reserveRows(rows);
    for (let row = 0; row < rows; row++) {
      this.#rowEnds[this.#rows++] = (kernel.rowEnds[row] as number) - emitted - skipped;
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

  append(source: Uint8Array, start: number, end: number): boolean {
    const before = this.#length;
    if (this.#rows > 0) {
      this.#reserve(1);
      this.#out[this.#length++] = this.#format.layout.rowSeparator;
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
    const { kinds, values, keys, layout } = this.#format;
    const rowStart = this.#length;
    const nullsStart = start + 1;
    let from = start;
    if (values !== null) {
      from = nullsStart + ((kinds.length + nullBitsOffset + 7) >> 3);
      if (source[start] !== binaryRowHeader || from > end) throw new RangeError('a packet is not a binary row');
    }
    this.#putByte(layout.open);
    for (let column = 0; column < kinds.length; column++) {
      this.#reserve(cellOverheadMax);
      if (column > 0) this.#out[this.#length++] = layout.separator;
      if (keys !== null) {
        this.#put(keys.bytes.subarray(keys.ends[column - 1] ?? 0, keys.ends[column]));
        this.#reserve(cellOverheadMax);
      }
      const bit = column + nullBitsOffset;
      const isNull =
        values === null
          ? source[from] === nullPrefix
          : (((source[nullsStart + (bit >> 3)] as number) >> (bit & 7)) & 1) === 1;
      if (isNull) {
        this.#put(layout.nullCell);
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
      if (length === nullPrefix) throw new RangeError('a packet is not a binary row');
      if (length === prefix2) {
        length = view.getUint16(from, true);
        from += 2;
      } else if (length === prefix3) {
        length = view.getUint16(from, true) | (view.getUint8(from + 2) << 16);
        from += 3;
      } else if (length === prefix8) {
        length = Number(view.getBigUint64(from, true));
        from += 8;
      }
      if (from + length > end) throw new RangeError('a cell reaches past the end of its row packet');
      if (!this.#appendCell(kind, source, from, from + length, rowStart)) return false;
      from += length;
    }
    this.#putByte(layout.close);
    return true;
  }

  #appendCell(kind: number, source: Uint8Array, start: number, end: number, rowStart: number): boolean {
    const length = end - start;
    if (this.#length - rowStart + length > this.#rowBytesMax) return false;
    if (length <= smallCellBytes || !isLong(kind)) {
      this.#reserve(length * cellGrowthMax + cellOverheadMax);
      this.#length = writeCell(kind, this.#out, this.#length, source, start, end, this.#format.layout.nullCell);
      return true;
    }
    if (kind === cellKind.json) {
      if (isJsonText(source, start, end)) {
        this.#put(source.subarray(start, end));
        return true;
      }
      this.#invalid |= invalidCell.json;
    }
    const isHex = kind === cellKind.hex || kind === cellKind.plainHex;
    const around = isQuoted(kind, source, start, end) ? quote : 0;
    this.#reserve((isHex ? length * 2 : length) + cellOverheadMax);
    this.#putByte(around);
    for (let from = start; from < end; ) {
      const cut = Math.min(end, from + cellPieceBytes);
      const to = isHex || cut === end ? cut : characterStart(source, cut);
      this.#putPiece(kind, source, from, to);
      if (this.#length - rowStart > this.#rowBytesMax) return false;
      from = to;
    }
    this.#putByte(around);
    return true;
  }

  /** Appends a part of a long cell, without its quotes. */
  #putPiece(kind: number, source: Uint8Array, start: number, end: number): void {
    if (kind === cellKind.csvText || kind === cellKind.tsvText) {
      this.#reserve((end - start) * cellGrowthMax);
      const write = kind === cellKind.csvText ? writeCsvPiece : writeTsv;
      this.#length = write(this.#out, this.#length, source, start, end);
      return;
    }
    const piece = source.subarray(start, end);
    this.#put(kind === cellKind.hex || kind === cellKind.plainHex ? kernel.hex(piece) : kernel.text(piece));
  }

  /** @param byte 0: none */
  #putByte(byte: number): void {
    if (byte === 0) return;
    this.#reserve(1);
    this.#out[this.#length++] = byte;
  }

  #put(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#out.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  complete(): void {}

  take(): Batch | null {
    if (this.#rows === 0) return null;
    const used = rowEndsOffset(this.#length) + this.#rows * Uint32Array.BYTES_PER_ELEMENT;
    if (used > this.#out.length || used <= this.#out.length - bufferBytes / 4 || this.#out === this.#first.out) {
      const batch = this.#batchOf(this.#out.subarray(0, this.#length));
      if (this.#out.length > bufferBytes) this.#replaceOut(this.#first.out);
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

  /** A batch of `text` and the current row ends, in newly allocated memory. */
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
    // A result that exceeds the first buffer is likely to fill whole batches.
    const grown = Buffer.allocUnsafeSlow(
      needed <= bufferBytes ? bufferBytes : Math.max(needed + growthSlackBytes, this.#out.length * 2),
    );
    grown.set(this.#out.subarray(0, this.#length));
    this.#replaceOut(grown);
  }

  #replaceOut(out: Uint8Array): void {
    if (this.#out !== this.#first.out) freeBuffers([this.#out.buffer as ArrayBuffer]);
    this.#out = out;
  }

  #reserveRows(rows: number): void {
    const needed = this.#rows + rows;
    if (needed <= this.#rowEnds.length) return;
    const grown = new Uint32Array(Math.max(needed, this.#rowEnds.length * 2));
    grown.set(this.#rowEnds.subarray(0, this.#rows));
    this.#rowEnds = grown;
  }
}

/** Whether cells of the kind can be long, and are written in parts then. */
function isLong(kind: number): boolean {
  switch (kind) {
    case cellKind.text:
    case cellKind.hex:
    case cellKind.json:
    case cellKind.csvText:
    case cellKind.tsvText:
    case cellKind.plainHex:
      return true;
    default:
      return false;
  }
}

function isQuoted(kind: number, source: Uint8Array, start: number, end: number): boolean {
  if (kind === cellKind.csvText) return isQuotedInCsv(source, start, end);
  return kind !== cellKind.tsvText && kind !== cellKind.plainHex;
}

/** The start of the UTF-8 character that includes the byte at `at`. */
function characterStart(source: Uint8Array, at: number): number {
  for (let back = 0; back <= 3; back++) {
    if (((source[at - back] as number) & 0xc0) !== 0x80) return at - back;
  }
  return at;
}
