import t from 'tap';
import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import { type Batch, rowEndsOffset } from '#src/wire/statement.js';
import { kernel, kernelStop } from '#src/worker/kernel.js';
import { RowEncoder } from '#src/worker/row-encoder.js';
import { framed } from '../support/answer-packets.ts';
import { keyOf, randomCell, referenceCell, textFormat } from '../support/cells.ts';
import { figure } from '../support/form.ts';
import { pick, type Random, seeded } from '../support/random.ts';
import { rowPayload } from '../support/row-packets.ts';

type Cell = Uint8Array | null;

const noLimit = Number.MAX_SAFE_INTEGER;

const names = ['csv', 'tsv', 'ndjson, arrays', 'ndjson, objects'] as const;
type Name = (typeof names)[number];

const jsonKinds = [cellKind.number, cellKind.bits, cellKind.text, cellKind.hex, cellKind.json];
const delimitedKinds = [cellKind.number, cellKind.bits, cellKind.bitsOrDigits, cellKind.plainHex];
const kindsOf: Readonly<Record<Name, readonly CellKind[]>> = {
  csv: [...delimitedKinds, cellKind.csvText],
  tsv: [...delimitedKinds, cellKind.tsvText],
  'ndjson, arrays': jsonKinds,
  'ndjson, objects': jsonKinds,
};

/** A row as the standards of its format have it. */
function referenceRow(name: Name, kinds: readonly CellKind[], row: readonly Cell[]): string {
  const cells = row.map((cell, column) => referenceCell(kinds[column] as CellKind, cell));
  const orNull = (none: string): string[] => cells.map((cell, column) => (row[column] === null ? none : cell));
  switch (name) {
    case 'csv':
      return `${orNull('').join(',')}\r`;
    case 'tsv':
      return orNull('\\N').join('\t');
    case 'ndjson, arrays':
      return `[${cells.join(',')}]`;
    case 'ndjson, objects':
      return `{${cells.map((cell, column) => `${JSON.stringify(keyOf(column))}:${cell}`).join(',')}}`;
  }
}

/** Rows as the encoder writes them; by the kernel, or cell by cell as it does with large rows. */
function encoded(
  name: Name,
  kinds: readonly CellKind[],
  rows: readonly (readonly Cell[])[],
  byKernel: boolean,
): string[] {
  const texts: string[] = [];
  const encoder = new RowEncoder(textFormat(kinds, name), noLimit, (batch) => texts.push(...rowsOf(name, batch)));
  for (const row of rows) {
    const payload = rowPayload(row);
    const bytes = framed([payload]);
    if (byKernel && bytes.length < kernel.input.length) {
      bytes.copy(kernel.input);
      if (encoder.encode(0, bytes.length, noLimit) !== kernelStop.largeRow) continue;
    }
    encoder.append(payload, 0, payload.length);
  }
  const last = encoder.take();
  if (last !== null) texts.push(...rowsOf(name, last));
  encoder.release();
  return texts;
}

function rowsOf(name: Name, { buffer, length, rows }: Batch): string[] {
  const ends = new Uint32Array(buffer, rowEndsOffset(length), rows);
  const separator = formats[name].layout.rowSeparator;
  return Array.from(ends, (end, row) => {
    const start = row === 0 ? 0 : (ends[row - 1] as number) + 1;
    if (row > 0 && new Uint8Array(buffer)[start - 1] !== separator) throw new Error('rows without a separator');
    return Buffer.from(buffer, start, end - start).toString();
  });
}

function randomRow(random: Random, kinds: readonly CellKind[]): Cell[] {
  return kinds.map((kind) => {
    if (random(40) > 0 || !isText(kind)) return randomCell(random, kind);
    // Long enough to be written in parts.
    const part = pick(random, ['plain ', 'a "quoted", one\r\n', 'tab\t and \\', 'é😀', '\0']);
    return Buffer.from(part.repeat(1 + random(30_000)));
  });
}

function isText(kind: CellKind): boolean {
  return kind === cellKind.text || kind === cellKind.csvText || kind === cellKind.tsvText;
}

for (const name of names) {
  t.test(`${name}: random rows are as the reference has them, by the kernel and without it`, (t) => {
    const random = seeded(t);
    for (let round = 0; round < figure(150, 1_000); round++) {
      const kinds = Array.from({ length: 1 + random(9) }, () => pick(random, kindsOf[name]));
      const rows = Array.from({ length: 1 + random(30) }, () => randomRow(random, kinds));
      const expected = rows.map((row) => referenceRow(name, kinds, row));
      for (const byKernel of [true, false]) {
        const got = encoded(name, kinds, rows, byKernel);
        const wrong = expected.findIndex((row, index) => row !== got[index]);
        t.equal(got.length, expected.length);
        if (wrong >= 0) t.equal(got[wrong], expected[wrong], `round ${round}, kinds ${kinds}, kernel: ${byKernel}`);
      }
    }
    t.end();
  });
}

t.test('CSV quotes what RFC 4180 says, and an empty text, so that it is not NULL', (t) => {
  const texts = ['', 'a', 'a,b', 'say "hi"', 'two\r\nlines', ' spaces ', '\\N', "it's"];
  const cells = [...texts.map((text) => Buffer.from(text)), null];
  const kinds = cells.map(() => cellKind.csvText);
  const expected = '"",a,"a,b","say ""hi""","two\r\nlines", spaces ,\\N,it\'s,\r';
  for (const byKernel of [true, false]) t.strictSame(encoded('csv', kinds, [cells], byKernel), [expected]);
  t.end();
});

t.test('TSV escapes what both databases escape', (t) => {
  const texts = ['', 'a\tb', 'two\nlines', '\\N', 'nul \0', 'cr\r'];
  const cells = [...texts.map((text) => Buffer.from(text)), null];
  const kinds = cells.map(() => cellKind.tsvText);
  const expected = '\ta\\tb\ttwo\\nlines\t\\\\N\tnul \\0\tcr\r\t\\N';
  for (const byKernel of [true, false]) t.strictSame(encoded('tsv', kinds, [cells], byKernel), [expected]);
  t.end();
});

t.test('keys that are too long for the kernel are written without it', (t) => {
  const kinds = new Array<CellKind>(4_000).fill(cellKind.number);
  const row = kinds.map((_, column) => (column % 3 === 0 ? null : Buffer.from(`${column}`)));
  t.strictSame(encoded('ndjson, objects', kinds, [row], true), [referenceRow('ndjson, objects', kinds, row)]);
  t.end();
});

t.test('rows of one empty text are lines of TSV, wherever a batch begins', (t) => {
  const empty = [Buffer.alloc(0)];
  for (const count of [1, 2, 3, 100]) {
    const rows = Array.from({ length: count }, () => empty);
    for (const byKernel of [true, false]) {
      t.strictSame(
        encoded('tsv', [cellKind.tsvText], rows, byKernel),
        rows.map(() => ''),
        `${count}, ${byKernel}`,
      );
      const mixed = [...rows, [Buffer.from('a')], ...rows];
      const expected = mixed.map(([cell]) => (cell as Buffer).toString());
      t.strictSame(encoded('tsv', [cellKind.tsvText], mixed, byKernel), expected);
    }
    // All in one call of the kernel.
    const bytes = framed(rows.map((row) => rowPayload(row)));
    bytes.copy(kernel.input);
    const batches: Batch[] = [];
    const encoder = new RowEncoder(textFormat([cellKind.tsvText], 'tsv'), noLimit, (batch) => batches.push(batch));
    encoder.encode(0, bytes.length, noLimit);
    encoder.encode(0, bytes.length, noLimit);
    const batch = encoder.take() as Batch;
    t.strictSame([batch.rows, batch.length], [2 * count, 2 * count - 1]);
    t.strictSame(
      rowsOf('tsv', batch),
      Array.from({ length: 2 * count }, () => ''),
    );
    encoder.release();
  }
  t.end();
});
