import t, { type Test } from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { Lease } from '#src/session/lease.js';
import { type LeaseOwner, Leases, type LeasesOptions } from '#src/session/leases.js';
import { SpillUsers } from '#src/session/spill-users.js';
import type { Refusal } from '#src/wire/messages.js';
import { installFakeClock } from '../support/fake-clock.ts';
import { isPending } from '../support/turns.ts';
import { until } from '../support/until.ts';
import { FakeLargeRows, FakeWorkers, Recorder, request } from './fake-workers.ts';

const denied: Refusal = { kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: 'Access denied' } };
const full: Refusal = {
  kind: 'max connections',
  failure: { code: 1040, sqlstate: '08004', message: 'Too many connections' },
};
const noDatabase: Refusal = {
  kind: 'database',
  failure: { code: 1049, sqlstate: '42000', message: 'Unknown database' },
};

function ownerOf(user: string, database: string | null = null): LeaseOwner {
  return { login: { user, password: '', database }, digest: user };
}

interface Opened {
  leases: Leases;
  workers: FakeWorkers;
  events: ServiceEvent[];
}

function openLeases(t: Test, options: Partial<LeasesOptions> = {}): Opened {
  const workers = new FakeWorkers();
  const events: ServiceEvent[] = [];
  const leases = new Leases(
    {
      defaultDatabase: null,
      connectionsMax: 2,
      connectionsPerUserMax: options.connectionsMax ?? 2,
      connectionIdleMs: 60_000,
      connectionAgeMs: 60_000,
      loginWaitMs: 60_000,
      largeRowMemory: new FakeLargeRows(),
      spillUsers: new SpillUsers(8),
      ...options,
    },
    workers.pool,
    (event) => events.push(event),
  );
  t.teardown(() => {
    leases.close();
    workers.close();
  });
  return { leases, workers, events };
}

/** A connection, of which there must be one. */
async function acquire(leases: Leases, owner: string | LeaseOwner): Promise<Lease> {
  const lease = await leases.acquire(typeof owner === 'string' ? ownerOf(owner) : owner);
  if (lease === null) throw new Error('all connections are in use');
  return lease;
}

function countFrees(leases: Leases): { count: number } {
  const frees = { count: 0 };
  leases.on('free', () => frees.count++);
  return frees;
}

/** Resolves with the next `free` event. */
function nextFree(leases: Leases): Promise<void> {
  return new Promise((resolve) => {
    leases.once('free', resolve);
  });
}

t.test('a connection whose thread is held up is left unused while there is another', async (t) => {
  const { leases, workers } = openLeases(t);
  const first = (await leases.acquire(ownerOf('anna'))) as Lease;
  const second = (await leases.acquire(ownerOf('anna'))) as Lease;
  leases.release(second);
  leases.release(first);
  const [linkOfFirst, linkOfSecond] = [workers.linkOf(0), workers.linkOf(1)];
  linkOfFirst.isAnswering = false;
  t.equal(await leases.acquire(ownerOf('anna')), second, 'though the other was used last');
  leases.release(second);
  linkOfSecond.isAnswering = false;
  const third = (await leases.acquire(ownerOf('anna'))) as Lease;
  t.equal(workers.connections.length, 3, 'a new one is opened if there is none, on whatever thread is at hand');
  leases.release(third);
  linkOfFirst.isAnswering = true;
  linkOfSecond.isAnswering = true;
  t.equal(await leases.acquire(ownerOf('anna')), third);
});

t.test('a connection that was given back serves the next statement of its user and database', async (t) => {
  const { leases, workers } = openLeases(t);
  const first = await acquire(leases, 'anna');
  leases.release(first);
  const second = await acquire(leases, 'anna');
  t.equal(second, first);
  t.equal(workers.connections.length, 1);
});

t.test('users, passwords and databases do not share connections', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 10 });
  const owners = [
    ownerOf('anna'),
    ownerOf('bert'),
    ownerOf('anna', 'shop'),
    { login: { user: 'anna', password: 'new', database: null }, digest: 'anna with another password' },
  ];
  for (const owner of owners) leases.release(await acquire(leases, owner));
  t.equal(workers.connections.length, owners.length);
  for (const [number, owner] of owners.entries()) {
    await leases.acquire(owner);
    t.strictSame(workers.connections[number]?.login, owner.login);
  }
  t.equal(workers.connections.length, owners.length, 'each found its own again');
});

t.test('the database of the configuration is entered by those who name none', async (t) => {
  const { leases, workers } = openLeases(t, { defaultDatabase: 'shop' });
  await acquire(leases, 'anna');
  await leases.acquire(ownerOf('anna', 'other'));
  t.strictSame(
    workers.connections.map(({ login }) => login.database),
    ['shop', 'other'],
  );
});

t.test('the connection that was used last is used next', async (t) => {
  const { leases } = openLeases(t, { connectionsMax: 3 });
  const [a, b] = [await acquire(leases, 'anna'), await acquire(leases, 'anna')];
  leases.release(b);
  leases.release(a);
  t.equal(await acquire(leases, 'anna'), a);
});

t.test('without a free connection there is none, and an event says when there may be one', async (t) => {
  const { leases } = openLeases(t);
  const frees = countFrees(leases);
  const [a, b] = [await acquire(leases, 'anna'), await acquire(leases, 'anna')];
  frees.count = 0;
  t.equal(leases.acquire(ownerOf('bert')), null);
  t.equal(leases.acquire(ownerOf('anna')), null);
  leases.release(a);
  t.equal(frees.count, 1, 'one was given back');
  t.equal(leases.acquire(ownerOf('anna')), a, 'it is given out at once, without a new login');
  t.equal(leases.acquire(ownerOf('anna')), null);
  leases.discard(b);
  t.equal(frees.count, 2, 'one was closed');
  t.not(await acquire(leases, 'bert'), null);
});

t.test('connections that are being opened are counted', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 1 });
  workers.refusalFor = () => 'later';
  const opening = leases.acquire(ownerOf('anna'));
  t.equal(leases.acquire(ownerOf('bert')), null);
  (await workers.connection(0)).post({
    type: 'opened',
    connection: 1,
    version: '8.4.3',
    connectionsMax: 1_000,
    userConnectionsMax: 0,
  });
  t.type(await opening, Lease);
  t.equal(leases.acquire(ownerOf('bert')), null);
});

t.test('the connection that was idle the longest is closed for one of another user', async (t) => {
  const clock = installFakeClock(t);
  const { leases, workers } = openLeases(t);
  const a = await acquire(leases, 'anna');
  const b = await acquire(leases, 'bert');
  leases.release(b);
  clock.tick(5);
  leases.release(a);
  await acquire(leases, 'carl');
  await workers.connections[1]?.gone();
  t.equal(b.isClosed, true);
  t.equal(a.isClosed, false);
  t.equal(workers.open.length, 2);
});

t.test('a refused login frees its connection, and an event says so', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 1 });
  workers.refusalFor = (login) => (login.user === 'mallory' ? 'later' : null);
  const refused = leases.acquire(ownerOf('mallory'));
  t.equal(leases.acquire(ownerOf('anna')), null);
  const free = nextFree(leases);
  (await workers.connection(0)).refuse(denied);
  await t.rejects(async () => refused, { message: denied.failure.message });
  await free;
  t.equal((await acquire(leases, 'anna')).isClosed, false);
});

t.test('a lost connection is counted no longer, lent or idle, and an event says so', async (t) => {
  const { leases, workers, events } = openLeases(t, { connectionsMax: 1 });
  await acquire(leases, 'anna');
  t.equal(leases.acquire(ownerOf('bert')), null);
  let free = nextFree(leases);
  workers.connections[0]?.lose('gone while lent');
  await free;
  const lease = await acquire(leases, 'bert');
  leases.release(lease);
  free = nextFree(leases);
  workers.connections[1]?.lose('gone while idle');
  await free;
  t.strictSame(
    events.map((event) => (event.type === 'connection_lost' ? `${event.user}: ${event.reason}` : event.type)),
    ['anna: gone while lent', 'bert: gone while idle'],
  );
  const fresh = await acquire(leases, 'bert');
  t.not(fresh, lease, 'a lost connection is not given out');
});

t.test('a thread that dies takes the leases on it and no others', async (t) => {
  const { leases, workers } = openLeases(t);
  const [a, b] = [await acquire(leases, 'anna'), await acquire(leases, 'anna')];
  const [doomed, other] = [new Recorder(), new Recorder()];
  a.run(request, 'keep', doomed);
  b.run(request, 'keep', other);
  workers.connections[0]?.die();
  await doomed.hears('failed 90006');
  workers.connections[1]?.end(1);
  await other.hears('ended');
  const replacement = await acquire(leases, 'anna');
  t.not(replacement, b);
});

t.test('a connection that is not used is closed after its idle time', async (t) => {
  const clock = installFakeClock(t);
  const { leases, workers } = openLeases(t, { connectionIdleMs: 200 });
  const lease = await acquire(leases, 'anna');
  leases.release(lease);
  clock.tick(199);
  t.equal(lease.isClosed, false);
  // It is looked for often, but not all the time.
  clock.tick(101);
  t.equal(lease.isClosed, true);
  await workers.connections[0]?.gone();
  t.not((await acquire(leases, 'anna')).isClosed, true);
  t.equal(workers.connections.length, 2);
});

t.test('A4: a connection whose login is too long ago serves no new statement', async (t) => {
  const clock = installFakeClock(t);
  const { leases, workers } = openLeases(t, { connectionAgeMs: 300 });
  const first = await acquire(leases, 'anna');
  leases.release(first);
  for (const ms of [0, 150, 149]) {
    clock.tick(ms);
    t.equal(await acquire(leases, 'anna'), first);
    leases.release(first);
  }
  clock.tick(1);
  const second = await acquire(leases, 'anna');
  t.not(second, first, 'another one after 300 ms');
  leases.release(second);
  await workers.connections[0]?.gone();
  const lent = await acquire(leases, 'anna');
  clock.tick(310);
  t.equal(lent.isClosed, false, 'one that is in use stays open');
  leases.release(lent);
  t.equal(lent.isClosed, true, 'until it is given back');
});

t.test('A4: when a login is refused, what was opened with it ends', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 10 });
  const denials: string[] = [];
  leases.on('denied', (digest) => denials.push(digest));
  const [idle, running, other] = [
    await acquire(leases, 'anna'),
    await acquire(leases, 'anna'),
    await acquire(leases, 'bert'),
  ];
  const elsewhere = await acquire(leases, ownerOf('anna', 'shop'));
  leases.release(idle);
  leases.release(elsewhere);
  const [cancelled, left] = [new Recorder(), new Recorder()];
  running.run(request, 'clean', cancelled);
  other.run(request, 'clean', left);
  workers.refusalFor = (login) => (login.user === 'anna' ? denied : null);
  await t.rejects(leases.login(ownerOf('anna')), { message: denied.failure.message });
  t.strictSame(denials, ['anna']);
  t.strictSame([idle.isClosed, elsewhere.isClosed, other.isClosed], [true, true, false]);
  await cancelled.hears('failed 90002');
  await workers.connections[1]?.got(({ type }) => type === 'cancel');
  leases.release(running);
  t.equal(running.isClosed, true, 'it is not kept for another statement');
  workers.connections[2]?.end(1);
  await left.hears('ended');
});

t.test('B4: what the database accepts is the limit, less a reserve', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 128 });
  workers.connectionsMax = 10;
  for (let count = 0; count < 8; count++) await acquire(leases, `user ${count}`);
  t.equal(leases.acquire(ownerOf('anna')), null);
  const limited = openLeases(t, { connectionsMax: 128 });
  limited.workers.userConnectionsMax = 5;
  for (let count = 0; count < 3; count++) await acquire(limited.leases, 'anna');
  t.equal(limited.leases.acquire(ownerOf('anna')), null);
  await acquire(limited.leases, 'bert');
});

t.test('B4: a connection that the database has no room for can be tried again, and idle ones make room', async (t) => {
  const clock = installFakeClock(t);
  const { leases, workers, events } = openLeases(t, { connectionsMax: 10 });
  const idle = await acquire(leases, 'bert');
  leases.release(idle);
  workers.refusalFor = (login) => (login.user === 'anna' ? full : null);
  await t.rejects(async () => leases.acquire(ownerOf('anna')), { message: full.failure.message });
  t.equal(idle.isClosed, true);
  t.match(events, [{ type: 'database_full', reason: full.failure.message }]);
  t.equal(leases.acquire(ownerOf('anna')), null, 'not at once');
  workers.refusalFor = () => null;
  const free = nextFree(leases);
  clock.tick(49);
  t.equal(leases.acquire(ownerOf('anna')), null);
  clock.tick(3);
  await free;
  t.not(await acquire(leases, 'anna'), null);
});

t.test('B4: a login that the database has no room for is tried again', async (t) => {
  const clock = installFakeClock(t);
  const { leases, workers } = openLeases(t, { connectionsMax: 10 });
  const lent = await acquire(leases, 'bert');
  const timers = clock.countTimers();
  const isToBeTriedAgain = (): boolean => clock.countTimers() > timers;
  let refusals = 0;
  workers.refusalFor = (login) => (login.user === 'anna' && refusals++ < 2 ? full : null);
  const login = leases.login(ownerOf('anna'));
  await until(isToBeTriedAgain);
  t.equal(refusals, 1);
  leases.release(lent);
  t.equal(lent.isClosed, true, 'what is given back makes room for it');
  clock.tick(50);
  await until(isToBeTriedAgain);
  t.equal(refusals, 2);
  clock.tick(100);
  await login;
  t.equal(refusals, 3);
  workers.refusalFor = () => full;
  await t.rejects(leases.login(ownerOf('carl'), false), { message: full.failure.message });
});

t.test('a login leaves a connection for use if there is room, and none if there is not', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 1 });
  await leases.login(ownerOf('anna'));
  await acquire(leases, 'anna');
  t.equal(workers.connections.length, 1);
  await leases.login(ownerOf('anna'));
  await workers.connections[1]?.gone();
  t.equal(workers.open.length, 1);
});

t.test('a login is right also where the default database cannot be entered', async (t) => {
  const { leases, workers } = openLeases(t, { defaultDatabase: 'gone' });
  workers.refusalFor = () => noDatabase;
  await t.resolves(leases.login(ownerOf('anna')));
  await t.rejects(async () => leases.acquire(ownerOf('anna')), { message: noDatabase.failure.message });
});

t.test('a statement that runs is waited for when all is to settle, but not for ever', async (t) => {
  const clock = installFakeClock(t);
  const { leases, workers } = openLeases(t);
  t.equal(await leases.settled(60_000), true);
  const lease = await acquire(leases, 'anna');
  lease.run(request, 'clean', new Recorder());
  const overdue = leases.settled(50);
  clock.tick(49);
  t.equal(await isPending(overdue), true);
  clock.tick(1);
  t.equal(await overdue, false);
  const settled = leases.settled(60_000);
  workers.connections[0]?.endAndIdle(1);
  t.equal(await settled, true);
});

t.test('closing closes every connection, lent out or idle', async (t) => {
  const { leases, workers } = openLeases(t);
  const idle = await acquire(leases, 'anna');
  await acquire(leases, 'bert');
  leases.release(idle);
  leases.close();
  for (const connection of workers.connections) await connection.gone();
  t.equal(workers.open.length, 0);
});
