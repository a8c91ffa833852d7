import t from 'tap';
import type { RowPackets } from '#src/worker/arrow/cells.js';
import { fileBatches } from '#src/worker/arrow/file-batches.js';
import { randomBytes, seeded } from '../support/random.ts';

/** The bytes of each row. */
function rowsOf({ source, ends }: RowPackets): string[] {
  let start = 0;
  return Array.from(ends, (end) => {
    const row = source.toString('latin1', start, end);
    start = end;
    return row;
  });
}

t.test('the batches of a file have the rows of those on disk, and are as large as they may be', async (t) => {
  const random = seeded(t);
  for (let round = 0; round < 300; round++) {
    const stored: RowPackets[] = Array.from({ length: random(12) }, () => {
      const rows = Array.from({ length: 1 + random(20) }, () =>
        randomBytes(random, 1 + random(random(10) === 0 ? 500 : 30)),
      );
      let end = 0;
      // The ends of the rows lie behind them in the same memory.
      const source = Buffer.concat([...rows, Buffer.alloc(7)]);
      return { source, ends: Uint32Array.from(rows, ({ length }) => (end += length)) };
    });
    const limits = { packetBytes: 1 + random(400), rows: 1 + random(30) };
    const batches = [...fileBatches(stored, limits)];
    const sizes = batches.map(rowsOf);
    t.strictSame(sizes.flat(), stored.flatMap(rowsOf), 'the same rows in the same order');
    const over = sizes.filter((rows) => rows.length > limits.rows);
    t.strictSame(over, [], 'none has too many rows');
    const bytesOf = (rows: readonly string[]): number => rows.reduce((sum, row) => sum + row.length, 0);
    const largest = Math.max(0, ...stored.map(({ ends }) => ends.at(-1) ?? 0));
    for (const rows of sizes) t.ok(bytesOf(rows) <= Math.max(limits.packetBytes, largest), 'none has too many bytes');
    for (const [at, rows] of sizes.slice(0, -1).entries()) {
      const isFull = rows.length === limits.rows || bytesOf(rows) + largest > limits.packetBytes;
      t.ok(isFull, `batch ${at} of ${sizes.length} is full`);
    }
  }
});
