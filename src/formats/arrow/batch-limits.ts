import { type ArrowType, valueBytes } from './arrow-type.ts';

/** With what a record batch is full. */
export interface BatchLimits {
  /** Bytes of its row packets. */
  readonly packetBytes: number;
  readonly rows: number;
}

/** About the bytes of a column in the metadata of a record batch: a node and three buffers. */
const columnBytes = 64;
/** A NULL takes next to nothing in a packet, and in Arrow as much as any value: a batch has at most so many times its packets. */
const growthMax = 4;
/** For each cell, NULL or not, eight bytes say where it lies. */
const cellsMax = 1024 * 1024;

/** @param bytes of packets. A batch of many columns has more, or most of it would be metadata */
export function batchLimits(types: readonly ArrowType[], bytes: number): BatchLimits {
  const packetBytes = Math.max(bytes, types.length * columnBytes);
  const rowBytes = types.reduce((sum, type) => sum + valueBytes(type), 0);
  const rows = Math.min((growthMax * packetBytes) / Math.max(1, rowBytes), cellsMax / Math.max(1, types.length));
  return { packetBytes, rows: Math.max(1, Math.floor(rows)) };
}

/** Bytes of packets in a record batch of an Arrow file: as in a stream. */
export const arrowFileBatchBytes = 224 * 1024;
/** In what is handed to the writer of Parquet at a time: each column of it costs as much as a hundred values. */
export const parquetBatchBytes = 4 * 1024 * 1024;

/** A row group of a Parquet file ends with so many rows, or about so many bytes. It is held in memory until then. */
export const rowGroup = { rows: 128 * 1024, bytes: 32 * 1024 * 1024 } as const;
