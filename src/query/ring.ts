import { type Batch, type Deflated, rowEndsOffset } from '../wire/statement.ts';

/** Rows taken from the ring: pieces of JSON text, compressed or not, that, joined by commas, are the rows. */
export interface Rows {
  readonly pieces: readonly (Uint8Array | Deflated)[];
  readonly count: number;
  /** Length of the JSON text, the commas between the pieces included. */
  readonly bytes: number;
  /** Memory of the batches that were in the ring until these rows were taken. */
  readonly heldBytes: number;
}

/** The buffers that the rows keep alive. Each counts whole, even if the rows are a small part of it. */
export function buffersOf({ pieces }: Rows): Set<ArrayBufferLike> {
  return new Set(pieces.map(bufferOf));
}

function bufferOf(piece: Uint8Array | Deflated): ArrayBufferLike {
  return piece instanceof Uint8Array ? piece.buffer : piece.bytes.buffer;
}

/** Whether the rows keep at least `bytes` alive: the batches that they complete together, or one buffer by itself. */
export function isHolding({ pieces, heldBytes }: Rows, bytes: number): boolean {
  return heldBytes >= bytes || pieces.some((piece) => bufferOf(piece).byteLength >= bytes);
}

/** The buffers of the uncompressed batches that the rows are part of. */
export function uncompressedBuffersOf({ pieces }: Rows): ArrayBuffer[] {
  return pieces.flatMap((piece) => (piece instanceof Uint8Array ? (piece.buffer as ArrayBuffer) : []));
}

export const noRows: Rows = { pieces: [], count: 0, bytes: 0, heldBytes: 0 };

interface Slot {
  readonly batch: Batch;
  /** None if the batch is compressed, or a message of Arrow. */
  readonly rowEnds: Uint32Array | null;
}

/** Most queries wait for their rows without any. */
const empty: (Slot | undefined)[] = [];
const slotsMin = 4;

/**
 * The batches that a query has received and not yet handed out, first in, first out. The credits given to the worker limit
 * how much it holds:
 *
 *     slots   [ 6 | 7 | · | · | 3 | 4 | 5 ]      head = 4, count = 5
 *                       ^tail   ^head
 *
 * The head may have been handed out in part, up to row `#headRows`.
 */
export class Ring {
  #slots: (Slot | undefined)[] = empty;
  #head = 0;
  #count = 0;
  #headRows = 0;
  #rows = 0;
  #bytes = 0;
  #heldBytes = 0;

  /** Rows not handed out. */
  get rows(): number {
    return this.#rows;
  }

  /** Bytes of the rows not handed out, without the commas between batches. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Memory of the batches in the ring. A batch that has been handed out in part counts whole. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** The memory of the batch that has been handed out in part; null if none has. */
  get partialBatch(): ArrayBuffer | null {
    return this.#headRows === 0 ? null : (this.#slots[this.#head]?.batch.buffer ?? null);
  }

  push(batch: Batch): void {
    if (this.#count === this.#slots.length) this.#grow();
    this.#slots[(this.#head + this.#count) % this.#slots.length] = {
      batch,
      rowEnds:
        batch.deflatedCrc === undefined && batch.isWhole === undefined
          ? new Uint32Array(batch.buffer, rowEndsOffset(batch.length), batch.rows)
          : null,
    };
    this.#count++;
    this.#rows += batch.rows;
    this.#bytes += batch.length;
    this.#heldBytes += batch.buffer.byteLength;
  }

  /** Takes rows until one of the limits is reached; at least one, if there is any. A batch without row ends goes whole. */
  take(rowsMax: number, bytesMax: number): Rows {
    const pieces: (Uint8Array | Deflated)[] = [];
    let count = 0;
    let bytes = 0;
    const heldBefore = this.#heldBytes;
    while (this.#count > 0 && count < rowsMax) {
      const { batch, rowEnds } = this.#slots[this.#head] as Slot;
      if (rowEnds === null) {
        const separator = count === 0 || batch.isWhole === true ? 0 : 1;
        const after = bytes + separator + batch.length;
        if (count > 0 && (count + batch.rows > rowsMax || after > bytesMax)) break;
        pieces.push(pieceOf(batch));
        bytes = after;
        count += batch.rows;
        this.#bytes -= batch.length;
        this.#drop(batch);
        continue;
      }
      const from = this.#headRows === 0 ? 0 : (rowEnds[this.#headRows - 1] as number) + 1;
      const separator = count === 0 ? 0 : 1;
      const fitting = lastRowWithin(rowEnds, this.#headRows, from + bytesMax - bytes - separator);
      const upTo = Math.min(Math.max(fitting, count === 0 ? this.#headRows + 1 : 0), this.#headRows + rowsMax - count);
      if (upTo <= this.#headRows) break;
      const to = rowEnds[upTo - 1] as number;
      pieces.push(new Uint8Array(batch.buffer, from, to - from));
      bytes += separator + to - from;
      count += upTo - this.#headRows;
      // The comma after the last row taken counts as handed out too, so that the sum ends at 0.
      this.#bytes -= (upTo === batch.rows ? batch.length : to + 1) - from;
      if (upTo === batch.rows) this.#drop(batch);
      else this.#headRows = upTo;
      if (upTo < batch.rows) break;
    }
    this.#rows -= count;
    return { pieces, count, bytes, heldBytes: heldBefore - this.#heldBytes };
  }

  /** @returns the buffers of the uncompressed batches that were in it */
  clear(): ArrayBuffer[] {
    if (this.#count === 0) return [];
    const buffers = this.#slots.flatMap((slot) =>
      slot === undefined || slot.batch.deflatedCrc !== undefined ? [] : slot.batch.buffer,
    );
    this.#slots = empty;
    this.#head = this.#count = this.#headRows = this.#rows = this.#bytes = this.#heldBytes = 0;
    return buffers;
  }

  #drop(head: Batch): void {
    this.#heldBytes -= head.buffer.byteLength;
    this.#slots[this.#head] = undefined;
    this.#head = (this.#head + 1) % this.#slots.length;
    this.#count--;
    this.#headRows = 0;
  }

  #grow(): void {
    const slots: (Slot | undefined)[] = new Array(Math.max(slotsMin, this.#slots.length * 2));
    for (let index = 0; index < this.#count; index++)
      slots[index] = this.#slots[(this.#head + index) % this.#slots.length];
    this.#slots = slots;
    this.#head = 0;
  }
}

/** A batch that goes whole. */
function pieceOf({ buffer, length, deflatedCrc }: Batch): Uint8Array | Deflated {
  const bytes = new Uint8Array(buffer);
  return deflatedCrc === undefined ? bytes : { bytes, length, crc: deflatedCrc };
}

/** The number of rows, counted from the batch's first, that end at `limit` or before. */
function lastRowWithin(rowEnds: Uint32Array, from: number, limit: number): number {
  let low = from;
  let high = rowEnds.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((rowEnds[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
