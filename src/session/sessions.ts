import { Counts } from '../counts.ts';
import type { Observe } from '../events.ts';
import { newSessionId } from '../ids.ts';
import type { Account } from './accounts.ts';
import { type Lease, RefusedError } from './lease.ts';
import type { Leases } from './leases.ts';
import { Session } from './session.ts';

export interface SessionsOptions {
  /** Kept sessions at once; each holds a database connection. */
  readonly sessionsMax: number;
  readonly sessionsPerUserMax: number;
  readonly sessionIdleMsMax: number;
  readonly sessionQueueMax: number;
}

/** Opens sessions and finds those that are kept. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #leases: Leases;
  readonly #observe: Observe;
  readonly #kept = new Map<string, Session>();
  /** Those kept, and those that are being opened to be kept. */
  readonly #countByUser = new Counts();
  #count = 0;

  constructor(options: SessionsOptions, leases: Leases, observe: Observe) {
    this.#options = options;
    this.#leases = leases;
    this.#observe = observe;
  }

  /**
   * Opens a session, at once if it is for one statement and a connection waits for use.
   * @param database null: the default one
   * @param idleMs how long to keep the session when idle, bounded by the option; 0: it is for one statement only
   * @param id of its own, if it has been told to somebody already
   * @returns null if all connections are in use
   * @throws RefusedError, be it by the promise
   */
  open(
    account: Account,
    database: string | null,
    idleMs: number,
    id: string = newSessionId(),
  ): Session | Promise<Session> | null {
    const { user } = account;
    if (idleMs > 0) this.#checkRoom(user);
    const lease = this.#acquire(account, database);
    if (lease === null) return null;
    if (idleMs > 0) return this.#keep(id, user, lease, Math.min(idleMs, this.#options.sessionIdleMsMax));
    if (lease instanceof Promise) return lease.then((opened) => this.#sessionOn(opened, id, user, 0));
    return this.#sessionOn(lease, id, user, 0);
  }

  #checkRoom(user: string): void {
    const { sessionsMax, sessionsPerUserMax } = this.#options;
    if (this.#count >= sessionsMax) {
      throw refusedSession('unavailable', 'the server keeps as many sessions as it may (--sessions_max)');
    }
    if (this.#countByUser.of(user) >= sessionsPerUserMax) {
      throw refusedSession('too many', 'this user keeps as many sessions as one may (--sessions_per_user_max)');
    }
  }

  async #keep(id: string, user: string, lease: Lease | Promise<Lease>, idleMs: number): Promise<Session> {
    this.#add(user, 1);
    try {
      const session = this.#sessionOn(await lease, id, user, idleMs);
      this.#kept.set(session.id, session);
      this.#observe({ type: 'session_opened', session: session.id, user: session.owner });
      return session;
    } catch (error) {
      this.#add(user, -1);
      throw error;
    }
  }

  #add(user: string, change: 1 | -1): void {
    this.#count += change;
    this.#countByUser.add(user, change);
  }

  #acquire({ user, password, digest }: Account, database: string | null): Lease | Promise<Lease> | null {
    return this.#leases.acquire({ login: { user, password, database }, digest });
  }

  #sessionOn(lease: Lease, id: string, owner: string, idleMs: number): Session {
    const options = { id, owner, idleMs, queueMax: this.#options.sessionQueueMax };
    return new Session(options, lease, this.#onEnd);
  }

  /** Those kept, and those that are being opened to be kept. */
  get size(): number {
    return this.#count;
  }

  /** The kept session of that id, if it is this user's. */
  find(id: string, user: string): Session | undefined {
    const session = this.#kept.get(id);
    return session?.owner === user ? session : undefined;
  }

  endAll(reason: string): void {
    for (const session of [...this.#kept.values()]) session.end(reason);
  }

  readonly #onEnd = (session: Session, reuse: boolean, reason: string): void => {
    if (this.#kept.delete(session.id)) {
      this.#add(session.owner, -1);
      this.#observe({ type: 'session_ended', session: session.id, user: session.owner, reason });
    }
    if (reuse) this.#leases.release(session.lease);
    else this.#leases.discard(session.lease);
  };
}

function refusedSession(kind: 'unavailable' | 'too many', message: string): RefusedError {
  return new RefusedError({ kind, failure: { code: 1040, sqlstate: '08004', message, isPassing: true } });
}
