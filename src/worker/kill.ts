import { setTimeout as delay } from 'node:timers/promises';
import type { Connection } from './connection.ts';
import type { Control } from './control.ts';
import { type DriverError, fullKindOf } from './failures.ts';

/** A kill is repeated after this long, and then after twice as long each time, up to the maximum. */
const retryMsMin = 50;
const retryMsMax = 1_000;

/** What a kill needs of the lease whose statement it ends. */
export interface KillHost {
  /** Another connection of the same user. */
  readonly control: () => Control;
  /** Whether it is of no interest any more what becomes of the connection. */
  readonly isOver: () => boolean;
  /** Called once if a connection limit of the database keeps a kill from being sent. */
  readonly onFull: () => void;
}

/**
 * Ends the statement of a connection in the database, be it by several kills: one that overtakes the statement on the way
 * finds nothing to kill, and one may be refused.
 */
export class Kill {
  /** Resolves when none of the kills can hit the next statement. */
  readonly past: Promise<void>;
  readonly #enough = new AbortController();
  #waitedMs = 0;
  #sentAt: number | null = null;

  constructor(connection: Connection, host: KillHost) {
    this.past = this.#repeat(connection.id, host);
  }

  /** The statement has ended: no kill follows. */
  enough(): void {
    this.#enough.abort();
  }

  /**
   * How long its kills have waited to be answered: for a connection that takes them, for other kills, and for MariaDB, which may
   * wait two seconds for a victim that sleeps.
   */
  get waitedMs(): number {
    return this.#waitedMs + (this.#sentAt === null ? 0 : performance.now() - this.#sentAt);
  }

  async #repeat(connection: number, { control, isOver, onFull }: KillHost): Promise<void> {
    let wasFull = false;
    const { signal } = this.#enough;
    const kills: Promise<void>[] = [];
    for (let retryMs = retryMsMin; !signal.aborted && !isOver(); retryMs = Math.min(2 * retryMs, retryMsMax)) {
      const sentAt = performance.now();
      this.#sentAt = sentAt;
      const { answered, past } = control().kill(connection, isOver);
      kills.push(past);
      await answered.catch((error: DriverError) => {
        if (!wasFull && fullKindOf(error) !== null) {
          wasFull = true;
          onFull();
        }
      });
      this.#sentAt = null;
      this.#waitedMs += performance.now() - sentAt;
      await delay(retryMs, undefined, { signal }).catch(() => {});
    }
    await Promise.all(kills);
  }
}

/** A kill that came as its statement ended may be kept for the next one; this is the next one. */
export async function absorbKill(connection: Connection): Promise<void> {
  try {
    await connection.query('DO 0');
  } catch {
    await connection.query('DO 0');
  }
}
