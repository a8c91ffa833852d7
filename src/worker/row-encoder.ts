import { type Batch, rowEndsOffset } from '../wire/statement.ts';
import { type CellKind, cellGrowthMax, cellKind, cellOverheadMax, isJsonText, writeCell, writeText } from './cells.ts';

/**
 * A batch is full when it and its row ends take this many bytes: so many that messages are rare, so few that it is
 * early.
 */
export const batchBytes = 224 * 1024;
/** A buffer for full batches: with room for the row that fills it, unless that is a large one. */
const bufferBytes = 256 * 1024;
/** The first buffer of a statement: most results are smaller than one batch. */
const firstBufferBytes = 8 * 1024;
/** Rows up to this size get room for the worst case at once; larger ones are written piece by piece. */
const smallRowBytes = 16 * 1024;
const pieceBytes = 64 * 1024;
/** So that a buffer made for one large cell need not grow again for the few bytes after it. */
const growthSlackBytes = 1024;

/** First buffers of encoders that have ended, so that a small statement allocates none. Each thread has its own. */
const spareBuffers: Uint8Array[] = [];
const spareBuffersMax = 64;
const noBuffer = new Uint8Array(0);

const comma = 0x2c;
const bracketOpen = 0x5b;
const bracketClose = 0x5d;
const quote = 0x22;
const [n, u, l] = [0x6e, 0x75, 0x6c];

/**
 * Turns row packets of MySQL's text protocol ("Text Resultset Row": one length-encoded string or 0xfb per column) into
 * batches of JSON: `[1,"a",null],[2,…]`. It copies bytes; no string, number or object is made for a cell.
 */
export class RowEncoder {
  readonly #kinds: Uint8Array;
  readonly #rowBytesMax: number;
  #out: Uint8Array;
  #length = 0;
  readonly #ends: number[] = [];
  #rows = 0;

  constructor(kinds: readonly CellKind[], rowBytesMax: number) {
    this.#kinds = Uint8Array.from(kinds);
    this.#rowBytesMax = rowBytesMax;
    this.#out = spareBuffers.pop() ?? Buffer.allocUnsafeSlow(firstBufferBytes);
  }

  /** Ends the use of the encoder; its buffer goes to the next one. */
  release(): void {
    if (this.#out.length === firstBufferBytes && spareBuffers.length < spareBuffersMax) spareBuffers.push(this.#out);
    this.#out = noBuffer;
  }

  /** Rows in the batch that is being filled. */
  get rows(): number {
    return this.#rows;
  }

  get full(): boolean {
    return this.#length + this.#rows * Uint32Array.BYTES_PER_ELEMENT >= batchBytes;
  }

  /**
   * Appends the row whose packet's payload is `source[start … end)`.
   * @returns false, and appends nothing, if its JSON is larger than a row may be
   */
  append(source: Uint8Array, start: number, end: number): boolean {
    const before = this.#length;
    if (before > 0) {
      this.#reserve(1);
      this.#out[this.#length++] = comma;
    }
    const rowStart = this.#length;
    const fits =
      end - start <= smallRowBytes ? this.#appendSmall(source, start, end) : this.#appendLarge(source, start, end);
    if (!fits || this.#length - rowStart > this.#rowBytesMax) {
      this.#length = before;
      return false;
    }
    this.#ends[this.#rows++] = this.#length;
    return true;
  }

  #appendSmall(source: Uint8Array, start: number, end: number): boolean {
    const kinds = this.#kinds;
    const columns = kinds.length;
    this.#reserve((end - start) * cellGrowthMax + columns * cellOverheadMax + 2);
    const out = this.#out;
    let to = this.#length;
    let from = start;
    out[to++] = bracketOpen;
    for (let column = 0; column < columns; column++) {
      if (column > 0) out[to++] = comma;
      let length = source[from++] as number;
      if (length === 0xfb) {
        out[to] = n;
        out[to + 1] = u;
        out[to + 2] = l;
        out[to + 3] = l;
        to += 4;
        continue;
      }
      if (length === 0xfc) {
        length = (source[from] as number) | ((source[from + 1] as number) << 8);
        from += 2;
      }
      to = writeCell(kinds[column] as number, out, to, source, from, from + length);
      from += length;
    }
    out[to++] = bracketClose;
    this.#length = to;
    return true;
  }

  #appendLarge(source: Uint8Array, start: number, end: number): boolean {
    const view = new DataView(source.buffer, source.byteOffset, source.byteLength);
    const rowStart = this.#length;
    this.#reserve(1);
    this.#out[this.#length++] = bracketOpen;
    let from = start;
    for (let column = 0; column < this.#kinds.length; column++) {
      this.#reserve(cellOverheadMax);
      if (column > 0) this.#out[this.#length++] = comma;
      let length = source[from++] as number;
      if (length === 0xfb) {
        for (const letter of [n, u, l, l]) this.#out[this.#length++] = letter;
        continue;
      }
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
      if (!this.#appendLargeCell(this.#kinds[column] as number, source, from, from + length, rowStart)) return false;
      from += length;
    }
    this.#reserve(1);
    this.#out[this.#length++] = bracketClose;
    return true;
  }

  #appendLargeCell(kind: number, source: Uint8Array, start: number, end: number, rowStart: number): boolean {
    const length = end - start;
    if (this.#length - rowStart + length > this.#rowBytesMax) return false;
    if (length <= pieceBytes) {
      this.#reserve(length * cellGrowthMax + cellOverheadMax);
      this.#length = writeCell(kind, this.#out, this.#length, source, start, end);
    } else if (kind === cellKind.hex) {
      this.#reserve(length * 2 + cellOverheadMax);
      this.#length = writeCell(kind, this.#out, this.#length, source, start, end);
    } else if (kind === cellKind.json && isJsonText(source, start, end)) {
      this.#reserve(length);
      this.#out.set(source.subarray(start, end), this.#length);
      this.#length += length;
    } else {
      // Most text grows little, so the worst case is provided for one piece at a time.
      this.#reserve(length + pieceBytes * cellGrowthMax + cellOverheadMax);
      this.#out[this.#length++] = quote;
      for (let from = start; from < end; ) {
        const to = from + pieceBytes >= end ? end : characterStart(source, from + pieceBytes);
        this.#reserve(pieceBytes * cellGrowthMax + 1);
        this.#length = writeText(this.#out, this.#length, source, from, to);
        if (this.#length - rowStart > this.#rowBytesMax) return false;
        from = to;
      }
      this.#out[this.#length++] = quote;
    }
    return true;
  }

  /** The batch filled so far, its memory given away, or null if it has no row. */
  take(): Batch | null {
    if (this.#rows === 0) return null;
    const length = this.#length;
    const rows = this.#rows;
    const endsAt = rowEndsOffset(length);
    const needed = endsAt + rows * Uint32Array.BYTES_PER_ELEMENT;
    let buffer: ArrayBuffer;
    if (needed <= this.#out.length && needed > this.#out.length - bufferBytes / 4) {
      buffer = this.#out.buffer as ArrayBuffer;
      // Whoever fills one buffer fills many.
      this.#out = Buffer.allocUnsafeSlow(bufferBytes);
    } else {
      const copy = Buffer.allocUnsafeSlow(needed);
      copy.set(this.#out.subarray(0, length));
      buffer = copy.buffer as ArrayBuffer;
      if (this.#out.length > 4 * bufferBytes) this.#out = Buffer.allocUnsafeSlow(bufferBytes);
    }
    const ends = new Uint32Array(buffer, endsAt, rows);
    for (let row = 0; row < rows; row++) ends[row] = this.#ends[row] as number;
    this.#length = 0;
    this.#rows = 0;
    return { buffer, length, rows };
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#out.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(needed + growthSlackBytes, this.#out.length * 2));
    grown.set(this.#out.subarray(0, this.#length));
    this.#out = grown;
  }
}

/** The start of the character that the byte at `at` belongs to, so that no piece ends within one. */
function characterStart(source: Uint8Array, at: number): number {
  for (let back = 0; back <= 3; back++) {
    if (((source[at - back] as number) & 0xc0) !== 0x80) return at - back;
  }
  return at;
}
