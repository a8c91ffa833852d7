import type { Constants } from '../wire/constants.ts';
import {
  cellPieceBytes,
  columnsMax,
  headroomBytes,
  keysBytes,
  outputBytes,
  powerMax,
  powerMin,
  readBytes,
  rowsRoom,
} from './kernel/shared/sizes.ts';
import * as stops from './kernel/shared/stop.ts';
import type { RowFormat } from './row-format.ts';
import { compiled } from './web-assembly.ts';

export { cellPieceBytes, headroomBytes, readBytes };

/** Why the kernel stopped. */
export const kernelStop: Constants<typeof stops> = stops;

/** `Kernel.encode` throws for `malformed`. */
export type KernelStop = Exclude<(typeof kernelStop)[keyof typeof kernelStop], typeof kernelStop.malformed>;

/** The exports of kernel/main.ts. Numbers are addresses in its memory, or counts. */
interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly kinds: { readonly value: number };
  readonly values: { readonly value: number };
  readonly keys: { readonly value: number };
  readonly keyEnds: { readonly value: number };
  readonly powers: { readonly value: number };
  readonly input: { readonly value: number };
  readonly output: { readonly value: number };
  readonly rowEnds: { readonly value: number };
  readonly cellPiece: { readonly value: number };
  readonly consumed: { readonly value: number };
  readonly written: { readonly value: number };
  readonly rows: { readonly value: number };
  readonly invalid: { value: number };
  setColumns(columns: number, isBinary: boolean, hasKeys: boolean): void;
  setLayout(
    open: number,
    separator: number,
    close: number,
    rowSeparator: number,
    nullAndSeparator: bigint,
    length: number,
  ): void;
  encode(
    from: number,
    to: number,
    before: number,
    hasRowsBefore: boolean,
    rowsMax: number,
    rowBytesMax: number,
  ): number;
  encodeText(length: number): number;
  encodeHex(length: number): number;
}

const newInstance = compiled(new URL('kernel.wasm', import.meta.url));

/**
 * The powers of ten from `powerMin` to `powerMax`: the first 126 bits of each, plus one, so that it is never too small. Two
 * numbers of 63 bits, the upper one first (see kernel/shortest.ts).
 */
const powersOfTen = BigUint64Array.from(
  Array.from({ length: powerMax - powerMin + 1 }, (_, index) => powerOfTen(powerMin + index)).flat(),
);

function powerOfTen(exponent: number): [high: bigint, low: bigint] {
  const power = 10n ** BigInt(Math.abs(exponent));
  const bits = BigInt(power.toString(2).length);
  // The first bit of the reciprocal of a number of n bits follows n - 1 zeros.
  const first126 =
    exponent < 0 ? (1n << (125n + bits)) / power : bits > 126n ? power >> (bits - 126n) : power << (126n - bits);
  const above = first126 + 1n;
  return [above >> 63n, above & ((1n << 63n) - 1n)];
}

/**
 * Encodes row packets of MySQL's protocols as rows of text, in WebAssembly and many at once. The bytes are those that cells.ts
 * and binary-values.ts define. Sockets read into its memory, which does not grow or move.
 */
export class Kernel {
  /** `headroomBytes`, then `readBytes`. */
  readonly input: Buffer;
  readonly output: Buffer;
  readonly #keys: Uint8Array;
  readonly #keyEnds: Uint32Array;
  /** Per row of the last call, its end in the batch. Entries from `rows` on are stale. */
  readonly rowEnds: Uint32Array;
  /** The end of the input that the last call consumed. */
  consumed = 0;
  /** Bytes of output of the last call. */
  length = 0;
  /** Rows of the last call. */
  rows = 0;
  readonly #exports: Exports;
  readonly #kinds: Uint8Array;
  readonly #values: Uint16Array;
  readonly #cellPiece: Uint8Array;
  #format: RowFormat | null = null;

  constructor() {
    const exports = newInstance() as Exports;
    const memory = exports.memory.buffer;
    this.#exports = exports;
    this.#kinds = new Uint8Array(memory, exports.kinds.value, columnsMax);
    this.#values = new Uint16Array(memory, exports.values.value, columnsMax);
    this.#keys = new Uint8Array(memory, exports.keys.value, keysBytes);
    this.#keyEnds = new Uint32Array(memory, exports.keyEnds.value, columnsMax);
    this.#cellPiece = new Uint8Array(memory, exports.cellPiece.value, cellPieceBytes);
    this.input = Buffer.from(memory, exports.input.value, headroomBytes + readBytes);
    this.output = Buffer.from(memory, exports.output.value, outputBytes);
    this.rowEnds = new Uint32Array(memory, exports.rowEnds.value, rowsRoom);
    new BigUint64Array(memory, exports.powers.value, powersOfTen.length).set(powersOfTen);
  }

  /**
   * Encodes the complete row packets in `input[from, to)`. The first starts at `from`.
   * @param format compared by identity with that of the last call, and read only if it differs
   * @param before length of the batch that the rows are appended to. The row ends include it.
   * @param hasRowsBefore whether that batch has rows, so that the output starts with a separator. They may be empty: as TSV, a row
   *     of one empty text is
   * @throws RangeError if a cell reaches past the end of its row's packet
   */
  encode(
    format: RowFormat,
    from: number,
    to: number,
    before: number,
    rowsMax: number,
    rowBytesMax: number,
    hasRowsBefore = before > 0,
  ): KernelStop {
    if (format.kinds.length > columnsMax || (format.keys?.bytes.length ?? 0) > keysBytes) {
      this.consumed = from;
      this.length = 0;
      this.rows = 0;
      return kernelStop.largeRow;
    }
    const exports = this.#exports;
    if (format !== this.#format) {
      this.#setFormat(format);
    }
    const stop = exports.encode(
      from,
      to,
      before,
      hasRowsBefore,
      Math.min(rowsMax, rowsRoom),
      Math.min(rowBytesMax, outputBytes),
    );
    this.consumed = exports.consumed.value;
    this.length = exports.written.value;
    this.rows = exports.rows.value;
    if (stop === kernelStop.malformed) {
      this.takeInvalid();
      throw new RangeError('a cell reaches past the end of its row packet');
    }
    return stop as KernelStop;
  }

  #setFormat(format: RowFormat): void {
    const { kinds, values, keys, layout } = format;
    this.#kinds.set(kinds);
    if (values !== null) this.#values.set(values);
    if (keys !== null) {
      this.#keys.set(keys.bytes);
      this.#keyEnds.set(keys.ends);
    }
    const { open, separator, close, rowSeparator, nullCell } = layout;
    const nullAndSeparator = Buffer.alloc(8);
    nullAndSeparator.set([...nullCell, separator]);
    const word = nullAndSeparator.readBigUInt64LE();
    this.#exports.setLayout(open, separator, close, rowSeparator, word, nullCell.length + 1);
    this.#exports.setColumns(kinds.length, values !== null, keys !== null);
    this.#format = format;
  }

  /** Bits of `invalidCell` that were found since the last call. */
  takeInvalid(): number {
    const { invalid } = this.#exports;
    const found = invalid.value;
    if (found !== 0) invalid.value = 0;
    return found;
  }

  /**
   * Encodes a part of a text that is too large for `encode`.
   * @param piece at most `cellPieceBytes` that start and end at a character boundary
   * @returns the text between the quotes, in `output`
   */
  text(piece: Uint8Array): Uint8Array {
    this.#cellPiece.set(piece);
    return this.output.subarray(1, this.#exports.encodeText(piece.length) - 1);
  }

  /** The same for bytes, as hex. */
  hex(piece: Uint8Array): Uint8Array {
    this.#cellPiece.set(piece);
    return this.output.subarray(1, this.#exports.encodeHex(piece.length) - 1);
  }
}

/** One per thread: its connections share the memory. */
export const kernel = new Kernel();
