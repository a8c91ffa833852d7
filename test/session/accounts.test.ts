import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Accounts, type AccountsOptions } from '#src/session/accounts.js';
import { Leases } from '#src/session/leases.js';
import type { Refusal } from '#src/wire/messages.js';
import { FakeWorkers } from './fake-workers.ts';

const denied: Refusal = { kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: 'Access denied' } };

function openAccounts(t: Test, options: Partial<AccountsOptions> = {}): { accounts: Accounts; workers: FakeWorkers } {
  const workers = new FakeWorkers();
  const leases = new Leases(
    {
      defaultDatabase: null,
      connectionsMax: 100,
      connectionQueueMax: 10,
      connectionWaitMs: 10_000,
      connectionIdleMs: 60_000,
    },
    workers.pool,
    () => {},
  );
  t.teardown(() => {
    leases.close();
    workers.close();
  });
  return { accounts: new Accounts({ cacheMs: 60_000, cacheMax: 100, loginsMax: 4, ...options }, leases), workers };
}

t.test('an accepted pair is trusted for a while without asking again', async (t) => {
  const { accounts, workers } = openAccounts(t);
  const first = await accounts.verify({ user: 'anna', password: 'a' });
  const again = await accounts.verify({ user: 'anna', password: 'a' });
  t.equal(workers.connections.length, 1);
  t.equal(first.digest, again.digest);
  await accounts.verify({ user: 'anna', password: 'b' });
  t.equal(workers.connections.length, 2, 'another password is another pair');
});

t.test('pairs that read the same when joined are told apart', async (t) => {
  const { accounts } = openAccounts(t);
  const digests = new Set<string>();
  for (const [user, password] of [
    ['ab', 'c'],
    ['a', 'bc'],
    ['', 'abc'],
    ['abc', ''],
    ['1:a', 'bc'],
  ] as const) {
    digests.add((await accounts.verify({ user, password })).digest);
  }
  t.equal(digests.size, 5);
});

t.test('the digest does not hold the password and differs from server to server', async (t) => {
  const [one, other] = [openAccounts(t), openAccounts(t)];
  const pair = { user: 'anna', password: 'secret' };
  const digest = (await one.accounts.verify(pair)).digest;
  t.not(digest, (await other.accounts.verify(pair)).digest);
  t.notMatch(digest, /secret/);
});

t.test('a refused pair is asked about each time', async (t) => {
  const { accounts, workers } = openAccounts(t);
  workers.refusalFor = () => denied;
  for (let attempt = 1; attempt <= 2; attempt++) {
    await t.rejects(async () => accounts.verify({ user: 'anna', password: 'a' }), { message: denied.failure.message });
    t.equal(workers.connections.length, attempt);
  }
  workers.refusalFor = () => null;
  await t.resolves(async () => accounts.verify({ user: 'anna', password: 'a' }));
});

t.test('trust ends with its time, and then the database decides anew', async (t) => {
  const { accounts, workers } = openAccounts(t, { cacheMs: 50 });
  const pair = { user: 'anna', password: 'a' };
  await accounts.verify(pair);
  workers.refusalFor = () => denied;
  const deadline = performance.now() + 5_000;
  let refused = false;
  while (!refused && performance.now() < deadline) {
    try {
      await accounts.verify(pair);
    } catch {
      refused = true;
    }
    await delay(5);
  }
  t.equal(refused, true);
});

t.test('without a cache every request asks the database', async (t) => {
  const { accounts, workers } = openAccounts(t, { cacheMs: 0 });
  for (let attempt = 1; attempt <= 3; attempt++) {
    await accounts.verify({ user: 'anna', password: 'a' });
    t.equal(workers.connections.length, attempt);
  }
});

t.test('many requests of one pair at once make one login', async (t) => {
  const { accounts, workers } = openAccounts(t);
  const pair = { user: 'anna', password: 'a' };
  await Promise.all(Array.from({ length: 50 }, () => accounts.verify(pair)));
  t.equal(workers.connections.length, 1);
});

t.test('logins under way are bounded, and those refused for it are not called wrong', async (t) => {
  const { accounts, workers } = openAccounts(t, { loginsMax: 2 });
  workers.refusalFor = () => 'later';
  const under = ['a', 'b'].map((user) => accounts.verify({ user, password: '' }));
  await t.rejects(async () => accounts.verify({ user: 'c', password: '' }), { message: /--logins_max/ });
  for (const number of [0, 1]) (await workers.connection(number)).post({ type: 'opened', connection: 1 });
  await Promise.all(under);
  workers.refusalFor = () => null;
  await t.resolves(async () => accounts.verify({ user: 'c', password: '' }));
});

t.test('the number of trusted pairs is bounded; the oldest goes first', async (t) => {
  const { accounts, workers } = openAccounts(t, { cacheMax: 2 });
  for (const user of ['a', 'b', 'c']) await accounts.verify({ user, password: '' });
  await accounts.verify({ user: 'b', password: '' });
  await accounts.verify({ user: 'c', password: '' });
  t.equal(workers.connections.length, 3);
  await accounts.verify({ user: 'a', password: '' });
  t.equal(workers.connections.length, 4);
});
