import { type CellKind, cellKind } from '#src/worker/cells.js';
import { headroomBytes, kernel, kernelStop, readBytes } from '#src/worker/kernel.js';
import type { RowFormat } from '#src/worker/row-format.js';
import { type Field, type FieldDefinition, rowReader } from '../../test/support/mysql2-rows.ts';
import { rowPayload } from '../../test/support/row-packets.ts';
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

/** Prints how fast the kernel takes row packets of each kind, how fast mysql2 with JSON does, and how fast they are copied. */
export async function run(): Promise<void> {
  for (const [name, columns] of Object.entries(results)) {
    const bytes = packets(columns);
    const format: RowFormat = { kinds: Uint8Array.from(columns, ({ kind }) => kind), cells: 'typed' };
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
}

/** As many rows as a socket is read for at once. */
function packets(columns: readonly Column[]): Buffer {
  const rows: Buffer[] = [];
  let length = 0;
  for (let cell = 1; ; ) {
    // Multiplied by the golden ratio, counted numbers are scattered (Knuth, The Art of Computer Programming, 6.4).
    const payload = rowPayload(columns.map((column) => column.cell(Math.imul(cell++, 0x9e3779b1) >>> 0)));
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
