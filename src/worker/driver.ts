import type { EventEmitter } from 'node:events';
import { connect, type Socket } from 'node:net';
import { checkServerIdentity, type TLSSocket } from 'node:tls';
import mysql from 'mysql2';
import type { DatabaseAddress, DatabaseTls } from '../wire/messages.ts';
import type { DriverError } from './failures.ts';
import { headroomBytes, kernel, readBytes } from './kernel.ts';

/*
 * The only file that imports mysql2. The driver connects, negotiates TLS and logs in. From then on `Connection` writes the
 * commands and reads the packets of their answers itself, in place of the driver's packet parser. The version of the package
 * is pinned, and test/worker/connection.test.ts fails if the internals that are used here change.
 */

export interface PacketParser {
  execute(chunk: Buffer): void;
}

/** The part of mysql2's connection that is used, internals included. */
export interface DriverConnection extends EventEmitter {
  readonly threadId: number;
  /** The TCP or Unix socket; after a change to TLS, the TLS socket over it. */
  readonly stream: Socket;
  /** Receives every chunk that the stream reads. */
  packetParser: PacketParser;
  readonly _mariadbExtendedMetadata: boolean;
  /** Wraps the stream in TLS; `onSecure` continues the login, or fails it. */
  startTLS(onSecure: (error?: Error) => void): void;
  changeUser(options: object, done: (error: DriverError | null) => void): void;
  end(): void;
}

export interface ConnectOptions {
  readonly address: DatabaseAddress;
  readonly user: string;
  readonly password: string;
  readonly timeoutMs: number;
  /** The most memory for one row as the database sends it. */
  readonly rowBytesMax: number;
}

/** A connection that has logged in. */
export interface DriverLogin {
  readonly driver: DriverConnection;
  /** The server's version, such as `8.4.3` or `10.11.6-MariaDB-0+deb12u1`. */
  readonly version: string;
  /** Has every later chunk of a plain socket, which lies in the kernel's memory, reported by its length. */
  readonly onChunk: (receive: (length: number) => void) => void;
}

/** The character set of every login. */
export const loginCharset = 'UTF8MB4_GENERAL_CI';

/** @throws DriverError if the database cannot be reached or refuses the login */
export async function logIn(options: ConnectOptions): Promise<DriverLogin> {
  const { address } = options;
  let receive = (length: number): void => driver.packetParser.execute(copyOfChunk(length));
  const driver = mysql.createConnection({
    // With TLS, only the driver can decrypt what the socket reads, and the TLS socket cannot read into a buffer of ours.
    ...('host' in address && address.tls !== null
      ? { host: address.host, port: address.port, ssl: tlsOptions(address.tls) }
      : { stream: () => openSocket(address, (length) => receive(length)) }),
    // Over a Unix socket the driver may send a password in clear text.
    ...('socketPath' in address ? { socketPath: address.socketPath } : {}),
    user: options.user,
    password: options.password,
    connectTimeout: options.timeoutMs,
    charset: loginCharset,
    connectAttributes: { program_name: 'sluice' },
    // The driver allocates a cache for 16,000 statements by default, 500 KB. We prepare none through it.
    maxPreparedStatements: 1,
    // The flags of the native clients: affected rows are the changed ones, and spaces in SQL are significant. Without LOCAL_FILES
    // the server refuses LOAD DATA LOCAL. Query attributes would precede the text of every statement. PS_MULTI_RESULTS: a
    // prepared statement may call a procedure that returns rows.
    flags: ['-FOUND_ROWS', '-IGNORE_SPACE', '-LOCAL_FILES', '-CLIENT_QUERY_ATTRIBUTES', 'PS_MULTI_RESULTS'],
  }) as unknown as DriverConnection;
  if ('host' in address && address.tls !== null) guardTls(driver, address.host, address.tls);
  const handshake = await new Promise<{ serverVersion: string }>((resolve, reject) => {
    driver.once('connect', resolve);
    driver.once('error', reject);
  }).catch((error: unknown) => {
    // A second error of the same attempt would be thrown without a listener.
    driver.on('error', () => {});
    driver.stream.destroy();
    if ((error as DriverError).code !== 'HANDSHAKE_NO_SSL_SUPPORT') throw error;
    throw new Error('it does not offer TLS, which the ssl-mode of --mysql_url asks for; turn TLS on in the database');
  });
  driver.removeAllListeners('error');
  const onChunk = (later: (length: number) => void): void => {
    receive = later;
  };
  return { driver, version: handshake.serverVersion, onChunk };
}

/** A copy of the chunk that a socket has just read to the kernel's memory. */
export function copyOfChunk(length: number): Buffer {
  return Buffer.from(kernel.input.subarray(headroomBytes, headroomBytes + length));
}

/** A socket that reads to the kernel's memory. */
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

/** A new object per connection: with the same one, the driver resumes TLS sessions, which skips the check of the certificate. */
function tlsOptions({ mode, ca }: DatabaseTls): object {
  return { rejectUnauthorized: mode !== 'required', ...(ca === null ? {} : { ca }) };
}

/**
 * Checks the certificate before the login sends the password. The driver's own check of the host name does not support IP
 * addresses: Node.js then checks against `localhost`.
 */
function guardTls(driver: DriverConnection, host: string, { mode }: DatabaseTls): void {
  const startTls = driver.startTLS.bind(driver);
  driver.startTLS = (onSecure) =>
    startTls((error) => {
      const stream = driver.stream as TLSSocket;
      const refusal =
        error ?? (mode === 'verify-full' ? checkServerIdentity(host, stream.getPeerCertificate()) : undefined);
      // An error without `authorizationError` is one of the connection, not of the certificate.
      const isCertificate = error === undefined || Boolean(stream.authorizationError);
      onSecure(refusal === undefined || !isCertificate ? refusal : certificateError(refusal, mode));
    });
}

function certificateError({ message }: Error, mode: DatabaseTls['mode']): Error {
  return new Error(
    `its certificate does not pass ssl-mode=${mode} of --mysql_url: ${message}; ` +
      'use a certificate that does, or name the authority that signed it by ssl-ca=FILE',
  );
}
