/**
 * Counts what the spilled rows of all threads take on disk, in bytes. It lies in memory that the threads share, each of which
 * counts in a slot of its own, so that the slot of one that has died can be emptied.
 */
export class SpillUsage {
  readonly shared: SharedArrayBuffer;
  readonly #slots: BigInt64Array;
  readonly #slot: number;
  readonly #bytesMax: bigint;

  /**
   * @param bytesMax of all threads together
   * @param slot that of the thread
   */
  constructor(shared: SharedArrayBuffer, bytesMax: number, slot: number) {
    this.shared = shared;
    this.#slots = new BigInt64Array(shared);
    this.#bytesMax = BigInt(bytesMax);
    this.#slot = slot;
  }

  /** @param slots threads at once, those included that are about to end */
  static forThreads(slots: number, bytesMax: number): SpillUsage {
    return new SpillUsage(new SharedArrayBuffer(slots * BigInt64Array.BYTES_PER_ELEMENT), bytesMax, 0);
  }

  get slots(): number {
    return this.#slots.length;
  }

  get bytes(): number {
    let sum = 0n;
    for (let slot = 0; slot < this.#slots.length; slot++) sum += Atomics.load(this.#slots, slot);
    return Number(sum);
  }

  /** @returns false, and counts nothing, if that would be too much */
  reserve(bytes: number): boolean {
    Atomics.add(this.#slots, this.#slot, BigInt(bytes));
    if (BigInt(this.bytes) <= this.#bytesMax) return true;
    this.release(bytes);
    return false;
  }

  release(bytes: number): void {
    Atomics.sub(this.#slots, this.#slot, BigInt(bytes));
  }

  /** Empties the slot of a thread that is no more: its files went with it. */
  forget(slot: number): void {
    Atomics.store(this.#slots, slot, 0n);
  }
}
