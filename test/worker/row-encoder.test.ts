import t from 'tap';
import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { type Batch, rowEndsOffset, type TextFormatName } from '#src/wire/statement.js';
import { headroomBytes, kernel, kernelStop, readBytes } from '#src/worker/kernel.js';
import { batchBytes, RowEncoder } from '#src/worker/row-encoder.js';
import { framed, packetHeaderBytes } from '../support/answer-packets.ts';
import { allFormats, allKinds, type Cell, randomCell, referenceRow, textFormat } from '../support/cells.ts';
import { figure } from '../support/form.ts';
import { invalidText, pick, type Random, randomBytes, seeded } from '../support/random.ts';
import { rowPayload } from '../support/row-packets.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const noLimit = 512 * MiB;
const inputBytes = headroomBytes + readBytes;
/** The output of one kernel call becomes a batch of its own from this size on. */
const ownBatchBytes = 64 * KiB;
/** The capacity of a batch that gathers smaller outputs. */
const bufferBytes = 256 * KiB;

/** An encoder whose emitted and taken batches are kept. */
class Encoding {
  readonly encoder: RowEncoder;
  readonly batches: Batch[] = [];
  readonly #copies: Buffer[] = [];

  constructor(kinds: readonly CellKind[], rowBytesMax = noLimit, cells: TextFormatName = 'json') {
    this.encoder = new RowEncoder(textFormat(kinds, cells), rowBytesMax, (batch) => this.#keep(batch));
  }

  append(row: readonly Cell[]): boolean {
    const payload = rowPayload(row);
    return this.encoder.append(payload, 0, payload.length);
  }

  /** Passes the rows to the kernel in one piece, and those that the kernel leaves to the plain encoder. */
  encode(rows: readonly (readonly Cell[])[], at = 0, rowsMax = noLimit): void {
    const bytes = framed(rows.map(rowPayload));
    const end = at + bytes.length;
    if (end > inputBytes) throw new Error('these rows do not fit in one piece');
    bytes.copy(kernel.input, at);
    for (let from = at; from < end; ) {
      const stop = this.encoder.encode(from, end, rowsMax);
      from = kernel.consumed;
      if (stop === kernelStop.rowsMax) return;
      if (stop === kernelStop.largeRow) {
        const length = kernel.input.readUIntLE(from, 3);
        from += packetHeaderBytes + length;
        if (!this.encoder.append(kernel.input, from - length, from)) throw new Error('a row was refused');
      } else if (stop !== kernelStop.inputUsed && stop !== kernelStop.outputFull) {
        throw new Error(`stopped for reason ${stop}`);
      }
    }
  }

  take(): void {
    const batch = this.encoder.take();
    if (batch !== null) this.#keep(batch);
  }

  /** The rows of all batches. Checks the format of the batches, and that they did not change after they were emitted. */
  finish(): string[] {
    this.take();
    this.encoder.release();
    for (const [index, { buffer }] of this.batches.entries()) {
      if (!this.#copies[index]?.equals(new Uint8Array(buffer))) throw new Error(`batch ${index} has changed since`);
    }
    return this.batches.flatMap(rowsOf);
  }

  #keep(batch: Batch): void {
    this.batches.push(batch);
    this.#copies.push(Buffer.from(new Uint8Array(batch.buffer).slice()));
  }
}

/** The rows of a batch, split by their ends. Between two rows there is exactly a comma. */
function rowsOf(batch: Batch): string[] {
  const text = Buffer.from(batch.buffer, 0, batch.length);
  const rows: string[] = [];
  let start = 0;
  for (const end of new Uint32Array(batch.buffer, rowEndsOffset(batch.length), batch.rows)) {
    if (start > 0 && text[start - 1] !== 0x2c) throw new Error(`no comma before row ${rows.length} of a batch`);
    rows.push(text.toString('utf8', start, end));
    start = end + 1;
  }
  if (start !== batch.length + 1) throw new Error('a batch does not end where its last row does');
  return rows;
}

t.test('random rows match a plain reference encoder', (t) => {
  const random = seeded(t);
  for (let round = 0; round < figure(100, 300); round++) {
    const kinds = Array.from({ length: 1 + random(12) }, () => pick(random, allKinds));
    const rows = Array.from({ length: 1 + random(80) }, () => kinds.map((kind) => randomCell(random, kind)));
    const cells = pick(random, allFormats);
    const encoded = appendAll(kinds, rows, cells);
    JSON.parse(`[${encoded}]`);
    t.ok(isSame(encoded, rows, kinds, cells), `round ${round}: ${rows.length} rows of kinds ${kinds}`);
  }
  t.end();
});

t.test('cells at the length limits of the protocol keep every byte', (t) => {
  const random = seeded(t);
  const sizes = [0, 1, 249, 250, 251, 252, 255, 256, 16_383, 16_384, 16_385, 65_534, 65_535, 65_536, 65_537, 131_072];
  for (const size of sizes) {
    for (const kind of [cellKind.text, cellKind.hex, cellKind.json]) {
      const rows = [
        [new Uint8Array(size).fill(0x61), Buffer.from('1')],
        [new Uint8Array(size).fill(0x22), null],
        [randomBytes(random, size), Buffer.from('2')],
        [invalidText(random, size), Buffer.from('3')],
      ];
      const kinds = [kind, cellKind.number];
      t.ok(isSame(appendAll(kinds, rows), rows, kinds), `${size} bytes as kind ${kind}`);
    }
  }
  t.end();
});

t.test('a long text is the same wherever its pieces cut a character', (t) => {
  const random = seeded(t);
  // Pieces have 64 KiB. Each filler moves the characters over their ends by one byte.
  for (const character of ['é', '長', '😀', '\u0000']) {
    for (let filler = 0; filler < 4; filler++) {
      const bytes = Buffer.from('x'.repeat(filler) + character.repeat(150_000 / character.length));
      t.ok(isSame(appendAll([cellKind.text], [[bytes]]), [[bytes]], [cellKind.text]), `${filler} before ${character}`);
    }
  }
  for (let round = 0; round < figure(10, 30); round++) {
    const rows = [[invalidText(random, 65_536 + random(200_000))]];
    t.ok(isSame(appendAll([cellKind.text], rows), rows, [cellKind.text]), `invalid text, round ${round}`);
  }
  t.end();
});

t.test('a row of many MiB is complete as text, as hex and as a document', (t) => {
  const random = seeded(t);
  // From 16 MiB on, the length prefix of the cell takes nine bytes.
  const large = Buffer.alloc(figure(17, 20) * MiB, randomBytes(random, MiB + 1));
  const bytes = large.subarray(0, figure(2, 20) * MiB);
  const valid = Buffer.from(`"${'éx'.repeat(bytes.length / 3)}"`);
  for (const [kind, cell] of [
    [cellKind.text, large],
    [cellKind.hex, bytes],
    [cellKind.json, valid],
    [cellKind.json, bytes],
  ] as const) {
    const rows = [[cell, Buffer.from('7')]];
    t.ok(isSame(appendAll([kind, cellKind.number], rows), rows, [kind, cellKind.number]), `kind ${kind}`);
  }
  t.end();
});

t.test('the kernel and the plain encoder write the same rows, in any order', (t) => {
  const random = seeded(t);
  let batches = 0;
  for (let round = 0; round < figure(40, 120); round++) {
    const kinds = Array.from({ length: 1 + random(8) }, () => pick(random, allKinds));
    const cells = pick(random, allFormats);
    const mixed = new Encoding(kinds, noLimit, cells);
    const rows: Cell[][] = [];
    for (let step = random(20); step >= 0; step--) {
      const some = Array.from({ length: 1 + random(pick(random, [1, 10, 300])) }, () => randomRow(random, kinds));
      rows.push(...some);
      for (const part of piecesOf(some)) {
        const room = inputBytes - sizeOf(part);
        if (room >= 0 && random(3) > 0) mixed.encode(part, random(room + 1));
        else for (const row of part) mixed.append(row);
      }
      if (random(10) === 0) mixed.take();
    }
    const plain = new Encoding(kinds, noLimit, cells);
    for (const row of rows) plain.append(row);
    const expected = plain.finish();
    const encoded = mixed.finish();
    batches += mixed.batches.length;
    const wrong = expected.findIndex((row, index) => row !== encoded[index]);
    if (encoded.length !== expected.length || wrong >= 0) {
      t.equal(encoded[wrong], expected[wrong], `round ${round}: row ${wrong} of ${rows.length} of kinds ${kinds}`);
      t.equal(encoded.length, expected.length);
    }
    if (!isSame(expected.join(), rows, kinds, cells)) t.fail(`round ${round}: kinds ${kinds}, ${cells}`);
  }
  t.ok(batches > figure(60, 200), `${batches} batches`);
  t.end();
});

t.test('an output of 64 KiB or more in one call is a batch of its own, without spare memory', (t) => {
  for (const [text, given] of [
    [ownBatchBytes - 1, 0],
    [ownBatchBytes, 1],
    [400 * KiB, 1],
  ] as const) {
    const rows = textRows(text);
    const encoding = new Encoding([cellKind.text]);
    encoding.encode(rows);
    t.equal(encoding.batches.length, given, `${text} bytes`);
    t.equal(encoding.encoder.rows, given === 1 ? 0 : rows.length);
    const encoded = encoding.finish();
    t.ok(isSame(encoded.join(), rows, [cellKind.text]));
    t.equal(encoding.batches.length, 1);
    const [batch] = encoding.batches as [Batch];
    t.equal(batch.length, text);
    t.equal(batch.buffer.byteLength, rowEndsOffset(text) + 4 * rows.length);
  }
  t.end();
});

t.test('a batch is emitted once its rows and row ends reach the capacity, and not before', (t) => {
  const kinds = [cellKind.text];
  for (const way of ['append', 'encode'] as const) {
    const encoding = new Encoding(kinds);
    const row = textRows(2_000);
    let rows = 0;
    while (encoding.batches.length < 4) {
      const before = encoding.batches.length;
      if (way === 'append') encoding.append(row[0] as Cell[]);
      else encoding.encode(row);
      rows++;
      const used = rows * 2_001 - 1 + rows * 4;
      if (encoding.batches.length === before) {
        if (used >= batchBytes) t.fail(`${rows} rows are not emitted`);
      } else {
        t.ok(used >= batchBytes, `${rows} rows by ${way}`);
        t.equal(encoding.batches.at(-1)?.rows, rows);
        t.equal(encoding.batches.at(-1)?.length, rows * 2_001 - 1);
        rows = 0;
      }
    }
    t.equal(encoding.encoder.rows, 0);
    t.ok(encoding.batches.every(({ buffer }) => buffer.byteLength <= bufferBytes));
    t.equal(new Set(encoding.finish()).size, 1);
  }
  t.end();
});

t.test('the ends of short rows count like the rows', (t) => {
  const encoding = new Encoding([cellKind.number]);
  const rows = Array.from({ length: 5_000 }, () => [Buffer.from('1')]);
  while (encoding.batches.length === 0) encoding.encode(rows);
  const [batch] = encoding.batches as [Batch];
  t.equal(batch.length, 4 * batch.rows - 1);
  t.ok(batch.length + 4 * batch.rows >= batchBytes);
  t.ok(batch.length + 4 * batch.rows < batchBytes + 8 * rows.length);
  t.strictSame(new Set(encoding.finish()), new Set(['[1]']));
  t.end();
});

t.test('rows that do not fit behind earlier rows begin a batch, without a comma', (t) => {
  for (const way of ['append', 'encode'] as const) {
    for (const [first, second, lengths] of [
      // Each length is that of the text. A comma separates the two if they share a batch.
      [100 * KiB, bufferBytes - 100 * KiB - 1, [bufferBytes]],
      [100 * KiB, bufferBytes - 100 * KiB, [100 * KiB, bufferBytes - 100 * KiB]],
      [10, bufferBytes - 10, [10, bufferBytes - 10]],
      [200 * KiB, ownBatchBytes - 1, [200 * KiB, ownBatchBytes - 1]],
      [200 * KiB, ownBatchBytes, [200 * KiB, ownBatchBytes]],
    ] as const) {
      const rows = [textRows(first), textRows(second)] as const;
      const encoding = new Encoding([cellKind.text]);
      // The first part is too small for its own batch and stays.
      for (const row of rows[0]) {
        if (way === 'append') encoding.append(row);
        else encoding.encode([row]);
      }
      t.equal(encoding.batches.length, 0);
      encoding.encode(rows[1]);
      const encoded = encoding.finish();
      t.ok(isSame(encoded.join(), rows.flat(), [cellKind.text]), `${first} bytes by ${way}, then ${second}`);
      t.strictSame(
        encoding.batches.map(({ length }) => length),
        lengths,
      );
    }
  }
  t.end();
});

t.test('a batch takes no more rows than allowed', (t) => {
  const encoding = new Encoding([cellKind.number]);
  const rows = Array.from({ length: 100 }, (_, number) => [Buffer.from(`${number}`)]);
  encoding.append([Buffer.from('7')]);
  encoding.encode(rows, 0, 11);
  t.equal(encoding.encoder.rows, 11, 'the rows in it are counted');
  t.equal(kernel.consumed, sizeOf(rows.slice(0, 10)));
  encoding.take();
  encoding.encode(rows.slice(10), 0, 5);
  t.equal(encoding.encoder.rows, 5);
  t.strictSame(
    encoding.finish(),
    [7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14].map((number) => `[${number}]`),
  );
  t.end();
});

t.test('a row is refused if and only if its JSON exceeds the row limit, and leaves nothing behind', (t) => {
  const random = seeded(t);
  for (let round = 0; round < figure(50, 150); round++) {
    const kind = pick(random, [cellKind.text, cellKind.hex, cellKind.json]);
    const large = random(2) === 0;
    const cells = [randomBytes(random, large ? 16_384 + random(200_000) : random(2_000)), null];
    const kinds = [kind, cellKind.text];
    const needed = Buffer.byteLength(referenceRow(kinds, cells));
    const payload = rowPayload(cells);
    const small = rowPayload([Buffer.from('1'), Buffer.from('b')]);
    for (const [limit, fits] of [
      [needed, true],
      [needed - 1, false],
    ] as const) {
      if (limit < 20) continue;
      const { encoder, batches } = new Encoding(kinds, limit);
      encoder.append(small, 0, small.length);
      if (encoder.append(payload, 0, payload.length) !== fits) t.fail(`round ${round}: limit ${limit} of ${needed}`);
      encoder.append(small, 0, small.length);
      const between = fits ? [referenceRow(kinds, cells)] : [];
      const first = referenceRow(kinds, [Buffer.from('1'), Buffer.from('b')]);
      const last = encoder.take();
      const text = [...batches, ...(last === null ? [] : [last])].flatMap(rowsOf).join();
      if (text !== [first, ...between, first].join()) t.fail(`round ${round}: residue`);
    }
    t.pass(`round ${round}: ${needed} bytes`);
  }
  t.end();
});

t.test('a row that the kernel refuses keeps the rows before it, and others can follow', (t) => {
  const small = [Buffer.from('1')];
  const bytes = framed([rowPayload(small), rowPayload([Buffer.alloc(10, '1')]), rowPayload(small)]);
  bytes.copy(kernel.input);
  const encoding = new Encoding([cellKind.text], 13);
  t.equal(encoding.encoder.encode(0, bytes.length, noLimit), kernelStop.rowTooLarge);
  t.equal(encoding.encoder.rows, 1);
  t.equal(kernel.consumed, sizeOf([small]));
  t.equal(encoding.encoder.encode(bytes.length - sizeOf([small]), bytes.length, noLimit), kernelStop.inputUsed);
  t.strictSame(encoding.finish(), ['["1"]', '["1"]']);
  t.end();
});

t.test('an emitted batch is not written to again, and its row ends are correct', (t) => {
  const random = seeded(t);
  const kinds = [cellKind.number, cellKind.text];
  const encoding = new Encoding(kinds);
  const { batches, encoder } = encoding;
  const rows: Cell[][] = [];
  t.equal(encoder.take(), null, 'there is no batch without a row');
  while (batches.length < 12) {
    const row = [Buffer.from(`${rows.length}`), randomBytes(random, random(3) === 0 ? random(100_000) : random(300))];
    rows.push(row);
    // The source of a row is at any position in a larger buffer, as in data from a socket.
    const before = random(20);
    const payload = rowPayload(row);
    const source = Buffer.concat([Buffer.alloc(before, 0xff), payload, Buffer.alloc(random(20), 0xff)]);
    t.ok(encoder.append(source, before, before + payload.length));
    if (random(400) === 0) encoding.take();
  }
  const encoded = encoding.finish();
  t.equal(encoded.length, rows.length);
  const wrong = rows.findIndex((row, index) => encoded[index] !== referenceRow(kinds, row));
  t.equal(wrong, -1);
  t.end();
});

t.test("encoders that share memory alternately do not see each other's rows", (t) => {
  const random = seeded(t);
  const open: { encoding: Encoding; rows: Cell[][] }[] = [];
  for (let step = 0; step < 3_000; step++) {
    if (open.length < 5) open.push({ encoding: new Encoding([cellKind.text]), rows: [] });
    const { encoding, rows } = pick(random, open);
    const row = [invalidText(random, random(random(20) === 0 ? 9_000 : 40))];
    rows.push(row);
    if (random(2) === 0) encoding.append(row);
    else encoding.encode([row]);
    if (random(30) > 0) continue;
    open.splice(
      open.findIndex((one) => one.encoding === encoding),
      1,
    );
    if (!isSame(encoding.finish().join(), rows, [cellKind.text])) t.fail(`step ${step}`);
  }
  t.end();
});

t.test('a row without columns, and one of 4,096 NULLs', (t) => {
  const none = new Encoding([]);
  t.ok(none.append([]));
  none.encode([[], []]);
  t.strictSame(none.finish(), ['[]', '[]', '[]']);
  const kinds = new Array<CellKind>(4096).fill(cellKind.text);
  const nulls = new Array<Cell>(4096).fill(null);
  t.ok(isSame(appendAll(kinds, [nulls, nulls]), [nulls, nulls], kinds));
  t.end();
});

t.test('a cell that reaches past its packet is an error and does not read past it', (t) => {
  const encoding = new Encoding([cellKind.text]);
  const { encoder } = encoding;
  const payload = rowPayload([new Uint8Array(20_000).fill(0x61)]);
  t.ok(encoding.append([Buffer.from('before')]));
  t.throws(() => encoder.append(payload, 0, payload.length - 1), RangeError);
  const bytes = framed([payload.subarray(0, -1), Buffer.alloc(50_000)]);
  bytes.copy(kernel.input);
  t.throws(() => encoder.encode(0, bytes.length, noLimit), RangeError);
  t.strictSame(encoding.finish(), ['["before"]'], 'none of its output is left');
  t.end();
});

/** Encodes with the plain encoder alone. */
function appendAll(
  kinds: readonly CellKind[],
  rows: readonly (readonly Cell[])[],
  cells: TextFormatName = 'json',
): string {
  const encoding = new Encoding(kinds, noLimit, cells);
  for (const row of rows) if (!encoding.append(row)) throw new Error('the row was refused');
  return encoding.finish().join();
}

function isSame(
  encoded: string,
  rows: readonly (readonly Cell[])[],
  kinds: readonly CellKind[],
  cells: TextFormatName = 'json',
): boolean {
  return encoded === rows.map((row) => referenceRow(kinds, row, cells)).join(',');
}

/** Rows of one text whose JSON takes that many bytes, including commas. */
function textRows(bytes: number): Cell[][] {
  const rows: Cell[][] = [];
  let left = bytes;
  for (; left > 4_000; left -= 2_001) rows.push([textOf(2_000)]);
  rows.push([textOf(left)]);
  return rows;
}

/** A text whose row takes that many bytes. Most of its bytes double in length as JSON. */
function textOf(rowBytes: number): Buffer {
  const length = rowBytes - '[""]'.length;
  return Buffer.from('"'.repeat(length >> 1) + 'x'.repeat(length & 1));
}

function randomRow(random: Random, kinds: readonly CellKind[]): Cell[] {
  const row = kinds.map((kind) => randomCell(random, kind));
  if (random(150) === 0 && kinds[0] === cellKind.text) row[0] = invalidText(random, random(400 * KiB));
  return row;
}

/** The size of the rows in their packets. */
function sizeOf(rows: readonly (readonly Cell[])[]): number {
  return framed(rows.map(rowPayload)).length;
}

/** Splits the rows into pieces no larger than one chunk, unless a single row is larger. */
function piecesOf(rows: readonly Cell[][]): Cell[][][] {
  const pieces: Cell[][][] = [];
  let room = 0;
  for (const row of rows) {
    const size = sizeOf([row]);
    if (size > room) {
      pieces.push([]);
      room = inputBytes;
    }
    room -= size;
    pieces.at(-1)?.push(row);
  }
  return pieces;
}
