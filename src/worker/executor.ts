import type { Channel } from '../wire/link.ts';
import type { FromWorker, Login, Refusal, ThreadTask, ToldColumns, ToWorker, WorkerLimits } from '../wire/messages.ts';
import type { SpillUsage } from '../wire/spill-usage.ts';
import type { Column } from '../wire/statement.ts';
import { CleanState } from './clean-state.ts';
import { Connection, type ConnectOptions, Pipeline } from './connection.ts';
import { Control } from './control.ts';
import { Execution } from './execution.ts';
import { connectRefusal, type DriverError, databaseRefusal, isConnectionLost, ServerError } from './failures.ts';
import { absorbKill, Kill } from './kill.ts';
import { beginReadOnly, beginReadOnlyAgain, endReadOnly, readOnlyRefusal } from './read-only.ts';
import type { Awaited, Watchdog, Watched } from './watchdog.ts';

/** What a row may lose as JSON: the lengths of its cells, and the leading zeros of its numbers, column by column. */
const rowShrinkMax = 65_535 * 256;

/** Sets of columns that have a number at once. */
const toldColumnsMax = 32;

/** What the executors of a thread share. */
export interface ThreadParts {
  /** Control connections by login. */
  readonly controls: Map<string, Control>;
  readonly watchdog: Watchdog;
  readonly spillUsage: SpillUsage;
}

/**
 * Serves one lease: owns one database connection, runs one statement at a time on it, and tells the main thread through
 * a channel. States: opening, idle, running (from `execute` until `idle` is told, cleaning included), closed. Lives in a
 * worker thread, many to a thread.
 */
export class Executor implements Watched {
  readonly #channel: Channel<FromWorker, ToWorker>;
  readonly #login: Login;
  readonly #limits: WorkerLimits;
  readonly #connectOptions: ConnectOptions;
  readonly #controls: Map<string, Control>;
  readonly #spillUsage: SpillUsage;
  readonly #watchdog: Watchdog;
  #connection: Connection | null = null;
  #openedAt = 0;
  #cleanState: CleanState | null = null;
  /** From `execute` until `idle` is told, cleaning included. */
  #execution: Execution | null = null;
  /** Those that have ended, by their numbers, and whose rows are still on disk. They outlast the connection. */
  readonly #trailing = new Map<number, Execution>();
  #kill: Kill | null = null;
  /** The commands that were sent behind the statement; rejected if one failed. */
  #cleaning: Promise<void> | null = null;
  /** Its statement has not been sent yet: with --read_only, its transaction begins first. */
  #beginning = false;
  /** Runs while the database must answer soon: from a kill, or a statement's end, until the connection is idle. */
  #deadline: NodeJS.Timeout | null = null;
  /** Statements since the connection was as new; the database's counters tell of the first one alone. */
  #statementsSinceReset = 0;
  readonly #toldColumns = new Map<readonly Column[], number>();
  /** The number of the last statement that was taken. */
  #received = 0;
  #closed = false;

  /** @param thread what the executors of a thread share */
  constructor(
    channel: Channel<FromWorker, ToWorker>,
    login: Login,
    { address, limits }: Pick<ThreadTask, 'address' | 'limits'>,
    thread: ThreadParts,
  ) {
    this.#channel = channel;
    this.#login = login;
    this.#limits = limits;
    this.#controls = thread.controls;
    this.#spillUsage = thread.spillUsage;
    this.#watchdog = thread.watchdog;
    this.#connectOptions = {
      address,
      user: login.user,
      password: login.password,
      timeoutMs: limits.connectTimeoutMs,
      rowBytesMax: limits.rowBytesMax + rowShrinkMax,
    };
    channel.on('message', (message) => this.#receive(message));
    channel.on('close', () => {
      this.#close();
      for (const execution of this.#trailing.values()) execution.close();
      this.#trailing.clear();
    });
  }

  /** Opens the connection, and tells the outcome. */
  async open(): Promise<void> {
    try {
      const connection = await Connection.open(this.#connectOptions);
      this.#connection = connection;
      if (this.#closed) {
        connection.close();
        return;
      }
      connection.once('lost', (reason) => this.#lose(reason));
      // The driver's limit ends with the login; a database that falls silent after that would keep its client waiting.
      const timer = setTimeout(() => connection.destroy(), this.#connectOptions.timeoutMs);
      try {
        const database = await this.#enterDatabase(connection);
        if (typeof database === 'object' && database !== null) {
          this.#refuse(database);
          return;
        }
        this.#cleanState = await CleanState.of(connection, database, this.#limits.readOnly);
      } finally {
        clearTimeout(timer);
      }
      this.#openedAt = performance.now();
      this.#watchdog.add(this);
      this.#post({ type: 'opened', connection: connection.id, version: connection.version });
    } catch (error) {
      this.#refuse(connectRefusal(error as DriverError));
    }
  }

  /** What is awaited from the database: the end of a statement, or of the cleaning after it. */
  get awaited(): Awaited | null {
    const connection = this.#connection;
    // Between the two, kills may be awaited on another connection, while this one has nothing to say.
    if (connection === null || this.#execution === null || connection.isIdle) return null;
    const signs = connection.countSigns();
    return signs === null ? null : { connection: connection.id, signs };
  }

  /** The second connection of the same login. */
  get control(): Control {
    return Control.of(this.#controls, this.#connectOptions);
  }

  /** Closes the connection without a word, since nothing is heard from it. */
  giveUp(reason: string): void {
    const connection = this.#connection;
    if (connection === null || this.#closed) return;
    connection.destroy();
    this.#lose(reason);
  }

  /**
   * Selects the schema that every statement of this lease starts in.
   * @returns its name; null if none is selected; a refusal if the one asked for cannot be
   */
  async #enterDatabase(connection: Connection): Promise<string | null | Refusal> {
    const { database } = this.#login;
    const name = database ?? 'default';
    const [error] = await connection.pipeline(new Pipeline([{ type: 'init db', database: name }]));
    if (error === null) return name;
    if (database !== null) return databaseRefusal(error as DriverError);
    // No schema is called so, or the user may not enter it: none is selected, as in the native clients. MariaDB would tell of
    // that in the warnings of the first statement, if none with a table came before (a reset would clear them as well, but
    // lets MariaDB forget that the connection counts for MAX_USER_CONNECTIONS).
    await connection.query('SELECT 1 FROM information_schema.ENGINES WHERE 0');
    return null;
  }

  #receive(message: ToWorker): void {
    switch (message.type) {
      case 'execute':
        this.#execute(message);
        return;
      case 'open':
      case 'ping':
      case 'sweep':
        return;
      case 'close':
        this.#close();
        return;
      case 'credit':
      case 'cancel':
      case 'examine': {
        if (this.#tellTrailing(message)) return;
        const execution = this.#execution;
        // The message may have crossed with the statement's end; the number keeps it off the next one.
        if (execution === null || execution.number !== message.statement) return;
        if (message.type === 'credit') execution.credit(message.bytes, message.rows);
        else if (message.type === 'examine') void this.#examine(execution);
        else if (execution.hasEnded) execution.abandon();
        else this.#stop(execution);
        return;
      }
      default:
        message satisfies never;
    }
  }

  /** @returns whether the message was about a statement that has ended, and whose rows are still on disk */
  #tellTrailing(message: ToWorker & { statement: number }): boolean {
    const execution = this.#trailing.get(message.statement);
    if (execution === undefined) return false;
    if (message.type === 'credit') execution.credit(message.bytes, message.rows);
    if (message.type === 'cancel') {
      execution.close();
      this.#forget(execution);
    }
    return true;
  }

  /** The rows of a statement that has ended are handed over, or lost. */
  #forget(execution: Execution): void {
    if (this.#trailing.delete(execution.number) && this.#closed && this.#trailing.size === 0) this.#channel.close();
  }

  #execute(message: ToWorker & { type: 'execute' }): void {
    // It has crossed with the loss of the connection, which tells that it was not taken.
    if (this.#closed) return;
    const connection = this.#connection;
    if (connection === null || this.#execution !== null) {
      throw new Error('execute came while the connection was not idle');
    }
    const execution: Execution = new Execution(message, {
      rowBytesMax: this.#limits.rowBytesMax,
      spill: this.#limits.spill,
      spillUsage: this.#spillUsage,
      post: (news, transfer) => this.#post(news, transfer),
      toldAs: (columns) => this.#toldAs(columns),
      pause: () => connection.pause(),
      resume: () => connection.resume(),
      stop: () => this.#stop(execution),
      ended: (error) => this.#ended(connection, execution, error),
      delivered: () => this.#forget(execution),
    });
    this.#execution = execution;
    this.#received = message.statement;
    this.#statementsSinceReset++;
    if (this.#limits.readOnly) void this.#beginReadOnly(connection, execution);
    else this.#send(connection, execution);
  }

  /** Sends a statement when its read-only transaction is known to have begun; if that fails, not at all. */
  async #beginReadOnly(connection: Connection, execution: Execution): Promise<void> {
    const refusal = readOnlyRefusal(execution.sql);
    if (refusal !== null) {
      execution.notSent(refusal);
      return;
    }
    this.#beginning = true;
    const begin = execution.clean ? beginReadOnly : beginReadOnlyAgain;
    let failure: DriverError | null = null;
    try {
      begin.check(await connection.pipeline(begin.pipeline));
    } catch (error) {
      failure = error as DriverError;
    }
    if (this.#closed) return;
    this.#beginning = false;
    // What was cancelled meanwhile is not sent any more; nobody asks how it failed.
    if (this.#kill !== null) failure ??= new ServerError(1317, '70100', 'Query execution was interrupted');
    if (failure !== null) execution.notSent(failure);
    else this.#send(connection, execution);
  }

  #send(connection: Connection, execution: Execution): void {
    const endOfKept = this.#limits.readOnly ? endReadOnly : null;
    const wayBack = execution.clean ? (this.#cleanState?.wayBack(execution.sql) ?? null) : endOfKept;
    if (wayBack === null) {
      connection.execute(execution.sql, execution);
      return;
    }
    // In one write with the statement: to wake the database costs it more than to run these.
    this.#cleaning = connection
      .executeAndThen(execution.sql, execution, wayBack.pipeline)
      .then((errors) => wayBack.check(errors));
    // Whoever waits for it learns of a failure; if nobody does, the connection is gone.
    this.#cleaning.catch(() => {});
  }

  #ended(connection: Connection, execution: Execution, error: DriverError | null): void {
    if (this.#closed) return;
    if (error !== null && isConnectionLost(error)) {
      connection.destroy();
      this.#lose(error.message);
      return;
    }
    this.#kill?.enough();
    // After all that has come with the end: mostly the answers to the cleaning too.
    queueMicrotask(() => void this.#becomeIdle(connection, execution));
  }

  /** Ends the statement in the database. */
  #stop(execution: Execution): void {
    execution.abandon();
    this.#expect('a killed statement did not end');
    if (this.#connection !== null) {
      this.#kill ??= new Kill(
        () => this.control,
        this.#connection,
        () => this.#closed,
      );
    }
  }

  /** Gives the connection up if it is not idle in time. */
  #expect(failure: string): void {
    const { killTimeoutMs } = this.#limits;
    this.#deadline ??= setTimeout(() => this.giveUp(`${failure} within ${killTimeoutMs} ms`), killTimeoutMs);
  }

  async #examine(execution: Execution): Promise<void> {
    const connection = this.#connection;
    if (connection === null || execution.hasEnded) return;
    if (!connection.isMariadb && this.#statementsSinceReset > 1) return;
    const rows = await this.control.examined(connection.id);
    if (rows !== null && !execution.hasEnded) this.#post({ type: 'examined', statement: execution.number, rows });
  }

  async #becomeIdle(connection: Connection, execution: Execution): Promise<void> {
    // If nothing is left to be done, that is told with the end; else the end is not to wait for it.
    if (!connection.isIdle || !this.#isRestored(execution)) {
      execution.tellEnd(false);
      this.#expect('it was not made ready for the next statement');
    }
    try {
      await this.#restore(connection, execution);
    } catch (error) {
      if (this.#closed) return;
      connection.destroy();
      this.#lose(`it could not be made ready for the next statement: ${(error as Error).message}`);
      return;
    }
    if (this.#closed) return;
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#deadline = null;
    this.#execution = null;
    this.#kill = null;
    this.#cleaning = null;
    if (!execution.tellEnd(true)) this.#post({ type: 'idle' });
    if (execution.hasRowsToCome) this.#trailing.set(execution.number, execution);
  }

  /** Brings the connection to where the next statement may run on it. */
  async #restore(connection: Connection, execution: Execution): Promise<void> {
    const isKilled = this.#kill !== null;
    await this.#kill?.past;
    if (!execution.clean) {
      if (isKilled) await absorbKill(connection);
      if (this.#limits.readOnly) await this.#endReadOnly(connection);
      // Not without need: a statement of ours is the last one to which ROW_COUNT() and SHOW WARNINGS refer.
      if (execution.leftUtf8) await connection.query('SET NAMES utf8mb4');
      return;
    }
    // A kill may have come late and hit the cleaning.
    if (isKilled) await this.#cleaning?.catch(() => {});
    else await this.#cleaning;
    if (!this.#isRestored(execution)) await this.#cleanState?.restore(connection, execution.sql);
    this.#statementsSinceReset = 0;
  }

  /** Ends the transaction of a statement in a kept session, if what was sent behind the statement has not. */
  async #endReadOnly(connection: Connection): Promise<void> {
    const hasEnded = this.#cleaning !== null && (await this.#cleaning.then(() => true).catch(() => false));
    if (!hasEnded) endReadOnly.check(await connection.pipeline(endReadOnly.pipeline));
  }

  /** Whether the commands that were sent with the statement, once they are run, leave nothing to be done. */
  #isRestored(execution: Execution): boolean {
    if (this.#kill !== null) return false;
    if (!execution.clean) return !execution.leftUtf8 && (!this.#limits.readOnly || this.#cleaning !== null);
    return this.#cleaning !== null && this.#cleanState?.isRestoredByWayBack(execution.sessionChanged) === true;
  }

  #post(message: FromWorker, transfer?: ArrayBuffer): void {
    this.#channel.post(message, transfer);
  }

  #toldAs(columns: readonly Column[]): ToldColumns {
    const told = this.#toldColumns.get(columns);
    if (told !== undefined) return { number: told };
    // The numbers begin anew, and with them what they stand for.
    if (this.#toldColumns.size >= toldColumnsMax) this.#toldColumns.clear();
    const number = this.#toldColumns.size;
    this.#toldColumns.set(columns, number);
    return { number, columns };
  }

  #refuse(refusal: Refusal): void {
    this.#post({ type: 'refused', refusal });
    this.#connection?.destroy();
    this.#finish();
  }

  #lose(reason: string): void {
    const execution = this.#execution;
    if (execution?.hasEnded) execution.tellEnd(false);
    else execution?.lost(reason, !this.#beginning);
    const hasRowsToCome = execution?.hasRowsToCome === true;
    const mayRunOn = execution !== null;
    this.#post({ type: 'lost', reason, received: this.#received, hasRowsToCome, mayRunOn });
    this.#finish();
    if (mayRunOn) void this.#endInDatabase();
  }

  /** Tries to end what runs on, if the database still listens. If that fails, the main thread sees to it. */
  async #endInDatabase(): Promise<void> {
    if (this.#connection === null) return;
    const openedMs = performance.now() - this.#openedAt;
    const orphan = { id: this.#connection.id, user: this.#connectOptions.user, openedMs, lostMs: 0 };
    await this.control.sweep([orphan]).catch(() => {});
  }

  /** The main thread is done with the connection. */
  #close(): void {
    if (this.#closed) return;
    // A connection in the midst of a statement cannot say goodbye.
    if (this.#execution === null) this.#connection?.close();
    else this.#connection?.destroy();
    this.#finish();
  }

  #finish(): void {
    this.#closed = true;
    this.#watchdog.remove(this);
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#kill?.enough();
    const execution = this.#execution;
    this.#execution = null;
    if (execution?.hasRowsToCome) this.#trailing.set(execution.number, execution);
    else execution?.close();
    // What is on disk is read without the database.
    if (this.#trailing.size === 0) this.#channel.close();
  }
}
