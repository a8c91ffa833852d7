import t from 'tap';
import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import type { Batch } from '#src/wire/statement.js';
import { decimalsNotFixed, valueBytes, valueText, valueType } from '#src/worker/binary-values.js';
import { kernel, kernelStop } from '#src/worker/kernel.js';
import { RowEncoder } from '#src/worker/row-encoder.js';
import type { RowFormat } from '#src/worker/row-format.js';
import { framed } from '../support/answer-packets.ts';
import { allKinds, randomCell } from '../support/cells.ts';
import { pick, type Random, seeded } from '../support/random.ts';
import { binaryRowPayload, encodedString } from '../support/row-packets.ts';

const noLimit = 1024 * 1024 * 1024;

/** An encoded value, given as its bytes in hex. */
function textOf(type: number, hex: string, decimals = 0): string {
  const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (valueBytes(type, view, 0) !== bytes.length) throw new Error(`${hex} has a wrong length`);
  return valueText(type, decimals, view, 0);
}

function doubleText(value: number, decimals = decimalsNotFixed): string {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value, true);
  return valueText(valueType.double, decimals, view, 0);
}

function floatText(value: number, decimals = decimalsNotFixed): string {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value, true);
  return valueText(valueType.float, decimals, view, 0);
}

t.test('integers, dates and times are decoded as the protocol defines', (t) => {
  for (const [type, hex, text, decimals] of [
    [valueType.int8, '80', '-128'],
    [valueType.uint8, 'ff', '255'],
    [valueType.int16, '0080', '-32768'],
    [valueType.uint16, '6b08', '2155'],
    [valueType.int32, '00000080', '-2147483648'],
    [valueType.uint32, 'ffffffff', '4294967295'],
    [valueType.int64, '0000000000000080', '-9223372036854775808'],
    [valueType.uint64, 'ffffffffffffffff', '18446744073709551615'],
    [valueType.date, '00', '0000-00-00'],
    [valueType.date, '04 da07 0a 11', '2010-10-17'],
    [valueType.date, '07 da07 0a 11 01 02 03', '2010-10-17'],
    [valueType.datetime, '00', '0000-00-00 00:00:00'],
    [valueType.datetime, '00', '0000-00-00 00:00:00.000', 3],
    [valueType.datetime, '04 da07 0a 11', '2010-10-17 00:00:00'],
    [valueType.datetime, '0b da07 0a 11 13 1b 1e 01000000', '2010-10-17 19:27:30.000001', 6],
    [valueType.datetime, '0b da07 0a 11 13 1b 1e 40e20100', '2010-10-17 19:27:30.12', 2],
    [valueType.datetime, '0b da07 0a 11 13 1b 1e 40e20100', '2010-10-17 19:27:30.123456', 39],
    [valueType.datetime, '07 da07 0a 11 13 1b 1e', '2010-10-17 19:27:30', 39],
    [valueType.time, '00', '00:00:00'],
    [valueType.time, '08 01 22000000 16 3b 3b', '-838:59:59'],
    [valueType.time, '0c 01 78000000 13 1b 1e 01000000', '-2899:27:30.000001', 6],
    [valueType.time, '0c 00 00000000 00 00 00 20a10700', '00:00:00.5', 1],
  ] as const) {
    t.equal(textOf(type, hex, decimals), text, hex);
  }
  for (const [type, hex] of [
    [valueType.date, '03 da07 0a'],
    [valueType.date, '04 1127 0a 11'],
    [valueType.date, '04 da07 64 11'],
    [valueType.datetime, '08 da07 0a 11 13 1b 1e 00'],
    [valueType.datetime, '07 da07 0a 11 64 1b 1e'],
    [valueType.datetime, '0b da07 0a 11 13 1b 1e 40420f00'],
    [valueType.time, '07 01 22000000 16 3b'],
    [valueType.time, '08 01 22000000 16 64 3b'],
  ] as const) {
    t.throws(() => textOf(type, hex), RangeError, hex);
  }
  t.end();
});

t.test('floats are printed as both servers print them', (t) => {
  for (const [value, text] of [
    [0, '0'],
    [-0, '-0'],
    [1e14, '100000000000000'],
    [1e15, '1e15'],
    [1.234567890123456e15, '1.234567890123456e15'],
    [1234567890123456.8, '1234567890123456.8'],
    [1.2345678901234568e16, '1.2345678901234568e16'],
    [-1.5e100, '-1.5e100'],
    [1e-15, '0.000000000000001'],
    [1.2345678901234568e-15, '0.0000000000000012345678901234568'],
    [1e-16, '1e-16'],
    [5e-324, '5e-324'],
    [Number.MAX_VALUE, '1.7976931348623157e308'],
    [0.1 + 0.2, '0.30000000000000004'],
  ] as const) {
    t.equal(doubleText(value), text);
  }
  for (const [value, text] of [
    [1234565, '1234560'],
    [1234575, '1234580'],
    [100000.5, '100000'],
    [100001.5, '100002'],
    [12345.65, '12345.7'],
    [16777217, '16777200'],
    [9999995, '10000000'],
    [1.234567e-16, '1.23457e-16'],
    [3.4028234e38, '3.40282e38'],
    [1e-45, '1.4013e-45'],
  ] as const) {
    t.equal(floatText(value), text);
  }
  for (const [value, decimals, text] of [
    [0, 2, '0.00'],
    [-0.001, 2, '-0.00'],
    [0.5, 0, '0'],
    [1.5, 0, '2'],
    [0.125, 2, '0.12'],
    [0.375, 2, '0.38'],
    [0.1, 25, `0.1${'0'.repeat(24)}`],
    [9.995, 2, '9.99'],
    [99.999, 2, '100.00'],
    [0.999, 2, '1.00'],
    [1e25, 3, `1${'0'.repeat(25)}.000`],
    [5e-324, 30, `0.${'0'.repeat(30)}`],
  ] as const) {
    t.equal(doubleText(value, decimals), text);
  }
  t.end();
});

t.test('A2: infinity and NaN are 0, as both servers print them', (t) => {
  for (const value of [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN]) {
    for (const decimals of [0, 2, 30, decimalsNotFixed]) {
      t.equal(doubleText(value, decimals), '0');
      t.equal(floatText(value, decimals), '0');
      for (const type of [valueType.float, valueType.double]) {
        const bytes = Buffer.alloc(8);
        if (type === valueType.double) bytes.writeDoubleLE(value);
        else bytes.writeFloatLE(value);
        for (const [kind, expected] of [
          [cellKind.number, '[0]'],
          [cellKind.quotedNumber, '["0"]'],
        ] as const) {
          const format = formatOf(() => 0, [{ type, decimals, kind }]);
          const payload = binaryRowPayload([bytes.subarray(0, type === valueType.double ? 8 : 4)]);
          t.equal(byKernel(format, framed([payload])), expected);
          t.equal(plainly(format, payload), expected);
        }
      }
    }
  }
  t.end();
});

t.test('the text of every double reads back as the same double and is as short as possible', (t) => {
  const random = seeded(t);
  let wrong = 0;
  for (let round = 0; round < 100_000; round++) {
    const value = randomDouble(random);
    const text = doubleText(value);
    const digits = (printed: string): string => printed.replace(/e.*|[-.]/g, '').replace(/^0+|0+$/g, '');
    if (!Object.is(Number(text), value) || digits(text) !== digits(value.toExponential())) {
      wrong++;
    }
  }
  t.equal(wrong, 0);
  t.end();
});

/** One column of a binary row. */
interface Column {
  readonly type: number;
  readonly decimals: number;
  readonly kind: CellKind;
}

const { quotedNumber, number, date, timestamp, text, json, bitsOrDigits } = cellKind;

function randomColumn(random: Random): Column {
  const type = random(14);
  const decimals = pick(random, [0, 1, 2, 3, 5, 6, 8, 9, 17, 30, 31, 31, 31, 39]);
  if (type === valueType.string) return { type, decimals, kind: pick(random, allKinds) };
  if (type < valueType.date) return { type, decimals, kind: pick(random, [number, quotedNumber]) };
  if (type === valueType.time) return { type, decimals, kind: text };
  return { type, decimals, kind: pick(random, [text, type === valueType.date ? date : timestamp]) };
}

function randomDouble(random: Random): number {
  const view = new DataView(new ArrayBuffer(8));
  for (const at of [0, 4]) view.setUint32(at, random(2 ** 32));
  const bits = view.getFloat64(0);
  const decimal = (random(2 ** 32) - 2 ** 31) / 10 ** random(12);
  const power = 2 ** (random(2099) - 1075);
  const fraction = (random(2 ** 32) / 2 ** 32) * 10 ** (random(40) - 20);
  const whole = random(2 ** 32) * 2 ** random(30);
  return pick(random, [Number.isFinite(bits) ? bits : 0, decimal, power, fraction, whole, decimal, random(1000) / 8]);
}

function randomValue(random: Random, { type, kind }: Column): Uint8Array | null {
  if (random(8) === 0) return null;
  if (type === valueType.string) {
    const cell = randomCell(random, kind);
    return cell === null ? null : encodedString(cell);
  }
  const bytes = Buffer.alloc(13);
  if (type === valueType.double) {
    bytes.writeDoubleLE(random(200) === 0 ? pick(random, [Number.NaN, -Infinity]) : randomDouble(random));
    return bytes.subarray(0, 8);
  }
  if (type === valueType.float) {
    const float = Math.fround(randomDouble(random));
    bytes.writeFloatLE(Number.isFinite(float) ? float : random(2 ** 24) / 2 ** random(20));
    return bytes.subarray(0, 4);
  }
  if (type < valueType.float) {
    const size = 1 << ((type - 1) >> 1);
    const value = BigInt(random(2 ** 32)) * BigInt(random(2 ** 32) + 1);
    bytes.writeBigUInt64LE(BigInt.asUintN(64, pick(random, [value, -value, value >> BigInt(random(64)), -1n, 0n])));
    return bytes.subarray(0, size);
  }
  const part = (limit: number): number => (random(3) === 0 ? 0 : random(random(400) === 0 ? 256 : limit));
  const microseconds = random(3) === 0 ? 0 : random(random(400) === 0 ? 2 ** 32 : 1e6);
  if (type === valueType.time) {
    bytes[1] = random(2);
    bytes.writeUInt32LE(random(3) === 0 ? random(random(20) === 0 ? 2 ** 32 : 40) : 0, 2);
    bytes.set([part(24), part(60), part(60)], 6);
    bytes.writeUInt32LE(microseconds, 9);
    bytes[0] = pick(random, [0, 8, 12]);
  } else {
    bytes.writeUInt16LE(random(3) === 0 ? random(random(200) === 0 ? 65_536 : 10_000) : 2026, 1);
    bytes.set([part(13), part(32), part(24), part(60), part(60)], 3);
    bytes.writeUInt32LE(microseconds, 8);
    bytes[0] = pick(random, [0, 4, 7, 11]);
  }
  return bytes.subarray(0, 1 + (bytes[0] as number));
}

function formatOf(random: Random, columns: readonly Column[]): RowFormat {
  return {
    kinds: Uint8Array.from(columns, ({ kind }) => kind),
    values: Uint16Array.from(columns, ({ type, decimals }) => type | (decimals << 8)),
    layout: formats[random(2) === 0 ? 'json strings, NULL too' : 'json'].layout,
    keys: null,
  };
}

function jsonOf(batch: Batch | null): string {
  return batch === null ? '' : Buffer.from(batch.buffer, 0, batch.length).toString();
}

/** The kernel's result for a row: its JSON, the reason why it stopped, or "error". */
function byKernel(format: RowFormat, packet: Uint8Array, at = 0): string | number {
  kernel.input.set(packet, at);
  try {
    const stop = kernel.encode(format, at, at + packet.length, 0, noLimit, noLimit);
    return kernel.rows === 1 ? kernel.output.toString('utf8', 0, kernel.length) : stop;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return 'error';
  }
}

/** The result of the plain encoder. */
function plainly(format: RowFormat, payload: Uint8Array): string {
  let full: Batch | null = null;
  const encoder = new RowEncoder(format, noLimit, (batch) => {
    full = batch;
  });
  try {
    encoder.append(payload, 0, payload.length);
    return jsonOf(full ?? encoder.take());
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return 'error';
  } finally {
    encoder.release();
  }
}

t.test('random rows are the same by the kernel and by the plain encoder', (t) => {
  const random = seeded(t);
  const outcomes = { row: 0, left: 0, error: 0 };
  for (let round = 0; round < 40_000; round++) {
    const columns = Array.from({ length: 1 + random(20) }, () => randomColumn(random));
    const format = formatOf(random, columns);
    const payload = binaryRowPayload(columns.map((column) => randomValue(random, column)));
    const expected = plainly(format, payload);
    const encoded = byKernel(format, framed([payload]));
    if (encoded === kernelStop.largeRow) {
      outcomes.left++;
      continue;
    }
    outcomes[expected === 'error' ? 'error' : 'row']++;
    if (expected !== 'error') JSON.parse(expected);
    if (encoded !== expected) t.equal(encoded, expected, `round ${round}: ${JSON.stringify(columns)}`);
  }
  t.ok(outcomes.row > 20_000, `${outcomes.row} rows`);
  t.ok(outcomes.error > 100, `${outcomes.error} rows with an invalid date or time`);
  t.ok(outcomes.left > 20, `${outcomes.left} rows with bits that the kernel does not take`);
  t.end();
});

t.test('a value that reaches past its packet is an error, also if other bytes follow', (t) => {
  const random = seeded(t);
  let errors = 0;
  for (let round = 0; round < 3_000; round++) {
    const columns = Array.from({ length: 1 + random(pick(random, [8, 300])) }, () => randomColumn(random));
    const format = formatOf(random, columns);
    const payload = binaryRowPayload(columns.map((column) => randomValue(random, column)));
    if (random(3) === 0) payload[0] = 1 + random(0xfd);
    const cut = payload.subarray(0, random(4) === 0 ? payload.length : random(payload.length + 1));
    const packet = framed([cut]);
    // A value with fixed decimals takes more bytes than others.
    const room = packet.length * 6 + columns.length * (24 + 320) + 64;
    const from = round % 2 === 0 ? 0 : kernel.input.length - packet.length;
    const outcomes = [0, 1, 0xfb, 0xff].map((filler) => {
      kernel.input.fill(filler, from, Math.min(from + packet.length + 20_000, kernel.input.length));
      kernel.output.fill(filler, room, room + 20_000);
      const outcome = byKernel(format, packet, from);
      if (kernel.output.subarray(room, room + 20_000).some((byte) => byte !== filler)) t.fail(`round ${round}: room`);
      return outcome;
    });
    if (new Set(outcomes).size > 1) t.fail(`round ${round}: bytes behind the packet changed the result`);
    const expected = plainly(format, Buffer.from(cut));
    if (outcomes[0] === 'error') errors++;
    if (outcomes[0] !== kernelStop.largeRow && outcomes[0] !== expected)
      t.equal(outcomes[0], expected, `round ${round}`);
  }
  t.ok(errors > 1_000, `${errors} packets were refused`);
  t.end();
});

t.test('rows of any number of columns have their NULLs at the right positions', (t) => {
  for (const count of [0, 1, 5, 6, 7, 8, 13, 14, 15, 4_096]) {
    for (const step of [1, 2, 3, 7]) {
      const columns = Array.from({ length: count }, () => ({ type: valueType.uint8, decimals: 0, kind: number }));
      const format: RowFormat = { ...formatOf(() => 0, columns), layout: formats['json strings, NULL too'].layout };
      const values = columns.map((_, column) => (column % step === 0 ? null : Buffer.of(column & 0xff)));
      const payload = binaryRowPayload(values);
      const expected = `[${values.map((value) => (value === null ? '"NULL"' : value[0])).join()}]`;
      t.equal(byKernel(format, framed([payload])), expected);
      t.equal(plainly(format, payload), expected);
    }
  }
  t.end();
});

t.test('a row that is too large for the kernel gives the same JSON', (t) => {
  const columns = [
    { type: valueType.string, decimals: 31, kind: text },
    { type: valueType.double, decimals: 31, kind: quotedNumber },
    { type: valueType.string, decimals: 0, kind: json },
    { type: valueType.int32, decimals: 0, kind: number },
    { type: valueType.string, decimals: 0, kind: bitsOrDigits },
  ];
  const format = { ...formatOf(() => 0, columns), layout: formats.json.layout };
  const large = Buffer.alloc(300_000, 'é"');
  const double = Buffer.alloc(8);
  double.writeDoubleLE(-1e-20);
  const payload = binaryRowPayload([encodedString(large), double, null, Buffer.of(7, 0, 0, 0), encodedString('12')]);
  t.equal(byKernel(format, framed([payload]).subarray(0, 300_000)), kernelStop.largeRow);
  t.equal(plainly(format, payload), `[${JSON.stringify(large.toString())},"-1e-20",null,7,12]`);
  t.end();
});
