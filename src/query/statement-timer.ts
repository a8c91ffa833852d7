import { type Cause, causes } from '../wire/failures.ts';
import type { QueryLimits } from './limits.ts';

/** Ends a statement that runs for too long. */
export class StatementTimer {
  readonly #limits: Pick<QueryLimits, 'timeoutMs' | 'isTimeoutAsked'>;
  #timer: NodeJS.Timeout | null = null;

  constructor(limits: Pick<QueryLimits, 'timeoutMs' | 'isTimeoutAsked'>) {
    this.#limits = limits;
  }

  start(expire: (cause: Cause) => void): void {
    const { timeoutMs, isTimeoutAsked } = this.#limits;
    if (timeoutMs === 0) return;
    this.#timer = setTimeout(() => expire(causes.statementTimeout(timeoutMs / 1_000, isTimeoutAsked)), timeoutMs);
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
  }
}
