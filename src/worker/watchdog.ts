import type { WorkerLimits } from '../wire/messages.ts';
import type { AdminPool } from './admin-pool.ts';
import { type DriverError, isAnswered } from './failures.ts';
import { type ProcessState, processList } from './process-list.ts';

/** How often it is looked whether something has come; more often if the database is to be asked often. */
const tickMsMax = 500;

/** Looks at a connection that find it blocked, or done, and not a byte from it meanwhile, before it is given up. */
const suspicionsMax = 2;

export interface Awaited {
  /** The connection's id in the database. */
  readonly connection: number;
  /** Changes with every sign of life. */
  readonly activity: number;
}

/** Somebody who may wait for the database. */
export interface Watched {
  /** null: nothing is awaited, or what comes is not read. */
  readonly awaited: Awaited | null;
  readonly adminPool: AdminPool;
  giveUp(reason: string): void;
}

/** How long nothing has come, in the watchdog's own time, and what is known about it. */
interface Silence {
  activity: number | null;
  since: number;
  /** When the database is asked next. */
  askAt: number;
  isAsked: boolean;
  /** Since when the questions have had no answer; null if the last one had. */
  unansweredSince: number | null;
  suspicions: number;
}

/**
 * Finds out when a link to the database has died without a word. A statement of which nothing has come for `pingMs` may be at
 * work for hours; so the database is asked, on another connection of the same user, what it does. The statement is
 * given up if nobody answers, or if the database is done with it or waits for us to read, and yet nothing comes.
 * One for all leases of a thread. Its time stands still while the thread is held up, since then nothing is read either.
 */
export class Watchdog {
  readonly #limits: Pick<WorkerLimits, 'pingMs' | 'connectTimeoutMs'>;
  readonly #tickMs: number;
  readonly #silences = new Map<Watched, Silence>();
  #timer: NodeJS.Timeout | null = null;
  #now = 0;
  #advancedAt = 0;
  /** How long the thread has been held up in all. */
  #heldUpMs = 0;

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
    /** One question for all statements of a login. */
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

  /** @param asked by the ids of their connections */
  async #ask(pool: AdminPool, asked: ReadonlyMap<number, Watched>): Promise<void> {
    const askedAt = this.#now;
    const heldUpMs = this.#heldUpMs;
    for (const watched of asked.values()) this.#expectAnswer(watched, askedAt);
    let states: ReadonlyMap<number, ProcessState> | null = null;
    let isAlive = true;
    try {
      states = await processList(pool, [...asked.keys()], this.#limits.pingMs);
    } catch (error) {
      isAlive = isAnswered(error as DriverError);
    }
    this.#advanceClock();
    const wasHeldUp = this.#heldUpMs !== heldUpMs;
    for (const [id, watched] of asked) {
      const silence = this.#silences.get(watched);
      if (silence === undefined) continue;
      silence.isAsked = false;
      const { awaited } = watched;
      // Something has come while the question was under way.
      if (awaited === null || awaited.activity !== silence.activity) this.#restart(silence, awaited?.activity ?? null);
      else if (isAlive) this.#judge(watched, silence, states === null ? null : (states.get(id) ?? 'gone'), askedAt);
      else this.#doubt(watched, silence, wasHeldUp);
    }
  }

  #expectAnswer(watched: Watched, askedAt: number): void {
    const silence = this.#silences.get(watched);
    if (silence === undefined) return;
    silence.isAsked = true;
    silence.unansweredSince ??= askedAt;
  }

  /** @param doing null if the database has answered, but cannot tell */
  #judge(watched: Watched, silence: Silence, doing: ProcessState | 'gone' | null, askedAt: number): void {
    silence.unansweredSince = null;
    silence.askAt = askedAt + this.#limits.pingMs;
    const finding = doing === null ? null : suspicion(doing);
    silence.suspicions = finding === null ? 0 : silence.suspicions + 1;
    if (silence.suspicions < suspicionsMax) return;
    watched.giveUp(`nothing has come from it for ${this.#secsOf(silence)} s, though the database ${finding}`);
  }

  /** The question has had no answer. */
  #doubt(watched: Watched, silence: Silence, wasHeldUp: boolean): void {
    // Who was held up itself has not listened for the answer.
    if (wasHeldUp) silence.unansweredSince = null;
    // What is refused at once is asked again, as long as an answer may take.
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
    this.#heldUpMs += passedMs - countedMs;
  }
}

/**
 * What speaks against a statement of which nothing comes. Both servers show the state of writing to the client only for as
 * long as it takes, and not while they work on.
 * @returns null if the database is at work on it
 */
function suspicion(doing: ProcessState | 'gone'): string | null {
  if (doing === 'gone') return 'has ended the connection';
  if (doing.command === 'Sleep') return 'is done with the statement, or has never had it';
  // MariaDB's name of the state, and MySQL's.
  if (doing.state === 'Writing to net' || doing.state === 'Sending to client') return 'waits for its rows to be read';
  return null;
}
