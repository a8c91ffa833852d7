import { join } from 'node:path';
import type { Observe } from '../events.ts';
import type { QueryStats } from '../query/pages.ts';
import type { Rows } from '../query/ring.ts';
import type { RowStore } from '../query/row-store.ts';
import type { QueryState } from '../query/state.ts';
import { RefusalError } from '../refusal-error.ts';
import type { Cause } from '../wire/failures.ts';
import { fileTrouble, isFileError, isMissing } from '../wire/file-trouble.ts';
import { type KeptBatch, keptFiles } from '../wire/kept-rows.ts';
import type { Column, FormatName } from '../wire/statement.ts';
import { BatchIndex } from './batch-index.ts';
import { type FileForm, FormatFiles } from './format-files.ts';
import type { KeptSpace } from './kept-space.ts';
import { DamagedFileError, type Manifest, readColumns, sizeOf, writeManifest } from './manifest.ts';
import { DamagedResultError, type ResultReader } from './result-reader.ts';
import type { WriterPace } from './writer-pace.ts';

/** Disk space that is reserved at once, in bytes: the first of these that there is room for. */
const grantSizes = [8, 2, 0.5].map((mebibytes) => mebibytes * 1024 * 1024);
/** With so much left, no more is reserved. */
const grantBytesMin = 4 * 1024 * 1024;
/** While pages of kept results are waited for, so much is reserved at once, when nothing is left, and when it is its turn. */
const pacedGrantBytes = 512 * 1024;

/** What all results share. */
export interface ResultParts {
  readonly reader: ResultReader;
  readonly space: KeptSpace;
  readonly pace: WriterPace;
  readonly observe: Observe;
}

/** One kept result: its rows on disk, and what is known of it. */
export class KeptResult implements RowStore {
  readonly folder: string;
  readonly index = new BatchIndex();
  readonly #reader: ResultReader;
  readonly #space: KeptSpace;
  readonly #pace: WriterPace;
  readonly #observe: Observe;
  #manifest: Manifest;
  /** Disk space that the worker may use and has not used. */
  #grantedBytes = 0;
  readonly #files: FormatFiles;
  /** Of the files beside its rows and those of formats: thousands of columns take megabytes in them. */
  #describingBytes = 0;
  #isWritten = false;
  #isRemoved = false;
  #saved: Promise<void> = Promise.resolve();

  constructor(folder: string, manifest: Manifest, { reader, space, pace, observe }: ResultParts) {
    this.folder = folder;
    this.#manifest = manifest;
    this.#reader = reader;
    this.#space = space;
    this.#pace = pace;
    this.#observe = observe;
    this.#files = new FormatFiles(this, reader, space);
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  get rows(): number {
    return this.index.rows;
  }

  get grantedBytes(): number {
    return this.#grantedBytes;
  }

  textBytesFrom(row: number): number {
    return this.index.textBytesFrom(row);
  }

  grantDelayMs(): number {
    return this.#grantedBytes > 0 || !this.#isBusy ? 0 : this.#pace.delayMs();
  }

  grant(): number | Cause {
    if (this.#isWritten) return 0;
    const isBusy = this.#isBusy;
    if (this.#grantedBytes >= (isBusy ? 1 : grantBytesMin)) return 0;
    let full: Cause | null = null;
    for (const bytes of isBusy ? [pacedGrantBytes] : grantSizes) {
      full = this.#space.take(this.#manifest.user, bytes);
      if (full !== null) continue;
      this.#grantedBytes += bytes;
      return bytes;
    }
    // What comes may fit in what is left.
    return full === null || this.#grantedBytes > 0 ? 0 : full;
  }

  /** Where its statement runs. The next manifest has it. */
  set sessionId(sessionId: string) {
    this.#manifest = { ...this.#manifest, sessionId };
  }

  add(batch: KeptBatch): number {
    // The columns were written before the first row, and are counted with the manifest otherwise.
    if (this.rows === 0) void this.#countDescribing();
    this.index.add(batch);
    const granted = Math.min(this.#grantedBytes, batch.bytes);
    this.#grantedBytes -= granted;
    // A large row may take more than was granted.
    const owed = batch.bytes - granted;
    this.#space.use(this.#manifest.user, owed);
    return owed;
  }

  async seal(state: QueryState, stats: QueryStats): Promise<void> {
    this.#giveBack();
    await this.save({ ...this.#manifest, endedAt: Date.now(), state, stats, rows: this.rows });
  }

  async readColumns(): Promise<readonly Column[]> {
    try {
      return await readColumns(this.folder);
    } catch (error) {
      throw this.#refusalOf(error as Error);
    }
  }

  /**
   * One manifest after the other. Who writes one need not log that it failed.
   * @throws Error of the file system
   */
  async save(manifest: Manifest): Promise<void> {
    this.#manifest = manifest;
    const before = this.#saved;
    this.#saved = (async () => {
      await before.catch(() => {});
      if (this.#isRemoved) return;
      try {
        await writeManifest(this.folder, manifest);
      } finally {
        await this.#countDescribing();
      }
    })();
    // Who ends the server waits for it, whether or not it fails.
    this.#saved.catch((error: Error) => this.#observeFailure(error));
    await this.#saved;
  }

  /** The files are there whether or not there is room for them. Later results find less of it. */
  async #countDescribing(): Promise<void> {
    const names = [keptFiles.columns, keptFiles.index, keptFiles.manifest];
    const sizes = await Promise.all(names.map((name) => sizeOf(join(this.folder, name))));
    if (this.#isRemoved) return;
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    this.#space.use(this.#manifest.user, bytes - this.#describingBytes);
    this.#describingBytes = bytes;
  }

  /** Resolves when no manifest is being written. */
  async saved(): Promise<void> {
    await this.#saved.catch(() => {});
  }

  async read(from: number, rowsMax: number, bytesMax: number, format: FormatName, signal: AbortSignal): Promise<Rows> {
    const rows = { folder: this.folder, ...this.index.find(from, rowsMax, bytesMax), rowsMax, bytesMax, format };
    try {
      return await this.#reader.read(this.#manifest.user, rows, signal);
    } catch (error) {
      throw this.#refusalOf(error as Error);
    }
  }

  /**
   * The file of a format, which is made when it is first asked for.
   * @param client aborted when the client has gone
   * @returns its path
   * @throws RefusalError if there is no room for it, or it cannot be made
   * @throws RequestAbortedError if no client waits for it any more
   */
  async file(name: string, form: FileForm, client: AbortSignal): Promise<string> {
    try {
      return await this.#files.path(name, form, client);
    } catch (error) {
      throw this.#refusalOf(error as Error);
    }
  }

  /** It is no longer kept: its disk space is free for others. */
  removed(): void {
    if (this.#isRemoved) return;
    this.#isRemoved = true;
    this.#giveBack();
    this.#space.release(this.#manifest.user, this.index.bytes + this.#files.bytes + this.#describingBytes);
    this.#files.close();
  }

  get #isBusy(): boolean {
    return this.#reader.isBusyFor(this.#manifest.user);
  }

  #giveBack(): void {
    this.#isWritten = true;
    this.#space.release(this.#manifest.user, this.#grantedBytes);
    this.#grantedBytes = 0;
  }

  /** What clients are told of an error. It has no path of the server's disk. */
  #refusalOf(error: Error): Error {
    const { id } = this.#manifest;
    if (error instanceof RefusalError) return error;
    if (this.#isRemoved) return new RefusalError(`result ${id} is no longer kept`, 'gone');
    if (error instanceof DamagedResultError || error instanceof DamagedFileError)
      return new RefusalError(`result ${id} cannot be read: it is damaged: ${error.message}`, 'gone');
    if (isMissing(error)) return new RefusalError(`result ${id} cannot be read: its files are no longer there`, 'gone');
    if (!isFileError(error)) return error;
    this.#observeFailure(error);
    return new RefusalError(`result ${id} cannot be read now: ${fileTrouble(error)}`, 'unavailable');
  }

  #observeFailure({ message }: Error): void {
    const { id, user } = this.#manifest;
    this.#observe({ type: 'kept_result_failed', result: id, user, reason: message });
  }
}
