import t from 'tap';
import { Turns } from '#src/api/turns.js';
import { installFakeClock } from '../support/fake-clock.ts';
import { turns as passTurns } from '../support/turns.ts';

/** Longer than the requests of one turn may take. */
const longMs = 15;

t.test('a request is handled at once while the main thread is not busy', async (t) => {
  installFakeClock(t);
  const turns = new Turns();
  for (let turn = 0; turn < 3; turn++) {
    t.equal(turns.take('ann'), undefined);
    await passTurns();
  }
});

t.test('users take turns once the requests of a turn have taken long', async (t) => {
  const clock = installFakeClock(t);
  const turns = new Turns();
  const handled: string[] = [];
  t.equal(turns.take('ann'), undefined);
  clock.tick(longMs);
  const requests = ['ann 1', 'ann 2', 'ann 3', 'bob 1', 'bob 2', 'cid 1'].map(async (name) => {
    const turn = turns.take(name.slice(0, 3));
    t.ok(turn, `${name} waits`);
    await turn;
    // A request takes several microtasks.
    await null;
    handled.push(name);
  });
  await Promise.all(requests);
  t.strictSame(handled, ['ann 1', 'bob 1', 'cid 1', 'ann 2', 'bob 2', 'ann 3']);
  await passTurns();
  t.equal(turns.take('ann'), undefined, 'afterwards nobody waits');
});

t.test(
  'requests that take long leave time for other events, and those that come meanwhile wait their turn',
  async (t) => {
    const clock = installFakeClock(t);
    const turns = new Turns();
    const handled: string[] = [];
    const handle = async (name: string): Promise<void> => {
      await turns.take(name.slice(0, 3));
      clock.tick(longMs);
      handled.push(name);
    };
    turns.take('ann');
    clock.tick(longMs);
    const requests = ['ann 1', 'ann 2', 'ann 3'].map(handle);
    // The event comes in a later turn than the first of them, and before the last.
    setImmediate(() => setImmediate(() => requests.push(handle('bob 1'))));
    await Promise.all(requests);
    await Promise.all(requests);
    t.ok(handled.indexOf('bob 1') < handled.indexOf('ann 3'), handled.join());
  },
);
