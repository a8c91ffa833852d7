import type { Observe } from '../events.ts';
import type { FromWorker, Login } from '../wire/messages.ts';
import type { ConnectionRecord, Journal, JournaledConnection, LeftJournal } from './journal.ts';
import type { ConnectionFollower, WorkerPool } from './worker-pool.ts';

export interface OrphansOptions {
  /** The time between two attempts to end them. */
  readonly retryMs: number;
  /** A login that may be allowed to kill the statements of other users; null: none. */
  readonly login: Login | null;
}

interface Orphan {
  readonly connection: JournaledConnection;
  /** Milliseconds since 1970. It may have been lost earlier. */
  readonly lostAt: number;
  /** The journal that has it. */
  readonly journal: ConnectionRecord;
}

/**
 * Kills statements that still run in the database on connections that are lost: those of an earlier process that was killed,
 * those of a thread that died, and those that were cut off. While a database computes or waits for a lock, it does not notice
 * that its client is gone. The kills are sent by the login of --mysql_url, and by each user's login when the user opens another
 * connection.
 */
export class Orphans implements ConnectionFollower {
  readonly #options: OrphansOptions;
  readonly #journal: Journal;
  readonly #workers: WorkerPool;
  readonly #observe: Observe;
  readonly #orphans = new Map<number, Orphan>();
  readonly #startedAt = Date.now() - process.uptime() * 1_000;
  #timer: NodeJS.Timeout | null = null;
  /** null: there is none, or the database has refused it. */
  #login: Login | null;
  #isClosed = false;

  constructor(options: OrphansOptions, journal: Journal, workers: WorkerPool, observe: Observe) {
    this.#options = options;
    this.#journal = journal;
    this.#workers = workers;
    this.#observe = observe;
    this.#login = options.login;
    workers.follow(this);
    for (const left of journal.left()) this.#inherit(left);
    void this.#retry();
  }

  opened(id: number, login: Login): void {
    // The database assigns an id a second time only after a restart, which has ended the connection that had it.
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
      journal: this.#journal,
    };
    this.#orphans.set(id, orphan);
    if (this.#login !== null) void this.#sweep(this.#login, [orphan]);
    this.#retryLater();
  }

  /**
   * Called before the connections are closed.
   * @param isSettled whether no statement runs on them. If one does, or may still run on a connection that was lost, the
   * journal is left for the next process
   */
  close(isSettled: boolean): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const hasLost = [...this.#orphans.values()].some(({ journal }) => journal === this.#journal);
    this.#orphans.clear();
    if (isSettled && !hasLost) this.#journal.remove();
    else this.#journal.leave();
  }

  #inherit(journal: LeftJournal): void {
    for (const connection of journal.connections) {
      const other = this.#orphans.get(connection.id);
      // Of two with the same id, a restart of the database has ended the older one.
      if (other !== undefined && other.connection.openedAt > connection.openedAt) {
        journal.closed();
      } else {
        other?.journal.closed(connection.id);
        this.#orphans.set(connection.id, { connection, lostAt: this.#startedAt, journal });
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
    for (const { connection, journal } of settled) {
      this.#orphans.delete(connection.id);
      journal.closed(connection.id);
    }
  }
}
