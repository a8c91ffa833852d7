import t from 'tap';
import { defaultPerUserMax, mayTake } from '#src/share.js';
import { pick, seeded } from './support/random.ts';

/** The number that each of several users gets if each takes its maximum, one after the other. */
function takenBy(users: number, max: number, perUserMax: number): number[] {
  let free = max;
  return Array.from({ length: users }, () => {
    let held = 0;
    for (; mayTake({ max, perUserMax }, held, 1, free); held++) free--;
    return held;
  });
}

t.test('B3: users who take their maximum leave some for the next user', async (t) => {
  t.strictSame(takenBy(5, 128, 96), [96, 24, 6, 1, 1]);
  t.strictSame(takenBy(3, 128, 64), [64, 32, 16]);
  t.strictSame(takenBy(2, 128, 128), [128, 0], 'unless one user may take all');
  t.strictSame(takenBy(20, 128, 8).slice(0, 14), Array(14).fill(8), 'a small maximum is the limit itself');
  for (let max = 2; max < 300; max++) {
    const [first = 0, second = 0] = takenBy(2, max, defaultPerUserMax(max));
    if (first !== defaultPerUserMax(max) || second < 1) t.fail(`of ${max}: ${first}, then ${second}`);
  }
  t.equal(defaultPerUserMax(1), 1);
});

t.test('B3: a user who holds nothing may take one while one is free', async (t) => {
  const random = seeded(t);
  for (let run = 0; run < 1_000; run++) {
    const max = 1 + random(200);
    const limit = { max, perUserMax: 1 + random(max) };
    const held = new Map([...'abcdef'].map((user) => [user, 0]));
    let free = max;
    for (let step = 0; step < 500; step++) {
      const user = pick(random, [...held.keys()]);
      const count = held.get(user) ?? 0;
      if (random(3) === 0 && count > 0) {
        held.set(user, count - 1);
        free++;
      } else if (mayTake(limit, count, 1, free)) {
        held.set(user, count + 1);
        free--;
      } else if (count === 0 && free > 0) {
        t.fail(`run ${run}: ${free} of ${max} are free`);
        return;
      }
      if (free < 0 || (held.get(user) ?? 0) > limit.perUserMax) {
        t.fail(`run ${run}: the total is exceeded`);
        return;
      }
    }
  }
  t.pass('1,000 runs');
});
