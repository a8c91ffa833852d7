import t from 'tap';
import { Buffers, type BuffersOptions, MemoryReservation } from '#src/query/buffers.js';
import { pick, seeded } from '../support/random.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

function buffersOf(options: Partial<BuffersOptions> = {}): Buffers {
  return new Buffers({ bufferBytesMax: 8 * MiB, resultsBytesMax: 100 * MiB, queryBufferBytesMax: 4 * MiB, ...options });
}

t.test('every query begins with the same window, however many there are', async (t) => {
  const buffers = buffersOf();
  t.equal(buffers.floorBytes, 256 * KiB);
  new MemoryReservation(buffers, 'u').set(7 * MiB, 0);
  t.equal(buffers.floorBytes, 256 * KiB);
  t.equal(buffersOf({ queryBufferBytesMax: 1_000 }).floorBytes, 1_000, 'unless no query may have so much');
});

t.test('there is room for one more as long as it could have its window', async (t) => {
  const buffers = buffersOf({ bufferBytesMax: MiB });
  const share = new MemoryReservation(buffers, 'u');
  share.set(MiB - 256 * KiB, 0);
  t.equal(buffers.hasRoomFor('v'), true);
  share.set(MiB - 256 * KiB + 1, 0);
  t.equal(buffers.hasRoomFor('v'), false);
  share.set(0, 0);
  t.equal(buffers.hasRoomFor('v'), true);
});

t.test(
  'B1: one user takes three quarters of the memory at most, and what is left is shared in the same way',
  async (t) => {
    const buffers = buffersOf({ bufferBytesMax: 64 * MiB });
    const begun = (user: string): number => {
      let count = 0;
      for (; buffers.hasRoomFor(user); count++) new MemoryReservation(buffers, user).set(buffers.floorBytes, 0);
      return count;
    };
    t.strictSame([begun('a'), begun('b'), begun('c')], [192, 48, 12]);
    t.ok(buffers.hasRoomFor('d'));
  },
);

t.test('a user whose large rows exceed the budget leaves the others what it always leaves them', async (t) => {
  const buffers = buffersOf({ bufferBytesMax: 64 * MiB });
  new MemoryReservation(buffers, 'a').set(200 * MiB, 200 * MiB);
  t.notOk(buffers.hasRoomFor('a'));
  const shares: MemoryReservation[] = [];
  for (; buffers.hasRoomFor('b'); shares.push(new MemoryReservation(buffers, 'b')))
    shares.at(-1)?.set(buffers.floorBytes, 0);
  t.ok(shares.length >= 40, `${shares.length} statements of another user may begin`);
  new MemoryReservation(buffers, 'b').set(100 * MiB, 100 * MiB);
  t.ok(buffers.hasRoomFor('c'));
});

t.test('B1: when there is too much, it is too much for those alone who hold more than their part', async (t) => {
  const buffers = buffersOf({ resultsBytesMax: 100 });
  const [large, small] = [new MemoryReservation(buffers, 'a'), new MemoryReservation(buffers, 'b')];
  large.set(99, 99);
  small.set(2, 2);
  t.strictSame([large.isOver, small.isOver], [true, false]);
  small.set(51, 51);
  t.strictSame([large.isOver, small.isOver], [true, true]);
  large.close();
  t.equal(small.isOver, false);
});

t.test('there is too much when rows take more than they may at the very most, and not at the limit', async (t) => {
  const buffers = buffersOf({ resultsBytesMax: 100 });
  const share = new MemoryReservation(buffers, 'u');
  share.set(100, 100);
  t.equal(share.isOver, false);
  share.set(101, 101);
  t.equal(share.isOver, true);
  share.set(5_000, 100);
  t.equal(share.isOver, false, 'what is set aside and not filled is no matter');
  t.equal(buffers.heldBytesMax, 100);
});

t.test('a window grows by doubling, up to what a query may have', async (t) => {
  const buffers = buffersOf({ bufferBytesMax: 100 * MiB });
  const windows: number[] = [];
  for (let window = buffers.floorBytes; windows.at(-1) !== window; window = buffers.grown(window)) windows.push(window);
  t.strictSame(
    windows.map((bytes) => bytes / KiB),
    [256, 512, 1_024, 2_048, 4_096],
  );
  t.equal(buffersOf({ queryBufferBytesMax: 300 * KiB }).grown(256 * KiB), 300 * KiB);
});

t.test('windows grow only while less than half of the memory is set aside', async (t) => {
  const buffers = buffersOf({ bufferBytesMax: 8 * MiB });
  const share = new MemoryReservation(buffers, 'u');
  share.set(4 * MiB - 256 * KiB, 0);
  t.equal(buffers.grown(256 * KiB), 512 * KiB, 'up to the half');
  share.set(4 * MiB - 256 * KiB + 1, 0);
  t.equal(buffers.grown(256 * KiB), 256 * KiB);
});

t.test('a window shrinks by what is free, down to the least, while more than half is set aside', async (t) => {
  const buffers = buffersOf({ bufferBytesMax: 8 * MiB });
  const share = new MemoryReservation(buffers, 'u');
  share.set(4 * MiB, 0);
  t.equal(buffers.shrunk(2 * MiB, MiB), 2 * MiB, 'memory is not scarce');
  share.set(4 * MiB + 1, 0);
  t.equal(buffers.shrunk(2 * MiB, MiB), MiB);
  t.equal(buffers.shrunk(2 * MiB, 2 * MiB), 256 * KiB);
  t.equal(buffers.shrunk(2 * MiB, 0), 2 * MiB, 'what is filled cannot be taken');
  t.equal(buffers.shrunk(100 * KiB, 100 * KiB), 100 * KiB, 'one that is smaller than the least stays');
});

t.test('a share counts what is its own, and gives it back for good', async (t) => {
  const buffers = buffersOf();
  const [one, other] = [new MemoryReservation(buffers, 'u'), new MemoryReservation(buffers, 'u')];
  one.set(1_000, 10);
  other.set(500, 50);
  t.strictSame([buffers.reservedBytes, buffers.heldBytes], [1_500, 60]);
  one.set(200, 20);
  t.strictSame([buffers.reservedBytes, buffers.heldBytes], [700, 70]);
  one.close();
  t.strictSame([buffers.reservedBytes, buffers.heldBytes], [500, 50]);
  one.set(9_000, 90);
  t.strictSame([buffers.reservedBytes, buffers.heldBytes], [500, 50], 'what is closed counts nothing any more');
  one.close();
  t.strictSame([buffers.reservedBytes, buffers.heldBytes], [500, 50]);
});

t.test('onRoom is called when there may be new room, and only then', async (t) => {
  const buffers = buffersOf();
  const share = new MemoryReservation(buffers, 'u');
  let calls: number[] = [];
  buffers.onRoom = () => calls.push(buffers.reservedBytes);
  share.set(1_000, 0);
  share.set(1_000, 500);
  share.set(1_000, 0);
  share.set(2_000, 0);
  t.strictSame(calls, [], 'it was not less that was set aside');
  share.set(1_500, 0);
  t.strictSame(calls, [1_500], 'it is counted before');
  calls = [];
  share.close();
  share.close();
  t.strictSame(calls, [0]);
});

t.test('whatever queries come, grow, shrink and go, the sums are right and the budget is kept', async (t) => {
  const random = seeded(t);
  for (let run = 0; run < 30; run++) {
    const bytesMax = 1 * MiB + random(16 * MiB);
    const buffers = buffersOf({
      bufferBytesMax: bytesMax,
      queryBufferBytesMax: pick(random, [100 * KiB, MiB, 5 * MiB]),
    });
    const queries: { reservation: MemoryReservation; window: number; held: number }[] = [];
    let shrunk = 0;
    for (let step = 0; step < 500; step++) {
      const query = queries[random(queries.length + 1)];
      if (query === undefined) {
        if (!buffers.hasRoomFor('v')) continue;
        queries.push({ reservation: new MemoryReservation(buffers, 'u'), window: buffers.floorBytes, held: 0 });
      } else if (random(10) === 0) {
        query.reservation.close();
        queries.splice(queries.indexOf(query), 1);
      } else if (random(2) === 0) {
        query.held = random(query.window + 1);
        const window = buffers.grown(query.window);
        if (window > query.window && buffers.reservedBytes + window - query.window > bytesMax / 2) {
          t.fail(`run ${run}: one grew into what is kept for new ones`);
        }
        query.window = window;
      } else {
        const free = random(query.held + 1);
        query.held -= free;
        const window = buffers.shrunk(query.window, free);
        if (window < query.window) shrunk++;
        if (query.window - window > free) t.fail(`run ${run}: more was taken than was free`);
        query.window = window;
      }
      for (const { reservation, window, held } of queries) reservation.set(window, held);
      const sum = (what: 'window' | 'held'): number => queries.reduce((bytes, each) => bytes + each[what], 0);
      if (buffers.reservedBytes !== sum('window') || buffers.heldBytes !== sum('held')) {
        t.fail(`run ${run}: the sums are wrong`);
        return;
      }
      if (buffers.reservedBytes > bytesMax) {
        t.fail(`run ${run}: ${buffers.reservedBytes} of ${bytesMax} bytes are set aside`);
        return;
      }
    }
    for (const { reservation } of queries) reservation.close();
    if (buffers.reservedBytes !== 0 || buffers.heldBytes !== 0) t.fail(`run ${run}: not all was given back`);
    if (run === 0) t.comment(`${shrunk} times one shrank`);
  }
  t.pass('30 runs');
});
