import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import type { FormatName } from '#src/wire/statement.js';
import { decimalsNotFixed, valueText, valueType } from '#src/worker/binary-values.js';
import { headroomBytes, kernel, kernelStop, readBytes } from '#src/worker/kernel.js';
import type { RowFormat } from '#src/worker/row-format.js';
import { framed } from '../../test/support/answer-packets.ts';
import { type Field, type FieldDefinition, rowReader } from '../../test/support/mysql2-rows.ts';
import { binaryRowPayload, encodedString, rowPayload } from '../../test/support/row-packets.ts';
import { callNs, print } from './measure.ts';

interface Column {
  readonly kind: CellKind;
  readonly field: FieldDefinition;
  /** The cell of a row, by a number from 0 to 2^32 - 1 that is as good as random. */
  readonly cell: (random: number) => Uint8Array | null;
}

/** The numbers are those of the protocol: column types, and the character sets utf8mb4 and binary. */
const integer = { columnType: 3, characterSet: 63 };
const varchar = { columnType: 253, characterSet: 45 };
const varbinary = { columnType: 253, characterSet: 63 };
const json = { columnType: 245, characterSet: 63 };

const ascii = 'The quick brown fox jumps over the lazy dog, and nobody asks why. '.repeat(70);
const unicode = 'Élève, garçon, naïve; größer, schön; déjà vu. 長い文章を書く 😀 '.repeat(10);

/** So many bytes of it, from somewhere. */
function words(random: number, length: number): string {
  return ascii.slice(random % 64, (random % 64) + length);
}

const number: Column = {
  kind: cellKind.number,
  field: integer,
  cell: (random) => Buffer.from(`${random % 10_000_000}`),
};
const shortText: Column = {
  kind: cellKind.text,
  field: varchar,
  cell: (random) => Buffer.from(words(random, 1 + (random % 24))),
};
const longText: Column = {
  kind: cellKind.text,
  field: varchar,
  cell: (random) => Buffer.from(words(random, 4096)),
};
const escapedText: Column = {
  kind: cellKind.text,
  field: varchar,
  cell: (random) => Buffer.from(`"${words(random, random % 32)}"\n\tand so on`),
};
const unicodeText: Column = {
  kind: cellKind.text,
  field: varchar,
  cell: (random) => Buffer.from([...unicode].slice(random % 32, (random % 32) + 1 + (random % 29)).join('')),
};
const binary: Column = {
  kind: cellKind.hex,
  field: varbinary,
  cell: (random) => Buffer.from(Uint32Array.of(random, ~random, random >>> 7, random << 3).buffer),
};
const document: Column = {
  kind: cellKind.json,
  field: json,
  cell: (random) => Buffer.from(JSON.stringify({ id: random % 1000, name: words(random, 12), tags: [1, 2] })),
};
const date: Column = {
  kind: cellKind.text,
  field: varchar,
  cell: (random) => Buffer.from(`2026-01-${10 + (random % 20)} 12:34:${10 + (random % 50)}`),
};
const decimal: Column = {
  kind: cellKind.text,
  field: varchar,
  cell: (random) => Buffer.from((random / 1e5).toFixed(2)),
};
const sometimes: Column = { ...shortText, cell: (random) => (random % 10 === 0 ? null : shortText.cell(random)) };

const results: Readonly<Record<string, readonly Column[]>> = {
  number: [number, number],
  'short text': [shortText, shortText],
  'long text': [longText],
  'text with escapes': [escapedText, escapedText],
  'UTF-8 text': [unicodeText, unicodeText],
  hex: [binary, binary],
  json: [document],
  'mixed row': [number, shortText, date, decimal, unicodeText, sometimes, number, shortText],
};

/** A column that both protocols send. */
interface Both {
  readonly type: number;
  /** `decimalsNotFixed`, or the number of digits after the point. */
  readonly decimals: number;
  readonly typed: CellKind;
  readonly string: CellKind;
  /** The value as the binary protocol has it. */
  readonly value: (random: number) => Buffer;
}

const turns = 2;

const numbers = { decimals: decimalsNotFixed, typed: cellKind.number, string: cellKind.quotedNumber };
const texts = { decimals: 0, typed: cellKind.text, string: cellKind.text };

/** A value of so many bytes, which `write` writes. */
function valueBytes(bytes: number, write: (value: Buffer) => unknown): Buffer {
  const value = Buffer.alloc(bytes);
  write(value);
  return value;
}

const month = (random: number): number => 1 + (random % 12);
const clock = (random: number): number[] => [random % 24, (random >>> 5) % 60, (random >>> 11) % 60];

const both = {
  INT: {
    ...numbers,
    type: valueType.int32,
    value: (random) => valueBytes(4, (value) => value.writeInt32LE(random % 10_000_000)),
  },
  BIGINT: {
    ...numbers,
    type: valueType.int64,
    value: (random) => valueBytes(8, (value) => value.writeBigInt64LE(BigInt(random) * 1_003n)),
  },
  'DOUBLE of 2 decimals': {
    ...numbers,
    type: valueType.double,
    value: (random) => valueBytes(8, (value) => value.writeDoubleLE((random % 1_000_000) / 100)),
  },
  'DOUBLE of 16 digits': {
    ...numbers,
    type: valueType.double,
    value: (random) => valueBytes(8, (value) => value.writeDoubleLE(random / 1_234_567)),
  },
  FLOAT: {
    ...numbers,
    type: valueType.float,
    value: (random) => valueBytes(4, (value) => value.writeFloatLE(random / 1_234_567)),
  },
  DATE: {
    ...texts,
    type: valueType.date,
    string: cellKind.date,
    value: (random) => Buffer.of(4, 0xea, 0x07, month(random), 1 + (random % 28)),
  },
  DATETIME: {
    ...texts,
    type: valueType.datetime,
    string: cellKind.timestamp,
    value: (random) => Buffer.of(7, 0xea, 0x07, month(random), 1 + (random % 28), ...clock(random)),
  },
  TIME: { ...texts, type: valueType.time, value: (random) => Buffer.of(8, 0, 0, 0, 0, 0, ...clock(random)) },
  VARCHAR: { ...texts, type: valueType.string, value: (random) => encodedString(words(random, 1 + (random % 24))) },
  DECIMAL: { ...texts, type: valueType.string, value: (random) => encodedString((random / 1e5).toFixed(2)) },
} as const satisfies Record<string, Both>;

const { INT, VARCHAR, DATETIME, DECIMAL } = both;
const money = both['DOUBLE of 2 decimals'];

/** Rows that come by both protocols. */
const resultsOfBoth: Readonly<Record<string, readonly Both[]>> = {
  ...Object.fromEntries(Object.entries(both).map(([name, column]) => [name, [column, column, column, column]])),
  'a mixed row': [INT, VARCHAR, DATETIME, DECIMAL, VARCHAR, money, INT, VARCHAR],
  'one column of each': Object.values(both),
};

/**
 * Prints the time that a row takes in each protocol and format, measured in turns: a ratio says more than two figures that
 * were taken at different times.
 */
async function compareProtocols(): Promise<void> {
  for (const [name, columns] of Object.entries(resultsOfBoth)) {
    const rows = Array.from({ length: 1_000 }, (_, row) =>
      columns.map((column, number) => column.value(scattered(row * columns.length + number))),
    );
    const text = framed(
      rows.map((row) => rowPayload(row.map((value, column) => printed(columns[column] as Both, value)))),
    );
    const binary = framed(rows.map(binaryRowPayload));
    const cases = (['json', 'json strings'] as const).flatMap((cells) => [
      { format: formatOf(columns, cells, false), bytes: text },
      { format: formatOf(columns, cells, true), bytes: binary },
    ]);
    const samples: number[][] = cases.map(() => []);
    for (let round = 0; round < turns; round++) {
      for (const [index, { format, bytes }] of cases.entries()) {
        kernel.input.set(bytes, headroomBytes);
        const ns = await callNs(() => encode(format, headroomBytes + bytes.length));
        samples[index]?.push(ns / rows.length);
      }
    }
    const [typed, typedBinary, strings, stringsBinary] = samples.map((taken) => Math.min(...taken));
    const ns = [typed, typedBinary, strings, stringsBinary].map((value) => `${(value as number).toFixed(0)} ns`);
    const ratio = (a = 0, b = 1): string => (a / b).toFixed(2);
    print(
      `encoder, ${name}: text ${ns[0]}, binary ${ns[1]} (${ratio(typedBinary, typed)}); ` +
        `as strings ${ns[2]} (${ratio(strings, typed)}), binary ${ns[3]} (${ratio(stringsBinary, strings)})`,
    );
  }
}

/** The cell that the text protocol sends for a value. */
function printed({ type, decimals }: Both, value: Buffer): Uint8Array {
  // The strings here are shorter than 251 bytes: one byte is their length.
  if (type === valueType.string) return value.subarray(1);
  return Buffer.from(valueText(type, decimals, new DataView(value.buffer, value.byteOffset, value.length), 0));
}

function formatOf(columns: readonly Both[], cells: FormatName, isBinary: boolean): RowFormat {
  return {
    kinds: Uint8Array.from(columns, ({ typed, string }) => (cells === 'json' ? typed : string)),
    values: isBinary ? Uint16Array.from(columns, ({ type, decimals }) => type | (decimals << 8)) : null,
    layout: formats.json.layout,
    keys: null,
  };
}

/** Multiplied by the golden ratio, counted numbers are scattered (Knuth, The Art of Computer Programming, 6.4). */
function scattered(number: number): number {
  return Math.imul(number, 0x9e3779b1) >>> 0;
}

/** Prints how fast the kernel takes row packets of each kind, how fast mysql2 with JSON does, and how fast they are copied. */
export async function run(): Promise<void> {
  for (const [name, columns] of Object.entries(results)) {
    const bytes = packets(columns);
    const format: RowFormat = {
      kinds: Uint8Array.from(columns, ({ kind }) => kind),
      values: null,
      layout: formats.json.layout,
      keys: null,
    };
    kernel.input.set(bytes, headroomBytes);
    const encoded = await megabytesPerSecond(bytes, () => encode(format, headroomBytes + bytes.length));

    const hexText = (field: Field): unknown => field.buffer()?.toString('hex') ?? null;
    const read = rowReader(
      columns.map(({ field }) => field),
      columns[0] === binary ? hexText : undefined,
    );
    const stringified = await megabytesPerSecond(bytes, () => Buffer.from(JSON.stringify(read(bytes))));

    const target = Buffer.alloc(bytes.length);
    const copied = await megabytesPerSecond(bytes, () => target.set(bytes));
    print(
      `encoder, ${name}: ${encoded} MB/s (JSON.stringify on mysql2's rows ${stringified} MB/s, copy ${copied} MB/s)`,
    );
  }
  await compareProtocols();
}

/** As many rows as a socket is read for at once. */
function packets(columns: readonly Column[]): Buffer {
  const rows: Buffer[] = [];
  let length = 0;
  for (let cell = 1; ; ) {
    const payload = rowPayload(columns.map((column) => column.cell(scattered(cell++))));
    length += 4 + payload.length;
    if (length > readBytes) return Buffer.concat(rows);
    rows.push(Buffer.of(payload.length & 0xff, payload.length >> 8, 0, 0), payload);
  }
}

function encode(format: RowFormat, end: number): number {
  let rows = 0;
  for (let from = headroomBytes; from < end; from = kernel.consumed) {
    const stop = kernel.encode(format, from, end, 0, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    if (stop !== kernelStop.inputUsed && stop !== kernelStop.outputFull) throw new Error(`stopped for reason ${stop}`);
    rows += kernel.rows;
  }
  return rows;
}

async function megabytesPerSecond(bytes: Buffer, call: () => unknown): Promise<string> {
  return ((bytes.length / (await callNs(call))) * 1_000).toFixed(0);
}
