import type { SharedLimit } from '#src/share.js';

/** A limit all of which one user may have. */
export function unshared(max: number): SharedLimit {
  return { max, perUserMax: max };
}
