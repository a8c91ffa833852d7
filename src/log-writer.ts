import { write, writeSync } from 'node:fs';

/** Limit of the memory for lines that are not written yet. Further lines are dropped and counted. */
const bytesMax = 8 * 1024 * 1024;

/** Lines are written in batches, since a write costs more than a line: at this length in characters, or after this time. */
const batchCharacters = 32 * 1024;
const batchMs = 10;

/** The time between two attempts to write while the disk is full or a pipe takes nothing. */
const retryMs = 100;

const nothing: Buffer = Buffer.alloc(0);

/**
 * Writes lines to a file descriptor, in order and without blocking the thread. Lines that cannot be written wait for the next
 * attempt.
 *
 * ```text
 * idle ──▶ gathering ──▶ writing ◀──▶ failing
 *  ▲           ▲            │
 *  └───────────┴────────────┘
 * ```
 */
export class LogWriter {
  readonly #descriptor: number;
  readonly #onDropped: (lines: number) => void;
  #phase: 'idle' | 'gathering' | 'writing' | 'failing' = 'idle';
  /** The lines after the last batch. */
  #lines = '';
  readonly #batches: Buffer[] = [];
  /** The part of a batch that is being written, or that a failed write has left. */
  #rest = nothing;
  /** Of the batches and the rest. */
  #bytes = 0;
  #dropped = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Called when all lines are written, or cannot be. */
  #onFlushed: (() => void)[] = [];

  /** @param onDropped called when lines can be written again, with the number of lines that were dropped */
  constructor(descriptor: number, onDropped: (lines: number) => void) {
    this.#descriptor = descriptor;
    this.#onDropped = onDropped;
  }

  /** @param line ends with a line feed */
  add(line: string): void {
    // Characters are counted as bytes until the batch ends, since measuring each line takes time.
    if (this.#bytes + this.#lines.length + line.length > bytesMax) {
      this.#dropped++;
      return;
    }
    this.#lines += line;
    if (this.#lines.length >= batchCharacters) this.#endBatch();
    if (this.#phase === 'idle' || this.#phase === 'gathering') this.#next();
  }

  /** Resolves when all lines are written, when an attempt fails, or after this time. */
  flush(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onFlushed.push(() => {
        clearTimeout(timer);
        resolve();
      });
      if (this.#phase !== 'writing') this.#next();
    });
  }

  /**
   * For the exit of the process: writes the waiting lines, and gives up at an error, or if they are not accepted within this
   * time. A write that is in progress ends by itself, before or after these lines.
   */
  writeRest(timeoutMs: number): void {
    clearTimeout(this.#timer);
    this.#endBatch();
    let rest = Buffer.concat(this.#phase === 'writing' ? this.#batches : [this.#rest, ...this.#batches]);
    const deadline = performance.now() + timeoutMs;
    while (rest.length > 0) {
      try {
        const length = writeSync(this.#descriptor, rest);
        if (length === 0) return;
        rest = rest.subarray(length);
      } catch (error) {
        if (!isBusy(error as Error) || performance.now() > deadline) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
      }
    }
  }

  #endBatch(): void {
    if (this.#lines === '') return;
    const batch = Buffer.from(this.#lines);
    this.#batches.push(batch);
    this.#bytes += batch.length;
    this.#lines = '';
  }

  /** Writes what is due, or waits for more lines. */
  #next(): void {
    if (this.#onFlushed.length > 0) this.#endBatch();
    if (this.#rest.length > 0 || this.#batches.length > 0) {
      this.#write();
    } else if (this.#lines !== '') {
      if (this.#phase !== 'gathering') this.#wait('gathering', batchMs);
    } else {
      this.#phase = 'idle';
      this.#endFlushes();
    }
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#phase = 'writing';
    if (this.#rest.length === 0) this.#rest = this.#batches.shift() ?? nothing;
    write(this.#descriptor, this.#rest, (error, length) => {
      if (error !== null || length === 0) {
        if (error === null || !isBusy(error)) this.#endFlushes();
        this.#wait('failing', retryMs);
        return;
      }
      this.#bytes -= length;
      this.#rest = this.#rest.subarray(length);
      if (this.#rest.length === 0 && this.#batches.length === 0) this.#reportDropped();
      this.#next();
    });
  }

  #wait(phase: 'gathering' | 'failing', ms: number): void {
    this.#phase = phase;
    this.#timer = setTimeout(() => {
      this.#endBatch();
      this.#write();
    }, ms).unref();
  }

  #reportDropped(): void {
    if (this.#dropped === 0) return;
    const dropped = this.#dropped;
    this.#dropped = 0;
    this.#onDropped(dropped);
  }

  #endFlushes(): void {
    const called = this.#onFlushed;
    this.#onFlushed = [];
    for (const onFlushed of called) onFlushed();
  }
}

/** Whether a pipe or terminal is full, so that it may accept the same write a moment later. */
function isBusy({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EAGAIN' || code === 'EBUSY';
}
