import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Batch } from '../wire/statement.ts';

/** A batch as it lies in the file. */
interface Extent {
  readonly position: number;
  readonly bytes: number;
  readonly batch: Omit<Batch, 'buffer'>;
}

/**
 * Batches on disk, first in, first out. The file has no name from the moment it is open, so that nobody else can open it and
 * it goes with the process, however that ends. Each batch lies in it as it lay in memory.
 */
export class SpillFile {
  readonly #file: FileHandle;
  readonly #unread: Extent[] = [];
  /** Where in `#unread` the next one to be read is; what is before it is dropped now and then. */
  #next = 0;
  #bytes = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  /**
   * @param folder is made if there is none
   * @throws Error of the file system
   */
  static async create(folder: string): Promise<SpillFile> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, randomBytes(12).toString('hex'));
    const file = await open(path, 'wx+', 0o600);
    try {
      // A server that starts in the same folder sweeps it (see service.ts), and may have been faster.
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

  /** What it takes on disk, what has been read included. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Appends a batch, whose memory must stay as it is until then. One write at a time.
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
   * The oldest batch that has not been read; there must be one. One read at a time.
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

  /** Gives the disk back, when what is under way is done. */
  async close(): Promise<void> {
    await this.#file.close();
  }
}
