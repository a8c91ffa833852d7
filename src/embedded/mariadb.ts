import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Observe } from '../events.ts';
import { Lock } from '../lock.ts';
import { nextPhase, type Transitions } from '../wire/phase.ts';
import { logTail } from './error-log.ts';
import { Folders } from './folders.ts';
import { type Child, Launcher } from './launcher.ts';
import { internalUser, privilegeStatements } from './privileges.ts';
import { endServersBelow } from './processes.ts';
import { findPrograms, type Programs } from './programs.ts';
import { sampleDatabase, sampleStatements } from './sample.ts';
import { findSystemUser } from './system-user.ts';

export interface EmbeddedOptions {
  /** May be relative. It is made if it does not exist. */
  readonly dataDir: string;
  /** The limit of each step: system tables, sample, start of the server. */
  readonly startTimeoutMs: number;
  /** Aborts the start: its promise rejects, and no process is left. */
  readonly signal?: AbortSignal;
  /** Steps that take long, and warnings, are reported as `embedded_database`. */
  readonly observe: Observe;
}

/** A private MariaDB that runs. The caller of `startEmbedded` must call `stop` or `kill`, also after `exited`. */
export interface EmbeddedDatabase {
  readonly socketPath: string;
  /** The account of this process. It can log in and read the sample. No account has global privileges. */
  readonly user: string;
  /** Random for each start, and kept only in memory, since HTTP clients log in through the same socket. */
  readonly password: string;
  /** The name of the sample database. */
  readonly database: string;
  /** Resolves, with the last errors of its log, if the server ends without `stop` or `kill`. */
  readonly exited: Promise<Error>;
  /** Shuts the server down, kills it if that takes too long, and removes its transient files. May be called again. */
  stop(): Promise<void>;
  /** Kills the server, and removes its transient files before it returns. */
  kill(): void;
}

const stopTimeoutMs = 10_000;
const connectIntervalMs = 10;

/** Options of every server, also during the first start. `--no-defaults` must come first. */
const commonOptions = [
  '--no-defaults',
  '--skip-networking',
  '--skip-log-bin',
  '--skip-symbolic-links',
  '--log-warnings=1',
  '--character-set-server=utf8mb4',
  '--collation-server=utf8mb4_unicode_ci',
  '--default-time-zone=+00:00',
  '--performance-schema=OFF',
  '--innodb-buffer-pool-size=128M',
  '--innodb-log-file-size=32M',
  // Dumping and loading the buffer pool takes longer than it saves.
  '--innodb-buffer-pool-dump-at-shutdown=OFF',
  '--innodb-buffer-pool-load-at-startup=OFF',
];

/** The data of a first start that is interrupted is discarded, so it need not survive a crash. */
const loadingOptions = ['--innodb-flush-log-at-trx-commit=0', '--innodb-doublewrite=OFF'];

const servingOptions = [
  '--local-infile=OFF',
  '--skip-name-resolve',
  '--skip-slave-start',
  '--skip-ssl',
  '--max-connections=200',
  '--max-allowed-packet=64M',
];

/**
 * Starts a private MariaDB in `<dataDir>/mariadb`. It listens on a Unix socket that only this user can open, and on no TCP
 * port. The first start makes the data directory with the sample database. The directory gets its final name when it is
 * complete, so that the next start discards the data of a first start that was interrupted.
 *
 * Rejects with an Error of one line: MariaDB is not installed, another process uses the directory, the server did not start
 * (with the last errors of its log), a step took longer than `startTimeoutMs`, or the reason of the abort.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const programs = await findPrograms();
  options.signal?.throwIfAborted();
  const folders = new Folders(options.dataDir);
  const lock = Lock.take(folders.lock, options.dataDir);
  try {
    await endServersBelow(folders.root);
    const user = folders.openToServerUser(() => findSystemUser(folders.root, programs.server));
    if (user === null && process.getuid?.() === 0) report(options, rootWarning(folders.root));
    folders.prepare();
    const launcher = new Launcher(programs, folders, user, options);
    if (!folders.isFinished()) await makeData(launcher, programs, folders, options);
    return await serve(launcher, programs, folders, lock);
  } catch (error) {
    folders.removeUnfinished();
    folders.removeTransient();
    lock.release();
    throw error;
  }
}

function report({ observe }: EmbeddedOptions, message: string): void {
  observe({ type: 'embedded_database', message });
}

function rootWarning(folder: string): string {
  return (
    `the private MariaDB runs as root, because there is no user mysql or nobody who can enter ${folder}: ` +
    'start the server as another user, or give a --data_dir that others can enter'
  );
}

async function makeData(
  launcher: Launcher,
  programs: Programs,
  folders: Folders,
  options: EmbeddedOptions,
): Promise<void> {
  report(options, 'making the sample database (first start only)');
  folders.makeUnfinished();
  const data = `--datadir=${folders.unfinished}`;
  await launcher.run('mariadb-install-db', programs.install, [
    '--no-defaults',
    '--auth-root-authentication-method=normal',
    '--skip-test-db',
    '--skip-name-resolve',
    data,
    ...commonOptions.slice(1),
    ...loadingOptions,
  ]);
  await launcher.run(
    'mariadbd',
    programs.server,
    [...commonOptions, ...loadingOptions, ...launcher.userOptions, data, '--bootstrap'],
    [
      // The installer also makes root accounts for this machine's host names, which socket connections do not use.
      "DELETE FROM mysql.global_priv WHERE Host <> 'localhost'",
      "DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost'",
      ...sampleStatements(),
      '',
    ].join(';\n'),
  );
  // MariaDB has flushed its files at its end. The rename marks the data as complete.
  renameSync(folders.unfinished, folders.data);
  flushFolder(folders.root);
}

async function serve(launcher: Launcher, programs: Programs, folders: Folders, lock: Lock): Promise<EmbeddedDatabase> {
  const socketPath = folders.makeSocketPath();
  const password = randomBytes(32).toString('hex');
  const initFile = join(dirname(socketPath), 'mariadb.init');
  folders.write(initFile, [...privilegeStatements(password, folders.proof), ''].join(';\n'));
  const server = launcher.serve('mariadbd', programs.server, [
    ...commonOptions,
    ...servingOptions,
    ...launcher.userOptions,
    `--datadir=${folders.data}`,
    `--socket=${socketPath}`,
    `--pid-file=${join(dirname(socketPath), 'mariadb.pid')}`,
    `--secure-file-priv=${folders.files}`,
    `--init-file=${initFile}`,
  ]);
  await launcher.guard(server, async (signal) => {
    const ended = server.ended.then((error) => Promise.reject(error));
    await Promise.race([ended, waitUntilReady(socketPath, signal)]);
    if (!existsSync(folders.proof)) throw new Error(`the privileges could not be set: ${logTail(folders.log)}`);
  });
  for (const file of [initFile, folders.proof]) rmSync(file, { force: true });
  return new RunningDatabase(socketPath, password, server, folders, lock);
}

type Phase = 'running' | 'exited' | 'stopping' | 'stopped';

const transitions: Transitions<Phase> = {
  running: ['exited', 'stopping', 'stopped'],
  exited: ['stopping', 'stopped'],
  stopping: ['stopped'],
  stopped: [],
};

/**
 * Owns the server process from its readiness to its end, and with it the lock and the transient files.
 *
 *     running ──▶ exited ──▶ stopping ──▶ stopped
 *        │           │          ▲            ▲
 *        ├───────────┼──────────┘            │
 *        └───────────┴───────────────────────┘
 *
 *     exited     the server has ended by itself; its files are still there
 *     stopped    the server has ended, or is being killed, and its files are removed
 */
class RunningDatabase implements EmbeddedDatabase {
  readonly socketPath: string;
  readonly user = internalUser;
  readonly password: string;
  readonly database = sampleDatabase;
  readonly exited: Promise<Error>;
  readonly #server: Child;
  readonly #folders: Folders;
  readonly #lock: Lock;
  #phase: Phase = 'running';
  #stopped: Promise<void> | null = null;

  constructor(socketPath: string, password: string, server: Child, folders: Folders, lock: Lock) {
    this.socketPath = socketPath;
    this.password = password;
    this.#server = server;
    this.#folders = folders;
    this.#lock = lock;
    this.exited = new Promise((resolve) => {
      void server.ended.then((error) => {
        if (this.#phase !== 'running') return;
        this.#enter('exited');
        resolve(error);
      });
    });
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  kill(): void {
    if (this.#phase !== 'stopped') this.#enter('stopped');
    this.#server.signal('SIGKILL');
    this.#clean();
  }

  #enter(phase: Phase): void {
    this.#phase = nextPhase(transitions, this.#phase, phase);
  }

  async #stop(): Promise<void> {
    if (this.#phase !== 'stopped') this.#enter('stopping');
    this.#server.signal('SIGTERM');
    const timer = setTimeout(() => this.#server.signal('SIGKILL'), stopTimeoutMs);
    await this.#server.ended;
    clearTimeout(timer);
    if (this.#phase === 'stopping') this.#enter('stopped');
    this.#clean();
  }

  #clean(): void {
    this.#folders.removeTransient();
    this.#lock.release();
  }
}

async function waitUntilReady(socketPath: string, signal: AbortSignal): Promise<void> {
  while (!(await greets(socketPath))) await delay(connectIntervalMs, undefined, { signal });
}

/** Whether the server at `socketPath` sends its handshake packet, which it does when it is ready. */
function greets(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(socketPath);
    const settle = (ready: boolean): void => {
      socket.destroy();
      resolve(ready);
    };
    socket.once('data', () => settle(true));
    socket.once('error', () => settle(false));
    socket.once('close', () => settle(false));
  });
}

function flushFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
