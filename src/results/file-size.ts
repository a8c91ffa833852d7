import { arrowTypeOf, valueBytes } from '../formats/arrow/arrow-type.ts';
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
/** Of a column in the schema, in a record batch, and in a row group of a Parquet file, beside its name. */
const columnBytes = 1_024;
/** A name may stand in the schema, in the Arrow schema within it, and in each row group. */
const nameCopies = 4;
const fileBytes = 64 * 1024;
/** A row group is written for so many batches at the least. */
const batchesPerRowGroup = 16;

/** The most bytes that a file of a kept result can take. */
export function fileBytesMax(
  content: FileContent,
  format: FormatName,
  columns: readonly Column[],
  index: BatchIndex,
): number {
  const chosen = formats[format];
  const { rows, batches, bytes, textBytes } = index;
  if (content.type === 'text') {
    const keyBytes = !isArrow(chosen) && chosen.hasKeys ? keysBytes(columns) : 0;
    const around = Buffer.byteLength(content.head) + Buffer.byteLength(content.tail);
    // No format takes more bytes for a text than JSON. A JSON document stands in JSON as it is, and elsewhere is a text, of which
    // each character may have to be escaped.
    const copies = columns.some(({ type }) => type.name === 'Variant') ? 2 : 1;
    return copies * textBytes + rows * (keyBytes + textRowBytes) + around;
  }
  const choices = isArrow(chosen) ? chosen : formats.arrow;
  let rowBytes = 0;
  let nameBytes = 0;
  for (const { name, type } of columns) {
    const arrowType = arrowTypeOf(type, choices);
    const isDateText = arrowType.kind === 'utf8' && type.name !== 'String' && type.name !== 'Variant';
    rowBytes += nullBytes + valueBytes(arrowType) + (isDateText ? dateTextBytes : 0);
    nameBytes += nameCopies * Buffer.byteLength(name);
  }
  // A row group of Parquet may have values twice: in a dictionary, and when that is full.
  if (content.type === 'parquet') rowBytes *= 2;
  const parts = content.type === 'arrow' ? batches : Math.ceil(batches / batchesPerRowGroup);
  const partBytes = columns.length * columnBytes + (content.type === 'arrow' ? 0 : nameBytes);
  // Texts take no more than in the packets, unless they are not UTF-8.
  return bytes + rows * rowBytes + (parts + 1) * partBytes + nameBytes + fileBytes;
}

function keysBytes(columns: readonly Column[]): number {
  let bytes = 0;
  for (const { name } of columns) bytes += Buffer.byteLength(JSON.stringify(name)) + 1;
  return bytes;
}
