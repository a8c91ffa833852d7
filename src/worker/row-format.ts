import type { RowLayout } from '../formats/format.ts';

/** How the rows of a result are decoded and encoded. */
export interface RowFormat {
  /** A `CellKind` per column. Never modified, since the kernel compares formats by identity. */
  readonly kinds: Uint8Array;
  /**
   * For rows of the binary protocol: per column, a `valueType` in the lower byte and the decimals of the column's definition in
   * the upper one. Null for the text protocol. Never modified.
   */
  readonly values: Uint16Array | null;
  readonly layout: RowLayout;
  /** What stands before each cell, by column; null: nothing does. Never modified. */
  readonly keys: RowKeys | null;
}

/** The keys of rows that are objects. */
export interface RowKeys {
  /** One after the other: `"name":`. */
  readonly bytes: Uint8Array;
  /** The end of each in `bytes`. */
  readonly ends: Uint32Array;
}

export function rowKeys(names: readonly string[]): RowKeys {
  const keys = names.map((name) => Buffer.from(`${JSON.stringify(name)}:`));
  let end = 0;
  return { bytes: Buffer.concat(keys), ends: Uint32Array.from(keys, ({ length }) => (end += length)) };
}
