import { arrowFileBatchBytes, batchLimits } from '../../formats/arrow/batch-limits.ts';
import { type FileBlock, fileFooter, fileHead, schemaMessage } from '../../formats/arrow/messages.ts';
import type { ArrowRowFormat } from './arrow-columns.ts';
import type { RowPackets } from './cells.ts';
import { fileBatches } from './file-batches.ts';
import { recordBatch } from './record-batch.ts';

/**
 * A file of Arrow's IPC format, in pieces (Arrow columnar format, "IPC File Format").
 * @throws UnrepresentableError
 */
export function* arrowFile(format: ArrowRowFormat, packets: Iterable<RowPackets>): Generator<Uint8Array> {
  const { columns } = format;
  const schema = schemaMessage(columns);
  yield fileHead;
  yield schema;
  const blocks: FileBlock[] = [];
  let position = fileHead.length + schema.length;
  const limits = batchLimits(
    columns.map(({ type }) => type),
    arrowFileBatchBytes,
  );
  for (const batch of fileBatches(packets, limits)) {
    const { bytes, metadataBytes } = recordBatch(format, batch, 0, batch.ends.length);
    yield bytes;
    blocks.push({ position, metadataBytes, bodyBytes: bytes.length - metadataBytes });
    position += bytes.length;
  }
  yield fileFooter(columns, blocks);
}
