import { EventEmitter } from 'node:events';
import { connect, type Socket } from 'node:net';
import { checkServerIdentity, type TLSSocket } from 'node:tls';
import mysql from 'mysql2';
import type { DatabaseAddress, DatabaseTls } from '../wire/messages.ts';
import { type Answer, PlainAnswer, PrepareAnswer, type ResultSink, StatementAnswer } from './answers.ts';
import { type BoundStatement, closePacket, commandPackets, type Pipeline, runPackets } from './commands.ts';
import type { DriverError } from './failures.ts';
import { headroomBytes, kernel, readBytes } from './kernel.ts';
import { PacketStream } from './packet-stream.ts';
import { type Ending, isError, type Prepared, readError } from './packets.ts';

/*
 * The only file that knows mysql2. The driver connects, negotiates TLS and logs in; from then on we write the commands
 * and take the packets of their answers ourselves, by standing in for the driver's parser of packets. The package's
 * version is pinned, and test/worker/connection.test.ts fails if the inside used here changes.
 */

interface PacketParser {
  execute(chunk: Buffer): void;
}

/** Of a socket, what lies under it. */
interface WithHandle {
  /** Null when it is closed; `writeQueueSize` counts the bytes that the system has not taken yet. */
  readonly _handle?: { readonly writeQueueSize?: number } | null;
}

interface DriverConnection extends EventEmitter {
  readonly threadId: number;
  /** The socket, or after a change to TLS what stands before it. */
  readonly stream: Socket;
  /** Is given whatever the stream reads. */
  packetParser: PacketParser;
  readonly _mariadbExtendedMetadata: boolean;
  /** Puts TLS before the stream; `onSecure` goes on with the login, or fails it. */
  startTLS(onSecure: (error?: Error) => void): void;
  changeUser(options: object, done: (error: DriverError | null) => void): void;
  end(): void;
}

export interface ConnectOptions {
  readonly address: DatabaseAddress;
  readonly user: string;
  readonly password: string;
  readonly timeoutMs: number;
  /** The most that is kept in memory of one row as the database sends it. */
  readonly rowBytesMax: number;
}

/**
 * One connection to the database. Emits `lost` with a reason, once, when the connection is gone and `close` or
 * `destroy` was not called. Commands may be given at any time; their answers come in the same order.
 */
export class Connection extends EventEmitter<{ lost: [reason: string] }> {
  readonly #driver: DriverConnection;
  readonly #driverParser: PacketParser;
  readonly #stream: PacketStream;
  /** The server's, such as `8.4.3` or `10.11.6-MariaDB-0+deb12u1`. */
  readonly version: string;
  /** Those awaited, in order. */
  readonly #answers: Answer[] = [];
  #closed = false;
  #signs = 0;
  #unsentBytes = 0;

  private constructor(driver: DriverConnection, version: string, rowBytesMax: number) {
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
        this.#signs++;
        this.#guard(() => this.#stream.write(chunk));
      },
    };
  }

  /** @throws DriverError if the database cannot be reached or refuses the login */
  static async open(options: ConnectOptions): Promise<Connection> {
    const { address } = options;
    let received = (length: number): void => driver.packetParser.execute(copyOfChunk(length));
    const driver = mysql.createConnection({
      // Under TLS the socket's bytes are not for us, and what lies under TLS cannot be read to a buffer of ours.
      ...('host' in address && address.tls !== null
        ? { host: address.host, port: address.port, ssl: tlsOptions(address.tls) }
        : { stream: () => openSocket(address, (length) => received(length)) }),
      // Over a Unix socket the driver may send a password as it is.
      ...('socketPath' in address ? { socketPath: address.socketPath } : {}),
      user: options.user,
      password: options.password,
      connectTimeout: options.timeoutMs,
      charset: 'UTF8MB4_GENERAL_CI',
      connectAttributes: { program_name: 'sluice' },
      // The driver makes room for as many at once, 16,000 by default and 500 KB; we prepare none through it.
      maxPreparedStatements: 1,
      // As the native clients have it: affected rows are those changed, and SQL is read as it stands. Without
      // LOCAL_FILES the server refuses LOAD DATA LOCAL by itself.
      // Query attributes would come before the text of every statement. What is prepared may call a procedure that has rows.
      flags: ['-FOUND_ROWS', '-IGNORE_SPACE', '-LOCAL_FILES', '-CLIENT_QUERY_ATTRIBUTES', 'PS_MULTI_RESULTS'],
    }) as unknown as DriverConnection;
    if ('host' in address && address.tls !== null) guardTls(driver, address.host, address.tls);
    const handshake = await new Promise<{ serverVersion: string }>((resolve, reject) => {
      driver.once('connect', resolve);
      driver.once('error', reject);
    }).catch((error: unknown) => {
      // A second error of the same attempt must not be thrown for want of a listener.
      driver.on('error', () => {});
      driver.stream.destroy();
      if ((error as DriverError).code !== 'HANDSHAKE_NO_SSL_SUPPORT') throw error;
      throw new Error('it does not offer TLS, which the ssl-mode of --mysql_url asks for; turn TLS on in the database');
    });
    driver.removeAllListeners('error');
    const connection = new Connection(driver, handshake.serverVersion, options.rowBytesMax);
    received = (length) => connection.#received(length);
    return connection;
  }

  /** The id by which `KILL QUERY` knows the connection. */
  get id(): number {
    return this.#driver.threadId;
  }

  get isMariadb(): boolean {
    return this.version.includes('MariaDB');
  }

  /** Whether every command has been answered. */
  get isIdle(): boolean {
    return this.#answers.length === 0;
  }

  /**
   * A count that grows whenever the database has sent something, or taken some of what it is sent; null while it is not
   * listened to.
   */
  countSigns(): number | null {
    if (this.#stream.isPaused) return null;
    const unsentBytes = (this.#driver.stream as WithHandle)._handle?.writeQueueSize ?? 0;
    if (unsentBytes !== this.#unsentBytes) this.#signs++;
    this.#unsentBytes = unsentBytes;
    return this.#signs;
  }

  /** Sends a statement; what becomes of it, the sink is told. One that was prepared is closed behind it. */
  execute(statement: string | BoundStatement, sink: ResultSink): void {
    this.#await(new StatementAnswer(sink, this.#driver._mariadbExtendedMetadata));
    this.#write(statementPackets(statement));
  }

  /**
   * Has a statement prepared.
   * @throws DriverError
   */
  prepare(sql: string): Promise<Prepared> {
    return new Promise((resolve, reject) => {
      this.#await(new PrepareAnswer(resolve, reject));
      this.#write(commandPackets({ type: 'prepare', sql }));
    });
  }

  /** Lets a statement go that was prepared, and not run. */
  closeStatement(id: number): void {
    this.#write(closePacket(id));
  }

  /**
   * Sends a statement and, in the same write, commands that are to be run when it has ended, whatever became of it.
   * @returns the errors of the commands, as `pipeline` does
   * @throws DriverError if the connection is lost
   */
  executeAndThen(
    statement: string | BoundStatement,
    sink: ResultSink,
    pipeline: Pipeline,
  ): Promise<(DriverError | null)[]> {
    this.#await(new StatementAnswer(sink, this.#driver._mariadbExtendedMetadata));
    const errors = this.#awaitAll(pipeline);
    this.#write(statementPackets(statement, pipeline.bytes));
    return errors;
  }

  /**
   * Sends commands in one write.
   * @param told is given the ends of those that succeed without rows, in order
   * @returns for each of them its error, or null if it succeeded
   * @throws DriverError if the connection is lost
   */
  pipeline(pipeline: Pipeline, told: ((ending: Ending) => void) | null = null): Promise<(DriverError | null)[]> {
    const errors = this.#awaitAll(pipeline, told);
    this.#write(pipeline.bytes);
    return errors;
  }

  /** Sends in one write what a function sends. */
  together<T>(give: () => T): T {
    const { stream } = this.#driver;
    stream.cork();
    try {
      return give();
    } finally {
      stream.uncork();
    }
  }

  /**
   * Runs a statement of our own and gives its rows back as text.
   * @throws DriverError
   */
  query(sql: string): Promise<(string | null)[][]> {
    return new Promise((resolve, reject) => {
      const rows: (string | null)[][] = [];
      let columns = 0;
      this.execute(sql, {
        columns: (definitions) => {
          columns = definitions.length;
        },
        row: (bytes, start) => {
          const row: (string | null)[] = [];
          let at = start;
          for (let column = 0; column < columns; column++) {
            const first = bytes[at++] as number;
            // A length-encoded string, or NULL (MySQL internals manual, "ProtocolText::ResultsetRow").
            if (first === 0xfb) {
              row.push(null);
              continue;
            }
            const lengthBytes = first < 0xfb ? 0 : first === 0xfc ? 2 : first === 0xfd ? 3 : 6;
            const length = lengthBytes === 0 ? first : bytes.readUIntLE(at, lengthBytes);
            at += first === 0xfe ? 8 : lengthBytes;
            row.push(bytes.toString('utf8', at, at + length));
            at += length;
          }
          rows.push(row);
        },
        rowTooLarge: () => {},
        ended: () => resolve(rows),
        failed: reject,
      });
    });
  }

  /**
   * COM_CHANGE_USER to the same user, with no database selected (MySQL manual, "mysql_change_user()"). No other answer
   * may be awaited.
   * @throws DriverError if the user may no longer log in; the connection is of no more use then
   */
  async changeUser(): Promise<void> {
    // It is a login, and so the driver's business.
    const ours = this.#driver.packetParser;
    this.#driver.packetParser = this.#driverParser;
    await new Promise<void>((resolve, reject) => {
      this.#driver.changeUser({ charset: 'UTF8MB4_GENERAL_CI' }, (error) => (error ? reject(error) : resolve()));
    });
    this.#driver.packetParser = ours;
  }

  /** Stops reading the socket; what has been read already comes after `resume`. */
  pause(): void {
    this.#stream.pause();
    this.#driver.stream.pause();
  }

  resume(): void {
    this.#guard(() => {
      if (!this.#stream.resume()) this.#driver.stream.resume();
    });
  }

  /** Drops the large row that is being received. */
  dropLarge(): void {
    this.#stream.dropLarge();
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
    this.#stream.dropLarge();
    const answers = this.#answers.splice(0);
    // Not before the caller has done what it destroys the connection for.
    queueMicrotask(() => {
      for (const answer of answers) answer.failed(new Error('the connection was given up'));
    });
  }

  #await(answer: Answer): void {
    if (this.#closed) throw new Error('a command was given to a connection that is closed');
    this.#answers.push(answer);
  }

  #awaitAll({ length }: Pipeline, told: ((ending: Ending) => void) | null = null): Promise<(DriverError | null)[]> {
    return new Promise((resolve, reject) => {
      const errors: (DriverError | null)[] = [];
      const done = (error: DriverError | null): void => {
        errors.push(error);
        if (errors.length === length) resolve(errors);
      };
      for (let command = 0; command < length; command++) this.#await(new PlainAnswer(done, reject, told));
    });
  }

  #write(bytes: Buffer): void {
    this.#driver.stream.write(bytes);
  }

  #received(length: number): void {
    this.#signs++;
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
        : new Error('it answered what nobody had asked');
      this.#lose(error);
    } else if (answer.packet(bytes, start, end)) {
      this.#answers.shift();
    }
  }

  /** Whoever sends what is no answer of the protocol is not listened to any longer. */
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

/** A socket that is read to the kernel's memory. */
function openSocket(address: DatabaseAddress, received: (length: number) => void): Socket {
  const onread = {
    buffer: kernel.input.subarray(headroomBytes, headroomBytes + readBytes),
    callback: (length: number): boolean => {
      received(length);
      return true;
    },
  };
  return 'socketPath' in address
    ? connect({ path: address.socketPath, onread })
    : connect({ host: address.host, port: address.port, noDelay: true, keepAlive: true, onread });
}

/** Made anew for each connection: of one that is used again, the driver takes up earlier sessions without a check. */
function tlsOptions({ mode, ca }: DatabaseTls): object {
  return { rejectUnauthorized: mode !== 'required', ...(ca === null ? {} : { ca }) };
}

/**
 * Looks at the certificate before the login, and with it the password, goes out. The driver's own check of the name knows
 * no addresses: where the host is one, Node takes it to be `localhost`.
 */
function guardTls(driver: DriverConnection, host: string, { mode }: DatabaseTls): void {
  const startTls = driver.startTLS.bind(driver);
  driver.startTLS = (onSecure) =>
    startTls((error) => {
      const stream = driver.stream as TLSSocket;
      const refusal =
        error ?? (mode === 'verify-full' ? checkServerIdentity(host, stream.getPeerCertificate()) : undefined);
      // Of trouble with the connection itself this says nothing.
      const isCertificate = error === undefined || Boolean(stream.authorizationError);
      onSecure(refusal === undefined || !isCertificate ? refusal : certificateError(refusal, mode));
    });
}

function certificateError({ message }: Error, mode: DatabaseTls['mode']): Error {
  return new Error(
    `its certificate does not pass ssl-mode=${mode} of --mysql_url: ${message}; ` +
      'give it one that does, or name by ssl-ca=FILE who may vouch for it',
  );
}

/** What a socket has just read, for somebody who may keep it. */
function copyOfChunk(length: number): Buffer {
  return Buffer.from(kernel.input.subarray(headroomBytes, headroomBytes + length));
}
