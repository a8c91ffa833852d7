import { readFileSync } from 'node:fs';
import {
  cellPieceBytes,
  columnsMax,
  headroomBytes,
  outputBytes,
  powerMax,
  powerMin,
  readBytes,
  rowsRoom,
} from './kernel/sizes.ts';
import type { RowFormat } from './row-format.ts';

export { cellPieceBytes, headroomBytes, readBytes };

/** Why the kernel stopped. */
export const kernelStop = {
  /** What is left of the input is less than a packet. */
  inputUsed: 0,
  /** An ERR or EOF packet follows. */
  notARow: 1,
  /** The next row might not fit in what is left of the output. */
  outputFull: 2,
  rowsMax: 3,
  /** The next row is not one for the kernel: too large, whether it has all come or not, or a BIT value of over 64 bits. */
  largeRow: 4,
  /** The JSON of the next row is larger than a row may be. */
  rowTooLarge: 5,
} as const;

export type KernelStop = (typeof kernelStop)[keyof typeof kernelStop];

const malformed = 6;

/** Node.js has it; its typings leave it to those of a browser. */
declare const WebAssembly: {
  readonly Module: new (source: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: object };
};

/** What kernel/rows.ts exports; numbers are addresses in its memory or counts. */
interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly kinds: { readonly value: number };
  readonly values: { readonly value: number };
  readonly powers: { readonly value: number };
  readonly input: { readonly value: number };
  readonly output: { readonly value: number };
  readonly rowEnds: { readonly value: number };
  readonly cellPiece: { readonly value: number };
  readonly consumed: { readonly value: number };
  readonly written: { readonly value: number };
  readonly rows: { readonly value: number };
  readonly invalid: { value: number };
  setFormat(columns: number, nullsAreText: boolean, isBinary: boolean): void;
  encode(from: number, to: number, before: number, rowsMax: number, rowBytesMax: number): number;
  encodeText(length: number): number;
  encodeHex(length: number): number;
}

const program = new WebAssembly.Module(readFileSync(new URL('kernel.wasm', import.meta.url)));

/**
 * For each power of ten from `powerMin` to `powerMax` its first 126 bits and one, so that it is never too small, as two
 * numbers of 63 bits, the higher one first.
 */
const powersOfTen = BigUint64Array.from(
  Array.from({ length: powerMax - powerMin + 1 }, (_, index) => powerOfTen(powerMin + index)).flat(),
);

function powerOfTen(exponent: number): [high: bigint, low: bigint] {
  const power = 10n ** BigInt(Math.abs(exponent));
  const bits = BigInt(power.toString(2).length);
  // A reciprocal has its first bit where that many zeros go before it.
  const first126 =
    exponent < 0 ? (1n << (125n + bits)) / power : bits > 126n ? power >> (bits - 126n) : power << (126n - bits);
  const above = first126 + 1n;
  return [above >> 63n, above & ((1n << 63n) - 1n)];
}

/**
 * Turns row packets of MySQL's protocols into rows of JSON, as `RowEncoder` does and byte for byte the same, but many
 * at once and in WebAssembly. Packets are read into its memory, and rows are written there; the memory stays where it is.
 */
export class Kernel {
  /** `headroomBytes`, then `readBytes`. */
  readonly input: Buffer;
  readonly output: Buffer;
  /** For each row of the last call, its end in the batch; what follows is of earlier calls. */
  readonly rowEnds: Uint32Array;
  /** Where in the input the packets end that the last call took. */
  consumed = 0;
  /** Bytes of output of the last call. */
  length = 0;
  /** Rows of the last call. */
  rows = 0;
  readonly #exports: Exports;
  readonly #kinds: Uint8Array;
  readonly #values: Uint16Array;
  readonly #cellPiece: Uint8Array;
  #given: RowFormat | null = null;

  constructor() {
    const exports = new WebAssembly.Instance(program).exports as Exports;
    const memory = exports.memory.buffer;
    this.#exports = exports;
    this.#kinds = new Uint8Array(memory, exports.kinds.value, columnsMax);
    this.#values = new Uint16Array(memory, exports.values.value, columnsMax);
    this.#cellPiece = new Uint8Array(memory, exports.cellPiece.value, cellPieceBytes);
    this.input = Buffer.from(memory, exports.input.value, headroomBytes + readBytes);
    this.output = Buffer.from(memory, exports.output.value, outputBytes);
    this.rowEnds = new Uint32Array(memory, exports.rowEnds.value, rowsRoom);
    new BigUint64Array(memory, exports.powers.value, powersOfTen.length).set(powersOfTen);
  }

  /**
   * Encodes the row packets in `input[from … to)`, as many as are whole there; the first begins at `from`.
   * @param format is read again only if it is another object
   * @param before the length of the batch that the rows will be appended to: unless 0, they begin with a comma, and their
   *     ends count from its start
   * @throws RangeError if a cell reaches past the end of its row's packet
   */
  encode(
    format: RowFormat,
    from: number,
    to: number,
    before: number,
    rowsMax: number,
    rowBytesMax: number,
  ): KernelStop {
    if (format.kinds.length > columnsMax) {
      this.consumed = from;
      this.length = 0;
      this.rows = 0;
      return kernelStop.largeRow;
    }
    const exports = this.#exports;
    if (format !== this.#given) {
      this.#kinds.set(format.kinds);
      if (format.values !== null) this.#values.set(format.values);
      exports.setFormat(format.kinds.length, format.cells === 'strings, NULL too', format.values !== null);
      this.#given = format;
    }
    const stop = exports.encode(from, to, before, Math.min(rowsMax, rowsRoom), Math.min(rowBytesMax, outputBytes));
    this.consumed = exports.consumed.value;
    this.length = exports.written.value;
    this.rows = exports.rows.value;
    if (stop === malformed) {
      this.takeInvalid();
      throw new RangeError('a cell reaches past the end of its row packet');
    }
    return stop as KernelStop;
  }

  /** What was found since the last call of this: bits of `invalidCell`. */
  takeInvalid(): number {
    const { invalid } = this.#exports;
    const found = invalid.value;
    if (found !== 0) invalid.value = 0;
    return found;
  }

  /**
   * Encodes a piece of a text that is too large for `encode`.
   * @param piece of at most `cellPieceBytes`, no character of it cut in two
   * @returns what stands between the quotes; it lies in `output`
   */
  text(piece: Uint8Array): Uint8Array {
    this.#cellPiece.set(piece);
    return this.output.subarray(1, this.#exports.encodeText(piece.length) - 1);
  }

  /** The same for bytes that are written as hex. */
  hex(piece: Uint8Array): Uint8Array {
    this.#cellPiece.set(piece);
    return this.output.subarray(1, this.#exports.encodeHex(piece.length) - 1);
  }
}

/** The thread's. */
export const kernel = new Kernel();
