import { randomInt } from 'node:crypto';
import t, { type Test } from 'tap';
import { type Batch, rowEndsOffset } from '#src/wire/statement.js';
import { type CellKind, cellKind } from '#src/worker/cells.js';
import { batchBytes, RowEncoder } from '#src/worker/row-encoder.js';
import { rowPayload } from '../support/row-packets.ts';

type Cell = Uint8Array | null;

const MiB = 1024 * 1024;
const noLimit = 512 * MiB;

/** Byte patterns after which a decoder of UTF-8 may be in any state. */
const fragments = [
  [0x00],
  [0x22],
  [0x5c],
  [0x1f],
  [0x7f],
  [0x80],
  [0xbf],
  [0xc0, 0x80],
  [0xc1],
  [0xc3, 0xa9],
  [0xc3],
  [0xe0, 0x80, 0x80],
  [0xe0, 0xa0, 0x80],
  [0xe2, 0x80, 0xa8],
  [0xe2, 0x82],
  [0xed, 0x9f, 0xbf],
  [0xed, 0xa0, 0x80],
  [0xef, 0xbb, 0xbf],
  [0xf0, 0x80, 0x80, 0x80],
  [0xf0, 0x90, 0x80, 0x80],
  [0xf0, 0x9f, 0x98],
  [0xf4, 0x8f, 0xbf, 0xbf],
  [0xf4, 0x90, 0x80, 0x80],
  [0xf5],
  [0xff],
];

t.test('random rows are encoded as a plain reference encodes them', (t) => {
  const random = seeded(t);
  for (let round = 0; round < 300; round++) {
    const kinds = Array.from({ length: 1 + random(12) }, () => random(6) as CellKind);
    const rows = Array.from({ length: 1 + random(80) }, () => kinds.map((kind) => randomCell(random, kind)));
    const encoded = encode(kinds, rows);
    JSON.parse(`[${encoded}]`);
    t.ok(isSame(encoded, rows, kinds), `round ${round}: ${rows.length} rows of kinds ${kinds}`);
  }
  t.end();
});

t.test('cells of the lengths where the protocol changes its form keep every byte', (t) => {
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
      t.ok(isSame(encode(kinds, rows), rows, kinds), `${size} bytes as kind ${kind}`);
    }
  }
  t.end();
});

t.test('a long text is the same wherever a character falls between its pieces', (t) => {
  const random = seeded(t);
  // Pieces are of 64 KiB: each filler moves the characters over their ends by one byte.
  for (const character of ['é', '長', '😀', '\u0000']) {
    for (let filler = 0; filler < 4; filler++) {
      const bytes = Buffer.from('x'.repeat(filler) + character.repeat(150_000 / character.length));
      t.ok(isSame(encode([cellKind.text], [[bytes]]), [[bytes]], [cellKind.text]), `${filler} before ${character}`);
    }
  }
  for (let round = 0; round < 30; round++) {
    const rows = [[invalidText(random, 65_536 + random(200_000))]];
    t.ok(isSame(encode([cellKind.text], rows), rows, [cellKind.text]), `invalid text, round ${round}`);
  }
  t.end();
});

t.test('a row of 20 MiB is whole, in text, in hex and as a document', (t) => {
  const random = seeded(t);
  const bytes = Buffer.alloc(20 * MiB, randomBytes(random, MiB + 1));
  const valid = Buffer.from(`"${'éx'.repeat((20 * MiB) / 3)}"`);
  for (const [kind, cell] of [
    [cellKind.text, bytes],
    [cellKind.hex, bytes],
    [cellKind.json, valid],
    [cellKind.json, bytes],
  ] as const) {
    const rows = [[cell, Buffer.from('7')]];
    t.ok(isSame(encode([kind, cellKind.number], rows), rows, [kind, cellKind.number]), `kind ${kind}`);
  }
  t.end();
});

t.test('a row is refused if and only if its JSON is larger than a row may be, and leaves nothing behind', (t) => {
  const random = seeded(t);
  for (let round = 0; round < 150; round++) {
    const kind = [cellKind.text, cellKind.hex, cellKind.json][random(3)] as CellKind;
    const large = random(2) === 0;
    const cells = [randomBytes(random, large ? 16_384 + random(200_000) : random(2_000)), null];
    const kinds = [kind, cellKind.text];
    const needed = Buffer.byteLength(reference(kinds, cells));
    const payload = rowPayload(cells);
    const small = rowPayload([Buffer.from('1'), Buffer.from('b')]);
    for (const [limit, fits] of [
      [needed, true],
      [needed - 1, false],
    ] as const) {
      const encoder = new RowEncoder(kinds, limit);
      if (limit < 20) continue;
      encoder.append(small, 0, small.length);
      if (encoder.append(payload, 0, payload.length) !== fits) t.fail(`round ${round}: limit ${limit} of ${needed}`);
      encoder.append(small, 0, small.length);
      const between = fits ? [reference(kinds, cells)] : [];
      const first = reference(kinds, [Buffer.from('1'), Buffer.from('b')]);
      if (textOf(encoder.take()) !== [first, ...between, first].join(',')) t.fail(`round ${round}: what is left`);
    }
    t.pass(`round ${round}: ${needed} bytes`);
  }
  t.end();
});

t.test('a batch that was taken is not written to again, and its rows end where it says', (t) => {
  const random = seeded(t);
  const kinds = [cellKind.number, cellKind.text];
  const encoder = new RowEncoder(kinds, noLimit);
  const batches: Batch[] = [];
  const rows: Cell[][] = [];
  const copies: Buffer[] = [];
  t.equal(encoder.take(), null, 'there is no batch without a row');
  while (batches.length < 12) {
    const row = [Buffer.from(`${rows.length}`), randomBytes(random, random(3) === 0 ? random(100_000) : random(300))];
    rows.push(row);
    // The source of a row lies anywhere in a larger buffer, as it does in what comes from a socket.
    const before = random(20);
    const payload = rowPayload(row);
    const source = Buffer.concat([Buffer.alloc(before, 0xff), payload, Buffer.alloc(random(20), 0xff)]);
    t.ok(encoder.append(source, before, before + payload.length));
    if (!encoder.full && random(400) > 0) continue;
    const batch = encoder.take();
    if (batch === null) throw new Error('a batch with rows was expected');
    t.ok(batch.length >= batchBytes || !encoder.full);
    t.equal(encoder.rows, 0);
    batches.push(batch);
    copies.push(Buffer.from(new Uint8Array(batch.buffer).slice()));
  }
  let row = 0;
  for (const [index, batch] of batches.entries()) {
    t.same(Buffer.from(batch.buffer), copies[index], 'later batches did not change it');
    const text = Buffer.from(batch.buffer, 0, batch.length);
    const ends = new Uint32Array(batch.buffer, rowEndsOffset(batch.length), batch.rows);
    let start = 0;
    for (const end of ends) {
      const same = text.toString('utf8', start, end) === reference(kinds, rows[row] as Cell[]);
      if (!same) t.fail(`row ${row} of batch ${index}`);
      start = end + 1;
      row++;
    }
    t.equal(ends.at(-1), batch.length);
  }
  t.equal(row, rows.length);
  t.end();
});

t.test('a row without columns, and one of 4,096 nulls', (t) => {
  const none = new RowEncoder([], noLimit);
  t.ok(none.append(Buffer.alloc(0), 0, 0));
  t.equal(textOf(none.take()), '[]');
  const kinds = new Array<CellKind>(4096).fill(cellKind.text);
  const nulls = new Array<Cell>(4096).fill(null);
  t.ok(isSame(encode(kinds, [nulls, nulls]), [nulls, nulls], kinds));
  t.end();
});

t.test('a cell that reaches past its packet is an error and not a read of what lies behind', (t) => {
  const encoder = new RowEncoder([cellKind.text], noLimit);
  const payload = rowPayload([new Uint8Array(20_000).fill(0x61)]);
  t.throws(() => encoder.append(payload, 0, payload.length - 1), RangeError);
  t.end();
});

function encode(kinds: readonly CellKind[], rows: readonly (readonly Cell[])[]): string {
  const encoder = new RowEncoder(kinds, noLimit);
  const parts: string[] = [];
  for (const row of rows) {
    const payload = rowPayload(row);
    if (!encoder.append(payload, 0, payload.length)) throw new Error('the row was refused');
    if (encoder.full) parts.push(textOf(encoder.take()));
  }
  if (encoder.rows > 0) parts.push(textOf(encoder.take()));
  return parts.join(',');
}

function textOf(batch: Batch | null): string {
  return batch === null ? '' : Buffer.from(batch.buffer, 0, batch.length).toString();
}

function isSame(encoded: string, rows: readonly (readonly Cell[])[], kinds: readonly CellKind[]): boolean {
  return encoded === rows.map((row) => reference(kinds, row)).join(',');
}

/** What a row must be, by means that the encoder does not use: the platform's own decoder and JSON. */
function reference(kinds: readonly CellKind[], cells: readonly Cell[]): string {
  return `[${cells.map((cell, column) => referenceCell(kinds[column] as CellKind, cell)).join(',')}]`;
}

function referenceCell(kind: CellKind, cell: Cell): string {
  if (cell === null) return 'null';
  const bytes = Buffer.from(cell);
  const quoted = (): string => JSON.stringify(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
  switch (kind) {
    case cellKind.number:
      return referenceNumber(bytes.toString('latin1')) ?? quoted();
    case cellKind.text:
      return quoted();
    case cellKind.hex:
      return `"${bytes.toString('hex').toUpperCase()}"`;
    case cellKind.json:
      return referenceDocument(bytes) ?? quoted();
    case cellKind.bits:
      return `${BigInt(`0x0${bytes.toString('hex')}`)}`;
    case cellKind.bitsOrDigits:
      return /^[0-9]+$/.test(bytes.toString('latin1'))
        ? `${BigInt(bytes.toString('latin1'))}`
        : `${BigInt(`0x0${bytes.toString('hex')}`)}`;
    default:
      return kind satisfies never;
  }
}

/** Whatever is a JSON number is given as such; leading zeros go. */
function referenceNumber(text: string): string | null {
  return /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/.test(text) ? text.replace(/^(-?)0+(?=[0-9])/, '$1') : null;
}

function referenceDocument(bytes: Buffer): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    // The database wrote it, so that it is a document whenever it is text.
    return bytes.length > 0 && bytes.findIndex((byte) => byte < 0x20) < 0 ? text : null;
  } catch {
    return null;
  }
}

type Random = (below: number) => number;

/** A small generator with a seed (mulberry32), so that a failure can be had again: SEED=… in the environment. */
function seeded(t: Test): Random {
  let state = Number(process.env['SEED'] ?? randomInt(2 ** 32));
  t.comment(`SEED=${state}`);
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

function randomCell(random: Random, kind: CellKind): Cell {
  if (random(8) === 0) return null;
  switch (kind) {
    case cellKind.number: {
      const digits = Array.from({ length: 1 + random(20) }, () => random(10)).join('');
      const shapes = [
        digits,
        `-${digits}`,
        `${digits}.${digits}`,
        `${digits}e${random(300)}`,
        `-0.${digits}`,
        '0',
        'inf',
      ];
      return Buffer.from(shapes[random(shapes.length)] as string);
    }
    case cellKind.bits:
      return randomBytes(random, random(9));
    case cellKind.bitsOrDigits:
      return random(2) === 0 ? randomBytes(random, 1 + random(8)) : Buffer.from(`${random(2 ** 32)}`);
    case cellKind.json:
      return random(4) === 0
        ? Buffer.from([0x22, ...invalidText(random, random(20)).filter((byte) => byte !== 0x22 && byte !== 0x5c), 0x22])
        : Buffer.from(JSON.stringify({ key: random(1000), 'é\n"': [null, `${random(9)}`, '\u2028😀'] }));
    default: {
      const size = random(20) === 0 ? 240 + random(30) : random(60);
      return random(3) === 0 ? Buffer.from('plain "text" \\ é 😀'.slice(random(18))) : invalidText(random, size);
    }
  }
}

function randomBytes(random: Random, size: number): Buffer {
  return Buffer.from(Uint8Array.from({ length: size }, () => random(256)));
}

function invalidText(random: Random, size: number): Buffer {
  const bytes: number[] = [];
  while (bytes.length < size) bytes.push(...(fragments[random(fragments.length)] as number[]));
  return Buffer.from(bytes.slice(0, size));
}
