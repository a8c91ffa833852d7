import type { Observe } from '../events.ts';
import type { Login } from '../wire/messages.ts';
import { Lease, RefusedError } from './lease.ts';
import type { WorkerPool } from './worker-pool.ts';

export interface LeasesOptions {
  /** The schema for those who name none; null: what the worker makes of that (see `Login`). */
  readonly defaultDatabase: string | null;
  /** Connections at once, whether they run a statement, are kept by a session or wait for use. */
  readonly connectionsMax: number;
  /** Statements that may wait for a connection at once. */
  readonly connectionQueueMax: number;
  readonly connectionWaitMs: number;
  /** How long a connection waits for use before it is closed. */
  readonly connectionIdleMs: number;
}

/** Whose connection: connections are shared only between statements of the same user, password and schema. */
export interface LeaseOwner {
  readonly login: Login;
  /** A keyed hash of user and password (see accounts.ts). */
  readonly digest: string;
}

interface Waiter {
  readonly owner: LeaseOwner;
  readonly timer: NodeJS.Timeout;
  readonly resolve: (lease: Lease | Promise<Lease>) => void;
  readonly reject: (error: RefusedError) => void;
}

/**
 * The connections to the database. Each is in exactly one place: on its way (counted), lent out, or in `#idle` under its
 * key, where the longest unused comes first.
 */
export class Leases {
  readonly #options: LeasesOptions;
  readonly #workers: WorkerPool;
  readonly #observe: Observe;
  readonly #idle = new Map<string, { lease: Lease; since: number }[]>();
  readonly #lent = new Map<Lease, LeaseOwner>();
  readonly #waiters: Waiter[] = [];
  readonly #sweepTimer: NodeJS.Timeout;
  #opening = 0;

  constructor(options: LeasesOptions, workers: WorkerPool, observe: Observe) {
    this.#options = options;
    this.#workers = workers;
    this.#observe = observe;
    this.#sweepTimer = setInterval(() => this.#sweep(), Math.max(100, options.connectionIdleMs / 4)).unref();
  }

  /**
   * A connection that is as new, for the caller alone until it is given back or closed; at once if one waits for use.
   * @throws RefusedError by the promise, if the database refuses the login or cannot be reached, or if all connections stay in use
   */
  acquire(owner: LeaseOwner): Lease | Promise<Lease> {
    const now = this.#acquireNow(owner);
    if (now !== null) return now;
    if (this.#waiters.length >= this.#options.connectionQueueMax) return Promise.reject(this.#full());
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        owner,
        resolve,
        reject,
        timer: setTimeout(() => {
          this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
          reject(this.#full());
        }, this.#options.connectionWaitMs),
      };
      this.#waiters.push(waiter);
    });
  }

  /** Gives back a connection that is idle and as new. */
  release(lease: Lease): void {
    const owner = this.#lent.get(lease);
    if (owner === undefined) return;
    this.#lent.delete(lease);
    this.#keep(lease, owner);
    this.#serveWaiters();
  }

  /** Closes a connection that was lent out. */
  discard(lease: Lease): void {
    this.#lent.delete(lease);
    lease.close();
    this.#serveWaiters();
  }

  /**
   * Logs in anew, beyond the number of connections, so that nobody's polls wait for other people's statements; the
   * connection is kept for use if there is room.
   * @throws RefusedError if the database does not accept user and password; whether the schema can be entered is another
   * question, which the statement asks
   */
  async login(owner: LeaseOwner): Promise<void> {
    let lease: Lease;
    try {
      lease = await this.#open(owner);
    } catch (error) {
      if (error instanceof RefusedError && error.refusal.kind === 'database') return;
      throw error;
    }
    if (this.#count() < this.#options.connectionsMax) this.#keep(lease, owner);
    else lease.close();
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
    for (const waiter of this.#waiters.splice(0)) {
      clearTimeout(waiter.timer);
      waiter.reject(unavailable('the server is stopping'));
    }
    for (const idle of this.#idle.values()) for (const { lease } of idle) lease.close();
    this.#idle.clear();
    for (const lease of this.#lent.keys()) lease.close();
    this.#lent.clear();
  }

  #acquireNow(owner: LeaseOwner): Lease | Promise<Lease> | null {
    const kept = this.#takeIdle(keyOf(owner));
    if (kept !== undefined) {
      this.#lend(kept, owner);
      return kept;
    }
    if (this.#count() >= this.#options.connectionsMax && !this.#closeLongestIdle()) return null;
    return this.#openToLend(owner);
  }

  async #openToLend(owner: LeaseOwner): Promise<Lease> {
    this.#opening++;
    try {
      const lease = await this.#open(owner);
      this.#lend(lease, owner);
      return lease;
    } finally {
      this.#opening--;
      this.#serveWaiters();
    }
  }

  async #open(owner: LeaseOwner): Promise<Lease> {
    const login = { ...owner.login, database: owner.login.database ?? this.#options.defaultDatabase };
    const lease = await Lease.open(this.#workers.connect(login), login);
    lease.once('lost', (reason) => {
      this.#lent.delete(lease);
      this.#forgetIdle(lease, keyOf(owner));
      this.#observe({ type: 'connection_lost', user: owner.login.user, reason });
      this.#serveWaiters();
    });
    return lease;
  }

  #lend(lease: Lease, owner: LeaseOwner): void {
    this.#lent.set(lease, owner);
  }

  #keep(lease: Lease, owner: LeaseOwner): void {
    if (lease.isClosed) return;
    const key = keyOf(owner);
    const entry = { lease, since: Date.now() };
    const idle = this.#idle.get(key);
    if (idle === undefined) this.#idle.set(key, [entry]);
    else idle.push(entry);
  }

  /** The most recently used one, so that those not needed grow old and are closed; none whose thread is held up. */
  #takeIdle(key: string): Lease | undefined {
    const idle = this.#idle.get(key);
    const at = idle?.findLastIndex(({ lease }) => lease.isAnswering) ?? -1;
    const entry = at < 0 ? undefined : idle?.splice(at, 1)[0];
    if (idle?.length === 0) this.#idle.delete(key);
    return entry?.lease;
  }

  #forgetIdle(lease: Lease, key: string): void {
    const idle = this.#idle.get(key)?.filter((entry) => entry.lease !== lease);
    if (idle === undefined) return;
    if (idle.length === 0) this.#idle.delete(key);
    else this.#idle.set(key, idle);
  }

  #closeLongestIdle(): boolean {
    let longest: { key: string; since: number } | null = null;
    for (const [key, [first]] of this.#idle) {
      if (first !== undefined && (longest === null || first.since < longest.since))
        longest = { key, since: first.since };
    }
    if (longest === null) return false;
    const idle = this.#idle.get(longest.key);
    idle?.shift()?.lease.close();
    if (idle?.length === 0) this.#idle.delete(longest.key);
    return true;
  }

  #sweep(): void {
    const oldest = Date.now() - this.#options.connectionIdleMs;
    for (const [key, idle] of this.#idle) {
      while (idle[0] !== undefined && idle[0].since < oldest) idle.shift()?.lease.close();
      if (idle.length === 0) this.#idle.delete(key);
    }
  }

  #serveWaiters(): void {
    for (let waiter = this.#waiters[0]; waiter !== undefined; waiter = this.#waiters[0]) {
      const lease = this.#acquireNow(waiter.owner);
      if (lease === null) return;
      this.#waiters.shift();
      clearTimeout(waiter.timer);
      waiter.resolve(lease);
    }
  }

  #count(): number {
    let idle = 0;
    for (const leases of this.#idle.values()) idle += leases.length;
    return this.#opening + this.#lent.size + idle;
  }

  #full(): RefusedError {
    return unavailable(`all ${this.#options.connectionsMax} database connections are in use (--connections_max)`);
  }
}

function keyOf(owner: LeaseOwner): string {
  return `${owner.digest} ${owner.login.database ?? ''}`;
}

function unavailable(message: string): RefusedError {
  return new RefusedError({ kind: 'unavailable', failure: { code: 1040, sqlstate: '08004', message } });
}
