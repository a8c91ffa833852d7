import t from 'tap';
import { RequestMemory, RequestMemoryError, type RequestReservation } from '#src/query/request-memory.js';
import { pick, seeded } from '../support/random.ts';

function memoryOf(bytesMax: number, bytesPerUserMax: number): RequestMemory {
  return new RequestMemory({ max: bytesMax, perUserMax: bytesPerUserMax });
}

t.test('B1: what is reserved is counted until it is released, once', async (t) => {
  const memory = memoryOf(1_000, 1_000);
  const first = memory.reserve('a', 100);
  const second = memory.reserve('a', 200);
  t.equal(memory.reservedBytes, 300);
  first.resize(150);
  second.resize(50);
  t.equal(memory.reservedBytes, 200);
  t.equal(first.bytes, 150);
  first.release();
  first.release();
  first.resize(900);
  t.equal(memory.reservedBytes, 50, 'a released reservation stays released');
  second.release();
  t.equal(memory.reservedBytes, 0);
});

t.test('B1: a user who reaches the limit of one user is refused, and others are not', async (t) => {
  const memory = memoryOf(1_000, 600);
  const first = memory.reserve('a', 500);
  t.throws(() => memory.reserve('a', 101), refusedFor('user'));
  t.throws(() => first.resize(601), refusedFor('user'));
  t.equal(first.bytes, 500, 'a refused resize leaves the reservation as it was');
  t.equal(memory.reservedBytes, 500);
  memory.reserve('b', 200).release();
  first.resize(600);
  first.resize(10);
  t.equal(memory.reserve('a', 500).bytes, 500);
});

t.test('B1: several users who take all that they may leave some for the next', async (t) => {
  const memory = memoryOf(1_000, 750);
  const held: number[] = [];
  for (const user of ['a', 'b', 'c']) {
    let bytes = 0;
    try {
      for (; ; bytes++) memory.reserve(user, 1);
    } catch (error) {
      t.match(error, refusedFor(held.length === 0 ? 'user' : 'total'));
    }
    held.push(bytes);
  }
  t.match(held, [750, 187, 47]);
  t.equal(memory.reserve('d', 10).bytes, 10);
});

t.test('B1: when all is reserved, a user who holds nothing is refused for the total', async (t) => {
  const memory = memoryOf(1_000, 1_000);
  const all = memory.reserve('a', 1_000);
  t.throws(() => memory.reserve('b', 1), refusedFor('total'));
  t.throws(() => memory.reserve('a', 1), refusedFor('user'));
  all.resize(500);
  t.equal(memory.reserve('b', 1).bytes, 1);
});

t.test(
  'B1: whatever is reserved, resized and released at random, the sums are right and within the limits',
  async (t) => {
    const random = seeded(t);
    const memory = memoryOf(10_000, 4_000);
    const open: { readonly user: string; readonly reservation: RequestReservation }[] = [];
    for (let step = 0; step < 20_000; step++) {
      const user = pick(random, ['a', 'b', 'c']);
      const chosen = open.length === 0 ? undefined : pick(random, open);
      try {
        if (random(10) < 4) open.push({ user, reservation: memory.reserve(user, random(1_500)) });
        else if (random(2) === 0) chosen?.reservation.resize(random(1_500));
        else if (chosen !== undefined) open.splice(open.indexOf(chosen), 1)[0]?.reservation.release();
      } catch (error) {
        if (!(error instanceof RequestMemoryError)) throw error;
      }
      const sum = (of: string | null): number =>
        open.reduce((bytes, one) => bytes + (of === null || one.user === of ? one.reservation.bytes : 0), 0);
      if (memory.reservedBytes !== sum(null) || memory.reservedBytes > 10_000 || sum(user) > 4_000) {
        t.fail(`step ${step}: ${memory.reservedBytes} reserved, ${sum(null)} open`);
        return;
      }
    }
    for (const { reservation } of open) reservation.release();
    t.equal(memory.reservedBytes, 0);
  },
);

function refusedFor(scope: 'user' | 'total'): {
  readonly name: string;
  readonly reason: string;
  readonly message: RegExp;
} {
  const option = scope === 'user' ? /--request_bytes_per_user_max/ : /--request_bytes_max/;
  return { name: 'RequestMemoryError', reason: scope === 'user' ? 'too many' : 'unavailable', message: option };
}
