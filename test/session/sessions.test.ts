import { once } from 'node:events';
import t, { type Test } from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { Leases } from '#src/session/leases.js';
import type { Session } from '#src/session/session.js';
import { Sessions, type SessionsOptions } from '#src/session/sessions.js';
import { SpillUsers } from '#src/session/spill-users.js';
import type { SessionState } from '#src/wire/statement.js';
import { installFakeClock } from '../support/fake-clock.ts';
import { FakeLargeRows, FakeWorkers, outcome, Recorder, request } from './fake-workers.ts';

interface Opened {
  sessions: Sessions;
  workers: FakeWorkers;
  events: ServiceEvent[];
}

function openSessions(t: Test, options: Partial<SessionsOptions> = {}): Opened {
  const workers = new FakeWorkers();
  const events: ServiceEvent[] = [];
  const leases = new Leases(
    {
      defaultDatabase: null,
      connectionsMax: 10,
      connectionsPerUserMax: 10,
      connectionIdleMs: 60_000,
      connectionAgeMs: 60_000,
      loginWaitMs: 60_000,
      largeRowMemory: new FakeLargeRows(),
      spillUsers: new SpillUsers(8),
    },
    workers.pool,
    () => {},
  );
  const sessions = new Sessions(
    {
      sessionsMax: 2,
      sessionsPerUserMax: 2,
      sessionIdleMsMax: 60_000,
      pinnedSessionIdleMs: 60_000,
      endedMax: 10,
      sessionQueueMax: 8,
      ...options,
    },
    leases,
    (event) => events.push(event),
  );
  t.teardown(() => {
    sessions.endAll('the test is over');
    leases.close();
    workers.close();
  });
  return { sessions, workers, events };
}

/** A session, for which there must be a connection. */
async function open(sessions: Sessions, ...how: Parameters<Sessions['open']>): Promise<Session> {
  const session = await sessions.open(...how);
  if (session === null) throw new Error('all connections are in use');
  return session;
}

const anna = { user: 'anna', password: '', digest: 'anna' };

t.test('a kept session is found by its id, by its user alone', async (t) => {
  const { sessions } = openSessions(t);
  const session = await open(sessions, anna, null, 1_000);
  t.equal(sessions.find(session.id, 'anna'), session);
  t.equal(sessions.find(session.id, 'bert'), undefined);
  t.equal(sessions.find('nonsense', 'anna'), undefined);
  t.match(session.id, /^[0-9a-f]{32}$/);
});

t.test('a one-off session is not found, and its connection serves the next one', async (t) => {
  const { sessions, workers } = openSessions(t);
  const session = await open(sessions, anna, null, 0);
  t.equal(sessions.find(session.id, 'anna'), undefined);
  session.run(request, new Recorder());
  const idle = once(session.lease, 'idle');
  workers.connections[0]?.endAndIdle(1);
  await idle;
  const next = await open(sessions, anna, null, 0);
  t.equal(next.lease, session.lease);
  t.not(next.id, session.id);
  t.equal(workers.connections.length, 1);
});

t.test('the connection of a kept session is closed with it', async (t) => {
  const { sessions, workers, events } = openSessions(t);
  const session = await open(sessions, anna, 'shop', 1_000);
  t.equal(workers.connections[0]?.login.database, 'shop');
  session.end('enough');
  await workers.connections[0]?.gone();
  t.equal(sessions.find(session.id, 'anna'), undefined);
  t.strictSame(events, [
    { type: 'session_opened', session: session.id, user: 'anna' },
    { type: 'session_ended', session: session.id, user: 'anna', reason: 'enough' },
  ]);
});

t.test('there are no more kept sessions than allowed, those being opened counted', async (t) => {
  const { sessions, workers } = openSessions(t);
  const opening = [sessions.open(anna, null, 1_000), sessions.open(anna, null, 1_000)];
  await t.rejects(async () => open(sessions, anna, null, 1_000), { message: /--sessions_max/ });
  await t.resolves(async () => open(sessions, anna, null, 0), 'a one-off session does not count');
  const [first] = await Promise.all(opening);
  await t.rejects(async () => open(sessions, anna, null, 1_000), { message: /--sessions_max/ });
  first?.end('enough');
  await t.resolves(async () => open(sessions, anna, null, 1_000));
  workers.refusalFor = () => ({ kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: 'no' } });
});

t.test('a session that could not be opened leaves its place', async (t) => {
  const { sessions, workers } = openSessions(t, { sessionsMax: 1 });
  workers.refusalFor = () => ({ kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: 'no' } });
  await t.rejects(async () => open(sessions, anna, null, 1_000), { message: 'no' });
  workers.refusalFor = () => null;
  await t.resolves(async () => open(sessions, anna, null, 1_000));
});

t.test('a lost connection makes the session unknown', async (t) => {
  const { sessions, workers } = openSessions(t);
  const session = await open(sessions, anna, null, 1_000);
  const lost = once(session.lease, 'lost');
  workers.connections[0]?.lose('killed');
  await lost;
  t.equal(sessions.find(session.id, 'anna'), undefined);
});

t.test('the idle time that a client asks for is bounded', async (t) => {
  const clock = installFakeClock(t);
  const { sessions, workers, events } = openSessions(t, { sessionIdleMsMax: 50 });
  const session = await open(sessions, anna, null, 1_000_000);
  session.run(request, new Recorder());
  const idle = once(session.lease, 'idle');
  workers.connections[0]?.endAndIdle(1);
  await idle;
  clock.tick(50);
  await workers.connections[0]?.gone();
  t.match(events[1], { type: 'session_ended', reason: 'idle for 0.05 s' });
});

const left: SessionState = { schema: null, variables: {}, inTransaction: false, isPinned: false, isChanged: false };
const begun: SessionState = { ...left, inTransaction: true, isPinned: true };

/** A carried session, and how its statements end. */
async function openClientManaged({ sessions, workers }: Opened, client: string | null = null) {
  const session = await sessions.openClientManaged(anna, null, client);
  if (session === null) throw new Error('all connections are in use');
  const connection = await workers.connection(workers.connections.length - 1);
  let statement = 0;
  const run = async (state: SessionState): Promise<void> => {
    const recorder = new Recorder();
    session.run(request, recorder);
    const idle = once(session.lease, 'idle');
    connection.post({
      ...{ type: 'update', statement: ++statement, session: state, idle: true },
      end: { ok: true, outcome, rowsToCome: 0 },
    });
    await idle;
    t.strictSame(recorder.reported, ['started', `left ${JSON.stringify(state)}`, 'ended']);
  };
  return { session, connection, run };
}

t.test('a carried session whose statement leaves nothing ends with it, for reuse', async (t) => {
  const opened = openSessions(t);
  const { session, connection, run } = await openClientManaged(opened);
  await run(left);
  t.match(await connection.got(({ type }) => type === 'execute'), { after: 'pin' });
  t.equal(opened.sessions.find(session.id, 'anna'), undefined);
  t.equal(opened.sessions.size, 0);
  t.equal((await open(opened.sessions, anna, null, 0)).lease, session.lease);
  t.strictSame(opened.events, [], 'it was never kept');
});

t.test('a client-managed session is pinned while it has state that its client cannot carry', async (t) => {
  const opened = openSessions(t);
  const { session, run } = await openClientManaged(opened);
  t.notOk(session.isKept);
  await run(begun);
  t.equal(opened.sessions.find(session.id, 'anna'), session);
  t.equal(opened.sessions.find(session.id, 'bert'), undefined);
  t.ok(session.isKept);
  await run(begun);
  t.equal(opened.sessions.size, 1);
  await run(left);
  t.equal(opened.sessions.find(session.id, 'anna'), undefined);
  t.equal(opened.sessions.whyEnded(session.id, 'anna'), 'its statement ended');
  t.equal((await open(opened.sessions, anna, null, 0)).lease, session.lease, 'its connection serves the next one');
});

t.test('a pinned session without a heartbeat ends after its idle time, and the reason is kept', async (t) => {
  const clock = installFakeClock(t);
  const opened = openSessions(t, { pinnedSessionIdleMs: 60 });
  const { session, connection, run } = await openClientManaged(opened, 'laptop');
  await run(begun);
  for (let sign = 0; sign < 5; sign++) {
    clock.tick(25);
    opened.sessions.renew('laptop', 'anna');
  }
  t.equal(opened.sessions.find(session.id, 'anna'), session, 'its client has kept it alive');
  const strangers = [
    ['phone', 'anna'],
    ['laptop', 'bert'],
    [null, 'anna'],
  ] as const;
  for (const [client, user] of strangers) {
    opened.sessions.renew(client, user);
    opened.sessions.endOf(client ?? 'phone', user, 'gone');
  }
  t.equal(opened.sessions.find(session.id, 'anna'), session, 'others do not end it');
  clock.tick(59);
  t.equal(opened.sessions.find(session.id, 'anna'), session, 'the clock began anew with each sign');
  for (const [client, user] of strangers) opened.sessions.renew(client, user);
  clock.tick(1);
  await connection.gone();
  t.equal(opened.sessions.whyEnded(session.id, 'anna'), 'idle for 0.06 s');
  t.equal(opened.sessions.whyEnded(session.id, 'bert'), undefined);
});

t.test('a logout ends the pinned sessions of the client', async (t) => {
  const opened = openSessions(t);
  const { connection, run } = await openClientManaged(opened, 'laptop');
  await run(begun);
  opened.sessions.endOf('laptop', 'anna', 'logged out');
  await connection.gone();
  t.equal(opened.sessions.size, 0);
});

t.test('a session that would be pinned beyond the limit ends, and the reason is kept', async (t) => {
  const opened = openSessions(t, { sessionsPerUserMax: 1 });
  await open(opened.sessions, anna, null, 1_000);
  const { session, connection } = await openClientManaged(opened);
  const recorder = new Recorder();
  session.run(request, recorder);
  connection.post({ type: 'update', statement: 1, session: begun, end: { ok: true, outcome, rowsToCome: 0 } });
  await connection.gone();
  t.equal(recorder.reported.at(-1), 'ended', 'the end of its statement is still reported');
  t.match(opened.sessions.whyEnded(session.id, 'anna'), /--sessions_per_user_max/);
  t.equal(opened.sessions.size, 1);
});

t.test('a session that a cancelled statement has pinned ends, and its connection is not reused', async (t) => {
  const opened = openSessions(t);
  const { session, connection } = await openClientManaged(opened);
  session.run(request, new Recorder()).cancel();
  connection.post({ type: 'idle', session: begun });
  await connection.gone();
  t.equal(opened.sessions.find(session.id, 'anna'), undefined);
  t.not((await open(opened.sessions, anna, null, 0)).lease, session.lease);
});

t.test('a session whose state a cancelled statement has ended is not pinned any more', async (t) => {
  const opened = openSessions(t);
  const { session, connection, run } = await openClientManaged(opened);
  await run(begun);
  session.run(request, new Recorder()).cancel();
  const idle = once(session.lease, 'idle');
  connection.post({ type: 'idle', session: left });
  await idle;
  t.equal(opened.sessions.find(session.id, 'anna'), undefined);
  t.equal((await open(opened.sessions, anna, null, 0)).lease, session.lease);
});
