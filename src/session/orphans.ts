import type { Observe } from '../events.ts';
import type { FromWorker, Login } from '../wire/messages.ts';
import type { Journal, JournaledConnection } from './journal.ts';
import type { ConnectionFollower, WorkerPool } from './worker-pool.ts';

export interface OrphansOptions {
  /** How often it is tried to end them. */
  readonly retryMs: number;
  /** Who may be allowed to end the statements of others; null: nobody. */
  readonly login: Login | null;
}

interface Orphan {
  readonly connection: JournaledConnection;
  /** Milliseconds since 1970, at the latest. */
  readonly lostAt: number;
  readonly remove: () => void;
}

/**
 * Ends what runs on in the database on connections that are lost to us: those of a process before this one, which was
 * killed, those of a thread that has died, and those that were cut off. A database that counts, or waits for a lock, does
 * not notice that its client is gone. It is tried as the user of the server's own login, and by each user's login when the
 * user comes back.
 */
export class Orphans implements ConnectionFollower {
  readonly #options: OrphansOptions;
  readonly #journal: Journal;
  readonly #workers: WorkerPool;
  readonly #observe: Observe;
  readonly #orphans = new Map<number, Orphan>();
  readonly #startedAt = Date.now() - process.uptime() * 1_000;
  #timer: NodeJS.Timeout | null = null;
  /** Null when the server's own login is refused. */
  #login: Login | null;
  #isClosed = false;

  constructor(options: OrphansOptions, journal: Journal, workers: WorkerPool, observe: Observe) {
    this.#options = options;
    this.#journal = journal;
    this.#workers = workers;
    this.#observe = observe;
    this.#login = options.login;
    workers.follow(this);
    for (const { connections, remove } of journal.left()) this.#inherit(connections, remove);
    void this.#retry();
  }

  opened(id: number, login: Login): void {
    // An id that is given out anew tells that the database has been restarted.
    this.#settle([id]);
    this.#journal.opened({ id, user: login.user, openedAt: Date.now() });
    if (this.#orphans.size === 0) return;
    const own = [...this.#orphans.values()].filter(({ connection }) => connection.user === login.user);
    if (own.length > 0) void this.#sweep(login, own);
  }

  closed(id: number): void {
    this.#journal.closed(id);
  }

  lost(id: number, user: string, openedAt: number): void {
    if (this.#isClosed) return;
    const orphan = {
      connection: { id, user, openedAt },
      lostAt: Date.now(),
      remove: () => this.#journal.closed(id),
    };
    this.#orphans.set(id, orphan);
    if (this.#login !== null) void this.#sweep(this.#login, [orphan]);
    this.#retryLater();
  }

  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#orphans.clear();
    this.#journal.close();
  }

  #inherit(connections: readonly JournaledConnection[], remove: () => void): void {
    let left = connections.length;
    const settled = (): void => {
      left--;
      if (left === 0) remove();
    };
    for (const connection of connections) {
      const namesake = this.#orphans.get(connection.id);
      // Of two with the same id, the elder went with the database that it belonged to.
      if (namesake !== undefined && namesake.connection.openedAt > connection.openedAt) {
        settled();
      } else {
        namesake?.remove();
        this.#orphans.set(connection.id, { connection, lostAt: this.#startedAt, remove: settled });
      }
    }
  }

  async #retry(): Promise<void> {
    if (this.#login !== null && this.#orphans.size > 0) await this.#sweep(this.#login, [...this.#orphans.values()]);
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#login === null || this.#orphans.size === 0) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      void this.#retry();
    }, this.#options.retryMs).unref();
  }

  async #sweep(login: Login, orphans: readonly Orphan[]): Promise<void> {
    const now = Date.now();
    const channel = this.#workers.connect();
    channel.post({
      type: 'sweep',
      login,
      orphans: orphans.map(({ connection: { id, user, openedAt }, lostAt }) => ({
        id,
        user,
        openedMs: now - openedAt,
        lostMs: now - lostAt,
      })),
    });
    const answer = await new Promise<FromWorker | null>((resolve) => {
      channel.once('message', resolve);
      channel.once('close', () => resolve(null));
    });
    if (answer?.type === 'refused' && answer.refusal.kind === 'denied' && login === this.#login) this.#login = null;
    if (answer?.type !== 'swept') return;
    const left = new Set(answer.left);
    this.#settle(orphans.map(({ connection }) => connection.id).filter((id) => !left.has(id)));
    if (answer.ended > 0) this.#observe({ type: 'orphans_ended', connections: answer.ended });
  }

  #settle(ids: readonly number[]): void {
    const settled = ids.flatMap((id) => this.#orphans.get(id) ?? []);
    for (const { connection, remove } of settled) {
      this.#orphans.delete(connection.id);
      remove();
    }
  }
}
