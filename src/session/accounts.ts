import { hash, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import type { Observe } from '../events.ts';
import { RefusalError } from '../refusal-error.ts';
import type { Leases } from './leases.ts';
import { OpenRefusedError } from './open-refused-error.ts';

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

/** Credentials that the database has accepted. */
export interface Account extends Credentials {
  /** A keyed hash of user and password. It identifies connections and cached logins. */
  readonly digest: string;
}

export type AccountsOptions = Omit<Config['users'], 'anonymousUser' | 'anonymousPassword'>;

/** Too many wrong passwords were given for the user. The database was not asked about this one. */
export class BlockedError extends RefusalError {
  override readonly name = 'BlockedError';

  constructor(retryAfterSecs: number) {
    const message = `too many wrong passwords for this user (--auth_failures_max); try again in ${retryAfterSecs} s`;
    super(message, 'too many', retryAfterSecs);
  }
}

/** The wrong passwords for a user within a minute of the first. A login in progress counts as wrong until it succeeds. */
interface Failures {
  readonly until: number;
  count: number;
  isReported: boolean;
}

const failuresMs = 60_000;
/** How long after their last check credentials are trusted while the database cannot check them. */
const uncheckedMsMax = 300_000;
/** How long a request waits for that check, and when the check is retried. */
const recheckMs = 1_000;

/** Times by `performance.now()`, which does not change when the clock is set. */
interface Trust {
  readonly checkedAt: number;
  readonly until: number;
}

/** Verifies user names and passwords by a login to the database. Accepted pairs are cached for a while, as a keyed hash. */
export class Accounts {
  readonly #options: AccountsOptions;
  readonly #leases: Leases;
  readonly #observe: Observe;
  readonly #key = randomBytes(32).toString('hex');
  /** How long each accepted pair is trusted, by its digest; the oldest first. */
  readonly #trusted = new Map<string, Trust>();
  readonly #logins = new Map<string, Promise<void>>();
  /** By a hash of the user name, since a name may have any length; the oldest first. */
  readonly #failures = new Map<string, Failures>();

  constructor(options: AccountsOptions, leases: Leases, observe: Observe) {
    this.#options = options;
    this.#leases = leases;
    this.#observe = observe;
    leases.on('denied', (digest) => this.#trusted.delete(digest));
  }

  /**
   * The account of these credentials, without a promise if they are trusted.
   * @throws OpenRefusedError by the promise, of kind `denied` if the pair is wrong; of another kind if the database cannot check
   *   it and has not accepted it in the last minutes
   * @throws BlockedError by the promise
   */
  verify(credentials: Credentials): Account | Promise<Account> {
    const { user, password } = credentials;
    // The key comes first, without HMAC. Length extension needs a digest, and no digest leaves the process.
    const digest = hash('sha256', `${this.#key}${user.length}:${user}${password}`, 'base64');
    const account: Account = { user, password, digest };
    const trust = this.#trusted.get(digest);
    return trust !== undefined && performance.now() < trust.until ? account : this.#ask(account);
  }

  async #ask(account: Account): Promise<Account> {
    const { digest } = account;
    const trust = this.#trusted.get(digest);
    const mayGoUnchecked = trust !== undefined && performance.now() - trust.checkedAt < uncheckedMsMax;
    let login = this.#logins.get(digest);
    if (login === undefined) {
      const { loginsMax } = this.#options;
      // A quarter is reserved for credentials that were accepted before, so that guessed passwords do not block them.
      const max = trust !== undefined ? loginsMax : Math.ceil(0.75 * loginsMax);
      if (this.#logins.size >= max) {
        if (mayGoUnchecked) return account;
        throw tooManyLogins();
      }
      login = this.#login(account, !mayGoUnchecked).finally(() => this.#logins.delete(digest));
      this.#logins.set(digest, login);
    }
    if (mayGoUnchecked) await this.#recheck(digest, trust, login);
    else await login;
    return account;
  }

  /**
   * Without this, a user could not poll its statements, which may use up the connections, while the database does not answer.
   * @throws OpenRefusedError of kind `denied`
   */
  async #recheck(digest: string, trust: Trust, login: Promise<void>): Promise<void> {
    try {
      if ((await Promise.race([login, delay(recheckMs, 'late', { ref: false })])) !== 'late') return;
      // The database may have denied the pair to another connection meanwhile.
      if (!this.#trusted.has(digest)) await login;
    } catch (error) {
      const isDenied = !(error instanceof OpenRefusedError) || error.refusal.kind === 'denied';
      if (isDenied || !this.#trusted.has(digest)) throw error;
    }
    // Another request may have set it meanwhile.
    if (this.#trusted.get(digest) !== trust) return;
    this.#trusted.set(digest, { checkedAt: trust.checkedAt, until: performance.now() + recheckMs });
  }

  async #login({ user, password, digest }: Account, mayWait: boolean): Promise<void> {
    const asked = performance.now();
    // A password that was accepted before is not blocked by guessed ones.
    const failures = this.#trusted.has(digest) ? null : this.#admit(user);
    try {
      await this.#leases.login({ login: { user, password, database: null }, digest }, mayWait);
    } catch (error) {
      const isDenied = error instanceof OpenRefusedError && error.refusal.kind === 'denied';
      if (isDenied) this.#observeFailed(user, error.message, false);
      else if (failures !== null) failures.count--;
      throw error;
    }
    if (failures !== null) failures.count--;
    this.#trusted.delete(digest);
    this.#trusted.set(digest, { checkedAt: asked, until: asked + this.#options.authCacheMs });
    for (const oldest of this.#trusted.keys()) {
      if (this.#trusted.size <= this.#options.authCacheMax) break;
      this.#trusted.delete(oldest);
    }
  }

  /** Counts a login as wrong until it succeeds. */
  #admit(user: string): Failures {
    const now = performance.now();
    const key = hash('sha256', user, 'base64');
    let failures = this.#failures.get(key);
    if (failures === undefined || failures.until <= now) {
      this.#forgetFailures(now);
      failures = { until: now + failuresMs, count: 0, isReported: false };
      this.#failures.delete(key);
      this.#failures.set(key, failures);
    }
    if (failures.count < this.#options.authFailuresMax) {
      failures.count++;
      return failures;
    }
    const retryAfterSecs = Math.ceil((failures.until - now) / 1_000);
    if (!failures.isReported) {
      failures.isReported = true;
      this.#observe({ type: 'user_blocked', user: user.slice(0, 200), failures: failures.count, retryAfterSecs });
    }
    const error = new BlockedError(retryAfterSecs);
    this.#observeFailed(user, error.message, true);
    throw error;
  }

  #observeFailed(user: string, reason: string, isBlocked: boolean): void {
    this.#observe({ type: 'login_failed', user: user.slice(0, 200), reason, isBlocked });
  }

  #forgetFailures(now: number): void {
    for (const [key, { until }] of this.#failures) {
      if (until > now && this.#failures.size < this.#options.authCacheMax) return;
      this.#failures.delete(key);
    }
  }
}

function tooManyLogins(): OpenRefusedError {
  return new OpenRefusedError({
    kind: 'unavailable',
    failure: { code: 1040, sqlstate: '08004', message: 'too many logins are under way (--logins_max)' },
  });
}
