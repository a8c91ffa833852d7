import type { IncomingMessage } from 'node:http';
import { credentialsOf } from '../http/auth.ts';
import type { Account, Accounts, Credentials } from '../session/accounts.ts';
import { Turns } from './turns.ts';

/** Finds out who sends a request. */
export class Authenticator {
  readonly #accounts: Accounts;
  readonly #anonymous: Credentials | null;
  readonly #turns = new Turns();

  /** @param anonymous for requests without credentials; null: they are refused */
  constructor(accounts: Accounts, anonymous: Credentials | null) {
    this.#accounts = accounts;
    this.#anonymous = anonymous;
  }

  /**
   * @returns a promise if the database has to be asked, or if the request waits for the turn of its user
   * @throws HttpError 401, or RefusalError, also by the promise
   */
  authenticate({ headers }: IncomingMessage): Account | Promise<Account> {
    const account = this.#accounts.verify(credentialsOf(headers.authorization, this.#anonymous));
    if (account instanceof Promise) return account;
    return this.#turns.take(account.user)?.then(() => account) ?? account;
  }
}
