import { Rotation } from '../rotation.ts';

/** Runs a few tasks at a time. Users take turns, so that one user's many tasks do not all go before another user's. */
export class UserTurns {
  readonly #runningMax: number;
  readonly #perUserMax: number;
  readonly #waiting = new Rotation<() => void>();
  #running = 0;
  readonly #runningByUser = new Map<string, number>();
  /** A user whose task was the last to wait, and until when. */
  #lastWait = { user: '', at: Number.NEGATIVE_INFINITY };
  /** When the last task waited of a user other than that one. */
  #otherWaitAt = Number.NEGATIVE_INFINITY;

  /** @param perUserMax tasks of one user that run at a time */
  constructor(runningMax: number, perUserMax = runningMax) {
    this.#runningMax = runningMax;
    this.#perUserMax = perUserMax;
  }

  /** Whether a task of the user would run at once. */
  isFree(user: string): boolean {
    return this.#running < this.#runningMax && this.#isAble(user);
  }

  /** Whether a task of the user, or those of several users, waits, or had to wait in the last milliseconds. */
  waitsOrWaited(user: string, withinMs: number): boolean {
    let noted = 0;
    for (const waiting of this.#waiting.users) {
      this.#noteWait(waiting);
      noted++;
      // Tasks of several users wait, and the others need no look.
      if (noted === 2) break;
    }
    const since = performance.now() - withinMs;
    return this.#lastWait.at > since && (this.#lastWait.user === user || this.#otherWaitAt > since);
  }

  /**
   * @param signal a task that waits when it is aborted is not run
   * @throws the reason of the signal
   */
  async run<Result>(user: string, task: () => Promise<Result>, signal: AbortSignal | null = null): Promise<Result> {
    signal?.throwIfAborted();
    if (this.isFree(user)) this.#count(user, 1);
    else await this.#wait(user, signal);
    try {
      return await task();
    } finally {
      this.#count(user, -1);
      this.#next();
    }
  }

  #wait(user: string, signal: AbortSignal | null): Promise<void> {
    this.#noteWait(user);
    return new Promise((resolve, reject) => {
      const start = (): void => {
        signal?.removeEventListener('abort', giveUp);
        this.#noteWait(user);
        this.#count(user, 1);
        resolve();
      };
      const giveUp = (): void => {
        this.#waiting.remove(user, start);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', giveUp, { once: true });
      this.#waiting.add(user, start);
    });
  }

  /** The task that has ended hands its place to one that waits. */
  #next(): void {
    this.#waiting.take((user) => this.#isAble(user))?.();
  }

  #noteWait(user: string): void {
    if (user !== this.#lastWait.user) this.#otherWaitAt = this.#lastWait.at;
    this.#lastWait = { user, at: performance.now() };
  }

  #isAble(user: string): boolean {
    return (this.#runningByUser.get(user) ?? 0) < this.#perUserMax;
  }

  #count(user: string, change: 1 | -1): void {
    this.#running += change;
    const running = (this.#runningByUser.get(user) ?? 0) + change;
    if (running > 0) this.#runningByUser.set(user, running);
    else this.#runningByUser.delete(user);
  }
}
