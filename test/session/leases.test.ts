import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { ServiceEvent } from '#src/events.js';
import type { Lease } from '#src/session/lease.js';
import { type LeaseOwner, Leases, type LeasesOptions } from '#src/session/leases.js';
import type { Refusal } from '#src/wire/messages.js';
import { FakeWorkers, Recorder, request } from './fake-workers.ts';

const denied: Refusal = { kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: 'Access denied' } };
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
      connectionQueueMax: 3,
      connectionWaitMs: 10_000,
      connectionIdleMs: 60_000,
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

async function until(check: () => boolean): Promise<void> {
  const deadline = performance.now() + 5_000;
  while (!check()) {
    if (performance.now() > deadline) throw new Error('it did not come to pass in time');
    await delay(5);
  }
}

t.test('a connection whose thread is held up is left unused while there is another', async (t) => {
  const { leases, workers } = openLeases(t);
  const first = await leases.acquire(ownerOf('anna'));
  const second = await leases.acquire(ownerOf('anna'));
  leases.release(second);
  leases.release(first);
  const [linkOfFirst, linkOfSecond] = [workers.linkOf(0), workers.linkOf(1)];
  linkOfFirst.isAnswering = false;
  t.equal(await leases.acquire(ownerOf('anna')), second, 'though the other was used last');
  leases.release(second);
  linkOfSecond.isAnswering = false;
  const third = await leases.acquire(ownerOf('anna'));
  t.equal(workers.connections.length, 3, 'a new one is opened if there is none, on whatever thread is at hand');
  leases.release(third);
  linkOfFirst.isAnswering = true;
  linkOfSecond.isAnswering = true;
  t.equal(await leases.acquire(ownerOf('anna')), third);
});

t.test('a connection that was given back serves the next statement of its user and database', async (t) => {
  const { leases, workers } = openLeases(t);
  const first = await leases.acquire(ownerOf('anna'));
  leases.release(first);
  const second = await leases.acquire(ownerOf('anna'));
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
  for (const owner of owners) leases.release(await leases.acquire(owner));
  t.equal(workers.connections.length, owners.length);
  for (const [number, owner] of owners.entries()) {
    await leases.acquire(owner);
    t.strictSame(workers.connections[number]?.login, owner.login);
  }
  t.equal(workers.connections.length, owners.length, 'each found its own again');
});

t.test('the database of the configuration is entered by those who name none', async (t) => {
  const { leases, workers } = openLeases(t, { defaultDatabase: 'shop' });
  await leases.acquire(ownerOf('anna'));
  await leases.acquire(ownerOf('anna', 'other'));
  t.strictSame(
    workers.connections.map(({ login }) => login.database),
    ['shop', 'other'],
  );
});

t.test('the connection that was used last is used next', async (t) => {
  const { leases } = openLeases(t, { connectionsMax: 3 });
  const [a, b] = [await leases.acquire(ownerOf('anna')), await leases.acquire(ownerOf('anna'))];
  leases.release(b);
  leases.release(a);
  t.equal(await leases.acquire(ownerOf('anna')), a);
});

t.test('those who wait are served first come, first served', async (t) => {
  const { leases } = openLeases(t);
  const held = [await leases.acquire(ownerOf('anna')), await leases.acquire(ownerOf('anna'))];
  const order: string[] = [];
  const waiting = ['bert', 'carl', 'dora'].map(async (user) => {
    const lease = await leases.acquire(ownerOf(user));
    order.push(user);
    return lease;
  });
  await t.rejects(
    async () => leases.acquire(ownerOf('emil')),
    { message: /--connections_max/ },
    'the queue is bounded',
  );
  leases.release(held[0] as Lease);
  await until(() => order.length === 1);
  leases.discard(held[1] as Lease);
  await until(() => order.length === 2);
  leases.release((await waiting[0]) as Lease);
  await until(() => order.length === 3);
  t.strictSame(order, ['bert', 'carl', 'dora']);
});

t.test('one who waits is given the connection that comes back, without a new login', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 1 });
  const held = await leases.acquire(ownerOf('anna'));
  const waiting = leases.acquire(ownerOf('anna'));
  leases.release(held);
  t.equal(await waiting, held);
  t.equal(workers.connections.length, 1);
});

t.test('a wait that is too long ends with a refusal, and the place in the queue is free again', async (t) => {
  const { leases } = openLeases(t, { connectionsMax: 1, connectionWaitMs: 50, connectionQueueMax: 1 });
  const held = await leases.acquire(ownerOf('anna'));
  await t.rejects(async () => leases.acquire(ownerOf('anna')), { message: /--connections_max/ });
  const waiting = leases.acquire(ownerOf('anna'));
  leases.release(held);
  t.equal(await waiting, held);
});

t.test('the connection that was idle the longest is closed for one of another user', async (t) => {
  const { leases, workers } = openLeases(t);
  const a = await leases.acquire(ownerOf('anna'));
  const b = await leases.acquire(ownerOf('bert'));
  leases.release(b);
  await delay(5);
  leases.release(a);
  await leases.acquire(ownerOf('carl'));
  await workers.connections[1]?.gone();
  t.equal(b.isClosed, true);
  t.equal(a.isClosed, false);
  t.equal(workers.open.length, 2);
});

t.test('a refused login frees its place for one who waits', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 1 });
  workers.refusalFor = (login) => (login.user === 'mallory' ? 'later' : null);
  const refused = leases.acquire(ownerOf('mallory'));
  const waiting = leases.acquire(ownerOf('anna'));
  const connection = await workers.connection(0);
  connection.refuse(denied);
  await t.rejects(async () => refused, { message: denied.failure.message });
  t.equal((await waiting).isClosed, false);
});

t.test('a lost connection frees its place for one who waits, lent out or idle', async (t) => {
  const { leases, workers, events } = openLeases(t, { connectionsMax: 1 });
  await leases.acquire(ownerOf('anna'));
  const waiting = leases.acquire(ownerOf('bert'));
  workers.connections[0]?.lose('gone while lent');
  const lease = await waiting;
  leases.release(lease);
  workers.connections[1]?.lose('gone while idle');
  await until(() => events.length === 2);
  t.strictSame(
    events.map((event) => (event.type === 'connection_lost' ? `${event.user}: ${event.reason}` : event.type)),
    ['anna: gone while lent', 'bert: gone while idle'],
  );
  const fresh = await leases.acquire(ownerOf('bert'));
  t.not(fresh, lease, 'a lost connection is not given out');
});

t.test('a thread that dies takes the leases on it and no others', async (t) => {
  const { leases, workers } = openLeases(t);
  const [a, b] = [await leases.acquire(ownerOf('anna')), await leases.acquire(ownerOf('anna'))];
  const [doomed, other] = [new Recorder(), new Recorder()];
  a.run(request, false, doomed);
  b.run(request, false, other);
  workers.connections[0]?.die();
  await doomed.hears('failed 90006');
  workers.connections[1]?.end(1);
  await other.hears('ended');
  const replacement = await leases.acquire(ownerOf('anna'));
  t.not(replacement, b);
});

t.test('a connection that is not used is closed after its idle time', async (t) => {
  const { leases, workers } = openLeases(t, { connectionIdleMs: 200 });
  const released = performance.now();
  leases.release(await leases.acquire(ownerOf('anna')));
  await workers.connections[0]?.gone();
  t.ok(performance.now() - released >= 200);
  t.not((await leases.acquire(ownerOf('anna'))).isClosed, true);
  t.equal(workers.connections.length, 2);
});

t.test('a login leaves a connection for use if there is room, and none if there is not', async (t) => {
  const { leases, workers } = openLeases(t, { connectionsMax: 1 });
  await leases.login(ownerOf('anna'));
  await leases.acquire(ownerOf('anna'));
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
  const { leases, workers } = openLeases(t);
  await leases.settled(60_000);
  const lease = await leases.acquire(ownerOf('anna'));
  lease.run(request, true, new Recorder());
  const began = performance.now();
  await leases.settled(50);
  t.ok(performance.now() - began >= 49);
  const settled = leases.settled(60_000);
  workers.connections[0]?.endAndIdle(1);
  await settled;
});

t.test('closing refuses those who wait and closes every connection', async (t) => {
  const { leases, workers } = openLeases(t);
  await leases.acquire(ownerOf('anna'));
  leases.release(await leases.acquire(ownerOf('anna')));
  await leases.acquire(ownerOf('bert'));
  const waiting = leases.acquire(ownerOf('carl'));
  leases.close();
  await t.rejects(async () => waiting, { message: /stopping/ });
  for (const connection of workers.connections) await connection.gone();
  t.equal(workers.open.length, 0);
});
