import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import { Counts } from '../counts.ts';
import type { Observe } from '../events.ts';
import { mayTake } from '../share.ts';
import type { Login } from '../wire/messages.ts';
import type { LargeRowMemory } from '../wire/statement.ts';
import { ConnectionLimits } from './connection-limits.ts';
import { IdleLeases } from './idle-leases.ts';
import { Lease } from './lease.ts';
import { type BackoffListener, OpenBackoff } from './open-backoff.ts';
import { OpenRefusedError, reachedLimitOf } from './open-refused-error.ts';
import type { SpillUsers } from './spill-users.ts';
import type { WorkerPool } from './worker-pool.ts';

/** `connectionsPerUserMax` is never left to its default. */
export type LeasesOptions = Config['connections'] & {
  /** The database of statements that name none; null: see `Login`. */
  readonly defaultDatabase: string | null;
  /**
   * How long after its login a connection is used for further statements. MariaDB checks global privileges as they were at the
   * login (MariaDB manual, "GRANT"), and both servers leave the connections of a dropped user open.
   */
  readonly connectionAgeMs: number;
  /** How long a login is retried while the database has no free connection. */
  readonly loginWaitMs: number;
  readonly largeRowMemory: LargeRowMemory;
  readonly spillUsers: SpillUsers;
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
  /** Of its login (see `keyOf`). */
  readonly key: string;
  readonly user: string;
  /** The database has refused the login after it was lent. The connection is closed when it is given back. */
  isRevoked: boolean;
}

interface LeasesEvents {
  /** A connection may have become available. */
  free: [];
  /** The database has refused a login, which has this digest. */
  denied: [digest: string];
}

/** The connections to the database. Each is in exactly one place: opening (counted), lent out, or idle. */
export class Leases extends EventEmitter<LeasesEvents> implements BackoffListener {
  readonly #options: LeasesOptions;
  readonly #workers: WorkerPool;
  readonly #observe: Observe;
  readonly #limits: ConnectionLimits;
  readonly #idle: IdleLeases;
  readonly #lent = new Map<Lease, Loan>();
  /** Connections that are lent out, or are being opened for that, by user. */
  readonly #inUse = new Counts();
  readonly #sweepTimer: NodeJS.Timeout;
  #opening = 0;
  readonly #backoff = new OpenBackoff(this);
  /** How many of the next connections that are given back are closed, so that refused logins and kills get a connection. */
  #closesDue = 0;
  #databaseVersion = '';

  constructor(options: LeasesOptions, workers: WorkerPool, observe: Observe) {
    super();
    this.#options = options;
    this.#workers = workers;
    this.#observe = observe;
    this.#limits = new ConnectionLimits(options);
    this.#idle = new IdleLeases(options.connectionAgeMs);
    const { connectionIdleMs } = options;
    const sweep = (): void => this.#idle.closeUnused(connectionIdleMs);
    this.#sweepTimer = setInterval(sweep, Math.max(100, connectionIdleMs / 4)).unref();
  }

  /**
   * Lends a clean connection to the caller until it is given back or closed. An idle one is returned without a promise.
   * @returns null if all connections are in use, the user has its share of them, or the database has no free connection
   * @throws OpenRefusedError by the promise, if the database refuses the login or cannot be reached; of kind `max connections` or `max user connections`
   * if it has no free connection; `free` is then emitted when it is time to try again
   */
  acquire(owner: LeaseOwner): Lease | Promise<Lease> | null {
    const { user } = owner.login;
    const limit = this.#limits.of(user);
    if (!mayTake(limit, this.#inUse.of(user), 1, limit.max - this.#lent.size - this.#opening)) return null;
    const key = keyOf(owner);
    const idle = this.#idle.take(key);
    if (idle !== undefined) {
      this.#lent.set(idle, { key, user, isRevoked: false });
      this.#inUse.add(user, 1);
      return idle;
    }
    if (!this.#backoff.mayTry(user)) return null;
    if (this.size >= limit.max && !this.#idle.closeLongestUnused()) return null;
    return this.#openToLend(owner);
  }

  /** Gives back a connection that is idle and clean; it is closed if it cannot be reused. */
  release(lease: Lease): void {
    const loan = this.#takeBack(lease);
    if (loan === undefined) return;
    if (loan.isRevoked || !lease.isReusable || this.#closesDue > 0) this.#close(lease);
    else this.#idle.add(lease, loan.key, loan.user);
    this.emit('free');
  }

  /** Closes a connection that was lent out. */
  discard(lease: Lease): void {
    this.#takeBack(lease);
    this.#close(lease);
    this.emit('free');
  }

  #close(lease: Lease): void {
    if (this.#closesDue > 0) this.#closesDue--;
    lease.close();
  }

  #takeBack(lease: Lease): Loan | undefined {
    const loan = this.#lent.get(lease);
    if (loan === undefined) return undefined;
    this.#lent.delete(lease);
    this.#inUse.add(loan.user, -1);
    return loan;
  }

  /**
   * Logs in on a new connection, also if the connection limit is reached, so that polls do not wait for the statements of
   * others. The connection is kept if there is room.
   * @param mayWait whether to retry for a while if the database has no free connection
   * @throws OpenRefusedError if the database does not accept user and password; the schema is checked by the statement
   */
  async login(owner: LeaseOwner, mayWait = true): Promise<void> {
    const { user } = owner.login;
    const deadline = performance.now() + this.#options.loginWaitMs;
    for (let delayMs = loginRetryMsMin; ; delayMs = Math.min(2 * delayMs, loginRetryMsMax)) {
      try {
        const lease = await this.#open(owner);
        if (this.size < this.#limits.of(user).max) this.#idle.add(lease, keyOf(owner), user);
        else lease.close();
        return;
      } catch (error) {
        if (error instanceof OpenRefusedError && error.refusal.kind === 'database') return;
        const limit = reachedLimitOf(error);
        if (limit === null) throw error;
        const hasClosed = this.#idle.closeLongestUnused(limit === 'max connections' ? null : user);
        if (!mayWait || performance.now() + delayMs > deadline) throw error;
        if (!hasClosed && limit === 'max connections' && delayMs === loginRetryMsMin) this.#closeNextReturned();
      }
      await delay(delayMs);
    }
  }

  #closeNextReturned(): void {
    this.#closesDue = Math.min(this.#closesDue + 1, this.#lent.size);
  }

  /**
   * Logs in, and closes the connection.
   * @throws OpenRefusedError
   */
  async probe(owner: LeaseOwner): Promise<void> {
    (await this.#open(owner)).close();
  }

  /**
   * Waits until no statement runs, or until the time has passed.
   * @returns whether no statement runs; one whose connection was lost may still run in the database
   */
  async settled(timeoutMs: number): Promise<boolean> {
    const running = [...this.#lent.keys()].filter((lease) => lease.isRunning);
    const ended = running.map(
      (lease) =>
        new Promise<void>((resolve) => {
          lease.once('idle', resolve);
          lease.once('lost', () => resolve());
        }),
    );
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), timeoutMs);
    });
    const isSettled = await Promise.race([Promise.all(ended).then(() => true), timeout]);
    clearTimeout(timer);
    return isSettled;
  }

  close(): void {
    clearInterval(this.#sweepTimer);
    this.#idle.closeAll();
    for (const lease of [...this.#lent.keys()]) {
      this.#takeBack(lease);
      lease.close();
    }
  }

  /** For `OpenBackoff`. */
  onRetry(): void {
    this.emit('free');
  }

  async #openToLend(owner: LeaseOwner): Promise<Lease> {
    const { user } = owner.login;
    const attempt = this.#backoff.begin(user);
    this.#opening++;
    this.#inUse.add(user, 1);
    try {
      const lease = await this.#open(owner);
      this.#backoff.end(attempt, null);
      this.#lent.set(lease, { key: keyOf(owner), user, isRevoked: false });
      return lease;
    } catch (error) {
      this.#inUse.add(user, -1);
      const limit = reachedLimitOf(error);
      this.#backoff.end(attempt, limit);
      // Idle connections of other users may use up the database's connections.
      if (limit !== null) this.#idle.closeLongestUnused(limit === 'max connections' ? null : user);
      throw error;
    } finally {
      this.#opening--;
      this.emit('free');
    }
  }

  async #open(owner: LeaseOwner): Promise<Lease> {
    const login = { ...owner.login, database: owner.login.database ?? this.#options.defaultDatabase };
    let lease: Lease;
    try {
      const { largeRowMemory, spillUsers } = this.#options;
      const channel = this.#workers.connect(login);
      lease = await Lease.open(channel, login, largeRowMemory, spillUsers.slotFor(login.user, channel));
    } catch (error) {
      if (error instanceof OpenRefusedError) this.#refused(error, owner);
      throw error;
    }
    this.#databaseVersion = lease.databaseVersion;
    this.#limits.update(lease, owner.login.user);
    // The listener lives as long as the connection, so it must not hold the password.
    const key = keyOf(owner);
    const { user } = owner.login;
    lease.on('crowded', () => {
      if (!this.#idle.closeLongestUnused()) this.#closeNextReturned();
    });
    lease.once('lost', (reason) => {
      this.#takeBack(lease);
      this.#idle.remove(lease, key);
      this.#observe({ type: 'connection_lost', user, reason });
      this.emit('free');
    });
    return lease;
  }

  #refused({ refusal, message }: OpenRefusedError, { digest }: LeaseOwner): void {
    if (refusal.kind === 'denied') this.#revoke(digest);
    if (refusal.kind === 'max connections') this.#observe({ type: 'database_full', reason: message });
    if (refusal.kind !== 'unavailable') return;
    const isOutOfDescriptors = refusal.isOutOfDescriptors === true;
    this.#observe({ type: 'connect_failed', reason: message, isOutOfDescriptors });
  }

  /** The database no longer accepts these credentials: closes the connections that were opened with them. */
  #revoke(digest: string): void {
    this.#idle.closeByKeyPrefix(keyPrefixOf(digest));
    for (const [lease, loan] of [...this.#lent]) {
      if (!loan.key.startsWith(keyPrefixOf(digest))) continue;
      loan.isRevoked = true;
      lease.revoke();
    }
    this.emit('denied', digest);
  }

  /** The version that the database reported last; empty before the first connection. */
  get databaseVersion(): string {
    return this.#databaseVersion;
  }

  /** The number of connections that are in use, idle or opening. */
  get size(): number {
    return this.#opening + this.#lent.size + this.#idle.size;
  }
}

/** The key of a login. Connections with the same key are interchangeable. */
function keyOf(owner: LeaseOwner): string {
  const { database } = owner.login;
  return `${owner.digest} ${database === null ? '' : `=${database}`}`;
}

/** The beginning of all keys with these user and password. */
function keyPrefixOf(digest: string): string {
  return `${digest} `;
}
