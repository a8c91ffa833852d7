import t from 'tap';
import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import type { TextFormatName } from '#src/wire/statement.js';
import { cellGrowthMax, cellOverheadMax, writeCell } from '#src/worker/cells.js';
import { outputBytes } from '#src/worker/kernel/shared/sizes.js';
import { headroomBytes, Kernel, type KernelStop, kernelStop, readBytes } from '#src/worker/kernel.js';
import { allFormats, allKinds, isDocument, randomDate, referenceNumber, textFormat } from '../support/cells.ts';
import { figure } from '../support/form.ts';
import { type Field, rowReader } from '../support/mysql2-rows.ts';
import { invalidText, pick, type Random, randomBytes, seeded } from '../support/random.ts';
import { rowPayload } from '../support/row-packets.ts';

type Cell = Uint8Array | null;

const noLimit = Number.MAX_SAFE_INTEGER;
const inputBytes = headroomBytes + readBytes;
/** The protocol's numbers for the types of text and blob columns. */
const text = { columnType: 253, characterSet: 45 };

const kernel = new Kernel();

t.test("random rows match cells.ts, and JSON.stringify of mysql2's values", (t) => {
  const random = seeded(t);
  const kindsSeen = new Set<CellKind>();
  let left = 0;
  for (let round = 0; round < figure(600, 1_500); round++) {
    const kinds = Array.from({ length: 1 + random(12) }, () => pick(random, allKinds));
    const rows = Array.from({ length: 1 + random(60) }, () => kinds.map((kind) => randomCell(random, kind)));
    const bytes = packets(rows);
    if (bytes.length > inputBytes) continue;
    for (const kind of kinds) kindsSeen.add(kind);
    const cells = pick(random, allFormats);
    const encoded = encodeAll(kinds, bytes, rows, cells);
    left += encoded.left;
    const expected = rows.map((row) => plainRow(kinds, row, cells));
    const read = mysql2Rows(kinds, bytes, cells);
    const wrong = expected.findIndex((row, index) => row !== encoded.rows[index] || row !== read[index]);
    const right = { row: expected[wrong], count: rows.length };
    t.same({ row: encoded.rows[wrong], count: encoded.rows.length }, right, `round ${round}: kinds ${kinds}`);
    t.same({ row: read[wrong], count: read.length }, right, `round ${round}, by mysql2`);
  }
  t.equal(kindsSeen.size, allKinds.length);
  t.ok(left > 0, 'some rows had a BIT value that the kernel does not take');
  t.end();
});

t.test(
  'A2: a number as a server prints it becomes JSON, the same by the kernel and without it, and valid numbers stay',
  (t) => {
    const random = seeded(t);
    // By RFC 8259, section 6.
    const valid = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$/;
    const counts = { valid: 0, mended: 0, text: 0 };
    for (let round = 0; round < 300; round++) {
      // Each row has several cells, because the bytes behind a cell must make no difference.
      const printed = Array.from({ length: 200 }, () => randomNumber(random));
      const rows = Array.from({ length: 50 }, (_, row) =>
        printed.slice(4 * row, 4 * row + 4).map((text) => Buffer.from(text)),
      );
      const kinds = [cellKind.number, cellKind.quotedNumber, cellKind.number, cellKind.quotedNumber];
      const encoded = encodeAll(kinds, packets(rows), rows);
      const wrong = encoded.rows.findIndex((row, index) => row !== plainRow(kinds, rows[index] as Cell[]));
      t.equal(encoded.rows[wrong], wrong < 0 ? undefined : plainRow(kinds, rows[wrong] as Cell[]), `round ${round}`);
      for (const [index, row] of encoded.rows.entries()) {
        JSON.parse(row);
        const cells = row.slice(1, -1).split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/);
        for (const [column, cell] of cells.entries()) {
          const text = printed[4 * index + column] as string;
          const given = cell.replaceAll('"', '');
          if (valid.test(text)) {
            counts.valid++;
            if (cell !== (column % 2 === 0 ? text : `"${text}"`)) t.equal(cell, text, 'a valid number is unchanged');
          } else if (valid.test(given) && given !== '') {
            counts.mended++;
            if (!Object.is(Number(given), Number(text.replace(/^0+(?=-)/, ''))))
              t.equal(given, text, 'its value is unchanged');
          } else {
            counts.text++;
          }
        }
      }
    }
    for (const [kind, count] of Object.entries(counts)) t.ok(count > 1_000, `${count} were ${kind}`);
    t.end();
  },
);

t.test('every lead of a sequence, with every kind of continuation, is decoded at both ends of a block', (t) => {
  const followers = [0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2, 0xe2, 0xf0, 0xff];
  const sequences: number[][] = [];
  for (let first = 0; first < 256; first++) {
    sequences.push([first]);
    for (let second = 0; second < 256; second++) sequences.push([first, second]);
    if (first < 0xc0) continue;
    for (const second of followers) {
      for (const third of followers) {
        for (const fourth of [0x41, 0x80, 0xc2]) sequences.push([first, second, third, fourth]);
      }
    }
  }
  for (const [kind, before] of [
    [cellKind.text, 0],
    [cellKind.text, 13],
    [cellKind.text, 15],
    [cellKind.json, 0],
    [cellKind.json, 14],
  ] as const) {
    const lead = Buffer.alloc(before, kind === cellKind.json ? '{' : 'x');
    const rows = sequences.map((sequence) => [Buffer.concat([lead, Buffer.from(sequence)])]);
    let wrong = 0;
    for (let from = 0; from < rows.length; from += 5_000) {
      const part = rows.slice(from, from + 5_000);
      const encoded = encodeAll([kind], packets(part), part);
      for (const [index, row] of part.entries()) if (encoded.rows[index] !== plainRow([kind], row)) wrong++;
    }
    t.equal(wrong, 0, `kind ${kind} after ${before} bytes`);
  }
  t.end();
});

t.test('cells at the length limits of the protocol and of a block keep every byte', (t) => {
  const random = seeded(t);
  const sizes = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129, 249, 250, 251, 252, 255];
  for (const size of [...sizes, 256, 257, 4_095, 4_096, 65_534, 65_535, 65_536, 65_537]) {
    for (const kind of [cellKind.text, cellKind.hex, cellKind.json, cellKind.number, cellKind.quotedNumber]) {
      const rows = [
        [new Uint8Array(size).fill(0x31), Buffer.from('1')],
        [new Uint8Array(size).fill(0x22), null],
        [Buffer.from('é'.repeat(size)).subarray(0, size), null],
        [Buffer.from('長'.repeat(size)).subarray(0, size), null],
        [randomBytes(random, size), Buffer.from('2')],
        [invalidText(random, size), Buffer.from('3')],
        ...[0, size >> 1, size - 1].map((at) => [new Uint8Array(size).fill(0x31).fill(0x0a, at, at + 1), null]),
      ];
      const kinds = [kind, cellKind.number];
      const same = rows.every((row) => encodeAll(kinds, packets([row]), [row]).rows[0] === plainRow(kinds, row));
      t.ok(same, `${size} bytes as kind ${kind}`);
    }
  }
  t.end();
});

t.test('rows without columns and rows of 4,096 columns', (t) => {
  t.same(encodeAll([], packets([[], []]), [[], []]).rows, ['[]', '[]']);
  const kinds = Array.from({ length: 4096 }, (_, column) => allKinds[column % allKinds.length] as CellKind);
  const rows = [kinds.map(() => null), kinds.map(() => Buffer.from('1')), kinds.map(() => Buffer.of(0x22))];
  t.same(
    encodeAll(kinds, packets(rows), rows).rows,
    rows.map((row) => plainRow(kinds, row)),
  );
  t.end();
});

t.test('packets that are cut anywhere give the same rows once the rest has arrived', (t) => {
  const random = seeded(t);
  const kinds = [cellKind.number, cellKind.text, cellKind.hex, cellKind.json];
  const format = textFormat(kinds);
  const rows = [
    [Buffer.from('-00123'), Buffer.from('plain "text" \\ é 😀'), randomBytes(random, 20), Buffer.from('{"a":[1]}')],
    [null, invalidText(random, 260), null, Buffer.from('"長"')],
    [Buffer.from(''), Buffer.from(''), Buffer.from(''), Buffer.from('')],
  ];
  const bytes = packets(rows);
  const expected = Buffer.from(rows.map((row) => plainRow(kinds, row)).join());
  let wrong = 0;
  for (let cut = 0; cut <= bytes.length; cut++) {
    // The bytes behind a cut belong to an earlier chunk.
    kernel.input.fill(random(256));
    bytes.copy(kernel.input, headroomBytes, 0, cut);
    const first = kernel.encode(format, headroomBytes, headroomBytes + cut, 0, noLimit, noLimit);
    const taken = kernel.consumed - headroomBytes;
    const parts: Buffer[] = [Buffer.from(kernel.output.subarray(0, kernel.length))];
    const ends = [...kernel.rowEnds.subarray(0, kernel.rows)];

    bytes.copy(kernel.input, headroomBytes - (cut - taken), taken);
    const end = headroomBytes + bytes.length - cut;
    const second = kernel.encode(format, headroomBytes - (cut - taken), end, kernel.length, noLimit, noLimit);
    parts.push(kernel.output.subarray(0, kernel.length));
    ends.push(...kernel.rowEnds.subarray(0, kernel.rows));
    const same = expected.equals(Buffer.concat(parts)) && ends.length === rows.length && ends[2] === expected.length;
    if (first !== kernelStop.inputUsed || second !== kernelStop.inputUsed || kernel.consumed !== end || !same) wrong++;
  }
  t.equal(wrong, 0);
  t.end();
});

t.test('it stops before an incomplete packet and before a packet that is not a row', (t) => {
  const row = packet(rowPayload([Buffer.from('abc')]));
  const expected = '["abc"]';
  for (let length = 0; length < row.length; length++) {
    t.same(encodeOnce([Buffer.concat([row, row.subarray(0, length)])]), [kernelStop.inputUsed, expected, row.length]);
  }
  const error = packet(Buffer.of(0xff, 0x28, 0x04, 0x23));
  const shortError = packet(Buffer.of(0xff));
  for (const end of [error, shortError, packet(Buffer.of(0xfe)), packet(Buffer.from('fe00000200ff00ff', 'hex'))]) {
    t.same(encodeOnce([row, end]), [kernelStop.notARow, expected, row.length]);
    t.same(encodeOnce([row, end, row]), [kernelStop.notARow, expected, row.length]);
    t.same(encodeOnce([row, end.subarray(0, -1)]), [kernelStop.inputUsed, expected, row.length]);
  }
  // From nine bytes on, 0xfe begins a cell of 16 MiB or more, whose packet cannot fit here.
  t.throws(() => encodeOnce([packet(Buffer.from('fe0000000100000000', 'hex'))]), RangeError);
  // Bytes behind an empty payload do not matter.
  t.throws(() => encodeOnce([packet(Buffer.of()), Buffer.of(0xff)]), RangeError);
  t.end();
});

t.test('it stops before a row that is too large for it, as soon as it has the header', (t) => {
  const row = packet(rowPayload([Buffer.from('abc')]));
  const largest = Math.floor((outputBytes - cellOverheadMax - 2) / cellGrowthMax);
  const atMost = packet(rowPayload([new Uint8Array(largest - 4).fill(1)]));
  const tooLarge = packet(rowPayload([new Uint8Array(largest - 3).fill(1)]));
  const [stop, text] = encodeOnce([atMost]);
  t.equal(stop, kernelStop.inputUsed);
  t.equal(text, `["${'\\u0001'.repeat(largest - 4)}"]`);
  for (const length of [4, 5, tooLarge.length]) {
    t.same(encodeOnce([row, tooLarge.subarray(0, length)]), [kernelStop.largeRow, '["abc"]', row.length]);
  }
  t.same(encodeOnce([row, tooLarge.subarray(0, 3)]), [kernelStop.inputUsed, '["abc"]', row.length]);
  t.same(encodeOnce([Buffer.of(0xff, 0xff, 0xff, 0)]), [kernelStop.largeRow, '', 0]);

  // A row that fits but is incomplete must move into the headroom.
  const headroom = packet(rowPayload([new Uint8Array(headroomBytes - 7).fill(0x61)]));
  t.equal(headroom.length, headroomBytes);
  t.equal(encodeOnce([headroom.subarray(0, -1)])[0], kernelStop.inputUsed);
  const larger = packet(rowPayload([new Uint8Array(headroomBytes - 6).fill(0x61)]));
  t.equal(encodeOnce([larger.subarray(0, -1)])[0], kernelStop.largeRow);
  t.equal(encodeOnce([larger])[0], kernelStop.inputUsed);

  const bits = packet(rowPayload([Buffer.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)]));
  const wide = packet(rowPayload([Buffer.of(0, 255, 255, 255, 255, 255, 255, 255, 255)]));
  t.same(encodeOnce([wide, bits], [cellKind.bits]), [kernelStop.largeRow, '[18446744073709551615]', wide.length]);
  t.end();
});

t.test('it stops before a row that may exceed the output, and not before', (t) => {
  const first = packet(rowPayload([new Uint8Array(56).fill(0x61)]));
  const longer = packet(rowPayload([new Uint8Array(57).fill(0x61)]));
  const written = 60;
  const payload = (outputBytes - written - cellOverheadMax - 2) / cellGrowthMax;
  const second = packet(rowPayload([new Uint8Array(payload - 4).fill(1)]));
  const cell = `["${'a'.repeat(56)}"]`;
  const [stop, text] = encodeOnce([first, second]);
  t.equal(stop, kernelStop.inputUsed);
  t.equal(text, `${cell},["${'\\u0001'.repeat(payload - 4)}"]`);
  const longerCell = `["${'a'.repeat(57)}"]`;
  t.same(encodeOnce([longer, second]), [kernelStop.outputFull, longerCell, longer.length]);
  t.end();
});

t.test('it takes no more rows than allowed, and no row whose JSON is too large', (t) => {
  const row = packet(rowPayload([Buffer.from('a"c')]));
  const expected = '["a\\"c"]';
  const rows = Buffer.concat([row, row, row]);
  rows.copy(kernel.input);
  const format = textFormat([cellKind.text]);
  for (const [rowsMax, stop] of [
    [0, kernelStop.rowsMax],
    [1, kernelStop.rowsMax],
    [2, kernelStop.rowsMax],
    [3, kernelStop.inputUsed],
  ] as const) {
    t.equal(kernel.encode(format, 0, rows.length, 0, rowsMax, noLimit), stop);
    t.same([kernel.rows, kernel.consumed], [rowsMax, rowsMax * row.length]);
    t.equal(kernel.output.toString('utf8', 0, kernel.length), new Array(rowsMax).fill(expected).join());
  }
  const larger = packet(rowPayload([Buffer.from('"""')]));
  const limit = expected.length;
  t.same(encodeOnce([row, row], [cellKind.text], limit), [
    kernelStop.inputUsed,
    `${expected},${expected}`,
    2 * row.length,
  ]);
  t.same(encodeOnce([row, larger, row], [cellKind.text], limit), [kernelStop.rowTooLarge, expected, row.length]);
  t.same(encodeOnce([row], [cellKind.text], limit - 1), [kernelStop.rowTooLarge, '', 0]);
  t.end();
});

t.test('later rows of a batch begin with a comma and end where the batch does', (t) => {
  const row = packet(rowPayload([Buffer.from('1')]));
  const bytes = Buffer.concat([row, row]);
  bytes.copy(kernel.input);
  const format = textFormat([cellKind.number]);
  kernel.encode(format, 0, bytes.length, 0, noLimit, noLimit);
  t.same([kernel.output.toString('utf8', 0, kernel.length), ...kernel.rowEnds.subarray(0, 2)], ['[1],[1]', 3, 7]);
  kernel.encode(format, 0, bytes.length, 100, noLimit, noLimit);
  t.same([kernel.output.toString('utf8', 0, kernel.length), ...kernel.rowEnds.subarray(0, 2)], [',[1],[1]', 104, 108]);
  t.end();
});

t.test('the kinds belong to the call, in any order of statements', (t) => {
  const row = packet(rowPayload([Buffer.from('35')]));
  for (let turn = 0; turn < 3; turn++) {
    t.equal(encodeOnce([row], [cellKind.number])[1], '[35]');
    t.equal(encodeOnce([row], [cellKind.hex])[1], '["3335"]');
    t.equal(encodeOnce([row], [cellKind.text])[1], '["35"]');
  }
  t.end();
});

t.test('a cell that reaches past its packet is an error, also if other bytes follow', (t) => {
  const random = seeded(t);
  let thrown = 0;
  for (let round = 0; round < figure(1_000, 2_000); round++) {
    const kinds = Array.from({ length: 1 + random(8) }, () => pick(random, allKinds));
    const payload = rowPayload(kinds.map((kind) => randomCell(random, kind))).subarray(0, 5_000);
    for (let change = random(3); change >= 0; change--) {
      payload[random(payload.length)] = pick(random, [0, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, random(256)]);
    }
    const bytes = packet(payload.subarray(0, random(payload.length + 1)));
    // The largest output of a row, and the blocks that reach past it.
    const room = bytes.length * cellGrowthMax + kinds.length * cellOverheadMax + 64;
    const from = round % 2 === 0 ? 0 : inputBytes - bytes.length;
    const outcomes = [0, 0xfb, 0xff, 1].map((filler) => {
      kernel.input.fill(filler, from, Math.min(from + bytes.length + 70_000, inputBytes));
      bytes.copy(kernel.input, from);
      kernel.output.fill(filler, room, room + 70_000);
      try {
        const stop = kernel.encode(textFormat(kinds), from, from + bytes.length, 0, noLimit, noLimit);
        return `${stop} ${kernel.output.toString('latin1', 0, kernel.length)}`;
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        return 'error';
      } finally {
        const behind = kernel.output.subarray(room, room + 70_000);
        if (!Buffer.alloc(70_000, filler).equals(behind))
          t.fail(`round ${round}: bytes were written past the room for the row`);
      }
    });
    if (outcomes[0] === 'error') thrown++;
    if (new Set(outcomes).size > 1) t.fail(`round ${round}: bytes behind the packet changed the result`);
  }
  t.ok(thrown > 500, `${thrown} packets were refused`);
  const nulls = new Array<CellKind>(4096).fill(cellKind.text);
  t.throws(() => encodeOnce([packet(Buffer.of(0xfb)), Buffer.alloc(5_000, 0xfb)], nulls), RangeError);
  t.same(
    encodeOnce([packet(rowPayload([Buffer.from('1')]))]),
    [kernelStop.inputUsed, '["1"]', 6],
    'it continues to work',
  );
  t.end();
});

function packet(payload: Uint8Array): Buffer {
  const { length } = payload;
  return Buffer.concat([Buffer.of(length & 0xff, (length >> 8) & 0xff, length >> 16, 7), payload]);
}

function packets(rows: readonly (readonly Cell[])[]): Buffer {
  return Buffer.concat(rows.map((row) => packet(rowPayload(row))));
}

/** The result of one call: why it stopped, its output, and how many bytes it consumed. */
function encodeOnce(
  parts: readonly Uint8Array[],
  kinds: readonly CellKind[] = [cellKind.text],
  rowBytesMax = noLimit,
): [stop: KernelStop, text: string, taken: number] {
  const bytes = Buffer.concat(parts);
  bytes.copy(kernel.input);
  const stop = kernel.encode(textFormat(kinds), 0, bytes.length, 0, noLimit, rowBytesMax);
  return [stop, kernel.output.toString('utf8', 0, kernel.length), kernel.consumed];
}

/**
 * Encodes the rows one by one, in as many calls as necessary. The bytes lie at the very end of the input, or where the previous
 * call ended. Only rows with a BIT value of more than 64 bits may be `left` to the plain encoder.
 */
function encodeAll(
  kinds: readonly CellKind[],
  bytes: Uint8Array,
  rows: readonly (readonly Cell[])[],
  cells: TextFormatName = 'json',
): { rows: string[]; left: number } {
  const format = textFormat(kinds, cells);
  kernel.input.set(bytes, inputBytes - bytes.length);
  const encoded: string[] = [];
  let left = 0;
  let before = 0;
  for (let from = inputBytes - bytes.length; from < inputBytes; from = kernel.consumed) {
    const stop = kernel.encode(format, from, inputBytes, before, noLimit, noLimit);
    let start = before > 0 ? 1 : 0;
    for (const end of kernel.rowEnds.subarray(0, kernel.rows)) {
      encoded.push(kernel.output.toString('utf8', start, end - before));
      start = end - before + 1;
    }
    before += kernel.length;
    if (stop === kernelStop.largeRow) {
      const row = rows[encoded.length] as Cell[];
      if (!row.some((cell, column) => isWideBits(kinds[column] as CellKind, cell))) throw new Error('a row was left');
      encoded.push(plainRow(kinds, row, cells));
      left++;
      kernel.consumed += packets([row]).length;
    } else if (stop !== kernelStop.inputUsed && stop !== kernelStop.outputFull) {
      throw new Error(`stopped for reason ${stop}`);
    }
  }
  return { rows: encoded, left };
}

function isWideBits(kind: CellKind, cell: Cell): boolean {
  const bitKinds: readonly CellKind[] = [
    cellKind.bits,
    cellKind.bitsOrDigits,
    cellKind.quotedBits,
    cellKind.quotedBitsOrDigits,
  ];
  return bitKinds.includes(kind) && cell !== null && cell.length > 8;
}

/** The row as the plain JavaScript functions for cells write it. */
function plainRow(kinds: readonly CellKind[], row: readonly Cell[], cells: TextFormatName = 'json'): string {
  const nullBytes = formats[cells].layout.nullCell;
  const written = row.map((cell, column) => {
    if (cell === null) return Buffer.from(nullBytes).toString();
    const out = Buffer.alloc(cell.length * cellGrowthMax + cellOverheadMax);
    return out.toString('utf8', 0, writeCell(kinds[column] as CellKind, out, 0, cell, 0, cell.length, nullBytes));
  });
  return `[${written.join()}]`;
}

/** The rows by code that no encoder here uses: mysql2's parsers, the platform's decoder and its JSON. */
function mysql2Rows(kinds: readonly CellKind[], bytes: Buffer, cells: TextFormatName): string[] {
  const definitions = kinds.map(() => text);
  const none = cells === 'json strings, NULL too' ? '"NULL"' : 'null';
  const read = rowReader(definitions, (field) => cellText(kinds[Number(field.name)] as CellKind, field) ?? none);
  return read(bytes).map((row) => `[${row.join()}]`);
}

function cellText(kind: CellKind, field: Field): string | null {
  if (kind === cellKind.text) {
    const string = field.string('utf8');
    return string === null ? null : JSON.stringify(string);
  }
  const bytes = field.buffer();
  if (bytes === null) return null;
  const text = bytes.toString();
  const hex = bytes.toString('hex');
  const number = referenceNumber(bytes.toString('latin1'));
  const bits = `${BigInt(`0x0${hex}`)}`;
  const bitsOrDigits = /^[0-9]+$/.test(text) ? `${BigInt(text)}` : bits;
  switch (kind) {
    case cellKind.number:
      return number ?? JSON.stringify(text);
    case cellKind.quotedNumber:
      return JSON.stringify(number ?? text);
    case cellKind.hex:
      return JSON.stringify(hex.toUpperCase());
    case cellKind.json:
      return Buffer.from(text).equals(bytes) && isDocument(text) ? text : JSON.stringify(text);
    case cellKind.bitsOrDigits:
      return bitsOrDigits;
    case cellKind.quotedBitsOrDigits:
      return JSON.stringify(bitsOrDigits);
    case cellKind.quotedBits:
      return JSON.stringify(bits);
    case cellKind.date:
    case cellKind.timestamp: {
      if (/^.{5}(?:00.{3}|.{3}00)/s.test(bytes.toString('latin1'))) return null;
      const isCut = kind === cellKind.timestamp && bytes.length >= 19 && bytes.length < 26;
      return JSON.stringify(text + (isCut ? '.000000'.slice(bytes.length - 19) : ''));
    }
    default:
      return bits;
  }
}

function randomCell(random: Random, kind: CellKind): Cell {
  if (random(8) === 0) return null;
  // Some cells have content that no column of their kind has.
  switch (random(10) === 0 ? pick(random, allKinds) : kind) {
    case cellKind.number:
    case cellKind.quotedNumber:
      return Buffer.from(randomNumber(random));
    case cellKind.date:
    case cellKind.timestamp:
      return randomDate(random);
    case cellKind.bits:
    case cellKind.quotedBits:
      return randomBytes(random, random(9));
    case cellKind.bitsOrDigits:
    case cellKind.quotedBitsOrDigits:
      return random(2) === 0 ? randomBytes(random, 1 + random(8)) : Buffer.from(`${random(2 ** 32)}`);
    case cellKind.json:
      return Buffer.from(JSON.stringify({ key: random(1000), 'é\n"': [null, 'x'.repeat(random(40)), '\u2028😀'] }));
    default:
      return randomText(random);
  }
}

function randomNumber(random: Random): string {
  const digits = (): string => Array.from({ length: 1 + random(22) }, () => random(10)).join('');
  switch (random(14)) {
    case 0:
      return `-${digits()}`;
    case 1:
      return `${digits()}.${digits()}`;
    case 2:
      return `${digits()}e${pick(random, ['', '+', '-'])}${random(300)}`;
    case 3:
      return `-0.${digits()}`;
    case 4:
      return `${pick(random, ['', '-'])}${'0'.repeat(random(40))}${random(3) === 0 ? digits() : ''}`;
    case 5:
      return pick(random, ['inf', '-inf', 'nan', '-', '0', '']);
    case 6:
      return Array.from({ length: random(40) }, () => pick(random, [...'+-.eE0123456789,/:Ff'])).join('');
    case 7:
      return `${pick(random, ['', '-', '+'])}${pick(random, ['0', digits()])}.${pick(random, ['', '', 'e5', 'E-7', 'e+300'])}`;
    case 8:
      return `${pick(random, ['', '-', '+'])}.${digits()}${pick(random, ['', '', 'e5', 'E-7', 'e+300'])}`;
    case 9:
      return `${'0'.repeat(random(20))}-${random(2) === 0 ? '0' : digits()}`;
    case 10:
      return `${pick(random, ['', '-'])}${random(10)}.${digits()}e${pick(random, ['', '+', '-'])}${random(330)}`;
    case 11:
      return `${random(10)}`;
    default:
      return digits();
  }
}

function randomText(random: Random): Buffer {
  const edges = [0, 1, 2, 7, 8, 9, 14, 15, 16, 17, 18, 31, 32, 33, 47, 48, 49, 63, 64, 65, 250, 251, 252];
  const size = random(2) === 0 ? pick(random, edges) : random(random(50) === 0 ? 3_000 : 40);
  const clean = Buffer.alloc(size, 'The quick brown fox jumps over the lazy dog. ');
  switch (random(6)) {
    case 0:
      return randomBytes(random, size);
    case 1:
      return invalidText(random, size);
    case 2:
      return Buffer.alloc(size, pick(random, ['é', 'ab長', '😀', 'naïve café ', 'a\nb"c\\d']));
    case 3:
    case 4: {
      // Some unusual bytes within regular ones.
      for (let times = random(4); times >= 0; times--) invalidText(random, 1 + random(6)).copy(clean, random(size + 1));
      return clean;
    }
    default:
      return clean;
  }
}
