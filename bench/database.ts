import { type DatabaseServer, startServer } from '../test/support/servers.ts';
import { type TableName, tables } from './tables.ts';

/** The account that all contenders use; the tables are in a schema of its name. */
export const account = { user: 'bench', password: 'bench' } as const;

/** A MariaDB that holds the tables named, and in memory, so that the first who reads them has no harder work than the others. */
export async function startDatabase(names: Iterable<TableName>): Promise<DatabaseServer> {
  const server = await startServer('mariadb', [
    '--innodb-buffer-pool-size=2G',
    // The rows of a join are to come as from the tables: one after the other.
    '--join-cache-level=0',
  ]);
  try {
    const { user, password } = account;
    await server.sql(
      // The character set of the clients, so that the database translates for none of them.
      `CREATE DATABASE ${user} CHARACTER SET utf8mb4;
      CREATE USER ${user}@'%' IDENTIFIED BY '${password}', ${user}@localhost IDENTIFIED BY '${password}';
      GRANT ALL ON ${user}.* TO ${user}@'%', ${user}@localhost`,
    );
    for (const name of names) {
      const { columns, values, rows } = tables[name];
      await server.sql(
        `CREATE TABLE ${name} (id INT UNSIGNED NOT NULL PRIMARY KEY, ${columns});
        INSERT INTO ${name} SELECT seq, ${values} FROM seq_1_to_${rows}`,
        { database: user },
      );
    }
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** As mysql2 takes it. */
export function uriOf(server: DatabaseServer): string {
  const { user, password } = account;
  return `mysql://${user}:${password}@127.0.0.1:${server.port}/${user}?socketPath=${encodeURIComponent(server.socketPath)}`;
}

export function authorization(): string {
  return `Basic ${Buffer.from(`${account.user}:${account.password}`).toString('base64')}`;
}
