import { Rotation } from '../rotation.ts';

/** What the main thread may spend on requests before it turns to other events, such as messages of the workers. */
const turnMsMax = 10;

type Start = () => void;

/**
 * Lets users take turns while the main thread is busy, so that one user's requests on hundreds of connections do not all go
 * before another user's. Usually it does nothing: requests wait only from when those of one turn of the event loop have taken
 * too long. Then one request of each user is started in rotation, and as many as fit in a turn.
 */
export class Turns {
  readonly #waiting = new Rotation<Start>();
  #endsAt = 0;
  #isScheduled = false;

  /** Resolves when the request may be handled; undefined: at once. */
  take(user: string): Promise<void> | undefined {
    const now = performance.now();
    // Not for each turn of the event loop: Node would ask the system for events more often, and answer fewer requests at a time.
    if (!this.#isScheduled && now >= this.#endsAt) this.#begin(now);
    if (this.#waiting.isEmpty && now < this.#endsAt) return undefined;
    return new Promise((resolve) => this.#waiting.add(user, resolve));
  }

  #begin(now: number): void {
    this.#isScheduled = true;
    this.#endsAt = now + turnMsMax;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#waiting.isEmpty) return;
      this.#begin(performance.now());
      this.#next();
    });
  }

  #next(): void {
    this.#waiting.take()?.();
    if (this.#waiting.isEmpty || performance.now() >= this.#endsAt) return;
    // Node runs ticks when no microtask is left: when the request has been handled, or waits for something.
    queueMicrotask(() => process.nextTick(() => this.#next()));
  }
}
