import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { OpenBackoff } from '#src/session/open-backoff.js';

t.test('B4: after a refusal one connection at a time is tried, when it is time', async (t) => {
  let retries = 0;
  const backoff = new OpenBackoff(() => retries++);
  t.equal(backoff.mayTry('anna'), true);
  const [first, second] = [backoff.begin('anna'), backoff.begin('bert')];
  t.equal(backoff.mayTry('anna'), true, 'as many at once as there are statements, at first');
  first('full');
  t.strictSame([backoff.mayTry('anna'), backoff.mayTry('bert')], [false, false]);
  second(null);
  t.equal(backoff.mayTry('bert'), false, 'what was begun before changes nothing');
  while (retries === 0) await delay(5);
  t.equal(backoff.mayTry('bert'), true);
  const third = backoff.begin('bert');
  t.equal(backoff.mayTry('anna'), false, 'while another is tried');
  third(null);
  t.equal(backoff.mayTry('anna'), true);
});

t.test('B4: the limit of one user is nothing to others', async (t) => {
  let retries = 0;
  const backoff = new OpenBackoff(() => retries++);
  backoff.begin('anna')('user full');
  t.strictSame([backoff.mayTry('anna'), backoff.mayTry('bert')], [false, true]);
  const delays: number[] = [];
  for (let refusals = 1; refusals <= 3; refusals++) {
    const began = performance.now();
    while (retries < refusals) await delay(2);
    delays.push(performance.now() - began);
    t.equal(backoff.mayTry('anna'), true);
    if (refusals < 3) backoff.begin('anna')('user full');
  }
  t.ok((delays[2] ?? 0) >= 195, `the third delay took ${delays[2]} ms`);
});
