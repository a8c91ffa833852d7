import { deserialize } from 'node:v8';
import type { Cause } from '../wire/failures.ts';
import type { ToWorker, WorkerLimits } from '../wire/messages.ts';
import { effectOfText } from '../wire/sql-traits.ts';
import { defaultOptions, type PackedParams, type Params, type ParamsToPack } from '../wire/statement.ts';
import { CheckedPipeline } from './checked-pipeline.ts';
import { type BoundStatement, Pipeline, type PlainCommand } from './commands.ts';
import type { Connection } from './connection.ts';
import type { ConnectionReset } from './connection-reset.ts';
import type { Execution } from './execution.ts';
import { type DriverError, ServerError } from './failures.ts';
import { absorbKill } from './kill.ts';
import type { OkPacket } from './packets.ts';
import { PinnedSession, track } from './pinned-session.ts';
import { type ParamLimits, prepare } from './prepare.ts';
import { beginReadOnly, beginReadOnlyAgain, endReadOnly, readOnlyRefusal } from './read-only.ts';
import type { RowProtocol } from './row-protocol.ts';
import { setVariableCommands } from './variables.ts';

/** Its OK packet reports the state of the session. It keeps warnings, but sets ROW_COUNT() to 0. */
const ping = new CheckedPipeline([{ type: 'ping' }]);

/**
 * Sets the encoding of requests and results. character_set_connection and collation_connection stay as the session has set
 * them: they decide how literals compare, not how they are sent. SET NAMES declares the encoding of a client; this one's is
 * always UTF-8, and a literal must not lose the characters that the named character set lacks.
 */
const utf8Text = 'SET character_set_client = utf8mb4, character_set_results = utf8mb4';

/** The executor whose statements are run. */
export interface StatementRunnerHost {
  /** The connection is closed. */
  readonly isClosed: boolean;
  /** The current statement is being killed. */
  readonly isKilling: boolean;
}

/**
 * Runs statements on a connection: does the work before each one (variables, preparing, read-only transactions) and after it
 * (reset, and reading the state that it left in its session).
 */
export class StatementRunner {
  readonly #connection: Connection;
  readonly #reset: ConnectionReset;
  readonly #readOnly: boolean;
  readonly #paramLimits: ParamLimits;
  readonly #rowProtocol: RowProtocol;
  readonly #host: StatementRunnerHost;
  /** The session of statements run with `pin` since the connection was clean; null if there were none. */
  #pinned: PinnedSession | null = null;
  /** The commands that were sent in one write with the statement; rejected if one failed. */
  #followUp: Promise<void> | null = null;
  /** The OK packet of the last of these commands; null if it has not arrived, or the command has failed. */
  #followUpPacket: OkPacket | null = null;
  #isPreparing = false;
  /** Of the last statement. */
  #hasParams = false;
  #statementsSinceReset = 0;

  constructor(
    connection: Connection,
    reset: ConnectionReset,
    { readOnly, paramsBytesMax, paramsMax }: ParamLimits & Pick<WorkerLimits, 'readOnly'>,
    rowProtocol: RowProtocol,
    host: StatementRunnerHost,
  ) {
    this.#rowProtocol = rowProtocol;
    this.#connection = connection;
    this.#reset = reset;
    this.#readOnly = readOnly;
    this.#paramLimits = { paramsBytesMax, paramsMax };
    this.#host = host;
  }

  /** Whether the statement has not been sent yet, since it is being prepared or its read-only transaction is being started. */
  get isPreparing(): boolean {
    return this.#isPreparing;
  }

  /** Statements since the connection was clean. The database's counters cover all of them. */
  get statementsSinceReset(): number {
    return this.#statementsSinceReset;
  }

  /** Whether the next statement finds session state that earlier ones left. */
  get isPinned(): boolean {
    return this.#pinned?.isPinned === true;
  }

  /** Sends a statement, or fails it. */
  send(execution: Execution, { options }: ToWorker & { type: 'execute' }): void {
    const { variables, params: given, expectsMany } = options ?? defaultOptions;
    const params = given === null ? null : unpacked(given);
    this.#hasParams = params !== null;
    this.#followUp = null;
    this.#followUpPacket = null;
    this.#statementsSinceReset++;
    const refusal = this.#readOnly ? readOnlyRefusal(execution) : null;
    if (refusal !== null) {
      execution.notSent(refusal);
      return;
    }
    const commands = this.#commandsBefore(execution, variables);
    if (commands.length === 0) {
      this.#sendPrepared(execution, params, expectsMany);
      return;
    }
    this.#connection.together(() => {
      // A refused variable is ignored. The statement itself reports a lost connection.
      this.#connection
        .pipeline(new Pipeline(commands), (packet) => {
          if (execution.after === 'pin') this.#pinned?.commandEnded(packet);
        })
        .catch(() => {});
      this.#sendPrepared(execution, params, expectsMany);
    });
  }

  #commandsBefore(execution: Execution, variables: { readonly [name: string]: string }): PlainCommand[] {
    if (execution.after !== 'pin') return setVariableCommands(Object.entries(variables), this.#readOnly);
    const isFirst = this.#pinned === null;
    this.#pinned ??= this.#newPinnedSession();
    const commands = setVariableCommands(this.#pinned.begin(variables), this.#readOnly);
    return isFirst ? [track, ...commands] : commands;
  }

  #newPinnedSession(): PinnedSession {
    return new PinnedSession(this.#reset.database, this.#readOnly, this.#connection.isMariadb);
  }

  #sendPrepared(execution: Execution, params: ParamsToPack | null, expectsMany: boolean): void {
    const isForBinary = params === null && this.#rowProtocol.wantsBinary(execution, expectsMany);
    if (this.#readOnly || params !== null || isForBinary) void this.#prepare(execution, params, isForBinary);
    else this.#sendNow(execution, execution.sql);
  }

  /** Sends a statement after its read-only transaction has begun and it has been prepared; fails it if either fails. */
  async #prepare(execution: Execution, params: ParamsToPack | null, isForBinary: boolean): Promise<void> {
    const connection = this.#connection;
    this.#isPreparing = true;
    let statement: string | BoundStatement | Cause = execution.sql;
    let failure: DriverError | null = null;
    try {
      // A clean connection still has the read-only default of the reset.
      const begin = execution.after === 'clean' && this.#pinned === null ? beginReadOnly : beginReadOnlyAgain;
      if (this.#readOnly) await begin.run(connection);
      if (params !== null && !this.#host.isClosed) {
        statement = await prepare(connection, execution, params, this.#paramLimits);
      } else if (isForBinary && !this.#host.isClosed) {
        statement = (await this.#rowProtocol.prepare(connection, execution)) ?? execution.sql;
      }
    } catch (error) {
      failure = error as DriverError;
    }
    if (this.#host.isClosed) return;
    this.#isPreparing = false;
    // The statement was cancelled in the meantime: do not send it. Nobody reads the failure.
    if (this.#host.isKilling) {
      failure ??= new ServerError(1317, '70100', 'Query execution was interrupted');
      if (typeof statement === 'object' && 'id' in statement) connection.closeStatement(statement.id);
    }
    if (failure !== null) execution.notSent(failure);
    else if (typeof statement === 'object' && 'code' in statement) execution.rejected(statement);
    else this.#trySendNow(execution, statement);
  }

  /** An exception here, in no caller's hands, would end the thread; it fails the statement instead. */
  #trySendNow(execution: Execution, statement: string | BoundStatement): void {
    try {
      this.#sendNow(execution, statement);
    } catch (error) {
      execution.notSent(error as Error);
    }
  }

  #sendNow(execution: Execution, statement: string | BoundStatement): void {
    const connection = this.#connection;
    if (execution.after === 'pin') {
      this.#sendPinned(execution, statement);
      return;
    }
    const endOfKept = this.#readOnly ? endReadOnly : null;
    const pipeline = execution.after === 'clean' ? this.#resetPipeline(execution) : endOfKept;
    if (pipeline === null) {
      connection.execute(statement, execution);
      return;
    }
    // One write with the statement, since waking the database costs it more than running these commands.
    this.#followUp = connection
      .executeAndThen(statement, execution, pipeline.pipeline)
      .then((errors) => pipeline.check(errors));
    // `restore` reports a failure; if it does not run, the connection is gone.
    this.#followUp.catch(() => {});
  }

  #sendPinned(execution: Execution, statement: string | BoundStatement): void {
    // A ping would set ROW_COUNT() to 0, so only a read is followed by one.
    const followUp = this.#readOnly ? endReadOnly : effectOfText(execution) === 'read' ? ping : null;
    if (followUp === null) {
      this.#connection.execute(statement, execution);
      return;
    }
    this.#connection.together(() => {
      this.#connection.execute(statement, execution);
      this.#followUp = followUp.run(this.#connection, (packet) => {
        this.#followUpPacket = packet;
      });
      // See `#sendNow`.
      this.#followUp.catch(() => {});
    });
  }

  /** The commands that make the connection clean if the statement is the only one since it was clean; null if there are none. */
  #resetPipeline(execution: Execution): CheckedPipeline | null {
    return this.#pinned === null ? this.#reset.pipelineAfter(execution) : null;
  }

  /** Whether nothing is left to do once the commands that were sent with the statement have run. */
  isRestored(execution: Execution): boolean {
    if (this.#host.isKilling || execution.after === 'pin') return false;
    if (execution.after === 'keep') return execution.leftUtf8 === null && (!this.#readOnly || this.#followUp !== null);
    return this.#followUp !== null && this.#reset.isCleanAfterPipeline(execution.sessionChanged);
  }

  /**
   * Makes the connection ready for the next statement. All kills must have settled.
   * @throws DriverError if it failed; the connection must be closed then
   */
  async restore(execution: Execution): Promise<void> {
    const connection = this.#connection;
    const { isKilling } = this.#host;
    if (!this.#hasParams && execution.okPacket !== null) {
      this.#rowProtocol.ended(execution, execution.rowCount, execution.areSentAlike);
    }
    if (execution.after === 'clean') {
      // A late kill may have hit the reset.
      if (isKilling) await this.#followUp?.catch(() => {});
      else await this.#followUp;
      if (!this.isRestored(execution)) await this.#clean(execution);
      this.#statementsSinceReset = 0;
      return;
    }
    if (isKilling) await absorbKill(connection);
    if (this.#readOnly) await this.#endReadOnly();
    if (execution.after === 'pin') {
      await this.#readSessionState(execution);
      if (!this.isPinned) {
        // Report the result before the reset, which takes a round trip.
        execution.reportResult(false);
        await this.#clean(execution);
        this.#statementsSinceReset = 0;
        return;
      }
    }
    // Only if necessary: ROW_COUNT() and SHOW WARNINGS refer to the last statement, which would be ours.
    const left = [execution.leftUtf8, this.#followUpPacket?.leftUtf8];
    if (left.includes('names')) await connection.query('SET NAMES utf8mb4');
    else if (left.includes('text')) await connection.query(utf8Text);
  }

  async #clean(execution: Execution): Promise<void> {
    const isOnly = this.#statementsSinceReset === 1;
    await this.#reset.run(this.#connection, isOnly ? execution : null);
    this.#pinned = null;
  }

  /** Ends the transaction of a statement in a kept session, unless the commands sent with the statement have. */
  async #endReadOnly(): Promise<void> {
    const hasEnded = this.#followUp !== null && (await this.#followUp.then(() => true).catch(() => false));
    if (!hasEnded) await endReadOnly.run(this.#connection);
  }

  /** Finds out the state that a statement has left in its session, to be reported with its result. */
  async #readSessionState(execution: Execution): Promise<void> {
    // There is no pinned session yet if the first statement was refused.
    const pinned = this.#pinned ?? this.#newPinnedSession();
    await this.#followUp?.catch(() => {});
    let packet = this.#followUpPacket;
    if (this.#host.isKilling || (packet === null && (this.#readOnly || PinnedSession.mustAsk(execution.okPacket)))) {
      if (packet !== null) pinned.commandEnded(packet);
      await ping.run(this.#connection, (later) => {
        packet = later;
      });
    }
    // A kill may have hit the commands before the statement.
    if (this.#host.isKilling) pinned.forgetVariables();
    pinned.statementEnded(execution, execution.okPacket, packet);
    this.#followUpPacket = packet;
    execution.session = pinned.state;
  }
}

function unpacked(params: Params | PackedParams): ParamsToPack {
  return params instanceof Uint8Array ? (deserialize(params) as ParamsToPack) : { params, placeholders: null };
}
