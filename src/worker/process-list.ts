import type { AdminPool } from './admin-pool.ts';
import type { Connection } from './connection.ts';
import { type DriverError, isAnswered } from './failures.ts';

/** COMMAND and STATE of a connection in the database's process list. */
export interface ProcessState {
  readonly command: string;
  readonly state: string;
}

/**
 * Reads the process list.
 * @param ids of the connections of interest; those that the database does not list are omitted
 * @param patienceMs for a pool that is open: its connection may be dead too, and after this long another one is tried
 * @returns null if the database does not know the ids, as behind a proxy that assigns its own
 * @throws DriverError
 */
export async function processList(
  pool: AdminPool,
  ids: readonly number[],
  patienceMs: number,
): Promise<ReadonlyMap<number, ProcessState> | null> {
  const read = async (connection: Connection): Promise<ReadonlyMap<number, ProcessState> | null> => {
    const processes = await readProcesses(connection, ids);
    const states = new Map(processes.map((process) => [process.id, process]));
    return states.has(connection.id) ? states : null;
  };
  if (!pool.isOpen) return pool.use(read);
  try {
    return await pool.use(read, patienceMs);
  } catch (error) {
    if (isAnswered(error as DriverError)) throw error;
    return pool.use(read);
  }
}

/** Whether the database lists the connection. */
export async function isListed(connection: Connection, id: number): Promise<boolean> {
  const processes = await readProcesses(connection, [id]);
  return processes.some((process) => process.id === id);
}

/** One connection in the process list. */
interface Process extends ProcessState {
  readonly id: number;
  /** How long it has been in that state; 0 if that is not known. */
  readonly secs: number;
}

/** MySQL: ER_CANNOT_CONVERT_STRING. */
const cannotConvert = 3854;

/**
 * Reads the process list for some connections and the asking one. MySQL's table cannot be read while a statement in it has a
 * character of four bytes in UTF-8, such as an emoji. SHOW PROCESSLIST can, but returns all connections. The table in
 * performance_schema does not tell which connections wait for their client.
 * @throws DriverError
 */
export async function readProcesses(connection: Connection, ids: readonly number[]): Promise<Process[]> {
  const listed = new Set([connection.id, ...ids]);
  const query = `SELECT ID, COMMAND, TIME, STATE FROM information_schema.PROCESSLIST WHERE ID IN (${[...listed].join(',')})`;
  const rows = await connection.query(query).catch(async (error: DriverError) => {
    if (error.errno !== cannotConvert) throw error;
    const all = await connection.query('SHOW PROCESSLIST');
    return all.map(([id, _user, _host, _schema, command, secs, state]) => [id, command, secs, state]);
  });
  return rows
    .map(([id, command, secs, state]) => ({
      id: Number(id),
      command: command ?? '',
      secs: Number(secs ?? 0),
      state: state ?? '',
    }))
    .filter(({ id }) => listed.has(id));
}
