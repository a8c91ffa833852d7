import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { spillName } from '../wire/spill-name.ts';
import type { Batch } from '../wire/statement.ts';

/** A batch in the file. */
interface Extent {
  readonly position: number;
  readonly bytes: number;
  readonly batch: Omit<Batch, 'buffer'>;
}

/**
 * Batches on disk, first in, first out. The file is unlinked as soon as it is open: no other process can open it, and it
 * disappears with this process, however that ends. Batches have the same bytes as in memory.
 */
export class SpillFile {
  readonly #file: FileHandle;
  readonly #unread: Extent[] = [];
  /** The index in `#unread` of the next batch to read. Entries before it are removed from time to time. */
  #next = 0;
  #bytes = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /**
   * @param folder created if there is none
   * @throws Error of the file system
   */
  static async create(folder: string): Promise<SpillFile> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, spillName());
    const file = await open(path, 'wx+', 0o600);
    try {
      // A server that starts with the same folder deletes such files (see data-dir.ts), and may have been faster.
      await rm(path, { force: true });
    } catch (error) {
      await file.close();
      throw error;
    }
    return new SpillFile(file);
  }

  /** Batches that have not been read. */
  get unread(): number {
    return this.#unread.length - this.#next;
  }

  /** Size on disk, including batches that have been read. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Appends a batch, whose memory must not change meanwhile. One write at a time.
   * @throws Error of the file system
   */
  async write({ buffer, ...batch }: Batch): Promise<void> {
    const bytes = buffer.byteLength;
    const position = this.#bytes;
    for (let done = 0; done < bytes; ) {
      const { bytesWritten } = await this.#file.write(new Uint8Array(buffer), done, bytes - done, position + done);
      done += bytesWritten;
    }
    this.#bytes += bytes;
    this.#unread.push({ position, bytes, batch });
  }

  /**
   * Reads the oldest batch that has not been read; there must be one. One read at a time.
   * @throws Error of the file system
   */
  async read(): Promise<Batch> {
    const extent = this.#unread[this.#next] as Extent;
    const bytes = Buffer.allocUnsafeSlow(extent.bytes);
    for (let done = 0; done < bytes.length; ) {
      const { bytesRead } = await this.#file.read(bytes, done, bytes.length - done, extent.position + done);
      if (bytesRead === 0) throw new Error('the file is shorter than what was written');
      done += bytesRead;
    }
    this.#next++;
    if (this.#next * 2 > this.#unread.length) {
      this.#unread.splice(0, this.#next);
      this.#next = 0;
    }
    return { ...extent.batch, buffer: bytes.buffer as ArrayBuffer };
  }

  /** Frees the disk space after pending reads and writes. */
  async close(): Promise<void> {
    await this.#file.close();
  }
}
