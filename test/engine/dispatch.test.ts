import t, { type Test } from 'tap';
import { Dispatch, type Opener, type OpenResult } from '#src/engine/dispatch.js';
import type { QueryRequest } from '#src/engine/query-request.js';
import { Queue } from '#src/engine/queue.js';
import type { Query } from '#src/query/query.js';
import type { Lease } from '#src/session/lease.js';
import type { Leases } from '#src/session/leases.js';
import type { Movable, Session } from '#src/session/session.js';
import { causes, failureOf } from '#src/wire/failures.js';
import type { StatementHandle, StatementObserver, StatementRequest } from '#src/wire/statement.js';
import { makeQuery } from '../query/make-query.ts';
import { idleHandle } from '../query/run-by.ts';
import { installFakeClock } from '../support/fake-clock.ts';
import { turns } from '../support/turns.ts';

const account = { user: 'ann', password: 'secret', digest: 'd' };
const oneOff: QueryRequest = {
  sql: 'SELECT 1',
  session: { type: 'new', database: null, maxIdleSecs: 0 },
  pagination: { waitSecs: 1, maxRowsPerPage: 10, maxRowsInBuffer: 10 },
  timeoutSecs: null,
};
const carried = { type: 'client-managed', database: 'shop', variables: { sql_mode: 'ANSI' }, client: null } as const;
const pinned: QueryRequest = { ...oneOff, session: { type: 'existing', id: 's', otherwise: carried } };

/** The opener and the queue that a dispatch is given. */
class Stage implements Opener {
  readonly released: Lease[] = [];
  readonly discarded: Lease[] = [];
  readonly abandoned: unknown[] = [];
  readonly opened: QueryRequest[] = [];
  readonly leases = {
    release: (lease: Lease) => this.released.push(lease),
    discard: (lease: Lease) => this.discarded.push(lease),
  } as unknown as Leases;
  readonly queueWaitMs = 60_000;
  readonly queue = new Queue({ queueMax: 10, queueWaitMs: this.queueWaitMs }, () => true);
  next: () => OpenResult = () => null;

  readonly #test: Test;

  constructor(t: Test) {
    this.#test = t;
    t.teardown(() => this.queue.close());
  }

  open(request: QueryRequest): OpenResult {
    this.opened.push(request);
    return this.next();
  }

  abandon(placement: unknown): void {
    this.abandoned.push(placement);
  }

  dispatch(request: QueryRequest): { query: Query; dispatch: Dispatch } {
    const query = makeQuery();
    this.#test.teardown(() => query.cancel(causes.cancelled()));
    return { query, dispatch: new Dispatch(this, query, request, account) };
  }
}

class FakeLease {
  holder: { onIdle(): void; onLost(reason: string): void } | null = null;
  cancels = 0;
  runs = 0;

  run(_request: StatementRequest, _after: string, observer: StatementObserver): StatementHandle {
    this.runs++;
    observer.started();
    return { ...idleHandle, cancel: () => this.cancels++ };
  }

  get placement(): OpenResult {
    return { type: 'connection', lease: this as unknown as Lease };
  }
}

t.test(
  'a one-off statement gives its connection back, for others if it is idle and for nobody if it is lost',
  async (t) => {
    const stage = new Stage(t);
    for (const [end, given] of [
      ['onIdle', stage.released],
      ['onLost', stage.discarded],
    ] as const) {
      const lease = new FakeLease();
      const { dispatch, query } = stage.dispatch(oneOff);
      dispatch.begin(lease.placement as Awaited<OpenResult>);
      t.equal(lease.runs, 1);
      query.ended({ affectedRows: '0', lastInsertId: null, warnings: 0 }, 0);
      t.strictSame(given, [], 'the connection is not idle yet');
      lease.holder?.[end]('gone');
      t.equal(given[0], lease);
      t.equal(lease.holder, null);
    }
  },
);

t.test('a statement that was not sent is sent on another connection, within the window of a second', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t);
  const [first, second] = [new FakeLease(), new FakeLease()];
  const { dispatch, query } = stage.dispatch(oneOff);
  dispatch.begin(first.placement as Awaited<OpenResult>);
  stage.next = () => second.placement;
  clock.tick(999);
  query.notSent('it was lost');
  t.strictSame([second.runs, stage.discarded.length], [1, 1]);
  t.equal(first.holder, null, 'the end of the first connection does not end the second');
  t.equal(query.isRunning, true);
  clock.tick(1_000);
  t.equal(dispatch.canResend, false, 'the password is not kept any longer');
  query.notSent('it was lost too');
  t.match(query.snapshot().state, { failure: { code: 90006, outcome: 'not_started' } });
});

t.test('a statement of a kept session is not sent on another connection', async (t) => {
  const stage = new Stage(t);
  const { dispatch, query } = stage.dispatch({ ...oneOff, session: { ...carried, type: 'new', maxIdleSecs: 60 } });
  const session = { run: (_: unknown, observer: StatementObserver) => new FakeLease().run({} as never, '', observer) };
  dispatch.begin({ type: 'session', session: session as unknown as Session });
  t.equal(dispatch.canResend, false);
  query.notSent('gone');
  t.match(query.snapshot().state, { failure: { code: 90006, retryable: false } });
});

t.test('a statement is cancelled in every phase', async (t) => {
  const stage = new Stage(t);
  const waiting = stage.dispatch(oneOff);
  waiting.dispatch.begin(null);
  t.equal(waiting.dispatch.queuePosition(), 1);
  waiting.query.cancel(causes.cancelled());
  t.equal(stage.queue.size, 0);

  let opened: (placement: Awaited<OpenResult>) => void = () => {};
  stage.next = () => new Promise((resolve) => (opened = resolve));
  const opening = stage.dispatch(oneOff);
  opening.dispatch.begin(null);
  t.equal(stage.queue.size, 0, 'it has begun');
  opening.query.cancel(causes.cancelled());
  const late = new FakeLease().placement as Awaited<OpenResult>;
  opened(late);
  await turns();
  t.strictSame(stage.abandoned, [late]);

  const lease = new FakeLease();
  const running = stage.dispatch(oneOff);
  running.dispatch.begin(lease.placement as Awaited<OpenResult>);
  running.query.cancel(causes.cancelled());
  t.equal(lease.cancels, 1);
  t.strictSame(stage.released, [], 'its connection comes back when the kill is done');
  lease.holder?.onIdle();
  t.equal(stage.released.length, 1);
});

t.test('a statement whose connection the database refuses for want of room waits on', async (t) => {
  const stage = new Stage(t);
  stage.next = () => Promise.resolve(null);
  const { dispatch, query } = stage.dispatch(oneOff);
  dispatch.begin(null);
  t.equal(stage.queue.size, 0);
  stage.next = () => null;
  await turns();
  t.equal(dispatch.queuePosition(), 1);
  query.cancel(causes.cancelled());
});

t.test('a statement that fails before it is sent holds nothing', async (t) => {
  const stage = new Stage(t);
  const full = { run: (_: unknown, observer: StatementObserver) => fail(observer) } as unknown as Session;
  const fail = (observer: StatementObserver): StatementHandle => {
    observer.failed(failureOf(causes.sessionQueueFull(8), 'not_started'));
    return { ...idleHandle, cancel: () => t.fail('it is cancelled') };
  };
  const { dispatch, query } = stage.dispatch(pinned);
  dispatch.begin({ type: 'session', session: full });
  t.match(query.snapshot().state, { failure: { code: 90004 } });
  dispatch.cancel();
  t.equal(dispatch.canResend, false);
});

t.test('a statement that waits in a pinned session moves to one of its own when that ends without loss', async (t) => {
  const stage = new Stage(t);
  const movables: (Movable | null)[] = [];
  const session = {
    run: (_request: unknown, _observer: unknown, movable: Movable | null) => {
      movables.push(movable);
      return idleHandle;
    },
  } as unknown as Session;
  const lease = new FakeLease();
  stage.next = () => lease.placement;

  const moving = stage.dispatch(pinned);
  moving.dispatch.begin({ type: 'session', session });
  const { sessionId } = moving.query.identity;
  movables[0]?.move();
  t.match(stage.opened[0]?.session, carried);
  t.match(moving.query.statementRequest().options, { variables: { sql_mode: 'ANSI' } });
  t.not(moving.query.identity.sessionId, sessionId);
  t.equal(lease.runs, 1);

  const staying = stage.dispatch(pinned);
  staying.dispatch.begin({ type: 'session', session });
  movables[1]?.stay();
  movables[1]?.move();
  t.equal(stage.opened.length, 1, 'it runs where it is');
});
