import t from 'tap';
import { LargeResults } from '#src/wire/large-results.js';

const ann = { user: 'ann', database: 'shop' };

t.test('a statement is remembered for its user and schema, in all threads', async (t) => {
  const shared = new SharedArrayBuffer(LargeResults.bytes);
  const [one, other] = [new LargeResults(shared), new LargeResults(shared)];
  t.notOk(one.has(ann, 'SELECT * FROM t'));
  one.add(ann, 'SELECT * FROM t');
  t.ok(other.has(ann, 'SELECT * FROM t'));
  for (const scope of [
    { user: 'bob', database: 'shop' },
    { user: 'ann', database: null },
    { user: 'ann', database: 'shop"' },
  ])
    t.notOk(other.has(scope, 'SELECT * FROM t'));
  t.notOk(other.has(ann, 'SELECT * FROM u'));
  other.delete(ann, 'SELECT * FROM u');
  t.ok(one.has(ann, 'SELECT * FROM t'), 'another one was forgotten');
  other.delete(ann, 'SELECT * FROM t');
  t.notOk(one.has(ann, 'SELECT * FROM t'));
});

t.test('texts of every length, the empty one too', async (t) => {
  const results = new LargeResults(new SharedArrayBuffer(LargeResults.bytes));
  for (const length of [0, 1, 31, 32, 33, 63, 64, 65, 1_000, 100_000]) {
    const sql = 'x'.repeat(length);
    results.add(ann, sql);
    t.ok(results.has(ann, sql));
    t.notOk(results.has(ann, `${sql}x`));
  }
});

t.test(
  'most of a few thousand statements are remembered beside each other, and no number of them takes more memory',
  async (t) => {
    const results = new LargeResults(new SharedArrayBuffer(LargeResults.bytes));
    const statements = Array.from({ length: 2_000 }, (_, index) => `SELECT * FROM orders WHERE customer = ${index}`);
    for (const sql of statements) results.add(ann, sql);
    const known = statements.filter((sql) => results.has(ann, sql)).length;
    t.ok(known > 1_700, `${known} of 2000`);
    for (let index = 0; index < 50_000; index++) results.add(ann, `SELECT ${index}`);
    t.ok(results.has(ann, 'SELECT 49999'));
  },
);
