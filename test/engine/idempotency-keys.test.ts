import t from 'tap';
import { IdempotencyKeys } from '#src/engine/idempotency-keys.js';
import type { Queries } from '#src/engine/queries.js';
import type { Query } from '#src/query/query.js';

t.test('B (attack): a key is remembered as long as its query is known, and no request looks at all keys', async (t) => {
  const known = new Set<string>();
  let looks = 0;
  const queries = {
    knows: (id: string) => {
      looks++;
      return known.has(id);
    },
    find: (id: string) => (known.has(id) ? { identity: { id } } : undefined),
    whyRemoved: () => undefined,
  } as unknown as Queries;
  const retries = new IdempotencyKeys(queries);
  let begun = 0;
  const post = async (key: string): Promise<number> => {
    const before = looks;
    await retries.once('v1', 'ann', key, 'digest', async () => {
      begun++;
      known.add(key);
      return { identity: { id: key } } as Query;
    });
    return looks - before;
  };

  const keys = Array.from({ length: 2_000 }, (_, number) => `key ${number}`);
  let mostLooks = 0;
  for (const key of keys) mostLooks = Math.max(mostLooks, await post(key));
  t.ok(mostLooks <= 4, `${mostLooks} keys are looked at by one request`);
  t.equal(begun, keys.length);
  for (const key of keys) await post(key);
  t.equal(begun, keys.length, 'each key stands for the query that it has begun');

  const [first = '', second = ''] = keys;
  known.delete(first);
  for (const key of keys) await post(`another ${key}`);
  begun = 0;
  await post(second);
  t.equal(begun, 0, 'a key whose query is known stays');
  await post(first);
  t.equal(begun, 1, 'a key whose query is not known any more is forgotten');
});
