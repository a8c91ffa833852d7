import { ReadableStream } from 'node:stream/web';
import type { RecordBatch, WriterProperties } from 'parquet-wasm';
import type { ArrowType } from '../../formats/arrow/arrow-type.ts';
import { batchLimits, parquetBatchBytes, rowGroup } from '../../formats/arrow/batch-limits.ts';
import { endOfStream, schemaMessage } from '../../formats/arrow/messages.ts';
import type { ArrowRowFormat } from './arrow-columns.ts';
import type { RowPackets } from './cells.ts';
import { fileBatches } from './file-batches.ts';
import { recordBatch } from './record-batch.ts';

type ParquetWasm = typeof import('parquet-wasm');

/** A dictionary takes 80 KiB and half a millisecond, however few values there are. */
const dictionaryColumnsMax = 500;

const utf8: ArrowType = { kind: 'utf8' };
const noPackets: RowPackets = { source: Buffer.alloc(0), ends: new Uint32Array(0) };

/**
 * A Parquet file, in pieces.
 * @throws UnrepresentableError
 */
export async function* parquetFile(format: ArrowRowFormat, packets: Iterable<RowPackets>): AsyncGenerator<Uint8Array> {
  // It takes some megabytes, which only those who ask for such files need.
  const parquet = await import('parquet-wasm');
  let failure: unknown = null;
  let hasAll = false;
  const batches = recordBatches(parquet, format, packets);
  const source = new ReadableStream<RecordBatch>(
    {
      pull(controller): void {
        try {
          const { value, done } = batches.next();
          if (done === true) {
            hasAll = true;
            controller.close();
          } else controller.enqueue(value);
        } catch (error) {
          failure = error;
          controller.error(error);
        }
      },
    },
    { highWaterMark: 0 },
  );
  try {
    const file = (await parquet.transformParquetStream(
      source as unknown as globalThis.ReadableStream,
      properties(parquet, format.columns.length),
    )) as unknown as ReadableStream<Uint8Array>;
    yield* file;
    // The library takes an error that comes after the first batch for the end of the rows.
    if (!hasAll) throw new Error('the file ended before its rows');
  } catch (error) {
    // The library passes on the text of an error alone.
    throw failure ?? (error instanceof Error ? error : new Error(String(error)));
  } finally {
    batches.return(undefined);
  }
}

function* recordBatches(
  parquet: ParquetWasm,
  format: ArrowRowFormat,
  packets: Iterable<RowPackets>,
): Generator<RecordBatch, undefined> {
  // Readers of Parquet that know Arrow's types may not know its extension types.
  const fields = format.columns.map(({ name, type }) => ({ name, type: type.kind === 'json' ? utf8 : type }));
  const schema = schemaMessage(fields);
  const batchOf = (batch: RowPackets): RecordBatch => {
    const { bytes } = recordBatch(format, batch, 0, batch.ends.length);
    const table = parquet.Table.fromIPCStream(Buffer.concat([schema, bytes, endOfStream]));
    try {
      return table.recordBatch(0) as RecordBatch;
    } finally {
      table.free();
    }
  };
  const limits = batchLimits(
    fields.map(({ type }) => type),
    parquetBatchBytes,
  );
  let isEmpty = true;
  for (const batch of fileBatches(packets, limits)) {
    isEmpty = false;
    yield batchOf(batch);
  }
  // The schema is that of the first batch.
  if (isEmpty) yield batchOf(noPackets);
  return undefined;
}

function properties({ WriterPropertiesBuilder, Compression }: ParquetWasm, columns: number): WriterProperties {
  return new WriterPropertiesBuilder()
    .setCompression(Compression.SNAPPY)
    .setMaxRowGroupSize(rowGroup.rows)
    .setMaxRowGroupBytes(rowGroup.bytes)
    .setDictionaryEnabled(columns <= dictionaryColumnsMax)
    .setCreatedBy('sluice')
    .build();
}
