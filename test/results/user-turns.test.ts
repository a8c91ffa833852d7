import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { UserTurns } from '#src/results/user-turns.js';

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
