import type { DatabaseLimit } from '../wire/messages.ts';

/** After a refusal, the next attempt waits this long, and twice as long after each further one, up to the maximum. */
const delayMsMin = 50;
const delayMsMax = 1_000;
/** For this long after the last refusal, connections are opened one after the other. */
const cautionMs = 10_000;

/** A connection limit of the database for which a connection was refused in the last `cautionMs`. */
interface ReachedLimit {
  refusedAt: number;
  retryAt: number;
  delayMs: number;
  isTrying: boolean;
}

/** An attempt to open a connection. */
export interface OpenAttempt {
  readonly user: string;
  /** The limits that apply, if a connection was refused for them lately. */
  readonly limits: readonly ReachedLimit[];
}

export interface BackoffListener {
  /** Another attempt may be made. */
  onRetry(): void;
}

/**
 * Paces the opening of connections after the database has refused one because a limit of its own is reached: one attempt at a
 * time, with growing delays between those that are refused.
 */
export class OpenBackoff {
  readonly #listener: BackoffListener;
  /** The limit of the database under '', those of users under their names with a blank before them. */
  readonly #limits = new Map<string, ReachedLimit>();

  constructor(listener: BackoffListener) {
    this.#listener = listener;
  }

  /** Whether a connection for the user may be opened now. */
  mayTry(user: string): boolean {
    return this.#limitsOf(user).every(({ isTrying, retryAt }) => !isTrying && performance.now() >= retryAt);
  }

  /** Called before a connection is opened. */
  begin(user: string): OpenAttempt {
    const limits = this.#limitsOf(user);
    for (const limit of limits) limit.isTrying = true;
    return { user, limits };
  }

  /** @param refusal null: the connection is open, or was refused for another reason than a limit */
  end({ user, limits }: OpenAttempt, refusal: DatabaseLimit | null): void {
    for (const limit of limits) {
      limit.isTrying = false;
      if (refusal === null) limit.delayMs = 0;
    }
    if (refusal !== null) this.#refused(refusal === 'max connections' ? '' : ` ${user}`);
  }

  #refused(key: string): void {
    const now = performance.now();
    const limit = this.#limits.get(key) ?? { refusedAt: 0, retryAt: 0, delayMs: 0, isTrying: false };
    limit.delayMs = Math.min(Math.max(delayMsMin, 2 * limit.delayMs), delayMsMax);
    limit.refusedAt = now;
    limit.retryAt = now + limit.delayMs;
    this.#limits.set(key, limit);
    // A timer may fire up to 1 ms early.
    setTimeout(() => this.#listener.onRetry(), limit.delayMs + 2).unref();
  }

  #limitsOf(user: string): ReachedLimit[] {
    if (this.#limits.size === 0) return [];
    const now = performance.now();
    return ['', ` ${user}`].flatMap((key) => {
      const limit = this.#limits.get(key);
      if (limit === undefined) return [];
      if (limit.isTrying || now - limit.refusedAt < cautionMs) return [limit];
      this.#limits.delete(key);
      return [];
    });
  }
}
