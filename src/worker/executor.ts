import type { Channel } from '../wire/link.ts';
import type { FromWorker, Login, Refusal, ThreadTask, ToldColumns, ToWorker, WorkerLimits } from '../wire/messages.ts';
import type { SpillUsage } from '../wire/spill-usage.ts';
import { type Column, columnsBytes } from '../wire/statement.ts';
import { CleanState } from './clean-state.ts';
import { Pipeline } from './commands.ts';
import { Connection, type ConnectOptions } from './connection.ts';
import { Control } from './control.ts';
import { Execution } from './execution.ts';
import { aliasRefusal, connectRefusal, type DriverError, databaseRefusal, isConnectionLost } from './failures.ts';
import { Kill } from './kill.ts';
import { Surroundings } from './surroundings.ts';
import type { Awaited, Watchdog, Watched } from './watchdog.ts';

/** What a row may lose as JSON: the lengths of its cells, and the leading zeros of its numbers, column by column. */
const rowShrinkMax = 65_535 * 256;

/** Sets of columns that have a number at once, and about the memory of each at most, on either side. */
const toldColumnsMax = 32;
const toldColumnsBytesMax = 8 * 1024;

/** The time for a killed statement to end grows to this many times `killTimeoutMs` at most. */
const killWaitFactor = 4;

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
  #surroundings: Surroundings | null = null;
  /** From `execute` until `idle` is told, cleaning included. */
  #execution: Execution | null = null;
  /** Those that have ended, by their numbers, and whose rows are still on disk. They outlast the connection. */
  readonly #trailing = new Map<number, Execution>();
  /** The last of which the estimate is told. */
  #estimated: Execution | null = null;
  #kill: Kill | null = null;
  /** Runs while the database must answer soon: from a kill, or a statement's end, until the connection is idle. */
  #deadline: NodeJS.Timeout | null = null;
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
      let isOpen = false;
      connection.once('lost', (reason) => {
        // Until it is open, the commands that are awaited report why it was lost.
        if (isOpen) this.#lose(reason);
      });
      // The driver's limit ends with the login; a database that falls silent after that would keep its client waiting.
      const timer = setTimeout(() => connection.destroy(), this.#connectOptions.timeoutMs);
      let hasInitConnectRun: boolean;
      let connectionsMax: number;
      let userConnectionsMax: number;
      try {
        // Sent ahead of what follows, so that it costs no round trip of its own.
        const names = connection.query('SELECT USER(), CURRENT_USER(), @@max_connections, @@max_user_connections');
        names.catch(() => {});
        let database: string | null | Refusal;
        try {
          database = await this.#enterDatabase(connection);
        } catch (error) {
          // A connection whose init_connect has failed answers its first command with that error, and closes.
          const first = await names.then(
            () => error,
            (reason: unknown) => reason,
          );
          this.#refuse(databaseRefusal(first as DriverError));
          return;
        }
        const [[login, account, max, userMax] = []] = await names;
        connectionsMax = Number(max);
        userConnectionsMax = Math.max(0, Number(userMax));
        const alias = aliasRefusal(this.#login.user, [login ?? null, account ?? null]);
        if (alias !== null) {
          this.#refuse(alias);
          return;
        }
        if (typeof database === 'object' && database !== null) {
          this.#refuse(database);
          return;
        }
        const cleanState = await CleanState.of(connection, database, this.#limits.readOnly);
        hasInitConnectRun = cleanState.hasInitConnectRun;
        const executor = this;
        this.#surroundings = new Surroundings(connection, cleanState, this.#limits, {
          get isClosed() {
            return executor.#closed;
          },
          get isKilled() {
            return executor.#kill !== null;
          },
        });
      } finally {
        clearTimeout(timer);
      }
      isOpen = true;
      this.#openedAt = performance.now();
      this.#watchdog.add(this);
      const { id, version } = connection;
      this.#post({
        type: 'opened',
        connection: id,
        version,
        connectionsMax,
        userConnectionsMax,
        ...(hasInitConnectRun ? { hasInitConnectRun } : {}),
      });
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
      case 'room':
      case 'examine': {
        if (this.#tellTrailing(message)) return;
        const execution = this.#execution;
        // The message may have crossed with the statement's end; the number keeps it off the next one.
        if (execution === null || execution.number !== message.statement) return;
        if (message.type === 'credit') execution.credit(message.bytes, message.rows);
        else if (message.type === 'room') execution.roomGranted();
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
    const surroundings = this.#surroundings;
    if (connection === null || surroundings === null || this.#execution !== null) {
      throw new Error('execute came while the connection was not idle');
    }
    const isAlone = message.after === 'clean' || (message.after === 'hold' && !surroundings.isHeld);
    const execution: Execution = new Execution(
      message,
      {
        rowBytesMax: this.#limits.rowBytesMax,
        columnsMax: this.#limits.columnsMax,
        spill: this.#limits.spill,
        spillUsage: this.#spillUsage,
        post: (news, transfer) => this.#post(news, transfer),
        toldAs: (columns) => this.#toldAs(columns),
        pause: () => connection.pause(),
        resume: () => connection.resume(),
        dropLarge: () => connection.dropLarge(),
        stop: () => this.#stop(execution),
        ended: (error) => this.#ended(connection, surroundings, execution, error),
        delivered: () => this.#forget(execution),
      },
      isAlone,
    );
    this.#execution = execution;
    this.#received = message.statement;
    surroundings.send(execution, message);
  }

  #ended(connection: Connection, surroundings: Surroundings, execution: Execution, error: DriverError | null): void {
    if (this.#closed) return;
    if (error !== null && isConnectionLost(error)) {
      connection.destroy();
      this.#lose(error.message);
      return;
    }
    this.#kill?.enough();
    // After all that has come with the end: mostly the answers to the cleaning too.
    queueMicrotask(() => void this.#becomeIdle(connection, surroundings, execution));
  }

  /** Ends the statement in the database. */
  #stop(execution: Execution): void {
    execution.abandon();
    // The reader may have held up its end, which has been received; a kill would be for nothing, and never be past.
    if (execution.hasEnded || this.#connection === null) return;
    this.#kill ??= new Kill(this.#connection, {
      control: () => this.control,
      isOver: () => this.#closed,
      onFull: () => this.#post({ type: 'crowded' }),
    });
    this.#expectEnd(this.#kill);
  }

  /**
   * Gives the connection up if it is not idle in time after a kill. The time that kills wait for the database is left out: a
   * connection that is given up no longer counts, and if its kill has yet to be carried out, the database holds one more than it
   * should.
   */
  #expectEnd(kill: Kill): void {
    const { killTimeoutMs } = this.#limits;
    const began = performance.now();
    const check = (): void => {
      const timeoutMs = Math.min(killTimeoutMs + kill.waitedMs, killWaitFactor * killTimeoutMs);
      const leftMs = began + timeoutMs - performance.now();
      if (leftMs > 0) this.#deadline = setTimeout(check, Math.ceil(leftMs));
      else this.giveUp(`a killed statement did not end within ${Math.round(timeoutMs)} ms`);
    };
    if (this.#deadline === null) check();
  }

  /** Gives the connection up if it is not ready for the next statement in time. */
  #expectIdle(): void {
    const { killTimeoutMs } = this.#limits;
    const reason = `it was not made ready for the next statement within ${killTimeoutMs} ms`;
    this.#deadline ??= setTimeout(() => this.giveUp(reason), killTimeoutMs);
  }

  #forgetDeadline(): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#deadline = null;
  }

  async #examine(execution: Execution): Promise<void> {
    const connection = this.#connection;
    if (connection === null || execution.hasEnded) return;
    // MySQL counts for the whole session, since it was reset; its plan does not change while the statement runs.
    const isCounted = connection.isMariadb || (this.#surroundings?.statementsSinceReset ?? 0) <= 1;
    const isPlanned = connection.isMariadb || execution !== this.#estimated;
    const scan = await this.control.examined(connection.id, { isCounted, isPlanned });
    if (scan === null || execution.hasEnded) return;
    if (scan.estimatedRows !== null) this.#estimated = execution;
    this.#post({ type: 'examined', statement: execution.number, ...scan });
  }

  async #becomeIdle(connection: Connection, surroundings: Surroundings, execution: Execution): Promise<void> {
    // If nothing is left to be done, that is told with the end; else the end is not to wait for it.
    if (!connection.isIdle || !surroundings.isRestored(execution)) {
      // With it comes what the session is left in, which is yet to be learned.
      if (execution.after !== 'hold') execution.tellEnd(false);
      this.#expectIdle();
    }
    try {
      await this.#kill?.past;
      await surroundings.restore(execution);
    } catch (error) {
      if (this.#closed) return;
      connection.destroy();
      this.#lose(`it could not be made ready for the next statement: ${(error as Error).message}`);
      return;
    }
    if (this.#closed) return;
    this.#forgetDeadline();
    this.#execution = null;
    this.#kill = null;
    const { session } = execution;
    if (!execution.tellEnd(true)) this.#post({ type: 'idle', ...(session === null ? {} : { session }) });
    if (execution.hasRowsToCome) this.#trailing.set(execution.number, execution);
  }

  #post(message: FromWorker, transfer?: ArrayBuffer): void {
    this.#channel.post(message, transfer);
  }

  #toldAs(columns: readonly Column[]): ToldColumns {
    const told = this.#toldColumns.get(columns);
    if (told !== undefined) return { number: told };
    if (columnsBytes(columns) > toldColumnsBytesMax) return { columns };
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
    else execution?.lost(reason, this.#surroundings?.isBeginning !== true);
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
    if (this.#execution !== null && !this.#execution.hasEnded) void this.#endInDatabase();
    this.#finish();
  }

  #finish(): void {
    this.#closed = true;
    this.#watchdog.remove(this);
    this.#forgetDeadline();
    this.#kill?.enough();
    const execution = this.#execution;
    this.#execution = null;
    if (execution?.hasRowsToCome) this.#trailing.set(execution.number, execution);
    else execution?.close();
    // What is on disk is read without the database.
    if (this.#trailing.size === 0) this.#channel.close();
  }
}
