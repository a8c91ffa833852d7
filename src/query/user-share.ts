/** Memory that users share. */
export interface SharedMemory {
  readonly bytesMax: number;
  readonly bytesPerUserMax: number;
}

/**
 * Whether one user may hold so many bytes while so many are left free, after the change in question. Each user may hold at most
 * `bytesPerUserMax`, and at most a fixed multiple of what is free (the rule of dynamic thresholds for shared buffers: Choudhury
 * and Hahne, 1998). So several users who take all that they may still leave some.
 */
export function isWithinShare({ bytesMax, bytesPerUserMax }: SharedMemory, held: number, free: number): boolean {
  const reserve = bytesMax - bytesPerUserMax;
  return held <= bytesPerUserMax && held * reserve <= Math.max(bytesPerUserMax, reserve) * free;
}

/** Three quarters, which leaves room for others even if one user takes all that it may. */
export function defaultBytesPerUser(bytesMax: number): number {
  return Math.floor(0.75 * bytesMax);
}
