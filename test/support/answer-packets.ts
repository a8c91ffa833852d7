// The packets of an answer to a statement, made by hand (MySQL internals manual, "COM_QUERY Response").

import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { encodedInteger, encodedString } from './row-packets.ts';

export const packetHeaderBytes = 4;
/** A payload of this length goes on in the next packet. */
export const continuedLength = 0xffffff;

/** The status flag of an ending that is not the last. */
export const moreResults = 0x0008;
/** That of one that has changed its session. */
export const sessionChanged = 0x4000;

/** The payloads in their packets, numbered from one on. */
export function framed(payloads: readonly Uint8Array[]): Buffer {
  const parts: Uint8Array[] = [];
  let number = 1;
  for (const payload of payloads) {
    for (let at = 0, length = continuedLength; length === continuedLength; at += length) {
      length = Math.min(continuedLength, payload.length - at);
      const header = Buffer.alloc(packetHeaderBytes);
      header.writeUIntLE(length, 0, 3);
      header[3] = number++ & 0xff;
      parts.push(header, payload.subarray(at, at + length));
    }
  }
  return Buffer.concat(parts);
}

export function okPayload({ affectedRows = 0, insertId = 0, status = 0, warnings = 0 } = {}): Buffer {
  const ending = Buffer.alloc(4);
  ending.writeUInt16LE(status, 0);
  ending.writeUInt16LE(warnings, 2);
  return Buffer.concat([Buffer.of(0), encodedInteger(affectedRows), encodedInteger(insertId), ending]);
}

export function eofPayload({ status = 0, warnings = 0 } = {}): Buffer {
  const payload = Buffer.of(0xfe, 0, 0, 0, 0);
  payload.writeUInt16LE(warnings, 1);
  payload.writeUInt16LE(status, 3);
  return payload;
}

export function errorPayload(errno: number, sqlState: string, message: string): Buffer {
  return Buffer.concat([Buffer.of(0xff, errno & 0xff, errno >> 8), Buffer.from(`#${sqlState}${message}`)]);
}

/** The start of a result set: the number of its columns, a definition of each, and their end. */
export function columnPayloads(kinds: readonly CellKind[]): Buffer[] {
  return [encodedInteger(kinds.length), ...kinds.map(columnPayload), eofPayload()];
}

/** The definition of a column, named by its number, whose cells are of that kind. */
function columnPayload(kind: CellKind, column: number): Buffer {
  const columnType = columnTypes[kind];
  if (columnType === undefined) throw new Error(`no type is written as kind ${kind} where cells are typed`);
  const { type, characterSet } = columnType;
  // A computed column has no other name than the one it is shown by.
  const originalName = kind === cellKind.bitsOrDigits ? '' : 'original';
  return Buffer.concat([
    ...['def', 'schema', 'alias', 'table', `c${column}`, originalName].map(encodedString),
    Buffer.of(0x0c, characterSet, 0, 0xff, 0, 0, 0, type, 0, 0, 0, 0, 0),
  ]);
}

const binary = 63;
const utf8mb4 = 45;

/** For each kind of a typed cell, a type of the protocol's that is written so. */
const columnTypes: Readonly<Record<number, { type: number; characterSet: number }>> = {
  [cellKind.number]: { type: 3, characterSet: binary },
  [cellKind.text]: { type: 253, characterSet: utf8mb4 },
  [cellKind.hex]: { type: 252, characterSet: binary },
  [cellKind.json]: { type: 245, characterSet: binary },
  [cellKind.bits]: { type: 16, characterSet: binary },
  [cellKind.bitsOrDigits]: { type: 16, characterSet: binary },
};
