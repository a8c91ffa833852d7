import type { Format } from '../formats/format.ts';
import { formats } from '../formats/index.ts';
import { type Cause, causes, type Failure, failureOf, interrupted, lostBefore, undelivered } from '../wire/failures.ts';
import { fileTrouble } from '../wire/file-trouble.ts';
import type { StatementEnd, ToWorker } from '../wire/messages.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
import { effectOfText, type SqlTraits, saysNothing } from '../wire/sql-traits.ts';
import { type Afterwards, type Batch, defaultOptions, type SessionState } from '../wire/statement.ts';
import type { ResultSink } from './answers.ts';
import { invalidCell } from './cells.ts';
import type { ColumnDefinition } from './columns.ts';
import { type DriverError, emptyStatement, notSentFailure, statementFailure } from './failures.ts';
import type { KernelStop } from './kernel.ts';
import type { OkPacket } from './packets.ts';
import { resultColumns } from './result-columns.ts';
import { RowOutput } from './row-output.ts';
import type { RowOutputHost, RowOutputListener, RowSource } from './row-output-host.ts';
import { mayHideEncoding, setsUnscoped } from './untracked.ts';

const notUtf8 = causes.notUtf8();

/**
 *     running ──▶ ended ──▶ draining ──▶ over
 *        │          │                     ▲
 *        │          └─────────────────────┤
 *        └──▶ discarding ─────────────────┘
 *
 * - running: the database runs the statement, and its rows are sent to the reader
 * - ended: the database is done with it, and its result has yet to be reported
 * - draining: its result is reported once its last rows are on disk; they are sent as the reader takes them, while the connection
 *   runs other statements
 * - discarding: its failure is reported, or its result is not wanted any more; the database still runs it, and its rows are dropped
 */
type ExecutionPhase = 'running' | 'ended' | 'draining' | 'discarding' | 'over';

const transitions: Transitions<ExecutionPhase> = {
  running: ['ended', 'discarding'],
  ended: ['draining', 'over'],
  draining: ['over'],
  discarding: ['over'],
  over: [],
};

/** The executor of a statement. */
export interface ExecutionHost extends RowOutputHost {
  /** The statement has failed on our side: end it in the database. */
  stop(execution: Execution): void;
  /** The database is done with the statement. @param error the database's error if it reported one */
  ended(execution: Execution, error: DriverError | null): void;
  /** The rows that were on disk when the statement ended have been delivered, or are lost. */
  delivered(execution: Execution): void;
}

/** One statement on the connection: turns the database's answer into its result, and reports that to the main thread. */
export class Execution implements ResultSink, RowOutputListener {
  readonly number: number;
  readonly after: Afterwards;
  /** Whether it belongs to no session, so that a failure affects nothing else. */
  readonly isStandalone: boolean;
  readonly sql: string;
  readonly traits: SqlTraits | undefined;
  /** The state that it has left its session in, to be reported with its result; null if it is not reported. */
  session: SessionState | null = null;
  /** Whether the binary protocol has the same values for its columns (see `isSentAlike`). */
  areSentAlike = false;
  /** The rows that were to be sent to the reader; 0 until it has ended. */
  rowCount = 0;
  readonly #host: ExecutionHost;
  readonly #output: RowOutput;
  readonly #format: Format;
  #phase: ExecutionPhase = 'running';
  /** Null until it is known. */
  #result: StatementEnd | null = null;
  #okPacket: OkPacket | null = null;
  /** Why its rows cannot be sent. The statement runs to its end, and fails then. */
  #undeliverable: Cause | null = null;

  constructor(message: ToWorker & { type: 'execute' }, source: RowSource, host: ExecutionHost, isStandalone: boolean) {
    this.number = message.statement;
    this.after = message.after;
    this.isStandalone = isStandalone;
    this.sql = message.sql;
    this.traits = message.traits;
    this.#format = formats[(message.options ?? defaultOptions).format];
    this.#host = host;
    this.#output = new RowOutput(message, this, source, host);
  }

  get saysNothing(): boolean {
    return this.traits?.saysNothing ?? saysNothing(this.sql);
  }

  /** Whether the database is done with the statement. */
  get hasEnded(): boolean {
    return this.#phase !== 'running' && this.#phase !== 'discarding';
  }

  /** Whether it has ended and rows of it have yet to be delivered. */
  get hasRowsToCome(): boolean {
    return this.hasEnded && this.#output.isSpilling;
  }

  /** The packet that ended it; null if it has not ended, or has failed. */
  get okPacket(): OkPacket | null {
    return this.#okPacket;
  }

  /** See `OkPacket`; null also if the statement has failed. What the database does not report is concluded from the SQL. */
  get leftUtf8(): OkPacket['leftUtf8'] {
    const packet = this.#okPacket;
    if (this.#undeliverable === notUtf8) return packet?.leftUtf8 ?? 'text';
    if (packet === null) return null;
    return packet.leftUtf8 ?? (mayHideEncoding(this, packet.changes) ? 'text' : null);
  }

  /** Whether it may have changed its session. The database does not report that of a statement that fails. */
  get sessionChanged(): boolean {
    return this.#okPacket?.sessionChanged !== false || setsUnscoped(this);
  }

  get columnsMax(): number {
    return this.#host.limits.columnsMax;
  }

  tooManyColumns(): void {
    const isFirst = !this.#output.hasColumns;
    if (isFirst) this.#output.omitColumns();
    else this.#output.dropRows();
    const cause = isFirst ? causes.columnsTooMany(this.columnsMax) : causes.manyResultSets();
    this.#undeliverable ??= cause;
    if (isFirst && !this.#isReported) this.#failRead(cause);
  }

  columns(definitions: readonly ColumnDefinition[], isBinary: boolean): void {
    if (this.#output.hasColumns) {
      this.#undeliverable ??= causes.manyResultSets();
      this.#output.dropRows();
      return;
    }
    const { columns, areInUtf8, areSentAlike, format } = resultColumns(definitions, this.#format, isBinary);
    this.areSentAlike = areSentAlike;
    this.#output.setColumns(columns);
    if (!areInUtf8) this.#undeliverable = notUtf8;
    if (this.#isReported) return;
    if (areInUtf8) this.#output.start(format, { columns, definitions, isBinary });
    else this.#failRead(notUtf8);
  }

  rows(from: number, to: number): KernelStop {
    return this.#output.rows(from, to);
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.#output.row(bytes, start, end);
  }

  wantsLargeRow(bytesMax: number): boolean {
    return this.#output.wantsLargeRow(bytesMax);
  }

  rowTooLarge(): void {
    // Dropped rows have no size limit.
    if (!this.#output.wantsRows) return;
    this.#failHere(causes.rowTooLarge(this.#host.limits.rowBytesMax));
  }

  unrepresentable(cause: Cause): void {
    this.#undeliverable ??= cause;
    this.#output.dropRows();
    if (this.#okPacket === null && !this.#isReported) this.#failRead(cause);
  }

  ended(packet: OkPacket): void {
    this.#okPacket = packet;
    this.#output.complete();
    this.rowCount = this.#output.rowCount;
    if (this.#undeliverable === null && this.#hasForeignText(packet)) this.#undeliverable = notUtf8;
    if (this.#undeliverable !== null) {
      this.#output.dropRows();
      this.#end({ ok: false, failure: undelivered(this.#undeliverable, effectOfText(this)) }, null);
    } else if (!this.#output.hasColumns && this.saysNothing) {
      this.#end({ ok: false, failure: emptyStatement }, null);
    } else {
      this.#end({ ok: true, outcome: packet.outcome, rowsToCome: 0 }, null);
    }
  }

  /**
   * Whether the rows have text in another character set although the column definitions say UTF-8. MySQL defines JSON columns as
   * binary, and never sends invalid JSON. MariaDB sends rows in another character set once a stored function has set it, and
   * reports a session change at their end; in a tracked transaction it always does.
   */
  #hasForeignText({ sessionChanged, inTransaction }: OkPacket): boolean {
    const { invalid } = this.#output;
    if (invalid === 0) return false;
    return (invalid & invalidCell.json) !== 0 || (sessionChanged && !(inTransaction && this.after === 'pin'));
  }

  failed(error: DriverError): void {
    this.#end({ ok: false, failure: statementFailure(error, effectOfText(this), this.isStandalone) }, error);
  }

  /** The statement is not sent, since preparing it or a command before it has failed. */
  notSent(error: DriverError): void {
    this.#end({ ok: false, failure: notSentFailure(error, this.isStandalone) }, error);
  }

  /** The statement is not sent, for a reason of ours. */
  rejected(cause: Cause): void {
    this.#end({ ok: false, failure: failureOf(cause, 'not_started') }, null);
  }

  /** The reader takes this much more. */
  credit(bytes: number, rows: number): void {
    this.#output.credit(bytes, rows);
  }

  /** The main thread has reserved memory for the large row. */
  memoryGranted(): void {
    this.#output.memoryGranted();
  }

  /** The result is not wanted any more. The rest of it is read and dropped: the database cannot end while its socket is full. */
  abandon(): void {
    if (this.#phase === 'running') this.#moveTo('discarding');
    else if (this.#phase === 'ended') this.#moveTo('over');
    this.close();
  }

  /** The connection is lost before the end of the statement. */
  lost(reason: string, wasSent: boolean): void {
    this.#fail(
      wasSent
        ? interrupted(causes.connectionLost(reason), effectOfText(this), this.isStandalone)
        : lostBefore(reason, this.isStandalone),
    );
  }

  /**
   * Reports the last rows and the result, unless that is done. While rows are being written to disk, the result follows them.
   * @param isIdle whether to report as well that the connection is ready for its next statement
   * @returns whether the update reports `isIdle`
   */
  reportResult(isIdle: boolean): boolean {
    const result = this.#result;
    if (this.#isReported || result === null) return false;
    const output = this.#output;
    const isDraining = result.ok && output.isSpilling;
    if (this.#phase === 'running') this.#moveTo('discarding');
    else this.#moveTo(isDraining ? 'draining' : 'over');
    const last = output.takeLast();
    if (isDraining) {
      output.drain(last, (rowsToCome) => this.#postResult(null, { ...result, rowsToCome }));
      return false;
    }
    output.close();
    this.#postResult(last, result, isIdle);
    return isIdle;
  }

  /** Drops what has not been sent, and frees memory, disk space and timers. */
  close(): void {
    if (this.#phase === 'draining') this.#moveTo('over');
    this.#output.close();
  }

  /** For `RowOutput`. */
  rowsLost(error: NodeJS.ErrnoException): void {
    const cause = causes.spillFailed(fileTrouble(error));
    // The rows that have not been sent come after the lost ones.
    this.#output.dropRows();
    if (!this.hasEnded) {
      this.#failHere(cause);
      return;
    }
    // The statement has taken effect.
    this.#moveTo('over');
    this.#postResult(null, { ok: false, failure: undelivered(cause, effectOfText(this)) });
    this.#host.delivered(this);
  }

  /** For `RowOutput`. */
  rowsDelivered(): void {
    this.#moveTo('over');
    this.#host.delivered(this);
  }

  /** Whether the main thread has the result, or does not want it any more. */
  get #isReported(): boolean {
    return this.#phase !== 'running' && this.#phase !== 'ended';
  }

  #end(result: StatementEnd, error: DriverError | null): void {
    // An error that ends the connection comes twice: from the database, and again when the executor destroys the connection.
    if (this.hasEnded) return;
    this.#result = result;
    this.#moveTo(this.#phase === 'discarding' ? 'over' : 'ended');
    this.#host.ended(this, error);
  }

  #fail(failure: Failure): void {
    this.#result = { ok: false, failure };
    this.reportResult(false);
  }

  /** Reports that the statement has failed for a reason of ours, and has it ended in the database. */
  #failHere(cause: Cause): void {
    this.#fail(interrupted(cause, effectOfText(this), this.isStandalone));
    this.#host.stop(this);
  }

  /** Does so only if the statement is a read. Any other runs to its end, so that its effect is known. */
  #failRead(cause: Cause): void {
    if (effectOfText(this) === 'read') this.#failHere(cause);
  }

  #postResult(batch: Batch | null, end: StatementEnd, isIdle = false): void {
    const { session } = this;
    this.#output.post(batch, { end, ...(session === null ? {} : { session }), ...(isIdle ? { idle: true } : {}) });
  }

  #moveTo(phase: ExecutionPhase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }
}
