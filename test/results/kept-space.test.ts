import t from 'tap';
import { KeptSpace } from '#src/results/kept-space.js';

t.test('users share the space, and each has a part of it', async (t) => {
  const space = new KeptSpace({ max: 1_000, perUserMax: 750 });
  t.equal(space.take('ann', 750), null);
  t.match(space.take('ann', 1), { code: 90010, message: /750 bytes/ });
  t.equal(space.take('bob', 150), null);
  t.match(space.take('bob', 200), { code: 90010, message: /\(--kept_bytes_max\) 1000 bytes/ });
  t.equal(space.bytes, 900);
  space.release('ann', 750);
  t.equal(space.bytes, 150);
  t.equal(space.take('ann', 600), null);
  // A large row may take more than was granted.
  space.use('bob', 400);
  t.equal(space.bytes, 1_150);
  t.match(space.take('eve', 1), { code: 90010 });
});
