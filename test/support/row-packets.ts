// Packets of the protocol between client and database, made by hand, for the tests that need no server.

/** A length-encoded integer (MySQL internals manual, "Protocol::LengthEncodedInteger"). */
export function encodedInteger(value: bigint | number): Buffer {
  const number = BigInt(value);
  if (number < 0xfbn) return Buffer.of(Number(number));
  const [lead, bytes] = number <= 0xffffn ? [0xfc, 2] : number <= 0xffffffn ? [0xfd, 3] : [0xfe, 8];
  const wide = Buffer.alloc(8);
  wide.writeBigUInt64LE(number);
  return Buffer.concat([Buffer.of(lead), wide.subarray(0, bytes)]);
}

/** A length-encoded string. */
export function encodedString(value: Uint8Array | string): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([encodedInteger(bytes.length), bytes]);
}

/** The payload of a row of the text protocol: one length-encoded string per cell, 0xfb for null. */
export function rowPayload(cells: readonly (Uint8Array | null)[]): Buffer {
  return Buffer.concat(
    cells.flatMap((cell) => (cell === null ? [Buffer.of(0xfb)] : [encodedInteger(cell.length), cell])),
  );
}

/** The payload of a row of the binary protocol, of values as they are encoded there: a header, a bitmap of nulls, the rest. */
export function binaryRowPayload(values: readonly (Uint8Array | null)[]): Buffer {
  const nulls = Buffer.alloc((values.length + 9) >> 3);
  for (const [column, value] of values.entries()) {
    const bit = column + 2;
    if (value === null) nulls[bit >> 3] = (nulls[bit >> 3] as number) | (1 << (bit & 7));
  }
  return Buffer.concat([Buffer.of(0), nulls, ...values.filter((value) => value !== null)]);
}
