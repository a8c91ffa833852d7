import { Piscina } from 'piscina';
import { formats } from '../formats/index.ts';
import { isFileError } from '../wire/file-trouble.ts';
import type { KeptTask, ReadRows, ReadTask, TaskFailure, WrittenFile } from '../wire/kept-reading.ts';
import type { Batch } from '../wire/statement.ts';
import { UnrepresentableError } from './arrow/unrepresentable-error.ts';
import { DamageError, KeptBatches, keptColumns } from './kept-batches.ts';
import { writeKeptFile } from './kept-file-writer.ts';
import { encodeRows, noLimit } from './kept-text.ts';
import { resultColumns } from './result-columns.ts';
import { RowEncoder } from './row-encoder.ts';
import type { RowFormat } from './row-format.ts';

/** Piscina's task: reads rows of a kept result as text, or writes all of them to a file. */
export default async function serve(task: KeptTask): Promise<ReadRows | WrittenFile | TaskFailure | object> {
  try {
    return task.type === 'read' ? readRows(task) : await writeKeptFile(task);
  } catch (error) {
    if (error instanceof DamageError) return { damage: error.message };
    if (isFileError(error)) return { code: error.code, message: error.message };
    if (error instanceof UnrepresentableError) return { unrepresentable: error.message };
    throw error;
  }
}

function readRows({ folder, format, batches, skippedRows, rowsMax, bytesMax }: ReadTask): object {
  const text: Batch[] = [];
  let bytes = 0;
  let rows = 0;
  const { definitions, isBinary } = keptColumns(folder);
  const rowFormat = resultColumns(definitions, formats[format], isBinary).format as RowFormat;
  const encoder = new RowEncoder(rowFormat, noLimit, (batch) => {
    text.push(batch);
    bytes += batch.length;
  });
  const kept = new KeptBatches(folder);
  try {
    for (const [index, placed] of batches.entries()) {
      const from = index === 0 ? skippedRows : 0;
      const to = Math.min(placed.rows, from + rowsMax - rows);
      encodeRows(encoder, kept.read(placed), from, to, () => bytes >= bytesMax);
      rows += to - from;
      if (rows >= rowsMax || bytes >= bytesMax) break;
    }
  } finally {
    kept.close();
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
