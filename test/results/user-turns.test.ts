import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { UserTurns } from '#src/results/user-turns.js';
import { installFakeClock } from '../support/fake-clock.ts';

t.test('users take turns, and no more tasks run at a time than may', async (t) => {
  const turns = new UserTurns(2);
  const begun: string[] = [];
  let running = 0;
  let most = 0;
  const task = (name: string) => async (): Promise<string> => {
    begun.push(name);
    most = Math.max(most, ++running);
    await turn();
    running--;
    return name;
  };
  const ann = [1, 2, 3, 4, 5, 6].map((number) => turns.run('ann', task(`ann ${number}`)));
  const bob = [1, 2].map((number) => turns.run('bob', task(`bob ${number}`)));
  t.strictSame(await Promise.all([...ann, ...bob]), [
    'ann 1',
    'ann 2',
    'ann 3',
    'ann 4',
    'ann 5',
    'ann 6',
    'bob 1',
    'bob 2',
  ]);
  t.strictSame(begun, ['ann 1', 'ann 2', 'ann 3', 'bob 1', 'ann 4', 'bob 2', 'ann 5', 'ann 6']);
  t.equal(most, 2);
});

t.test('a task that fails hands on its place', async (t) => {
  const turns = new UserTurns(1);
  const failing = turns.run('ann', async () => {
    await turn();
    throw new Error('no');
  });
  const next = turns.run('bob', async () => 'done');
  await t.rejects(failing, /no/);
  t.equal(await next, 'done');
  t.equal(await turns.run('ann', async () => 'again'), 'again');
});

t.test('no user runs more tasks at a time than one may, and others go before', async (t) => {
  const turns = new UserTurns(2, 1);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const task = (name: string) => async (): Promise<void> => {
    begun.push(name);
    await new Promise<void>((resolve) => ends.push(resolve));
  };
  const tasks = ['ann 1', 'ann 2', 'bob 1', 'bob 2', 'eve 1'].map((name) => turns.run(name.slice(0, 3), task(name)));
  await turn();
  t.strictSame(begun, ['ann 1', 'bob 1']);
  for (const [end, ...expected] of [
    [0, 'ann 1', 'bob 1', 'ann 2'],
    [1, 'ann 1', 'bob 1', 'ann 2', 'bob 2'],
    [2, 'ann 1', 'bob 1', 'ann 2', 'bob 2', 'eve 1'],
  ] as const) {
    ends[end]?.();
    await turn();
    t.strictSame(begun, expected);
  }
  for (const end of ends) end();
  await Promise.all(tasks);
});

t.test('a task that waits and is aborted is not run', async (t) => {
  const turns = new UserTurns(1);
  const client = new AbortController();
  const first = turns.run('ann', () => turn());
  const aborted = turns.run('ann', async () => t.fail('it is run'), client.signal);
  const last = turns.run('ann', async () => 'done');
  client.abort(new Error('gone'));
  await t.rejects(aborted, /gone/);
  await first;
  t.equal(await last, 'done');
  await t.rejects(
    turns.run('ann', async () => t.fail('it is run'), client.signal),
    /gone/,
  );
});

t.test('it is known whose tasks had to wait', async (t) => {
  const clock = installFakeClock(t);
  const turns = new UserTurns(1);
  const ends: (() => void)[] = [];
  const task = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
  const end = async (): Promise<void> => {
    ends.shift()?.();
    await turn();
  };
  const waited = (): boolean[] => ['ann', 'bob', 'eve'].map((user) => turns.waitsOrWaited(user, 50));
  void turns.run('ann', task);
  t.strictSame(waited(), [false, false, false]);
  void turns.run('ann', task);
  t.strictSame(waited(), [true, false, false], 'one who has many tasks holds up no other');
  clock.tick(1_000);
  t.strictSame(waited(), [true, false, false], 'for as long as it waits');
  void turns.run('bob', task);
  t.strictSame(waited(), [true, true, true], 'those of two');
  await end();
  clock.tick(40);
  await end();
  t.strictSame(waited(), [true, true, true]);
  clock.tick(20);
  t.strictSame(waited(), [false, true, false], 'bob’s waited for longer');
  clock.tick(40);
  t.strictSame(waited(), [false, false, false]);
});
