import type { IncomingMessage } from 'node:http';
import { credentialsOf } from '../http/auth.ts';
import type { Account, Accounts, Credentials } from '../session/accounts.ts';

/** Finds out who sends a request. */
export class Authenticator {
  readonly #accounts: Accounts;
  readonly #anonymous: Credentials | null;

  /** @param anonymous for requests without credentials; null: they are refused */
  constructor(accounts: Accounts, anonymous: Credentials | null) {
    this.#accounts = accounts;
    this.#anonymous = anonymous;
  }

  /**
   * @returns a promise if the database has to be asked
   * @throws HttpError 401, or RefusalError, also by the promise
   */
  authenticate({ headers }: IncomingMessage): Account | Promise<Account> {
    return this.#accounts.verify(credentialsOf(headers.authorization, this.#anonymous));
  }
}
