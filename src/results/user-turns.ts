import { Rotation } from '../rotation.ts';

/** Runs a few tasks at a time. Users take turns, so that one user's many tasks do not all go before another user's. */
export class UserTurns {
  readonly #runningMax: number;
  readonly #waiting = new Rotation<() => void>();
  #running = 0;

  constructor(runningMax: number) {
    this.#runningMax = runningMax;
  }

  async run<Result>(user: string, task: () => Promise<Result>): Promise<Result> {
    if (this.#running < this.#runningMax) this.#running++;
    else await new Promise<void>((resolve) => this.#waiting.add(user, resolve));
    try {
      return await task();
    } finally {
      this.#next();
    }
  }

  /** The task that ends hands its place to the next. */
  #next(): void {
    const start = this.#waiting.take();
    if (start === undefined) this.#running--;
    else start();
  }
}
