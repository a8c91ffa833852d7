import { setTimeout as delay } from 'node:timers/promises';
import type { Orphan } from '../wire/messages.ts';
import { countOwnPrivileges } from './clean-state.ts';
import { Connection, type ConnectOptions } from './connection.ts';
import { type DriverError, isAnswered, isConnectionLost } from './failures.ts';
import { readAnalyze, readExplain, type ScanState } from './plan.ts';

/** Long enough to serve a burst of kills, short enough not to hold a connection that nobody needs. */
const idleMs = 5_000;
/** How often it is looked whether a lost connection is gone in the database too. */
const goneIntervalMs = 50;
/** The database tells times in whole seconds, and its clock is not ours. */
const clockMs = 2_000;
/** ER_NO_SUCH_THREAD. */
const noSuchThread = 1094;
/** MariaDB may take two seconds for a kill whose victim sleeps: others are not to wait behind it for longer than this. */
const slowMs = 100;
/** Connections of one control at once. */
const linesMax = 4;
/** The database is asked for counts at most this often, for all who want to know at once. */
const examineIntervalMs = 1_000;
/** Plans are asked for one by one. Those that are not reached in this time have their turn the next time. */
const plansMs = 500;
/** MariaDB has a statement describe itself between two rows. One that sleeps or waits does not get there. */
const analyzeMs = 100;

/** What the database says of a connection: COMMAND and STATE in its process list. */
export interface Doing {
  readonly command: string;
  readonly state: string;
}

export interface SentKill {
  /** Rejects with a DriverError if the database did not answer, or refused. */
  readonly answered: Promise<unknown>;
  /** Resolves when the kill can hit nothing any more, be it that it was never carried out. */
  readonly past: Promise<void>;
}

/** What became of orphans. */
export interface Swept {
  /** The ids of those of which it is not known that they are gone, or will be. */
  readonly left: readonly number[];
  /** How many were killed. */
  readonly ended: number;
}

/** What is asked about a statement that runs. */
export interface Wanted {
  /** The counts of its connection are those of the statement alone. */
  readonly isCounted: boolean;
  /** Its plan is wanted too. */
  readonly isPlanned: boolean;
}

/** A connection, on which one question is asked at a time. */
interface Line {
  readonly connection: Promise<Connection>;
  isBusy: boolean;
}

interface Waiting {
  readonly take: (line: Line) => void;
  /** Opens a line of its own when it has waited for long. */
  readonly timer: NodeJS.Timeout;
}

/**
 * A second connection of the same user, on which the statements of others are watched and stopped. It is opened when
 * first needed and closed when idle; one serves all connections of that user in a thread, and a few more do if it is held
 * up.
 */
export class Control {
  readonly #options: ConnectOptions;
  readonly #onClose: () => void;
  readonly #lines: Line[] = [];
  readonly #waiting: Waiting[] = [];
  #idleTimer: NodeJS.Timeout | null = null;
  #inUse = 0;
  /** Whether the user has the privilege to read the counts, as far as is known. */
  #mayCount = true;
  /** The connections that are asked about, and the answer that will have them. */
  readonly #watched = new Map<number, Wanted>();
  #scans: Promise<ReadonlyMap<number, ScanState>> | null = null;
  #countedAt = -examineIntervalMs;
  /** Of those that are asked about, the one whose plan is asked for first. */
  #firstPlan = 0;

  /** @param onClose called when it is no longer of use; whoever needs one later makes another */
  constructor(options: ConnectOptions, onClose: () => void) {
    this.#options = options;
    this.#onClose = onClose;
  }

  /**
   * That of a login, made if there is none.
   * @param controls those of the thread, by login
   */
  static of(controls: Map<string, Control>, options: ConnectOptions): Control {
    const key = JSON.stringify([options.user, options.password]);
    let control = controls.get(key);
    if (control === undefined) {
      control = new Control(options, () => controls.delete(key));
      controls.set(key, control);
    }
    return control;
  }

  /**
   * Stops the statement that connection `id` runs, if it runs one (MySQL manual, "KILL Statement").
   * @param isOver whether it is of no interest any more what becomes of the connection
   */
  kill(id: number, isOver: () => boolean): SentKill {
    let sender: Connection | null = null;
    const answered = this.#use((connection) => {
      sender = connection;
      return connection.query(`KILL QUERY ${id}`);
    });
    const past = answered.then(
      () => {},
      async (error: DriverError) => {
        if (sender !== null && isConnectionLost(error)) await this.#untilGone(sender, isOver);
      },
    );
    return { answered, past };
  }

  /** What was sent on a connection that is lost may yet be carried out, for as long as the database has its end of it. */
  async #untilGone({ id }: Connection, isOver: () => boolean): Promise<void> {
    const look = `SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ${id}`;
    while (!isOver()) {
      const rows = await this.#use((connection) => connection.query(look)).catch(() => null);
      if (rows?.length === 0) return;
      await delay(goneIntervalMs);
    }
  }

  /**
   * Ends the orphans that still run a statement. While a database is up, it gives each id once; the ids begin anew when it is
   * started. So an orphan is ended only if the database is up since before the connection was opened, and at the statement
   * since before it was lost. The user's name is no proof: the database may show another form of it than the login had. None
   * is ended if the ids are not the database's own, as behind a proxy that gives out others.
   * @throws DriverError
   */
  sweep(orphans: readonly Orphan[]): Promise<Swept> {
    return this.#use(async (connection) => {
      const [[, uptime] = []] = await connection.query("SHOW GLOBAL STATUS LIKE 'Uptime'");
      const [[seesAll] = []] = await connection.query(maySeeAll);
      const list = [connection.id, ...orphans.map(({ id }) => id)].join(',');
      const rows = await connection.query(
        `SELECT ID, COALESCE(TIME, 0) FROM information_schema.PROCESSLIST WHERE ID IN (${list})`,
      );
      const found = new Map(rows.map(([id, secs]) => [Number(id), Number(secs) * 1_000]));
      if (!found.has(connection.id)) return { left: [], ended: 0 };
      const uptimeMs = Number(uptime) * 1_000;
      const left: number[] = [];
      let ended = 0;
      for (const { id, user, openedMs, lostMs } of orphans) {
        // It went with the database that it belonged to.
        if (uptimeMs + clockMs < openedMs) continue;
        const runningMs = found.get(id);
        if (runningMs === undefined) {
          if (seesAll === '0' && user !== this.#options.user) left.push(id);
          continue;
        }
        const isProven = uptimeMs >= openedMs && runningMs + clockMs > lostMs;
        const end = isProven ? await this.#endOrphan(connection, id) : 'refused';
        if (end === 'refused') left.push(id);
        if (end === 'killed') ended++;
      }
      return { left, ended };
    });
  }

  async #endOrphan(connection: Connection, id: number): Promise<'killed' | 'gone' | 'refused'> {
    try {
      await connection.query(`KILL ${id}`);
      return 'killed';
    } catch (error) {
      if (isConnectionLost(error as DriverError)) throw error;
      return (error as DriverError).errno === noSuchThread ? 'gone' : 'refused';
    }
  }

  /**
   * What connections do in the database, by their ids; one that the database does not have is left out.
   * @param patienceMs for the connection that is open already: it may have died by itself, and then another is asked
   * @returns null if the database cannot say, as behind a proxy that gives out ids of its own
   * @throws DriverError
   */
  async look(ids: readonly number[], patienceMs: number): Promise<ReadonlyMap<number, Doing> | null> {
    const ask = async (connection: Connection): Promise<ReadonlyMap<number, Doing> | null> => {
      const list = [connection.id, ...ids].join(',');
      const rows = await connection.query(
        `SELECT ID, COMMAND, COALESCE(STATE, '') FROM information_schema.PROCESSLIST WHERE ID IN (${list})`,
      );
      const doings = new Map(rows.map(([id, command, state]) => [Number(id), { command, state } as Doing]));
      return doings.has(connection.id) ? doings : null;
    };
    if (this.#lines.length === 0) return this.#use(ask);
    try {
      return await this.#use(ask, patienceMs);
    } catch (error) {
      if (isAnswered(error as DriverError)) throw error;
      return this.#use(ask);
    }
  }

  /**
   * How far the statement of connection `id` is; null if nothing is known. A thousand statements that are watched cost one
   * question for their counts a second, a bounded time for their plans, and hold up no kill.
   */
  async examined(id: number, wanted: Wanted): Promise<ScanState | null> {
    this.#watched.set(id, wanted);
    this.#scans ??= this.#scanSoon();
    return (await this.#scans).get(id) ?? null;
  }

  async #scanSoon(): Promise<ReadonlyMap<number, ScanState>> {
    await delay(Math.max(0, this.#countedAt + examineIntervalMs - performance.now()));
    this.#countedAt = performance.now();
    const watched = new Map(this.#watched);
    this.#watched.clear();
    this.#scans = null;
    const scans = new Map<number, ScanState>();
    try {
      await this.#count(watched, scans);
      await this.#readPlans(watched, scans);
    } catch {
      // Without a connection, progress can wait.
    }
    return scans;
  }

  async #count(watched: Map<number, Wanted>, scans: Map<number, ScanState>): Promise<void> {
    const ids = [...watched].filter(([, { isCounted }]) => isCounted).map(([id]) => id);
    if (!this.#mayCount || ids.length === 0) return;
    try {
      const rows = await this.#use((connection) =>
        connection.query(connection.isMariadb ? mariadbExamined(ids.join()) : mysqlExamined(ids.join())),
      );
      for (const [id, count, state = null] of rows) {
        // MariaDB counts 0 where it does not count.
        if (state === null || count !== '0') scans.set(Number(id), { rows: Number(count), estimatedRows: null });
        if (state !== null && isWaiting.test(state)) watched.delete(Number(id));
      }
    } catch (error) {
      if (isConnectionLost(error as DriverError)) throw error;
      // Without the privilege, it is of no use to ask again.
      this.#mayCount = false;
    }
  }

  /** Asks for the plans of statements, each in its own turn, so that a kill waits for one of them at most. */
  async #readPlans(watched: ReadonlyMap<number, Wanted>, scans: Map<number, ScanState>): Promise<void> {
    const ids = [...watched].filter(([, { isPlanned }]) => isPlanned).map(([id]) => id);
    const first = ids.length === 0 ? 0 : this.#firstPlan % ids.length;
    const began = performance.now();
    for (const id of [...ids.slice(first), ...ids.slice(0, first)]) {
      if (performance.now() > began + plansMs) return;
      this.#firstPlan++;
      const plan = await this.#use((connection) => readPlan(connection, id));
      if (plan === null) continue;
      const rows = Math.max(scans.get(id)?.rows ?? 0, plan.rows ?? 0);
      const isCounted = scans.has(id) || plan.rows !== null;
      scans.set(id, { rows: isCounted ? rows : null, estimatedRows: plan.estimatedRows });
    }
  }

  close(): void {
    this.#onClose();
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
    for (const { connection } of this.#lines.splice(0)) {
      connection.then(
        (open) => open.close(),
        () => {},
      );
    }
  }

  async #use<T>(work: (connection: Connection) => Promise<T>, patienceMs = this.#options.timeoutMs): Promise<T> {
    this.#inUse++;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    const line = this.#freeLine() ?? (await this.#lineInTurn());
    // One that no longer answers would hold up every later kill behind this one.
    let isOver = false;
    const patience = setTimeout(() => {
      // If the thread was held up, the answer may lie there unread.
      setImmediate(() => {
        if (!isOver) this.#drop(line);
      });
    }, patienceMs);
    try {
      return await work(await line.connection);
    } finally {
      isOver = true;
      clearTimeout(patience);
      this.#free(line);
      this.#inUse--;
      if (this.#inUse === 0) this.#idleTimer = setTimeout(() => this.close(), idleMs);
    }
  }

  #freeLine(): Line | null {
    if (this.#lines.length === 0) return this.#open();
    const line = this.#lines.find(({ isBusy }) => !isBusy) ?? null;
    if (line !== null) line.isBusy = true;
    return line;
  }

  #lineInTurn(): Promise<Line> {
    return new Promise((take) => {
      const timer = setTimeout(() => {
        if (this.#lines.length >= linesMax) return;
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        take(this.#open());
      }, slowMs);
      const waiting: Waiting = { take, timer };
      this.#waiting.push(waiting);
    });
  }

  /** Gives a line to whoever waits; if it is gone, another takes its place. */
  #free(line: Line): void {
    line.isBusy = false;
    if (this.#waiting.length === 0) return;
    const next = this.#freeLine();
    if (next === null) return;
    const { take, timer } = this.#waiting.shift() as Waiting;
    clearTimeout(timer);
    take(next);
  }

  #drop(line: Line): void {
    this.#remove(line);
    line.connection.then(
      (open) => open.destroy(),
      () => {},
    );
  }

  #remove(line: Line): void {
    const at = this.#lines.indexOf(line);
    if (at >= 0) this.#lines.splice(at, 1);
  }

  /** @returns a line for the caller */
  #open(): Line {
    const line: Line = { connection: Connection.open(this.#options), isBusy: true };
    this.#lines.push(line);
    line.connection.then(
      (connection) => connection.once('lost', () => this.#remove(line)),
      () => this.#remove(line),
    );
    return line;
  }
}

/** Whether the user sees the threads of others (MySQL manual, "The INFORMATION_SCHEMA PROCESSLIST Table"). */
const maySeeAll = countOwnPrivileges("'PROCESS'");

/** STATE in MariaDB's process list of a statement that waits for a lock. */
const isWaiting = /^(?:User lock|Waiting)/;

/**
 * The plan of the statement that a connection runs.
 * @returns null if the database gives none: there is no plan, or the statement does not get to telling it
 * @throws DriverError if the connection is lost
 */
async function readPlan(connection: Connection, id: number): Promise<ScanState | null> {
  const { isMariadb } = connection;
  if (isMariadb && !canAnalyze(connection.version)) return null;
  try {
    if (!isMariadb) {
      const lines = await connection.query(`EXPLAIN FORMAT=TRADITIONAL FOR CONNECTION ${id}`);
      return { rows: null, estimatedRows: readExplain(lines) };
    }
    const [[json = null] = []] = await connection.query(
      `SET STATEMENT max_statement_time = ${analyzeMs / 1_000} FOR SHOW ANALYZE FORMAT=JSON FOR ${id}`,
    );
    return json === null ? null : readAnalyze(json);
  } catch (error) {
    if (isConnectionLost(error as DriverError)) throw error;
    return null;
  }
}

/**
 * SHOW ANALYZE is there since MariaDB 10.9. Releases before these read tables that were closed already when they printed the
 * plan of a statement that runs (MDEV-31577 and what followed it).
 */
export function canAnalyze(version: string): boolean {
  // Up to 10.11, MariaDB puts a version that old replicas can read before its own.
  const own = version.replace(/^5\.5\.5-/, '');
  const [major = 0, minor = 0, patch = 0] = own.split(/[.-]/, 3).map(Number);
  return major > 11 || (major === 11 && minor >= 4) || (major === 10 && minor === 11 && patch >= 8);
}

/** MariaDB counts while UPDATE, DELETE and the like run (MariaDB manual, "Information Schema PROCESSLIST Table"). */
function mariadbExamined(ids: string): string {
  return `SELECT ID, EXAMINED_ROWS, COALESCE(STATE, '') FROM information_schema.PROCESSLIST WHERE ID IN (${ids})`;
}

/**
 * MySQL fills ROWS_EXAMINED only when a statement has ended, but the handler counters of a thread move while it runs
 * (MySQL manual, "Performance Schema Status Variable Tables").
 */
function mysqlExamined(ids: string): string {
  return (
    'SELECT t.PROCESSLIST_ID, CAST(SUM(s.VARIABLE_VALUE) AS UNSIGNED) FROM performance_schema.status_by_thread s' +
    ' JOIN performance_schema.threads t USING (THREAD_ID)' +
    ` WHERE t.PROCESSLIST_ID IN (${ids}) AND s.VARIABLE_NAME LIKE 'Handler\\_read%' GROUP BY 1`
  );
}
