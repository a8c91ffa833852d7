import { arrowTypeOf } from '../formats/arrow/arrow-type.ts';
import { formats, isArrow } from '../formats/index.ts';
import type { FileContent } from '../wire/kept-reading.ts';
import type { Column, FormatName } from '../wire/statement.ts';
import type { BatchIndex } from './batch-index.ts';

/** The most bytes of a text format around a row and between rows. */
const textRowBytes = 4;

/** Of an Arrow value: its offset, and its bit of whether it is NULL. */
const valueOverhead = 5;
const valueBytesMax = 32;
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
    // No format takes more bytes around cells than JSON, except for keys.
    return textBytes + rows * (keyBytes + textRowBytes) + around;
  }
  const choices = isArrow(chosen) ? chosen : formats.arrow;
  let rowBytes = 0;
  let nameBytes = 0;
  for (const { name, type } of columns) {
    const { kind } = arrowTypeOf(type, choices);
    const isText = kind === 'utf8' && type.name !== 'String' && type.name !== 'Variant';
    rowBytes += valueOverhead + (isText ? dateTextBytes : isVariable(kind) ? 0 : valueBytesMax);
    nameBytes += nameCopies * Buffer.byteLength(name);
  }
  const parts = content.type === 'arrow' ? batches : Math.ceil(batches / batchesPerRowGroup);
  const partBytes = columns.length * columnBytes + (content.type === 'arrow' ? 0 : nameBytes);
  // Texts take no more than in the packets, unless they are not UTF-8.
  return bytes + rows * rowBytes + (parts + 1) * partBytes + nameBytes + fileBytes;
}

function isVariable(kind: ReturnType<typeof arrowTypeOf>['kind']): boolean {
  return kind === 'utf8' || kind === 'json' || kind === 'binary' || kind === 'null';
}

function keysBytes(columns: readonly Column[]): number {
  let bytes = 0;
  for (const { name } of columns) bytes += Buffer.byteLength(JSON.stringify(name)) + 1;
  return bytes;
}
