import { Builder } from 'flatbuffers';
import type { Column } from '../../wire/statement.ts';
import { type ArrowChoices, type ArrowType, arrowTypeOf } from './arrow-type.ts';

/**
 * The messages of Arrow's IPC formats (Arrow columnar format, "Serialization and Interprocess Communication"). Their metadata are
 * tables of FlatBuffers, whose fields are numbered here as in Schema.fbs, Message.fbs and File.fbs.
 */

/** A column. All columns are nullable, since the databases return NULL in some columns that they define as NOT NULL. */
export interface ArrowField {
  readonly name: string;
  readonly type: ArrowType;
}

export function fieldsOf(columns: readonly Column[], choices: ArrowChoices): ArrowField[] {
  return columns.map(({ name, type }) => ({ name, type: arrowTypeOf(type, choices) }));
}

/** The content type of a stream. */
export const streamType = 'application/vnd.apache.arrow.stream';

/** Values of one column in a record batch. */
export interface FieldNode {
  readonly rows: number;
  readonly nulls: number;
}

/** A message in a file. Positions and sizes are in bytes. */
export interface FileBlock {
  readonly position: number;
  /** With what precedes it: the marker and the length. */
  readonly metadataBytes: number;
  readonly bodyBytes: number;
}

const metadataVersion5 = 4;
const headerType = { schema: 1, recordBatch: 3 } as const;
const typeNumber = {
  null: 1,
  int: 2,
  float: 3,
  binary: 4,
  utf8: 5,
  json: 5,
  decimal: 7,
  date: 8,
  timestamp: 10,
  duration: 18,
};
const unit = { day: 0, microsecond: 2 } as const;
/** The units of dates and durations if their field is left out. */
const defaultUnit = 1;
const single = 1;
const double = 2;
const bitsDefault = 128;

/** Buffers of a body, and messages, begin at multiples of this. */
const alignment = 8;
/** Precedes the length of a message's metadata. */
const marker = 0xffffffff;
const prefixBytes = 8;

/** The end of a stream: a message without metadata. */
export const endOfStream: Uint8Array = Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0);

/** Begins and ends a file. */
const magic = Buffer.from('ARROW1');
/** The first bytes of a file. */
export const fileHead: Uint8Array = Buffer.concat([magic, Buffer.alloc(2)]);

export function aligned(bytes: number): number {
  return (bytes + alignment - 1) & -alignment;
}

/** @param metadata of the schema, by key */
export function schemaMessage(fields: readonly ArrowField[], metadata: Readonly<Record<string, string>> = {}): Buffer {
  const builder = new Builder(1024);
  const schema = addSchema(builder, fields, metadata);
  return message(builder, headerType.schema, schema, 0);
}

/** @param buffers the position and the length of each in the body, one after the other */
export function recordBatchMessage(
  rows: number,
  nodes: readonly FieldNode[],
  buffers: readonly number[],
  bodyBytes: number,
): Buffer {
  const builder = new Builder(256 + 16 * nodes.length + 8 * buffers.length);
  // Vectors are written from their end.
  builder.startVector(16, buffers.length / 2, 8);
  for (let index = buffers.length - 1; index >= 0; index--) builder.writeInt64(BigInt(buffers[index] as number));
  const bufferVector = builder.endVector();
  builder.startVector(16, nodes.length, 8);
  for (let index = nodes.length - 1; index >= 0; index--) {
    const node = nodes[index] as FieldNode;
    builder.writeInt64(BigInt(node.nulls));
    builder.writeInt64(BigInt(node.rows));
  }
  const nodeVector = builder.endVector();
  builder.startObject(4);
  builder.addFieldInt64(0, BigInt(rows), 0n);
  builder.addFieldOffset(1, nodeVector, 0);
  builder.addFieldOffset(2, bufferVector, 0);
  return message(builder, headerType.recordBatch, builder.endObject(), bodyBytes);
}

/** What stands behind the last message of a file. */
export function fileFooter(fields: readonly ArrowField[], batches: readonly FileBlock[]): Buffer {
  const builder = new Builder(1024 + 24 * batches.length);
  builder.startVector(24, batches.length, 8);
  for (let index = batches.length - 1; index >= 0; index--) {
    const { position, metadataBytes, bodyBytes } = batches[index] as FileBlock;
    builder.writeInt64(BigInt(bodyBytes));
    builder.pad(4);
    builder.writeInt32(metadataBytes);
    builder.writeInt64(BigInt(position));
  }
  const batchVector = builder.endVector();
  builder.startVector(24, 0, 8);
  const dictionaries = builder.endVector();
  const schema = addSchema(builder, fields, {});
  builder.startObject(5);
  builder.addFieldInt16(0, metadataVersion5, 0);
  builder.addFieldOffset(1, schema, 0);
  builder.addFieldOffset(2, dictionaries, 0);
  builder.addFieldOffset(3, batchVector, 0);
  builder.finish(builder.endObject());
  const footer = builder.asUint8Array();
  const length = Buffer.alloc(4);
  length.writeInt32LE(footer.length);
  return Buffer.concat([endOfStream, footer, length, magic]);
}

/** A message without its body. */
function message(builder: Builder, type: number, header: number, bodyBytes: number): Buffer {
  builder.startObject(5);
  builder.addFieldInt16(0, metadataVersion5, 0);
  builder.addFieldInt8(1, type, 0);
  builder.addFieldOffset(2, header, 0);
  builder.addFieldInt64(3, BigInt(bodyBytes), 0n);
  builder.finish(builder.endObject());
  const metadata = builder.asUint8Array();
  const bytes = Buffer.alloc(aligned(prefixBytes + metadata.length));
  bytes.writeUInt32LE(marker, 0);
  bytes.writeInt32LE(bytes.length - prefixBytes, 4);
  bytes.set(metadata, prefixBytes);
  return bytes;
}

function addSchema(
  builder: Builder,
  fields: readonly ArrowField[],
  metadata: Readonly<Record<string, string>>,
): number {
  const fieldVector = addOffsets(
    builder,
    fields.map((field) => addField(builder, field)),
  );
  const metadataVector = addMetadata(builder, metadata);
  builder.startObject(4);
  builder.addFieldOffset(1, fieldVector, 0);
  if (metadataVector !== null) builder.addFieldOffset(2, metadataVector, 0);
  return builder.endObject();
}

function addField(builder: Builder, { name, type }: ArrowField): number {
  const nameOffset = builder.createString(name);
  const typeOffset = addType(builder, type);
  // Readers insist on it.
  const children = addOffsets(builder, []);
  const metadata = addMetadata(
    builder,
    type.kind === 'json' ? { 'ARROW:extension:name': 'arrow.json', 'ARROW:extension:metadata': '' } : {},
  );
  builder.startObject(7);
  builder.addFieldOffset(0, nameOffset, 0);
  builder.addFieldInt8(1, 1, 0);
  builder.addFieldInt8(2, typeNumber[type.kind], 0);
  builder.addFieldOffset(3, typeOffset, 0);
  builder.addFieldOffset(5, children, 0);
  if (metadata !== null) builder.addFieldOffset(6, metadata, 0);
  return builder.endObject();
}

function addType(builder: Builder, type: ArrowType): number {
  switch (type.kind) {
    case 'int':
      builder.startObject(2);
      builder.addFieldInt32(0, type.bits, 0);
      builder.addFieldInt8(1, type.isSigned ? 1 : 0, 0);
      break;
    case 'float':
      builder.startObject(1);
      builder.addFieldInt16(0, type.bits === 32 ? single : double, 0);
      break;
    case 'decimal':
      builder.startObject(3);
      builder.addFieldInt32(0, type.precision, 0);
      builder.addFieldInt32(1, type.scale, 0);
      builder.addFieldInt32(2, type.bits, bitsDefault);
      break;
    case 'date':
      builder.startObject(1);
      builder.addFieldInt16(0, unit.day, defaultUnit);
      break;
    case 'timestamp':
      builder.startObject(2);
      builder.addFieldInt16(0, unit.microsecond, 0);
      break;
    case 'duration':
      builder.startObject(1);
      builder.addFieldInt16(0, unit.microsecond, defaultUnit);
      break;
    default:
      builder.startObject(0);
  }
  return builder.endObject();
}

/** @returns null if there are none */
function addMetadata(builder: Builder, metadata: Readonly<Record<string, string>>): number | null {
  const pairs = Object.entries(metadata).map(([key, value]) => {
    const keyOffset = builder.createString(key);
    const valueOffset = builder.createString(value);
    builder.startObject(2);
    builder.addFieldOffset(0, keyOffset, 0);
    builder.addFieldOffset(1, valueOffset, 0);
    return builder.endObject();
  });
  return pairs.length === 0 ? null : addOffsets(builder, pairs);
}

function addOffsets(builder: Builder, offsets: readonly number[]): number {
  builder.startVector(4, offsets.length, 4);
  for (let index = offsets.length - 1; index >= 0; index--) builder.addOffset(offsets[index] as number);
  return builder.endVector();
}
