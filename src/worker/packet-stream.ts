import { freeBuffers, freedBytesMin } from '../wire/free-buffers.ts';
import { largeRowBytesMin } from '../wire/statement.ts';
import { headroomBytes, type Kernel, type KernelStop, kernelStop, readBytes } from './kernel.ts';

const headerBytes = 4;
/** A payload of this length continues in the next packet (MySQL internals manual, "Sending More Than 16Mb"). */
const continuedLength = 0xffffff;

const noBytes = Buffer.alloc(0);

/** Takes the packets of a stream, in order. Bytes are only valid during a call. */
export interface PacketReader {
  /**
   * Takes the row packets in `kernel.input[from, to)` as `Kernel.encode` does, whose results remain readable. Null while no rows
   * are expected, or the kernel cannot encode them.
   */
  readonly takeRows: ((from: number, to: number) => KernelStop) | null;
  /** Takes one packet's payload, `bytes[start, end)`. */
  packet(bytes: Buffer, start: number, end: number): void;
  /**
   * A payload of `largeRowBytesMin` or more, and of at most `bytesMax`, is about to arrive. If the reader pauses the stream, it
   * is asked again when the stream is resumed.
   * @returns whether the reader wants the payload; if not, it is dropped
   */
  wantsLarge(bytesMax: number): boolean;
  /** A payload of more than `payloadBytesMax` is about to arrive; it will be dropped. */
  payloadTooLarge(): void;
}

/** A payload that is assembled outside of the kernel's memory, which is too small for it. */
interface LargePayload {
  bytes: Buffer;
  length: number;
  /** Bytes of the current packet that have yet to arrive. */
  missing: number;
  /** Whether the payload continues in another packet. */
  continued: boolean;
  /** The payload is too large or not wanted: its bytes are counted and dropped. */
  dropped: boolean;
}

/**
 * Splits the chunks that a connection reads into packets. The chunks are in the kernel's memory, which all connections of a thread
 * share. So the rest at the end of a chunk is copied out, and back in front of the next chunk:
 *
 *     kernel.input   [ · · · · · · rest | next chunk · · · · · · ]
 *                                       ^ headroomBytes
 */
export class PacketStream {
  readonly #kernel: Kernel;
  readonly #reader: PacketReader;
  readonly #payloadBytesMax: number;
  /** The start of a packet that fits in the headroom; while paused, all bytes received. */
  #rest: Buffer | null = null;
  #large: LargePayload | null = null;
  #paused = false;

  constructor(kernel: Kernel, reader: PacketReader, payloadBytesMax: number) {
    this.#kernel = kernel;
    this.#reader = reader;
    this.#payloadBytesMax = payloadBytesMax;
  }

  /** Takes `length` bytes that a socket has read to the kernel's memory. */
  received(length: number): void {
    const to = headroomBytes + length;
    if (this.#paused) {
      this.#keep(headroomBytes, to);
      return;
    }
    const from = headroomBytes - (this.#rest?.length ?? 0);
    if (this.#rest !== null) this.#kernel.input.set(this.#rest, from);
    this.#rest = null;
    this.#take(from, to);
  }

  /** Takes bytes from other memory. */
  write(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += readBytes) {
      const piece = bytes.subarray(at, at + readBytes);
      this.#kernel.input.set(piece, headroomBytes);
      this.received(piece.length);
    }
  }

  get isPaused(): boolean {
    return this.#paused;
  }

  /** Drops the large payload that is being assembled, including the bytes that have yet to arrive. */
  dropLarge(): void {
    if (this.#large === null) return;
    this.#large.dropped = true;
    this.#large.bytes = noBytes;
  }

  /** Passes no packets on until `resume`, not even those that were already received. */
  pause(): void {
    this.#paused = true;
  }

  /** @returns whether a packet that had been received before has paused it again */
  resume(): boolean {
    this.#paused = false;
    const rest = this.#rest;
    this.#rest = null;
    if (rest !== null) this.write(rest);
    return this.#paused;
  }

  #take(start: number, end: number): void {
    const { input } = this.#kernel;
    let from = start;
    while (from < end) {
      const large = this.#large;
      if (large !== null && large.missing > 0) {
        from = this.#fill(large, from, end);
        continue;
      }
      if (this.#paused) break;
      if (large === null && this.#reader.takeRows !== null) {
        const stop = this.#reader.takeRows(from, end);
        from = this.#kernel.consumed;
        if (this.#paused || stop === kernelStop.inputUsed) break;
      }
      if (end - from < headerBytes) break;
      const length = input.readUIntLE(from, 3);
      const stop = from + headerBytes + length;
      if (large !== null) {
        this.#extend(large, length);
        from += headerBytes;
      } else if (length < continuedLength && stop <= end) {
        this.#reader.packet(input, from + headerBytes, stop);
        from = stop;
      } else if (headerBytes + length <= headroomBytes) {
        break;
      } else {
        const bytesMax = length === continuedLength ? this.#payloadBytesMax : length;
        const isTooLarge = length > this.#payloadBytesMax;
        const isWanted = isTooLarge || length < largeRowBytesMin || this.#reader.wantsLarge(bytesMax);
        if (this.#paused) break;
        this.#large = {
          // The length of a payload of several packets is known only with the last one. Memory that is never written is not resident.
          bytes: isWanted && !isTooLarge ? Buffer.allocUnsafeSlow(bytesMax) : noBytes,
          length: 0,
          missing: 0,
          continued: true,
          dropped: !isWanted,
        };
        this.#extend(this.#large, length);
        from += headerBytes;
      }
    }
    if (from < end) this.#keep(from, end);
  }

  /** Begins one more packet of the payload. */
  #extend(large: LargePayload, length: number): void {
    large.missing = length;
    large.continued = length === continuedLength;
    if (!large.dropped && large.length + length > this.#payloadBytesMax) {
      large.dropped = true;
      large.bytes = noBytes;
      this.#reader.payloadTooLarge();
    }
    this.#finish(large);
  }

  /** @returns the position after the bytes taken */
  #fill(large: LargePayload, from: number, end: number): number {
    const to = Math.min(end, from + large.missing);
    if (!large.dropped) this.#kernel.input.copy(large.bytes, large.length, from, to);
    large.length += to - from;
    large.missing -= to - from;
    this.#finish(large);
    return to;
  }

  #finish(large: LargePayload): void {
    if (large.missing > 0 || large.continued) return;
    this.#large = null;
    if (large.dropped) return;
    this.#reader.packet(large.bytes, 0, large.length);
    if (large.bytes.length >= freedBytesMin) freeBuffers([large.bytes.buffer as ArrayBuffer]);
  }

  #keep(from: number, to: number): void {
    const bytes = Buffer.from(this.#kernel.input.subarray(from, to));
    this.#rest = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes]);
  }
}
