/** A resource that users share (or addresses, where users are not known), such as connections to the database, places in a queue, or memory in bytes. */
export interface SharedLimit {
  readonly max: number;
  readonly perUserMax: number;
}

/**
 * Whether a user who holds `held` may take `more` of what is free. Each user may hold at most `perUserMax`, and at most a fixed
 * multiple of what is then left free (the rule of dynamic thresholds for shared buffers: Choudhury and Hahne, 1998). The multiple is
 * the one at which a single user stops at `perUserMax`, but at least 1. So several users who take all that they may still leave
 * some: of 128 with 96 per user, the first can hold 96, the next 24, then 6. A user who holds nothing may take what is free.
 */
export function mayTake({ max, perUserMax }: SharedLimit, held: number, more: number, free: number): boolean {
  if (more > free) return false;
  if (held === 0) return true;
  const reserve = max - perUserMax;
  return held + more <= perUserMax && (held + more) * reserve <= Math.max(perUserMax, reserve) * (free - more);
}

/** Three quarters of the resource, which leaves room for others even if one user takes all that it may. */
export function defaultPerUserMax(max: number): number {
  return Math.max(1, Math.floor(0.75 * max));
}
