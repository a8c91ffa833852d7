import type { Config } from '../config/config.ts';
import { Counts } from '../counts.ts';
import type { Observe } from '../events.ts';
import { newSessionId } from '../ids.ts';
import { mayTake } from '../share.ts';
import { Tombstones } from '../tombstones.ts';
import type { Account } from './accounts.ts';
import type { Lease } from './lease.ts';
import type { Leases } from './leases.ts';
import { OpenRefusedError } from './open-refused-error.ts';
import { Session, type SessionObserver, type SessionOptions } from './session.ts';

export type SessionsOptions = Config['sessions'] & {
  /** Tombstones of ended sessions. */
  readonly endedMax: number;
};

const endedKeptMs = 600_000;
/** The error code of a pinned session that ended with an open transaction or other state. */
const lossCode = 90_001;

/** Opens sessions and finds kept ones. */
export class Sessions implements SessionObserver {
  readonly #options: SessionsOptions;
  readonly #leases: Leases;
  readonly #observe: Observe;
  readonly #kept = new Map<string, Session>();
  /** Kept sessions, also those that are being opened. */
  readonly #countByUser = new Counts();
  #count = 0;
  /** Why pinned sessions have ended. */
  readonly #ended: Tombstones;
  /** Sessions that were ended by their clients. A client that lost the answer repeats its request. */
  readonly #endedByClients: Tombstones;

  constructor(options: SessionsOptions, leases: Leases, observe: Observe) {
    this.#options = options;
    this.#leases = leases;
    this.#observe = observe;
    this.#ended = new Tombstones(endedKeptMs, options.endedMax);
    this.#endedByClients = new Tombstones(endedKeptMs, options.endedMax);
  }

  /**
   * Opens a session, without a promise if it is for one statement and there is an idle connection.
   * @param database null: the default one
   * @param idleMs how long to keep the session when idle, bounded by the option; 0: it is for one statement only
   * @param id the id that the client has been given already
   * @returns null if all connections are in use
   * @throws OpenRefusedError, also by the promise
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
    return this.#sessionOn(lease, { id, owner: user, keep: 'never', idleMs: 0, client: null });
  }

  /**
   * Opens a client-managed session for one statement. It is pinned if the statement leaves state that the client cannot carry.
   * @param client whose heartbeats keep the pinned session alive; null: none
   * @returns null if all connections are in use
   * @throws OpenRefusedError by the promise
   */
  openClientManaged(
    account: Account,
    database: string | null,
    client: string | null,
    id: string = newSessionId(),
  ): Session | Promise<Session> | null {
    const lease = this.#acquire(account, database);
    if (lease === null) return null;
    const { pinnedSessionIdleMs: idleMs } = this.#options;
    return this.#sessionOn(lease, { id, owner: account.user, keep: 'pinned', idleMs, client });
  }

  #checkRoom(user: string): void {
    const { sessionsMax, sessionsPerUserMax } = this.#options;
    if (this.#count >= sessionsMax) {
      throw refusedSession('unavailable', 'the server keeps as many sessions as it may (--sessions_max)');
    }
    const count = this.#countByUser.of(user);
    if (count >= sessionsPerUserMax) {
      throw refusedSession(
        'too many',
        'this user keeps as many sessions as one may (--sessions_per_user_max): end one by DELETE /v1/session/<session_id>',
      );
    }
    const limit = { max: sessionsMax, perUserMax: sessionsPerUserMax };
    if (!mayTake(limit, count, 1, sessionsMax - this.#count)) {
      throw refusedSession(
        'too many',
        `this user keeps ${count} sessions, its share of those that other users leave (--sessions_max); end one, or wait`,
      );
    }
  }

  async #keep(id: string, owner: string, lease: Lease | Promise<Lease>, idleMs: number): Promise<Session> {
    this.#add(owner, 1);
    try {
      const session = await this.#sessionOn(lease, { id, owner, keep: 'always', idleMs, client: null });
      this.#kept.set(session.id, session);
      this.#observe({ type: 'session_opened', session: session.id, user: session.owner });
      return session;
    } catch (error) {
      this.#add(owner, -1);
      throw error;
    }
  }

  /**
   * For `Session`: keeps it now that it is pinned. If there are too many sessions, it ends, and the next statement of its
   * client fails with the reason.
   */
  onPinned(session: Session): void {
    try {
      this.#checkRoom(session.owner);
    } catch (error) {
      const reason = (error as Error).message;
      this.#ended.add(session.id, session.owner, reason, lossCode);
      session.end(reason);
      return;
    }
    this.#add(session.owner, 1);
    this.#kept.set(session.id, session);
    this.#observe({ type: 'session_opened', session: session.id, user: session.owner });
  }

  #add(user: string, change: 1 | -1): void {
    this.#count += change;
    this.#countByUser.add(user, change);
  }

  #acquire({ user, password, digest }: Account, database: string | null): Lease | Promise<Lease> | null {
    return this.#leases.acquire({ login: { user, password, database }, digest });
  }

  #sessionOn(lease: Lease | Promise<Lease>, options: Omit<SessionOptions, 'queueMax'>): Session | Promise<Session> {
    if (lease instanceof Promise) return lease.then((opened) => this.#sessionOn(opened, options));
    return new Session({ ...options, queueMax: this.#options.sessionQueueMax }, lease, this);
  }

  /** The number of kept sessions, also those that are being opened. */
  get size(): number {
    return this.#count;
  }

  /** The kept session of that id, if it is this user's. */
  find(id: string, user: string): Session | undefined {
    const session = this.#kept.get(id);
    return session?.owner === user ? session : undefined;
  }

  /** Why the user's pinned session of that id has ended; undefined if there was none, or its tombstone has expired. */
  whyEnded(id: string, user: string): string | undefined {
    return this.#ended.find(id, user)?.reason;
  }

  /**
   * Ends the user's kept session of that id, and cancels its statements.
   * @returns false if there is none and none was ended by its client
   */
  endByClient(id: string, user: string): boolean {
    const session = this.find(id, user);
    if (session === undefined) return this.#endedByClients.find(id, user) !== undefined;
    this.#endedByClients.add(id, user, '');
    session.endByClient();
    return true;
  }

  /** Whether the user's pinned session of that id has ended because it had no state any more. */
  hasEndedWithoutLoss(id: string, user: string): boolean {
    return this.find(id, user) === undefined && this.#ended.find(id, user)?.code === null;
  }

  /** Restarts the idle time of a client's pinned sessions. */
  renew(client: string | null, user: string): void {
    for (const session of this.#kept.values()) if (session.owner === user) session.renew(client);
  }

  /** Ends a client's pinned sessions. */
  endOf(client: string, user: string, reason: string): void {
    for (const session of [...this.#kept.values()]) if (session.owner === user) session.endOf(client, reason);
  }

  endAll(reason: string): void {
    for (const session of [...this.#kept.values()]) session.end(reason);
  }

  /** For `Session`. */
  onEnded(session: Session, reuse: boolean, reason: string): void {
    if (this.#kept.delete(session.id)) {
      if (session.isClientManaged) this.#ended.add(session.id, session.owner, reason, reuse ? null : lossCode);
      this.#add(session.owner, -1);
      this.#observe({ type: 'session_ended', session: session.id, user: session.owner, reason });
    }
    if (reuse) this.#leases.release(session.lease);
    else this.#leases.discard(session.lease);
  }
}

function refusedSession(kind: 'unavailable' | 'too many', message: string): OpenRefusedError {
  return new OpenRefusedError({ kind, failure: { code: 1040, sqlstate: '08004', message, isPassing: true } });
}
