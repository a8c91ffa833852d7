import { Worker } from 'node:worker_threads';
import t from 'tap';
import { SpillUsage } from '#src/wire/spill-usage.js';

/** As the threads have it: each counts in a slot of its own. */
function threads(count: number, bytesMax: number): { main: SpillUsage; each: SpillUsage[] } {
  const main = SpillUsage.forThreads(count, bytesMax);
  const each = Array.from({ length: count }, (_, slot) => new SpillUsage(main.shared, bytesMax, slot));
  return { main, each };
}

t.test('what the threads reserve is counted together, and given back', async (t) => {
  const { main, each } = threads(3, 1_000);
  t.equal(main.bytes, 0);
  each.forEach((usage, slot) => {
    t.equal(usage.reserve(100 * (slot + 1)), true);
  });
  for (const usage of [main, ...each]) t.equal(usage.bytes, 600);
  each[1]?.release(150);
  t.equal(main.bytes, 450);
});

t.test('no more is reserved than there may be of all threads, and a refusal counts nothing', async (t) => {
  const { main, each } = threads(2, 1_000);
  t.equal(each[0]?.reserve(600), true);
  t.equal(each[1]?.reserve(401), false);
  t.equal(main.bytes, 600);
  t.equal(each[1]?.reserve(400), true, 'up to the last byte');
  t.equal(each[0]?.reserve(1), false);
  each[1]?.release(400);
  t.equal(each[0]?.reserve(1), true);
});

t.test('without any room nothing is reserved', async (t) => {
  t.equal(SpillUsage.forThreads(1, 0).reserve(1), false);
});

t.test('a thread that has died leaves nothing behind, and the others what they have', async (t) => {
  const { main, each } = threads(3, 1_000);
  for (const [slot, usage] of each.entries()) usage.reserve(100 + slot);
  main.forget(1);
  t.equal(main.bytes, 202);
  t.equal(new SpillUsage(main.shared, 1_000, 1).reserve(400), true, 'its successor begins anew in the same slot');
  each[0]?.release(100);
  each[2]?.release(102);
  t.equal(main.bytes, 400);
});

t.test('counts go far beyond 32 bits', async (t) => {
  const { main, each } = threads(2, 2 ** 50);
  t.equal(each[0]?.reserve(2 ** 49), true);
  t.equal(each[1]?.reserve(2 ** 49), true);
  t.equal(main.bytes, 2 ** 50);
  t.equal(each[1]?.reserve(1), false);
});

t.test('threads that count at the same time miscount nothing, and never have too much', async (t) => {
  const bytesMax = 1_000;
  const main = SpillUsage.forThreads(3, bytesMax);
  const code = `
    import { parentPort, workerData } from 'node:worker_threads';
    const { SpillUsage } = await import(workerData.module);
    const usage = new SpillUsage(workerData.shared, workerData.bytesMax, workerData.slot);
    let granted = 0;
    let most = 0;
    for (let round = 0; round < 50000; round++) {
      const bytes = 1 + (round * 7919) % 600;
      if (!usage.reserve(bytes)) continue;
      granted++;
      if (bytes > most) most = bytes;
      usage.release(bytes);
    }
    parentPort.postMessage({ granted, most });`;
  const results = await Promise.all(
    [1, 2].map(
      (slot) =>
        new Promise<{ granted: number; most: number }>((resolve, reject) => {
          const module = import.meta.resolve('#src/wire/spill-usage.js');
          const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`), {
            workerData: { module, shared: main.shared, bytesMax, slot },
          });
          worker.once('message', resolve).once('error', reject);
        }),
    ),
  );
  for (const { granted, most } of results) {
    t.ok(granted > 0);
    t.ok(most <= bytesMax);
  }
  t.equal(main.bytes, 0);
});
