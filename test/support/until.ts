import timers from 'node:timers/promises';
import { inspect } from 'node:util';

/** More than ten times what anything that a test waits for takes on an idle machine: a first start of MariaDB takes seconds. */
const defaultDeadlineMs = 90_000;

const pollMsMax = 20;
/** A question to a database takes milliseconds on two processes, so it is asked less often. */
const slowPollMsMax = 50;
const shownLength = 500;

// Bound when this module is loaded: a test's fake clock does not stop them.
const delay = timers.setTimeout;
const now = performance.now.bind(performance);

/**
 * Polls until the value passes, and returns the value. Rejects after the deadline.
 * @param passes default: whether the value is truthy
 */
export async function until<T>(
  ask: () => T | Promise<T>,
  passes: (value: T) => boolean = Boolean,
  deadlineMs = defaultDeadlineMs,
): Promise<T> {
  const deadline = now() + deadlineMs;
  for (let pollMs = 1; ; pollMs = Math.min(2 * pollMs, pollMsMax)) {
    // Read before the question: a process that did not run for all that time asks once more.
    const askedMs = now();
    const isLate = askedMs > deadline;
    const value = await ask();
    if (passes(value)) return value;
    if (isLate) throw new Error(`not within ${deadlineMs} ms; the last value is ${shown(value)}`);
    const restMs = Math.min(3 * (now() - askedMs), slowPollMsMax);
    await delay(Math.max(pollMs, restMs));
  }
}

function shown(value: unknown): string {
  return inspect(value, { breakLength: Number.POSITIVE_INFINITY }).slice(0, shownLength);
}
