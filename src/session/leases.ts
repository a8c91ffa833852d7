import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { Counts } from '../counts.ts';
import type { Observe } from '../events.ts';
import { mayTake, type SharedLimit } from '../share.ts';
import type { Login } from '../wire/messages.ts';
import type { LargeRowMemory } from '../wire/statement.ts';
import { Lease, RefusedError } from './lease.ts';
import { OpenBackoff } from './open-backoff.ts';
import type { WorkerPool } from './worker-pool.ts';

/** `connectionsPerUserMax` has its default worked out. */
export type LeasesOptions = Config['connections'] & {
  /** The database of statements that name none; null: see `Login`. */
  readonly defaultDatabase: string | null;
  /**
   * How long after its login a connection is used for further statements. MariaDB checks global privileges as they were at the
   * login (MariaDB manual, "GRANT"), and both servers leave the connections of a dropped user open.
   */
  readonly connectionAgeMs: number;
  /** How long a login is tried again while the database has no free connection. */
  readonly loginWaitMs: number;
  readonly largeRowMemory: LargeRowMemory;
};

/** The owner of a connection. Only statements of the same user, password and schema share a connection. */
export interface LeaseOwner {
  readonly login: Login;
  /** A keyed hash of user and password (see accounts.ts). */
  readonly digest: string;
}

/** The time between two attempts of a login while the database has no free connection. */
const loginRetryMsMin = 50;
const loginRetryMsMax = 1_000;

/** A connection in use. It has no password: an open connection needs none on this thread. */
interface Loan {
  /** Its key in `#idle`. */
  readonly key: string;
  readonly user: string;
  /** The database has refused the login since. The connection is closed when it is given back. */
  isRevoked: boolean;
}

/**
 * The connections to the database. Each is in exactly one state: opening (counted), lent out, or idle (in `#idle` under its key,
 * the longest unused first).
 */
export class Leases {
  /** Called when a connection may have become available. */
  onFree: (() => void) | null = null;
  /** Called with the digest of each login that the database refuses. */
  onDenied: ((digest: string) => void) | null = null;
  readonly #options: LeasesOptions;
  readonly #workers: WorkerPool;
  readonly #observe: Observe;
  readonly #idle = new Map<string, { lease: Lease; user: string; since: number }[]>();
  readonly #lent = new Map<Lease, Loan>();
  /** Connections that are lent out, or are being opened for that, by user. */
  readonly #inUse = new Counts();
  readonly #sweepTimer: NodeJS.Timeout;
  #opening = 0;
  readonly #backoff = new OpenBackoff(() => this.onFree?.());
  /** Connections to close when they are given back, so that refused logins and kills get a connection. */
  #owed = 0;
  /** The connection limit of the database, less a reserve for logins and kills. */
  #databaseMax = Number.POSITIVE_INFINITY;
  /** The same for users whose account has its own limit. */
  readonly #userMax = new Map<string, number>();
  #databaseVersion = '';

  constructor(options: LeasesOptions, workers: WorkerPool, observe: Observe) {
    this.#options = options;
    this.#workers = workers;
    this.#observe = observe;
    this.#sweepTimer = setInterval(() => this.#sweep(), Math.max(100, options.connectionIdleMs / 4)).unref();
  }

  /**
   * Lends a clean connection to the caller until it is given back or closed. An idle one is returned without a promise.
   * @returns null if all connections are in use, the user has its share of them, or the database has no free connection
   * @throws RefusedError by the promise, if the database refuses the login or cannot be reached; of kind `full` or `user full`
   * if it has no free connection; `onFree` is then called when it is time to try again
   */
  acquire(owner: LeaseOwner): Lease | Promise<Lease> | null {
    const { user } = owner.login;
    const limit = this.#limitOf(user);
    if (!mayTake(limit, this.#inUse.of(user), 1, limit.max - this.#lent.size - this.#opening)) return null;
    const key = keyOf(owner);
    const kept = this.#takeIdle(key);
    if (kept !== undefined) {
      this.#lent.set(kept, { key, user, isRevoked: false });
      this.#inUse.add(user, 1);
      return kept;
    }
    if (!this.#backoff.mayTry(user)) return null;
    if (this.size >= limit.max && !this.#closeLongestIdle()) return null;
    return this.#openToLend(owner);
  }

  /** Gives back a connection that is idle and clean; it is closed if it cannot be reused. */
  release(lease: Lease): void {
    const loan = this.#takeBack(lease);
    if (loan === undefined) return;
    if (loan.isRevoked || !lease.isReusable || this.#owed > 0) this.#close(lease);
    else this.#keep(lease, loan);
    this.onFree?.();
  }

  /** Closes a connection that was lent out. */
  discard(lease: Lease): void {
    this.#takeBack(lease);
    this.#close(lease);
    this.onFree?.();
  }

  #close(lease: Lease): void {
    if (this.#owed > 0) this.#owed--;
    lease.close();
  }

  #takeBack(lease: Lease): Loan | undefined {
    const loan = this.#lent.get(lease);
    if (loan === undefined) return undefined;
    this.#lent.delete(lease);
    this.#inUse.add(loan.user, -1);
    return loan;
  }

  /** How many connections may be in use. Idle ones count as free: each can be closed to make room for another. */
  #limitOf(user: string): SharedLimit {
    const { connectionsMax, connectionsPerUserMax } = this.#options;
    const max = Math.min(connectionsMax, this.#databaseMax);
    const share =
      max === connectionsMax ? connectionsPerUserMax : Math.floor((max * connectionsPerUserMax) / connectionsMax);
    const perUserMax = Math.max(1, Math.min(share, this.#userMax.get(user) ?? share));
    return { max, perUserMax };
  }

  /**
   * Logs in on a new connection, beyond the connection limit, so that polls do not wait for the statements of others. The
   * connection is kept if there is room.
   * @param mayWait whether to try again for a while if the database has no free connection
   * @throws RefusedError if the database does not accept user and password; the schema is checked by the statement
   */
  async login(owner: LeaseOwner, mayWait = true): Promise<void> {
    const { user } = owner.login;
    const deadline = performance.now() + this.#options.loginWaitMs;
    for (let delayMs = loginRetryMsMin; ; delayMs = Math.min(2 * delayMs, loginRetryMsMax)) {
      try {
        const lease = await this.#open(owner);
        if (this.size < this.#limitOf(user).max) this.#keep(lease, { key: keyOf(owner), user });
        else lease.close();
        return;
      } catch (error) {
        const kind = error instanceof RefusedError ? error.refusal.kind : null;
        if (kind === 'database') return;
        if (kind !== 'full' && kind !== 'user full') throw error;
        const hasClosed = this.#closeLongestIdle(kind === 'full' ? null : user);
        if (!mayWait || performance.now() + delayMs > deadline) throw error;
        if (!hasClosed && kind === 'full' && delayMs === loginRetryMsMin) this.#oweConnection();
      }
      await delay(delayMs);
    }
  }

  #oweConnection(): void {
    this.#owed = Math.min(this.#owed + 1, this.#lent.size);
  }

  /**
   * Logs in and out again.
   * @throws RefusedError
   */
  async probe(owner: LeaseOwner): Promise<void> {
    (await this.#open(owner)).close();
  }

  /** Resolves when no statement runs in the database, or when the time has passed. */
  async settled(timeoutMs: number): Promise<void> {
    const running = [...this.#lent.keys()].filter((lease) => lease.isRunning);
    const ended = running.map(
      (lease) =>
        new Promise<void>((resolve) => {
          lease.once('idle', resolve);
          lease.once('lost', () => resolve());
        }),
    );
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([Promise.all(ended), timeout]);
    clearTimeout(timer);
  }

  close(): void {
    clearInterval(this.#sweepTimer);
    for (const idle of this.#idle.values()) for (const { lease } of idle) lease.close();
    this.#idle.clear();
    for (const lease of [...this.#lent.keys()]) {
      this.#takeBack(lease);
      lease.close();
    }
  }

  async #openToLend(owner: LeaseOwner): Promise<Lease> {
    const { user } = owner.login;
    const tried = this.#backoff.begin(user);
    this.#opening++;
    this.#inUse.add(user, 1);
    try {
      const lease = await this.#open(owner);
      tried(null);
      this.#lent.set(lease, { key: keyOf(owner), user, isRevoked: false });
      return lease;
    } catch (error) {
      this.#inUse.add(user, -1);
      const kind = error instanceof RefusedError ? error.refusal.kind : null;
      const full = kind === 'full' || kind === 'user full' ? kind : null;
      tried(full);
      // Idle connections of other users may use up the database's connections.
      if (full !== null) this.#closeLongestIdle(full === 'full' ? null : user);
      throw error;
    } finally {
      this.#opening--;
      this.onFree?.();
    }
  }

  async #open(owner: LeaseOwner): Promise<Lease> {
    const login = { ...owner.login, database: owner.login.database ?? this.#options.defaultDatabase };
    let lease: Lease;
    try {
      lease = await Lease.open(this.#workers.connect(login), login, this.#options.largeRowMemory);
    } catch (error) {
      if (error instanceof RefusedError) this.#refused(error, owner);
      throw error;
    }
    this.#databaseVersion = lease.databaseVersion;
    this.#noteLimits(lease, owner.login.user);
    // The listener lives as long as the connection, so it must not hold the password.
    const key = keyOf(owner);
    const { user } = owner.login;
    lease.on('crowded', () => {
      if (!this.#closeLongestIdle()) this.#oweConnection();
    });
    lease.once('lost', (reason) => {
      this.#takeBack(lease);
      this.#forgetIdle(lease, key);
      this.#observe({ type: 'connection_lost', user, reason });
      this.onFree?.();
    });
    return lease;
  }

  /** Each opened connection reports the limits of the database, as they can change at any time. */
  #noteLimits({ databaseConnectionsMax, userConnectionsMax }: Lease, user: string): void {
    this.#databaseMax = Math.max(1, databaseConnectionsMax - Math.max(2, Math.ceil(databaseConnectionsMax / 10)));
    if (userConnectionsMax === 0) this.#userMax.delete(user);
    else this.#userMax.set(user, Math.max(1, userConnectionsMax - (userConnectionsMax > 3 ? 2 : 1)));
  }

  #refused({ refusal, message }: RefusedError, { digest }: LeaseOwner): void {
    if (refusal.kind === 'denied') this.#revoke(digest);
    if (refusal.kind === 'full') this.#observe({ type: 'database_full', reason: message });
    if (refusal.kind !== 'unavailable') return;
    const isOutOfDescriptors = refusal.isOutOfDescriptors === true;
    this.#observe({ type: 'connect_failed', reason: message, isOutOfDescriptors });
  }

  /** The database no longer accepts these credentials: closes the connections that were opened with them. */
  #revoke(digest: string): void {
    for (const [key, idle] of this.#idle) {
      if (!key.startsWith(`${digest} `)) continue;
      for (const { lease } of idle) lease.close();
      this.#idle.delete(key);
    }
    for (const [lease, loan] of [...this.#lent]) {
      if (!loan.key.startsWith(`${digest} `)) continue;
      loan.isRevoked = true;
      lease.revoke();
    }
    this.onDenied?.(digest);
  }

  #isTooOld(lease: Lease): boolean {
    return performance.now() - lease.openedAt >= this.#options.connectionAgeMs;
  }

  #keep(lease: Lease, { key, user }: { readonly key: string; readonly user: string }): void {
    if (lease.isClosed) return;
    if (this.#isTooOld(lease)) {
      lease.close();
      return;
    }
    const entry = { lease, user, since: performance.now() };
    const idle = this.#idle.get(key);
    if (idle === undefined) this.#idle.set(key, [entry]);
    else idle.push(entry);
  }

  /** The most recently used one, so that surplus ones grow old and are closed; none whose thread does not answer. */
  #takeIdle(key: string): Lease | undefined {
    const idle = this.#idle.get(key);
    if (idle === undefined) return undefined;
    let taken: Lease | undefined;
    for (let at = idle.length - 1; at >= 0 && taken === undefined; at--) {
      const { lease } = idle[at] as { lease: Lease };
      if (!lease.isAnswering) continue;
      idle.splice(at, 1);
      if (this.#isTooOld(lease)) lease.close();
      else taken = lease;
    }
    if (idle.length === 0) this.#idle.delete(key);
    return taken;
  }

  #forgetIdle(lease: Lease, key: string): void {
    const idle = this.#idle.get(key)?.filter((entry) => entry.lease !== lease);
    if (idle === undefined) return;
    if (idle.length === 0) this.#idle.delete(key);
    else this.#idle.set(key, idle);
  }

  /** @param user whose connection is closed; null: of any user */
  #closeLongestIdle(user: string | null = null): boolean {
    let longest: { key: string; since: number } | null = null;
    for (const [key, [first]] of this.#idle) {
      if (first === undefined || (user !== null && first.user !== user)) continue;
      if (longest === null || first.since < longest.since) longest = { key, since: first.since };
    }
    if (longest === null) return false;
    const idle = this.#idle.get(longest.key);
    idle?.shift()?.lease.close();
    if (idle?.length === 0) this.#idle.delete(longest.key);
    return true;
  }

  #sweep(): void {
    const oldest = performance.now() - this.#options.connectionIdleMs;
    for (const [key, idle] of this.#idle) {
      const young = idle.filter(({ lease, since }) => since >= oldest && !this.#isTooOld(lease));
      for (const entry of idle) if (!young.includes(entry)) entry.lease.close();
      if (young.length === 0) this.#idle.delete(key);
      else if (young.length < idle.length) this.#idle.set(key, young);
    }
  }

  /** The version that the database reported last; empty before the first connection. */
  get databaseVersion(): string {
    return this.#databaseVersion;
  }

  /** The number of connections that are in use, idle or opening. */
  get size(): number {
    let idle = 0;
    for (const leases of this.#idle.values()) idle += leases.length;
    return this.#opening + this.#lent.size + idle;
  }
}

function keyOf(owner: LeaseOwner): string {
  return `${owner.digest} ${owner.login.database ?? ''}`;
}
