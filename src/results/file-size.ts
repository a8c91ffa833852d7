import { type ArrowType, arrowTypeOf, valueBytes } from '../formats/arrow/arrow-type.ts';
import { arrowFileBatchBytes, type BatchLimits, batchLimits, rowGroup } from '../formats/arrow/batch-limits.ts';
import { formats, isArrow } from '../formats/index.ts';
import type { FileContent } from '../wire/kept-reading.ts';
import type { Column, FormatName } from '../wire/statement.ts';
import type { BatchIndex } from './batch-index.ts';

/** The most bytes of a text format around a row and between rows. */
const textRowBytes = 4;

/** Of an Arrow value: the most for its bit of whether it is NULL. */
const nullBytes = 1;
/** The text of a DATETIME with a fraction. */
const dateTextBytes = 'YYYY-MM-DD hh:mm:ss.ffffff'.length;
/** Of a column in the schema of a file, and in a row group of a Parquet file, beside its name. */
const columnBytes = 1_024;
/** Of a column in a record batch: a node, three buffers with what fills each up to eight bytes, and a last offset. */
const batchColumnBytes = 128;
/** Of a record batch beside that, and in the footer. */
const arrowBatchBytes = 256;
/** What stands around the pages of Parquet, and what Snappy adds to values that it cannot compress. */
const valueBytesPerPageByte = 1_024;
/** A name may stand in the schema, in the Arrow schema within it, and in each row group. */
const nameCopies = 4;
const fileBytes = 64 * 1024;

/** The most bytes that a file of a kept result can take. */
export function fileBytesMax(
  content: FileContent,
  format: FormatName,
  columns: readonly Column[],
  index: BatchIndex,
): number {
  const chosen = formats[format];
  const { rows, textBytes } = index;
  if (content.type === 'text') {
    const keyBytes = !isArrow(chosen) && chosen.hasKeys ? keysBytes(columns) : 0;
    const around = Buffer.byteLength(content.head) + Buffer.byteLength(content.tail);
    // No format takes more bytes for a text than JSON. A JSON document stands in JSON as it is, and elsewhere is a text, of which
    // each character may have to be escaped.
    const copies = columns.some(({ type }) => type.name === 'Variant') ? 2 : 1;
    return copies * textBytes + rows * (keyBytes + textRowBytes) + around;
  }
  const choices = isArrow(chosen) ? chosen : formats.arrow;
  const types = columns.map(({ type }) => arrowTypeOf(type, choices));
  let rowBytes = 0;
  let nameBytes = 0;
  for (const [at, { name, type }] of columns.entries()) {
    const arrowType = types[at] as ArrowType;
    const isDateText = arrowType.kind === 'utf8' && type.name !== 'String' && type.name !== 'Variant';
    rowBytes += nullBytes + valueBytes(arrowType) + (isDateText ? dateTextBytes : 0);
    nameBytes += nameCopies * Buffer.byteLength(name);
  }
  // A row group of Parquet may have values twice: in a dictionary, and when that is full.
  if (content.type === 'parquet') rowBytes *= 2;
  // Texts take no more than in the packets, or as JSON if they are not UTF-8: what replaces a byte takes three.
  const valuesBytes = Math.max(index.bytes, textBytes) + rows * rowBytes;
  const schemaBytes = columns.length * columnBytes + nameBytes;
  const partsBytes =
    content.type === 'arrow'
      ? batchesMax(index, batchLimits(types, arrowFileBatchBytes)) *
        (arrowBatchBytes + columns.length * batchColumnBytes)
      : Math.ceil(rows / rowGroup.rows + valuesBytes / rowGroup.bytes) * schemaBytes;
  return valuesBytes + Math.ceil(valuesBytes / valueBytesPerPageByte) + partsBytes + 2 * schemaBytes + fileBytes;
}

/** Of an Arrow file: two that follow each other would not fit in one (see worker/arrow/file-batches.ts). */
function batchesMax({ batches, bytes, rows }: BatchIndex, limits: BatchLimits): number {
  return Math.ceil(Math.min(batches, (2 * bytes) / limits.packetBytes + 1) + rows / limits.rows);
}

function keysBytes(columns: readonly Column[]): number {
  let bytes = 0;
  for (const { name } of columns) bytes += Buffer.byteLength(JSON.stringify(name)) + 1;
  return bytes;
}
