/** How the rows of a result are decoded and encoded. */
export interface RowFormat {
  /** A `CellKind` per column. Never modified, since the kernel compares formats by identity. */
  readonly kinds: Uint8Array;
  /**
   * For rows of the binary protocol: per column, a `valueType` in the lower byte and the decimals of the column's definition in
   * the upper one. Null for the text protocol. Never modified.
   */
  readonly values: Uint16Array | null;
  readonly nullIsString: boolean;
}
