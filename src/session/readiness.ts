import type { Observe } from '../events.ts';
import type { LeaseOwner, Leases } from './leases.ts';
import { OpenRefusedError, reachedLimitOf } from './open-refused-error.ts';

/** How long an answer is reused, so that frequent probes do not burden the database. */
const freshMs = 1_000;
/** The same after a refused login: the database may lock an account after a number of wrong passwords. */
const refusedFreshMs = 5_000;

interface Answer {
  /** Why the service cannot take statements; null if it can. */
  readonly reason: string | null;
  readonly isReachable: boolean;
}

/** Checks by a login whether the database accepts the user and the schema of --mysql_url. */
export class Readiness {
  readonly #leases: Leases;
  readonly #owner: LeaseOwner;
  readonly #observe: Observe;
  #askedAt = Number.NEGATIVE_INFINITY;
  #freshMs = freshMs;
  /** Whether a connection has failed since the last answer, which was that the database can be used. */
  #isDoubtful = false;
  #isReady = false;
  #answer: Promise<Answer> = Promise.resolve({ reason: null, isReachable: true });

  constructor(leases: Leases, user: string, password: string, observe: Observe) {
    this.#leases = leases;
    this.#owner = { login: { user, password, database: null }, digest: 'readiness' };
    this.#observe = observe;
  }

  /** null if the service can take statements, else the reason why not. */
  async whyNot(): Promise<string | null> {
    return (await this.#fresh()).reason;
  }

  async isReachable(): Promise<boolean> {
    return (await this.#fresh()).isReachable;
  }

  /** Called when a connection to the database has failed: an earlier answer that it can be used is outdated. */
  doubt(): void {
    this.#isDoubtful = this.#isReady;
  }

  #fresh(): Promise<Answer> {
    const now = performance.now();
    if (now - this.#askedAt > this.#freshMs || this.#isDoubtful) {
      this.#askedAt = now;
      this.#freshMs = freshMs;
      this.#isReady = false;
      this.#isDoubtful = false;
      this.#answer = this.#ask().then((answer) => {
        this.#isReady = answer.reason === null;
        return answer;
      });
    }
    return this.#answer;
  }

  async #ask(): Promise<Answer> {
    try {
      await this.#leases.probe(this.#owner);
      return { reason: null, isReachable: true };
    } catch (error) {
      if (!(error instanceof OpenRefusedError)) throw error;
      const { message, refusal } = error;
      // If the server has connections, statements wait for them.
      if (reachedLimitOf(error) !== null) {
        return { reason: this.#leases.size > 0 ? null : message, isReachable: true };
      }
      if (refusal.kind === 'unavailable') return { reason: message, isReachable: false };
      // Without a user in --mysql_url no login is expected to succeed. The refusal shows that the database answers.
      if (this.#owner.login.user === '') return { reason: null, isReachable: true };
      this.#freshMs = refusedFreshMs;
      const what = refusal.kind === 'database' ? 'schema' : 'user and password';
      const reason = `the database refuses the ${what} of --mysql_url: ${message}`;
      this.#observe({ type: 'database_login_refused', reason });
      return { reason, isReachable: true };
    }
  }
}
