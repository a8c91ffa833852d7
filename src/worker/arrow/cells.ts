import { fixedBytes } from '../binary-values.ts';
import { anyLength, byteLength, nullCell } from '../kernel/shared/arrow.ts';
import * as rowPacket from '../kernel/shared/row-packet.ts';
import * as valueType from '../kernel/shared/value-type.ts';
import { arrowKernel, viewOf } from './kernel.ts';

// V8 reads a constant of the own module faster than an imported one.
const { binaryRowHeader, headerBytes, nullBitsOffset, nullPrefix, prefix2, prefix3, prefix8 } = rowPacket;

/** See `RowFormat.values`. */
const typeMask = 0xff;

export { nullCell };

/** The cells of one column: where the bytes of each lie. */
export interface Cells {
  readonly source: Buffer;
  readonly view: DataView;
  /** By row. */
  readonly starts: Uint32Array;
  /** By row; `nullCell` for NULL. Of dates and times of binary rows, without the byte that says it. */
  readonly lengths: Int32Array;
  readonly rows: number;
  /** The number of the first one in the kernel's memory; `notInKernel` if they are elsewhere. */
  readonly kernelCell: number;
}

export const notInKernel = -1;

/** Row packets, one after the other, each with its header. */
export interface RowPackets {
  readonly source: Buffer;
  /** By row, the end of its packet in `source`. */
  readonly ends: Uint32Array;
}

/** The most cells for which memory is kept between two batches. */
const keptCellsMax = 256 * 1024;
/** For what the kernel does not find. */
let starts = new Uint32Array(0);
let lengths = new Int32Array(0);

/**
 * Finds the cells of the rows `from` to `to`, by column. They are valid until the next call.
 * @param values of the columns (see `RowFormat`); null: the rows are in the text protocol
 * @throws RangeError if a cell reaches past the end of its packet
 */
export function findCells(
  { source, ends }: RowPackets,
  from: number,
  to: number,
  columns: number,
  values: Uint16Array | null,
): Cells[] {
  const rows = to - from;
  let at = from === 0 ? 0 : (ends[from - 1] as number);
  const packets = source.subarray(at, rows === 0 ? at : ends[to - 1]);
  if (arrowKernel.findCells(packets, rows, columns, values?.map(sizeOf) ?? null)) {
    const { packets, packetsView, starts, lengths } = arrowKernel;
    return divide({ source: packets, view: packetsView, starts, lengths, rows, kernelCell: 0 }, columns);
  }
  const count = rows * columns;
  if (starts.length < count || starts.length > Math.max(keptCellsMax, count)) {
    starts = new Uint32Array(count);
    lengths = new Int32Array(count);
  }
  const view = viewOf(source);
  for (let row = 0; row < rows; row++) {
    const end = ends[from + row] as number;
    // A row of 16 MiB or more has its header in front of the whole.
    const start = at + headerBytes;
    if (values === null) findInText(source, view, start, end, row, rows, columns);
    else findInBinary(source, view, start, end, row, rows, values);
    at = end;
  }
  return divide({ source, view, starts, lengths, rows, kernelCell: notInKernel }, columns);
}

function sizeOf(value: number): number {
  const type = value & typeMask;
  return type === valueType.string ? anyLength : fixedBytes[type] || byteLength;
}

/** By column. @param all of all columns */
function divide(all: Cells, columns: number): Cells[] {
  const { starts, lengths, rows, kernelCell } = all;
  return Array.from({ length: columns }, (_, column) => {
    const first = column * rows;
    return {
      ...all,
      starts: starts.subarray(first, first + rows),
      lengths: lengths.subarray(first, first + rows),
      kernelCell: kernelCell === notInKernel ? notInKernel : first,
    };
  });
}

function findInText(
  source: Buffer,
  view: DataView,
  start: number,
  end: number,
  row: number,
  rows: number,
  columns: number,
): void {
  let at = start;
  let cell = row;
  for (let column = 0; column < columns; column++, cell += rows) {
    let length = source[at++] as number;
    if (length >= nullPrefix) {
      if (length === nullPrefix) {
        lengths[cell] = nullCell;
        continue;
      }
      length = longLength(view, at, length);
      at += lengthBytes;
    }
    starts[cell] = at;
    lengths[cell] = length;
    at += length;
  }
  if (at > end) throw pastEnd();
}

function findInBinary(
  source: Buffer,
  view: DataView,
  start: number,
  end: number,
  row: number,
  rows: number,
  values: Uint16Array,
): void {
  const columns = values.length;
  let at = start + 1 + ((columns + nullBitsOffset + 7) >> 3);
  if (source[start] !== binaryRowHeader || at > end) throw new RangeError('a packet is not a binary row');
  let cell = row;
  for (let column = 0; column < columns; column++, cell += rows) {
    const bit = column + nullBitsOffset;
    if ((((source[start + 1 + (bit >> 3)] as number) >> (bit & 7)) & 1) === 1) {
      lengths[cell] = nullCell;
      continue;
    }
    const type = (values[column] as number) & typeMask;
    let length = fixedBytes[type] as number;
    if (length === 0) {
      length = source[at++] as number;
      if (length >= nullPrefix) {
        if (length === nullPrefix || type !== valueType.string) throw new RangeError('a packet is not a binary row');
        length = longLength(view, at, length);
        at += lengthBytes;
      }
    }
    starts[cell] = at;
    lengths[cell] = length;
    at += length;
  }
  if (at > end) throw pastEnd();
}

/** Of the length that was read last, after its first byte. */
let lengthBytes = 0;

function longLength(view: DataView, at: number, prefix: number): number {
  if (prefix === prefix2) {
    lengthBytes = 2;
    return view.getUint16(at, true);
  }
  if (prefix === prefix3) {
    lengthBytes = 3;
    return view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
  }
  if (prefix !== prefix8) throw new RangeError('a length has an unknown form');
  lengthBytes = 8;
  // More than 4 GiB reach past the end of any packet.
  return view.getUint32(at + 4, true) === 0 ? view.getUint32(at, true) : Number.MAX_SAFE_INTEGER;
}

function pastEnd(): RangeError {
  return new RangeError('a cell reaches past the end of its row packet');
}
