import type { Observe } from '../events.ts';
import { Ring, type Rows } from '../query/ring.ts';
import { RefusalError } from '../refusal-error.ts';
import { openThreadPool, type ThreadPool } from '../thread-pool.ts';
import type { FileContent, KeptTask, PlacedBatch, ReadRows, TaskFailure, WrittenFile } from '../wire/kept-reading.ts';
import type { FormatName } from '../wire/statement.ts';
import { UserTurns } from './user-turns.ts';

/** Pages that are read at a time. */
const pagesMax = 2;
/** Files that are written at a time: each may take minutes, and no page waits for one. A user has one of them at most. */
const filesMax = 2;
/** If these are large, a small one has a place beside them. A user has one of them at most, too. */
const smallFilesMax = 1;
const smallFileBytesMax = 16 * 1024 * 1024;
/** Pages are waited for if one was so recently: many clients who read without a pause are not all there at each moment. */
const busyMs = 50;
const threadIdleMs = 30_000;
const youngGenerationMb = 6;

const noMemory =
  'the rows of this user, those that are being sent included, hold as much memory as those of one user may ' +
  '(--buffer_bytes_max): read the answers that are on their way';

/** The rows on disk are not those that were written. */
export class DamagedResultError extends Error {
  override readonly name = 'DamagedResultError';
}

export interface RowsToRead {
  readonly folder: string;
  readonly batches: readonly PlacedBatch[];
  readonly skippedRows: number;
  readonly rowsMax: number;
  readonly bytesMax: number;
  readonly format: FormatName;
}

export interface FileToWrite {
  readonly folder: string;
  readonly file: string;
  readonly batchCount: number;
  readonly format: FormatName;
  readonly content: FileContent;
  readonly bytesMax: number;
}

/** Reads kept results in threads of their own, so that neither the main thread nor one that receives rows waits for the disk. */
export class ResultReader implements AsyncDisposable {
  readonly #hasRoomFor: (user: string, bytes: number) => boolean;
  readonly #observe: Observe;
  readonly #pages = new UserTurns(pagesMax);
  readonly #files = new UserTurns(filesMax, 1);
  readonly #smallFiles = new UserTurns(smallFilesMax, 1);
  #pool: ThreadPool | null = null;

  /** @param hasRoomFor whether there is memory for so many bytes of a user's rows */
  constructor(hasRoomFor: (user: string, bytes: number) => boolean, observe: Observe) {
    this.#hasRoomFor = hasRoomFor;
    this.#observe = observe;
  }

  /** Whether pages of the user, or of several users, have to wait for others. One user's many do not hold up another. */
  isBusyFor(user: string): boolean {
    return this.#pages.waitsOrWaited(user, busyMs);
  }

  /**
   * @param signal what still waits for its turn when it is aborted is not read
   * @returns at least one row, and at most `rowsMax`
   * @throws DamagedResultError, Error of the file system, or the reason of the signal
   */
  async read(user: string, reading: RowsToRead, signal: AbortSignal): Promise<Rows> {
    const task = { type: 'read', ...reading } as const;
    const read = (): Promise<ReadRows> => {
      const textBytes = reading.batches.reduce((sum, batch) => sum + batch.textBytes, 0);
      if (!this.#hasRoomFor(user, Math.min(textBytes, reading.bytesMax))) throw new RefusalError(noMemory, 'too many');
      return this.#run<ReadRows>(task);
    };
    const { batches } = await this.#pages.run(user, read, signal);
    const ring = new Ring();
    for (const batch of batches) ring.push(batch);
    return ring.take(reading.rowsMax, reading.bytesMax);
  }

  /**
   * @param signal the file is given up when it is aborted. What was written of it is left to the caller
   * @returns its size in bytes
   * @throws DamagedResultError, RefusalError if a value has no form in the format, Error of the file system, or the reason of the
   * signal
   */
  async write(user: string, writing: FileToWrite, signal: AbortSignal): Promise<number> {
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const giveUp = (): void => void Atomics.store(stop, 0, 1);
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      const run = (): Promise<WrittenFile> => this.#run<WrittenFile>({ type: 'write', ...writing, stop });
      const isSmall = writing.bytesMax <= smallFileBytesMax && !this.#files.isFree(user);
      const turns = isSmall ? this.#smallFiles : this.#files;
      const { bytes } = await turns.run(user, run, signal);
      return bytes;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool?.destroy();
  }

  async #run<Result extends object>(task: KeptTask): Promise<Result> {
    this.#pool ??= this.#open();
    const result = (await this.#pool.run(task)) as Result | TaskFailure;
    if ('damage' in result) throw new DamagedResultError(result.damage);
    if ('code' in result) throw Object.assign(new Error(result.message), { code: result.code });
    if ('unrepresentable' in result) throw new RefusalError(result.unrepresentable, 'impossible');
    return result;
  }

  #open(): ThreadPool {
    const file = new URL('../worker/kept-reader.js', import.meta.url);
    const threads = { minThreads: 0, maxThreads: pagesMax + filesMax + smallFilesMax, idleTimeout: threadIdleMs };
    return openThreadPool({ file, ...threads, youngGenerationMb }, this.#observe);
  }
}
