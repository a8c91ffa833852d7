import { syncBuiltinESMExports } from 'node:module';
import { type Clock, install } from '@sinonjs/fake-timers';
import type { Test } from 'tap';

/**
 * Replaces the clocks and timers of this thread by fake ones until the test ends: time passes only when the test calls
 * `tick`. setImmediate stays real, as do the messages between threads and all I/O.
 */
export function installFakeClock(t: Test): Clock {
  const clock = install({
    now: Date.now(),
    toFake: ['Date', 'performance', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
    // A real timer that was set before the test is still cleared.
    shouldClearNativeTimers: true,
  });
  // The functions of node:timers/promises are replaced in the module's object, and this updates its named imports.
  syncBuiltinESMExports();
  t.teardown(() => {
    clock.uninstall();
    syncBuiltinESMExports();
  });
  return clock;
}
