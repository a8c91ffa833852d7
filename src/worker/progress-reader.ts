import { setTimeout as delay } from 'node:timers/promises';
import type { Connection } from './connection.ts';
import { type DriverError, isConnectionLost } from './failures.ts';
import { readAnalyze, readExplain, type ScanState } from './plan.ts';

/** Counts are read at most this often, for all statements at once. */
const countIntervalMs = 1_000;
/** Plans are read one by one for this long. The next round begins with those that were not reached. */
const plansMs = 500;
/** MariaDB prints the plan of a statement between two of its rows. A statement that sleeps or waits never gets there. */
const analyzeMs = 100;

/** The progress that is requested of a running statement. */
export interface ProgressRequest {
  /** The counts of its connection are those of the statement alone. */
  readonly isCounted: boolean;
  readonly isPlanned: boolean;
}

/**
 * Reads how far running statements of one login are: rows examined, and the optimizer's estimate. A thousand statements cost one
 * query for their counts per second and a bounded time for their plans. Each query uses the pool's connection only for itself, so
 * that a kill waits for one of them at most.
 */
export class ProgressReader {
  readonly #use: <T>(work: (connection: Connection) => Promise<T>) => Promise<T>;
  /** The statements of the next round, by connection. */
  readonly #requests = new Map<number, ProgressRequest>();
  /** The round that has not begun yet. */
  #nextRound: Promise<ReadonlyMap<number, ScanState>> | null = null;
  #countedAt = -countIntervalMs;
  /** False once the user has turned out to lack the privilege to read the counts. */
  #mayCount = true;
  /** Counts plans read, so that each round begins with another statement. */
  #plansRead = 0;

  /** @param use lends a connection of the login for one request */
  constructor(use: <T>(work: (connection: Connection) => Promise<T>) => Promise<T>) {
    this.#use = use;
  }

  /** How far the statement of connection `id` is; null if nothing is known. */
  async read(id: number, request: ProgressRequest): Promise<ScanState | null> {
    this.#requests.set(id, request);
    this.#nextRound ??= this.#readSoon();
    return (await this.#nextRound).get(id) ?? null;
  }

  async #readSoon(): Promise<ReadonlyMap<number, ScanState>> {
    await delay(Math.max(0, this.#countedAt + countIntervalMs - performance.now()));
    this.#countedAt = performance.now();
    const requests = new Map(this.#requests);
    this.#requests.clear();
    this.#nextRound = null;
    const scans = new Map<number, ScanState>();
    try {
      await this.#readCounts(requests, scans);
      await this.#readPlans(requests, scans);
    } catch {
      // Without a connection there is no progress to report.
    }
    return scans;
  }

  /** Removes statements that wait for a lock from `requests`, as their plans cannot be read. */
  async #readCounts(requests: Map<number, ProgressRequest>, scans: Map<number, ScanState>): Promise<void> {
    const ids = [...requests].filter(([, { isCounted }]) => isCounted).map(([id]) => id);
    if (!this.#mayCount || ids.length === 0) return;
    try {
      const rows = await this.#use((connection) =>
        connection.query(connection.isMariadb ? mariadbCounts(ids.join()) : mysqlCounts(ids.join())),
      );
      for (const [id, count, state = null] of rows) {
        // MariaDB shows 0 for statements whose rows it does not count.
        if (state === null || count !== '0') scans.set(Number(id), { rows: Number(count), estimatedRows: null });
        if (state !== null && lockWait.test(state)) requests.delete(Number(id));
      }
    } catch (error) {
      if (isConnectionLost(error as DriverError)) throw error;
      // A missing privilege would fail every later query too.
      this.#mayCount = false;
    }
  }

  async #readPlans(requests: ReadonlyMap<number, ProgressRequest>, scans: Map<number, ScanState>): Promise<void> {
    const ids = [...requests].filter(([, { isPlanned }]) => isPlanned).map(([id]) => id);
    const first = ids.length === 0 ? 0 : this.#plansRead % ids.length;
    const began = performance.now();
    for (const id of [...ids.slice(first), ...ids.slice(0, first)]) {
      if (performance.now() > began + plansMs) return;
      this.#plansRead++;
      const plan = await this.#use((connection) => readPlan(connection, id));
      if (plan === null) continue;
      const rows = Math.max(scans.get(id)?.rows ?? 0, plan.rows ?? 0);
      const isCounted = scans.has(id) || plan.rows !== null;
      scans.set(id, { rows: isCounted ? rows : null, estimatedRows: plan.estimatedRows });
    }
  }
}

/** STATE in MariaDB's process list of a statement that waits for a lock. */
const lockWait = /^(?:User lock|Waiting)/;

/**
 * The plan of the statement that a connection runs.
 * @returns null if the database gives none: there is no plan, or the statement did not get to print it in time
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
 * MariaDB has SHOW ANALYZE since 10.9. Releases before the ones below read tables that were already closed when they printed
 * the plan of a running statement (MDEV-31577 and its successors).
 */
export function canAnalyze(version: string): boolean {
  // Up to 10.11, MariaDB prefixes its version with one that old replicas can parse.
  const own = version.replace(/^5\.5\.5-/, '');
  const [major = 0, minor = 0, patch = 0] = own.split(/[.-]/, 3).map(Number);
  return major > 11 || (major === 11 && minor >= 4) || (major === 10 && minor === 11 && patch >= 8);
}

/** MariaDB counts while UPDATE, DELETE and the like run (MariaDB manual, "Information Schema PROCESSLIST Table"). */
function mariadbCounts(ids: string): string {
  return `SELECT ID, EXAMINED_ROWS, COALESCE(STATE, '') FROM information_schema.PROCESSLIST WHERE ID IN (${ids})`;
}

/**
 * MySQL fills ROWS_EXAMINED only when a statement has ended, but the handler counters of a thread move while it runs
 * (MySQL manual, "Performance Schema Status Variable Tables").
 */
function mysqlCounts(ids: string): string {
  return (
    'SELECT t.PROCESSLIST_ID, CAST(SUM(s.VARIABLE_VALUE) AS UNSIGNED) FROM performance_schema.status_by_thread s' +
    ' JOIN performance_schema.threads t USING (THREAD_ID)' +
    ` WHERE t.PROCESSLIST_ID IN (${ids}) AND s.VARIABLE_NAME LIKE 'Handler\\_read%' GROUP BY 1`
  );
}
