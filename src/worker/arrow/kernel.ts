import { readFileSync } from 'node:fs';
import { arrowBodyBytes, arrowCellsMax, arrowPacketsBytes, columnsMax } from '../kernel/shared/sizes.ts';

/** A global of Node.js that @types/node does not declare. */
declare const WebAssembly: {
  readonly Module: new (source: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: object };
};

/**
 * The functions of kernel/arrow/main.ts. `cell` is the number of a column's first cell, `at` a position in `body`. Those that
 * return a number may say 0: they have met a value that they do not know, and what they wrote is void.
 */
interface Functions {
  findCells(bytes: number, rows: number, columns: number, isBinary: boolean): number;
  countNulls(cell: number, rows: number): number;
  writeValidity(cell: number, rows: number, at: number): void;
  copy1(cell: number, rows: number, at: number): void;
  copy2(cell: number, rows: number, at: number): void;
  copy4(cell: number, rows: number, at: number): void;
  copy8(cell: number, rows: number, at: number): void;
  copyDoubles(cell: number, rows: number, at: number): void;
  writeDates(cell: number, rows: number, at: number): number;
  writeTimestamps(cell: number, rows: number, at: number, decimals: number): number;
  writeDecimals(cell: number, rows: number, at: number, bytes: number, precision: number, scale: number): number;
  /** Returns the bytes of all texts. */
  writeOffsets(cell: number, rows: number, at: number): number;
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

const program = new WebAssembly.Module(readFileSync(new URL('kernel.wasm', import.meta.url)));

/** Writes Arrow's columns in WebAssembly, in memory of its own, which does not grow or move. */
class ArrowKernel {
  readonly packets: Buffer;
  readonly starts: Uint32Array;
  readonly lengths: Int32Array;
  readonly body: Buffer;
  readonly functions: Functions;
  readonly #sizes: Uint8Array;

  constructor() {
    const exports = new WebAssembly.Instance(program).exports as Exports;
    const memory = exports.memory.buffer;
    this.functions = exports;
    this.packets = Buffer.from(memory, exports.packets.value, arrowPacketsBytes);
    this.starts = new Uint32Array(memory, exports.starts.value, arrowCellsMax);
    this.lengths = new Int32Array(memory, exports.lengths.value, arrowCellsMax);
    this.body = Buffer.from(memory, exports.body.value, arrowBodyBytes);
    this.#sizes = new Uint8Array(memory, exports.sizes.value, columnsMax);
  }

  /**
   * Finds the cells of row packets, by column, in `starts` and `lengths`. The packets are copied to `packets`.
   * @param sizes by column, the bytes of the values of binary rows, or 0; null: the rows are text
   * @returns false if they are too many, too large or malformed
   */
  findCells(packets: Uint8Array, rows: number, columns: number, sizes: ArrayLike<number> | null): boolean {
    if (packets.length > arrowPacketsBytes || columns > columnsMax || rows * columns > arrowCellsMax) return false;
    this.packets.set(packets);
    if (sizes !== null) this.#sizes.set(sizes);
    return this.functions.findCells(packets.length, rows, columns, sizes !== null) !== 0;
  }
}

/** One per thread. */
export const arrowKernel = new ArrowKernel();
