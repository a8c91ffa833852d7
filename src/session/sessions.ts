import type { Observe } from '../events.ts';
import { newSessionId } from '../ids.ts';
import type { Account } from './accounts.ts';
import { type Lease, RefusedError } from './lease.ts';
import type { Leases } from './leases.ts';
import { Session } from './session.ts';

export interface SessionsOptions {
  /** Kept sessions at once; each holds a database connection. */
  readonly sessionsMax: number;
  readonly sessionIdleMsMax: number;
  readonly sessionQueueMax: number;
}

/** Opens sessions and finds those that are kept. */
export class Sessions {
  readonly #options: SessionsOptions;
  readonly #leases: Leases;
  readonly #observe: Observe;
  readonly #kept = new Map<string, Session>();
  #opening = 0;

  constructor(options: SessionsOptions, leases: Leases, observe: Observe) {
    this.#options = options;
    this.#leases = leases;
    this.#observe = observe;
  }

  /**
   * Opens a session, at once if it is for one statement and a connection waits for use.
   * @param database null: the default one
   * @param idleMs how long to keep the session when idle, bounded by the option; 0: it is for one statement only
   * @throws RefusedError by the promise
   */
  open(account: Account, database: string | null, idleMs: number): Session | Promise<Session> {
    if (idleMs > 0) return this.#openKept(account, database, idleMs);
    const lease = this.#acquire(account, database);
    if (lease instanceof Promise) return lease.then((opened) => this.#sessionOn(opened, account.user, 0));
    return this.#sessionOn(lease, account.user, 0);
  }

  async #openKept(account: Account, database: string | null, idleMs: number): Promise<Session> {
    if (this.#kept.size + this.#opening >= this.#options.sessionsMax) throw tooManySessions();
    this.#opening++;
    try {
      const lease = await this.#acquire(account, database);
      const session = this.#sessionOn(lease, account.user, Math.min(idleMs, this.#options.sessionIdleMsMax));
      this.#kept.set(session.id, session);
      this.#observe({ type: 'session_opened', session: session.id, user: session.owner });
      return session;
    } finally {
      this.#opening--;
    }
  }

  #acquire({ user, password, digest }: Account, database: string | null): Lease | Promise<Lease> {
    return this.#leases.acquire({ login: { user, password, database }, digest });
  }

  #sessionOn(lease: Lease, owner: string, idleMs: number): Session {
    const options = { id: newSessionId(), owner, idleMs, queueMax: this.#options.sessionQueueMax };
    return new Session(options, lease, this.#onEnd);
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
      this.#observe({ type: 'session_ended', session: session.id, user: session.owner, reason });
    }
    if (reuse) this.#leases.release(session.lease);
    else this.#leases.discard(session.lease);
  };
}

function tooManySessions(): RefusedError {
  const message = 'the server keeps as many sessions as it may (--sessions_max)';
  return new RefusedError({ kind: 'unavailable', failure: { code: 1040, sqlstate: '08004', message } });
}
