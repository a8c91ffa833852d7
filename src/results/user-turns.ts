/** Runs a few tasks at a time. Users take turns, so that one user's many tasks do not all go before another user's. */
export class UserTurns {
  readonly #runningMax: number;
  /** By user; each has a task at least. The user at the front is the next. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #running = 0;

  constructor(runningMax: number) {
    this.#runningMax = runningMax;
  }

  async run<Result>(user: string, task: () => Promise<Result>): Promise<Result> {
    if (this.#running >= this.#runningMax) await this.#turn(user);
    else this.#running++;
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  #turn(user: string): Promise<void> {
    return new Promise((resolve) => {
      const starts = this.#waiting.get(user);
      if (starts === undefined) this.#waiting.set(user, [resolve]);
      else starts.push(resolve);
    });
  }

  /** The task that ends hands its place to the next. */
  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) {
      this.#running--;
      return;
    }
    const [user, starts] = first;
    const start = starts.shift();
    this.#waiting.delete(user);
    if (starts.length > 0) this.#waiting.set(user, starts);
    start?.();
  }
}
