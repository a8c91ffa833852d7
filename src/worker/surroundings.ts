import { deserialize } from 'node:v8';
import { type Cause, causes } from '../wire/failures.ts';
import type { ToWorker, WorkerLimits } from '../wire/messages.ts';
import { effectOfText } from '../wire/sql-traits.ts';
import { noExtras, type PackedParams, type Params, type ParamsToPack } from '../wire/statement.ts';
import { type CleanState, WayBack } from './clean-state.ts';
import { type BoundStatement, boundBytes, Pipeline, type PlainCommand } from './commands.ts';
import type { Connection } from './connection.ts';
import type { Execution } from './execution.ts';
import { type DriverError, emptyQuery, ServerError } from './failures.ts';
import { HeldSession, track } from './held-session.ts';
import { absorbKill } from './kill.ts';
import type { Ending } from './packets.ts';
import { positional } from './placeholders.ts';
import { beginReadOnly, beginReadOnlyAgain, endReadOnly, readOnlyRefusal } from './read-only.ts';
import { setVariables } from './variables.ts';

/** It tells the state of the session, and leaves warnings as they are; but ROW_COUNT() is 0 behind it. */
const ping = new WayBack([{ type: 'ping' }]);

type ParamLimits = Pick<WorkerLimits, 'paramsBytesMax' | 'paramsMax'>;

/**
 * Has a statement prepared, and binds its parameters. If that cannot be done it is closed again.
 * @returns why it is not to be run, if there is nothing to run or the parameters do not suit it
 * @throws DriverError if it cannot be prepared
 */
async function prepare(
  connection: Connection,
  execution: Execution,
  { params, placeholders: known }: ParamsToPack,
  { paramsBytesMax, paramsMax }: ParamLimits,
): Promise<BoundStatement | Cause> {
  // MySQL would say of comments that they cannot be prepared.
  if (execution.saysNothing) return emptyQuery;
  const statement = positional(execution.sql, params, paramsMax, known);
  if ('missing' in statement) return causes.paramMissing(statement.missing);
  if ('placeholders' in statement) return causes.paramCount(statement.placeholders, Object.keys(params).length);
  if ('tooMany' in statement) return causes.paramsTooMany(paramsMax);
  const { values } = statement;
  // A name that is used often has its value sent as often.
  if (boundBytes(values) > paramsBytesMax) return causes.paramsTooLarge(paramsBytesMax);
  const { id, placeholders } = await connection.prepare(statement.sql);
  if (placeholders === values.length) return { id, values };
  connection.closeStatement(id);
  return causes.paramCount(placeholders, values.length);
}

/**
 * Sets what the encoding of requests and results depends on. character_set_connection and collation_connection stay as the
 * session has set them: they say how literals compare, not how they are sent. SET NAMES declares the encoding of a client;
 * this one's is always UTF-8, and a literal must not lose the characters that the named character set lacks.
 */
const utf8Text = 'SET character_set_client = utf8mb4, character_set_results = utf8mb4';

function unpacked(params: Params | PackedParams): ParamsToPack {
  return params instanceof Uint8Array ? (deserialize(params) as ParamsToPack) : { params, placeholders: null };
}

export interface SurroundingsHost {
  /** The connection is of no interest any more. */
  readonly isClosed: boolean;
  /** The statement under way has been cancelled. */
  readonly isKilled: boolean;
}

/**
 * What comes before and behind the statements of a lease on its connection: their variables, the read-only transactions,
 * the cleaning, and the questions what they have left behind.
 */
export class Surroundings {
  readonly #connection: Connection;
  readonly #cleanState: CleanState;
  readonly #readOnly: boolean;
  readonly #paramLimits: ParamLimits;
  readonly #host: SurroundingsHost;
  /** Of the statements that were run with `hold` since the connection was as new; null if there were none. */
  #held: HeldSession | null = null;
  /** The commands that were sent behind the statement; rejected if one failed. */
  #behind: Promise<void> | null = null;
  /** What the last command that was sent behind the statement tells; null if it has not, or has failed. */
  #told: Ending | null = null;
  #isBeginning = false;
  #statementsSinceReset = 0;

  constructor(
    connection: Connection,
    cleanState: CleanState,
    { readOnly, paramsBytesMax, paramsMax }: ParamLimits & Pick<WorkerLimits, 'readOnly'>,
    host: SurroundingsHost,
  ) {
    this.#connection = connection;
    this.#cleanState = cleanState;
    this.#readOnly = readOnly;
    this.#paramLimits = { paramsBytesMax, paramsMax };
    this.#host = host;
  }

  /** Its statement has not been sent yet: it is being prepared, or with --read_only, its transaction begins. */
  get isBeginning(): boolean {
    return this.#isBeginning;
  }

  /** Statements since the connection was as new; the database's counters tell of the first one alone. */
  get statementsSinceReset(): number {
    return this.#statementsSinceReset;
  }

  /** Whether the next statement finds what others have left. */
  get isHeld(): boolean {
    return this.#held?.isHeld === true;
  }

  /** Sends a statement, or tells it that it is not sent. */
  send(execution: Execution, { extras }: ToWorker & { type: 'execute' }): void {
    const { variables, params: given } = extras ?? noExtras;
    const params = given === null ? null : unpacked(given);
    this.#behind = null;
    this.#told = null;
    this.#statementsSinceReset++;
    const refusal = this.#readOnly ? readOnlyRefusal(execution) : null;
    if (refusal !== null) {
      execution.notSent(refusal);
      return;
    }
    const send = (): void => {
      if (this.#readOnly || params !== null) void this.#begin(execution, params);
      else this.#sendNow(execution, execution.sql);
    };
    const commands = this.#preparations(execution, variables);
    if (commands.length === 0) {
      send();
      return;
    }
    this.#connection.together(() => {
      // Those that are refused are passed over; whether the connection is lost, the statement learns too.
      this.#connection
        .pipeline(new Pipeline(commands), (ending) => {
          if (execution.after === 'hold') this.#held?.prepared(ending);
        })
        .catch(() => {});
      send();
    });
  }

  #preparations(execution: Execution, variables: { readonly [name: string]: string }): PlainCommand[] {
    if (execution.after !== 'hold') return setVariables(Object.entries(variables), this.#readOnly);
    const isFirst = this.#held === null;
    this.#held ??= new HeldSession(this.#cleanState.database, this.#readOnly, this.#connection.isMariadb);
    const commands = setVariables(this.#held.begin(variables), this.#readOnly);
    return isFirst ? [track, ...commands] : commands;
  }

  /** Sends a statement when its read-only transaction is known to have begun, and it is prepared; else not at all. */
  async #begin(execution: Execution, params: ParamsToPack | null): Promise<void> {
    const connection = this.#connection;
    this.#isBeginning = true;
    let statement: string | BoundStatement | Cause = execution.sql;
    let failure: DriverError | null = null;
    try {
      // What is as new has no need of the other.
      const begin = execution.after === 'clean' && this.#held === null ? beginReadOnly : beginReadOnlyAgain;
      if (this.#readOnly) await begin.run(connection);
      if (params !== null && !this.#host.isClosed) {
        statement = await prepare(connection, execution, params, this.#paramLimits);
      }
    } catch (error) {
      failure = error as DriverError;
    }
    if (this.#host.isClosed) return;
    this.#isBeginning = false;
    // What was cancelled meanwhile is not sent any more; nobody asks how it failed.
    if (this.#host.isKilled) {
      failure ??= new ServerError(1317, '70100', 'Query execution was interrupted');
      if (typeof statement === 'object' && 'id' in statement) connection.closeStatement(statement.id);
    }
    if (failure !== null) execution.notSent(failure);
    else if (typeof statement === 'object' && 'code' in statement) execution.rejected(statement);
    else this.#sendBegun(execution, statement);
  }

  /** What goes wrong here costs the statement alone, not the thread. */
  #sendBegun(execution: Execution, statement: string | BoundStatement): void {
    try {
      this.#sendNow(execution, statement);
    } catch (error) {
      execution.notSent(error as Error);
    }
  }

  #sendNow(execution: Execution, statement: string | BoundStatement): void {
    const connection = this.#connection;
    if (execution.after === 'hold') {
      this.#sendHeld(execution, statement);
      return;
    }
    const endOfKept = this.#readOnly ? endReadOnly : null;
    const wayBack = execution.after === 'clean' ? this.#wayBack(execution) : endOfKept;
    if (wayBack === null) {
      connection.execute(statement, execution);
      return;
    }
    // In one write with the statement: to wake the database costs it more than to run these.
    this.#behind = connection
      .executeAndThen(statement, execution, wayBack.pipeline)
      .then((errors) => wayBack.check(errors));
    // Whoever waits for it learns of a failure; if nobody does, the connection is gone.
    this.#behind.catch(() => {});
  }

  #sendHeld(execution: Execution, statement: string | BoundStatement): void {
    // What has counts to tell is not followed by a ping without need.
    const behind = this.#readOnly ? endReadOnly : effectOfText(execution) === 'read' ? ping : null;
    if (behind === null) {
      this.#connection.execute(statement, execution);
      return;
    }
    this.#connection.together(() => {
      this.#connection.execute(statement, execution);
      this.#behind = behind.run(this.#connection, (ending) => {
        this.#told = ending;
      });
      // As above.
      this.#behind.catch(() => {});
    });
  }

  /** What makes the connection as new if nothing but the statement has run on it. */
  #wayBack(execution: Execution): WayBack | null {
    return this.#held === null ? this.#cleanState.wayBack(execution) : null;
  }

  /** Whether the commands that were sent with the statement, once they are run, leave nothing to be done. */
  isRestored(execution: Execution): boolean {
    if (this.#host.isKilled || execution.after === 'hold') return false;
    if (execution.after === 'keep') return execution.leftUtf8 === null && (!this.#readOnly || this.#behind !== null);
    return this.#behind !== null && this.#cleanState.isRestoredByWayBack(execution.sessionChanged);
  }

  /**
   * Brings the connection to where the next statement may run on it. No kill may be under way any more.
   * @throws DriverError if it failed; the connection is of no more use then
   */
  async restore(execution: Execution): Promise<void> {
    const connection = this.#connection;
    const { isKilled } = this.#host;
    if (execution.after === 'clean') {
      // A kill may have come late and hit the cleaning.
      if (isKilled) await this.#behind?.catch(() => {});
      else await this.#behind;
      if (!this.isRestored(execution)) await this.#clean(execution);
      this.#statementsSinceReset = 0;
      return;
    }
    if (isKilled) await absorbKill(connection);
    if (this.#readOnly) await this.#endReadOnly();
    if (execution.after === 'hold') {
      await this.#learn(execution);
      if (!this.isHeld) {
        // The end is not to wait for the cleaning.
        execution.tellEnd(false);
        await this.#clean(execution);
        this.#statementsSinceReset = 0;
        return;
      }
    }
    // Not without need: a statement of ours is the last one to which ROW_COUNT() and SHOW WARNINGS refer.
    const left = [execution.leftUtf8, this.#told?.leftUtf8];
    if (left.includes('names')) await connection.query('SET NAMES utf8mb4');
    else if (left.includes('text')) await connection.query(utf8Text);
  }

  async #clean(execution: Execution): Promise<void> {
    const isOnly = this.#statementsSinceReset === 1;
    await this.#cleanState.restore(this.#connection, isOnly ? execution : null);
    this.#held = null;
  }

  /** Ends the transaction of a statement in a kept session, if what was sent behind the statement has not. */
  async #endReadOnly(): Promise<void> {
    const hasEnded = this.#behind !== null && (await this.#behind.then(() => true).catch(() => false));
    if (!hasEnded) await endReadOnly.run(this.#connection);
  }

  /** Learns what a statement has left its session in, for it to tell with its end. */
  async #learn(execution: Execution): Promise<void> {
    // None has been sent yet if the first was refused.
    const held = this.#held ?? new HeldSession(this.#cleanState.database, this.#readOnly, this.#connection.isMariadb);
    await this.#behind?.catch(() => {});
    let told = this.#told;
    if (this.#host.isKilled || (told === null && (this.#readOnly || HeldSession.mustAsk(execution.ending)))) {
      if (told !== null) held.prepared(told);
      await ping.run(this.#connection, (ending) => {
        told = ending;
      });
    }
    // A kill may have hit what was sent before the statement.
    if (this.#host.isKilled) held.forgetVariables();
    held.ended(execution, execution.ending, told);
    this.#told = told;
    execution.session = held.state;
  }
}
