import { Worker } from 'node:worker_threads';
import t from 'tap';
import { SpillUsage } from '#src/wire/spill-usage.js';
import { unshared } from '../support/spill.ts';

/** As the threads have it: each counts in a slot of its own. */
function threads(count: number, bytesMax: number): { main: SpillUsage; each: SpillUsage[] } {
  const main = SpillUsage.forThreads(count, unshared(bytesMax));
  const each = Array.from({ length: count }, (_, slot) => new SpillUsage(main.shared, unshared(bytesMax), slot));
  return { main, each };
}

t.test('what the threads reserve is counted together, and given back', async (t) => {
  const { main, each } = threads(3, 1_000);
  t.equal(main.bytes, 0);
  each.forEach((usage, slot) => {
    t.equal(usage.ofUser(slot).reserve(100 * (slot + 1), 0), true);
  });
  for (const usage of [main, ...each]) t.equal(usage.bytes, 600);
  each[1]?.ofUser(1).release(150, 0);
  t.equal(main.bytes, 450);
});

t.test('no more is reserved than there may be of all threads, and a refusal counts nothing', async (t) => {
  const { main, each } = threads(2, 1_000);
  t.equal(each[0]?.ofUser(0).reserve(600, 0), true);
  t.equal(each[1]?.ofUser(0).reserve(401, 0), false);
  t.equal(main.bytes, 600);
  t.equal(each[1]?.ofUser(0).reserve(400, 0), true, 'up to the last byte');
  t.equal(each[0]?.ofUser(0).reserve(1, 0), false);
  each[1]?.ofUser(0).release(400, 0);
  t.equal(each[0]?.ofUser(0).reserve(1, 0), true);
});

t.test('without any room nothing is reserved', async (t) => {
  t.equal(SpillUsage.forThreads(1, unshared(0)).ofUser(0).reserve(1, 0), false);
});

t.test('a thread that has died leaves nothing behind, and the others what they have', async (t) => {
  const { main, each } = threads(3, 1_000);
  for (const [slot, usage] of each.entries()) usage.ofUser(slot).reserve(100 + slot, 0);
  main.forget(1);
  t.equal(main.bytes, 202);
  t.equal(
    new SpillUsage(main.shared, unshared(1_000), 1).ofUser(0).reserve(400, 0),
    true,
    'its successor begins anew in the same slot',
  );
  each[0]?.ofUser(0).release(100, 0);
  each[2]?.ofUser(2).release(102, 0);
  t.equal(main.bytes, 400);
});

t.test('one user leaves a part of the disk to others, however many threads run the statements', async (t) => {
  const limit = { ...unshared(0), bytes: { max: 1_000, perUserMax: 750 } };
  const main = SpillUsage.forThreads(3, limit);
  const [first, second, third] = [0, 1, 2].map((slot) => new SpillUsage(main.shared, limit, slot));
  t.equal(first?.ofUser(0).reserve(500, 0), true);
  t.equal(second?.ofUser(0).reserve(251, 0), false, 'the limit of a user counts what all threads have reserved');
  t.equal(main.bytes, 500);
  t.equal(second?.ofUser(0).reserve(250, 0), true, 'up to the last byte');
  t.equal(third?.ofUser(1).reserve(180, 0), true);
  t.equal(third?.ofUser(1).reserve(10, 0), false, 'a second user leaves some for a third one');
  t.equal(third?.ofUser(2).reserve(70, 0), true, 'who has nothing may have all that is free');
  t.equal(third?.ofUser(3).reserve(1, 0), false);
  main.forget(1);
  t.equal(third?.ofUser(0).reserve(50, 0), true, 'what a dead thread had reserved for the user is free again');
  first?.ofUser(0).release(500, 0);
  third?.ofUser(0).release(50, 0);
  third?.ofUser(1).release(180, 0);
  third?.ofUser(2).release(70, 0);
  t.equal(main.bytes, 0);
});

t.test('files are limited as bytes are, and a refusal for one of the two reserves neither', async (t) => {
  const limit = { bytes: { max: 1_000, perUserMax: 1_000 }, files: { max: 4, perUserMax: 3 } };
  const main = SpillUsage.forThreads(2, limit);
  const [first, second] = [0, 1].map((slot) => new SpillUsage(main.shared, limit, slot));
  for (const usage of [first, second, first]) t.equal(usage?.ofUser(0).reserve(10, 1), true);
  t.equal(second?.ofUser(0).reserve(10, 1), false, 'the limit of a user counts what all threads have reserved');
  t.equal(second?.ofUser(1).reserve(971, 1), false, 'there are not so many bytes');
  t.strictSame([main.bytes, main.files], [30, 3]);
  t.equal(first?.ofUser(0).reserve(10, 0), true, 'a file that is open can still grow');
  t.equal(second?.ofUser(1).reserve(10, 1), true);
  t.equal(second?.ofUser(2).reserve(10, 1), false, 'all files are open');
  main.forget(0);
  t.strictSame([main.bytes, main.files], [20, 2]);
});

t.test('counts go far beyond 32 bits', async (t) => {
  const { main, each } = threads(2, 2 ** 50);
  t.equal(each[0]?.ofUser(0).reserve(2 ** 49, 0), true);
  t.equal(each[1]?.ofUser(0).reserve(2 ** 49, 0), true);
  t.equal(main.bytes, 2 ** 50);
  t.equal(each[1]?.ofUser(0).reserve(1, 0), false);
});

t.test('threads that count at the same time miscount nothing, and never have too much', async (t) => {
  const bytesMax = 1_000;
  const main = SpillUsage.forThreads(3, unshared(bytesMax));
  const code = `
    import { parentPort, workerData } from 'node:worker_threads';
    const { SpillUsage } = await import(workerData.module);
    const usage = new SpillUsage(workerData.shared, workerData.limit, workerData.slot).ofUser(0);
    let granted = 0;
    let most = 0;
    for (let round = 0; round < 50000; round++) {
      const bytes = 1 + (round * 7919) % 600;
      if (!usage.reserve(bytes, 0)) continue;
      granted++;
      if (bytes > most) most = bytes;
      usage.release(bytes, 0);
    }
    parentPort.postMessage({ granted, most });`;
  const results = await Promise.all(
    [1, 2].map(
      (slot) =>
        new Promise<{ granted: number; most: number }>((resolve, reject) => {
          const module = import.meta.resolve('#src/wire/spill-usage.js');
          const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`), {
            workerData: { module, shared: main.shared, limit: unshared(bytesMax), slot },
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
