import type { SpillTotals } from '#src/wire/spill-usage.js';

/** Limits all of which one user may have. */
export function unshared(bytesMax: number, filesMax = 1_000_000): SpillTotals {
  return { bytes: { max: bytesMax, perUserMax: bytesMax }, files: { max: filesMax, perUserMax: filesMax } };
}
