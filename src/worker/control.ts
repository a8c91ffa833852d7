import { setTimeout as delay } from 'node:timers/promises';
import type { Orphan } from '../wire/messages.ts';
import { countOwnPrivileges } from './clean-state.ts';
import { Connection, type ConnectOptions } from './connection.ts';
import { type DriverError, isAnswered, isConnectionLost } from './failures.ts';

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
  #mayExamine = true;
  /** The connections whose counts are wanted, and the answer that will have them. */
  readonly #watched = new Set<number>();
  #counts: Promise<ReadonlyMap<number, number>> | null = null;
  #countedAt = -examineIntervalMs;

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
   * The database's count of rows examined by the statement of connection `id`, or null where it gives none. Waits for
   * company: a thousand statements that are watched cost one question a second, and hold up no kill.
   */
  async examined(id: number): Promise<number | null> {
    if (!this.#mayExamine) return null;
    this.#watched.add(id);
    this.#counts ??= this.#countSoon();
    return (await this.#counts).get(id) ?? null;
  }

  async #countSoon(): Promise<ReadonlyMap<number, number>> {
    await delay(Math.max(0, this.#countedAt + examineIntervalMs - performance.now()));
    this.#countedAt = performance.now();
    const ids = [...this.#watched].join(',');
    this.#watched.clear();
    this.#counts = null;
    try {
      const rows = await this.#use((connection) =>
        connection.query(connection.isMariadb ? mariadbExamined(ids) : mysqlExamined(ids)),
      );
      return new Map(rows.map(([id, count]) => [Number(id), Number(count)]));
    } catch {
      // Without the privilege to look, it is no use to ask again; without a connection, progress can wait.
      this.#mayExamine = this.#lines.length === 0;
      return new Map();
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

/** MariaDB counts while UPDATE, DELETE and the like run (MariaDB manual, "Information Schema PROCESSLIST Table"). */
function mariadbExamined(ids: string): string {
  return `SELECT ID, EXAMINED_ROWS FROM information_schema.PROCESSLIST WHERE ID IN (${ids})`;
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
