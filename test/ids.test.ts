import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { newQueryId, newSessionId, timeOfQueryId } from '#src/ids.js';

t.test('ids sort by time, and the rest of an id is random', async (t) => {
  const first = newQueryId();
  await sleep(3);
  const second = newQueryId();
  t.match(first, /^[0-9a-f]{44}$/);
  t.ok(first < second);
  t.ok(Math.abs(Number.parseInt(first.slice(0, 12), 16) - Date.now()) < 60_000);
  const tails = new Set(Array.from({ length: 1_000 }, () => newQueryId().slice(12)));
  t.equal(tails.size, 1_000);
  t.ok(4 * first.slice(12).length >= 96, 'at least 96 random bits');
});

t.test('the time of an id can be read, and other text has none', async (t) => {
  const before = Date.now();
  const time = timeOfQueryId(newQueryId()) as number;
  t.ok(time >= before && time <= Date.now());
  for (const id of ['', '0195c0ffee', newSessionId(), `${newQueryId()}0`, newQueryId().replace(/.$/, 'g')]) {
    t.equal(timeOfQueryId(id), null, id);
  }
});
