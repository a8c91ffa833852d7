import { createWriteStream } from 'node:fs';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32 } from 'node:zlib';
import { Piscina } from 'piscina';
import { formats } from '../formats/index.ts';
import type {
  Damage,
  KeptTask,
  PlacedBatch,
  ReadRows,
  ReadTask,
  WriteTask,
  WrittenFile,
} from '../wire/kept-reading.ts';
import { type KeptBatch, keptFiles, readIndex } from '../wire/kept-rows.ts';
import { type Batch, rowEndsOffset } from '../wire/statement.ts';
import type { KeptColumns } from './kept-file.ts';
import { headerBytes } from './kernel/shared/row-packet.ts';
import { kernel, kernelStop } from './kernel.ts';
import { resultColumns } from './result-columns.ts';
import { RowEncoder } from './row-encoder.ts';
import type { RowFormat } from './row-format.ts';

/** Rows were checked when they came. */
const noLimit = Number.MAX_SAFE_INTEGER;

class DamageError extends Error {
  override readonly name = 'DamageError';
}

/** Piscina's task: reads rows of a kept result as text, or writes all of them to a file. */
export default async function serve(task: KeptTask): Promise<ReadRows | WrittenFile | Damage | object> {
  try {
    return task.type === 'read' ? await readRows(task) : await writeFile(task);
  } catch (error) {
    // The class of an error does not cross threads.
    if (error instanceof DamageError) return { damage: error.message };
    throw error;
  }
}

async function readRows({ folder, format, batches, skippedRows, rowsMax, bytesMax }: ReadTask) {
  const text: Batch[] = [];
  let bytes = 0;
  let rows = 0;
  const encoder = new RowEncoder(await formatOf(folder, format), noLimit, (batch) => {
    text.push(batch);
    bytes += batch.length;
  });
  const file = await open(join(folder, keptFiles.rows), 'r');
  try {
    for (const [index, placed] of batches.entries()) {
      const from = index === 0 ? skippedRows : 0;
      const to = Math.min(placed.rows, from + rowsMax - rows);
      encodeBatch(encoder, await readBatch(file, placed), placed, from, to, () => bytes >= bytesMax);
      rows += to - from;
      if (rows >= rowsMax || bytes >= bytesMax) break;
    }
  } finally {
    await file.close();
  }
  const last = encoder.take();
  if (last !== null) text.push(last);
  encoder.release();
  const result: ReadRows = { batches: text };
  const memory = text.map(({ buffer }) => buffer);
  return Piscina.move({ [Piscina.transferableSymbol]: memory, [Piscina.valueSymbol]: result } as unknown as Parameters<
    typeof Piscina.move
  >[0]);
}

async function writeFile({ folder, format, batchCount, head, tail, file: path, bytesMax }: WriteTask) {
  const encoded: Batch[] = [];
  const encoder = new RowEncoder(await formatOf(folder, format), noLimit, (batch) => encoded.push(batch));
  const separator = Uint8Array.of(formats[format].layout.rowSeparator);
  const placed = placedBatches(await readFile(join(folder, keptFiles.index)), batchCount);
  const file = await open(join(folder, keptFiles.rows), 'r');
  let bytes = 0;
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(head);
    let isFirst = true;
    for (const batch of placed) {
      encodeBatch(encoder, await readBatch(file, batch), batch, 0, batch.rows, () => false);
      const last = encoder.take();
      if (last !== null) encoded.push(last);
      for (const { buffer, length } of encoded.splice(0)) {
        if (!isFirst) yield separator;
        isFirst = false;
        yield new Uint8Array(buffer, 0, length);
      }
    }
    yield Buffer.from(tail);
  }
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces()) {
      bytes += piece.length;
      if (bytes > bytesMax) throw new Error(`the file is larger than ${bytesMax} bytes`);
      yield piece;
    }
  }
  try {
    await pipeline(Readable.from(counted()), createWriteStream(path, { mode: 0o600, flags: 'w' }));
  } finally {
    encoder.release();
    await file.close();
  }
  return { bytes };
}

/** @param isEnough whether no more rows are wanted */
function encodeBatch(
  encoder: RowEncoder,
  bytes: Buffer,
  { length, rows }: KeptBatch,
  fromRow: number,
  toRow: number,
  isEnough: () => boolean,
): void {
  if (toRow <= fromRow) return;
  const ends = new Uint32Array(bytes.buffer, bytes.byteOffset + rowEndsOffset(length), rows);
  const from = fromRow === 0 ? 0 : (ends[fromRow - 1] as number);
  const to = ends[toRow - 1] as number;
  const { input } = kernel;
  if (to - from > input.length) {
    for (let row = fromRow; row < toRow && !isEnough(); row++)
      append(encoder, bytes, row === 0 ? 0 : (ends[row - 1] as number), ends[row] as number);
    return;
  }
  bytes.copy(input, 0, from, to);
  for (let at = 0; at < to - from && !isEnough(); at = kernel.consumed) {
    const stop = encoder.encode(at, to - from, noLimit);
    if (stop === kernelStop.outputFull || stop === kernelStop.rowsMax) continue;
    if (kernel.consumed >= to - from) return;
    if (stop !== kernelStop.largeRow) throw new DamageError(`row packets cannot be read (${stop})`);
    // A copy, as the kernel's memory is used for its long cells.
    const start = kernel.consumed;
    const end = start + headerBytes + input.readUIntLE(start, 3);
    append(encoder, Buffer.from(input.subarray(start, end)), 0, end - start);
    kernel.consumed = end;
  }
}

function append(encoder: RowEncoder, bytes: Buffer, start: number, end: number): void {
  encoder.append(bytes, start + headerBytes, end);
}

/** @throws DamageError if the bytes are not those that were written */
async function readBatch(file: FileHandle, { position, bytes: count, crc }: PlacedBatch): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(count);
  for (let done = 0; done < count; ) {
    const { bytesRead } = await file.read(bytes, done, count - done, position + done);
    if (bytesRead === 0) throw new DamageError('the file of its rows is shorter than what was written');
    done += bytesRead;
  }
  if (crc32(bytes) !== crc) throw new DamageError('the checksum of its rows is wrong');
  return bytes;
}

/** The batches of an index, as far as its records are whole. */
function placedBatches(index: Buffer, count: number): PlacedBatch[] {
  const placed: PlacedBatch[] = [];
  let position = 0;
  for (const batch of readIndex(index).slice(0, count)) {
    placed.push({ ...batch, position });
    position += batch.bytes;
  }
  if (placed.length < count) throw new DamageError('the index of its rows is shorter than what was written');
  return placed;
}

/** By folder, since pages of one result are read one after the other. The one that was used last comes last. */
const knownColumns = new Map<string, KeptColumns>();
const knownColumnsMax = 32;

async function formatOf(folder: string, name: KeptTask['format']): Promise<RowFormat> {
  let columns = knownColumns.get(folder);
  knownColumns.delete(folder);
  columns ??= JSON.parse(await readFile(join(folder, keptFiles.columns), 'utf8')) as KeptColumns;
  knownColumns.set(folder, columns);
  const [oldest = folder] = knownColumns.keys();
  if (knownColumns.size > knownColumnsMax) knownColumns.delete(oldest);
  return resultColumns(columns.definitions, formats[name], columns.isBinary).format;
}
