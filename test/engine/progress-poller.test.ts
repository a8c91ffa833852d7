import t from 'tap';
import { ProgressPoller } from '#src/engine/progress-poller.js';
import type { Query } from '#src/query/query.js';
import { causes } from '#src/wire/failures.js';
import { makeQuery } from '../query/make-query.ts';
import { readPage } from '../query/read-page.ts';
import { idleHandle, type Run, runBy } from '../query/run-by.ts';
import { installFakeClock } from '../support/fake-clock.ts';
import { statement as plain } from '../support/statement.ts';

/** A query whose statement runs and whose first page is waited for. */
function waitedFor(onAsk: () => void): Query {
  const query = makeQuery();
  const run: Run = (_request, observer) => {
    observer.started();
    return { ...idleHandle, askExamined: onAsk };
  };
  runBy(query, plain('SELECT 1'), run, false);
  readPage(query, 0);
  return query;
}

t.test('the database is asked about what is watched, and about nothing else', async (t) => {
  const clock = installFakeClock(t);
  const poller = new ProgressPoller();
  const asks = { watched: 0, left: 0, other: 0 };
  const [watched, left, other] = (['watched', 'left', 'other'] as const).map((name) => waitedFor(() => asks[name]++));
  poller.add(watched as Query);
  poller.add(left as Query);
  poller.delete(left as Query);
  clock.tick(600);
  t.strictSame(asks, { watched: 1, left: 0, other: 0 }, 'once a second, from a while after the poll on');
  poller.close();
  clock.tick(900);
  t.equal(asks.watched, 1, 'nothing is asked any more');
  for (const query of [watched, left, other]) query?.cancel(causes.cancelled());
});

t.test('of many, each comes to its turn, and few at once', async (t) => {
  const clock = installFakeClock(t);
  const poller = new ProgressPoller();
  const asked = new Set<number>();
  const perTurn: number[] = [];
  const queries = Array.from({ length: 350 }, (_, index) => waitedFor(() => asked.add(index)));
  for (const query of queries) poller.add(query);
  for (let ms = 0; ms < 10_000 && asked.size < queries.length; ms += 100) {
    const before = asked.size;
    clock.tick(100);
    if (asked.size > before) perTurn.push(asked.size - before);
  }
  t.equal(asked.size, queries.length);
  t.ok(perTurn.length >= 3, `they were asked in ${perTurn.length} turns`);
  poller.close();
  for (const query of queries) query.cancel(causes.cancelled());
});

t.test('when nothing is watched the clock stops, and it starts again', async (t) => {
  const clock = installFakeClock(t);
  const poller = new ProgressPoller();
  let asks = 0;
  const query = waitedFor(() => asks++);
  const without = clock.countTimers();
  poller.add(query);
  t.equal(clock.countTimers(), without + 1);
  poller.delete(query);
  clock.tick(250);
  t.equal(clock.countTimers(), without);
  poller.add(query);
  clock.tick(450);
  t.equal(asks, 1);
  poller.close();
  query.cancel(causes.cancelled());
});
