import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Query, RunStatement } from '#src/query/query.js';
import { Watch } from '#src/engine/progress-poller.js';
import { causes } from '#src/wire/failures.js';
import { statement as plain } from '../support/statement.ts';
import { makeQuery } from '../query/make-query.ts';

/** A query whose statement runs and whose first page is waited for. */
function waitedFor(onAsk: () => void): Query {
  const query = makeQuery();
  const run: RunStatement = (_request, observer) => {
    observer.started();
    return { credit: () => {}, cancel: () => {}, askExamined: onAsk, place: () => null };
  };
  query.start(plain('SELECT 1'), run, null);
  query.page(0);
  return query;
}

t.test('the database is asked about what is watched, and about nothing else', async (t) => {
  const watch = new Watch();
  const asks = { watched: 0, left: 0, other: 0 };
  const [watched, left, other] = (['watched', 'left', 'other'] as const).map((name) => waitedFor(() => asks[name]++));
  watch.add(watched as Query);
  watch.add(left as Query);
  watch.delete(left as Query);
  await sleep(600);
  t.strictSame(asks, { watched: 1, left: 0, other: 0 }, 'once a second, from a while after the poll on');
  watch.close();
  await sleep(900);
  t.equal(asks.watched, 1, 'nothing is asked any more');
  for (const query of [watched, left, other]) query?.cancel(causes.cancelled());
});

t.test('of many, each comes to its turn, and few at once', async (t) => {
  const watch = new Watch();
  const asked = new Set<number>();
  const perTurn: number[] = [];
  let before = 0;
  const queries = Array.from({ length: 350 }, (_, index) => waitedFor(() => asked.add(index)));
  for (const query of queries) watch.add(query);
  while (asked.size < queries.length) {
    await sleep(5);
    if (asked.size > before) perTurn.push(asked.size - before);
    before = asked.size;
    if (perTurn.length > queries.length) break;
  }
  t.equal(asked.size, queries.length);
  t.ok(perTurn.length >= 3, `they were asked in ${perTurn.length} turns`);
  watch.close();
  for (const query of queries) query.cancel(causes.cancelled());
});

t.test('when nothing is watched the clock stops, and it starts again', async (t) => {
  const watch = new Watch();
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  let asks = 0;
  const query = waitedFor(() => asks++);
  const without = timers();
  watch.add(query);
  t.equal(timers(), without + 1);
  watch.delete(query);
  await sleep(250);
  t.equal(timers(), without);
  watch.add(query);
  await sleep(450);
  t.equal(asks, 1);
  watch.close();
  query.cancel(causes.cancelled());
});
