import { mayLeaveSchema, type SqlText } from '../wire/sql-traits.ts';
import { Pipeline, type PlainCommand } from './commands.ts';
import type { Connection } from './connection.ts';
import { type DriverError, isConnectionLost } from './failures.ts';
import type { Ending } from './packets.ts';

/**
 * Text in utf8mb4, and a database that waits for a reader as long as we do (`net_write_timeout` would end a result
 * whose reader stalls for 60 s).
 */
const variables = 'SET NAMES utf8mb4, net_write_timeout = 86400, wait_timeout = 86400';

/** Of both servers, whatever they call the variable. */
export const readOnlySession = 'SET SESSION TRANSACTION READ ONLY';

/**
 * The state in which every one-off statement finds its connection, and every session begins: that of a fresh login,
 * with the schema selected and our variables set.
 */
export class CleanState {
  /** The schema that is selected; null if none is. */
  readonly database: string | null;
  /**
   * The server has run `init_connect` at the login. Neither COM_RESET_CONNECTION nor COM_CHANGE_USER runs it again, so the
   * connection cannot be restored: it serves one statement, or one session, and is closed.
   */
  readonly hasInitConnectRun: boolean;
  readonly #way: WayBack;
  /** The same, with the schema selected anew; null if there is none. */
  readonly #wayToSchema: WayBack | null;
  /** MySQL, if a reset has left another `collation_database` than the schema's: only to select the schema sets it. */
  readonly #mustSelectSchema: boolean;
  /** What comes before either if the statement may have changed its session; null if nothing does. */
  readonly #wayAfterChange: WayBack | null;

  private constructor(
    database: string | null,
    hasInitConnectRun: boolean,
    mustSelectSchema: boolean,
    after: readonly CleaningCommand[],
    afterChange: WayBack | null,
  ) {
    this.database = database;
    this.hasInitConnectRun = hasInitConnectRun;
    this.#mustSelectSchema = mustSelectSchema;
    this.#way = new WayBack([reset, ...after]);
    this.#wayToSchema = database === null ? null : new WayBack([reset, { type: 'init db', database }, ...after]);
    this.#wayAfterChange = afterChange;
  }

  /**
   * Brings a connection that has just been opened to the state, and notes what leads back to it.
   * @param database the schema that is selected already, or null for none
   * @param readOnly whether transactions are to be read-only unless they say otherwise
   * @throws DriverError
   */
  static async of(connection: Connection, database: string | null, readOnly = false): Promise<CleanState> {
    const { isMariadb } = connection;
    const also: readonly CleaningCommand[] = readOnly ? [{ type: 'query', sql: readOnlySession }] : [];
    const prepare = new WayBack([...(isMariadb ? mariadbPreparation : mysqlPreparation), ...also]);
    const loginQuestion = isMariadb ? mariadbQuestion : mysqlQuestion;
    // The question goes out in the same write, so that it costs no round trip.
    const [login] = await connection.together(() =>
      Promise.all([connection.query(loginQuestion), prepare.run(connection)]),
    );
    const [isInitConnectSet, collation, schemaCollation, resetCollation, roles, maxTime, resetMaxTime] = login[0] as [
      string | null,
      string,
      string,
      string,
      string | null,
      string?,
      string?,
    ];
    // A reset sets `collation_database` to the server's default, not to the schema's. LOAD DATA reads files in that character set.
    const isCollationLost = schemaCollation !== resetCollation;
    let hasInitConnectRun = false;
    if (isInitConnectSet === '1') {
      hasInitConnectRun = !(await skipsInitConnect(connection));
      // The question leaves FOUND_ROWS() at 1.
      await prepare.run(connection);
      if (hasInitConnectRun && collation !== loginCollation && /^utf8mb4_\w+$/.test(collation)) {
        await connection.query(`SET collation_connection = ${collation}`);
      }
    }
    if (isMariadb) {
      // MariaDB lets everybody set it, which costs less than to select the schema.
      const schema = isCollationLost ? `, collation_database = ${schemaCollation}` : '';
      // A reset forgets the account's own limit, too (MariaDB manual, "GRANT", "MAX_STATEMENT_TIME").
      const account = maxTime === resetMaxTime ? '' : `, max_statement_time = ${maxTime}`;
      const sql = `${mariadbVariables}${schema}${account}`;
      const after: readonly CleaningCommand[] = [{ type: 'query', sql }, ...also];
      return new CleanState(database, hasInitConnectRun, false, after, mariadbLeavings(roles));
    }
    const after = [...mysqlLeavings(roles === '1'), ...also];
    return new CleanState(database, hasInitConnectRun, isCollationLost, after, null);
  }

  /**
   * Makes the connection as new: COM_RESET_CONNECTION rolls back, drops temporary tables, releases locks and forgets
   * variables and prepared statements (MySQL manual, "mysql_reset_connection()"); what it leaves as it is follows in
   * the same write, so that the whole costs one round trip.
   * @param text of the statement that ran on it; null if there were several
   * @throws DriverError if it failed; the connection is of no more use then
   */
  async restore(connection: Connection, text: SqlText | null): Promise<void> {
    const wayBack = text === null ? this.#wayToSchema : this.wayBack(text);
    // There is no command that selects no schema, but a new login does.
    if (wayBack === null) await connection.changeUser();
    for (const way of [this.#wayAfterChange, wayBack ?? this.#way]) {
      if (way !== null) await way.run(connection);
    }
  }

  /**
   * The commands that mostly do the same, to be sent right behind the statement.
   * @returns null if no commands can
   */
  wayBack({ sql, traits }: SqlText): WayBack | null {
    const selectsSchema = this.#mustSelectSchema || (traits?.mayLeaveSchema ?? mayLeaveSchema(sql));
    return selectsSchema ? this.#wayToSchema : this.#way;
  }

  /**
   * Whether those commands were enough.
   * @param sessionChanged whether the statement may have changed its session in a way that the database tells of
   */
  isRestoredByWayBack(sessionChanged: boolean): boolean {
    return this.#wayAfterChange === null || !sessionChanged;
  }
}

/** Commands for one write, each of which must succeed unless it may be refused. */
export class WayBack {
  readonly pipeline: Pipeline;
  readonly #commands: readonly CleaningCommand[];

  constructor(commands: readonly CleaningCommand[]) {
    this.#commands = commands;
    this.pipeline = new Pipeline(commands);
  }

  /**
   * @param told is given the ends of the commands
   * @throws DriverError if one failed that must not
   */
  async run(connection: Connection, told: ((ending: Ending) => void) | null = null): Promise<void> {
    this.check(await connection.pipeline(this.pipeline, told));
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

const reset: CleaningCommand = { type: 'reset connection' };

/**
 * With `session_track_state_change`, the end of a statement tells if a variable or the role was changed by it, be it in a
 * stored function (MariaDB manual, "Session Tracker"); with the other, also to what. Whoever turns one of them off is noticed
 * by the other, of which a list of names would take the database several times as long to read as the star does.
 * The subquery without rows makes FOUND_ROWS() 0, which a reset leaves as it is.
 */
const mariadbVariables = `${variables}, session_track_state_change = COALESCE((SELECT 1 FROM DUAL WHERE 0), 1), session_track_system_variables = '*'`;

/**
 * The active role, and the profiles, which tell the text of earlier statements. They are cut to size at the end of a
 * statement that began with profiling on. That makes a statement several times as slow, so it is not done without need.
 * @param role the one that a login makes active
 */
function mariadbLeavings(role: string | null): WayBack {
  const name = role === null ? 'NONE' : `\`${role.replaceAll('`', '``')}\``;
  return new WayBack([
    { type: 'query', sql: `SET ROLE ${name}` },
    { type: 'query', sql: 'SET profiling = 1, profiling_history_size = 0' },
    { type: 'query', sql: 'SET profiling = 0' },
  ]);
}

/** SELECT with an empty result: it sets FOUND_ROWS() to 0, which a reset leaves as it is. */
const noFoundRows: CleaningCommand = { type: 'query', sql: 'SELECT 1 LIMIT 0' };

const mysqlPreparation: readonly CleaningCommand[] = [noFoundRows, { type: 'query', sql: variables }];
const mariadbPreparation: readonly CleaningCommand[] = [{ type: 'query', sql: mariadbVariables }];

/**
 * FOUND_ROWS(), the active roles, and the resource group; a user who may not set the resource group cannot have changed it.
 * MySQL keeps optimizer traces until optimizer_trace_offset or optimizer_trace_limit is set (MySQL manual, "Tracing the
 * Optimizer"): setting the offset drops them.
 * @param allRoles whether a login activates all roles that were granted
 */
function mysqlLeavings(allRoles: boolean): readonly CleaningCommand[] {
  return [
    noFoundRows,
    { type: 'query', sql: `SET ROLE ${allRoles ? 'ALL' : 'DEFAULT'}` },
    { type: 'query', sql: 'SET RESOURCE GROUP USR_default', mayBeRefused: true },
    { type: 'query', sql: `${variables}, optimizer_trace_offset = DEFAULT` },
  ];
}

/** The collation that the driver asks for at the login. */
const loginCollation = 'utf8mb4_general_ci';

/**
 * Whether init_connect is set, the collations after the login and after a reset, what is known of the roles, and of MariaDB the time
 * limit after the login and after a reset.
 */
const question =
  "SELECT @@GLOBAL.init_connect <> '', @@collation_connection, @@collation_database, @@GLOBAL.collation_database, ";
const mariadbQuestion = `${question}CURRENT_ROLE(), @@max_statement_time, @@GLOBAL.max_statement_time`;
const mysqlQuestion = `${question}@@GLOBAL.activate_all_roles_on_login`;

/**
 * Whether the user has the privilege that exempts from `init_connect`. One that comes with a role is not seen: the
 * connection is then not reused, though it could be.
 * @throws DriverError
 */
async function skipsInitConnect(connection: Connection): Promise<boolean> {
  // MariaDB up to 10.11 accepts SUPER too, MariaDB 11.0 does not.
  const privileges = connection.isMariadb ? "'CONNECTION ADMIN'" : "'CONNECTION_ADMIN', 'SUPER'";
  const [[count] = []] = await connection.query(countOwnPrivileges(privileges));
  return Number(count) > 0;
}

/**
 * The query text means the same in every sql_mode, which init_connect may have set.
 * @param list of global privileges, as SQL strings
 */
export function countOwnPrivileges(list: string): string {
  return (
    `SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN (${list})` +
    ` AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')`
  );
}
