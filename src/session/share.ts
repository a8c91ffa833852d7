/** A resource that users share, such as the connections to the database. */
export interface SharedLimit {
  readonly max: number;
  readonly perUserMax: number;
}

/**
 * Whether a user may take one more. Each user may hold at most `perUserMax`, and at most a fixed multiple of what is free (the
 * rule of dynamic thresholds for shared buffers: Choudhury and Hahne, 1998). The multiple is the one at which a single user
 * stops at `perUserMax`, but at least 1. So a user who holds nothing can take one as long as any is free, and several users who
 * take all that they may still leave some: with 128 and 96 per user, the first can hold 96, the next 24, then 6.
 */
export function mayTakeMore({ max, perUserMax }: SharedLimit, held: number, free: number): boolean {
  const reserve = max - perUserMax;
  return free > 0 && held < perUserMax && held * reserve < Math.max(perUserMax, reserve) * free;
}

/** Three quarters of the resource, which leaves room for others even if one user takes all that it may. */
export function defaultPerUserMax(max: number): number {
  return Math.max(1, Math.floor(max * 0.75));
}
