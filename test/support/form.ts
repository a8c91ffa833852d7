// The two forms of the tests: the short one (npm test) is all that must hold before a change lands; the long one
// (npm run test:long) has the full figures. docs/reliability.md and CONTRIBUTING.md describe both.

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
