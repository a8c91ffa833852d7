import timers from 'node:timers/promises';

const deadlineMs = 30_000;
const pollMsMax = 20;

// Bound when this module is loaded: a test's fake clock does not stop them.
const delay = timers.setTimeout;
const now = performance.now.bind(performance);

/**
 * Asks again and again until the answer is the one that is waited for, and returns it. Rejects when that takes too long.
 * @param holds left out if the answer itself says so
 */
export async function until<T>(ask: () => T | Promise<T>, holds: (value: T) => boolean = Boolean): Promise<T> {
  const deadline = now() + deadlineMs;
  for (let pollMs = 1; ; pollMs = Math.min(2 * pollMs, pollMsMax)) {
    const value = await ask();
    if (holds(value)) return value;
    if (now() > deadline) throw new Error(`it did not come to pass; at the end it was ${value}`);
    await delay(pollMs);
  }
}
