import type { LargeResults } from '../wire/large-results.ts';
import type { Channel } from '../wire/link.ts';
import type { FromWorker, Login, Refusal, ThreadTask, ToWorker, WorkerLimits } from '../wire/messages.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
import type { SpillUsage, UserSpillUsage } from '../wire/spill-usage.ts';
import { AdminPool } from './admin-pool.ts';
import { ColumnsRefs } from './columns-refs.ts';
import { Connection } from './connection.ts';
import { Deadline } from './deadline.ts';
import { DrainingStatements } from './draining.ts';
import type { ConnectOptions } from './driver.ts';
import { Execution, type ExecutionHost } from './execution.ts';
import { type DriverError, isConnectionLost } from './failures.ts';
import { Kill, type KillHost } from './kill.ts';
import { prepareConnection, refusalOf } from './opening.ts';
import { sweepOrphans } from './orphans.ts';
import { RowProtocol } from './row-protocol.ts';
import { StatementRunner, type StatementRunnerHost } from './statement-runner.ts';
import type { Awaited, Watchdog, Watched } from './watchdog.ts';

/** The most bytes that a row may be longer in the database's packet than as JSON: per column, its length and leading zeros. */
const rowShrinkMax = 65_535 * 256;

/** The executors of a thread share these. */
export interface ThreadParts {
  /** By login. */
  readonly adminPools: Map<string, AdminPool>;
  readonly watchdog: Watchdog;
  readonly spillUsage: SpillUsage;
  readonly largeResults: LargeResults;
}

/**
 *     opening ──▶ idle ◀──▶ running
 *        │          │          │
 *        └──────────┴──────────┴──▶ closed
 *
 * - running: from `execute` until `idle` is reported; this includes making the connection ready for the next statement
 * - closed: the connection is gone or is being closed; statements that are draining may remain
 */
type ExecutorPhase = 'opening' | 'idle' | 'running' | 'closed';

const transitions: Transitions<ExecutorPhase> = {
  opening: ['idle', 'closed'],
  idle: ['running', 'closed'],
  running: ['idle', 'closed'],
  closed: [],
};

/**
 * Serves one lease: owns one database connection, runs one statement at a time on it, and reports to the main thread through a
 * channel. Lives in a worker thread, many to a thread.
 */
export class Executor implements ExecutionHost, KillHost, StatementRunnerHost, Watched {
  readonly limits: WorkerLimits;
  readonly spillUsage: UserSpillUsage;
  readonly columnsRefs = new ColumnsRefs();
  readonly #channel: Channel<FromWorker, ToWorker>;
  readonly #login: Login;
  readonly #connectOptions: ConnectOptions;
  readonly #adminPools: Map<string, AdminPool>;
  readonly #watchdog: Watchdog;
  readonly #largeResults: LargeResults;
  #phase: ExecutorPhase = 'opening';
  #connection: Connection | null = null;
  #openedAt = 0;
  #runner: StatementRunner | null = null;
  /** Set while running. */
  #execution: Execution | null = null;
  readonly #draining = new DrainingStatements();
  /** The last statement whose estimate was reported. */
  #estimated: Execution | null = null;
  /** The kill of the current statement. */
  #kill: Kill | null = null;
  readonly #deadline: Deadline;
  /** The number of the last statement that was received. */
  #received = 0;

  constructor(
    channel: Channel<FromWorker, ToWorker>,
    { login, spillSlot }: Pick<ToWorker & { type: 'open' }, 'login' | 'spillSlot'>,
    { address, limits }: Pick<ThreadTask, 'address' | 'limits'>,
    thread: ThreadParts,
  ) {
    this.#channel = channel;
    this.#login = login;
    this.limits = limits;
    this.spillUsage = thread.spillUsage.ofUser(spillSlot);
    this.#adminPools = thread.adminPools;
    this.#watchdog = thread.watchdog;
    this.#largeResults = thread.largeResults;
    this.#connectOptions = {
      address,
      user: login.user,
      password: login.password,
      timeoutMs: limits.connectTimeoutMs,
      rowBytesMax: limits.rowBytesMax + rowShrinkMax,
    };
    this.#deadline = new Deadline(limits.killTimeoutMs, (reason) => this.giveUp(reason));
    channel.on('message', (message) => this.#receive(message));
    channel.on('close', () => {
      this.#close();
      this.#draining.close();
    });
  }

  /** Opens the connection, and reports the outcome. */
  async open(): Promise<void> {
    try {
      const connection = await Connection.open(this.#connectOptions);
      this.#connection = connection;
      if (this.isClosed) {
        connection.close();
        return;
      }
      connection.once('lost', (reason) => {
        // While opening, the command under way reports the loss.
        if (this.#phase !== 'opening') this.#lose(reason);
      });
      // The driver's timeout covers only the login. A database that falls silent after it would keep the client waiting.
      const { timeoutMs } = this.#connectOptions;
      const late = `after the login, it did not answer for ${timeoutMs / 1_000} s (--connect_timeout_secs)`;
      const timer = setTimeout(() => connection.destroy(late), timeoutMs);
      const opening = prepareConnection(connection, this.#login, this.limits.readOnly);
      const { reset, connectionsMax, userConnectionsMax } = await opening.finally(() => clearTimeout(timer));
      const protocol = new RowProtocol(this.#largeResults, this.#login, this.limits.columnsMax, connection.isMariadb);
      this.#runner = new StatementRunner(connection, reset, this.limits, protocol, this);
      this.#moveTo('idle');
      this.#openedAt = performance.now();
      this.#watchdog.add(this);
      const { id, version } = connection;
      const isOneTime = reset.hasInitConnectRun ? ({ hasInitConnectRun: true } as const) : {};
      this.post({ type: 'opened', connection: id, version, connectionsMax, userConnectionsMax, ...isOneTime });
    } catch (error) {
      this.#refuse(refusalOf(error));
    }
  }

  /** For `Kill` and `StatementRunner`. */
  get isClosed(): boolean {
    return this.#phase === 'closed';
  }

  /** For `StatementRunner`. */
  get isKilling(): boolean {
    return this.#kill !== null;
  }

  /** For `Watchdog`: the answer of a statement, or of the reset after it, is expected. */
  get awaited(): Awaited | null {
    const connection = this.#connection;
    // Between the two, only kills on other connections may be under way, and nothing is expected on this one.
    if (connection === null || this.#execution === null || connection.isIdle) return null;
    const { activity } = connection;
    return activity === null ? null : { connection: connection.id, activity };
  }

  /** For `Kill` and `Watchdog`. */
  get adminPool(): AdminPool {
    return AdminPool.of(this.#adminPools, this.#connectOptions);
  }

  /** Closes a connection whose database does not answer. */
  giveUp(reason: string): void {
    const connection = this.#connection;
    if (connection === null || this.isClosed) return;
    connection.destroy();
    this.#lose(reason);
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
        if (this.#draining.receive(message)) {
          this.#closeIfDrained();
          return;
        }
        const execution = this.#execution;
        // The statement may have ended while the message was on its way.
        if (execution === null || execution.number !== message.statement) return;
        if (message.type === 'credit') execution.credit(message.bytes, message.rows);
        else if (message.type === 'room') execution.memoryGranted();
        else if (message.type === 'examine') void this.#examine(execution);
        else if (execution.hasEnded) execution.abandon();
        else this.stop(execution);
        return;
      }
      default:
        message satisfies never;
    }
  }

  /** For `Execution`. */
  delivered(execution: Execution): void {
    this.#draining.delete(execution);
    this.#closeIfDrained();
  }

  #execute(message: ToWorker & { type: 'execute' }): void {
    // The message has crossed with `lost`, which reports that the statement was not received.
    if (this.isClosed) return;
    const connection = this.#connection;
    const runner = this.#runner;
    if (connection === null || runner === null || this.#phase !== 'idle') {
      throw new Error('execute came while the connection was not idle');
    }
    this.#moveTo('running');
    const isStandalone = message.after === 'clean' || (message.after === 'pin' && !runner.isPinned);
    const execution = new Execution(message, connection, this, isStandalone);
    this.#execution = execution;
    this.#received = message.statement;
    runner.send(execution, message);
  }

  /** For `Execution`. */
  ended(execution: Execution, error: DriverError | null): void {
    const connection = this.#connection;
    const runner = this.#runner;
    if (this.isClosed || connection === null || runner === null) return;
    if (error !== null && isConnectionLost(error)) {
      connection.destroy();
      this.#lose(error.message);
      return;
    }
    this.#kill?.stop();
    // After everything that has arrived with the end, which usually includes the answers to the reset.
    queueMicrotask(() => void this.#becomeIdle(connection, runner, execution));
  }

  /** For `Execution`, and for `cancel`: ends the statement in the database. */
  stop(execution: Execution): void {
    execution.abandon();
    // If the reader had paused the connection, the end may just have been read. A kill would then be pointless, and never settle.
    if (execution.hasEnded || this.#connection === null) return;
    this.#kill ??= new Kill(this.#connection, this);
    this.#deadline.expectEnd(this.#kill);
  }

  /** For `Kill`. */
  onFull(): void {
    this.post({ type: 'crowded' });
  }

  async #examine(execution: Execution): Promise<void> {
    const connection = this.#connection;
    if (connection === null || execution.hasEnded) return;
    // MySQL counts for the whole session since its reset. Its plan does not change while the statement runs.
    const isCounted = connection.isMariadb || (this.#runner?.statementsSinceReset ?? 0) <= 1;
    const isPlanned = connection.isMariadb || execution !== this.#estimated;
    const scan = await this.adminPool.progress.read(connection.id, { isCounted, isPlanned });
    if (scan === null || execution.hasEnded) return;
    if (scan.estimatedRows !== null) this.#estimated = execution;
    this.post({ type: 'examined', statement: execution.number, ...scan });
  }

  async #becomeIdle(connection: Connection, runner: StatementRunner, execution: Execution): Promise<void> {
    // If nothing is left to do, `idle` is reported with the result. Otherwise the result does not wait for it.
    if (!connection.isIdle || !runner.isRestored(execution)) {
      // After `pin`, the result is reported with the state of the session, which is not known yet.
      if (execution.after !== 'pin') execution.reportResult(false);
      this.#deadline.expectIdle();
    }
    try {
      await this.#kill?.settled;
      await runner.restore(execution);
    } catch (error) {
      if (this.isClosed) return;
      connection.destroy();
      this.#lose(`it could not be made ready for the next statement: ${(error as Error).message}`);
      return;
    }
    if (this.isClosed) return;
    this.#deadline.clear();
    this.#moveTo('idle');
    this.#execution = null;
    this.#kill = null;
    const { session } = execution;
    if (!execution.reportResult(true)) this.post({ type: 'idle', ...(session === null ? {} : { session }) });
    if (execution.hasRowsToCome) this.#draining.add(execution);
  }

  /** For `Execution`. */
  post(message: FromWorker, transfer?: ArrayBuffer): void {
    this.#channel.post(message, transfer);
  }

  #refuse(refusal: Refusal): void {
    this.post({ type: 'refused', refusal });
    this.#connection?.destroy();
    this.#finish();
  }

  #lose(reason: string): void {
    if (this.isClosed) return;
    const execution = this.#execution;
    if (execution?.hasEnded) execution.reportResult(false);
    else execution?.lost(reason, this.#runner?.isPreparing !== true);
    const hasRowsToCome = execution?.hasRowsToCome === true;
    const mayRunOn = execution !== null;
    this.post({ type: 'lost', reason, received: this.#received, hasRowsToCome, mayRunOn });
    this.#finish();
    if (mayRunOn) void this.#endInDatabase();
  }

  /** Kills the connection's statement in the database if that still answers. If not, the main thread does it later. */
  async #endInDatabase(): Promise<void> {
    if (this.#connection === null) return;
    const openedMs = performance.now() - this.#openedAt;
    const orphan = { id: this.#connection.id, user: this.#connectOptions.user, openedMs, lostMs: 0 };
    await sweepOrphans(this.adminPool, [orphan]).catch(() => {});
  }

  /** The main thread no longer needs the connection. */
  #close(): void {
    if (this.isClosed) return;
    // COM_QUIT cannot be sent in the middle of a statement.
    if (this.#execution === null) this.#connection?.close();
    else this.#connection?.destroy();
    if (this.#execution !== null && !this.#execution.hasEnded) void this.#endInDatabase();
    this.#finish();
  }

  #finish(): void {
    if (!this.isClosed) this.#moveTo('closed');
    this.#watchdog.remove(this);
    this.#deadline.clear();
    this.#kill?.stop();
    const execution = this.#execution;
    this.#execution = null;
    if (execution?.hasRowsToCome) this.#draining.add(execution);
    else execution?.close();
    this.#closeIfDrained();
  }

  /** Rows on disk are delivered without the connection, but not without the channel. */
  #closeIfDrained(): void {
    if (this.isClosed && this.#draining.isEmpty) this.#channel.close();
  }

  #moveTo(phase: ExecutorPhase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }
}
