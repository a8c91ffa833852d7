import { mayTake, type SharedLimit } from '../share.ts';

/** The limits of spilled rows, of all threads together. */
export interface SpillTotals {
  readonly bytes: SharedLimit;
  /** Files that are open: each takes a file descriptor. */
  readonly files: SharedLimit;
}

/** The most users who are counted one by one. */
const usersMax = 1_024;
/** The counts of a thread: those of all users together, and then those of each user. Each is a pair. */
const countsPerThread = 2 * (1 + usersMax);
const allUsers = 0;
/** The places in a pair. */
const bytesAt = 0;
const filesAt = 1;

/**
 * Counts the files of the spilled rows of all threads and users, and their bytes on disk, in shared memory. Each thread has counts of
 * its own, so that those of a thread that has died can be cleared.
 */
export class SpillUsage {
  /** The slots of users: from 0 up to this number. */
  static readonly userSlots = usersMax;
  readonly shared: SharedArrayBuffer;
  readonly #counts: BigInt64Array;
  readonly #totals: SpillTotals;
  readonly #thread: number;

  /** @param thread the slot of this thread */
  constructor(shared: SharedArrayBuffer, totals: SpillTotals, thread: number) {
    this.shared = shared;
    this.#counts = new BigInt64Array(shared);
    this.#totals = totals;
    this.#thread = thread;
  }

  /** @param slots for all threads that can exist at once, including those about to end */
  static forThreads(slots: number, totals: SpillTotals): SpillUsage {
    const bytes = slots * countsPerThread * BigInt64Array.BYTES_PER_ELEMENT;
    return new SpillUsage(new SharedArrayBuffer(bytes), totals, 0);
  }

  /** The slots of threads. */
  get slots(): number {
    return this.#counts.length / countsPerThread;
  }

  get bytes(): number {
    return this.#sum(allUsers, bytesAt);
  }

  get files(): number {
    return this.#sum(allUsers, filesAt);
  }

  /** The part of one user. */
  ofUser(slot: number): UserSpillUsage {
    return new UserSpillUsage(this, 1 + slot);
  }

  /** For `UserSpillUsage`, as is `release`. */
  reserve(user: number, bytes: number, files: number): boolean {
    // Added before the checks, so that of two threads that reserve at the same time, at least one sees what both have added.
    this.#add(user, bytes, files);
    const { bytes: bytesLimit, files: filesLimit } = this.#totals;
    if (this.#mayHave(bytesLimit, user, bytesAt, bytes) && this.#mayHave(filesLimit, user, filesAt, files)) return true;
    this.#add(user, -bytes, -files);
    return false;
  }

  release(user: number, bytes: number, files: number): void {
    this.#add(user, -bytes, -files);
  }

  /** Clears the counts of a thread that has ended: its files went with it. */
  forget(slot: number): void {
    const first = slot * countsPerThread;
    for (let at = first; at < first + countsPerThread; at++) Atomics.store(this.#counts, at, 0n);
  }

  #add(user: number, bytes: number, files: number): void {
    const first = this.#thread * countsPerThread;
    for (const pair of [first + 2 * allUsers, first + 2 * user]) {
      Atomics.add(this.#counts, pair + bytesAt, BigInt(bytes));
      Atomics.add(this.#counts, pair + filesAt, BigInt(files));
    }
  }

  /** Whether a user may have what was just added. */
  #mayHave(limit: SharedLimit, user: number, place: number, added: number): boolean {
    if (added === 0) return true;
    const held = this.#sum(user, place) - added;
    return mayTake(limit, held, added, limit.max - (this.#sum(allUsers, place) - added));
  }

  #sum(user: number, place: number): number {
    let sum = 0n;
    for (let at = 2 * user + place; at < this.#counts.length; at += countsPerThread) {
      sum += Atomics.load(this.#counts, at);
    }
    return Number(sum);
  }
}

/** The spilled rows of one user. */
export class UserSpillUsage {
  readonly #usage: SpillUsage;
  readonly #user: number;

  /** For `SpillUsage`. */
  constructor(usage: SpillUsage, user: number) {
    this.#usage = usage;
    this.#user = user;
  }

  /**
   * @param files that are about to be opened
   * @returns false, and reserves nothing, if a limit would be exceeded (see `mayTake`)
   */
  reserve(bytes: number, files: number): boolean {
    return this.#usage.reserve(this.#user, bytes, files);
  }

  release(bytes: number, files: number): void {
    this.#usage.release(this.#user, bytes, files);
  }
}
