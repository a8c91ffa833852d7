import { crc32 } from 'node:zlib';
import type { Column } from './statement.ts';

/**
 * How the rows of a kept result lie on disk, in a folder of its own:
 *
 *     columns.json   the columns as the database defines them and as clients see them, and the protocol of the rows
 *     rows           batches one after the other; each holds row packets as the database sent them, and their ends
 *     index          a record of 24 bytes for each batch
 *     manifest.json  written by the main thread
 *
 * A batch is on disk before its record is. So what the records of a killed server name is complete, and a record that was cut
 * off, or has a wrong checksum, ends the index.
 */
export const keptFiles = { columns: 'columns.json', rows: 'rows', index: 'index', manifest: 'manifest.json' } as const;

/** The files of formats, which are beside those. `KeptResult.file` makes no other, so that they are known after a restart. */
export function isFormatFile(name: string): boolean {
  return /^(?:rows|arrays)(?:-[a-z-]+)?\.[a-z]+$/.test(name);
}

/** A statement's rows are kept on disk. */
export interface KeepRequest {
  /** The folder of the result, as an absolute path. It exists, unless the result has been removed meanwhile. */
  readonly folder: string;
}

/** What the main thread reads of `columns.json`. */
export interface ShownColumns {
  /** As clients see them. */
  readonly columns: readonly Column[];
}

/** A batch on disk. Sizes are in bytes. */
export interface KeptBatch {
  readonly rows: number;
  /** Of its packets. */
  readonly length: number;
  /** With the ends of its packets. */
  readonly bytes: number;
  /** Of its rows as JSON. */
  readonly textBytes: number;
  /** CRC-32 of all of it. */
  readonly crc: number;
}

/** Five numbers, and the checksum of their bytes. */
export const indexRecordBytes = 24;
const checkedBytes = indexRecordBytes - 4;

export function indexRecord({ rows, length, bytes, textBytes, crc }: KeptBatch): Buffer {
  const record = Buffer.alloc(indexRecordBytes);
  for (const [place, value] of [rows, length, bytes, textBytes, crc].entries()) record.writeUInt32LE(value, place * 4);
  record.writeUInt32LE(crc32(record.subarray(0, checkedBytes)), checkedBytes);
  return record;
}

/** The batches of an index, up to the first record that is incomplete or damaged. */
export function readIndex(index: Buffer): KeptBatch[] {
  const batches: KeptBatch[] = [];
  for (let at = 0; at + indexRecordBytes <= index.length; at += indexRecordBytes) {
    if (crc32(index.subarray(at, at + checkedBytes)) !== index.readUInt32LE(at + checkedBytes)) break;
    const [rows, length, bytes, textBytes, crc] = [0, 4, 8, 12, 16].map((place) => index.readUInt32LE(at + place));
    batches.push({ rows, length, bytes, textBytes, crc } as KeptBatch);
  }
  return batches;
}
