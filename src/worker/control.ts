import { Connection, type ConnectOptions } from './connection.ts';

/** Long enough to serve a burst of kills, short enough not to hold a connection that nobody needs. */
const idleMs = 5_000;

/**
 * A second connection of the same user, on which the statements of others are watched and stopped. It is opened when
 * first needed and closed when idle; one serves all connections of that user in a thread.
 */
export class Control {
  readonly #options: ConnectOptions;
  #connection: Promise<Connection> | null = null;
  #idleTimer: NodeJS.Timeout | null = null;
  #inUse = 0;
  #mayExamine = true;

  constructor(options: ConnectOptions) {
    this.#options = options;
  }

  /**
   * Stops the statement that connection `id` runs, if it runs one (MySQL manual, "KILL Statement").
   * @throws DriverError
   */
  async kill(id: number): Promise<void> {
    await this.#use((connection) => connection.query(`KILL QUERY ${id}`));
  }

  /** The database's count of rows examined by the statement of connection `id`, or null where it gives none. */
  async examined(id: number): Promise<number | null> {
    if (!this.#mayExamine) return null;
    try {
      const rows = await this.#use((connection) =>
        connection.query(connection.isMariadb ? mariadbExamined(id) : mysqlExamined(id)),
      );
      const count = rows[0]?.[0] ?? null;
      return count === null ? null : Number(count);
    } catch {
      // Without the privilege to look, it is no use to ask again; without a connection, progress can wait.
      this.#mayExamine = this.#connection === null;
      return null;
    }
  }

  close(): void {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
    const connection = this.#connection;
    this.#connection = null;
    connection?.then(
      (open) => open.close(),
      () => {},
    );
  }

  async #use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    this.#inUse++;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#connection ??= this.#open();
    const connection = this.#connection;
    // One that no longer answers would hold up every later kill behind this one.
    const patience = setTimeout(() => this.#drop(connection), this.#options.timeoutMs);
    try {
      return await work(await connection);
    } finally {
      clearTimeout(patience);
      this.#inUse--;
      if (this.#inUse === 0) this.#idleTimer = setTimeout(() => this.close(), idleMs);
    }
  }

  #drop(connection: Promise<Connection>): void {
    if (this.#connection === connection) this.#connection = null;
    connection.then(
      (open) => open.destroy(),
      () => {},
    );
  }

  async #open(): Promise<Connection> {
    try {
      const connection = await Connection.open(this.#options);
      connection.once('lost', () => {
        this.#connection = null;
      });
      return connection;
    } catch (error) {
      this.#connection = null;
      throw error;
    }
  }
}

/** MariaDB counts while UPDATE, DELETE and the like run (MariaDB manual, "Information Schema PROCESSLIST Table"). */
function mariadbExamined(id: number): string {
  return `SELECT EXAMINED_ROWS FROM information_schema.PROCESSLIST WHERE ID = ${id}`;
}

/**
 * MySQL fills ROWS_EXAMINED only when a statement has ended, but the handler counters of a thread move while it runs
 * (MySQL manual, "Performance Schema Status Variable Tables").
 */
function mysqlExamined(id: number): string {
  return (
    'SELECT CAST(SUM(s.VARIABLE_VALUE) AS UNSIGNED) FROM performance_schema.status_by_thread s' +
    ' JOIN performance_schema.threads t USING (THREAD_ID)' +
    ` WHERE t.PROCESSLIST_ID = ${id} AND s.VARIABLE_NAME LIKE 'Handler\\_read%'`
  );
}
