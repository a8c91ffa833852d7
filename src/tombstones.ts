/**
 * The key of a user's query or session. Clients may choose ids, which are unique per user only. With the length, two pairs of
 * user and id never have the same key.
 */
export function ownedKey(owner: string, id: string): string {
  return `${owner.length}:${owner}${id}`;
}

/** Why a query or session was removed. `code` is the error code for its client; null: it had ended without an error. */
export interface Tombstone {
  readonly reason: string;
  readonly code: number | null;
}

/** One user's tombstones in two generations. When the newer one is old enough, it replaces the older one, which is dropped. */
class UserTombstones {
  newer = new Map<string, Tombstone>();
  older = new Map<string, Tombstone>();
  since = performance.now();

  get size(): number {
    return this.newer.size + this.older.size;
  }
}

/** The fraction of a user's tombstones, the oldest first, that is dropped to make room. */
const partDropped = 1 / 8;

/**
 * Remembers for a while why queries or sessions were removed. No timer per id, and no scan to expire one. If there are too
 * many, those of a user with at least as many as the average user are dropped, so that one user's statements do not displace
 * the tombstones of others.
 */
export class Tombstones {
  readonly #keptMs: number;
  readonly #max: number;
  readonly #users = new Map<string, UserTombstones>();
  #size = 0;
  /** Most tombstones in a row have the same reason, and share one object. */
  #last: Tombstone = { reason: '', code: null };

  /**
   * @param keptMs minimum lifetime of a tombstone, unless there are too many
   * @param max tombstones of all users at once
   */
  constructor(keptMs: number, max: number) {
    this.#keptMs = keptMs;
    this.#max = max;
  }

  add(id: string, owner: string, reason: string, code: number | null = null): void {
    this.#current(owner);
    if (this.#size >= this.#max) this.#makeRoom();
    let tombstones = this.#users.get(owner);
    if (tombstones === undefined) {
      tombstones = new UserTombstones();
      this.#users.set(owner, tombstones);
    }
    if (this.#last.reason !== reason || this.#last.code !== code) this.#last = { reason, code };
    const before = tombstones.newer.size;
    tombstones.newer.set(id, this.#last);
    this.#size += tombstones.newer.size - before;
  }

  /** @returns undefined if the user had no query or session with that id, or its tombstone has expired */
  find(id: string, user: string): Tombstone | undefined {
    const tombstones = this.#current(user);
    return tombstones?.newer.get(id) ?? tombstones?.older.get(id);
  }

  /** The user's tombstones, without those that have expired. */
  #current(user: string): UserTombstones | undefined {
    const tombstones = this.#users.get(user);
    if (tombstones === undefined) return undefined;
    const age = performance.now() - tombstones.since;
    if (age < this.#keptMs) return tombstones;
    this.#size -= tombstones.older.size;
    tombstones.older = tombstones.newer;
    tombstones.newer = new Map();
    tombstones.since = performance.now();
    if (age >= 2 * this.#keptMs) {
      this.#size -= tombstones.older.size;
      tombstones.older = new Map();
    }
    if (tombstones.size > 0) return tombstones;
    this.#users.delete(user);
    return undefined;
  }

  /** Drops expired tombstones, or if there are none, the oldest ones of a user who has at least as many as the average user. */
  #makeRoom(): void {
    for (const [user, tombstones] of this.#users) {
      if (this.#current(user) === undefined || this.#size < this.#max) continue;
      if (tombstones.size * this.#users.size < this.#size) continue;
      this.#drop(tombstones, Math.ceil(tombstones.size * partDropped));
      // Users with as many tombstones take turns.
      this.#users.delete(user);
      if (tombstones.size > 0) this.#users.set(user, tombstones);
      return;
    }
  }

  #drop(tombstones: UserTombstones, count: number): void {
    let left = count;
    for (const ids of [tombstones.older, tombstones.newer]) {
      for (const id of ids.keys()) {
        if (left === 0) return;
        ids.delete(id);
        this.#size--;
        left--;
      }
    }
  }
}
