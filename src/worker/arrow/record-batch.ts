import { type FieldNode, recordBatchMessage } from '../../formats/arrow/messages.ts';
import type { ArrowRowFormat } from './arrow-columns.ts';
import { BatchBody } from './batch-body.ts';
import { findCells, type RowPackets } from './cells.ts';
import { UnrepresentableError } from './unrepresentable-error.ts';

/** A record batch as a message of Arrow's IPC formats. */
export interface RecordBatch {
  /** In memory of its own. */
  readonly bytes: Buffer;
  /** Of `bytes`, those before the body. */
  readonly metadataBytes: number;
  /** Bits of `invalidCell`. */
  readonly invalid: number;
}

/** One per thread. */
const body = new BatchBody();

/**
 * Writes the rows `from` to `to` as one record batch.
 * @throws UnrepresentableError if a value has no form in Arrow
 * @throws RangeError if the packets are malformed
 */
export function recordBatch(
  { columns, values }: ArrowRowFormat,
  packets: RowPackets,
  from: number,
  to: number,
): RecordBatch {
  const rows = to - from;
  const nodes: FieldNode[] = [];
  let invalid = 0;
  try {
    for (const [index, cells] of findCells(packets, from, to, columns.length, values).entries()) {
      const { name, drop, write } = columns[index] as (typeof columns)[number];
      if (write === null) {
        nodes.push({ rows, nulls: rows });
        continue;
      }
      drop?.(cells);
      nodes.push({ rows, nulls: body.writeValidity(cells) });
      try {
        invalid |= write(cells, body);
      } catch (error) {
        throw error instanceof UnrepresentableError ? error.inColumn(name) : error;
      }
    }
    const metadata = recordBatchMessage(rows, nodes, body.buffers, body.length);
    const bytes = Buffer.allocUnsafeSlow(metadata.length + body.length);
    bytes.set(metadata);
    body.bytes.copy(bytes, metadata.length, 0, body.length);
    return { bytes, metadataBytes: metadata.length, invalid };
  } finally {
    body.clear();
  }
}
