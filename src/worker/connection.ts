import { EventEmitter } from 'node:events';
import {
  type Answer,
  PlainAnswer,
  PrepareAnswer,
  type PreparedStatement,
  type ResultSink,
  StatementAnswer,
} from './answers.ts';
import { type BoundStatement, closePacket, commandPackets, type Pipeline, runPackets } from './commands.ts';
import {
  type ConnectOptions,
  copyOfChunk,
  type DriverLogin,
  logIn,
  loginCharset,
  type PacketParser,
} from './driver.ts';
import type { DriverError } from './failures.ts';
import { kernel } from './kernel.ts';
import { PacketStream } from './packet-stream.ts';
import { isError, type OkPacket, readError } from './packets.ts';
import { type TextRow, TextRows } from './text-rows.ts';

/** Node.js's internal handle of a socket. */
interface WithHandle {
  /** Null when it is closed; `writeQueueSize` counts the bytes that the system has not taken yet. */
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

/**
 * One connection to the database: sends commands and hands the packets of the answers to their readers. Emits `lost` with a
 * reason, once, when the connection is gone and neither `close` nor `destroy` was called. Commands may be sent at any time; the
 * answers come in the same order.
 */
export class Connection extends EventEmitter<{ lost: [reason: string] }> {
  readonly #driver: DriverLogin['driver'];
  readonly #driverParser: PacketParser;
  readonly #stream: PacketStream;
  /** The server's version, such as `8.4.3` or `10.11.6-MariaDB-0+deb12u1`. */
  readonly version: string;
  /** The answers that are expected, in order. */
  readonly #answers: Answer[] = [];
  #closed = false;
  /** Counts chunks received and changes of `#unsentBytes`. */
  #activity = 0;
  #unsentBytes = 0;

  private constructor({ driver, version, onChunk }: DriverLogin, rowBytesMax: number) {
    super();
    this.#driver = driver;
    this.version = version;
    const connection = this;
    const reader = {
      get takeRows() {
        return connection.#answers[0]?.takeRows ?? null;
      },
      packet: (bytes: Buffer, start: number, end: number) => this.#packet(bytes, start, end),
      wantsLarge: (bytesMax: number) => this.#answers[0]?.wantsLarge(bytesMax) ?? true,
      payloadTooLarge: () => this.#answers[0]?.payloadTooLarge(),
    };
    this.#stream = new PacketStream(kernel, reader, rowBytesMax);
    driver.on('error', (error: DriverError) => this.#lose(error));
    driver.stream.on('close', () => this.#lose(new Error('the database closed the connection')));
    this.#driverParser = driver.packetParser;
    driver.packetParser = {
      execute: (chunk) => {
        this.#activity++;
        this.#guard(() => this.#stream.write(chunk));
      },
    };
    onChunk((length) => this.#received(length));
  }

  /** @throws DriverError if the database cannot be reached or refuses the login */
  static async open(options: ConnectOptions): Promise<Connection> {
    return new Connection(await logIn(options), options.rowBytesMax);
  }

  /** The connection's id in the database, as `KILL QUERY` takes it. */
  get id(): number {
    return this.#driver.threadId;
  }

  get isMariadb(): boolean {
    return this.version.includes('MariaDB');
  }

  /** Whether no answer is expected. */
  get isIdle(): boolean {
    return this.#answers.length === 0;
  }

  /** A count that changes when the database has sent or accepted data; null while the connection is paused. */
  get activity(): number | null {
    if (this.#stream.isPaused) return null;
    const unsentBytes = (this.#driver.stream as WithHandle)._handle?.writeQueueSize ?? 0;
    if (unsentBytes !== this.#unsentBytes) this.#activity++;
    this.#unsentBytes = unsentBytes;
    return this.#activity;
  }

  /** Sends a statement; the sink receives its result. A prepared statement is closed after it has run. */
  execute(statement: string | BoundStatement, sink: ResultSink): void {
    this.#expect(this.#statementAnswer(statement, sink));
    this.#write(statementPackets(statement));
  }

  /**
   * @param columnsMax the definitions of more columns are not kept; 0: none are
   * @throws DriverError
   */
  prepare(sql: string, columnsMax = 0): Promise<PreparedStatement> {
    return new Promise((resolve, reject) => {
      const reading = { columnsMax, extendedMetadata: this.#driver._mariadbExtendedMetadata };
      this.#expect(new PrepareAnswer(resolve, reject, reading));
      this.#write(commandPackets({ type: 'prepare', sql }));
    });
  }

  /** Closes a prepared statement that is not run. */
  closeStatement(id: number): void {
    this.#write(closePacket(id));
  }

  /**
   * Sends a statement and commands that follow it in one write. The commands run even if the statement fails.
   * @returns see `pipeline`
   * @throws DriverError if the connection is lost
   */
  executeAndThen(
    statement: string | BoundStatement,
    sink: ResultSink,
    pipeline: Pipeline,
  ): Promise<(DriverError | null)[]> {
    this.#expect(this.#statementAnswer(statement, sink));
    const errors = this.#expectAll(pipeline);
    this.#write(statementPackets(statement, pipeline.bytes));
    return errors;
  }

  /**
   * Sends commands in one write.
   * @param onOk receives the OK packets of commands that succeed without rows, in order
   * @returns for each command its error, or null if it succeeded
   * @throws DriverError if the connection is lost
   */
  pipeline(pipeline: Pipeline, onOk: ((packet: OkPacket) => void) | null = null): Promise<(DriverError | null)[]> {
    const errors = this.#expectAll(pipeline, onOk);
    this.#write(pipeline.bytes);
    return errors;
  }

  /** Has everything that `send` sends go out in one write. */
  together<T>(send: () => T): T {
    const { stream } = this.#driver;
    stream.cork();
    try {
      return send();
    } finally {
      stream.uncork();
    }
  }

  /**
   * Runs a statement of our own whose result is small.
   * @throws DriverError
   */
  query(sql: string): Promise<TextRow[]> {
    return new Promise((resolve, reject) => this.execute(sql, new TextRows(resolve, reject)));
  }

  /**
   * COM_CHANGE_USER to the same user, with no schema selected (MySQL manual, "mysql_change_user()"). To be called while no
   * answer is expected.
   * @throws DriverError if the user may no longer log in; the connection must be closed then
   */
  async changeUser(): Promise<void> {
    // The command is a login, which the driver does.
    const ours = this.#driver.packetParser;
    this.#driver.packetParser = this.#driverParser;
    await new Promise<void>((resolve, reject) => {
      this.#driver.changeUser({ charset: loginCharset }, (error) => (error ? reject(error) : resolve()));
    });
    this.#driver.packetParser = ours;
  }

  /** Stops reading the socket, and keeps back the packets that were already read. */
  pause(): void {
    this.#stream.pause();
    this.#driver.stream.pause();
  }

  resume(): void {
    this.#guard(() => {
      if (!this.#stream.resume()) this.#driver.stream.resume();
    });
  }

  /** Drops the large row that is being received, the part that has yet to arrive included. */
  dropLarge(): void {
    this.#stream.dropLarge();
  }

  /** Closes an idle connection by COM_QUIT. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#driver.end();
  }

  /** Closes the socket at once. A running statement may run on in the database. Commands under way fail with the reason. */
  destroy(reason = 'the connection was given up'): void {
    this.#closed = true;
    this.#driver.stream.destroy();
    this.#stream.dropLarge();
    const answers = this.#answers.splice(0);
    // The caller finishes its own work first.
    queueMicrotask(() => {
      for (const answer of answers) answer.failed(new Error(reason));
    });
  }

  #statementAnswer(statement: string | BoundStatement, sink: ResultSink): StatementAnswer {
    return new StatementAnswer(sink, this.#driver._mariadbExtendedMetadata, typeof statement !== 'string');
  }

  #expect(answer: Answer): void {
    if (this.#closed) throw new Error('a command was given to a connection that is closed');
    this.#answers.push(answer);
  }

  #expectAll({ length }: Pipeline, onOk: ((packet: OkPacket) => void) | null = null): Promise<(DriverError | null)[]> {
    return new Promise((resolve, reject) => {
      const errors: (DriverError | null)[] = [];
      const done = (error: DriverError | null): void => {
        errors.push(error);
        if (errors.length === length) resolve(errors);
      };
      for (let command = 0; command < length; command++) this.#expect(new PlainAnswer(done, reject, onOk));
    });
  }

  #write(bytes: Buffer): void {
    this.#driver.stream.write(bytes);
  }

  #received(length: number): void {
    this.#activity++;
    const { packetParser } = this.#driver;
    if (packetParser === this.#driverParser) packetParser.execute(copyOfChunk(length));
    else this.#guard(() => this.#stream.received(length));
  }

  #packet(bytes: Buffer, start: number, end: number): void {
    if (this.#closed) return;
    const answer = this.#answers[0];
    if (answer === undefined) {
      const error = isError(bytes, start)
        ? readError(bytes, start, end)
        : new Error('it sent an answer that nobody had requested');
      this.#lose(error);
    } else if (answer.packet(bytes, start, end)) {
      this.#answers.shift();
    }
  }

  /** Closes the connection if a packet violates the protocol. */
  #guard(take: () => void): void {
    try {
      if (!this.#closed) take();
    } catch (error) {
      this.#lose(error as Error);
    }
  }

  #lose(error: DriverError): void {
    if (this.#closed) return;
    const answers = this.#answers.splice(0);
    this.destroy();
    for (const answer of answers) answer.failed(error);
    this.emit('lost', error.message);
  }
}

function statementPackets(statement: string | BoundStatement, others?: Buffer): Buffer {
  return typeof statement === 'string'
    ? commandPackets({ type: 'query', sql: statement }, others)
    : runPackets(statement, others);
}
