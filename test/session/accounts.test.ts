import t, { type Test } from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { Accounts, type AccountsOptions, BlockedError } from '#src/session/accounts.js';
import { Leases } from '#src/session/leases.js';
import { OpenRefusedError } from '#src/session/open-refused-error.js';
import { SpillUsers } from '#src/session/spill-users.js';
import type { Refusal } from '#src/wire/messages.js';
import { installFakeClock } from '../support/fake-clock.ts';
import { FakeLargeRows, FakeWorkers } from './fake-workers.ts';

const denied: Refusal = { kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: 'Access denied' } };

function openAccounts(t: Test, options: Partial<AccountsOptions> = {}) {
  const workers = new FakeWorkers();
  const events: ServiceEvent[] = [];
  const leases = new Leases(
    {
      defaultDatabase: null,
      connectionsMax: 100,
      connectionsPerUserMax: 100,
      connectionIdleMs: 60_000,
      connectionAgeMs: 60_000,
      loginWaitMs: 60_000,
      largeRowMemory: new FakeLargeRows(),
      spillUsers: new SpillUsers(8),
    },
    workers.pool,
    () => {},
  );
  t.teardown(() => {
    leases.close();
    workers.close();
  });
  const defaults = { authCacheMs: 60_000, authCacheMax: 100, loginsMax: 4, authFailuresMax: 60 };
  const failed: ServiceEvent[] = [];
  const accounts = new Accounts({ ...defaults, ...options }, leases, (event) => {
    (event.type === 'login_failed' ? failed : events).push(event);
  });
  return { accounts, workers, events, failed };
}

t.test('B (attack): logins that guess leave room for credentials that were right before', async (t) => {
  const { accounts } = openAccounts(t, { loginsMax: 4, authCacheMs: 0 });
  await accounts.verify({ user: 'anna', password: 'a' });
  const guesses = [1, 2, 3].map((number) => accounts.verify({ user: `guess${number}`, password: '' }));
  await t.rejects(async () => accounts.verify({ user: 'guess4', password: '' }), { message: /--logins_max/ });
  await accounts.verify({ user: 'anna', password: 'a' });
  await Promise.all(guesses);
});

t.test('an accepted pair is trusted for a while without asking again', async (t) => {
  const { accounts, workers } = openAccounts(t);
  const first = await accounts.verify({ user: 'anna', password: 'a' });
  const again = await accounts.verify({ user: 'anna', password: 'a' });
  t.equal(workers.connections.length, 1);
  t.equal(first.digest, again.digest);
  await accounts.verify({ user: 'anna', password: 'b' });
  t.equal(workers.connections.length, 2, 'another password is another pair');
});

t.test('a clock that is set back does not make a pair trusted for longer', async (t) => {
  const clock = installFakeClock(t);
  const { accounts, workers } = openAccounts(t, { authCacheMs: 50 });
  await accounts.verify({ user: 'anna', password: 'a' });
  clock.setSystemTime(Date.now() - 3_600_000);
  clock.tick(49);
  await accounts.verify({ user: 'anna', password: 'a' });
  t.equal(workers.connections.length, 1, 'it is trusted yet');
  clock.tick(1);
  await accounts.verify({ user: 'anna', password: 'a' });
  t.equal(workers.connections.length, 2, 'the database was asked again');
});

t.test('pairs that are the same text when joined are kept apart', async (t) => {
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
  const clock = installFakeClock(t);
  const { accounts, workers } = openAccounts(t, { authCacheMs: 50 });
  const pair = { user: 'anna', password: 'a' };
  await accounts.verify(pair);
  workers.refusalFor = () => denied;
  clock.tick(49);
  await accounts.verify(pair);
  clock.tick(1);
  await t.rejects(async () => accounts.verify(pair), { message: denied.failure.message });
});

t.test('without a cache every request asks the database', async (t) => {
  const { accounts, workers } = openAccounts(t, { authCacheMs: 0 });
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
  for (const number of [0, 1])
    (await workers.connection(number)).post({
      type: 'opened',
      connection: 1,
      version: '8.4.3',
      connectionsMax: 1_000,
      userConnectionsMax: 0,
    });
  await Promise.all(under);
  workers.refusalFor = () => null;
  await t.resolves(async () => accounts.verify({ user: 'c', password: '' }));
});

t.test('an accepted pair stays trusted for five minutes while the database cannot check it', async (t) => {
  const clock = installFakeClock(t);
  const unreachable: Refusal = { kind: 'unavailable', failure: { code: 2002, sqlstate: '08001', message: 'no route' } };
  const { accounts, workers } = openAccounts(t, { authCacheMs: 50, loginsMax: 2 });
  const known = async () => accounts.verify({ user: 'anna', password: 'a' });
  await known();

  clock.tick(50);
  workers.refusalFor = () => unreachable;
  await known();
  t.equal(workers.connections.length, 2, 'the database is asked');
  await known();
  t.equal(workers.connections.length, 2, 'and for a second not again');
  await t.rejects(async () => accounts.verify({ user: 'anna', password: 'b' }), { message: 'no route' });

  workers.refusalFor = () => 'later';
  clock.tick(1_000);
  const [first, second] = [known(), known()];
  await workers.connection(3);
  clock.tick(1_000);
  await Promise.all([first, second]);
  t.equal(
    workers.connections.length,
    4,
    'a database that does not answer holds a request up for a second, with one login',
  );
  clock.tick(1_000);
  const third = known();
  clock.tick(1_000);
  await third;
  t.equal(workers.connections.length, 4, 'and is not asked again as long as that login is under way');
  clock.tick(1_000);
  const denies = known();
  (await workers.connection(3)).refuse(denied);
  await t.rejects(denies, { message: 'Access denied' }, 'a pair that the database denies is refused');

  workers.refusalFor = () => null;
  await known();
  workers.refusalFor = () => 'later';
  const others = ['c', 'd'].map((user) => accounts.verify({ user, password: '' }));
  clock.tick(50);
  await t.resolves(known(), 'it needs no login when too many are under way');
  for (const number of [5, 6]) (await workers.connection(number)).refuse(denied);
  await Promise.allSettled(others);

  workers.refusalFor = () => unreachable;
  clock.tick(300_000);
  await t.rejects(known(), { message: 'no route' }, 'it must be checked in the end');
});

t.test('the number of trusted pairs is bounded; the oldest goes first', async (t) => {
  const { accounts, workers } = openAccounts(t, { authCacheMax: 2 });
  for (const user of ['a', 'b', 'c']) await accounts.verify({ user, password: '' });
  await accounts.verify({ user: 'b', password: '' });
  await accounts.verify({ user: 'c', password: '' });
  t.equal(workers.connections.length, 3);
  await accounts.verify({ user: 'a', password: '' });
  t.equal(workers.connections.length, 4);
});

t.test(
  'after too many wrong passwords the database is not asked about that user until the minute is over',
  async (t) => {
    installFakeClock(t);
    const { accounts, workers, events, failed } = openAccounts(t, { authFailuresMax: 3 });
    workers.refusalFor = ({ password }) => (password.startsWith('wrong') ? denied : null);
    const attempt = async (user: string, password: string) => accounts.verify({ user, password });
    await attempt('anna', 'known');
    for (let number = 1; number <= 3; number++) await t.rejects(attempt('anna', `wrong${number}`), OpenRefusedError);
    const asked = workers.connections.length;
    for (const password of ['wrong4', 'wrong1', 'right']) {
      const error: unknown = await attempt('anna', password).catch((error: unknown) => error);
      t.type(error, BlockedError, password);
      const { retryAfterSecs, message } = error as BlockedError;
      t.equal(retryAfterSecs, 60);
      t.match(message, /--auth_failures_max/);
    }
    t.equal(workers.connections.length, asked, 'the database was not asked');
    t.match(events, [{ type: 'user_blocked', user: 'anna', failures: 3 }], 'it is reported once');
    t.match(
      failed,
      [false, false, false, true, true, true].map((isBlocked) => ({ user: 'anna', isBlocked })),
      'D2: each failed login is counted',
    );
    await t.resolves(attempt('anna', 'known'), 'a trusted pair still passes');
    t.equal(workers.connections.length, asked);
    await t.resolves(attempt('ben', 'right'), 'and so do others');
    for (let number = 1; number <= 3; number++) await t.rejects(attempt('ben', `wrong${number}`), OpenRefusedError);
    t.equal(events.length, 1);
  },
);

t.test(
  'the minute of a user begins with the first wrong password, and the next one with the first after it',
  async (t) => {
    const clock = installFakeClock(t);
    const { accounts, workers, events } = openAccounts(t, { authFailuresMax: 1 });
    workers.refusalFor = () => denied;
    const attempt = async () => accounts.verify({ user: 'anna', password: `${clock.now}` });
    await t.rejects(attempt(), OpenRefusedError);
    clock.tick(59_001);
    await t.rejects(attempt(), { name: 'BlockedError', retryAfterSecs: 1 });
    clock.tick(1_000);
    await t.rejects(attempt(), OpenRefusedError);
    await t.rejects(attempt(), { name: 'BlockedError', retryAfterSecs: 60 });
    t.equal(events.length, 2, 'it is reported once a minute');
  },
);

t.test('a pair that was accepted is asked about again though its user is blocked, until it is refused', async (t) => {
  const { accounts, workers } = openAccounts(t, { authFailuresMax: 1, authCacheMs: 0 });
  const right = async () => accounts.verify({ user: 'anna', password: 'right' });
  await right();
  workers.refusalFor = ({ password }) => (password === 'right' ? null : denied);
  await t.rejects(async () => accounts.verify({ user: 'anna', password: 'wrong' }), OpenRefusedError);
  await t.rejects(async () => accounts.verify({ user: 'anna', password: 'other' }), BlockedError);
  const asked = workers.connections.length;
  await t.resolves(right());
  t.equal(workers.connections.length, asked + 1);
  workers.refusalFor = () => denied;
  await t.rejects(right(), OpenRefusedError, 'the password was changed');
  await t.rejects(right(), BlockedError, 'and is now one like any other');
});

t.test('a database that cannot be reached is no wrong password, and neither is a right one', async (t) => {
  const { accounts, workers } = openAccounts(t, { authFailuresMax: 1, authCacheMax: 1 });
  workers.refusalFor = () => ({ ...denied, kind: 'unavailable' });
  for (let number = 0; number < 3; number++) {
    await t.rejects(async () => accounts.verify({ user: 'anna', password: `${number}` }), OpenRefusedError);
  }
  workers.refusalFor = () => null;
  for (let number = 0; number < 3; number++) {
    await t.resolves(async () => accounts.verify({ user: 'anna', password: `${number}` }));
  }
});

t.test('logins under way count, so that no more than the limit are asked about at once', async (t) => {
  const { accounts, workers } = openAccounts(t, { authFailuresMax: 2, loginsMax: 10 });
  workers.refusalFor = () => 'later';
  const attempt = async (password: string) => accounts.verify({ user: 'anna', password });
  // Two of the same pair are one login.
  const under = ['a', 'a', 'b'].map((password) => attempt(password));
  await t.rejects(attempt('c'), BlockedError);
  t.equal((await workers.connection(1)).login.password, 'b');
  for (const number of [0, 1])
    (await workers.connection(number)).post({
      type: 'opened',
      connection: 1,
      version: '8.4.3',
      connectionsMax: 1_000,
      userConnectionsMax: 0,
    });
  await Promise.all(under);
  workers.refusalFor = () => null;
  await t.resolves(attempt('c'), 'they were right and count no more');
});

t.test('users with wrong passwords are remembered up to a number; the oldest is forgotten first', async (t) => {
  const { accounts, workers } = openAccounts(t, { authFailuresMax: 1, authCacheMax: 2 });
  workers.refusalFor = () => denied;
  const attempt = async (user: string) => accounts.verify({ user, password: `${workers.connections.length}` });
  for (const user of ['anna', 'ben']) await t.rejects(attempt(user), OpenRefusedError);
  for (const user of ['anna', 'ben']) await t.rejects(attempt(user), BlockedError);
  await t.rejects(attempt('carl'), OpenRefusedError);
  for (const user of ['ben', 'carl']) await t.rejects(attempt(user), BlockedError);
  await t.rejects(attempt('anna'), OpenRefusedError, 'anna was forgotten');
});
