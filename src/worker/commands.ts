import type { Param } from '../wire/statement.ts';

/** A command of the protocol (MySQL internals manual, "Command Phase"). */
export type PlainCommand =
  | { readonly type: 'query'; readonly sql: string }
  | { readonly type: 'init db'; readonly database: string }
  | { readonly type: 'ping' }
  | { readonly type: 'reset connection' };

/** A prepared statement and the values of its placeholders, as many as it has. */
export interface BoundStatement {
  readonly id: number;
  readonly values: readonly Param[];
}

const commandCodes = { 'init db': 0x02, query: 0x03, ping: 0x0e, prepare: 0x16, 'reset connection': 0x1f } as const;
const executeCode = 0x17;
const closeCode = 0x19;
const packetBytesMax = 0xffffff;
const packetHeaderBytes = 4;

/** Encoded commands, which can be sent repeatedly. */
export class Pipeline {
  readonly bytes: Buffer;
  readonly length: number;

  constructor(commands: readonly PlainCommand[]) {
    this.bytes = Buffer.concat(commands.map((command) => commandPackets(command)));
    this.length = commands.length;
  }
}

const nothing: Buffer = Buffer.alloc(0);

/** The packets of a command, followed by those of others. */
export function commandPackets(
  command: PlainCommand | { readonly type: 'prepare'; readonly sql: string },
  others = nothing,
): Buffer {
  const text = 'sql' in command ? command.sql : command.type === 'init db' ? command.database : '';
  const payloadBytes = 1 + Buffer.byteLength(text);
  const bytes = roomFor(payloadBytes, others);
  bytes[packetHeaderBytes] = commandCodes[command.type];
  bytes.write(text, packetHeaderBytes + 1);
  return framed(bytes, payloadBytes, others);
}

/**
 * The packets that run a prepared statement once and then close it (MySQL internals manual, "COM_STMT_EXECUTE",
 * "COM_STMT_CLOSE"), followed by those of others. COM_STMT_CLOSE has no answer.
 */
export function runPackets({ id, values }: BoundStatement, others = nothing): Buffer {
  const close = closePacket(id);
  const nullBytes = (values.length + 7) >> 3;
  // Code, statement id, no cursor, iteration count; if there are values, also the NULL bitmap, the types flag and the types.
  const head = 10 + (values.length === 0 ? 0 : nullBytes + 1 + 2 * values.length);
  const lengths = values.map(valueBytes);
  const payloadBytes = lengths.reduce((sum, length) => sum + length, head);
  const behind = Buffer.concat([close, others]);
  const bytes = roomFor(payloadBytes, behind);
  bytes.fill(0, packetHeaderBytes, packetHeaderBytes + head);
  let at = packetHeaderBytes;
  bytes[at] = executeCode;
  bytes.writeUInt32LE(id, at + 1);
  bytes.writeUInt32LE(1, at + 6);
  if (values.length > 0) {
    const nulls = at + 10;
    bytes[nulls + nullBytes] = 1;
    const types = nulls + nullBytes + 1;
    at += head;
    for (const [index, value] of values.entries()) {
      const nullByte = nulls + (index >> 3);
      if (value === null) bytes[nullByte] = (bytes[nullByte] as number) | (1 << (index & 7));
      bytes[types + 2 * index] = typeOf(value);
      writeValue(bytes, at, value);
      at += lengths[index] as number;
    }
  }
  return framed(bytes, payloadBytes, behind);
}

/** Bytes of values in a packet. */
export function boundBytes(values: readonly Param[]): number {
  const known = new Map<Param, number>();
  let sum = 0;
  for (const value of values) {
    let bytes = known.get(value);
    if (bytes === undefined) {
      bytes = valueBytes(value);
      if (typeof value === 'string') known.set(value, bytes);
    }
    sum += bytes;
  }
  return sum;
}

/** The packet that closes a prepared statement. */
export function closePacket(id: number): Buffer {
  const bytes = Buffer.of(5, 0, 0, 0, closeCode, 0, 0, 0, 0);
  bytes.writeUInt32LE(id, packetHeaderBytes + 1);
  return bytes;
}

/** MySQL internals manual, "Binary Protocol Value". */
const types = { tiny: 0x01, double: 0x05, null: 0x06, longlong: 0x08, varString: 0xfd } as const;

function typeOf(value: Param): number {
  if (value === null) return types.null;
  if (typeof value === 'boolean') return types.tiny;
  if (typeof value === 'string') return types.varString;
  return Number.isSafeInteger(value) ? types.longlong : types.double;
}

function valueBytes(value: Param): number {
  if (value === null) return 0;
  if (typeof value === 'boolean') return 1;
  if (typeof value === 'number') return 8;
  const length = Buffer.byteLength(value);
  return lengthBytes(length) + length;
}

function writeValue(bytes: Buffer, at: number, value: Param): void {
  if (value === null) return;
  if (typeof value === 'boolean') {
    bytes[at] = value ? 1 : 0;
  } else if (typeof value === 'number') {
    if (Number.isSafeInteger(value)) bytes.writeBigInt64LE(BigInt(value), at);
    else bytes.writeDoubleLE(value, at);
  } else {
    const length = Buffer.byteLength(value);
    const prefix = lengthBytes(length);
    if (prefix === 1) {
      bytes[at] = length;
    } else {
      bytes[at] = prefix === 3 ? 0xfc : prefix === 4 ? 0xfd : 0xfe;
      // Strings in JavaScript are shorter than 2^32 bytes; the upper four bytes of the last form are 0.
      bytes.fill(0, at + 1, at + prefix);
      bytes.writeUIntLE(length, at + 1, Math.min(prefix - 1, 4));
    }
    bytes.write(value, at + prefix);
  }
}

/** Bytes of a length prefix. */
function lengthBytes(length: number): number {
  return length < 0xfb ? 1 : length <= 0xffff ? 3 : length <= 0xffffff ? 4 : 9;
}

/** A payload that fills its last packet exactly is followed by an empty packet. */
function packetsOf(payloadBytes: number): number {
  return Math.floor(payloadBytes / packetBytesMax) + 1;
}

/** A buffer for packets, whose payload is written in one piece after the first header (see `framed`). */
function roomFor(payloadBytes: number, others: Buffer): Buffer {
  return Buffer.allocUnsafe(packetsOf(payloadBytes) * packetHeaderBytes + payloadBytes + others.length);
}

/** Splits a payload into packets, and appends others. */
function framed(bytes: Buffer, payloadBytes: number, others: Buffer): Buffer {
  // From the end, so that no part is overwritten before it moves.
  for (let packet = packetsOf(payloadBytes) - 1; packet >= 0; packet--) {
    const from = packetHeaderBytes + packet * packetBytesMax;
    const length = Math.min(packetBytesMax, payloadBytes - packet * packetBytesMax);
    const at = packet * (packetHeaderBytes + packetBytesMax);
    if (packet > 0) bytes.copy(bytes, at + packetHeaderBytes, from, from + length);
    bytes.writeUIntLE(length, at, 3);
    bytes[at + 3] = packet & 0xff;
  }
  others.copy(bytes, bytes.length - others.length);
  return bytes;
}
