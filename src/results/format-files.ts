import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RefusalError, RequestAbortedError } from '../refusal-error.ts';
import { isFormatFile } from '../wire/kept-rows.ts';
import type { Column } from '../wire/statement.ts';
import type { BatchIndex } from './batch-index.ts';
import { fileBytesMax } from './file-size.ts';
import type { KeptSpace } from './kept-space.ts';
import type { Manifest } from './manifest.ts';
import type { FileToWrite, ResultReader } from './result-reader.ts';

/** How a file is written, and the columns, by which its size is estimated. */
export type FileForm = Pick<FileToWrite, 'format' | 'content'> & { readonly columns: readonly Column[] };

/** The result that files are of. */
export interface FiledResult {
  readonly folder: string;
  readonly index: BatchIndex;
  readonly manifest: Manifest;
}

/**
 * @param signal aborted when nobody wants the file any more
 * @param completed called with its size; from then on it stays
 * @returns its path
 */
type Write = (signal: AbortSignal, completed: (bytes: number) => void) => Promise<string>;

/** A file that is written, or has been. */
class FormatFile {
  readonly path: Promise<string>;
  readonly #giveUp = new AbortController();
  /** Clients that wait until it is written. */
  #waiting = 0;
  /** On disk; null: it is not written yet. */
  #bytes: number | null = null;

  constructor(write: Write) {
    this.path = write(this.#giveUp.signal, (bytes) => {
      this.#bytes = bytes;
    });
  }

  get isGivenUp(): boolean {
    return this.#giveUp.signal.aborted;
  }

  get bytes(): number {
    return this.#bytes ?? 0;
  }

  /** @param client aborted when it has gone. If it is the last one that waits, the file is given up. */
  async wait(client: AbortSignal): Promise<string> {
    const leave = (): void => {
      this.#waiting--;
      if (this.#waiting === 0) this.giveUp();
    };
    this.#waiting++;
    client.addEventListener('abort', leave, { once: true });
    try {
      return await this.path;
    } finally {
      client.removeEventListener('abort', leave);
    }
  }

  giveUp(): void {
    if (this.#bytes === null) this.#giveUp.abort(new RequestAbortedError('nobody waits for the file'));
  }
}

/** The files of formats of one kept result. Each is made when it is first asked for. */
export class FormatFiles {
  readonly #result: FiledResult;
  readonly #reader: ResultReader;
  readonly #space: KeptSpace;
  /** By their name. */
  readonly #files = new Map<string, FormatFile>();
  #isClosed = false;

  constructor(result: FiledResult, reader: ResultReader, space: KeptSpace) {
    this.#result = result;
    this.#reader = reader;
    this.#space = space;
  }

  /** On disk, of those that are complete. */
  get bytes(): number {
    let bytes = 0;
    for (const file of this.#files.values()) bytes += file.bytes;
    return bytes;
  }

  /**
   * @param client aborted when the client has gone
   * @returns the path of a file
   * @throws RefusalError if there is no room for it, RequestAbortedError if nobody waits for it any more, and as `ResultReader.write`
   */
  async path(name: string, form: FileForm, client: AbortSignal): Promise<string> {
    if (!isFormatFile(name)) throw new Error(`no file of a format is named ${name}`);
    await this.#dropLost(name);
    if (client.aborted || this.#isClosed) throw new RequestAbortedError('nobody waits for the file');
    let file = this.#files.get(name);
    if (file === undefined) {
      file = new FormatFile((signal, completed) => this.#write(name, form, signal, completed));
      this.#files.set(name, file);
      // The next request tries again.
      file.path.catch(() => this.#files.delete(name));
    }
    return file.wait(client);
  }

  /** Gives up those that are being written. No more are made. */
  close(): void {
    this.#isClosed = true;
    for (const file of this.#files.values()) file.giveUp();
  }

  /** One that is given up may still be written for a moment, and somebody may have removed one that is complete. */
  async #dropLost(name: string): Promise<void> {
    for (let file = this.#files.get(name); file?.isGivenUp === true; file = this.#files.get(name)) {
      await file.path.catch(() => {});
    }
    const file = this.#files.get(name);
    if (file === undefined || file.bytes === 0 || existsSync(join(this.#result.folder, name))) return;
    this.#space.release(this.#result.manifest.user, file.bytes);
    this.#files.delete(name);
  }

  async #write(
    name: string,
    { format, content, columns }: FileForm,
    ...[signal, completed]: Parameters<Write>
  ): Promise<string> {
    const { folder, index, manifest } = this.#result;
    const { user } = manifest;
    // What it takes is known afterwards.
    const bytesMax = fileBytesMax(content, format, columns, index);
    let bytes = bytesMax;
    const full = this.#space.take(user, bytes);
    if (full !== null) throw new RefusalError(full.message, 'too many');
    const path = join(folder, name);
    try {
      const task = { folder, file: path, batchCount: index.batches, bytesMax, format, content };
      const written = await this.#reader.write(user, task, signal);
      this.#space.use(user, written - bytes);
      bytes = written;
      signal.throwIfAborted();
      completed(bytes);
      return path;
    } catch (error) {
      await rm(path, { force: true }).catch(() => {});
      this.#space.release(user, bytes);
      throw signal.aborted ? signal.reason : error;
    }
  }
}
