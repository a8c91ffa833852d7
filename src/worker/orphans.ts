import type { Orphan } from '../wire/messages.ts';
import type { AdminPool } from './admin-pool.ts';
import type { Connection } from './connection.ts';
import { ownPrivilegesQuery } from './connection-reset.ts';
import { type DriverError, isConnectionLost } from './failures.ts';
import { readProcesses } from './process-list.ts';

/** Tolerance for times: the database reports them in whole seconds, and its clock is not ours. */
const clockMs = 2_000;
/** ER_NO_SUCH_THREAD. */
const noSuchThread = 1094;

/** The result of a sweep. */
export interface Swept {
  /** The ids of orphans that may still run a statement. */
  readonly left: readonly number[];
  /** How many were killed. */
  readonly ended: number;
}

/**
 * Kills the orphans that still run a statement. The database assigns each id once while it is up, and starts again at 1 when it
 * restarts. So an orphan is killed only if the database has been up since before the connection was opened, and has been at the
 * statement since before the connection was lost. The user name proves nothing: the database may list another form of it than the
 * login used. No orphan is killed if the ids are not the database's own, as behind a proxy that assigns its own.
 * @throws DriverError
 */
export function sweepOrphans(pool: AdminPool, orphans: readonly Orphan[]): Promise<Swept> {
  return pool.use(async (connection) => {
    const [[, uptime] = []] = await connection.query("SHOW GLOBAL STATUS LIKE 'Uptime'");
    const [[seesAll] = []] = await connection.query(maySeeAll);
    const ids = orphans.map(({ id }) => id);
    const processes = await readProcesses(connection, ids);
    const found = new Map(processes.map(({ id, secs }) => [id, secs * 1_000]));
    if (!found.has(connection.id)) return { left: [], ended: 0 };
    const uptimeMs = Number(uptime) * 1_000;
    const left: number[] = [];
    let ended = 0;
    for (const { id, user, openedMs, lostMs } of orphans) {
      // The database has restarted since, which ended the statement.
      if (uptimeMs + clockMs < openedMs) continue;
      const runningMs = found.get(id);
      if (runningMs === undefined) {
        if (seesAll === '0' && user !== pool.user) left.push(id);
        continue;
      }
      const isProven = uptimeMs >= openedMs && runningMs + clockMs > lostMs;
      const outcome = isProven ? await kill(connection, id) : 'refused';
      if (outcome === 'refused') left.push(id);
      if (outcome === 'killed') ended++;
    }
    return { left, ended };
  });
}

async function kill(connection: Connection, id: number): Promise<'killed' | 'gone' | 'refused'> {
  try {
    await connection.query(`KILL ${id}`);
    return 'killed';
  } catch (error) {
    if (isConnectionLost(error as DriverError)) throw error;
    return (error as DriverError).errno === noSuchThread ? 'gone' : 'refused';
  }
}

/** Whether the user sees the threads of others (MySQL manual, "The INFORMATION_SCHEMA PROCESSLIST Table"). */
const maySeeAll = ownPrivilegesQuery("'PROCESS'");
