import t from 'tap';
import { OpenBackoff } from '#src/session/open-backoff.js';
import { installFakeClock } from '../support/fake-clock.ts';

t.test('B4: after a refusal one connection at a time is tried, when it is time', async (t) => {
  const clock = installFakeClock(t);
  let retries = 0;
  const backoff = new OpenBackoff({ onRetry: () => retries++ });
  t.equal(backoff.mayTry('anna'), true);
  const [first, second] = [backoff.begin('anna'), backoff.begin('bert')];
  t.equal(backoff.mayTry('anna'), true, 'as many at once as there are statements, at first');
  backoff.end(first, 'max connections');
  t.strictSame([backoff.mayTry('anna'), backoff.mayTry('bert')], [false, false]);
  backoff.end(second, null);
  t.equal(backoff.mayTry('bert'), false, 'what was begun before changes nothing');
  clock.tick(49);
  t.equal(backoff.mayTry('bert'), false);
  clock.tick(3);
  t.equal(retries, 1);
  t.equal(backoff.mayTry('bert'), true);
  const third = backoff.begin('bert');
  t.equal(backoff.mayTry('anna'), false, 'while another is tried');
  backoff.end(third, null);
  t.equal(backoff.mayTry('anna'), true);
});

t.test('B4: the limit of one user is nothing to others', async (t) => {
  const clock = installFakeClock(t);
  let retries = 0;
  const backoff = new OpenBackoff({ onRetry: () => retries++ });
  backoff.end(backoff.begin('anna'), 'max user connections');
  t.strictSame([backoff.mayTry('anna'), backoff.mayTry('bert')], [false, true]);
  for (const [index, delayMs] of [50, 100, 200].entries()) {
    if (index > 0) backoff.end(backoff.begin('anna'), 'max user connections');
    clock.tick(delayMs - 1);
    t.equal(retries, index);
    t.equal(backoff.mayTry('anna'), false);
    clock.tick(3);
    t.equal(retries, index + 1);
    t.equal(backoff.mayTry('anna'), true);
  }
});
