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

/**
 * Why queries or sessions were removed, by their owners and ids, for a while. New entries go into one of two maps; when that
 * is old enough, or full, it becomes the older one, and the entries of the former older one are dropped all at once. No timer
 * per id, and no scan to expire one.
 */
export class Removals {
  readonly #keptMs: number;
  readonly #half: number;
  #newer = new Map<string, Removal>();
  #older = new Map<string, Removal>();
  #since = 0;
  /** Most removals in a row have the same reason, and share one object. */
  #last: Removal = { reason: '', code: null };

  /**
   * @param keptMs for which an id is remembered at the least, unless there are too many
   * @param max ids at once, two or more; the latest are remembered, half as many at the least
   */
  constructor(keptMs: number, max: number) {
    this.#keptMs = keptMs;
    this.#half = Math.floor(max / 2);
  }

  add(id: string, owner: string, reason: string, code: number | null = null): void {
    this.#forget();
    if (this.#newer.size >= this.#half) this.#turn();
    if (this.#last.reason !== reason || this.#last.code !== code) this.#last = { reason, code };
    this.#newer.set(ownedKey(owner, id), this.#last);
  }

  /** The removal of the user's query or session of that id; undefined if there was none, or it is forgotten. */
  find(id: string, user: string): Removal | undefined {
    this.#forget();
    const key = ownedKey(user, id);
    return this.#newer.get(key) ?? this.#older.get(key);
  }

  #forget(): void {
    const age = performance.now() - this.#since;
    if (age < this.#keptMs) return;
    this.#turn();
    if (age >= 2 * this.#keptMs) this.#turn();
  }

  #turn(): void {
    this.#older = this.#newer;
    this.#newer = new Map();
    this.#since = performance.now();
  }
}
