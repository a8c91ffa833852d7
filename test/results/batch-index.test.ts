import t from 'tap';
import { BatchIndex } from '#src/results/batch-index.js';
import { seeded } from '../support/random.ts';

t.test('the batches of any rows are found', async (t) => {
  const random = seeded(t);
  for (let round = 0; round < 50; round++) {
    const index = new BatchIndex();
    // By row, its batch and its place in that.
    const places: [batch: number, row: number][] = [];
    for (let batch = 0; batch < 1 + random(20); batch++) {
      const rows = 1 + random(30);
      for (let row = 0; row < rows; row++) places.push([batch, row]);
      index.add({ rows, length: 8 * rows, bytes: 12 * rows, textBytes: 10 * rows, crc: batch });
    }
    t.equal(index.rows, places.length);
    t.equal(index.bytes, 12 * places.length);
    t.equal(index.textBytes, 10 * places.length);
    for (let from = 0; from < places.length; from++) {
      const count = 1 + random(60);
      const { batches, skippedRows } = index.find(from, count, Number.MAX_SAFE_INTEGER);
      const [first, row] = places[from] as [number, number];
      const [last] = places[Math.min(places.length, from + count) - 1] as [number, number];
      t.strictSame([batches[0]?.crc, skippedRows, batches.at(-1)?.crc], [first, row, last], `${count} from ${from}`);
      for (const { position, crc } of batches) t.equal(position, 12 * places.filter(([batch]) => batch < crc).length);
    }
  }
});

t.test('no more batches than have so much text', async (t) => {
  const index = new BatchIndex();
  for (let batch = 0; batch < 10; batch++) index.add({ rows: 10, length: 0, bytes: 1, textBytes: 100, crc: 0 });
  for (const [bytesMax, batches] of [
    [0, 1],
    [1, 2],
    [100, 2],
    [101, 3],
    [10_000, 10],
  ] as const) {
    t.equal(index.find(0, 100, bytesMax).batches.length, batches, `${bytesMax} bytes`);
  }
});
