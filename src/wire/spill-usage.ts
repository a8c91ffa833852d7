import { mayTake, type SharedLimit } from '../share.ts';

/** The most users who are counted one by one. */
const usersMax = 1_024;
/** The counts of a thread: those of all users together, and then those of each user. */
const countsPerThread = 1 + usersMax;
const allUsers = 0;

/**
 * Counts the bytes on disk of the spilled rows of all threads and users, in shared memory. Each thread has counts of its own, so that
 * those of a thread that has died can be cleared.
 */
export class SpillUsage {
  /** The slots of users: from 0 up to this number. */
  static readonly userSlots = usersMax;
  readonly shared: SharedArrayBuffer;
  readonly #counts: BigInt64Array;
  readonly #limit: SharedLimit;
  readonly #thread: number;

  /**
   * @param limit of all threads together
   * @param thread the slot of this thread
   */
  constructor(shared: SharedArrayBuffer, limit: SharedLimit, thread: number) {
    this.shared = shared;
    this.#counts = new BigInt64Array(shared);
    this.#limit = limit;
    this.#thread = thread;
  }

  /** @param slots for all threads that can exist at once, including those about to end */
  static forThreads(slots: number, limit: SharedLimit): SpillUsage {
    const bytes = slots * countsPerThread * BigInt64Array.BYTES_PER_ELEMENT;
    return new SpillUsage(new SharedArrayBuffer(bytes), limit, 0);
  }

  /** The slots of threads. */
  get slots(): number {
    return this.#counts.length / countsPerThread;
  }

  get bytes(): number {
    return this.#sum(allUsers);
  }

  /** The part of one user. */
  ofUser(slot: number): UserSpillUsage {
    return new UserSpillUsage(this, 1 + slot);
  }

  /** For `UserSpillUsage`, as is `release`. */
  reserve(user: number, bytes: number): boolean {
    // Added before the check, so that of two threads that reserve at the same time, at least one sees what both have added.
    this.#add(user, bytes);
    const held = this.#sum(user) - bytes;
    const free = this.#limit.max - (this.bytes - bytes);
    if (mayTake(this.#limit, held, bytes, free)) return true;
    this.#add(user, -bytes);
    return false;
  }

  release(user: number, bytes: number): void {
    this.#add(user, -bytes);
  }

  /** Clears the counts of a thread that has ended: its files went with it. */
  forget(slot: number): void {
    for (let user = 0; user < countsPerThread; user++) Atomics.store(this.#counts, slot * countsPerThread + user, 0n);
  }

  #add(user: number, bytes: number): void {
    const first = this.#thread * countsPerThread;
    Atomics.add(this.#counts, first + allUsers, BigInt(bytes));
    Atomics.add(this.#counts, first + user, BigInt(bytes));
  }

  #sum(user: number): number {
    let sum = 0n;
    for (let at = user; at < this.#counts.length; at += countsPerThread) sum += Atomics.load(this.#counts, at);
    return Number(sum);
  }
}

/** The bytes on disk of the spilled rows of one user. */
export class UserSpillUsage {
  readonly #usage: SpillUsage;
  readonly #user: number;

  /** For `SpillUsage`. */
  constructor(usage: SpillUsage, user: number) {
    this.#usage = usage;
    this.#user = user;
  }

  /** @returns false, and reserves nothing, if a limit would be exceeded (see `mayTake`) */
  reserve(bytes: number): boolean {
    return this.#usage.reserve(this.#user, bytes);
  }

  release(bytes: number): void {
    this.#usage.release(this.#user, bytes);
  }
}
