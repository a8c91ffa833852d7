import type { Batch } from '../wire/statement.ts';
import { headerBytes } from './kernel/shared/row-packet.ts';
import { type KernelStop, kernel } from './kernel.ts';
import { PacketCollector } from './packet-collector.ts';
import type { RowBatches } from './row-batches.ts';
import { batchBytes, RowEncoder } from './row-encoder.ts';
import type { RowFormat } from './row-format.ts';

/** A batch of row packets, each with its header, and their ends (see `Batch`). */
export interface CollectedBatch extends Batch {
  /** Bytes of its rows as text. */
  readonly textBytes: number;
}

/**
 * Collects row packets as the database sent them. Each row is encoded as well, and the text is dropped: that finds out whether the
 * row can be encoded, and how large its text is, and takes little time.
 */
export class RowCollector implements RowBatches {
  readonly #format: RowFormat;
  readonly #rowBytesMax: number;
  readonly #emit: (batch: CollectedBatch) => void;
  readonly #packets = new PacketCollector();
  #textBytes = 0;
  #invalid = 0;

  /** @param emit receives each full batch and owns its memory */
  constructor(format: RowFormat, rowBytesMax: number, emit: (batch: CollectedBatch) => void) {
    this.#format = format;
    this.#rowBytesMax = rowBytesMax;
    this.#emit = emit;
  }

  get invalid(): number {
    return this.#invalid;
  }

  get rows(): number {
    return this.#packets.rows;
  }

  encode(from: number, to: number, rowsMax: number): KernelStop {
    const stop = kernel.encode(this.#format, from, to, 0, rowsMax - this.rows, this.#rowBytesMax);
    const { rows, length, consumed } = kernel;
    this.#invalid |= kernel.takeInvalid();
    if (rows === 0) return stop;
    this.#makeRoom(consumed - from);
    this.#packets.add(kernel.input, from, consumed, rows);
    this.#textBytes += length;
    this.#emitIfFull();
    return stop;
  }

  append(source: Uint8Array, start: number, end: number): boolean {
    let textBytes = 0;
    const encoder = new RowEncoder(this.#format, this.#rowBytesMax, ({ length }) => {
      textBytes = length;
    });
    const fits = encoder.append(source, start, end);
    textBytes += encoder.take()?.length ?? 0;
    this.#invalid |= encoder.invalid;
    encoder.release();
    if (!fits) return false;
    this.#makeRoom(headerBytes + end - start);
    this.#packets.addPayload(source, start, end);
    this.#textBytes += textBytes;
    this.#emitIfFull();
    return true;
  }

  complete(): void {}

  take(): CollectedBatch | null {
    if (this.rows === 0) return null;
    const textBytes = this.#textBytes;
    this.#textBytes = 0;
    return { ...this.#packets.take(), textBytes };
  }

  release(): void {
    this.#packets.release();
  }

  #makeRoom(bytes: number): void {
    if (this.#packets.length > 0 && this.#packets.length + bytes > batchBytes) this.#emitBatch();
  }

  #emitIfFull(): void {
    if (this.#packets.length >= batchBytes) this.#emitBatch();
  }

  #emitBatch(): void {
    const batch = this.take();
    if (batch !== null) this.#emit(batch);
  }
}
