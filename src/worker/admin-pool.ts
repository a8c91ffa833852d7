import { nextPhase, type Transitions } from '../wire/phase.ts';
import { Connection } from './connection.ts';
import type { ConnectOptions } from './driver.ts';
import { ProgressReader } from './progress-reader.ts';

/** Long enough to serve a burst of kills, short enough not to occupy a connection for nothing. */
const idleMs = 5_000;
/** MariaDB may take two seconds for a kill whose victim sleeps. Other requests wait this long before they open a connection. */
const slowMs = 100;
/** Connections of one pool. */
const connectionsMax = 4;

/**
 *     busy ◀──▶ idle
 *       │         │
 *       └────┬────┘
 *            ▼
 *         removed      it was lost, did not answer in time, or the pool was closed
 *
 * A connection is opened for a request that waits for it, so it starts as busy.
 */
type AdminConnectionPhase = 'busy' | 'idle' | 'removed';

const transitions: Transitions<AdminConnectionPhase> = {
  busy: ['idle', 'removed'],
  idle: ['busy', 'removed'],
  removed: [],
};

/** A connection of a pool, for one request at a time. */
class AdminConnection {
  readonly opened: Promise<Connection>;
  #phase: AdminConnectionPhase = 'busy';

  constructor(options: ConnectOptions) {
    this.opened = Connection.open(options);
  }

  get isIdle(): boolean {
    return this.#phase === 'idle';
  }

  acquire(): void {
    this.#moveTo('busy');
  }

  release(): void {
    if (this.#phase !== 'removed') this.#moveTo('idle');
  }

  remove(): void {
    if (this.#phase !== 'removed') this.#moveTo('removed');
  }

  #moveTo(phase: AdminConnectionPhase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }
}

interface Waiter {
  readonly take: (connection: AdminConnection) => void;
  /** Opens another connection when the request has waited for `slowMs`. */
  readonly timer: NodeJS.Timeout;
}

/**
 * Additional connections of one login, on which statements of its other connections are watched and killed. The first is opened
 * when it is needed, further ones while it is slow to answer, and all are closed when idle. One pool serves all executors of
 * that login in a thread.
 */
export class AdminPool {
  readonly user: string;
  /** How far the statements of the login are. */
  readonly progress: ProgressReader;
  readonly #options: ConnectOptions;
  readonly #onClose: () => void;
  readonly #connections: AdminConnection[] = [];
  readonly #waiters: Waiter[] = [];
  #idleTimer: NodeJS.Timeout | null = null;
  #requests = 0;
  #isClosed = false;

  /** @param onClose called when the pool closes */
  constructor(options: ConnectOptions, onClose: () => void) {
    this.user = options.user;
    this.#options = options;
    this.#onClose = onClose;
    this.progress = new ProgressReader((work) => this.use(work));
  }

  /**
   * The pool of a login, which is created if there is none.
   * @param pools the pools of the thread, by login
   */
  static of(pools: Map<string, AdminPool>, options: ConnectOptions): AdminPool {
    const key = JSON.stringify([options.user, options.password]);
    let pool = pools.get(key);
    if (pool === undefined) {
      pool = new AdminPool(options, () => pools.delete(key));
      pools.set(key, pool);
    }
    return pool;
  }

  /** Whether a connection is open or being opened. */
  get isOpen(): boolean {
    return this.#connections.length > 0;
  }

  /**
   * Runs a request on a connection of its own.
   * @param patienceMs after this long without an answer, the connection is destroyed, and the request fails
   */
  async use<T>(work: (connection: Connection) => Promise<T>, patienceMs = this.#options.timeoutMs): Promise<T> {
    this.#requests++;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    const connection = this.#acquire() ?? (await this.#acquireInTurn());
    // A connection that no longer answers would delay every later kill that waits for it.
    let isDone = false;
    const patience = setTimeout(() => {
      // After a long turn of the event loop, the answer may have arrived without having been read yet.
      setImmediate(() => {
        if (!isDone) this.#destroy(connection);
      });
    }, patienceMs);
    try {
      return await work(await connection.opened);
    } finally {
      isDone = true;
      clearTimeout(patience);
      this.#release(connection);
      this.#requests--;
      if (this.#requests === 0) this.#becomeIdle();
    }
  }

  /** A caller that still has the pool can use it. Its connections are then closed after the last request. */
  close(): void {
    if (!this.#isClosed) this.#onClose();
    this.#isClosed = true;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
    this.#closeConnections();
  }

  #becomeIdle(): void {
    if (this.#isClosed) this.#closeConnections();
    else this.#idleTimer = setTimeout(() => this.close(), idleMs);
  }

  #closeConnections(): void {
    for (const connection of this.#connections.splice(0)) {
      const { isIdle } = connection;
      connection.remove();
      connection.opened.then(
        // A request that still runs fails at once.
        (open) => (isIdle ? open.close() : open.destroy()),
        () => {},
      );
    }
  }

  #acquire(): AdminConnection | null {
    if (this.#connections.length === 0) return this.#open();
    const connection = this.#connections.find(({ isIdle }) => isIdle) ?? null;
    connection?.acquire();
    return connection;
  }

  #acquireInTurn(): Promise<AdminConnection> {
    return new Promise((take) => {
      const timer = setTimeout(() => {
        if (this.#connections.length >= connectionsMax) return;
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        take(this.#open());
      }, slowMs);
      const waiter: Waiter = { take, timer };
      this.#waiters.push(waiter);
    });
  }

  /** Hands the connection to the next waiter, who gets a new one if it was removed. */
  #release(connection: AdminConnection): void {
    connection.release();
    if (this.#waiters.length === 0) return;
    const next = this.#acquire();
    if (next === null) return;
    const { take, timer } = this.#waiters.shift() as Waiter;
    clearTimeout(timer);
    take(next);
  }

  #destroy(connection: AdminConnection): void {
    this.#remove(connection);
    connection.opened.then(
      (open) => open.destroy(),
      () => {},
    );
  }

  #remove(connection: AdminConnection): void {
    connection.remove();
    const at = this.#connections.indexOf(connection);
    if (at >= 0) this.#connections.splice(at, 1);
  }

  /** @returns a connection that is busy for the caller */
  #open(): AdminConnection {
    const connection = new AdminConnection(this.#options);
    this.#connections.push(connection);
    connection.opened.then(
      (open) => open.once('lost', () => this.#remove(connection)),
      () => this.#remove(connection),
    );
    return connection;
  }
}
