import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { Journal } from '#src/session/journal.js';
import { Orphans } from '#src/session/orphans.js';
import type { FromWorker, Login } from '#src/wire/messages.js';
import { installFakeClock } from '../support/fake-clock.ts';
import { until } from '../support/until.ts';
import { anna, FakeWorkers } from './fake-workers.ts';

const database = '127.0.0.1:3306';
const operator: Login = { user: 'operator', password: 'secret', database: null };
const retryMs = 30;

const denied: FromWorker = {
  type: 'refused',
  refusal: { kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: 'Access denied' } },
};

/** Orphans after processes that had these connections of anna open, one list each. */
function open(t: Test, processes: readonly (readonly number[])[], login: Login | null, workers = new FakeWorkers()) {
  const clock = installFakeClock(t);
  const folder = mkdtempSync(join(tmpdir(), 'sluice-orphans-'));
  for (const [process, ids] of processes.entries()) {
    const lines = ids.map((id) => `+${JSON.stringify({ id, user: 'anna', openedAt: 1_000 + process })}\n`);
    writeFileSync(join(folder, `1.${process}`), `${JSON.stringify({ database })}\n${lines.join('')}`);
  }
  const journal = new Journal(folder, database, (event) => t.fail(event.type));
  const events: ServiceEvent[] = [];
  const orphans = new Orphans({ retryMs, login }, journal, workers.pool, (event) => events.push(event));
  t.teardown(() => {
    orphans.close(true);
    workers.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const left = (): string[] => readdirSync(folder).filter((name) => name.startsWith('1.'));
  /** Resolves when so many sweeps have been answered. */
  const answered = (sweeps: number): Promise<boolean> => until(() => workers.channelsClosed === sweeps);
  return { orphans, workers, events, folder, left, answered, clock };
}

const idsOf = ({ orphans }: { readonly orphans: readonly { readonly id: number }[] }): number[] =>
  orphans.map(({ id }) => id);

t.test('what a process has left is swept as the user of the server, until nothing is left', async (t) => {
  const workers = new FakeWorkers();
  workers.sweepAnswerFor = () => ({
    type: 'swept',
    left: workers.sweeps.length < 3 ? [2] : [],
    ended: workers.sweeps.length === 2 ? 0 : 1,
  });
  const { left, events, answered, clock } = open(t, [[1, 2]], operator, workers);
  t.equal(left().length, 1);
  for (const sweeps of [1, 2]) {
    await answered(sweeps);
    clock.tick(retryMs - 1);
    t.equal(workers.channels, sweeps);
    clock.tick(1);
    t.equal(workers.channels, sweeps + 1);
  }
  await until(() => left().length === 0);
  t.strictSame(workers.sweeps.map(idsOf), [[1, 2], [2], [2]]);
  t.match(workers.sweeps[0], { login: operator, orphans: [{ id: 1, user: 'anna' }, { id: 2 }] });
  t.strictSame(events, [
    { type: 'orphans_ended', connections: 1 },
    { type: 'orphans_ended', connections: 1 },
  ]);
  clock.tick(3 * retryMs);
  t.equal(workers.channels, 3, 'and then no more');
});

t.test('B5: only killed statements are reported as ended', async (t) => {
  const workers = new FakeWorkers();
  workers.sweepAnswerFor = () => ({ type: 'swept', left: [], ended: workers.sweeps.length === 1 ? 0 : 2 });
  const { left, events, orphans } = open(t, [[1, 2]], operator, workers);
  await until(() => left().length === 0);
  t.strictSame(events, []);
  for (const id of [3, 4]) orphans.lost(id, 'anna', Date.now());
  await until(() => events.length > 0);
  t.match(events[0], { type: 'orphans_ended', connections: 2 });
});

t.test('a user whose login is refused is not tried again; those who come back end their own', async (t) => {
  const workers = new FakeWorkers();
  workers.sweepAnswerFor = ({ user }) => (user === 'operator' ? denied : { type: 'swept', left: [], ended: 0 });
  const { orphans, left, answered, clock } = open(t, [[1, 2]], operator, workers);
  await answered(1);
  clock.tick(3 * retryMs);
  t.equal(workers.channels, 1);
  orphans.opened(7, { ...anna, user: 'bert' });
  orphans.opened(8, anna);
  await until(() => left().length === 0);
  t.strictSame(
    workers.sweeps.slice(1).map(({ login }) => login.user),
    ['anna'],
  );
});

t.test('what cannot be reached is tried again', async (t) => {
  const workers = new FakeWorkers();
  const failure = { code: 2002, sqlstate: '08001', message: 'cannot be reached' };
  workers.sweepAnswerFor = () =>
    workers.sweeps.length < 3
      ? { type: 'refused', refusal: { kind: 'unavailable', failure } }
      : { type: 'swept', left: [], ended: 0 };
  const { left, answered, clock } = open(t, [[1]], operator, workers);
  for (const sweeps of [1, 2]) {
    await answered(sweeps);
    clock.tick(retryMs);
  }
  await until(() => left().length === 0);
  t.equal(workers.sweeps.length, 3);
});

t.test('of two connections with one id, the elder is gone', async (t) => {
  const { workers, left } = open(
    t,
    [
      [1, 2],
      [2, 3],
    ],
    operator,
  );
  await until(() => left().length === 0);
  t.strictSame(idsOf(workers.sweeps[0] ?? { orphans: [] }).sort(), [1, 2, 3]);
  t.equal(workers.sweeps.length, 1);
});

t.test('what a dead thread has left is swept by the operator at once', async (t) => {
  const { orphans, workers } = open(t, [], operator);
  orphans.opened(5, anna);
  orphans.lost(5, anna.user, Date.now() - 1_000);
  await until(() => workers.sweeps.length === 1);
  t.match(workers.sweeps[0], { login: operator, orphans: [{ id: 5, user: 'anna' }] });
  t.equal(workers.sweeps[0]?.orphans[0]?.openedMs, 1_000);
  t.equal(workers.sweeps[0]?.orphans[0]?.lostMs, 0);
});

t.test('without an operator it is swept by its user, who comes back', async (t) => {
  const { orphans, workers } = open(t, [], null);
  orphans.opened(5, anna);
  orphans.lost(5, anna.user, Date.now() - 1_000);
  orphans.opened(6, { ...anna, user: 'bert' });
  orphans.opened(7, anna);
  await until(() => workers.sweeps.length > 0);
  t.equal(workers.sweeps.length, 1, 'nobody else is asked to');
  t.match(workers.sweeps[0], { login: anna, orphans: [{ id: 5, user: 'anna' }] });
});

t.test('a connection that bears the id of a lost one stays in the journal', async (t) => {
  const workers = new FakeWorkers();
  workers.sweepAnswerFor = () => ({ type: 'swept', left: [5], ended: 0 });
  const { orphans, folder } = open(t, [], operator, workers);
  orphans.opened(5, anna);
  orphans.lost(5, anna.user, Date.now());
  await until(() => workers.sweeps.length === 1);
  orphans.opened(5, anna);
  const [name = ''] = readdirSync(folder);
  t.match(readFileSync(join(folder, name), 'utf8'), /\n\+\{"id":5[^\n]*\n$/);
});

/** The journal of this process, if it is there. */
function ownJournals(folder: string): string[] {
  return readdirSync(folder).filter((name) => !name.startsWith('1.'));
}

t.test('the journal is removed at the end', async (t) => {
  const { orphans, folder } = open(t, [], operator);
  orphans.opened(5, anna);
  orphans.close(true);
  t.strictSame(ownJournals(folder), []);
});

t.test('a journal of connections whose statements still run is left for the next process', async (t) => {
  const { orphans, folder } = open(t, [], operator);
  orphans.opened(5, anna);
  orphans.close(false);
  orphans.closed(5);
  const [left = ''] = ownJournals(folder);
  t.match(readFileSync(join(folder, left), 'utf8'), /\n\+\{"id":5[^\n]*\n$/);
});

t.test('a journal of a connection that was lost is left until its statement is ended', async (t) => {
  const workers = new FakeWorkers();
  workers.sweepAnswerFor = () => ({ type: 'swept', left: [5], ended: 0 });
  const { orphans, folder, answered } = open(t, [], operator, workers);
  orphans.opened(5, anna);
  orphans.lost(5, anna.user, Date.now());
  await answered(1);
  orphans.close(true);
  t.equal(ownJournals(folder).length, 1);
});
