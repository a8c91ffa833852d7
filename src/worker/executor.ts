import { setTimeout as delay } from 'node:timers/promises';
import type { Channel } from '../wire/link.ts';
import type { FromWorker, Login, Refusal, ThreadTask, ToldColumns, ToWorker, WorkerLimits } from '../wire/messages.ts';
import { type Column, failures } from '../wire/statement.ts';
import { CleanState } from './clean-state.ts';
import { Connection, type ConnectOptions, Pipeline } from './connection.ts';
import { Control } from './control.ts';
import { Execution } from './execution.ts';
import { connectRefusal, type DriverError, databaseRefusal, isConnectionLost } from './failures.ts';

/** A kill is repeated after this long, and then after twice as long each time, up to the maximum. */
const killRetryMs = 50;
const killRetryMsMax = 1_000;

/** What a row may lose as JSON: the lengths of its cells, and the leading zeros of its numbers, column by column. */
const rowShrinkMax = 65_535 * 256;

/** Sets of columns that have a number at once. */
const toldColumnsMax = 32;

/** The kills of a statement that is to be stopped; `enough` ends their repetition. */
interface Kill {
  readonly done: Promise<void>;
  readonly enough: AbortController;
}

/**
 * Serves one lease: owns one database connection, runs one statement at a time on it, and tells the main thread through
 * a channel. States: opening, idle, running (from `execute` until `idle` is told, cleaning included), closed. Lives in a
 * worker thread, many to a thread.
 */
export class Executor {
  readonly #channel: Channel<FromWorker, ToWorker>;
  readonly #login: Login;
  readonly #limits: WorkerLimits;
  readonly #connectOptions: ConnectOptions;
  readonly #controls: Map<string, Control>;
  #connection: Connection | null = null;
  #cleanState: CleanState | null = null;
  /** From `execute` until `idle` is told, cleaning included. */
  #execution: Execution | null = null;
  #kill: Kill | null = null;
  /** The commands that were sent behind the statement; rejected if one failed. */
  #cleaning: Promise<void> | null = null;
  /** Runs while the database must answer soon: from a kill, or a statement's end, until the connection is idle. */
  #deadline: NodeJS.Timeout | null = null;
  /** Statements since the connection was as new; the database's counters tell of the first one alone. */
  #statementsSinceReset = 0;
  readonly #toldColumns = new Map<readonly Column[], number>();
  #closed = false;

  /** @param controls those of the thread, by login */
  constructor(
    channel: Channel<FromWorker, ToWorker>,
    login: Login,
    { address, limits }: Pick<ThreadTask, 'address' | 'limits'>,
    controls: Map<string, Control>,
  ) {
    this.#channel = channel;
    this.#login = login;
    this.#limits = limits;
    this.#controls = controls;
    this.#connectOptions = {
      address,
      user: login.user,
      password: login.password,
      timeoutMs: limits.connectTimeoutMs,
      rowBytesMax: limits.rowBytesMax + rowShrinkMax,
    };
    channel.on('message', (message) => this.#receive(message));
    channel.on('close', () => this.#close());
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
        this.#cleanState = await CleanState.of(connection, database);
      } finally {
        clearTimeout(timer);
      }
      this.#post({ type: 'opened' });
    } catch (error) {
      this.#refuse(connectRefusal(error as DriverError));
    }
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
    // that in the warnings of the first statement.
    await connection.pipeline(new Pipeline([{ type: 'reset connection' }]));
    return null;
  }

  #receive(message: ToWorker): void {
    switch (message.type) {
      case 'execute':
        this.#execute(message);
        return;
      case 'open':
        return;
      case 'credit':
      case 'cancel':
      case 'examine': {
        const execution = this.#execution;
        // The message may have crossed with the statement's end; the number keeps it off the next one.
        if (execution === null || execution.number !== message.statement || execution.hasEnded) return;
        if (message.type === 'credit') execution.credit(message.bytes, message.rows);
        else if (message.type === 'cancel') this.#stop(execution);
        else void this.#examine(execution);
        return;
      }
      default:
        message satisfies never;
    }
  }

  #execute(message: ToWorker & { type: 'execute' }): void {
    const connection = this.#connection;
    if (connection === null || this.#execution !== null) {
      throw new Error('execute came while the connection was not idle');
    }
    const execution: Execution = new Execution(message, {
      rowBytesMax: this.#limits.rowBytesMax,
      post: (news, transfer) => this.#post(news, transfer),
      toldAs: (columns) => this.#toldAs(columns),
      pause: () => connection.pause(),
      resume: () => connection.resume(),
      stop: () => this.#stop(execution),
      ended: (error) => this.#ended(connection, execution, error),
    });
    this.#execution = execution;
    this.#statementsSinceReset++;
    const wayBack = message.clean ? (this.#cleanState?.wayBack(message.sql) ?? null) : null;
    if (wayBack === null) {
      connection.execute(message.sql, execution);
      return;
    }
    // In one write with the statement: to wake the database costs it more than to run these.
    this.#cleaning = connection
      .executeAndThen(message.sql, execution, wayBack.pipeline)
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
    this.#kill?.enough.abort();
    // After all that has come with the end: mostly the answers to the cleaning too.
    queueMicrotask(() => void this.#becomeIdle(connection, execution));
  }

  /** Ends the statement in the database. */
  #stop(execution: Execution): void {
    execution.abandon();
    this.#expect('a killed statement did not end');
    if (this.#kill !== null) return;
    const enough = new AbortController();
    this.#kill = { enough, done: this.#killUntilEnded(execution, enough.signal) };
  }

  /**
   * Kills until the statement has ended: a kill that overtakes its statement on the way finds nothing to kill, and one
   * may be refused. Settles when none of them can hit the next statement.
   */
  async #killUntilEnded(execution: Execution, enough: AbortSignal): Promise<void> {
    const connection = this.#connection;
    if (connection === null) return;
    const kills: Promise<void>[] = [];
    for (
      let retryMs = killRetryMs;
      !execution.hasEnded && !this.#closed;
      retryMs = Math.min(2 * retryMs, killRetryMsMax)
    ) {
      const { answered, past } = this.#control().kill(connection.id, () => this.#closed);
      kills.push(past);
      await answered.catch(() => {});
      await delay(retryMs, undefined, { signal: enough }).catch(() => {});
    }
    await Promise.all(kills);
  }

  /** Gives the connection up if it is not idle in time. What runs on it may run on in the database then. */
  #expect(failure: string): void {
    const { killTimeoutMs } = this.#limits;
    this.#deadline ??= setTimeout(() => {
      this.#connection?.destroy();
      this.#lose(`${failure} within ${killTimeoutMs} ms`);
    }, killTimeoutMs);
  }

  async #examine(execution: Execution): Promise<void> {
    const connection = this.#connection;
    if (connection === null || (!connection.isMariadb && this.#statementsSinceReset > 1)) return;
    const rows = await this.#control().examined(connection.id);
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
  }

  /** Brings the connection to where the next statement may run on it. */
  async #restore(connection: Connection, execution: Execution): Promise<void> {
    const isKilled = this.#kill !== null;
    await this.#kill?.done;
    if (!execution.clean) {
      if (isKilled) await absorbKill(connection);
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

  /** Whether the commands that were sent with the statement, once they are run, leave nothing to be done. */
  #isRestored(execution: Execution): boolean {
    if (this.#kill !== null) return false;
    if (!execution.clean) return !execution.leftUtf8;
    return this.#cleaning !== null && this.#cleanState?.isRestoredByWayBack(execution.sessionChanged) === true;
  }

  #control(): Control {
    const key = JSON.stringify([this.#login.user, this.#login.password]);
    let control = this.#controls.get(key);
    if (control === undefined) {
      control = new Control(this.#connectOptions, () => this.#controls.delete(key));
      this.#controls.set(key, control);
    }
    return control;
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
    else execution?.fail(failures.connectionLost(reason));
    this.#post({ type: 'lost', reason });
    this.#finish();
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
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#kill?.enough.abort();
    this.#execution?.close();
    this.#channel.close();
  }
}

/** A kill that came as its statement ended may be kept for the next one; this is the next one. */
async function absorbKill(connection: Connection): Promise<void> {
  try {
    await connection.query('DO 0');
  } catch {
    await connection.query('DO 0');
  }
}
