import { setTimeout as delay } from 'node:timers/promises';
import type { MessagePort } from 'node:worker_threads';
import type { FromWorker, LeaseTask, Refusal, StatementEnd, ToWorker } from '../wire/messages.ts';
import { type Column, failures } from '../wire/statement.ts';
import { CleanState } from './clean-state.ts';
import { type ColumnDefinition, describeColumn } from './columns.ts';
import { saysNothing } from './comments.ts';
import { Connection, type ConnectOptions, Pipeline } from './connection.ts';
import { Control } from './control.ts';
import {
  connectRefusal,
  type DriverError,
  databaseRefusal,
  emptyStatement,
  isConnectionLost,
  statementFailure,
} from './failures.ts';
import type { Ending } from './packets.ts';
import { RowEncoder } from './row-encoder.ts';

/** Rows wait this long for company, so that a trickle does not make a message of every row. */
const flushMs = 4;
/** Below this size a batch is copied to the main thread; handing memory over costs more than copying so little. */
const transferBytesMin = 16 * 1024;
/** A kill is repeated after this long, and then after twice as long each time, up to the maximum. */
const killRetryMs = 50;
const killRetryMsMax = 1_000;

/** A statement while it runs on the connection. */
interface Running {
  readonly number: number;
  readonly clean: boolean;
  creditBytes: number;
  creditRows: number;
  columns: readonly Column[] | null;
  columnsTold: boolean;
  encoder: RowEncoder | null;
  /** Its end is known to the main thread, or no longer of interest; what still comes is dropped. */
  told: boolean;
  /** Rows are dropped: they belong to a second result set, or to a statement that is over for its reader. */
  discard: boolean;
  manyResultSets: boolean;
  /** Text would come in another character set from now on. */
  leftUtf8: boolean;
  paused: boolean;
  ended: boolean;
  /** The kills, if it is to be stopped; `enough` ends their repetition. */
  kill: { readonly done: Promise<void>; readonly enough: AbortController } | null;
}

/**
 * Serves one lease: owns one database connection, runs one statement at a time on it, and tells the main thread through
 * a port. States: opening, idle, running (from `execute` until `idle` is told, cleaning included), closed. Lives in a
 * worker thread, many to a thread.
 */
export class Executor {
  readonly #port: MessagePort;
  readonly #task: LeaseTask;
  readonly #connectOptions: ConnectOptions;
  readonly #controls: Map<string, Control>;
  #connection: Connection | null = null;
  #cleanState: CleanState | null = null;
  #running: Running | null = null;
  #flushTimer: NodeJS.Timeout | null = null;
  /** Runs while the database must answer soon: from a kill, or a statement's end, until the connection is idle. */
  #deadline: NodeJS.Timeout | null = null;
  /** Statements since the connection was as new; the database's counters tell of the first one alone. */
  #statementsSinceReset = 0;
  #closed = false;
  readonly #done: () => void;
  /** Resolves when the connection is gone. */
  readonly finished: Promise<void>;

  constructor(task: LeaseTask, controls: Map<string, Control>) {
    this.#task = task;
    this.#port = task.port;
    this.#controls = controls;
    this.#connectOptions = {
      address: task.address,
      user: task.login.user,
      password: task.login.password,
      timeoutMs: task.limits.connectTimeoutMs,
    };
    let done = (): void => {};
    this.finished = new Promise((resolve) => {
      done = resolve;
    });
    this.#done = done;
    this.#port.on('message', (message: ToWorker) => this.#receive(message));
    this.#port.on('close', () => this.#close());
  }

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
    const { database } = this.#task.login;
    const name = database ?? 'default';
    const [error] = await connection.pipeline(new Pipeline([{ type: 'init db', database: name }]));
    if (error === null) return name;
    // No schema is called so, or the user may not enter it: none is selected, as in the native clients.
    return database === null ? null : databaseRefusal(error as DriverError);
  }

  #receive(message: ToWorker): void {
    switch (message.type) {
      case 'execute':
        void this.#execute(message);
        return;
      case 'close':
        this.#close();
        return;
      case 'credit':
      case 'cancel':
      case 'examine': {
        const running = this.#running;
        // The message may have crossed with the statement's end; the number keeps it off the next one.
        if (running === null || running.number !== message.statement || running.ended) return;
        if (message.type === 'credit') this.#credit(running, message.bytes, message.rows);
        else if (message.type === 'cancel') this.#stop(running);
        else void this.#examine(running);
        return;
      }
      default:
        message satisfies never;
    }
  }

  async #execute(message: ToWorker & { type: 'execute' }): Promise<void> {
    const connection = this.#connection;
    if (connection === null || this.#running !== null)
      throw new Error('execute came while the connection was not idle');
    const running: Running = {
      number: message.statement,
      clean: message.clean,
      creditBytes: message.creditBytes,
      creditRows: message.creditRows,
      columns: null,
      columnsTold: false,
      encoder: null,
      told: false,
      discard: false,
      manyResultSets: false,
      leftUtf8: false,
      paused: false,
      ended: false,
      kill: null,
    };
    this.#running = running;
    this.#statementsSinceReset++;
    let end: StatementEnd;
    try {
      const ending: Ending = await connection.execute(message.sql, {
        columns: (definitions) => this.#takeColumns(running, definitions),
        row: (bytes, start, stop) => this.#takeRow(running, bytes, start, stop),
      });
      running.leftUtf8 = ending.leftUtf8;
      if (running.manyResultSets) end = { ok: false, failure: failures.manyResultSets() };
      else if (running.columns === null && saysNothing(message.sql)) end = { ok: false, failure: emptyStatement };
      else end = { ok: true, outcome: ending.outcome };
    } catch (error) {
      // When the connection is gone, `lost` tells all there is to tell.
      if (this.#closed) return;
      if (isConnectionLost(error as DriverError)) {
        connection.destroy();
        this.#lose((error as DriverError).message);
        return;
      }
      end = { ok: false, failure: statementFailure(error as DriverError) };
    }
    running.ended = true;
    running.kill?.enough.abort();
    this.#flush(running, end);
    await this.#becomeIdle(connection, running, message.sql);
  }

  #takeColumns(running: Running, definitions: readonly ColumnDefinition[]): void {
    if (running.columns !== null) {
      running.manyResultSets = true;
      running.discard = true;
    }
    if (running.discard) return;
    const described = definitions.map(describeColumn);
    running.columns = described.map(({ column }) => column);
    running.encoder = new RowEncoder(
      described.map(({ kind }) => kind),
      this.#task.limits.rowBytesMax,
    );
    this.#flushSoon(running);
  }

  #takeRow(running: Running, bytes: Buffer, start: number, end: number): void {
    const encoder = running.encoder;
    if (running.discard || encoder === null) return;
    if (!encoder.append(bytes, start, end)) {
      this.#flush(running, { ok: false, failure: failures.rowTooLarge(this.#task.limits.rowBytesMax) });
      this.#stop(running);
      return;
    }
    if (encoder.full || encoder.rows >= running.creditRows) this.#flush(running, null);
    else if (encoder.rows === 1) this.#flushSoon(running);
  }

  #flushSoon(running: Running): void {
    this.#flushTimer ??= setTimeout(() => {
      this.#flushTimer = null;
      this.#flush(running, null);
    }, flushMs);
  }

  /** Tells what is new of a statement: its columns once, the rows so far, its end. */
  #flush(running: Running, end: StatementEnd | null): void {
    if (this.#flushTimer !== null) clearTimeout(this.#flushTimer);
    this.#flushTimer = null;
    if (running.told) return;
    const batch = running.encoder?.take() ?? null;
    if (end !== null) dropEncoder(running);
    const columns = running.columnsTold ? null : running.columns;
    running.columnsTold = running.columns !== null;
    running.told = end !== null;
    if (batch === null && columns === null && end === null) return;
    // To be asked before the memory is given away, since it is then no longer ours to measure.
    const batchBytes = batch?.buffer.byteLength ?? 0;
    this.#post(
      {
        type: 'news',
        statement: running.number,
        ...(columns === null ? {} : { columns }),
        ...(batch === null ? {} : { batch }),
        ...(end === null ? {} : { end }),
      },
      batch !== null && batch.length >= transferBytesMin ? [batch.buffer] : [],
    );
    // After its end nothing is left to hold back, and nobody would let the connection go on for the next statement.
    if (batch === null || end !== null) return;
    running.creditBytes -= batchBytes;
    running.creditRows -= batch.rows;
    if (running.creditBytes <= 0 || running.creditRows <= 0) {
      running.paused = true;
      this.#connection?.pause();
    }
  }

  #credit(running: Running, bytes: number, rows: number): void {
    running.creditBytes += bytes;
    running.creditRows += rows;
    if (running.creditBytes > 0 && running.creditRows > 0) this.#resume(running);
  }

  #resume(running: Running): void {
    if (!running.paused) return;
    running.paused = false;
    this.#connection?.resume();
  }

  /** Ends the statement in the database, and reads what it still sends: it cannot end while its socket is full. */
  #stop(running: Running): void {
    running.told = true;
    running.discard = true;
    dropEncoder(running);
    this.#expect('a killed statement did not end');
    if (running.kill === null) {
      const enough = new AbortController();
      running.kill = { enough, done: this.#kill(running, enough.signal) };
    }
    this.#resume(running);
  }

  /**
   * Kills until the statement has ended: a kill that overtakes its statement on the way finds nothing to kill, and one
   * may be refused. Settles when the database has answered the last, so that none can hit the next statement.
   */
  async #kill(running: Running, enough: AbortSignal): Promise<void> {
    const connection = this.#connection;
    if (connection === null) return;
    for (let retryMs = killRetryMs; !running.ended && !this.#closed; retryMs = Math.min(2 * retryMs, killRetryMsMax)) {
      await this.#control()
        .kill(connection.id)
        .catch(() => {});
      await delay(retryMs, undefined, { signal: enough }).catch(() => {});
    }
  }

  /** Gives the connection up if it is not idle in time. What runs on it may run on in the database then. */
  #expect(failure: string): void {
    const { killTimeoutMs } = this.#task.limits;
    this.#deadline ??= setTimeout(() => {
      this.#connection?.destroy();
      this.#lose(`${failure} within ${killTimeoutMs} ms`);
    }, killTimeoutMs);
  }

  async #examine(running: Running): Promise<void> {
    const connection = this.#connection;
    if (connection === null || (!connection.isMariadb && this.#statementsSinceReset > 1)) return;
    const rows = await this.#control().examined(connection.id);
    if (rows !== null && !running.ended) this.#post({ type: 'examined', statement: running.number, rows });
  }

  async #becomeIdle(connection: Connection, running: Running, sql: string): Promise<void> {
    this.#expect('it was not made ready for the next statement');
    try {
      await running.kill?.done;
      if (running.clean) {
        await this.#cleanState?.restore(connection, sql);
        this.#statementsSinceReset = 0;
      } else {
        if (running.kill !== null) await absorbKill(connection);
        // Not without need: a statement of ours is the last one to which ROW_COUNT() and SHOW WARNINGS refer.
        if (running.leftUtf8) await connection.query('SET NAMES utf8mb4');
      }
    } catch (error) {
      if (this.#closed) return;
      connection.destroy();
      this.#lose(`it could not be made ready for the next statement: ${(error as Error).message}`);
      return;
    }
    if (this.#closed) return;
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    this.#deadline = null;
    this.#running = null;
    this.#post({ type: 'idle' });
  }

  #control(): Control {
    const { login } = this.#task;
    const key = JSON.stringify([login.user, login.password]);
    let control = this.#controls.get(key);
    if (control === undefined) {
      control = new Control(this.#connectOptions, () => this.#controls.delete(key));
      this.#controls.set(key, control);
    }
    return control;
  }

  #post(message: FromWorker, transfer: ArrayBuffer[] = []): void {
    if (!this.#closed) this.#port.postMessage(message, transfer);
  }

  #refuse(refusal: Refusal): void {
    this.#post({ type: 'refused', refusal });
    this.#connection?.destroy();
    this.#finish();
  }

  #lose(reason: string): void {
    const running = this.#running;
    if (running !== null && !running.ended) {
      running.ended = true;
      this.#flush(running, { ok: false, failure: failures.connectionLost(reason) });
    }
    this.#post({ type: 'lost', reason });
    this.#finish();
  }

  /** The main thread is done with the connection. */
  #close(): void {
    if (this.#closed) return;
    // A connection in the midst of a statement cannot say goodbye.
    if (this.#running === null) this.#connection?.close();
    else this.#connection?.destroy();
    this.#finish();
  }

  #finish(): void {
    this.#closed = true;
    for (const timer of [this.#flushTimer, this.#deadline]) if (timer !== null) clearTimeout(timer);
    this.#running?.kill?.enough.abort();
    this.#port.close();
    this.#done();
  }
}

function dropEncoder(running: Running): void {
  running.encoder?.release();
  running.encoder = null;
}

/** A kill that came as its statement ended may be kept for the next one; this is the next one. */
async function absorbKill(connection: Connection): Promise<void> {
  try {
    await connection.query('DO 0');
  } catch {
    await connection.query('DO 0');
  }
}
