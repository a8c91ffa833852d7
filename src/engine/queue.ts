import type { Config } from '../config/config.ts';
import { mayTake } from '../share.ts';

export type QueueOptions = Config['queue'];

/** A statement that is to wait for its turn. */
export interface Waiter {
  readonly user: string;
  /** Whether it needs a connection of its own, and not only memory. */
  readonly needsConnection: boolean;
  /** Begins it. @returns false if there is no connection for it */
  start(): boolean;
  /** It has waited for as long as it may. */
  giveUp(): void;
}

interface Place {
  readonly waiter: Waiter;
  readonly timer: NodeJS.Timeout;
}

/**
 * Statements that wait for memory or for a connection: first come, first served among those of one user, and users in
 * turn. One that needs what there is does not wait behind one that needs what there is not.
 */
export class Queue {
  readonly #options: QueueOptions;
  readonly #hasRoomFor: (user: string) => boolean;
  /** The user whose turn is next comes first. */
  readonly #users = new Map<string, Place[]>();
  #size = 0;
  #isAdvancing = false;

  /** @param hasRoomFor whether there is memory for one more statement of the user */
  constructor(options: QueueOptions, hasRoomFor: (user: string) => boolean) {
    this.#options = options;
    this.#hasRoomFor = hasRoomFor;
  }

  /** Statements that wait. */
  get size(): number {
    return this.#size;
  }

  /**
   * Whether one more of the user may wait: `user full` if the user has its share of the places, and others are free.
   */
  admit(user: string): 'admitted' | 'full' | 'user full' {
    const { queueMax } = this.#options;
    const free = queueMax - this.#size;
    if (free <= 0) return 'full';
    // Rounded up: with few places, one user may take all of them.
    const limit = { max: queueMax, perUserMax: Math.ceil(0.75 * queueMax) };
    return mayTake(limit, this.#users.get(user)?.length ?? 0, 1, free) ? 'admitted' : 'user full';
  }

  /** Whether a statement of the user waits. */
  hasWaiting(user: string): boolean {
    return this.#users.has(user);
  }

  add(waiter: Waiter): void {
    const place = this.#placeOf(waiter, this.#options.queueWaitMs);
    const places = this.#users.get(waiter.user);
    if (places === undefined) this.#users.set(waiter.user, [place]);
    else places.push(place);
  }

  /**
   * Takes a statement back that was begun and got no connection. It is the next of its user.
   * @param waitedMs how long it has waited before
   */
  putBack(waiter: Waiter, waitedMs: number): void {
    const place = this.#placeOf(waiter, Math.max(0, this.#options.queueWaitMs - waitedMs));
    this.#users.set(waiter.user, [place, ...(this.#users.get(waiter.user) ?? [])]);
  }

  #placeOf(waiter: Waiter, waitMs: number): Place {
    this.#size++;
    const timer = setTimeout(() => {
      if (this.remove(waiter)) waiter.giveUp();
    }, waitMs);
    return { waiter, timer };
  }

  /** @returns whether it was waiting */
  remove(waiter: Waiter): boolean {
    const places = this.#users.get(waiter.user);
    const index = places?.findIndex((place) => place.waiter === waiter) ?? -1;
    const [place] = index < 0 ? [] : (places?.splice(index, 1) ?? []);
    if (place === undefined) return false;
    clearTimeout(place.timer);
    if (places?.length === 0) this.#users.delete(waiter.user);
    this.#size--;
    return true;
  }

  /** How many turns it is until a statement's own, its own included; 0 if it does not wait. */
  position(waiter: Waiter): number {
    const rank = this.#users.get(waiter.user)?.findIndex((place) => place.waiter === waiter) ?? -1;
    if (rank < 0) return 0;
    let position = 0;
    let isBefore = true;
    for (const [user, places] of this.#users) {
      if (user === waiter.user) isBefore = false;
      // Whoever's turn comes before has one more by then.
      position += Math.min(places.length, isBefore || user === waiter.user ? rank + 1 : rank);
    }
    return position;
  }

  /** Begins those for which there is what they need. */
  advance(): void {
    // To begin one may make room for another, which then has its turn here.
    if (this.#size === 0 || this.#isAdvancing) return;
    this.#isAdvancing = true;
    try {
      while (this.#advanceOnce());
    } finally {
      this.#isAdvancing = false;
    }
  }

  /** @returns whether one has begun */
  #advanceOnce(): boolean {
    for (const [user, places] of this.#users) {
      if (!this.#hasRoomFor(user)) continue;
      let lacksConnection = false;
      for (const { waiter } of places) {
        // If one finds no connection, none of the same user does.
        if (lacksConnection && waiter.needsConnection) continue;
        if (!waiter.start()) {
          lacksConnection = true;
          continue;
        }
        this.remove(waiter);
        if (places.length > 0) {
          this.#users.delete(user);
          this.#users.set(user, places);
        }
        return true;
      }
    }
    return false;
  }

  close(): void {
    for (const places of this.#users.values()) for (const { timer } of places) clearTimeout(timer);
    this.#users.clear();
    this.#size = 0;
  }
}
