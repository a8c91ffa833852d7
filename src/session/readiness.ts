import { RefusedError } from './lease.ts';
import type { LeaseOwner, Leases } from './leases.ts';

/** An answer is good for this long, so that a prober cannot make work. */
const freshMs = 1_000;

/** Knows whether the database answers, by logging in; a refused login is an answer too. */
export class Readiness {
  readonly #leases: Leases;
  readonly #owner: LeaseOwner;
  #asked = Number.NEGATIVE_INFINITY;
  #answer: Promise<string | null> = Promise.resolve(null);

  constructor(leases: Leases, user: string, password: string) {
    this.#leases = leases;
    this.#owner = { login: { user, password, database: null }, digest: 'readiness' };
  }

  /** null if it does, else the reason why not. */
  whyNot(): Promise<string | null> {
    const now = performance.now();
    if (now - this.#asked > freshMs) {
      this.#asked = now;
      this.#answer = this.#ask();
    }
    return this.#answer;
  }

  async #ask(): Promise<string | null> {
    try {
      await this.#leases.probe(this.#owner);
      return null;
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      return error.refusal.kind === 'unavailable' ? error.message : null;
    }
  }
}
