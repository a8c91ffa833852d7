import { setTimeout as delay } from 'node:timers/promises';

const deadlineMs = 30_000;
const pollMs = 20;

/**
 * Asks again and again until the answer is the one that is waited for, and returns it. Rejects when that takes too long.
 * @param holds left out if the answer itself says so
 */
export async function until<T>(ask: () => T | Promise<T>, holds: (value: T) => boolean = Boolean): Promise<T> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const value = await ask();
    if (holds(value)) return value;
    if (performance.now() > deadline) throw new Error(`it did not come to pass; at the end it was ${value}`);
    await delay(pollMs);
  }
}
