import { type Connection, Pipeline, type PlainCommand } from './connection.ts';
import { type DriverError, isConnectionLost } from './failures.ts';

/** In seconds. The subquery without rows makes MariaDB's FOUND_ROWS() 0, which a reset leaves as it is. */
const aDay = 'COALESCE((SELECT 1 FROM DUAL WHERE 0), 86400)';

/** What the database is to tell of when a statement has changed it ("Session State Information"). */
const tracked = 'autocommit,character_set_client,character_set_connection,character_set_results,time_zone';
/** MariaDB's profiles are of interest only if profiling was on. */
const trackedByMariadb = `${tracked},profiling`;

/**
 * Text in utf8mb4, and a database that waits for a reader as long as we do (`net_write_timeout` would end a result
 * whose reader stalls for 60 s).
 */
function variables(isMariadb: boolean): string {
  return (
    `SET NAMES utf8mb4, net_write_timeout = 86400, wait_timeout = ${aDay},` +
    ` session_track_system_variables = '${isMariadb ? trackedByMariadb : tracked}'`
  );
}

/**
 * The state in which every one-off statement finds its connection, and every session begins: that of a fresh login,
 * with the schema selected and our variables set.
 */
export class CleanState {
  readonly #way: WayBack;
  /** The same, with the schema selected anew; null if there is none. */
  readonly #wayToSchema: WayBack | null;
  readonly #isMariadb: boolean;

  private constructor(isMariadb: boolean, database: string | null, role: string) {
    const reset: CleaningCommand = { type: 'reset connection' };
    const leavings = isMariadb ? mariadbLeavings(role) : mysqlLeavings;
    this.#isMariadb = isMariadb;
    this.#way = new WayBack([reset, ...leavings]);
    this.#wayToSchema = database === null ? null : new WayBack([reset, { type: 'init db', database }, ...leavings]);
  }

  /**
   * Brings a connection that has just been opened to the state, and notes what leads back to it.
   * @param database the schema that is selected already, or null for none
   * @throws DriverError
   */
  static async of(connection: Connection, database: string | null): Promise<CleanState> {
    const { isMariadb } = connection;
    let role: string | null = null;
    if (isMariadb) role = (await connection.query('SELECT CURRENT_ROLE()'))[0]?.[0] ?? null;
    await connection.query(variables(isMariadb));
    return new CleanState(isMariadb, database, role === null ? 'NONE' : `\`${role.replaceAll('`', '``')}\``);
  }

  /**
   * Makes the connection as new: COM_RESET_CONNECTION rolls back, drops temporary tables, releases locks and forgets
   * variables and prepared statements (MySQL manual, "mysql_reset_connection()"); what it leaves as it is follows in
   * the same write, so that the whole costs one round trip.
   * @param sql the statement that ran on it
   * @throws DriverError if it failed; the connection is of no more use then
   */
  async restore(connection: Connection, sql: string): Promise<void> {
    const wayBack = this.wayBack(sql);
    // There is no command that selects no schema, but a new login does.
    if (wayBack === null) await connection.changeUser();
    if (this.#isMariadb) forgetProfiles.check(await connection.pipeline(forgetProfiles.pipeline));
    const way = wayBack ?? this.#way;
    way.check(await connection.pipeline(way.pipeline));
  }

  /**
   * The commands that do the same, to be sent right behind the statement.
   * @returns null if no commands can
   */
  wayBack(sql: string): WayBack | null {
    return mayLeaveSchema.test(sql) ? this.#wayToSchema : this.#way;
  }

  /**
   * Whether those commands were enough.
   * @param sessionChanged whether the statement may have changed a variable that is tracked
   */
  isRestoredByWayBack(sessionChanged: boolean): boolean {
    return !(this.#isMariadb && sessionChanged);
  }
}

/**
 * The words without which no statement selects another schema or drops the selected one: stored functions and triggers
 * may do neither. That they may be part of other words costs little.
 */
const mayLeaveSchema = /use|drop|call|execute/i;

/** Commands for one write, each of which must succeed unless it may be refused. */
class WayBack {
  readonly pipeline: Pipeline;
  readonly #commands: readonly CleaningCommand[];

  constructor(commands: readonly CleaningCommand[]) {
    this.#commands = commands;
    this.pipeline = new Pipeline(commands);
  }

  /**
   * @param errors what became of each command
   * @throws DriverError if one failed that must not
   */
  check(errors: readonly (DriverError | null)[]): void {
    for (const [index, error] of errors.entries()) {
      if (error !== null && (this.#commands[index]?.mayBeRefused !== true || isConnectionLost(error))) throw error;
    }
  }
}

type CleaningCommand = PlainCommand & { readonly mayBeRefused?: true };

/**
 * Profiles tell the text of earlier statements. They are cut to size at the end of a statement that began with profiling
 * on; and that makes statements so slow that it is done only if profiling may have been on before.
 */
const forgetProfiles = new WayBack([
  { type: 'query', sql: 'SET profiling = 1, profiling_history_size = 0' },
  { type: 'query', sql: 'SET profiling = 0' },
]);

/**
 * The active role. It may be changed inside a stored function, so that no text of a statement is safe.
 * @param role the one that a login makes active, quoted, or NONE
 */
function mariadbLeavings(role: string): CleaningCommand[] {
  return [
    { type: 'query', sql: `SET ROLE ${role}` },
    { type: 'query', sql: variables(true) },
  ];
}

/**
 * FOUND_ROWS(), the active roles, and the resource group, which whoever is refused that statement cannot have changed.
 */
const mysqlLeavings: readonly CleaningCommand[] = [
  { type: 'query', sql: 'SELECT 1 LIMIT 0' },
  { type: 'query', sql: 'SET ROLE DEFAULT' },
  { type: 'query', sql: 'SET RESOURCE GROUP USR_default', mayBeRefused: true },
  { type: 'query', sql: variables(false) },
];
