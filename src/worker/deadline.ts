import type { Kill } from './kill.ts';

/** The time for a killed statement to end grows to at most this many times `killTimeoutMs`. */
const killWaitFactor = 4;

/** Gives up a connection whose database does not finish in time after a kill, or after the end of a statement. */
export class Deadline {
  readonly #timeoutMs: number;
  readonly #giveUp: (reason: string) => void;
  #timer: NodeJS.Timeout | null = null;

  /** @param timeoutMs `killTimeoutMs` */
  constructor(timeoutMs: number, giveUp: (reason: string) => void) {
    this.#timeoutMs = timeoutMs;
    this.#giveUp = giveUp;
  }

  /**
   * The connection must be idle in time after a kill. The time that kills wait for the database does not count: the connection
   * would be given up while the database, which has yet to carry out the kill, still counts it against its limits.
   */
  expectEnd(kill: Kill): void {
    const began = performance.now();
    const check = (): void => {
      const timeoutMs = Math.min(this.#timeoutMs + kill.waitedMs, killWaitFactor * this.#timeoutMs);
      const leftMs = began + timeoutMs - performance.now();
      if (leftMs > 0) this.#timer = setTimeout(check, Math.ceil(leftMs));
      else this.#giveUp(`a killed statement did not end within ${Math.round(timeoutMs)} ms`);
    };
    if (this.#timer === null) check();
  }

  /** The connection must be ready for the next statement in time. */
  expectIdle(): void {
    this.#timer ??= setTimeout(
      () => this.#giveUp(`it was not made ready for the next statement within ${this.#timeoutMs} ms`),
      this.#timeoutMs,
    );
  }

  /** The connection is idle or closed. */
  clear(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
