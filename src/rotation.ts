/** Waiters of users who take turns, so that one user's many do not all go before another user's. */
export class Rotation<Waiter> {
  /** By user; each has a waiter at least. The user at the front is the next. */
  readonly #waiting = new Map<string, Waiter[]>();

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** Those who have waiters, the next first. */
  get users(): Iterable<string> {
    return this.#waiting.keys();
  }

  add(user: string, waiter: Waiter): void {
    const waiters = this.#waiting.get(user);
    if (waiters === undefined) this.#waiting.set(user, [waiter]);
    else waiters.push(waiter);
  }

  /**
   * Takes the first waiter of the user whose turn it is, who then comes last.
   * @param isAble whether it can be a user's turn; users who cannot have it keep their places
   */
  take(isAble: (user: string) => boolean = () => true): Waiter | undefined {
    for (const [user, waiters] of this.#waiting) {
      if (!isAble(user)) continue;
      const waiter = waiters.shift();
      this.#waiting.delete(user);
      if (waiters.length > 0) this.#waiting.set(user, waiters);
      return waiter;
    }
    return undefined;
  }

  /** Takes a waiter out of its turn, if it still waits. */
  remove(user: string, waiter: Waiter): void {
    const waiters = this.#waiting.get(user) ?? [];
    const index = waiters.indexOf(waiter);
    if (index >= 0) waiters.splice(index, 1);
    if (waiters.length === 0) this.#waiting.delete(user);
  }
}
