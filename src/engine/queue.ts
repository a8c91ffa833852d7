import type { Config } from '../config/config.ts';
import { mayTake } from '../share.ts';

export type QueueOptions = Config['queue'];

/** A statement in the queue. */
export interface Waiter {
  readonly user: string;
  /** Whether it needs a connection in addition to memory. */
  readonly needsConnection: boolean;
  /** Starts it. @returns false if there is no connection for it */
  start(): boolean;
  /** Called when it has waited for `queueWaitMs`. */
  giveUp(): void;
}

interface QueueEntry {
  readonly waiter: Waiter;
  readonly timer: NodeJS.Timeout;
}

/**
 * Statements that wait for memory or for a connection. Those of one user start in their order; users take turns. A statement
 * that needs only memory does not wait behind one that needs a connection.
 */
export class Queue {
  readonly #options: QueueOptions;
  readonly #hasRoomFor: (user: string) => boolean;
  /** The user whose turn is next comes first. */
  readonly #users = new Map<string, QueueEntry[]>();
  #size = 0;
  #isAdvancing = false;

  /** @param hasRoomFor whether there is memory for one more statement of the user */
  constructor(options: QueueOptions, hasRoomFor: (user: string) => boolean) {
    this.#options = options;
    this.#hasRoomFor = hasRoomFor;
  }

  /** The number of waiting statements. */
  get size(): number {
    return this.#size;
  }

  /** Whether the user may queue one more statement. `user has too many`: the queue has room, but not for more of this user. */
  admit(user: string): 'admitted' | 'queue full' | 'user has too many' {
    const { queueMax } = this.#options;
    const free = queueMax - this.#size;
    if (free <= 0) return 'queue full';
    // Rounded up, so that one user can use all of a very short queue.
    const limit = { max: queueMax, perUserMax: Math.ceil(0.75 * queueMax) };
    return mayTake(limit, this.#users.get(user)?.length ?? 0, 1, free) ? 'admitted' : 'user has too many';
  }

  /** Whether a statement of the user waits. */
  hasWaiting(user: string): boolean {
    return this.#users.has(user);
  }

  add(waiter: Waiter): void {
    const entry = this.#entryOf(waiter, this.#options.queueWaitMs);
    const entries = this.#users.get(waiter.user);
    if (entries === undefined) this.#users.set(waiter.user, [entry]);
    else entries.push(entry);
  }

  /**
   * Takes back a statement that was started and got no connection. It becomes the next of its user.
   * @param waitedMs how long it has already waited
   */
  putBack(waiter: Waiter, waitedMs: number): void {
    const entry = this.#entryOf(waiter, Math.max(0, this.#options.queueWaitMs - waitedMs));
    this.#users.set(waiter.user, [entry, ...(this.#users.get(waiter.user) ?? [])]);
  }

  #entryOf(waiter: Waiter, waitMs: number): QueueEntry {
    this.#size++;
    const timer = setTimeout(() => {
      if (this.remove(waiter)) waiter.giveUp();
    }, waitMs);
    return { waiter, timer };
  }

  /** @returns whether it was waiting */
  remove(waiter: Waiter): boolean {
    const entries = this.#users.get(waiter.user);
    const index = entries?.findIndex((entry) => entry.waiter === waiter) ?? -1;
    const [entry] = index < 0 ? [] : (entries?.splice(index, 1) ?? []);
    if (entry === undefined) return false;
    clearTimeout(entry.timer);
    if (entries?.length === 0) this.#users.delete(waiter.user);
    this.#size--;
    return true;
  }

  /** The number of turns until a statement starts, including its own turn; 0 if it does not wait. */
  position(waiter: Waiter): number {
    const rank = this.#users.get(waiter.user)?.findIndex((entry) => entry.waiter === waiter) ?? -1;
    if (rank < 0) return 0;
    let position = 0;
    let isBefore = true;
    for (const [user, entries] of this.#users) {
      if (user === waiter.user) isBefore = false;
      // Users whose turn is earlier have one turn more by then.
      position += Math.min(entries.length, isBefore || user === waiter.user ? rank + 1 : rank);
    }
    return position;
  }

  /** Starts the statements for which there is memory, and a connection if they need one. */
  advance(): void {
    // A start can free memory or a connection for another statement, which this loop then starts.
    if (this.#size === 0 || this.#isAdvancing) return;
    this.#isAdvancing = true;
    try {
      while (this.#advanceOnce());
    } finally {
      this.#isAdvancing = false;
    }
  }

  /** @returns whether one has been started */
  #advanceOnce(): boolean {
    for (const [user, entries] of this.#users) {
      if (!this.#hasRoomFor(user)) continue;
      let lacksConnection = false;
      for (const { waiter } of entries) {
        // Without a connection for this one, there is none for others of the same user.
        if (lacksConnection && waiter.needsConnection) continue;
        if (!waiter.start()) {
          lacksConnection = true;
          continue;
        }
        this.remove(waiter);
        if (entries.length > 0) {
          this.#users.delete(user);
          this.#users.set(user, entries);
        }
        return true;
      }
    }
    return false;
  }

  close(): void {
    for (const entries of this.#users.values()) for (const { timer } of entries) clearTimeout(timer);
    this.#users.clear();
    this.#size = 0;
  }
}
