import t from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { Troubles, type TroublesOptions } from '#src/troubles.js';
import { until } from './support/until.ts';

function make(quietMs: number, isOver?: () => Promise<boolean>) {
  const events: ServiceEvent[] = [];
  const option = isOver === undefined ? { quietMs } : { quietMs, isOver };
  const options: TroublesOptions = {
    database_unavailable: option,
    database_full: option,
    database_login_refused: option,
    out_of_descriptors: option,
    http_connections_full: option,
    logins_failing: option,
  };
  const troubles = new Troubles(options, (event) => events.push(event));
  return { troubles, events };
}

const unreachable = { type: 'connect_failed', reason: 'ECONNREFUSED', isOutOfDescriptors: false } as const;

t.test('D2: many failures are two events, the second with their number', async (t) => {
  const { troubles, events } = make(50);
  // Timers of the product do not keep the process alive.
  const alive = setInterval(() => {}, 1_000);
  for (let count = 0; count < 7; count++) troubles.observe(unreachable);
  t.strictSame(events, [{ type: 'trouble_began', trouble: 'database_unavailable', reason: 'ECONNREFUSED' }]);
  t.equal(troubles.has('database_unavailable'), true);
  await until(() => events.length === 2);
  t.match(events[1], { type: 'trouble_ended', trouble: 'database_unavailable', failures: 7, secs: Number });
  t.equal(troubles.has('database_unavailable'), false);
  troubles.observe(unreachable);
  t.match(events[2], { type: 'trouble_began' }, 'a new trouble starts');
  troubles.close();
  troubles.observe({ type: 'login_failed', user: 'ann', reason: 'no', isBlocked: false });
  t.equal(events.length, 3, 'after the end there is nothing to report');
  clearInterval(alive);
});

t.test('D2: a trouble lasts until it is known to be over', async (t) => {
  let asked = 0;
  let isOver = false;
  const { troubles, events } = make(10, async () => {
    asked++;
    if (asked === 2) throw new Error('cannot be asked');
    return isOver;
  });
  const alive = setInterval(() => {}, 1_000);
  troubles.observe(unreachable);
  await until(() => asked >= 3);
  t.equal(events.length, 1);
  isOver = true;
  await until(() => events.length === 2);
  t.match(events[1], { type: 'trouble_ended', failures: 1 });
  clearInterval(alive);
});

t.test('D2: each cause has its own trouble', async (t) => {
  const { troubles, events } = make(60_000);
  const noFile = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' });
  troubles.observe({ type: 'connect_failed', reason: 'EMFILE', isOutOfDescriptors: true });
  troubles.observe({ type: 'accept_failed', error: noFile });
  troubles.observe({ type: 'accept_failed', error: new Error('accept ECONNABORTED') });
  troubles.observe({ type: 'http_connection_refused', reason: 'full' });
  troubles.observe({ type: 'login_failed', user: 'ann', reason: 'denied', isBlocked: false });
  troubles.observe({ type: 'database_login_refused', reason: 'denied' });
  troubles.observe({ type: 'listening', address: 'x' });
  t.strictSame(
    events.map((event) => event.type === 'trouble_began' && event.trouble),
    ['out_of_descriptors', 'http_connections_full', 'logins_failing', 'database_login_refused'],
  );
  troubles.close();
});
