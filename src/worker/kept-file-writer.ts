import { closeSync, openSync, writeSync } from 'node:fs';
import { formats } from '../formats/index.ts';
import type { WriteTask, WrittenFile } from '../wire/kept-reading.ts';
import type { Batch } from '../wire/statement.ts';
import type { ArrowRowFormat } from './arrow/arrow-columns.ts';
import { arrowFile } from './arrow/arrow-file.ts';
import type { RowPackets } from './arrow/cells.ts';
import { parquetFile } from './arrow/parquet-file.ts';
import { KeptBatches, keptColumns } from './kept-batches.ts';
import type { KeptColumns } from './kept-file.ts';
import { encodeRows, noLimit } from './kept-text.ts';
import { resultColumns } from './result-columns.ts';
import { RowEncoder } from './row-encoder.ts';
import type { RowFormat } from './row-format.ts';

/** The columns of a statement that has returned none. */
const noColumns: KeptColumns = { definitions: [], columns: [], isBinary: false };

/**
 * Writes a kept result to a file.
 * @throws DamageError, UnrepresentableError, or Error of the file system
 */
export async function writeKeptFile(task: WriteTask): Promise<WrittenFile> {
  const { folder, format, batchCount, content, file: path, bytesMax } = task;
  const { definitions, isBinary } = batchCount === 0 ? columnsOrNone(folder) : keptColumns(folder);
  const rowFormat = resultColumns(definitions, formats[format], isBinary).format;
  const packets = packetsOf(task);
  const pieces =
    content.type === 'text'
      ? textFile(content, rowFormat as RowFormat, packets)
      : content.type === 'arrow'
        ? arrowFile(rowFormat as ArrowRowFormat, packets)
        : parquetFile(rowFormat as ArrowRowFormat, packets);
  const file = openSync(path, 'w', 0o600);
  let bytes = 0;
  try {
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > bytesMax) throw new Error(`the file is larger than ${bytesMax} bytes`);
      for (let done = 0; done < piece.length; ) done += writeSync(file, piece, done);
    }
  } finally {
    closeSync(file);
  }
  return { bytes };
}

/** A statement without a result set has no file of columns. */
function columnsOrNone(folder: string): KeptColumns {
  try {
    return keptColumns(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return noColumns;
    throw error;
  }
}

function* packetsOf({ folder, batchCount, stop }: WriteTask): Generator<RowPackets> {
  if (batchCount === 0) return;
  const batches = new KeptBatches(folder);
  try {
    for (const placed of batches.placed(batchCount)) {
      if (Atomics.load(stop, 0) !== 0) throw new Error('the file is not wanted any more');
      yield batches.read(placed);
    }
  } finally {
    batches.close();
  }
}

function* textFile(
  { head, tail }: { readonly head: string; readonly tail: string },
  format: RowFormat,
  packets: Iterable<RowPackets>,
): Generator<Uint8Array> {
  const encoded: Batch[] = [];
  const encoder = new RowEncoder(format, noLimit, (batch) => encoded.push(batch));
  const separator = Uint8Array.of(format.layout.rowSeparator);
  let isFirst = true;
  try {
    yield Buffer.from(head);
    for (const batch of packets) {
      encodeRows(encoder, batch, 0, batch.ends.length, () => false);
      const last = encoder.take();
      if (last !== null) encoded.push(last);
      for (const { buffer, length } of encoded.splice(0)) {
        if (!isFirst) yield separator;
        isFirst = false;
        yield new Uint8Array(buffer, 0, length);
      }
    }
    yield Buffer.from(tail);
  } finally {
    encoder.release();
  }
}
