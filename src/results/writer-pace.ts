/** From one turn to the next. With what a turn brings, this is 20 MiB a second for all who write. */
const turnMs = 25;

/**
 * Gives those who write rows of kept results their turns while clients wait for pages of others. Without it, ten who write
 * leave a tenth of the processors to those who read, the database's part included.
 */
export class WriterPace {
  #nextMs = Number.NEGATIVE_INFINITY;

  /** @returns milliseconds until the caller's turn, which nobody else gets */
  delayMs(): number {
    const now = performance.now();
    const turn = Math.max(now, this.#nextMs);
    this.#nextMs = turn + turnMs;
    return turn - now;
  }
}
