/**
 * Ids that clients give are unique for one user only, so what belongs to users is found by user and id together. The length
 * keeps a user and an id that run into each other apart from another such pair.
 */
export function ownedKey(owner: string, id: string): string {
  return `${owner.length}:${owner}${id}`;
}

/** Why something was removed, and with which error code its client is told so; null: it had come to its end without one. */
export interface Removal {
  readonly reason: string;
  readonly code: number | null;
}

/** Of one user, in two maps: when the newer one is old enough, it becomes the older one, whose entries are dropped all at once. */
class UserRemovals {
  newer = new Map<string, Removal>();
  older = new Map<string, Removal>();
  since = performance.now();

  get size(): number {
    return this.newer.size + this.older.size;
  }
}

/** When there is no room, the user that gives way loses this part of what is remembered of it, the oldest first. */
const partDropped = 1 / 8;

/**
 * Why queries or sessions were removed, by their owners and ids, for a while. No timer per id, and no scan to expire one. If
 * there are too many, a user of whom no fewer are remembered than of the average user makes room, so that the statements of
 * one user do not make the server forget those of another.
 */
export class Removals {
  readonly #keptMs: number;
  readonly #max: number;
  readonly #users = new Map<string, UserRemovals>();
  #size = 0;
  /** Most removals in a row have the same reason, and share one object. */
  #last: Removal = { reason: '', code: null };

  /**
   * @param keptMs for which an id is remembered at the least, unless there are too many
   * @param max ids at once, of all users
   */
  constructor(keptMs: number, max: number) {
    this.#keptMs = keptMs;
    this.#max = max;
  }

  add(id: string, owner: string, reason: string, code: number | null = null): void {
    this.#current(owner);
    if (this.#size >= this.#max) this.#makeRoom();
    let removals = this.#users.get(owner);
    if (removals === undefined) {
      removals = new UserRemovals();
      this.#users.set(owner, removals);
    }
    if (this.#last.reason !== reason || this.#last.code !== code) this.#last = { reason, code };
    const before = removals.newer.size;
    removals.newer.set(id, this.#last);
    this.#size += removals.newer.size - before;
  }

  /** The removal of the user's query or session of that id; undefined if there was none, or it is forgotten. */
  find(id: string, user: string): Removal | undefined {
    const removals = this.#current(user);
    return removals?.newer.get(id) ?? removals?.older.get(id);
  }

  /** What is remembered of the user, without what is too old. */
  #current(user: string): UserRemovals | undefined {
    const removals = this.#users.get(user);
    if (removals === undefined) return undefined;
    const age = performance.now() - removals.since;
    if (age < this.#keptMs) return removals;
    this.#size -= removals.older.size;
    removals.older = removals.newer;
    removals.newer = new Map();
    removals.since = performance.now();
    if (age >= 2 * this.#keptMs) {
      this.#size -= removals.older.size;
      removals.older = new Map();
    }
    if (removals.size > 0) return removals;
    this.#users.delete(user);
    return undefined;
  }

  /** Drops what is too old, and if that is nothing, the oldest of a user who has as many as the average user, or more. */
  #makeRoom(): void {
    for (const [user, removals] of this.#users) {
      if (this.#current(user) === undefined || this.#size < this.#max) continue;
      if (removals.size * this.#users.size < this.#size) continue;
      this.#drop(removals, Math.ceil(removals.size * partDropped));
      // Among users of whom as many are remembered, the next one is another.
      this.#users.delete(user);
      if (removals.size > 0) this.#users.set(user, removals);
      return;
    }
  }

  #drop(removals: UserRemovals, count: number): void {
    let left = count;
    for (const ids of [removals.older, removals.newer]) {
      for (const id of ids.keys()) {
        if (left === 0) return;
        ids.delete(id);
        this.#size--;
        left--;
      }
    }
  }
}
