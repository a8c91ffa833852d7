import t from 'tap';
import { noRows, Ring } from '#src/query/ring.js';
import { seeded } from '../support/random.ts';
import { batchOf, deflated, textOf } from './batches.ts';

const anyRows = Number.MAX_SAFE_INTEGER;
const anyBytes = 2 ** 30;

t.test('an empty ring has nothing to take', async (t) => {
  const ring = new Ring();
  t.strictSame(ring.take(10, 10), noRows);
  t.equal(ring.rows, 0);
  t.equal(ring.bytes, 0);
});

t.test('rows come out in the order in which they went in', async (t) => {
  const ring = new Ring();
  ring.push(batchOf(['[1]', '[2]']));
  ring.push(batchOf(['[3]']));
  t.equal(ring.rows, 3);
  t.equal(ring.bytes, 7 + 3);
  const rows = ring.take(anyRows, anyBytes);
  t.equal(textOf(rows), '[1],[2],[3]');
  t.equal(rows.count, 3);
  t.equal(rows.bytes, 11, 'the comma between two batches counts');
  t.equal(ring.rows, 0);
  t.equal(ring.bytes, 0);
});

t.test('a batch is taken apart at the limit of rows', async (t) => {
  const ring = new Ring();
  ring.push(batchOf(['[1]', '[22]', '[333]', '[4]']));
  t.equal(textOf(ring.take(2, anyBytes)), '[1],[22]');
  t.equal(ring.rows, 2);
  t.equal(ring.bytes, 9);
  t.equal(textOf(ring.take(1, anyBytes)), '[333]');
  t.equal(textOf(ring.take(1, anyBytes)), '[4]');
  t.equal(ring.bytes, 0);
});

t.test('the limit of bytes is reached but not passed, commas included', async (t) => {
  for (const [bytesMax, expected] of [
    [7, '[1],[2]'],
    [10, '[1],[2]'],
    [11, '[1],[2],[3]'],
    [14, '[1],[2],[3]'],
    [15, '[1],[2],[3],[4]'],
  ] as const) {
    const ring = new Ring();
    ring.push(batchOf(['[1]', '[2]']));
    ring.push(batchOf(['[3]', '[4]']));
    t.equal(textOf(ring.take(anyRows, bytesMax)), expected, `${bytesMax} bytes`);
  }
});

t.test('a row larger than the limit of bytes comes alone', async (t) => {
  const large = `["${'x'.repeat(100)}"]`;
  const ring = new Ring();
  ring.push(batchOf(['[1]', large, '[2]']));
  ring.push(batchOf([large]));
  ring.push(batchOf(['[3]']));
  const taken: string[] = [];
  while (ring.rows > 0) taken.push(textOf(ring.take(anyRows, 20)));
  t.strictSame(taken, ['[1]', large, '[2]', large, '[3]']);
});

t.test('nothing is taken where no row is asked for', async (t) => {
  const ring = new Ring();
  ring.push(batchOf(['[1]']));
  t.equal(ring.take(0, anyBytes).count, 0);
  t.equal(ring.rows, 1);
});

t.test('a cleared ring is empty and can be filled again', async (t) => {
  const ring = new Ring();
  for (let index = 0; index < 9; index++) ring.push(batchOf([`[${index}]`, '[null]']));
  ring.take(3, anyBytes);
  ring.clear();
  t.equal(ring.rows, 0);
  t.equal(ring.bytes, 0);
  t.equal(ring.take(anyRows, anyBytes).count, 0);
  ring.push(batchOf(['[7]']));
  t.equal(textOf(ring.take(anyRows, anyBytes)), '[7]');
});

t.test('taken rows stay as they are whatever is taken and put in after them', async (t) => {
  const ring = new Ring();
  ring.push(batchOf(['[1]', '[2]']));
  const first = ring.take(1, anyBytes);
  ring.push(batchOf(['[3]']));
  ring.take(anyRows, anyBytes);
  ring.clear();
  t.equal(textOf(first), '[1]');
});

t.test('the ring behaves like a list of rows', async (t) => {
  const random = seeded(t);
  for (let run = 0; run < 300; run++) {
    const ring = new Ring();
    const model: string[][] = [];
    let made = 0;
    for (let step = 0; step < 60; step++) {
      if (random(100) < 55) {
        // Mostly small rows and now and then a large one, so that every limit comes into play.
        const rows = Array.from({ length: 1 + random(12) }, () => {
          const size = random(10) === 0 ? random(400) : random(12);
          return `[${made++},"${'é'.repeat(size)}"]`;
        });
        ring.push(batchOf(rows));
        model.push(rows);
      } else if (random(100) < 3) {
        ring.clear();
        model.length = 0;
      } else {
        const rowsMax = random(5) === 0 ? anyRows : 1 + random(30);
        const bytesMax = random(5) === 0 ? anyBytes : 1 + random(500);
        const expected = takeFrom(model, rowsMax, bytesMax);
        const taken = ring.take(rowsMax, bytesMax);
        if (textOf(taken) !== expected.join(',') || taken.count !== expected.length) {
          t.equal(textOf(taken), expected.join(','), `run ${run}, step ${step}: ${rowsMax} rows, ${bytesMax} bytes`);
          return;
        }
        if (taken.bytes !== Buffer.byteLength(expected.join(','))) {
          t.fail(`run ${run}, step ${step}: ${taken.bytes} bytes were counted`);
          return;
        }
      }
      const rows = model.reduce((sum, batch) => sum + batch.length, 0);
      const bytes = model.reduce((sum, batch) => sum + Buffer.byteLength(batch.join(',')), 0);
      if (ring.rows !== rows || ring.bytes !== bytes) {
        t.strictSame([ring.rows, ring.bytes], [rows, bytes], `run ${run}, step ${step}`);
        return;
      }
    }
  }
  t.pass('300 runs of 60 steps agree');
});

/** What `take` is to do, said the slow way. */
function takeFrom(batches: string[][], rowsMax: number, bytesMax: number): string[] {
  const taken: string[] = [];
  let bytes = 0;
  for (;;) {
    const row = batches[0]?.[0];
    if (row === undefined || taken.length === rowsMax) return taken;
    const size = Buffer.byteLength(row) + (taken.length === 0 ? 0 : 1);
    if (taken.length > 0 && bytes + size > bytesMax) return taken;
    bytes += size;
    taken.push(row);
    batches[0]?.shift();
    if (batches[0]?.length === 0) batches.shift();
  }
}

t.test('compressed batches go whole: as many as fit, and at least one', (t) => {
  const ring = new Ring();
  const batches = [
    ['[1]', '[2]', '[3]'],
    ['[4]', '[5]'],
    ['[6]', '[7]', '[8]', '[9]'],
  ];
  for (const rows of batches) ring.push(deflated(batchOf(rows)));
  ring.push(batchOf(['[10]', '[11]']));
  t.equal(ring.rows, 11);
  const pages = [ring.take(5, 1_000), ring.take(5, 1_000), ring.take(1, 1)];
  t.strictSame(pages.map(textOf), ['[1],[2],[3],[4],[5]', '[6],[7],[8],[9],[10]', '[11]']);
  t.strictSame(
    pages.map(({ count, bytes }) => [count, bytes]),
    pages.map((page) => [page.count, textOf(page).length]),
  );
  t.strictSame([ring.rows, ring.bytes, ring.heldBytes], [0, 0, 0]);

  for (const rows of batches) ring.push(deflated(batchOf(rows)));
  t.equal(textOf(ring.take(4, 1_000)), '[1],[2],[3]', 'the next one has too many rows');
  t.equal(textOf(ring.take(10, 8)), '[4],[5]', 'the next one has too many bytes');
  t.equal(textOf(ring.take(1, 1)), '[6],[7],[8],[9]', 'one at least');
  t.end();
});
