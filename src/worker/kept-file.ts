import { constants } from 'node:fs';
import { type FileHandle, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { indexRecord, type KeepRequest, type KeptBatch, keptFiles, type ShownColumns } from '../wire/kept-rows.ts';
import type { ColumnDefinition } from './columns.ts';
import type { CollectedBatch } from './row-collector.ts';

/** The columns of a kept result, as the file `columns.json` has them. */
export interface KeptColumns extends ShownColumns {
  readonly definitions: readonly ColumnDefinition[];
  /** Whether the rows are in the binary protocol. */
  readonly isBinary: boolean;
}

/** Writes the rows of one statement to its folder (see wire/kept-rows.ts). No file stays open between two writes. */
export class KeptFile {
  readonly #rows: string;
  readonly #index: string;

  private constructor(folder: string) {
    this.#rows = join(folder, keptFiles.rows);
    this.#index = join(folder, keptFiles.index);
  }

  /** @throws Error of the file system */
  static async create({ folder }: KeepRequest, columns: KeptColumns): Promise<KeptFile> {
    // Another file of that name is none of ours.
    await writeFile(join(folder, keptFiles.columns), JSON.stringify(columns), { mode: 0o600, flag: 'wx', flush: true });
    const file = new KeptFile(folder);
    for (const path of [file.#rows, file.#index]) await writeFile(path, '', { mode: 0o600, flag: 'wx' });
    return file;
  }

  /**
   * Appends a batch, whose memory must not change meanwhile. One write at a time.
   * @throws Error of the file system
   */
  async write({ buffer, rows, length, textBytes }: CollectedBatch): Promise<KeptBatch> {
    const bytes = new Uint8Array(buffer);
    const batch = { rows, length, bytes: bytes.length, textBytes, crc: crc32(bytes) };
    await append(this.#rows, bytes);
    await append(this.#index, indexRecord(batch));
    return batch;
  }

  /**
   * Returns when a loss of power cannot lose what was written.
   * @throws Error of the file system
   */
  sync(): Promise<void> {
    const before = syncs;
    const done = before.then(async () => {
      for (const path of [this.#rows, this.#index]) await using(path, 'r+', (file) => file.datasync());
    });
    syncs = done.catch(() => {});
    return done;
  }
}

/** One after the other: each occupies a thread of libuv, of which there are few, for as long as the disk takes. */
let syncs: Promise<void> = Promise.resolve();

function append(path: string, bytes: Uint8Array): Promise<void> {
  // The file must be there: if its folder was removed, the rows before these are lost.
  return using(path, constants.O_WRONLY | constants.O_APPEND, async (file) => {
    for (let done = 0; done < bytes.length; ) done += (await file.write(bytes, done)).bytesWritten;
  });
}

async function using(path: string, flags: string | number, use: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags);
  try {
    await use(file);
  } finally {
    await file.close();
  }
}
