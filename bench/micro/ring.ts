import { Ring, type Rows } from '#src/query/ring.js';
import { batchOf } from '../../test/query/batches.ts';
import { callNs, print } from './measure.ts';

const anyBytes = Number.MAX_SAFE_INTEGER;

/** As large as the ones that the workers send. */
const batch = batchOf(Array.from({ length: 2_000 }, (_, row) => `[${row},"${'x'.repeat(80)}","2026-01-31"]`));

/** As many batches as make whole pages of each size, so that the ring is empty after each call. */
const batches = 25;

export async function run(): Promise<void> {
  for (const pageRows of [50_000, 10_000, 1_000, 100]) {
    const ring = new Ring();
    const pages = (batches * batch.rows) / pageRows;
    const fill = (): void => {
      for (let count = 0; count < batches; count++) ring.push(batch);
    };
    fill();
    for (let page = 0; page < pages; page++) expectUncopied(ring.take(pageRows, anyBytes));
    const ns = await callNs(() => {
      fill();
      let last: Rows | undefined;
      for (let page = 0; page < pages; page++) last = ring.take(pageRows, anyBytes);
      return last;
    });
    const perBatch = `${(ns / batches).toFixed(0)} ns per batch`;
    const perPage = `${(ns / pages).toFixed(0)} ns per page`;
    print(`ring, pages of ${pageRows} rows: ${perBatch}, ${perPage}, ${gbPerSecond(batches * batch.length, ns)}`);
  }
  const rows = new Uint8Array(batch.buffer, 0, batch.length);
  const copyNs = await callNs(() => rows.slice());
  print(`ring, a copy of a batch instead: ${copyNs.toFixed(0)} ns per batch, ${gbPerSecond(batch.length, copyNs)}`);
}

function expectUncopied({ pieces }: Rows): void {
  if (pieces.some((piece) => 'crc' in piece || piece.buffer !== batch.buffer))
    throw new Error('the ring has copied rows');
}

function gbPerSecond(bytes: number, ns: number): string {
  return `${(bytes / ns).toFixed(0)} GB/s`;
}
