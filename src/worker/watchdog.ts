import type { WorkerLimits } from '../wire/messages.ts';
import type { AdminPool } from './admin-pool.ts';
import { type DriverError, isAnswered } from './failures.ts';
import { type ProcessState, processList } from './process-list.ts';

/** How often the connections are checked for activity; more often if `pingMs` is short. */
const tickMsMax = 500;

/** A connection is given up after so many process lists in a row that contradict its silence. */
const suspicionsMax = 2;

export interface Awaited {
  /** The connection's id in the database. */
  readonly connection: number;
  /** See `Connection.activity`. */
  readonly activity: number;
}

/** A connection that may be waiting for the database. */
export interface Watched {
  /** null: no answer is expected, or the connection is paused. */
  readonly awaited: Awaited | null;
  readonly adminPool: AdminPool;
  giveUp(reason: string): void;
}

/** The silence of one connection. Times are the watchdog's own. */
interface Silence {
  activity: number | null;
  since: number;
  /** When the process list is read next. */
  askAt: number;
  isAsked: boolean;
  /** The time of the first reading that failed; null if the last one did not. */
  unansweredSince: number | null;
  suspicions: number;
}

/**
 * Detects connections that are dead although their sockets report no error. A statement may run for hours without an answer. So after
 * `pingMs` of silence the process list is read on another connection of the same user. The connection is given up if that is not
 * answered either, or if the process list shows that the database is done with the statement or waits for us to read. One watchdog
 * serves all connections of a thread. Its clock stops while the thread is blocked, since then nothing is read.
 */
export class Watchdog {
  readonly #limits: Pick<WorkerLimits, 'pingMs' | 'connectTimeoutMs'>;
  readonly #tickMs: number;
  readonly #silences = new Map<Watched, Silence>();
  #timer: NodeJS.Timeout | null = null;
  #now = 0;
  #advancedAt = 0;
  /** For how long the thread has been blocked in total. */
  #blockedMs = 0;

  constructor(limits: Pick<WorkerLimits, 'pingMs' | 'connectTimeoutMs'>) {
    this.#limits = limits;
    this.#tickMs = Math.min(tickMsMax, limits.pingMs / 4);
  }

  add(watched: Watched): void {
    this.#silences.set(watched, {
      activity: null,
      since: 0,
      askAt: 0,
      isAsked: false,
      unansweredSince: null,
      suspicions: 0,
    });
    if (this.#timer !== null) return;
    this.#advancedAt = performance.now();
    this.#timer = setInterval(() => this.#tick(), this.#tickMs).unref();
  }

  remove(watched: Watched): void {
    this.#silences.delete(watched);
    if (this.#silences.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  #tick(): void {
    this.#advanceClock();
    // The process list is read once per login.
    const silent = new Map<AdminPool, Map<number, Watched>>();
    for (const [watched, silence] of this.#silences) {
      const { awaited } = watched;
      if (awaited === null || awaited.activity !== silence.activity) {
        this.#restart(silence, awaited?.activity ?? null);
      } else if (!silence.isAsked && this.#now >= silence.askAt) {
        const { adminPool } = watched;
        silent.set(adminPool, (silent.get(adminPool) ?? new Map()).set(awaited.connection, watched));
      }
    }
    for (const [pool, asked] of silent) void this.#ask(pool, asked);
  }

  #restart(silence: Silence, activity: number | null): void {
    silence.activity = activity;
    silence.since = this.#now;
    silence.askAt = this.#now + this.#limits.pingMs;
    silence.unansweredSince = null;
    silence.suspicions = 0;
  }

  /** @param asked by the ids of the connections */
  async #ask(pool: AdminPool, asked: ReadonlyMap<number, Watched>): Promise<void> {
    const askedAt = this.#now;
    const blockedMs = this.#blockedMs;
    for (const watched of asked.values()) this.#expectAnswer(watched, askedAt);
    let states: ReadonlyMap<number, ProcessState> | null = null;
    let isAlive = true;
    try {
      states = await processList(pool, [...asked.keys()], this.#limits.pingMs);
    } catch (error) {
      isAlive = isAnswered(error as DriverError);
    }
    this.#advanceClock();
    const wasBlocked = this.#blockedMs !== blockedMs;
    for (const [id, watched] of asked) {
      const silence = this.#silences.get(watched);
      if (silence === undefined) continue;
      silence.isAsked = false;
      const { awaited } = watched;
      // There was activity in the meantime.
      if (awaited === null || awaited.activity !== silence.activity) this.#restart(silence, awaited?.activity ?? null);
      else if (isAlive) this.#judge(watched, silence, states === null ? null : (states.get(id) ?? 'gone'), askedAt);
      else this.#doubt(watched, silence, wasBlocked);
    }
  }

  #expectAnswer(watched: Watched, askedAt: number): void {
    const silence = this.#silences.get(watched);
    if (silence === undefined) return;
    silence.isAsked = true;
    silence.unansweredSince ??= askedAt;
  }

  /** @param state null if the process list does not show the connection's id */
  #judge(watched: Watched, silence: Silence, state: ProcessState | 'gone' | null, askedAt: number): void {
    silence.unansweredSince = null;
    silence.askAt = askedAt + this.#limits.pingMs;
    const finding = state === null ? null : suspicion(state);
    silence.suspicions = finding === null ? 0 : silence.suspicions + 1;
    if (silence.suspicions < suspicionsMax) return;
    watched.giveUp(`nothing has come from it for ${this.#secsOf(silence)} s, though the database ${finding}`);
  }

  /** The process list could not be read. */
  #doubt(watched: Watched, silence: Silence, wasBlocked: boolean): void {
    // While this thread was blocked, it could not receive the answer.
    if (wasBlocked) silence.unansweredSince = null;
    // An attempt that fails at once is repeated for as long as an answer may take.
    if (this.#now - (silence.unansweredSince ?? this.#now) < this.#limits.connectTimeoutMs) return;
    watched.giveUp(`nothing has come from it for ${this.#secsOf(silence)} s, and the database does not answer`);
  }

  #secsOf({ since }: Silence): number {
    return Math.round((this.#now - since) / 1_000);
  }

  #advanceClock(): void {
    const at = performance.now();
    const passedMs = at - this.#advancedAt;
    const countedMs = Math.min(passedMs, 2 * this.#tickMs);
    this.#advancedAt = at;
    this.#now += countedMs;
    this.#blockedMs += passedMs - countedMs;
  }
}

/**
 * Why the silence of a statement is suspicious. Both servers show the state of writing to the client only while they write, and not
 * while they continue to work on the statement.
 * @returns null if the database is at work on it
 */
function suspicion(state: ProcessState | 'gone'): string | null {
  if (state === 'gone') return 'has ended the connection';
  if (state.command === 'Sleep') return 'is done with the statement, or never received it';
  // The names of the state in MariaDB and MySQL.
  if (state.state === 'Writing to net' || state.state === 'Sending to client') return 'waits for its rows to be read';
  return null;
}
