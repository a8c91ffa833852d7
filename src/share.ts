/**
 * The limit of a resource that users share, such as connections, queue entries or bytes of memory; clients' addresses where
 * users are unknown.
 */
export interface SharedLimit {
  readonly max: number;
  readonly perUserMax: number;
}

/**
 * Whether a user who has `held` of a resource may take `more` of it. A user may have at most `perUserMax`, and at most a fixed
 * multiple of the rest that is then free (dynamic thresholds for shared buffers: Choudhury and Hahne, 1998). With the multiple,
 * a single user reaches `perUserMax`; it is at least 1. So some is always left: of 128 with 96 per user, the first user can
 * have 96, the next 24, then 6. A user who has nothing may take all that is free.
 */
export function mayTake({ max, perUserMax }: SharedLimit, held: number, more: number, free: number): boolean {
  if (more > free) return false;
  if (held === 0) return true;
  const reserve = max - perUserMax;
  return held + more <= perUserMax && (held + more) * reserve <= Math.max(perUserMax, reserve) * (free - more);
}

/** Three quarters, so that one user alone cannot exhaust the resource. */
export function defaultPerUserMax(max: number): number {
  return Math.max(1, Math.floor(0.75 * max));
}
