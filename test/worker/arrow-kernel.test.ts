import { tableFromIPC, type Vector } from 'apache-arrow';
import t from 'tap';
import { endOfStream, schemaMessage } from '#src/formats/arrow/messages.js';
import { cellKind } from '#src/formats/cell-kind.js';
import type { ColumnType } from '#src/wire/statement.js';
import { type ArrowRowFormat, arrowRowFormat } from '#src/worker/arrow/arrow-columns.js';
import { findCells, notInKernel, type RowPackets } from '#src/worker/arrow/cells.js';
import { recordBatch } from '#src/worker/arrow/record-batch.js';
import { valueType } from '#src/worker/binary-values.js';
import { cellsMax, packetsBytes } from '#src/worker/kernel/shared/arrow.js';
import { columnsMax } from '#src/worker/kernel/shared/sizes.js';
import { framed, packetHeaderBytes } from '../support/answer-packets.ts';
import { figure } from '../support/form.ts';
import { pick, type Random, randomBytes, seeded } from '../support/random.ts';
import { binaryRowPayload, encodedString, rowPayload } from '../support/row-packets.ts';

t.setTimeout(180_000);

/*
 * A batch of more cells than the kernel takes is written without it. In parts, the same rows are written by the kernel, and must
 * have the same values, or the same error.
 */

type Value = Buffer | null;

interface TestColumn {
  readonly type: ColumnType;
  /** Of binary rows; with `decimals` in the upper byte. */
  readonly value: number;
  readonly random: (random: Random) => Buffer;
  /** What the databases do not send in such a column. */
  readonly odd?: (random: Random) => Buffer;
}

const numberOf = (bytes: number) => (random: Random) =>
  pick(random, [randomBytes(random, bytes), Buffer.alloc(bytes, 0xff), Buffer.alloc(bytes)]);

function double(random: Random): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(pick(random, [Number.NaN, -0, 0.1, 1e300, Number.NEGATIVE_INFINITY, random(2 ** 31) / 7]));
  return pick(random, [bytes, randomBytes(random, 8)]);
}

const digitsOf = (random: Random, count: number): string =>
  Array.from({ length: count }, () => random(10)).join('') || '0';

/** Precision and scale are those of DECIMAL(precision, scale), and most values fit. */
const decimalOf = (precision: number, scale: number) => (random: Random) => {
  const whole = digitsOf(random, random(1 + precision - scale));
  const fraction = digitsOf(random, pick(random, [scale, random(1 + scale)]));
  const text = `${random(2) === 0 ? '-' : ''}${whole}${scale > 0 && random(8) > 0 ? `.${fraction.slice(0, scale)}` : ''}`;
  return encodedString(text);
};

function day(random: Random): number[] {
  const year = pick(random, [random(10_000), 2000, 1900, 2024, 0, 1969, 1970]);
  const month = 1 + random(12);
  const days = new Date(Date.UTC(year < 100 ? year + 400 : year, month, 0)).getUTCDate();
  return [year & 0xff, year >> 8, month, pick(random, [1, days, 1 + random(days)])];
}

function oddDay(random: Random): number[] {
  const noYear = [0xff, 0xff, 1, 1];
  const year = pick(random, [2_000, 2_023, 1_900]);
  const noDay = pick(random, [
    [0, 1],
    [13, 1],
    [1, 0],
    [2, 29],
    [2, 30],
    [4, 31],
    [1, 32],
    [255, 255],
  ]);
  return pick(random, [noYear, [year & 0xff, year >> 8, ...noDay], [year & 0xff, year >> 8, ...noDay]]);
}

function oddDate(random: Random): Buffer {
  return random(8) === 0 ? pick(random, [Buffer.of(0), Buffer.of(3, 0, 0, 0)]) : Buffer.of(4, ...oddDay(random));
}

function oddTimestamp(random: Random): Buffer {
  const fraction = Buffer.alloc(4);
  fraction.writeUInt32LE(pick(random, [1_000_000, 0xffffffff]));
  const [usualTime, usualFraction] = [
    [23, 59, 59],
    [0, 0, 0, 0],
  ];
  const bytes = pick(random, [
    [...oddDay(random), ...usualTime, ...usualFraction],
    [
      ...day(random),
      ...pick(random, [
        [24, 0, 0],
        [23, 59, 60],
        [255, 255, 255],
      ]),
      ...usualFraction,
    ],
    [...day(random), ...usualTime, ...fraction],
  ]);
  return Buffer.of(bytes.length, ...bytes);
}

/** With too many digits, or none. */
function oddDecimal(random: Random): Buffer {
  const digits = digitsOf(random, pick(random, [0, 9, 11, 13, 17, 19, 20, 66]));
  return encodedString(
    pick(random, ['', '-', '.', digits, `-${digits}`, `${digits}.${digits}`, `1.${digits}.1`, '1e5']),
  );
}

/** With the other half in the next row, the bytes of both cells are UTF-8. */
function halfOf(character: string, half: number): Buffer {
  return encodedString(Buffer.from(character).subarray(half, half + 1));
}

function date(random: Random): Buffer {
  return Buffer.of(4, ...day(random));
}

function timestamp(random: Random): Buffer {
  const time = [random(24), random(60), random(60)];
  const fraction = Buffer.alloc(4);
  fraction.writeUInt32LE(pick(random, [0, 999_999, random(1_000_000)]));
  const parts = pick(random, [[], time, [...time, ...fraction]]);
  const bytes = [...day(random), ...parts];
  return Buffer.of(bytes.length, ...bytes);
}

function time(random: Random): Buffer {
  return pick(random, [Buffer.of(0), Buffer.of(8, random(2), random(35), 0, 0, 0, random(24), random(60), random(60))]);
}

const pieces = ['é', '–', '漢', '🌊', 'weir', '', 'a', '"'];

function text(random: Random): Buffer {
  const count = pick(random, [0, 1, 3, random(20), random(20), random(40)]);
  return encodedString(Array.from({ length: count }, () => pick(random, pieces)).join(''));
}

/** Also of bytes that are no UTF-8. */
function anyText(random: Random): Buffer {
  return random(50) === 0 ? encodedString(randomBytes(random, random(40))) : text(random);
}

function blob(random: Random): Buffer {
  return encodedString(
    randomBytes(random, pick(random, [0, 1, 15, 16, 17, 33, random(60), random(random(100) === 0 ? 70_000 : 60)])),
  );
}

const timestampColumn = (precision: number): TestColumn => ({
  type: { name: 'Timestamp', precision },
  value: valueType.datetime | (precision << 8),
  random: timestamp,
  odd: oddTimestamp,
});

const decimalColumn = (precision: number, scale: number): TestColumn => ({
  type: { name: 'Decimal', precision, scale },
  value: valueType.string,
  random: decimalOf(precision, scale),
  odd: oddDecimal,
});

const columns: readonly TestColumn[] = [
  { type: { name: 'Int8' }, value: valueType.int8, random: numberOf(1) },
  { type: { name: 'UInt16' }, value: valueType.uint16, random: numberOf(2) },
  { type: { name: 'Int32' }, value: valueType.int32, random: numberOf(4) },
  { type: { name: 'UInt64' }, value: valueType.uint64, random: numberOf(8) },
  { type: { name: 'Float64' }, value: valueType.double | (31 << 8), random: double },
  { type: { name: 'Time', precision: 0 }, value: valueType.time, random: time },
  { type: { name: 'Date' }, value: valueType.date, random: date, odd: oddDate },
  ...[0, 3, 6].map(timestampColumn),
  ...[decimalColumn(12, 2), decimalColumn(18, 0), decimalColumn(18, 18), decimalColumn(38, 10), decimalColumn(65, 30)],
  { type: { name: 'String' }, value: valueType.string, random: text },
  { type: { name: 'String' }, value: valueType.string, random: anyText },
  { type: { name: 'Binary' }, value: valueType.string, random: blob },
];

/** In rows of text all values are texts. The kernel writes those that are texts in binary rows too. */
const textColumns = columns.filter(({ value }) => value === valueType.string);

function formatOf(tested: readonly TestColumn[], isBinary: boolean, zeroDates: 'fail' | 'null'): ArrowRowFormat {
  const described = tested.map(({ type, value }, index) => ({
    column: { name: `c${index}`, type, nullable: true },
    kind: cellKind.text,
    value: isBinary ? value : null,
  }));
  const values = isBinary ? Uint16Array.from(tested, ({ value }) => value) : null;
  return arrowRowFormat(described, { zeroDates, isPlain: false }, values);
}

function packetsOf(payloads: readonly Buffer[]): RowPackets {
  let end = 0;
  const ends = Uint32Array.from(payloads, ({ length }) => (end += packetHeaderBytes + length));
  return { source: framed(payloads), ends };
}

/** The bytes of the first values of each column, or the error. */
function valuesOf(
  format: ArrowRowFormat,
  packets: RowPackets,
  from: number,
  to: number,
  count = to - from,
): string[][] | string {
  try {
    const { bytes } = recordBatch(format, packets, from, to);
    const table = tableFromIPC(Buffer.concat([schemaMessage(format.columns), bytes, endOfStream]));
    return format.columns.map((_, index) => {
      const column = table.getChildAt(index) as Vector;
      const values = Array.from({ length: count }, (_, row) => bytesOf(column, row));
      const nulls = values.filter((value) => value === 'NULL').length;
      if (count === to - from && column.nullCount !== nulls) throw new TypeError('the count of nulls is wrong');
      return values;
    });
  } catch (error) {
    if (error instanceof TypeError) throw error;
    return `${(error as Error).name}: ${(error as Error).message}`;
  }
}

/** Its bytes: as Apache Arrow reads them, two values may be the same that are not. */
function bytesOf(column: Vector, row: number): string {
  if (!column.isValid(row)) return 'NULL';
  const { values, valueOffsets, stride } = column.data[0] as {
    values: Int8Array;
    valueOffsets?: Int32Array;
    stride: number;
  };
  const hasOffsets = valueOffsets !== undefined && valueOffsets.length > 0;
  const [from, to] = hasOffsets ? [valueOffsets[row], valueOffsets[row + 1]] : [row * stride, (row + 1) * stride];
  const { buffer, byteOffset, byteLength } = values.subarray(from, to);
  return Buffer.from(buffer, byteOffset, byteLength).toString('hex');
}

function isInKernel({ columns, values }: ArrowRowFormat, packets: RowPackets, from: number, to: number): boolean {
  return findCells(packets, from, to, columns.length, values)[0]?.kernelCell !== notInKernel;
}

/** By column, of a hundred. */
const nullsOfDamaged = columns.map(() => 5);

function randomRow(random: Random, tested: readonly TestColumn[], nullsOf: readonly number[]): Value[] {
  return tested.map((column, index) => (random(100) < (nullsOf[index] as number) ? null : column.random(random)));
}

/** A cell of a text row has no length of its own: `rowPayload` writes it. */
function withoutLength(value: Value): Value {
  if (value === null) return null;
  return value.subarray((value[0] as number) < 0xfb ? 1 : 3);
}

for (const isBinary of [true, false]) {
  const all = isBinary ? columns : textColumns;
  const payloadOf = (row: readonly Value[]): Buffer =>
    isBinary ? binaryRowPayload(row) : rowPayload(row.map(withoutLength));
  const protocol = isBinary ? 'binary' : 'text';

  t.test(`${protocol} rows have the same values by the kernel and without it`, (t) => {
    const random = seeded(t);
    for (let round = 0; round < figure(3, 30); round++) {
      const tested = all.filter(() => random(4) > 0);
      if (tested.length < 2) continue;
      const nullsOf = tested.map(() => pick(random, [0, 0, 1, 50, 100]));
      const distinct = Array.from({ length: 2_000 }, () => payloadOf(randomRow(random, tested, nullsOf)));
      const count = Math.ceil((cellsMax + 1) / tested.length);
      const packets = packetsOf(Array.from({ length: count }, (_, row) => distinct[row % distinct.length] as Buffer));
      const format = formatOf(tested, isBinary, 'fail');
      const expected = valuesOf(format, packets, 0, count, distinct.length);
      if (typeof expected === 'string') throw new Error(expected);
      t.notOk(isInKernel(format, packets, 0, count));
      let parts = 0;
      let partsInKernel = 0;
      for (let from = 0; from < distinct.length; ) {
        const to = Math.min(distinct.length, from + pick(random, [1, 7, 8, 9, 1 + random(900)]));
        const written = valuesOf(format, packets, from, to);
        parts++;
        if (isInKernel(format, packets, from, to)) partsInKernel++;
        for (const [column, { type }] of tested.entries()) {
          const right = (expected[column] as string[]).slice(from, to);
          const values = typeof written === 'string' ? written : written[column];
          if (String(values) !== String(right)) t.strictSame(values, right, `${type.name}, rows ${from} to ${to}`);
        }
        from = to;
      }
      t.ok(partsInKernel > parts / 2, `round ${round}: ${partsInKernel} of ${parts} parts are in the kernel`);
    }
    t.end();
  });

  t.test(`of damaged ${protocol} rows the kernel says what is said without it`, (t) => {
    const random = seeded(t);
    const seen = { failed: 0, read: 0 };
    const usual = (): Value[] => randomRow(random, all, nullsOfDamaged);
    const odd = all.flatMap(({ odd }, index) => (odd === undefined ? [] : [{ index, odd }]));
    const oddRow = (): Buffer => {
      const row = usual();
      const { index, odd: value } = pick(random, odd);
      row[index] = value(random);
      return payloadOf(row);
    };
    const halves = (): Buffer[] =>
      [0, 1].map((half) => payloadOf(usual().map((value, index) => (index === halved ? halfOf('é', half) : value))));
    const wrongByte = (): Buffer => {
      const row = payloadOf(usual());
      row[random(row.length)] = pick(random, [0, 0xff, 0xfc, 0xfe, 0x39, random(256)]);
      return row;
    };
    const cutOff = (): Buffer => {
      const row = payloadOf(usual());
      return row.subarray(0, random(row.length));
    };
    const halved = all.findIndex(({ type }) => type.name === 'String');
    // The kernel does not take it.
    const large = usual();
    large[all.length - 1] = encodedString(Buffer.alloc(packetsBytes));
    for (let round = 0; round < figure(400, 4_000); round++) {
      const format = formatOf(all, isBinary, pick(random, ['fail', 'null']));
      const bad = pick(random, [() => [oddRow()], () => [oddRow()], halves, () => [wrongByte()], () => [cutOff()]]);
      const before = random(9);
      const good = Array.from({ length: 20 }, () => payloadOf(usual()));
      const rows = [...good.slice(0, before), ...bad(), ...good.slice(before)];
      const packets = packetsOf([...rows, payloadOf(large)]);
      const written = valuesOf(format, packets, 0, rows.length);
      const expected = valuesOf(format, packets, 0, rows.length + 1, rows.length);
      seen[typeof expected === 'string' ? 'failed' : 'read']++;
      t.strictSame(written, expected, `round ${round}`);
    }
    t.ok(seen.failed > 0 && seen.read > 0, `${seen.failed} are an error, ${seen.read} are not`);
    t.end();
  });
}

t.test('a batch that outgrows the kernel has the same values', (t) => {
  const random = seeded(t);
  const tested = columns.filter(
    ({ type }) => type.name === 'Int32' || type.name === 'String' || (type.name === 'Decimal' && type.scale < 18),
  );
  const row = (): Value[] =>
    tested.map(({ type }, column) => {
      if (type.name === 'Int32') return randomBytes(random, 4);
      return random(20) === 0
        ? null
        : encodedString(type.name === 'String' ? String(random(99)) : `${random(10)}`.padStart(1 + (column % 2), '-'));
    });
  const rows = 14_000;
  const packets = packetsOf(Array.from({ length: rows }, () => binaryRowPayload(row())));
  const format = formatOf(tested, true, 'fail');
  t.ok(isInKernel(format, packets, 0, rows), 'its cells are in the kernel');
  const whole = valuesOf(format, packets, 0, rows) as string[][];
  const parts = Array.from({ length: rows / 1_000 }, (_, part) =>
    valuesOf(format, packets, part * 1_000, (part + 1) * 1_000),
  );
  t.strictSame(
    whole.map((values) => values.join()),
    tested.map((_, column) => parts.flatMap((values) => values[column] as string[]).join()),
  );
  t.strictSame(
    valuesOf(format, packets, 5, 5),
    tested.map(() => []),
    'no rows',
  );
  t.end();
});

t.test('as many columns as a table may have, and one more', (t) => {
  const random = seeded(t);
  const [int8] = columns as [TestColumn];
  for (const count of [columnsMax, columnsMax + 1]) {
    const rows = Array.from({ length: 3 }, () => Array.from({ length: count }, () => Buffer.of(random(256))));
    const format = formatOf(new Array(count).fill(int8), true, 'fail');
    const packets = packetsOf(rows.map(binaryRowPayload));
    t.equal(isInKernel(format, packets, 0, rows.length), count === columnsMax);
    const expected = rows[0]?.map((_, column) => rows.map((row) => row[column]?.toString('hex')));
    t.strictSame(valuesOf(format, packets, 0, rows.length), expected);
  }
  t.end();
});

t.test('a cell that is missing, or has a length that its type cannot have, is an error', (t) => {
  const text = { type: { name: 'String' }, value: valueType.string, random: anyText } as const;
  const texts = formatOf([text, text], false, 'fail');
  // The header of the second row begins with the byte of a NULL.
  const second = rowPayload([Buffer.alloc(125), Buffer.alloc(124)]);
  t.equal(second.length, 0xfb);
  t.match(valuesOf(texts, packetsOf([rowPayload([Buffer.from('a')]), second]), 0, 2), /^RangeError/);

  const dates = formatOf([{ type: { name: 'Date' }, value: valueType.date, random: date }], true, 'fail');
  const [short, long] = [Buffer.of(4, 0xe8, 7, 1, 1), Buffer.of(0xfc, 4, 0, 0xe8, 7, 1, 1)];
  t.strictSame(valuesOf(dates, packetsOf([binaryRowPayload([short])]), 0, 1), [['0b4d0000']], '19,723 days');
  t.match(valuesOf(dates, packetsOf([binaryRowPayload([long])]), 0, 1), /^RangeError/);
  t.end();
});
