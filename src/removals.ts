interface Removal {
  readonly owner: string;
  readonly reason: string;
}

/**
 * Why queries are no more, by their ids, for a while. What is new goes into one of two maps; when that has stood for the while,
 * or is full, it becomes the older one, and what was the older one is forgotten whole. So an id costs no clock, and to
 * forget it no search.
 */
export class Removals {
  readonly #keptMs: number;
  readonly #half: number;
  #newer = new Map<string, Removal>();
  #older = new Map<string, Removal>();
  #since = 0;
  /** Most that come one after the other are of one user, and for one reason: they share it. */
  #last: Removal = { owner: '', reason: '' };

  /**
   * @param keptMs for which an id is remembered at the least, unless there are too many
   * @param max ids at once, two or more; the latest are remembered, half as many at the least
   */
  constructor(keptMs: number, max: number) {
    this.#keptMs = keptMs;
    this.#half = Math.floor(max / 2);
  }

  add(id: string, owner: string, reason: string): void {
    this.#forget();
    if (this.#newer.size >= this.#half) this.#turn();
    if (this.#last.owner !== owner || this.#last.reason !== reason) this.#last = { owner, reason };
    this.#newer.set(id, this.#last);
  }

  /** Why the user's query of that id was removed; undefined if there was none, or it is forgotten. */
  why(id: string, user: string): string | undefined {
    this.#forget();
    const removal = this.#newer.get(id) ?? this.#older.get(id);
    return removal?.owner === user ? removal.reason : undefined;
  }

  has(id: string): boolean {
    this.#forget();
    return this.#newer.has(id) || this.#older.has(id);
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
