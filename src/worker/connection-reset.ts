import { mayChangeSchema, type SqlText } from '../wire/sql-traits.ts';
import { type CheckedCommand, CheckedPipeline } from './checked-pipeline.ts';
import type { Connection } from './connection.ts';

/** Text in utf8mb4. `net_write_timeout` would end a result whose reader stalls for 60 s. */
const variables = 'SET NAMES utf8mb4, net_write_timeout = 86400, wait_timeout = 86400';

/** Both servers accept this form; the name of the variable differs between them. */
export const readOnlySession = 'SET SESSION TRANSACTION READ ONLY';

/**
 * Makes a connection clean, as every one-off statement and every new session finds it: the state of a fresh login, with the
 * schema selected and our variables set.
 */
export class ConnectionReset {
  /** The schema of a clean connection; null if none is selected. */
  readonly database: string | null;
  /**
   * The server has run `init_connect` at the login. Neither COM_RESET_CONNECTION nor COM_CHANGE_USER runs it again, so the
   * connection cannot be made clean: it serves one statement, or one session, and is closed.
   */
  readonly hasInitConnectRun: boolean;
  readonly #reset: CheckedPipeline;
  /** Also selects the schema; null if there is none. */
  readonly #resetWithSchema: CheckedPipeline | null;
  /** MySQL: COM_RESET_CONNECTION leaves a `collation_database` other than the schema's, and only selecting the schema sets it. */
  readonly #mustSelectSchema: boolean;
  /**
   * Runs before the reset in `run`, null if there is none. The pipeline after a statement leaves it out, so that
   * `isCleanAfterPipeline` checks whether it was needed.
   */
  readonly #mariadbResidueReset: CheckedPipeline | null;

  private constructor(
    database: string | null,
    hasInitConnectRun: boolean,
    mustSelectSchema: boolean,
    after: readonly CheckedCommand[],
    residueReset: CheckedPipeline | null,
  ) {
    this.database = database;
    this.hasInitConnectRun = hasInitConnectRun;
    this.#mustSelectSchema = mustSelectSchema;
    this.#reset = new CheckedPipeline([reset, ...after]);
    this.#resetWithSchema =
      database === null ? null : new CheckedPipeline([reset, { type: 'init db', database }, ...after]);
    this.#mariadbResidueReset = residueReset;
  }

  /**
   * Cleans a new connection and builds the commands for later resets.
   * @param database the schema that is selected; null for none
   * @param readOnly whether transactions are read-only by default
   * @throws DriverError
   */
  static async prepare(connection: Connection, database: string | null, readOnly = false): Promise<ConnectionReset> {
    const { isMariadb } = connection;
    const also: readonly CheckedCommand[] = readOnly ? [{ type: 'query', sql: readOnlySession }] : [];
    const prepare = new CheckedPipeline([...(isMariadb ? mariadbPreparation : mysqlPreparation), ...also]);
    const loginStateQuery = isMariadb ? mariadbLoginStateQuery : mysqlLoginStateQuery;
    // Sent in the same write, so that it costs no extra round trip.
    const [login] = await connection.together(() =>
      Promise.all([connection.query(loginStateQuery), prepare.run(connection)]),
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
    // COM_RESET_CONNECTION sets `collation_database` to the server's default, not to the schema's. LOAD DATA reads files in it.
    const isCollationLost = schemaCollation !== resetCollation;
    let hasInitConnectRun = false;
    if (isInitConnectSet === '1') {
      hasInitConnectRun = !(await skipsInitConnect(connection));
      // The query for the privilege sets FOUND_ROWS() to 1.
      await prepare.run(connection);
      // `prepare` has overwritten the collation that init_connect had set.
      if (hasInitConnectRun && collation !== loginCollation && /^utf8mb4_\w+$/.test(collation)) {
        await connection.query(`SET collation_connection = ${collation}`);
      }
    }
    if (isMariadb) {
      // MariaDB lets every user set the variable, which costs less than selecting the schema.
      const schema = isCollationLost ? `, collation_database = ${schemaCollation}` : '';
      // COM_RESET_CONNECTION drops the account's own limit too (MariaDB manual, "GRANT", "MAX_STATEMENT_TIME").
      const account = maxTime === resetMaxTime ? '' : `, max_statement_time = ${maxTime}`;
      const sql = `${mariadbVariables}${schema}${account}`;
      const after: readonly CheckedCommand[] = [{ type: 'query', sql }, ...also];
      return new ConnectionReset(database, hasInitConnectRun, false, after, mariadbResidueReset(roles));
    }
    const after = [...mysqlResidueReset(roles === '1'), ...also];
    return new ConnectionReset(database, hasInitConnectRun, isCollationLost, after, null);
  }

  /**
   * Makes the connection clean. COM_RESET_CONNECTION rolls back, drops temporary tables, releases locks and clears variables
   * and prepared statements (MySQL manual, "mysql_reset_connection()"). The commands for the rest follow in the same write, so
   * the reset costs one round trip.
   * @param text of the only statement since the connection was clean; null if there were several
   * @throws DriverError if it failed; the connection must be closed then
   */
  async run(connection: Connection, text: SqlText | null): Promise<void> {
    const pipeline = text === null ? this.#resetWithSchema : this.pipelineAfter(text);
    // No command deselects the schema; COM_CHANGE_USER, a new login, does.
    if (pipeline === null) await connection.changeUser();
    for (const step of [this.#mariadbResidueReset, pipeline ?? this.#reset]) {
      if (step !== null) await step.run(connection);
    }
  }

  /**
   * The commands that make the connection clean after most statements, to be sent in one write with the statement.
   * @returns null if only a new login makes it clean, because no command deselects a schema
   */
  pipelineAfter({ sql, traits }: SqlText): CheckedPipeline | null {
    const selectsSchema = this.#mustSelectSchema || (traits?.mayChangeSchema ?? mayChangeSchema(sql));
    return selectsSchema ? this.#resetWithSchema : this.#reset;
  }

  /**
   * Whether the commands of `pipelineAfter` have made the connection clean.
   * @param sessionChanged whether the statement may have changed its session in a way that the database reports
   */
  isCleanAfterPipeline(sessionChanged: boolean): boolean {
    return this.#mariadbResidueReset === null || !sessionChanged;
  }
}

const reset: CheckedCommand = { type: 'reset connection' };

/**
 * With `session_track_state_change`, the end of a statement reports whether it changed a variable or the role, also in a stored
 * function (MariaDB manual, "Session Tracker"); with `session_track_system_variables`, the new value too. Each tracker reports
 * when the other is disabled. MariaDB parses a list of names several times slower than the star. The subquery without rows
 * sets FOUND_ROWS() to 0; COM_RESET_CONNECTION does not.
 */
const mariadbVariables = `${variables}, session_track_state_change = COALESCE((SELECT 1 FROM DUAL WHERE 0), 1), session_track_system_variables = '*'`;

/**
 * Resets the active role, and drops the profiles, which show the text of earlier statements. MariaDB trims the profiles at the
 * end of a statement that began with profiling on. This takes several times as long as most statements, so it runs only if the
 * session changed.
 * @param role the role that a login activates; null if none
 */
function mariadbResidueReset(role: string | null): CheckedPipeline {
  const name = role === null ? 'NONE' : `\`${role.replaceAll('`', '``')}\``;
  return new CheckedPipeline([
    { type: 'query', sql: `SET ROLE ${name}` },
    { type: 'query', sql: 'SET profiling = 1, profiling_history_size = 0' },
    { type: 'query', sql: 'SET profiling = 0' },
  ]);
}

/** An empty result sets FOUND_ROWS() to 0; COM_RESET_CONNECTION does not. */
const noFoundRows: CheckedCommand = { type: 'query', sql: 'SELECT 1 LIMIT 0' };

const mysqlPreparation: readonly CheckedCommand[] = [noFoundRows, { type: 'query', sql: variables }];
const mariadbPreparation: readonly CheckedCommand[] = [{ type: 'query', sql: mariadbVariables }];

/**
 * Resets FOUND_ROWS(), the active roles and the resource group. A user who may not set the resource group cannot have changed
 * it. Setting optimizer_trace_offset drops the optimizer traces (MySQL manual, "Tracing the Optimizer").
 * @param allRoles whether a login activates all granted roles
 */
function mysqlResidueReset(allRoles: boolean): readonly CheckedCommand[] {
  return [
    noFoundRows,
    { type: 'query', sql: `SET ROLE ${allRoles ? 'ALL' : 'DEFAULT'}` },
    { type: 'query', sql: 'SET RESOURCE GROUP USR_default', mayBeRefused: true },
    { type: 'query', sql: `${variables}, optimizer_trace_offset = DEFAULT` },
  ];
}

/** The collation that the driver requests at the login. */
const loginCollation = 'utf8mb4_general_ci';

/**
 * Whether init_connect is set, the collations after the login and after a reset, the roles, and for MariaDB the time limit after
 * the login and after a reset.
 */
const question =
  "SELECT @@GLOBAL.init_connect <> '', @@collation_connection, @@collation_database, @@GLOBAL.collation_database, ";
const mariadbLoginStateQuery = `${question}CURRENT_ROLE(), @@max_statement_time, @@GLOBAL.max_statement_time`;
const mysqlLoginStateQuery = `${question}@@GLOBAL.activate_all_roles_on_login`;

/**
 * Whether the user has the privilege that exempts from `init_connect`. A privilege granted through a role is not found; the
 * connection is then not reused, though it could be.
 * @throws DriverError
 */
async function skipsInitConnect(connection: Connection): Promise<boolean> {
  // MariaDB up to 10.11 accepts SUPER too, MariaDB 11.0 does not.
  const privileges = connection.isMariadb ? "'CONNECTION ADMIN'" : "'CONNECTION_ADMIN', 'SUPER'";
  const [[count] = []] = await connection.query(ownPrivilegesQuery(privileges));
  return Number(count) > 0;
}

/**
 * A query that counts the user's own privileges of a list. It means the same in every sql_mode, which init_connect may have set.
 * @param list global privileges, as SQL strings, comma-separated
 */
export function ownPrivilegesQuery(list: string): string {
  return (
    `SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE IN (${list})` +
    ` AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')`
  );
}
