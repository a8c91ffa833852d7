import { bodyBytes, cellsMax, packetsBytes } from '../kernel/shared/arrow.ts';
import { columnsMax } from '../kernel/shared/sizes.ts';
import { compiled } from '../web-assembly.ts';

/** The functions of kernel/arrow/main.ts. `cell` is the number of a column's first cell, `at` a position in `body`. */
interface Functions {
  /** 0: a packet is malformed. */
  findCells(bytes: number, rows: number, columns: number, isBinary: boolean): number;
  countNulls(cell: number, rows: number): number;
  writeValidity(cell: number, rows: number, at: number): void;
  copy1(cell: number, rows: number, at: number): void;
  copy2(cell: number, rows: number, at: number): void;
  copy4(cell: number, rows: number, at: number): void;
  copy8(cell: number, rows: number, at: number): void;
  copyDoubles(cell: number, rows: number, at: number): void;
  /** 0, here and below: there is a value that the kernel does not know, and what it wrote is void. */
  writeDates(cell: number, rows: number, at: number): number;
  writeTimestamps(cell: number, rows: number, at: number, decimals: number): number;
  writeDecimals(cell: number, rows: number, at: number, bytes: number, precision: number, scale: number): number;
  /** Returns the bytes of all texts. */
  writeOffsets(cell: number, rows: number, at: number): number;
  /** 0: a cell begins within a character of UTF-8. */
  copyTexts(cell: number, rows: number, at: number): number;
}

interface Exports extends Functions {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly sizes: { readonly value: number };
  readonly packets: { readonly value: number };
  readonly starts: { readonly value: number };
  readonly lengths: { readonly value: number };
  readonly body: { readonly value: number };
}

const newInstance = compiled(new URL('kernel.wasm', import.meta.url));

/** Writes Arrow's columns in WebAssembly, in memory of its own, which does not grow or move. */
class ArrowKernel {
  readonly packets: Buffer;
  readonly packetsView: DataView;
  readonly starts: Uint32Array;
  readonly lengths: Int32Array;
  readonly body: Buffer;
  readonly bodyView: DataView;
  readonly functions: Functions;
  readonly #sizes: Uint8Array;

  constructor() {
    const exports = newInstance() as Exports;
    const memory = exports.memory.buffer;
    this.functions = exports;
    this.packets = Buffer.from(memory, exports.packets.value, packetsBytes);
    this.packetsView = viewOf(this.packets);
    this.starts = new Uint32Array(memory, exports.starts.value, cellsMax);
    this.lengths = new Int32Array(memory, exports.lengths.value, cellsMax);
    this.body = Buffer.from(memory, exports.body.value, bodyBytes);
    this.bodyView = viewOf(this.body);
    this.#sizes = new Uint8Array(memory, exports.sizes.value, columnsMax);
  }

  /**
   * Finds the cells of row packets, by column, in `starts` and `lengths`. The packets are copied to `packets`.
   * @param sizes by column, the bytes of the values of binary rows, or `anyLength`, or `byteLength`; null: the rows are text
   * @returns false if they are too many, too large or malformed
   */
  findCells(packets: Uint8Array, rows: number, columns: number, sizes: ArrayLike<number> | null): boolean {
    if (packets.length > packetsBytes || columns > columnsMax || rows * columns > cellsMax) return false;
    this.packets.set(packets);
    if (sizes !== null) this.#sizes.set(sizes);
    return this.functions.findCells(packets.length, rows, columns, sizes !== null) !== 0;
  }
}

export function viewOf({ buffer, byteOffset, byteLength }: Buffer): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

/** One per thread. */
export const arrowKernel = new ArrowKernel();
