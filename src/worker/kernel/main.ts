// Encodes row packets as text: JSON, CSV or TSV. AssemblyScript, compiled to WebAssembly with SIMD; src/worker/kernel.ts loads it.
// src/worker/cells.ts and src/worker/binary-values.ts define the text of a cell, and the kernel writes the same bytes.
// Variables named `at`, `to`, `from`, `start` and `end` are addresses. Functions that write at `at` return the end of what
// they wrote.

import { writeHex } from './bytes';
import { isBinary, rowOverhead, rowSeparator } from './format';
import { cellPiece, input, output, rowEnds } from './layout';
import { writeBinaryRow, writeTextRow } from './row';
import { eofBytesMax, eofHeader, errorHeader, headerBytes, payloadBytesMax } from './shared/row-packet';
import { cellGrowthMax, headroomBytes, outputBytes } from './shared/sizes';
import * as stop from './shared/stop';
import { writeText } from './text';

export { setColumns, setLayout } from './format';
export { invalid } from './invalid';
export { cellPiece, input, keyEnds, keys, kinds, output, powers, rowEnds, values } from './layout';

/** Results of the last call of `encode`: the end of the consumed input, bytes of output, and rows. */
export let consumed: u32 = 0;
export let written: u32 = 0;
export let rows: u32 = 0;

/**
 * Encodes the row packets in `input[inputStart, inputEnd)`, where the first byte is the start of a packet header.
 * @param before length of the batch that the rows are appended to
 * @param hasRowsBefore whether it has rows, which may be empty
 * @returns a value of shared/stop.ts
 */
export function encode(
  inputStart: i32,
  inputEnd: i32,
  before: u32,
  hasRowsBefore: bool,
  rowsMax: u32,
  rowBytesMax: u32,
): i32 {
  const packetsEnd = input + inputEnd;
  const outputEnd = output + outputBytes;
  const overhead = rowOverhead;
  const separator = rowSeparator;
  const lastRowEnd = rowEnds + rowsMax * 4;
  let packet = input + inputStart;
  let to = output;
  let rowEnd = rowEnds;
  let reason = stop.inputUsed;

  while (packet + headerBytes <= packetsEnd) {
    const payload: usize = <usize>load<u32>(packet) & payloadBytesMax;
    const needed = payload * cellGrowthMax + overhead;
    if (needed > <usize>outputBytes || payload === payloadBytesMax) {
      reason = stop.largeRow;
      break;
    }
    const from = packet + headerBytes;
    const end = from + payload;
    if (end > packetsEnd) {
      if (end - packet > <usize>headroomBytes) reason = stop.largeRow;
      break;
    }
    const first = load<u8>(from);
    if (first >= <u8>eofHeader && (first === errorHeader ? payload > 0 : payload - 1 < <usize>eofBytesMax - 1)) {
      reason = stop.notARow;
      break;
    }
    if (needed > outputEnd - to) {
      reason = stop.outputFull;
      break;
    }
    if (rowEnd === lastRowEnd) {
      reason = stop.rowsMax;
      break;
    }
    let rowStart = to;
    if (hasRowsBefore || rowEnd > rowEnds) store<u8>(rowStart++, separator);
    const rowStop = isBinary ? writeBinaryRow(rowStart, from, end) : writeTextRow(rowStart, from, end);
    if (rowStop <= <usize>stop.malformed) {
      reason = <i32>rowStop;
      break;
    }
    if (rowStop - rowStart > rowBytesMax) {
      reason = stop.rowTooLarge;
      break;
    }
    to = rowStop;
    store<u32>(rowEnd, before + <u32>(to - output));
    rowEnd += 4;
    packet = end;
  }
  consumed = <u32>(packet - input);
  written = <u32>(to - output);
  rows = <u32>(rowEnd - rowEnds) >> 2;
  return reason;
}

/** Encodes `length` bytes of text in `cellPiece`, quotes included, and returns the length of the output. */
export function encodeText(length: u32): u32 {
  return <u32>(writeText(output, cellPiece, cellPiece + length) - output);
}

/** The same for bytes, as hex. */
export function encodeHex(length: u32): u32 {
  return <u32>(writeHex(output, cellPiece, cellPiece + length) - output);
}
