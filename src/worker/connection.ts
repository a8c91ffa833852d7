import { EventEmitter } from 'node:events';
import mysql from 'mysql2';
import type { DatabaseAddress } from '../wire/messages.ts';
import type { ColumnDefinition } from './columns.ts';
import type { DriverError } from './failures.ts';
import { type Ending, readColumnCount, readColumnDefinition, readEof, readOk } from './packets.ts';

/*
 * The only file that knows mysql2. It uses the driver for connecting, logging in and framing packets, and takes the
 * packets of a result itself, by a command whose states replace the driver's (`lib/commands/query.js`). The
 * package's version is pinned, and test/worker/connection.test.ts fails if the inside used here changes.
 */

interface DriverPacket {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly end: number;
  isEOF(): boolean;
  isError(): boolean;
  asError(encoding: string): DriverError;
}

/** A state takes the next packet and returns the next state, or null at the end of the command. */
type CommandState = (packet: DriverPacket, connection: DriverConnection) => CommandState | null;

interface QueryCommand {
  start(packet: DriverPacket | undefined, connection: DriverConnection): unknown;
  /** Hands a packet, or none at the start, to the command; returns whether that was its last. */
  execute(packet: DriverPacket | undefined, connection: DriverConnection): boolean;
}

interface DriverConnection extends EventEmitter {
  readonly threadId: number;
  readonly clientEncoding: string;
  readonly stream: EventEmitter & { destroy(): void };
  readonly _mariadbExtendedMetadata: boolean;
  /** The number that the next packet of an answer must bear. */
  sequenceId: number;
  write(bytes: Buffer): void;
  addCommand(command: QueryCommand): void;
  changeUser(options: object, done: (error: DriverError | null) => void): void;
  pause(): void;
  resume(): void;
  end(): void;
}

type QueryCommandClass = new (options: { sql: string }, done: (error: DriverError) => void) => QueryCommand;

interface DriverModule {
  createQuery(sql: string, values: undefined, done: undefined, config: object): QueryCommand;
}

/** The class of the driver's own command for a statement, which it does not export. */
const QueryCommand = (mysql as unknown as DriverModule).createQuery('', undefined, undefined, {})
  .constructor as QueryCommandClass;

/** Takes what a statement gives back, packet by packet. The bytes of a row are only valid during the call. */
export interface ResultSink {
  columns(definitions: readonly ColumnDefinition[]): void;
  row(bytes: Buffer, start: number, end: number): void;
}

class SinkCommand extends QueryCommand {
  readonly #sink: ResultSink;
  readonly #ended: (ending: Ending) => void;
  #columnCount = 0;
  #columns: ColumnDefinition[] = [];

  constructor(sql: string, sink: ResultSink, ended: (ending: Ending) => void, failed: (error: DriverError) => void) {
    super({ sql }, failed);
    this.#sink = sink;
    this.#ended = ended;
  }

  override start(packet: DriverPacket | undefined, connection: DriverConnection): CommandState {
    super.start(packet, connection);
    return this.#header;
  }

  #header(packet: DriverPacket, connection: DriverConnection): CommandState | null {
    const first = packet.buffer[packet.offset];
    if (first === 0x00) return this.#endOf(readOk(packet.buffer, packet.offset, packet.end));
    if (first === 0xfb) {
      // The connection has not agreed to LOCAL INFILE, so that no honest server asks for a file.
      connection.stream.destroy();
      return this.#header;
    }
    this.#columnCount = readColumnCount(packet.buffer, packet.offset);
    this.#columns = [];
    return this.#column;
  }

  #column(packet: DriverPacket, connection: DriverConnection): CommandState {
    this.#columns.push(readColumnDefinition(packet.buffer, packet.offset, connection._mariadbExtendedMetadata));
    return this.#columns.length === this.#columnCount ? this.#columnsEnd : this.#column;
  }

  #columnsEnd(): CommandState {
    this.#sink.columns(this.#columns);
    return this.#row;
  }

  #row(packet: DriverPacket): CommandState | null {
    if (packet.isEOF()) return this.#endOf(readEof(packet.buffer, packet.offset));
    this.#sink.row(packet.buffer, packet.offset, packet.end);
    return this.#row;
  }

  #endOf(ending: Ending): CommandState | null {
    if (ending.moreResults) return this.#header;
    this.#ended(ending);
    return null;
  }
}

/** A command of the protocol that takes one round trip (MySQL internals manual, "Command Phase"). */
export type PlainCommand =
  | { readonly type: 'query'; readonly sql: string }
  | { readonly type: 'init db'; readonly database: string }
  | { readonly type: 'reset connection' };

const commandCodes = { 'init db': 0x02, query: 0x03, 'reset connection': 0x1f } as const;

/** Commands made ready to be sent, as often as one likes. */
export class Pipeline {
  readonly bytes: Buffer;
  readonly length: number;

  constructor(commands: readonly PlainCommand[]) {
    this.bytes = Buffer.concat(commands.map(commandPacket));
    this.length = commands.length;
  }
}

function commandPacket(command: PlainCommand): Buffer {
  const text = command.type === 'query' ? command.sql : command.type === 'init db' ? command.database : '';
  const bytes = Buffer.alloc(5 + Buffer.byteLength(text));
  bytes.writeUIntLE(bytes.length - 4, 0, 3);
  bytes[4] = commandCodes[command.type];
  bytes.write(text, 5);
  return bytes;
}

/**
 * Several commands in one write, each of them answered in turn; rows are dropped. One that fails does not keep the
 * others from being run.
 */
class PipelineCommand extends QueryCommand {
  readonly #pipeline: Pipeline;
  readonly #ended: (errors: (DriverError | null)[]) => void;
  readonly #errors: (DriverError | null)[] = [];
  /** Packets of an answer that are neither rows nor its end: the columns, and the EOF after them. */
  #columnPackets = 0;
  #inRows = false;
  #started = false;

  constructor(
    pipeline: Pipeline,
    ended: (errors: (DriverError | null)[]) => void,
    failed: (error: DriverError) => void,
  ) {
    super({ sql: '' }, failed);
    this.#pipeline = pipeline;
    this.#ended = ended;
  }

  /** The driver's own would end at the first error. */
  override execute(packet: DriverPacket | undefined, connection: DriverConnection): boolean {
    if (!this.#started || packet === undefined) {
      this.#started = true;
      connection.sequenceId = 1;
      connection.write(this.#pipeline.bytes);
      return false;
    }
    if (!this.#endsAnswer(packet, connection)) return false;
    // Each answer is numbered anew, from the one packet of its command on.
    connection.sequenceId = 1;
    if (this.#errors.length < this.#pipeline.length) return false;
    this.#ended(this.#errors);
    return true;
  }

  #endsAnswer(packet: DriverPacket, connection: DriverConnection): boolean {
    if (packet.isError()) {
      this.#errors.push(packet.asError(connection.clientEncoding));
      this.#inRows = false;
      return true;
    }
    if (this.#columnPackets > 0) {
      this.#columnPackets--;
      this.#inRows = this.#columnPackets === 0;
      return false;
    }
    if (!this.#inRows && packet.buffer[packet.offset] !== 0x00) {
      this.#columnPackets = readColumnCount(packet.buffer, packet.offset) + 1;
      return false;
    }
    if (this.#inRows && !packet.isEOF()) return false;
    this.#inRows = false;
    this.#errors.push(null);
    return true;
  }
}

export interface ConnectOptions {
  readonly address: DatabaseAddress;
  readonly user: string;
  readonly password: string;
  readonly timeoutMs: number;
}

/**
 * One connection to the database. Emits `lost` with a reason, once, when the connection is gone and `close` or
 * `destroy` was not called. Statements run one at a time; a second one waits in the driver.
 */
export class Connection extends EventEmitter<{ lost: [reason: string] }> {
  readonly #driver: DriverConnection;
  readonly isMariadb: boolean;
  #closed = false;

  private constructor(driver: DriverConnection, isMariadb: boolean) {
    super();
    this.#driver = driver;
    this.isMariadb = isMariadb;
    driver.on('error', (error: DriverError) => this.#lose(error.message));
    driver.stream.on('close', () => this.#lose('the database closed the connection'));
  }

  /** @throws DriverError if the database cannot be reached or refuses the login */
  static async open(options: ConnectOptions): Promise<Connection> {
    const { address } = options;
    const where =
      'socketPath' in address
        ? { socketPath: address.socketPath }
        : {
            host: address.host,
            port: address.port,
            ...(address.tls === 'off' ? {} : { ssl: { rejectUnauthorized: address.tls === 'verify' } }),
          };
    const driver = mysql.createConnection({
      ...where,
      user: options.user,
      password: options.password,
      connectTimeout: options.timeoutMs,
      charset: 'UTF8MB4_GENERAL_CI',
      connectAttributes: { program_name: 'sluice' },
      // The driver makes room for as many at once, 16,000 by default and 500 KB; we prepare none through it.
      maxPreparedStatements: 1,
      // As the native clients have it: affected rows are those changed, and SQL is read as it stands. Without
      // LOCAL_FILES the server refuses LOAD DATA LOCAL by itself.
      // Query attributes would come before the text of every statement.
      flags: ['-FOUND_ROWS', '-IGNORE_SPACE', '-LOCAL_FILES', '-CLIENT_QUERY_ATTRIBUTES'],
    }) as unknown as DriverConnection;
    const handshake = await new Promise<{ serverVersion: string }>((resolve, reject) => {
      driver.once('connect', resolve);
      driver.once('error', reject);
    }).catch((error: unknown) => {
      // A second error of the same attempt must not be thrown for want of a listener.
      driver.on('error', () => {});
      driver.stream.destroy();
      throw error;
    });
    driver.removeAllListeners('error');
    return new Connection(driver, handshake.serverVersion.includes('MariaDB'));
  }

  /** The id by which `KILL QUERY` knows the connection. */
  get id(): number {
    return this.#driver.threadId;
  }

  /** @throws DriverError if the statement fails or the connection is lost */
  execute(sql: string, sink: ResultSink): Promise<Ending> {
    return new Promise((resolve, reject) => {
      this.#driver.addCommand(new SinkCommand(sql, sink, resolve, reject));
    });
  }

  /** Runs a statement of our own and gives its rows back as text. */
  async query(sql: string): Promise<(string | null)[][]> {
    const rows: (string | null)[][] = [];
    let columns = 0;
    await this.execute(sql, {
      columns: (definitions) => {
        columns = definitions.length;
      },
      row: (bytes, start) => {
        const row: (string | null)[] = [];
        let at = start;
        for (let column = 0; column < columns; column++) {
          const length = bytes[at++] as number;
          // Our own statements ask for short values only.
          if (length < 0xfb) row.push(bytes.toString('utf8', at, at + length));
          else row.push(null);
          at += length < 0xfb ? length : 0;
        }
        rows.push(row);
      },
    });
    return rows;
  }

  /**
   * Sends commands in one write.
   * @returns for each of them its error, or null if it succeeded
   * @throws DriverError if the connection is lost
   */
  pipeline(pipeline: Pipeline): Promise<(DriverError | null)[]> {
    return new Promise((resolve, reject) => {
      this.#driver.addCommand(new PipelineCommand(pipeline, resolve, reject));
    });
  }

  /**
   * COM_CHANGE_USER to the same user, with no database selected (MySQL manual, "mysql_change_user()").
   * @throws DriverError if the user may no longer log in; the connection is of no more use then
   */
  changeUser(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#driver.changeUser({ charset: 'UTF8MB4_GENERAL_CI' }, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Stops reading the socket; what has been read already comes after `resume`. */
  pause(): void {
    this.#driver.pause();
  }

  resume(): void {
    this.#driver.resume();
  }

  /** Says goodbye to an idle connection. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#driver.end();
  }

  /** Drops the connection at once. A statement that runs on it may run on in the database. */
  destroy(): void {
    this.#closed = true;
    this.#driver.stream.destroy();
  }

  #lose(reason: string): void {
    if (this.#closed) return;
    this.destroy();
    this.emit('lost', reason);
  }
}
