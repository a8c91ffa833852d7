import { isUtf8 } from 'node:buffer';
import { isJsonText } from '../cell-json.ts';
import { replacementBytes, takeInvalid, writeSequence } from '../cell-text.ts';
import * as invalidCell from '../kernel/shared/invalid-cell.ts';
import type { BatchBody } from './batch-body.ts';
import { type Cells, nullCell } from './cells.ts';
import { arrowKernel } from './kernel.ts';

const noCell = nullCell;
/** Up to this length, a loop copies faster than a call. */
const shortBytes = 128;
const wordBytes = 4;
const offsetBytes = 4;
const { functions } = arrowKernel;

/** The bytes of the cells as they are. */
export function writeBytes(cells: Cells, body: BatchBody): void {
  copyCells(cells, body);
}

/**
 * Text. Malformed UTF-8 becomes U+FFFD.
 * @returns bits of `invalidCell`
 */
export function writeTexts(cells: Cells, body: BatchBody): number {
  const before = { length: body.length, buffers: body.buffers.length };
  const { areWhole, start, bytes } = copyCells(cells, body);
  // If no cell begins within a character, the cells are valid together or not at all.
  if (areWhole && isUtf8(body.bytes.subarray(start, start + bytes))) return 0;
  body.length = before.length;
  body.buffers.length = before.buffers;
  replaceInvalid(cells, body);
  return takeInvalid();
}

/** @returns bits of `invalidCell` */
export function writeJsonTexts(cells: Cells, body: BatchBody): number {
  const { source, starts, lengths, rows } = cells;
  let invalid = 0;
  for (let row = 0; row < rows; row++) {
    const start = starts[row] as number;
    const length = lengths[row] as number;
    if (length !== noCell && !isJsonText(source, start, start + length)) invalid |= invalidCell.json;
  }
  return invalid | writeTexts(cells, body);
}

/** Texts of ASCII characters, by row; empty for NULL. */
export function writeStrings(texts: readonly string[], body: BatchBody): void {
  const ends = new Uint32Array(texts.length);
  let bytes = 0;
  for (const [row, text] of texts.entries()) {
    bytes += text.length;
    ends[row] = bytes;
  }
  writeOffsets(ends, body);
  const at = body.begin(bytes);
  body.bytes.write(texts.join(''), at, 'latin1');
  body.end(bytes);
}

/** Writes the offsets and the bytes of the cells. */
function copyCells(cells: Cells, body: BatchBody): { areWhole: boolean; start: number; bytes: number } {
  const { rows, kernelCell } = cells;
  let bytes = 0;
  const offsetsInKernel = (at: number): boolean => {
    bytes = functions.writeOffsets(kernelCell, rows, at);
    return true;
  };
  if (!body.writeInKernel(cells, (rows + 1) * offsetBytes, offsetsInKernel)) bytes = writeOffsetsOf(cells, body);

  const start = body.begin(bytes);
  let areWhole = true;
  const copyInKernel = (at: number): boolean => {
    areWhole = functions.copyTexts(kernelCell, rows, at) !== 0;
    return true;
  };
  if (!body.writeInKernel(cells, bytes, copyInKernel)) areWhole = copyTo(cells, body, start, bytes);
  return { areWhole, start, bytes };
}

/** @returns the bytes of all cells */
function writeOffsetsOf({ lengths, rows }: Cells, body: BatchBody): number {
  let bytes = 0;
  const at = body.begin((rows + 1) * offsetBytes);
  body.view.setInt32(at, 0, true);
  for (let row = 0; row < rows; row++) {
    const length = lengths[row] as number;
    if (length !== noCell) bytes += length;
    body.view.setInt32(at + (row + 1) * offsetBytes, bytes, true);
  }
  body.end((rows + 1) * offsetBytes);
  return bytes;
}

/** @returns whether no cell begins within a character of UTF-8 */
function copyTo(
  { source, view, starts, lengths, rows }: Cells,
  body: BatchBody,
  start: number,
  bytes: number,
): boolean {
  const { bytes: out, view: outView } = body;
  let areWhole = true;
  let to = start;
  for (let row = 0; row < rows; row++) {
    const length = lengths[row] as number;
    if (length <= 0) continue;
    let from = starts[row] as number;
    if (((source[from] as number) & 0xc0) === 0x80) areWhole = false;
    if (length > shortBytes) {
      source.copy(out, to, from, from + length);
      to += length;
      continue;
    }
    const end = to + length;
    for (; to + wordBytes <= end; to += wordBytes, from += wordBytes)
      outView.setInt32(to, view.getInt32(from, true), true);
    while (to < end) out[to++] = source[from++] as number;
  }
  body.end(bytes);
  return areWhole;
}

function replaceInvalid({ source, starts, lengths, rows }: Cells, body: BatchBody): void {
  const ends = new Uint32Array(rows);
  let bytesMax = 0;
  for (let row = 0; row < rows; row++) bytesMax += replacementBytes * Math.max(0, lengths[row] as number);
  const out = Buffer.allocUnsafe(bytesMax);
  let to = 0;
  for (let row = 0; row < rows; row++) {
    const start = starts[row] as number;
    const end = start + Math.max(0, lengths[row] as number);
    for (let from = start; from < end; ) {
      const byte = source[from] as number;
      if (byte < 0x80) {
        out[to++] = byte;
        from++;
        continue;
      }
      const length = writeSequence(out, to, source, from, end);
      to += length > 0 ? length : replacementBytes;
      from += Math.abs(length);
    }
    ends[row] = to;
  }
  writeOffsets(ends, body);
  const at = body.begin(to);
  out.copy(body.bytes, at, 0, to);
  body.end(to);
}

function writeOffsets(ends: Uint32Array, body: BatchBody): void {
  const at = body.begin((ends.length + 1) * offsetBytes);
  body.view.setInt32(at, 0, true);
  for (const [row, end] of ends.entries()) body.view.setInt32(at + (row + 1) * offsetBytes, end, true);
  body.end((ends.length + 1) * offsetBytes);
}
