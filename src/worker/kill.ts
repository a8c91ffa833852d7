import { setTimeout as delay } from 'node:timers/promises';
import type { AdminPool } from './admin-pool.ts';
import type { Connection } from './connection.ts';
import { type DriverError, databaseLimitOf, isConnectionLost } from './failures.ts';
import { isListed } from './process-list.ts';

/** A kill is repeated after this long, and then after twice as long each time, up to the maximum. */
const retryMsMin = 50;
const retryMsMax = 1_000;
/** How often the process list is checked for a lost connection. */
const goneIntervalMs = 50;

/** The executor whose statement is killed. */
export interface KillHost {
  readonly adminPool: AdminPool;
  /** The connection is closed; kills no longer matter. */
  readonly isClosed: boolean;
  /** Called once if a connection limit of the database keeps a kill from being sent. */
  onFull(): void;
}

/**
 * Ends the statement of a connection in the database. One KILL QUERY may not suffice: it may arrive before the statement and find
 * nothing to kill, and it may be refused.
 */
export class Kill {
  /** Resolves when none of the kills can hit the next statement. */
  readonly settled: Promise<void>;
  readonly #stopped = new AbortController();
  #waitedMs = 0;
  #sentAt: number | null = null;

  constructor(connection: Connection, host: KillHost) {
    this.settled = this.#repeat(connection.id, host);
  }

  /** The statement has ended: sends no further kills. */
  stop(): void {
    this.#stopped.abort();
  }

  /**
   * How long the kills have waited for their answers: for a connection of the pool, for other kills, and for MariaDB, which may
   * wait two seconds for a victim that sleeps.
   */
  get waitedMs(): number {
    return this.#waitedMs + (this.#sentAt === null ? 0 : performance.now() - this.#sentAt);
  }

  async #repeat(id: number, host: KillHost): Promise<void> {
    let wasFull = false;
    const { signal } = this.#stopped;
    const kills: Promise<void>[] = [];
    for (let retryMs = retryMsMin; !signal.aborted && !host.isClosed; retryMs = Math.min(2 * retryMs, retryMsMax)) {
      const sentAt = performance.now();
      this.#sentAt = sentAt;
      const { answered, settled } = sendKill(host.adminPool, id, host);
      kills.push(settled);
      await answered.catch((error: DriverError) => {
        if (!wasFull && databaseLimitOf(error) !== null) {
          wasFull = true;
          host.onFull();
        }
      });
      this.#sentAt = null;
      this.#waitedMs += performance.now() - sentAt;
      await delay(retryMs, undefined, { signal }).catch(() => {});
    }
    await Promise.all(kills);
  }
}

interface SentKill {
  /** Rejects with a DriverError if the database did not answer, or refused. */
  readonly answered: Promise<unknown>;
  /** Resolves when the kill can no longer hit a statement, also if it was never carried out. */
  readonly settled: Promise<void>;
}

/** Stops the statement that connection `id` runs, if it runs one (MySQL manual, "KILL Statement"). */
function sendKill(pool: AdminPool, id: number, host: KillHost): SentKill {
  let sender: Connection | null = null;
  const answered = pool.use((connection) => {
    sender = connection;
    return connection.query(`KILL QUERY ${id}`);
  });
  const settled = answered.then(
    () => {},
    async (error: DriverError) => {
      if (sender !== null && isConnectionLost(error)) await untilGone(pool, sender, host);
    },
  );
  return { answered, settled };
}

/** The database may carry out a kill that was sent on a lost connection, until it has closed its end of that connection. */
async function untilGone(pool: AdminPool, { id }: Connection, host: KillHost): Promise<void> {
  while (!host.isClosed) {
    const isThere = await pool.use((connection) => isListed(connection, id)).catch(() => true);
    if (!isThere) return;
    await delay(goneIntervalMs);
  }
}

/** Runs a statement that a late kill may hit: one that arrives as its statement ends is kept for the next statement. */
export async function absorbKill(connection: Connection): Promise<void> {
  try {
    await connection.query('DO 0');
  } catch {
    await connection.query('DO 0');
  }
}
