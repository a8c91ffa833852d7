import { hash, randomBytes } from 'node:crypto';
import { RefusedError } from './lease.ts';
import type { Leases } from './leases.ts';

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

/** Credentials that the database has accepted. */
export interface Account extends Credentials {
  /** A keyed hash of the pair, by which connections and cached logins are told apart. */
  readonly digest: string;
}

export interface AccountsOptions {
  /** How long an accepted pair is trusted without asking the database again. */
  readonly cacheMs: number;
  readonly cacheMax: number;
  /** Logins under way at once. */
  readonly loginsMax: number;
}

/** Asks the database whether a user and password are right, and remembers a yes for a while, as a keyed hash. */
export class Accounts {
  readonly #options: AccountsOptions;
  readonly #leases: Leases;
  readonly #key = randomBytes(32).toString('hex');
  /** When each accepted pair stops being trusted; the oldest first. */
  readonly #trusted = new Map<string, number>();
  readonly #logins = new Map<string, Promise<void>>();

  constructor(options: AccountsOptions, leases: Leases) {
    this.#options = options;
    this.#leases = leases;
  }

  /**
   * The account, at once if the pair is trusted.
   * @throws RefusedError by the promise, of kind `denied` if the pair is wrong, else `unavailable`
   */
  verify(credentials: Credentials): Account | Promise<Account> {
    const { user, password } = credentials;
    // No digest leaves the process, so the key may simply come first: there is nothing to be extended.
    const digest = hash('sha256', `${this.#key}${user.length}:${user}${password}`, 'base64');
    const account: Account = { user, password, digest };
    const until = this.#trusted.get(digest);
    return until !== undefined && Date.now() < until ? account : this.#ask(account);
  }

  async #ask(account: Account): Promise<Account> {
    const { digest } = account;
    let login = this.#logins.get(digest);
    if (login === undefined) {
      if (this.#logins.size >= this.#options.loginsMax) throw tooManyLogins();
      login = this.#login(account).finally(() => this.#logins.delete(digest));
      this.#logins.set(digest, login);
    }
    await login;
    return account;
  }

  async #login({ user, password, digest }: Account): Promise<void> {
    const asked = Date.now();
    await this.#leases.login({ login: { user, password, database: null }, digest });
    this.#trusted.delete(digest);
    this.#trusted.set(digest, asked + this.#options.cacheMs);
    for (const oldest of this.#trusted.keys()) {
      if (this.#trusted.size <= this.#options.cacheMax) break;
      this.#trusted.delete(oldest);
    }
  }
}

function tooManyLogins(): RefusedError {
  return new RefusedError({
    kind: 'unavailable',
    failure: { code: 1040, sqlstate: '08004', message: 'too many logins are under way (--logins_max)' },
  });
}
