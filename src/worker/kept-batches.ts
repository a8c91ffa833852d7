import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { formats } from '../formats/index.ts';
import type { PlacedBatch } from '../wire/kept-reading.ts';
import { keptFiles, readIndex } from '../wire/kept-rows.ts';
import { rowEndsOffset } from '../wire/statement.ts';
import type { RowPackets } from './arrow/cells.ts';
import type { KeptColumns } from './kept-file.ts';
import { resultColumns } from './result-columns.ts';

/** The rows on disk are not those that were written. */
export class DamageError extends Error {
  override readonly name = 'DamageError';
}

/**
 * Reads the batches of a kept result. The calls block, since the threads that read kept results do nothing else: on libuv's
 * threads, which all threads share, a read would wait for writes to the disk.
 */
export class KeptBatches {
  readonly #folder: string;
  readonly #file: number;

  /** @throws Error of the file system */
  constructor(folder: string) {
    this.#folder = folder;
    this.#file = openSync(join(folder, keptFiles.rows), 'r');
  }

  /**
   * The packets of a batch.
   * @throws DamageError if the bytes are not those that were written, or Error of the file system
   */
  read({ position, bytes: count, length, rows, crc }: PlacedBatch): RowPackets {
    const source = Buffer.allocUnsafeSlow(count);
    for (let done = 0; done < count; ) {
      const bytesRead = readSync(this.#file, source, done, count - done, position + done);
      if (bytesRead === 0) throw new DamageError('the file of its rows is shorter than what was written');
      done += bytesRead;
    }
    if (crc32(source) !== crc) throw new DamageError('the checksum of its rows is wrong');
    return { source, ends: new Uint32Array(source.buffer, rowEndsOffset(length), rows) };
  }

  /**
   * The first batches of the index.
   * @throws DamageError if it has fewer, or Error of the file system
   */
  placed(count: number): PlacedBatch[] {
    const placed: PlacedBatch[] = [];
    let position = 0;
    for (const batch of readIndex(readFileSync(join(this.#folder, keptFiles.index))).slice(0, count)) {
      placed.push({ ...batch, position });
      position += batch.bytes;
    }
    if (placed.length < count) throw new DamageError('the index of its rows is shorter than what was written');
    return placed;
  }

  close(): void {
    closeSync(this.#file);
  }
}

interface KnownColumns {
  readonly columns: KeptColumns;
  /** As JSON. In memory they take two to three times as much. */
  readonly length: number;
}

/** By folder, since pages of one result are read one after the other. The one that was used last comes last. */
const knownColumns = new Map<string, KnownColumns>();
const knownLengthMax = 4 * 1024 * 1024;
let knownLength = 0;

/** @throws DamageError, or Error of the file system */
export function keptColumns(folder: string): KeptColumns {
  const known = knownColumns.get(folder) ?? readColumns(folder);
  forgetColumns(folder);
  // Those that are used now are kept whatever they take.
  for (const oldest of knownColumns.keys()) {
    if (knownLength + known.length <= knownLengthMax) break;
    forgetColumns(oldest);
  }
  knownColumns.set(folder, known);
  knownLength += known.length;
  return known.columns;
}

function forgetColumns(folder: string): void {
  knownLength -= knownColumns.get(folder)?.length ?? 0;
  knownColumns.delete(folder);
}

function readColumns(folder: string): KnownColumns {
  const text = readFileSync(join(folder, keptFiles.columns), 'utf8');
  return { columns: columnsOf(text), length: text.length };
}

function columnsOf(text: string): KeptColumns {
  try {
    const columns = JSON.parse(text) as KeptColumns;
    resultColumns(columns.definitions, formats.json, columns.isBinary);
    return columns;
  } catch {
    throw new DamageError('the columns of its rows cannot be read');
  }
}
