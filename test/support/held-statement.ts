import { randomBytes } from 'node:crypto';
import mysql from 'mysql2/promise';
import type { Test } from 'tap';
import type { DatabaseServer } from './servers.ts';

/** A statement that waits for a lock behind its first two rows. */
export interface HeldStatement {
  /**
   * Returns three rows of one column `a`: an empty text, one of 40,000 times x, and 1 once it is released. MariaDB sends rows
   * when it has 16 KiB of them.
   */
  readonly sql: string;
  /** Lets all that wait go on, one after the other. */
  release(): Promise<void>;
  /** Ends the connections on which it runs. */
  kill(): Promise<void>;
}

/** Holds the lock until it is released, or until the test ends. */
export async function holdStatement(t: Test, server: DatabaseServer): Promise<HeldStatement> {
  const lock = `held_${randomBytes(4).toString('hex')}`;
  const holder = await mysql.createConnection({ socketPath: server.socketPath, user: 'root' });
  t.teardown(() => holder.end());
  await holder.query('DO GET_LOCK(?, 0)', [lock]);
  return {
    sql: `SELECT '' AS a UNION ALL SELECT REPEAT('x', 40000) UNION ALL SELECT GET_LOCK('${lock}', 60)`,
    release: async () => void (await holder.query('DO RELEASE_LOCK(?)', [lock])),
    kill: async () => {
      const ids = await server.sql(
        `SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%${lock}%' AND ID <> CONNECTION_ID()`,
      );
      for (const id of ids.split('\n')) await holder.query(`KILL ${id}`);
    },
  };
}
