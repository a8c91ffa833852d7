import t from 'tap';
import { Queries, type QueriesOptions } from '#src/engine/queries.js';
import type { ServiceEvent } from '#src/events.js';
import type { Query } from '#src/query/query.js';
import { failureOf } from '#src/wire/failures.js';
import { forever, makeQuery } from '../query/make-query.ts';
import { readPage } from '../query/read-page.ts';
import { installFakeClock } from '../support/fake-clock.ts';
import { isPending } from '../support/turns.ts';

const outcome = { affectedRows: '0', lastInsertId: null, warnings: 0 };
const defaults: QueriesOptions = {
  queriesMax: 100,
  queriesPerUserMax: 100,
  unreadPerUserMax: 100,
  resultTimeoutMs: forever,
  singlePageResultsMax: 100,
  removedQueriesMax: 100,
  logSql: false,
  onDisconnect: 'continue',
  disconnectMs: 5_000,
};

/** Queries under test, and the events that they have emitted. */
class Stage {
  readonly events: ServiceEvent[] = [];
  readonly queries: Queries;
  #made = 0;

  constructor(t: { teardown(close: () => void): void }, options: Partial<QueriesOptions> = {}) {
    this.queries = new Queries({ ...defaults, ...options }, (event) => this.events.push(event));
    t.teardown(() => this.queries.close());
  }

  /** A query whose statement runs until the test ends it. */
  add(owner = 'ann'): Query {
    const query = makeQuery(`q${++this.#made}`, owner);
    this.queries.add(query, 'SELECT 1');
    return query;
  }

  /** Ids of those made so far that are remembered as removed. */
  remembered(user: string): string[] {
    const ids = Array.from({ length: this.#made }, (_, index) => `q${index + 1}`);
    return ids.filter((id) => this.queries.whyRemoved(id, user) !== undefined);
  }

  /** A query that has ended and been read to its end. */
  async addRead(owner = 'ann'): Promise<Query> {
    const query = this.add(owner);
    this.queries.hold(query);
    query.ended(outcome, 0);
    await readPage(query, 0);
    this.queries.release(query);
    return query;
  }

  tombstones(): string[] {
    return this.events.flatMap((event) => (event.type === 'query_removed' ? [`${event.query} ${event.reason}`] : []));
  }
}

t.test('a query is found by its user and does not exist for others', async (t) => {
  const stage = new Stage(t);
  const query = stage.add('ann');
  t.equal(stage.queries.find('q1', 'ann'), query);
  t.equal(stage.queries.find('q1', 'bob'), undefined);
  t.equal(stage.queries.find('q2', 'ann'), undefined);
  t.equal(stage.queries.size, 1);
});

t.test('a user may run as many queries as allowed, and another user is not hindered', async (t) => {
  const stage = new Stage(t, { queriesPerUserMax: 2 });
  const first = stage.add('ann');
  t.equal(stage.queries.admit('ann'), 'admitted');
  const second = stage.add('ann');
  t.equal(stage.queries.admit('ann'), 'user runs too many');
  t.equal(stage.queries.admit('bob'), 'admitted');
  first.ended(outcome, 0);
  t.equal(stage.queries.admit('ann'), 'admitted', 'a query that has ended runs no more, though its rows are unread');
  const third = stage.add('ann');
  t.equal(stage.queries.admit('ann'), 'user runs too many');
  stage.queries.finish(second);
  t.equal(stage.queries.admit('ann'), 'admitted', 'nor does one that was finished');
  third.failed(failureOf({ code: 1064, sqlstate: '42000', message: 'no' }, 'rolled_back'));
  stage.add('ann');
  t.equal(stage.queries.admit('ann'), 'admitted');
});

t.test('a user may leave as many results unread as allowed, and those that were read do not count', async (t) => {
  const stage = new Stage(t, { unreadPerUserMax: 2 });
  const first = stage.add('ann');
  const second = stage.add('ann');
  first.ended(outcome, 0);
  second.failed(failureOf({ code: 1064, sqlstate: '42000', message: 'no' }, 'rolled_back'));
  t.equal(stage.queries.admit('ann'), 'user leaves too many unread', 'a failure that is not read counts too');
  t.equal(stage.queries.admit('bob'), 'admitted');
  stage.queries.hold(first);
  await readPage(first, 0);
  stage.queries.release(first);
  t.equal(stage.queries.admit('ann'), 'admitted', 'one has been read');
  const third = stage.add('ann');
  t.equal(stage.queries.admit('ann'), 'user leaves too many unread');
  stage.queries.touch(first);
  stage.queries.finish(first);
  t.equal(stage.queries.admit('ann'), 'user leaves too many unread', 'one that was read counts once');
  stage.queries.finish(third);
  t.equal(stage.queries.admit('ann'), 'admitted', 'one was finished unread');
});

t.test('a full server admits nobody', async (t) => {
  const stage = new Stage(t, { queriesMax: 2 });
  stage.add('ann');
  const query = stage.add('ann');
  t.equal(stage.queries.admit('bob'), 'server full');
  query.ended(outcome, 0);
  t.equal(stage.queries.admit('bob'), 'server full', 'rows that nobody has read are kept');
  stage.queries.finish(query);
  t.equal(stage.queries.admit('bob'), 'admitted');
});

t.test('on a full server the result that was read longest ago makes room, and its tombstone says why', async (t) => {
  const stage = new Stage(t, { queriesMax: 3 });
  stage.add('ann');
  const first = await stage.addRead('ann');
  const second = await stage.addRead('bob');
  t.equal(stage.queries.admit('cid'), 'admitted');
  t.equal(stage.queries.find(first.identity.id, 'ann'), undefined);
  t.equal(stage.queries.find(second.identity.id, 'bob'), second);
  t.equal(stage.queries.whyRemoved(first.identity.id, 'ann'), 'was removed to make room: it had been read to its end');
  stage.add('cid');
  t.equal(stage.queries.admit('cid'), 'admitted');
  stage.add('cid');
  t.equal(stage.queries.admit('cid'), 'server full', 'the one that runs is never removed');
});

t.test('on a full server room is made by the user who has most results that were read', async (t) => {
  const stage = new Stage(t, { queriesMax: 5 });
  const first = await stage.addRead('ann');
  const bobs = [await stage.addRead('bob'), await stage.addRead('bob'), await stage.addRead('bob')];
  stage.add('cid');
  const has = () => bobs.map((query) => stage.queries.find(query.identity.id, 'bob') === query);
  for (const [user, left] of [
    ['bob', [false, true, true]],
    ['cid', [false, false, true]],
  ] as const) {
    t.equal(stage.queries.admit(user), 'admitted');
    stage.add(user);
    t.strictSame(has(), left);
    t.equal(stage.queries.find(first.identity.id, 'ann'), first, 'a user with fewer results loses none');
  }
  t.equal(stage.queries.admit('bob'), 'admitted');
  t.strictSame(has(), [false, false, false], 'of users with as many, the one who needs the room');
  t.equal(stage.queries.find(first.identity.id, 'ann'), first);
  stage.add('bob');
  t.equal(stage.queries.admit('bob'), 'admitted', 'who has nothing to give up takes that of the user who has most');
  t.equal(stage.queries.find(first.identity.id, 'ann'), undefined);
});

t.test('of the single-page results, only the latest are kept', async (t) => {
  const stage = new Stage(t, { singlePageResultsMax: 2 });
  const read = [];
  for (let index = 0; index < 3; index++) read.push(await stage.addRead('ann'));
  t.strictSame(
    read.map((query) => stage.queries.find(query.identity.id, 'ann') === query),
    [false, true, true],
  );
  const why = stage.queries.whyRemoved(read[0]?.identity.id ?? '', 'ann');
  t.equal(why, 'was removed to make room: its first answer was the whole result');
});

t.test('no user loses a single-page result because of a user who has more of them', async (t) => {
  const stage = new Stage(t, { singlePageResultsMax: 3 });
  const first = await stage.addRead('ann');
  for (let index = 0; index < 10; index++) await stage.addRead('bob');
  t.equal(stage.queries.find(first.identity.id, 'ann'), first);
  t.equal(stage.queries.size, 3);
});

t.test('a result that nobody polls expires, is cancelled, and the reason is remembered', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { resultTimeoutMs: 50 });
  const query = stage.add('ann');
  clock.tick(49);
  t.equal(stage.queries.size, 1, 'not before its time');
  clock.tick(1);
  t.equal(stage.queries.size, 0);
  t.equal(stage.queries.find('q1', 'ann'), undefined);
  t.match(query.snapshot().state, { name: 'Failed', failure: { code: 90003 } });
  t.equal(stage.queries.whyRemoved('q1', 'ann'), 'expired: not polled for 0.05 s');
  t.equal(stage.queries.whyRemoved('q1', 'bob'), undefined, 'for another user there was none');
  t.strictSame(stage.tombstones(), ['q1 expired: not polled for 0.05 s']);
});

t.test('E (result_timeout_secs): a query may have a timeout of its own', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { resultTimeoutMs: 30 });
  const [longer, shorter] = [makeQuery('longer'), makeQuery('shorter')];
  stage.queries.add(longer, 'SELECT 1', forever);
  stage.queries.add(shorter, 'SELECT 1', 10);
  stage.add('ann');
  clock.tick(10);
  t.match(stage.tombstones(), ['shorter expired: not polled for 0.01 s']);
  t.equal(stage.queries.size, 2);
  clock.tick(20);
  t.equal(stage.queries.size, 1, 'the others are gone');
  t.equal(stage.queries.find('longer', longer.identity.owner), longer);
  t.match(stage.tombstones(), ['shorter expired: not polled for 0.01 s', 'q1 expired: not polled for 0.03 s']);
});

t.test('a removed id is remembered for as long again, and then no more', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { resultTimeoutMs: 60 });
  const query = stage.add('ann');
  stage.queries.finish(query);
  t.equal(stage.queries.whyRemoved('q1', 'ann'), 'was finished by the client');
  clock.tick(59);
  t.equal(stage.queries.whyRemoved('q1', 'ann'), 'was finished by the client');
  clock.tick(61);
  t.equal(stage.queries.whyRemoved('q1', 'ann'), undefined, 'the id is forgotten');
});

t.test('a result expires by its last answer, not by its first', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { resultTimeoutMs: 200 });
  const query = stage.add('ann');
  for (let poll = 0; poll < 6; poll++) {
    clock.tick(50);
    stage.queries.touch(query);
  }
  clock.tick(199);
  t.equal(stage.queries.size, 1);
  clock.tick(1);
  t.equal(stage.queries.size, 0, '200 ms after the last answer');
});

t.test('the clock of a result stands while a poll waits, and begins anew with its answer', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { resultTimeoutMs: 40 });
  const query = stage.add('ann');
  stage.queries.hold(query);
  stage.queries.hold(query);
  clock.tick(120);
  t.equal(stage.queries.find('q1', 'ann'), query);
  stage.queries.release(query);
  clock.tick(120);
  t.equal(stage.queries.find('q1', 'ann'), query, 'one of two polls still waits');
  stage.queries.release(query);
  clock.tick(39);
  t.equal(stage.queries.size, 1);
  clock.tick(1);
  t.equal(stage.queries.size, 0, '40 ms after the answer');
});

t.test('the answer to a poll of a query that is gone starts no clock', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { resultTimeoutMs: 30 });
  const query = stage.add('ann');
  stage.queries.hold(query);
  stage.queries.finish(query);
  stage.queries.release(query);
  stage.queries.touch(query);
  clock.tick(60);
  t.strictSame(stage.tombstones(), ['q1 was finished by the client'], 'it is removed once');
});

t.test('a finished query is cancelled, and finishing it again does nothing', async (t) => {
  const stage = new Stage(t);
  const query = stage.add('ann');
  stage.queries.finish(query);
  t.match(query.snapshot().state, { failure: { code: 90002 } });
  t.equal(stage.queries.find('q1', 'ann'), undefined);
  stage.queries.finish(query);
  t.equal(stage.tombstones().length, 1);
  t.equal(stage.queries.whyRemoved('q1', 'bob'), undefined);
});

t.test('no more ids are remembered than allowed, and the latest ones', async (t) => {
  const stage = new Stage(t, { removedQueriesMax: 4 });
  for (let made = 0; made < 6; made++) stage.queries.finish(stage.add('ann'));
  t.strictSame(stage.remembered('ann'), ['q3', 'q4', 'q5', 'q6']);
});

t.test('A (attack): the removed queries of one user do not make those of others forgotten', async (t) => {
  const stage = new Stage(t, { removedQueriesMax: 20 });
  for (const user of ['ann', 'bob', 'eve']) {
    for (let made = 0; made < 5; made++) stage.queries.finish(stage.add(user));
  }
  for (let made = 0; made < 1_000; made++) stage.queries.finish(stage.add('eve'));
  t.strictSame(stage.remembered('ann'), ['q1', 'q2', 'q3', 'q4', 'q5']);
  t.strictSame(stage.remembered('bob'), ['q6', 'q7', 'q8', 'q9', 'q10']);
  const [first, ...more] = stage.remembered('eve');
  t.ok(more.length >= 7, `${more.length + 1} of eve's are remembered`);
  t.equal(stage.remembered('eve').at(-1), 'q1015');
  t.ok(Number(first?.slice(1)) > 1_000, 'the latest ones');

  for (let user = 0; user < 40; user++) stage.queries.finish(stage.add(`user${user}`));
  const users = Array.from({ length: 40 }, (_, user) => stage.remembered(`user${user}`).length);
  t.equal(users.at(-1), 1);
  t.ok(users.filter((count) => count > 0).length >= 10, 'many users have one each');
});

t.test('A (attack): a query whose POST may come again is not forgotten for queries whose POSTs may not', async (t) => {
  const stage = new Stage(t, { removedQueriesMax: 20 });
  const named = makeQuery('named', 'ann', { hasIdempotencyKey: true });
  stage.queries.add(named, 'SELECT 1');
  stage.queries.finish(named);
  for (let made = 0; made < 100; made++) stage.queries.finish(stage.add('ann'));
  t.ok(stage.queries.knows('named', 'ann'));
});

t.test('A (attack): users of whom nothing is remembered any more take no room', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { removedQueriesMax: 4, resultTimeoutMs: 20 });
  for (let user = 0; user < 4; user++) stage.queries.finish(stage.add(`user${user}`));
  clock.tick(60);
  for (let made = 0; made < 4; made++) stage.queries.finish(stage.add('ann'));
  t.strictSame(stage.remembered('ann'), ['q5', 'q6', 'q7', 'q8']);
});

t.test('a drain is over at once when nothing is unread, and else with the last answer', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t);
  await stage.queries.read(forever, forever);
  const read = await stage.addRead();
  await stage.queries.read(forever, forever);
  t.equal(stage.queries.find(read.identity.id, 'ann'), read, 'a result that was read may be asked for again');

  const query = stage.add();
  const drained = stage.queries.read(forever, forever);
  stage.queries.hold(query);
  query.ended(outcome, 0);
  await readPage(query, 0);
  clock.tick(1_000);
  t.equal(await isPending(drained), true, 'its answer has not left yet');
  stage.queries.release(query);
  t.equal(await isPending(drained), false);
});

t.test('a drain is over when the last unread result is finished', async (t) => {
  const stage = new Stage(t);
  const query = stage.add();
  const drained = stage.queries.read(forever, forever);
  stage.queries.finish(query);
  await drained;
  t.pass();
});

t.test('a drain is over when its time is', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t);
  stage.add();
  const drained = stage.queries.read(30, forever);
  clock.tick(29);
  t.equal(await isPending(drained), true);
  clock.tick(1);
  await drained;
  t.equal(stage.queries.size, 1);
});

t.test('B6: a drain does not wait for what is not polled', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t);
  const polled = stage.add();
  stage.add();
  const drained = stage.queries.read(forever, 50);
  stage.queries.hold(polled);
  clock.tick(100);
  t.equal(await isPending(drained), true, 'while a poll waits, it does');
  polled.ended(outcome, 0);
  await readPage(polled, 0);
  stage.queries.release(polled);
  await drained;
  t.equal(stage.queries.size, 2, 'both can be asked for until the server ends');
});

t.test('cancelling all fails what runs and leaves what has ended', async (t) => {
  const stage = new Stage(t);
  const running = stage.add();
  const ended = stage.add();
  ended.ended(outcome, 0);
  stage.queries.cancelAll();
  t.match(running.snapshot().state, { failure: { code: 90002, message: /the server is stopping/ } });
  t.equal(ended.snapshot().state.name, 'Succeeded');
  t.equal(stage.queries.size, 2, 'both can still be asked for');
});

t.test('closing ends every query and every clock', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { resultTimeoutMs: 20 });
  const query = stage.add();
  stage.queries.close();
  t.equal(stage.queries.size, 0);
  t.equal(query.isRunning, false);
  t.equal(clock.countTimers(), 0);
  clock.tick(40);
  t.strictSame(stage.tombstones(), []);
});

t.test('the events of a query come in order', async (t) => {
  const stage = new Stage(t);
  const query = stage.add('ann');
  query.failed(failureOf({ code: 1064, sqlstate: '42000', message: 'no' }, 'rolled_back'));
  stage.queries.finish(query);
  t.match(stage.events, [
    { type: 'query_started', query: 'q1', session: 's', user: 'ann' },
    { type: 'query_settled', query: 'q1', user: 'ann', state: 'Failed', code: 1064, rows: 0, bytes: 0 },
    { type: 'query_removed', query: 'q1', user: 'ann', reason: 'was finished by the client' },
  ]);
  t.equal(stage.events.length, 3);
});

t.test('a query that its client cancels is not waited for', async (t) => {
  const stage = new Stage(t);
  const query = stage.add();
  const read = stage.queries.read(forever, forever);
  query.cancelByClient();
  await read;
});

t.test('D3: a statement is logged only if that is asked for, where it came from always', async (t) => {
  const origin = { requestId: 'r1', client: '127.0.0.1' };
  for (const logSql of [false, true]) {
    for (const [sql, logged] of [
      ['SELECT 1', 'SELECT 1'],
      [`SELECT '${'x'.repeat(20_000)}'`, /^SELECT 'x{9992}\.\.\. \(20009 characters\)$/],
    ] as const) {
      const { events, queries } = new Stage(t, { logSql });
      const query = makeQuery('q', 'ann', { origin });
      queries.add(query, sql);
      query.failed(failureOf({ code: 1064, sqlstate: '42000', message: 'no' }, 'rolled_back'));
      const [started, settled] = events;
      t.same(started, { type: 'query_started', query: 'q', session: 's', user: 'ann' });
      t.match(settled, { type: 'query_settled', session: 's', queueMs: Number, runningMs: 0, ...origin });
      t.match((settled as { sql?: string }).sql, logSql ? logged : undefined);
    }
  }
});

t.test('B2: of a long statement, only the beginning is logged', async (t) => {
  const { events, queries } = new Stage(t, { logSql: true });
  const query = makeQuery('q', 'ann');
  queries.add(query, 'x'.repeat(10_001));
  query.ended(outcome, 0);
  t.match(events.at(-1), { type: 'query_settled', sql: `${'x'.repeat(10_000)}... (10001 characters)` });
});

t.test('a client that hangs up and stays away has its statement cancelled, if that is the way', async (t) => {
  const clock = installFakeClock(t);
  const stay = new Stage(t);
  const cancel = new Stage(t, { onDisconnect: 'cancel', disconnectMs: 20 });
  const poll = (stage: Stage, query: Query): void => {
    stage.queries.hold(query);
    stage.queries.release(query);
    stage.queries.hungUp(query);
  };
  const [kept, gone, back, polled, ended, finished] = [
    stay.add(),
    cancel.add(),
    cancel.add(),
    cancel.add(),
    cancel.add(),
    cancel.add(),
  ];
  poll(stay, kept);
  poll(cancel, gone);
  poll(cancel, back);
  t.equal(cancel.queries.find(back.identity.id, 'ann'), back);
  cancel.queries.hold(polled);
  poll(cancel, polled);
  ended.ended(outcome, 0);
  poll(cancel, ended);
  poll(cancel, finished);
  cancel.queries.finish(finished);
  clock.tick(100);
  t.equal(kept.isRunning, true);
  t.equal(back.isRunning, true);
  t.equal(polled.isRunning, true, 'another poll waits');
  t.equal(ended.snapshot().state.name, 'Succeeded');
  t.match(gone.snapshot().state, { name: 'Failed', failure: { code: 90002, message: /hung up.* 0\.02 s/ } });
  t.equal(gone.isDrained, true, 'nobody is waited for');
  t.equal(cancel.queries.find(gone.identity.id, 'ann'), gone, 'the record stays');
});

t.test('only its own user brings a query back', async (t) => {
  const clock = installFakeClock(t);
  const { queries } = new Stage(t, { onDisconnect: 'cancel', disconnectMs: 20 });
  const query = makeQuery('q', 'ann');
  queries.add(query, 'SELECT 1');
  queries.hungUp(query);
  t.equal(queries.find('q', 'ben'), undefined);
  clock.tick(100);
  t.equal(query.isRunning, false);
});
