import { type Connection, Pipeline, type PlainCommand } from './connection.ts';
import { isConnectionLost } from './failures.ts';

/** In seconds. The subquery without rows makes MariaDB's FOUND_ROWS() 0, which a reset leaves as it is. */
const aDay = 'COALESCE((SELECT 1 FROM DUAL WHERE 0), 86400)';

/**
 * Text in utf8mb4, and a database that waits for a reader as long as we do (`net_write_timeout` would end a result
 * whose reader stalls for 60 s).
 */
const variables = `SET NAMES utf8mb4, net_write_timeout = 86400, wait_timeout = ${aDay}`;

/**
 * The state in which every one-off statement finds its connection, and every session begins: that of a fresh login,
 * with the schema selected and our variables set.
 */
export class CleanState {
  readonly #way: WayBack;
  /** The same, with the schema selected anew; null if there is none. */
  readonly #wayToSchema: WayBack | null;

  private constructor(isMariadb: boolean, database: string | null, role: string) {
    const reset: CleaningCommand = { type: 'reset connection' };
    const leavings = isMariadb ? mariadbLeavings(role) : mysqlLeavings;
    this.#way = new WayBack([reset, ...leavings]);
    this.#wayToSchema = database === null ? null : new WayBack([reset, { type: 'init db', database }, ...leavings]);
  }

  /**
   * Brings a connection that has just been opened to the state, and notes what leads back to it.
   * @param database the schema that is selected already, or null for none
   * @throws DriverError
   */
  static async of(connection: Connection, database: string | null): Promise<CleanState> {
    let role: string | null = null;
    if (connection.isMariadb) role = (await connection.query('SELECT CURRENT_ROLE()'))[0]?.[0] ?? null;
    await connection.query(variables);
    return new CleanState(connection.isMariadb, database, role === null ? 'NONE' : `\`${role.replaceAll('`', '``')}\``);
  }

  /**
   * Makes the connection as new: COM_RESET_CONNECTION rolls back, drops temporary tables, releases locks and forgets
   * variables and prepared statements (MySQL manual, "mysql_reset_connection()"); what it leaves as it is follows in
   * the same write, so that the whole costs one round trip.
   * @param sql the statement that ran on it
   * @throws DriverError if it failed; the connection is of no more use then
   */
  async restore(connection: Connection, sql: string): Promise<void> {
    if (!mayLeaveSchema.test(sql)) return this.#way.take(connection);
    if (this.#wayToSchema !== null) return this.#wayToSchema.take(connection);
    // There is no command that selects no schema, but a new login does.
    await connection.changeUser();
    return this.#way.take(connection);
  }
}

/**
 * The words without which no statement selects another schema or drops the selected one: stored functions and triggers
 * may do neither. That they may be part of other words costs little.
 */
const mayLeaveSchema = /use|drop|call|execute/i;

/** Commands in one write, each of which must succeed unless it may be refused. */
class WayBack {
  readonly #commands: readonly CleaningCommand[];
  readonly #pipeline: Pipeline;

  constructor(commands: readonly CleaningCommand[]) {
    this.#commands = commands;
    this.#pipeline = new Pipeline(commands);
  }

  async take(connection: Connection): Promise<void> {
    const errors = await connection.pipeline(this.#pipeline);
    for (const [index, error] of errors.entries()) {
      if (error !== null && (this.#commands[index]?.mayBeRefused !== true || isConnectionLost(error))) throw error;
    }
  }
}

type CleaningCommand = PlainCommand & { readonly mayBeRefused?: true };

/**
 * The variables, the active role, and the profiles, which tell the text of earlier statements and are cut to size when
 * one is added. Any of it may be changed inside a stored function, so that no text of a statement is safe.
 * @param role the one that a login makes active, quoted, or NONE
 */
function mariadbLeavings(role: string): CleaningCommand[] {
  const profiles = 'SET profiling = 1, profiling_history_size = 0; SET profiling = 0';
  // One command instead of two: what the database spends on a command is mostly for its arrival and its answer.
  return [{ type: 'query', sql: `BEGIN NOT ATOMIC SET ROLE ${role}; ${profiles}; ${variables}; END` }];
}

/**
 * FOUND_ROWS(), the active roles, and the resource group, which whoever is refused that statement cannot have changed.
 */
const mysqlLeavings: readonly CleaningCommand[] = [
  { type: 'query', sql: 'SELECT 1 LIMIT 0' },
  { type: 'query', sql: 'SET ROLE DEFAULT' },
  { type: 'query', sql: 'SET RESOURCE GROUP USR_default', mayBeRefused: true },
  { type: 'query', sql: variables },
];
