/** Rows are held back this long, so that a trickle of rows does not become a message per row. */
const flushMs = 4;
/** Rows that are kept on disk are held back longer and longer, so that the batches there stay few however long it trickles. */
const keptFlushMsMax = 1_000;
const keptFlushPart = 1 / 500;

/** When the rows of a result are sent that do not fill a batch. */
export class FlushTimer {
  readonly #areKept: boolean;
  readonly #flush: () => void;
  readonly #startedAt = performance.now();
  #timer: NodeJS.Timeout | null = null;
  /** The first update waits only for rows that have already arrived. */
  #first: NodeJS.Immediate | null = null;

  constructor(areKept: boolean, flush: () => void) {
    this.#areKept = areKept;
    this.#flush = flush;
  }

  /** @param isFirst whether nothing has been sent yet */
  start(isFirst: boolean): void {
    if (isFirst) this.#first ??= setImmediate(this.#flush);
    else this.#timer ??= setTimeout(this.#flush, this.#delayMs);
  }

  cancel(): void {
    if (this.#first !== null) clearImmediate(this.#first);
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#first = null;
    this.#timer = null;
  }

  get #delayMs(): number {
    if (!this.#areKept) return flushMs;
    return Math.min(keptFlushMsMax, Math.max(flushMs, (performance.now() - this.#startedAt) * keptFlushPart));
  }
}
