// The two forms of the fault tests: the short one, which is part of npm test, and the long one, which has the full figures
// (npm run test:faults -- --long). docs/reliability.md describes both.

import type { Test } from 'tap';

/** Whether the tests run with their full figures: scripts/test.mjs says so in the environment. */
export const isLong = process.env['FORM'] === 'long';

/** A figure of the form that runs. */
export function figure<T>(short: T, long: T): T {
  return isLong ? long : short;
}

/** Time for one test: a guard against what hangs, and not what is measured. */
export const testMsMax = figure(8 * 60_000, 3 * 3_600_000);

/** Puts a measured figure into the results, from where scripts/report.mjs takes it. */
export function measured(t: Test, what: string): void {
  t.comment(`measured: ${what}`);
}
