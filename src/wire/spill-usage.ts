/**
 * Counts the bytes on disk of the spilled rows of all threads, in shared memory. Each thread has a slot of its own, so that the slot
 * of a thread that has died can be cleared.
 */
export class SpillUsage {
  readonly shared: SharedArrayBuffer;
  readonly #slots: BigInt64Array;
  readonly #slot: number;
  readonly #bytesMax: bigint;

  /**
   * @param bytesMax of all threads together
   * @param slot of this thread
   */
  constructor(shared: SharedArrayBuffer, bytesMax: number, slot: number) {
    this.shared = shared;
    this.#slots = new BigInt64Array(shared);
    this.#bytesMax = BigInt(bytesMax);
    this.#slot = slot;
  }

  /** @param slots for all threads that can exist at once, including those about to end */
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

  /** @returns false, and reserves nothing, if the limit would be exceeded */
  reserve(bytes: number): boolean {
    Atomics.add(this.#slots, this.#slot, BigInt(bytes));
    if (BigInt(this.bytes) <= this.#bytesMax) return true;
    this.release(bytes);
    return false;
  }

  release(bytes: number): void {
    Atomics.sub(this.#slots, this.#slot, BigInt(bytes));
  }

  /** Clears the slot of a thread that has ended: its files went with it. */
  forget(slot: number): void {
    Atomics.store(this.#slots, slot, 0n);
  }
}
