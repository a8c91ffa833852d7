import { once } from 'node:events';
import t, { type Test } from 'tap';
import { Lease } from '#src/session/lease.js';
import { Session } from '#src/session/session.js';
import { installFakeClock } from '../support/fake-clock.ts';
import { anna, type FakeConnection, FakeLargeRows, FakeWorkers, Recorder, request } from './fake-workers.ts';

interface Opened {
  session: Session;
  connection: FakeConnection;
  ends: { reuse: boolean; reason: string }[];
  lease: Lease;
}

async function openSession(t: Test, idleMs: number, queueMax = 8): Promise<Opened> {
  const workers = new FakeWorkers();
  const lease = await Lease.open(workers.connect(), anna, new FakeLargeRows(), 0);
  const ends: { reuse: boolean; reason: string }[] = [];
  const keep = idleMs > 0 ? 'always' : 'never';
  const session = new Session({ id: 's', owner: 'anna', keep, idleMs, queueMax, client: null }, lease, {
    onPinned: () => t.fail('it is pinned'),
    onEnded: (_session, reuse, reason) => ends.push({ reuse, reason }),
  });
  t.teardown(() => {
    session.end('the test is over');
    lease.close();
    workers.close();
  });
  return { session, connection: await workers.connection(0), ends, lease };
}

t.test('a one-off session asks for a clean connection and ends, for reuse, with its statement', async (t) => {
  const { session, connection, ends, lease } = await openSession(t, 0);
  t.equal(session.isKept, false);
  const observer = new Recorder();
  session.run(request, observer);
  t.match(await connection.got(({ type }) => type === 'execute'), { after: 'clean' });
  connection.end(1);
  await observer.hears('ended');
  t.strictSame(ends, [], 'not before the connection is ready again');
  const idle = once(lease, 'idle');
  connection.post({ type: 'idle' });
  await idle;
  t.strictSame(ends, [{ reuse: true, reason: 'its statement ended' }]);
});

t.test('the statements of a kept session run one at a time in order of arrival', async (t) => {
  const { session, connection } = await openSession(t, 60_000);
  const observers = ['a', 'b', 'c'].map((sql) => {
    const observer = new Recorder();
    session.run({ ...request, sql }, observer);
    return observer;
  });
  await connection.gotExecute('a');
  t.strictSame(observers[1]?.reported, [], 'a waiting statement has not started');
  connection.end(1);
  await observers[0]?.hears('ended');
  t.strictSame(connection.executed, ['a'], 'the next one waits until the connection is ready');
  connection.post({ type: 'idle' });
  await connection.gotExecute('b');
  connection.endAndIdle(2);
  await connection.gotExecute('c');
  connection.endAndIdle(3);
  await observers[2]?.hears('ended');
  t.strictSame(connection.executed, ['a', 'b', 'c']);
  t.ok(
    connection.received.every((message) => message.type !== 'execute' || message.after === 'keep'),
    'nothing is cleaned up between them',
  );
});

t.test('one statement more than may wait fails with 90004 and takes no place', async (t) => {
  const { session, connection } = await openSession(t, 60_000, 2);
  for (const sql of ['a', 'b', 'c']) session.run({ ...request, sql }, new Recorder());
  const refused = new Recorder();
  const handle = session.run({ ...request, sql: 'd' }, refused);
  t.strictSame(refused.reported, ['failed 90004']);
  handle.cancel();
  handle.credit(1, 1);
  connection.endAndIdle(1);
  await connection.gotExecute('b');
  session.run({ ...request, sql: 'e' }, new Recorder());
  for (const statement of [2, 3, 4]) {
    await connection.got((message) => message.type === 'execute' && message.statement === statement);
    connection.endAndIdle(statement);
  }
  t.strictSame(connection.executed, ['a', 'b', 'c', 'e']);
});

t.test('a waiting statement that is cancelled is never sent, and its place is free', async (t) => {
  const { session, connection } = await openSession(t, 60_000, 2);
  session.run({ ...request, sql: 'a' }, new Recorder());
  const waiting = new Recorder();
  const handle = session.run({ ...request, sql: 'b' }, waiting);
  session.run({ ...request, sql: 'c' }, new Recorder());
  handle.cancel();
  handle.cancel();
  const last = new Recorder();
  session.run({ ...request, sql: 'd' }, last);
  t.strictSame(last.reported, [], 'it waits in the place that is free');
  connection.endAndIdle(1);
  await connection.gotExecute('c');
  connection.endAndIdle(2);
  await connection.gotExecute('d');
  t.strictSame(connection.executed, ['a', 'c', 'd']);
  t.strictSame(waiting.reported, []);
});

t.test('the handle of a statement that waited works once it runs', async (t) => {
  const { session, connection } = await openSession(t, 60_000);
  session.run({ ...request, sql: 'a' }, new Recorder());
  const handle = session.run({ ...request, sql: 'b' }, new Recorder());
  handle.credit(1, 1);
  handle.askExamined();
  connection.endAndIdle(1);
  await connection.gotExecute('b');
  handle.credit(7, 3);
  handle.cancel();
  t.match(await connection.got(({ type }) => type === 'credit'), { statement: 2, bytes: 7, rows: 3 });
  t.match(await connection.got(({ type }) => type === 'cancel'), { statement: 2 });
});

t.test('the clock of a kept session runs only while nothing runs', async (t) => {
  const clock = installFakeClock(t);
  const { session, connection, ends, lease } = await openSession(t, 150);
  session.run({ ...request, sql: 'a' }, new Recorder());
  clock.tick(300);
  t.strictSame(ends, [], 'a statement that runs longer than the idle time does not end the session');
  let idle = once(lease, 'idle');
  connection.endAndIdle(1);
  await idle;
  clock.tick(149);
  session.run({ ...request, sql: 'b' }, new Recorder());
  clock.tick(300);
  t.strictSame(ends, []);
  idle = once(lease, 'idle');
  connection.endAndIdle(2);
  await idle;
  clock.tick(149);
  t.strictSame(ends, []);
  clock.tick(1);
  t.strictSame(ends, [{ reuse: false, reason: 'idle for 0.15 s' }]);
});

t.test('a lost connection ends the session, fails what runs and what waits, each with 90006', async (t) => {
  const { session, connection, ends, lease } = await openSession(t, 60_000);
  const [running, waiting, cancelled] = [new Recorder(), new Recorder(), new Recorder()];
  session.run({ ...request, sql: 'DELETE FROM t' }, running);
  session.run(request, waiting);
  session.run(request, cancelled).cancel();
  const lost = once(lease, 'lost');
  connection.lose('the server went away');
  await lost;
  t.strictSame(running.reported, ['started', 'failed 90006']);
  t.match(running.failure, { outcome: 'unknown', retryable: false });
  t.match(running.failure?.message, /whether the statement took effect is unknown/);
  t.strictSame(waiting.reported, ['failed 90006']);
  t.match(waiting.failure, { outcome: 'not_started', retryable: false });
  t.match(waiting.failure?.message, /before the statement was sent/);
  t.strictSame(cancelled.reported, []);
  t.strictSame(ends, [{ reuse: false, reason: 'the server went away' }]);
});

t.test('a session ends once', async (t) => {
  const { session, ends, connection, lease } = await openSession(t, 60_000);
  session.run(request, new Recorder());
  session.end('first');
  session.end('second');
  connection.endAndIdle(1);
  connection.lose('third');
  await once(lease, 'lost');
  t.strictSame(ends, [{ reuse: false, reason: 'first' }]);
});
