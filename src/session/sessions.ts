import { randomUUID } from 'node:crypto';
import type { Observe } from '../events.ts';
import type { Account } from './accounts.ts';
import { RefusedError } from './lease.ts';
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
   * @param database null: the default one
   * @param idleMs how long to keep the session when idle, bounded by the option; 0: it is for one statement only
   * @throws RefusedError
   */
  async open(account: Account, database: string | null, idleMs: number): Promise<Session> {
    const kept = idleMs > 0;
    if (kept && this.#kept.size + this.#opening >= this.#options.sessionsMax) throw tooManySessions();
    this.#opening += kept ? 1 : 0;
    try {
      const { user, password, digest } = account;
      const lease = await this.#leases.acquire({ login: { user, password, database }, digest });
      const options = {
        id: newSessionId(),
        owner: user,
        idleMs: Math.min(idleMs, this.#options.sessionIdleMsMax),
        queueMax: this.#options.sessionQueueMax,
      };
      const session = new Session(options, lease, (ended, reuse, reason) => this.#onEnd(ended, reuse, reason));
      if (kept) {
        this.#kept.set(session.id, session);
        this.#observe({ type: 'session_opened', session: session.id, user });
      }
      return session;
    } finally {
      this.#opening -= kept ? 1 : 0;
    }
  }

  /** The kept session of that id, if it is this user's. */
  find(id: string, user: string): Session | undefined {
    const session = this.#kept.get(id);
    return session?.owner === user ? session : undefined;
  }

  endAll(reason: string): void {
    for (const session of [...this.#kept.values()]) session.end(reason);
  }

  #onEnd(session: Session, reuse: boolean, reason: string): void {
    if (this.#kept.delete(session.id)) {
      this.#observe({ type: 'session_ended', session: session.id, user: session.owner, reason });
    }
    if (reuse) this.#leases.release(session.lease);
    else this.#leases.discard(session.lease);
  }
}

/** An id that cannot be guessed. */
export function newSessionId(): string {
  return randomUUID().replaceAll('-', '');
}

function tooManySessions(): RefusedError {
  const message = 'the server keeps as many sessions as it may (--sessions_max)';
  return new RefusedError({ kind: 'unavailable', failure: { code: 1040, sqlstate: '08004', message } });
}
