// Real database servers for the tests: each with a data directory, a socket and a free port of its own. scripts/test.mjs
// starts one of each kind for the whole suite; a test file that is run alone starts its own; a test that ends, pauses or
// restarts a server starts a private one. Files lie in the temporary folder and go when the server is stopped.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { constants, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { cp, mkdir, mkdtemp, open, rename, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Login, runSql } from './run-sql.ts';
import { until } from './until.ts';

export type DatabaseKind = 'mariadb' | 'mysql';

export interface ClientOptions extends Login {
  /** Puts a line with the names of the columns above the rows. */
  readonly columnNames?: boolean;
}

export interface DatabaseServer {
  readonly kind: DatabaseKind;
  readonly version: string;
  readonly socketPath: string;
  readonly port: number;
  /** Names the server by TCP and root, who has no password: mysql://root@127.0.0.1:port/ */
  readonly url: string;
  readonly pid: number;
  /**
   * Runs statements on a connection of their own and returns one line for each row, tabs between the cells, nothing escaped,
   * without the last line's end. Rejects with the server's message.
   */
  sql(statements: string, login?: Login): Promise<string>;
  /** The same by the server's own command line client, which is other code than Sluice's, but takes ten times as long. */
  clientSql(statements: string, options?: ClientOptions): Promise<string>;
  /** Ends the server and removes its files. A server that the suite shares goes on: who started it stops it. */
  stop(): Promise<void>;
}

/** A server that belongs to one test, which may do anything to it. */
export interface PrivateServer extends DatabaseServer {
  readonly running: boolean;
  /** Asks the server to shut down and waits until it has. Its files stay. */
  terminate(): Promise<void>;
  /** Ends the server as a crash would. Its files stay. */
  kill(): Promise<void>;
  /** Stops the process: its sockets stay open and nothing answers. Resolves when each of its threads has stopped. */
  pause(): Promise<void>;
  resume(): void;
  /** Starts the server again, on the same port and the same data; shuts it down first if it is running. */
  restart(): Promise<void>;
}

/** scripts/test.mjs puts a JSON array of SharedServer into this variable. */
export const SHARED_SERVERS_VARIABLE = 'TEST_DATABASE_SERVERS';

export interface SharedServer {
  readonly kind: DatabaseKind;
  readonly version: string;
  readonly socketPath: string;
  readonly port: number;
  readonly pid: number;
}

/** The servers of the suite; or, for a test file that is run alone, servers that live as long as its process. */
export function sharedServers(): Promise<DatabaseServer[]> {
  ownServers ??= findSharedServers();
  return ownServers;
}

/** Starts a server that belongs to the caller. Extra arguments go to the server's command line. */
export async function startServer(kind: DatabaseKind, extraArguments: readonly string[] = []): Promise<PrivateServer> {
  const installation = findInstallation(kind);
  if (installation === undefined) throw new Error(`${kind} is not installed: run npm test once, which brings it`);
  const folder = await mkdtemp(join(tmpdir(), `${kind}-`));
  try {
    const template = await dataTemplate(installation);
    await cp(template, join(folder, 'data'), { recursive: true, mode: constants.COPYFILE_FICLONE });
    await mkdir(join(folder, 'tmp'));
    const server = new OwnedServer(installation, folder, extraArguments);
    await server.startOnFreePort();
    return server;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Whether startServer can start this kind here. MySQL comes from the network, which may have been out of reach. */
export function isInstalled(kind: DatabaseKind): boolean {
  return findInstallation(kind) !== undefined;
}

const START_MS_MAX = 180_000;
const STOP_MS_MAX = 60_000;
const PORT_ATTEMPTS_MAX = 5;
const POLL_MS = 20;

/** Unix leaves no more room than this for the path of a socket. */
const SOCKET_PATH_BYTES_MAX = 107;

const PROJECT_FOLDER = fileURLToPath(new URL('../../../', import.meta.url));
const CACHE_FOLDER = join(PROJECT_FOLDER, '.cache');

let ownServers: Promise<DatabaseServer[]> | undefined;

async function findSharedServers(): Promise<DatabaseServer[]> {
  const shared = process.env[SHARED_SERVERS_VARIABLE];
  if (shared !== undefined) {
    return (JSON.parse(shared) as SharedServer[]).map((server) => new SharedClient(server));
  }
  if (!isInstalled('mysql')) process.stderr.write('MySQL is not installed: testing with MariaDB alone\n');
  const kinds: DatabaseKind[] = isInstalled('mysql') ? ['mariadb', 'mysql'] : ['mariadb'];
  return Promise.all(kinds.map((kind) => startServer(kind)));
}

// A test may forget to stop its server, or fail before it does. Nothing can be awaited here, so no server is asked to.
const living = new Set<OwnedServer>();
process.on('exit', () => {
  for (const server of living) server.destroy();
});

class SharedClient implements DatabaseServer {
  readonly kind: DatabaseKind;
  readonly version: string;
  readonly socketPath: string;
  readonly port: number;
  readonly pid: number;

  constructor(server: SharedServer) {
    this.kind = server.kind;
    this.version = server.version;
    this.socketPath = server.socketPath;
    this.port = server.port;
    this.pid = server.pid;
  }

  get url(): string {
    return `mysql://root@127.0.0.1:${this.port}/`;
  }

  sql(statements: string, login: Login = {}): Promise<string> {
    if (hasDelimiter(statements)) return this.clientSql(statements, login);
    return runSql(this.socketPath, statements, login);
  }

  async clientSql(statements: string, options: ClientOptions = {}): Promise<string> {
    const installation = findInstallation(this.kind);
    if (installation === undefined) throw new Error(`the client of ${this.kind} has gone`);
    return runClient(installation, this.socketPath, statements, options);
  }

  async stop(): Promise<void> {}
}

/**
 * Owns one server process and the folder that holds its data, socket and log. It is running (there is a process, paused
 * or not), ended (there is none, and the files wait for a restart) or stopped (the files are gone).
 */
class OwnedServer implements PrivateServer {
  readonly #installation: Installation;
  readonly #folder: string;
  readonly #extraArguments: readonly string[];
  #port = 0;
  #process: ChildProcess | undefined;

  constructor(installation: Installation, folder: string, extraArguments: readonly string[]) {
    this.#installation = installation;
    this.#folder = folder;
    this.#extraArguments = extraArguments;
    if (Buffer.byteLength(this.socketPath) > SOCKET_PATH_BYTES_MAX) {
      throw new Error(`the temporary folder's path is too long for a socket: ${this.socketPath}`);
    }
    living.add(this);
  }

  get kind(): DatabaseKind {
    return this.#installation.kind;
  }

  get version(): string {
    return this.#installation.version;
  }

  get socketPath(): string {
    return join(this.#folder, 'socket');
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `mysql://root@127.0.0.1:${this.#port}/`;
  }

  get running(): boolean {
    return this.#process !== undefined;
  }

  get pid(): number {
    const pid = this.#process?.pid;
    if (pid === undefined) throw new Error(`this ${this.kind} is not running`);
    return pid;
  }

  sql(statements: string, login: Login = {}): Promise<string> {
    if (hasDelimiter(statements)) return this.clientSql(statements, login);
    return runSql(this.socketPath, statements, login);
  }

  clientSql(statements: string, options: ClientOptions = {}): Promise<string> {
    return runClient(this.#installation, this.socketPath, statements, options);
  }

  /** Between the moment a port is found free and the server's start another process may take it, so it is tried again. */
  async startOnFreePort(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      this.#port = await freePort();
      try {
        return await this.#start();
      } catch (error) {
        const clash = error instanceof Error && /address already in use|bind on TCP\/IP/i.test(error.message);
        if (!clash || attempt === PORT_ATTEMPTS_MAX) {
          living.delete(this);
          throw error;
        }
      }
    }
  }

  async terminate(): Promise<void> {
    this.resume();
    await this.#end('SIGTERM');
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async pause(): Promise<void> {
    process.kill(this.pid, 'SIGSTOP');
    // The signal reaches the threads one by one, and until then they answer.
    await until(() => process.platform !== 'linux' || allThreadsStopped(this.pid));
  }

  resume(): void {
    if (this.running) process.kill(this.pid, 'SIGCONT');
  }

  async restart(): Promise<void> {
    await this.terminate();
    // A socket file that a killed server left must not be taken for the new one's.
    await rm(this.socketPath, { force: true });
    await this.#start();
  }

  async stop(): Promise<void> {
    // Its files go, so it has nothing to bring in order, which takes MySQL longer than a second.
    await this.kill();
    living.delete(this);
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** The end of a server whose process is about to exit: at once, and without waiting. */
  destroy(): void {
    this.#process?.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  async #start(): Promise<void> {
    const log = await open(join(this.#folder, 'log'), 'w');
    const [command, ...rest] = [
      ...deathGuard(),
      ...this.#installation.server,
      ...SETTINGS[this.kind],
      ...userArguments(),
      `--datadir=${join(this.#folder, 'data')}`,
      `--tmpdir=${join(this.#folder, 'tmp')}`,
      `--socket=${this.socketPath}`,
      `--pid-file=${join(this.#folder, 'pid')}`,
      `--port=${this.#port}`,
      ...this.#extraArguments,
    ];
    // A group of its own keeps a terminal's Ctrl-C from the server: who started it decides when it ends.
    const child = spawn(command as string, rest, { detached: true, stdio: ['ignore', log.fd, log.fd] });
    child.on('exit', () => {
      if (this.#process === child) this.#process = undefined;
    });
    await once(child, 'spawn').finally(() => log.close());
    this.#process = child;
    await this.#waitUntilReady();
    // A server that a test forgets must not keep the test's process alive, as its end is what ends the server.
    child.unref();
  }

  async #waitUntilReady(): Promise<void> {
    const deadlineMs = performance.now() + START_MS_MAX;
    while (performance.now() < deadlineMs && this.running) {
      // The socket is made before the server answers, so its presence only says that trying is worth while.
      if (existsSync(this.socketPath)) {
        const answer = await this.sql('SELECT 1').catch(() => undefined);
        if (answer === '1') return;
      }
      await sleep(POLL_MS);
    }
    const failure = this.running ? `did not answer within ${START_MS_MAX} ms` : 'ended while it started';
    await this.kill();
    throw new Error(`${this.kind} ${failure}:\n${readFileSync(join(this.#folder, 'log'), 'utf8')}`);
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    const exited = once(child, 'exit');
    child.ref();
    child.kill(signal);
    const patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
    await exited;
    clearTimeout(patience);
  }
}

/** The command lines of one kind's programs on this machine. */
interface Installation {
  readonly kind: DatabaseKind;
  readonly version: string;
  readonly server: readonly string[];
  readonly client: readonly string[];
  /** Makes the data directory given, with a root who has no password. */
  initialize(dataFolder: string): readonly string[];
}

const installations = new Map<DatabaseKind, Installation>();

function findInstallation(kind: DatabaseKind): Installation | undefined {
  const known = installations.get(kind);
  if (known !== undefined) return known;
  const found = kind === 'mariadb' ? findMariadb() : findMysql();
  if (found !== undefined) installations.set(kind, found);
  return found;
}

function findMariadb(): Installation | undefined {
  const [mariadbd, installDb, mariadb] = ['mariadbd', 'mariadb-install-db', 'mariadb'].map(findProgram);
  if (mariadbd === undefined || installDb === undefined || mariadb === undefined) return undefined;
  const output = spawnSync(mariadbd, ['--no-defaults', '--version'], { encoding: 'utf8' }).stdout;
  return {
    kind: 'mariadb',
    version: /Ver (\S+)/.exec(output)?.[1] ?? 'unknown',
    server: [mariadbd, '--no-defaults'],
    client: [mariadb, '--no-defaults'],
    initialize: (dataFolder) => [
      installDb,
      '--no-defaults',
      '--auth-root-authentication-method=normal',
      '--skip-test-db',
      `--datadir=${dataFolder}`,
      ...userArguments(),
    ],
  };
}

/** Describes the MySQL that scripts/mysql.mjs unpacked, which runs by its own loader and with its own libraries. */
function findMysql(): Installation | undefined {
  const folder = join(CACHE_FOLDER, 'mysql');
  const descriptionPath = join(folder, 'mysql.json');
  if (!existsSync(descriptionPath)) return undefined;
  const description = JSON.parse(readFileSync(descriptionPath, 'utf8')) as {
    readonly version: string;
    readonly loader: string;
    readonly libraries: readonly string[];
  };
  const libraryPath = description.libraries.map((library) => join(folder, library)).join(':');
  const loader = [join(folder, description.loader), '--library-path', libraryPath];
  const characterSets = `--character-sets-dir=${join(folder, 'usr/share/mysql/charsets')}`;
  const server = [
    ...loader,
    join(folder, 'usr/sbin/mysqld'),
    '--no-defaults',
    `--basedir=${join(folder, 'usr')}`,
    `--lc-messages-dir=${join(folder, 'usr/share/mysql')}`,
    `--plugin-dir=${join(folder, 'usr/lib/mysql/plugin')}`,
    characterSets,
    '--secure-file-priv=NULL',
  ];
  return {
    kind: 'mysql',
    version: description.version,
    server,
    client: [...loader, join(folder, 'usr/bin/mysql'), '--no-defaults', characterSets],
    initialize: (dataFolder) => [
      ...server,
      '--initialize-insecure',
      '--innodb-doublewrite=0',
      `--datadir=${dataFolder}`,
      ...userArguments(),
    ],
  };
}

// The data is thrown away, so nothing waits for the disk. The limits leave room for the largest tests: thousands of
// connections, cells of 64 MiB, and clients that are killed again and again.
const COMMON_SETTINGS = [
  '--bind-address=127.0.0.1',
  '--max-connections=2500',
  '--back-log=2500',
  '--open-files-limit=10000',
  '--max-connect-errors=4294967295',
  '--max-allowed-packet=256M',
  '--local-infile=ON',
  '--skip-log-bin',
  '--innodb-flush-log-at-trx-commit=0',
  '--innodb-doublewrite=0',
  '--innodb-buffer-pool-size=512M',
] as const;

const SETTINGS: Readonly<Record<DatabaseKind, readonly string[]>> = {
  mariadb: COMMON_SETTINGS,
  mysql: [...COMMON_SETTINGS, '--mysqlx=OFF', '--performance-schema=ON'],
};

/** A data directory to copy: making one takes longer than copying it. Kept until the server's version changes. */
async function dataTemplate(installation: Installation): Promise<string> {
  const folder = join(CACHE_FOLDER, 'data');
  const name = `${installation.kind}-${installation.version}`;
  const template = join(folder, name);
  if (existsSync(template)) return template;

  await mkdir(folder, { recursive: true });
  for (const other of readdirSync(folder)) {
    // Not the one that is missing: another test file may have just made it.
    const isOutdated = other.startsWith(`${installation.kind}-`) && other !== name;
    if (isOutdated) await rm(join(folder, other), { recursive: true, force: true });
  }
  // Made under another name, so that an interrupted run or another test file at the same time does no harm.
  const scratch = await mkdtemp(join(folder, 'new-'));
  try {
    const [command, ...rest] = installation.initialize(join(scratch, 'data'));
    await run(command as string, rest, '');
    // The server writes a new identity when it finds none.
    await rm(join(scratch, 'data', 'auto.cnf'), { force: true });
    await rename(join(scratch, 'data'), template).catch((error: unknown) => {
      if (!existsSync(template)) throw error;
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return template;
}

/** Whether only a client can take the statements apart. */
function hasDelimiter(statements: string): boolean {
  return /^\s*DELIMITER /m.test(statements);
}

function runClient(
  installation: Installation,
  socketPath: string,
  statements: string,
  options: ClientOptions,
): Promise<string> {
  const [command, ...rest] = [
    ...installation.client,
    `--socket=${socketPath}`,
    `--user=${options.user ?? 'root'}`,
    '--batch',
    '--raw',
    // Without it the client changes line ends inside the statements.
    '--binary-mode',
    '--default-character-set=utf8mb4',
    '--max-allowed-packet=1G',
    ...(options.columnNames ? [] : ['--skip-column-names']),
    ...(options.database === undefined ? [] : [`--database=${options.database}`]),
  ];
  return run(command as string, rest, statements, { MYSQL_PWD: options.password ?? '' });
}

async function run(
  command: string,
  args: readonly string[],
  input: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const child = spawn(command, args, { env: { ...process.env, ...environment } });
  const output: Buffer[] = [];
  const complaints: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => complaints.push(chunk));
  // A program that ends early does not read all its input; its exit code says what that means.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(Buffer.concat(complaints).toString().trim() || `${command} failed with code ${code}`);
  return Buffer.concat(output).toString().replace(/\n$/, '');
}

function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/sbin', '/usr/bin'];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}

/** The servers refuse to run as root without this option, and can change to no other user otherwise. */
function userArguments(): string[] {
  return process.getuid?.() === 0 ? ['--user=root'] : [];
}

let guard: readonly string[] | undefined;

/** Words before a command that make the system end it when this process dies, however it dies. */
function deathGuard(): readonly string[] {
  if (guard === undefined) {
    const words = ['setpriv', '--pdeathsig', 'KILL'];
    const probe = spawnSync(words[0] as string, [...words.slice(1), 'true'], { stdio: 'ignore' });
    guard = probe.status === 0 ? words : [];
  }
  return guard;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Whether every thread of a process is in the state T, stopped by a signal (proc(5), "/proc/pid/stat"). */
function allThreadsStopped(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).every((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
    // The name before the state stands in parentheses and may hold some.
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
  });
}
