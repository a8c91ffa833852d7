import type { Observe } from '../events.ts';
import { RefusedError } from './lease.ts';
import type { LeaseOwner, Leases } from './leases.ts';

/** An answer is good for this long, so that a prober cannot make work. */
const freshMs = 1_000;
/** A refused login is tried again less often: the database may lock an account after so many wrong passwords. */
const refusedFreshMs = 5_000;

interface Answer {
  /** Why the service cannot take statements; null if it can. */
  readonly reason: string | null;
  readonly isReachable: boolean;
}

/** Knows whether the database accepts the login and the schema of --mysql_url, by logging in. */
export class Readiness {
  readonly #leases: Leases;
  readonly #owner: LeaseOwner;
  readonly #observe: Observe;
  #askedAt = Number.NEGATIVE_INFINITY;
  #freshMs = freshMs;
  /** Whether the last answer was that the database can be used, and a connection has failed since. */
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

  /** Called when a connection to the database has failed: an older answer that it can be used is worth nothing now. */
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
      if (!(error instanceof RefusedError)) throw error;
      const { message, refusal } = error;
      // Statements wait for the connections that the server has, if it has any.
      if (refusal.kind === 'full' || refusal.kind === 'user full') {
        return { reason: this.#leases.size > 0 ? null : message, isReachable: true };
      }
      if (refusal.kind === 'unavailable') return { reason: message, isReachable: false };
      // Without a user there is nothing to log in with, and a refusal shows that the database answers.
      if (this.#owner.login.user === '') return { reason: null, isReachable: true };
      this.#freshMs = refusedFreshMs;
      const what = refusal.kind === 'database' ? 'schema' : 'user and password';
      const reason = `the database refuses the ${what} of --mysql_url: ${message}`;
      this.#observe({ type: 'database_login_refused', reason });
      return { reason, isReachable: true };
    }
  }
}
