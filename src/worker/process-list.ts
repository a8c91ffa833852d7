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
    const list = [connection.id, ...ids].join(',');
    const rows = await connection.query(
      `SELECT ID, COMMAND, COALESCE(STATE, '') FROM information_schema.PROCESSLIST WHERE ID IN (${list})`,
    );
    const states = new Map(rows.map(([id, command, state]) => [Number(id), { command, state } as ProcessState]));
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
  const rows = await connection.query(`SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ${id}`);
  return rows.length > 0;
}
