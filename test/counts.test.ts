import t from 'tap';
import { Counts } from '#src/counts.js';

t.test('each name is counted separately, up and down', async (t) => {
  const counts = new Counts();
  t.equal(counts.of('ann'), 0);
  counts.add('ann', 1);
  counts.add('ann', 1);
  counts.add('bert', 1);
  t.strictSame([counts.of('ann'), counts.of('bert'), counts.of('constructor')], [2, 1, 0]);
  counts.add('ann', -1);
  counts.add('bert', -1);
  t.strictSame([counts.of('ann'), counts.of('bert')], [1, 0]);
});
