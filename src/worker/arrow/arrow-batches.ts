import { type BatchLimits, batchLimits } from '../../formats/arrow/batch-limits.ts';
import { type Cause, causes } from '../../wire/failures.ts';
import type { Batch } from '../../wire/statement.ts';
import * as rowPacket from '../kernel/shared/row-packet.ts';
import { headroomBytes, type KernelStop, kernel, kernelStop } from '../kernel.ts';
import { PacketCollector, payloadLength } from '../packet-collector.ts';
import type { RowBatches } from '../row-batches.ts';
import { batchBytes } from '../row-encoder.ts';
import type { ArrowRowFormat } from './arrow-columns.ts';
import { recordBatch } from './record-batch.ts';
import { UnrepresentableError } from './unrepresentable-error.ts';

// V8 reads a constant of the own module faster than an imported one.
const { eofBytesMax, eofHeader, errorHeader, headerBytes, payloadBytesMax } = rowPacket;

/** Gathers rows in record batches of Arrow. A batch is written when it is full, column by column. */
export class ArrowBatches implements RowBatches {
  readonly #format: ArrowRowFormat;
  readonly #rowBytesMax: number;
  readonly #emit: (batch: Batch) => void;
  readonly #failed: (cause: Cause) => void;
  readonly #limits: BatchLimits;
  readonly #packets = new PacketCollector();
  #last: Batch | null = null;
  #hasFailed = false;
  #invalid = 0;

  /**
   * @param emit receives each full batch and owns its memory
   * @param failed called if a row has no form in Arrow; the rows after it are of no use
   */
  constructor(
    format: ArrowRowFormat,
    rowBytesMax: number,
    emit: (batch: Batch) => void,
    failed: (cause: Cause) => void,
  ) {
    this.#format = format;
    this.#rowBytesMax = rowBytesMax;
    this.#emit = emit;
    this.#failed = failed;
    this.#limits = batchLimits(
      format.columns.map(({ type }) => type),
      batchBytes,
    );
  }

  get invalid(): number {
    return this.#invalid;
  }

  get rows(): number {
    return this.#last?.rows ?? this.#packets.rows;
  }

  encode(from: number, to: number, rowsMax: number): KernelStop {
    const { input } = kernel;
    let at = from;
    let rows = 0;
    /** Of the rows that are not yet among the packets. */
    let begin = from;
    let found = 0;
    const rowsLeft = rowsMax - this.rows;
    let stop: KernelStop = kernelStop.inputUsed;
    while (at + headerBytes <= to) {
      const payload = payloadLength(input, at);
      const end = at + headerBytes + payload;
      if (payload === payloadBytesMax || (end > to && end - at > headroomBytes)) {
        stop = kernelStop.largeRow;
        break;
      }
      if (end > to) break;
      const first = input[at + headerBytes] as number;
      if (first >= eofHeader && (first === errorHeader ? payload > 0 : payload > 0 && payload < eofBytesMax)) {
        stop = kernelStop.notARow;
        break;
      }
      if (rows >= rowsLeft) {
        stop = kernelStop.rowsMax;
        break;
      }
      if (payload > this.#rowBytesMax) {
        stop = kernelStop.rowTooLarge;
        break;
      }
      at = end;
      rows++;
      found++;
      if (this.#packets.rows + found < this.#limits.rows) continue;
      this.#addFound(input, begin, at, found);
      begin = at;
      found = 0;
    }
    kernel.consumed = at;
    if (found > 0) this.#addFound(input, begin, at, found);
    return stop;
  }

  append(source: Uint8Array, start: number, end: number): boolean {
    if (end - start > this.#rowBytesMax) return false;
    this.#add(headerBytes + end - start, () => this.#packets.addPayload(source, start, end));
    return true;
  }

  complete(): void {
    this.#last = this.take();
  }

  take(): Batch | null {
    const last = this.#last;
    this.#last = null;
    if (last !== null) return last;
    const packets = this.#packets;
    const { rows } = packets;
    if (rows === 0) return null;
    try {
      const { bytes, invalid } = recordBatch(this.#format, packets, 0, rows);
      this.#invalid |= invalid;
      return { buffer: bytes.buffer as ArrayBuffer, length: bytes.length, rows, isWhole: true };
    } catch (error) {
      this.#hasFailed = true;
      this.#failed(causeOf(error as Error));
      return null;
    } finally {
      packets.clear();
    }
  }

  release(): void {
    this.#packets.release();
  }

  #addFound(input: Buffer, from: number, to: number, rows: number): void {
    this.#add(to - from, () => this.#packets.add(input, from, to, rows));
  }

  #add(bytes: number, add: () => void): void {
    const packets = this.#packets;
    if (packets.length > 0 && packets.length + bytes > this.#limits.packetBytes) this.#emitBatch();
    if (this.#hasFailed) return;
    add();
    if (packets.length >= this.#limits.packetBytes || packets.rows >= this.#limits.rows) this.#emitBatch();
  }

  #emitBatch(): void {
    const batch = this.take();
    if (batch !== null) this.#emit(batch);
  }
}

function causeOf(error: Error): Cause {
  if (error instanceof UnrepresentableError) return causes.unrepresentable(error.message);
  if (error instanceof RangeError) return causes.connectionLost(`it sent a row that cannot be read: ${error.message}`);
  throw error;
}
