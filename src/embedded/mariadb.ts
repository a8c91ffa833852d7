import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Folders } from './folders.ts';
import { Lock } from './lock.ts';
import { INTERNAL_USER, privilegeStatements } from './privileges.ts';
import { endServersBelow } from './processes.ts';
import { findPrograms, type Programs } from './programs.ts';
import { SAMPLE_DATABASE, sampleStatements } from './sample.ts';
import { findSystemUser, type SystemUser } from './system-user.ts';

export interface EmbeddedOptions {
  /** May be relative; made if there is none. */
  readonly dataDir: string;
  /** The limit of each step: making the system tables, making the sample, starting the server. */
  readonly startTimeoutMs: number;
  /** Aborting it ends a start that is under way: its promise rejects and nothing is left running. */
  readonly signal?: AbortSignal;
  /** Hears of what takes long, in words for a human. */
  say(message: string): void;
}

/** A running private MariaDB. Whoever started it must call `stop` or `kill`, also after `exited`. */
export interface EmbeddedDatabase {
  readonly socketPath: string;
  /** The account of this process, which can log in and read the sample, but is no administrator: there is none. */
  readonly user: string;
  /** Made anew at each start and kept in memory only: HTTP clients log in through the same socket. */
  readonly password: string;
  /** The name of the sample database. */
  readonly database: string;
  /** Resolves, with the end of its error log in one line, if the server ends without `stop` or `kill`. */
  readonly exited: Promise<Error>;
  /** Ends the server in order, by force after a limit, and removes its transient files. May be called again. */
  stop(): Promise<void>;
  /** Ends the server by SIGKILL and removes its transient files before it returns. */
  kill(): void;
}

const STOP_TIMEOUT_MS = 10_000;
const CONNECT_INTERVAL_MS = 10;
const LOG_TAIL_LINES_MAX = 3;
const LOG_TAIL_CHARACTERS_MAX = 600;

/** Options of every server, that of the first start included. `--no-defaults` must come first. */
const COMMON_OPTIONS = [
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
  // Neither writing nor reading the list of cached pages is worth the time at a stop and a start.
  '--innodb-buffer-pool-dump-at-shutdown=OFF',
  '--innodb-buffer-pool-load-at-startup=OFF',
];

/** A first start that is cut off is thrown away, so that it need not survive a crash while it runs. */
const LOADING_OPTIONS = ['--innodb-flush-log-at-trx-commit=0', '--innodb-doublewrite=OFF'];

const SERVING_OPTIONS = [
  '--local-infile=OFF',
  '--skip-name-resolve',
  '--skip-slave-start',
  '--skip-ssl',
  '--max-connections=200',
  '--max-allowed-packet=64M',
];

/**
 * Starts a MariaDB of our own in `<dataDir>/mariadb`, which listens on a Unix socket that only this user can
 * open and on no TCP port. The first start makes the data directory and its sample database; it is given its
 * final name only when complete, so that a start that was cut off is begun afresh.
 *
 * Rejects with an Error of one line: MariaDB is not installed, another process uses the directory, the
 * server did not start (with the end of its log), a step took longer than `startTimeoutMs`, or the abort.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const programs = await findPrograms();
  options.signal?.throwIfAborted();
  const folders = new Folders(options.dataDir);
  const lock = Lock.take(folders.lock, options.dataDir);
  try {
    await endServersBelow(folders.root);
    const user = folders.chooseUser(() => findSystemUser(folders.root, programs.server));
    if (user === null && process.getuid?.() === 0) options.say(runsAsRoot(folders.root));
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

function runsAsRoot(folder: string): string {
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
  options.say('making the sample database (first start only)');
  folders.makeUnfinished();
  const data = `--datadir=${folders.unfinished}`;
  await launcher.run('mariadb-install-db', programs.install, [
    '--no-defaults',
    '--auth-root-authentication-method=normal',
    '--skip-test-db',
    '--skip-name-resolve',
    data,
    ...COMMON_OPTIONS.slice(1),
    ...LOADING_OPTIONS,
  ]);
  await launcher.run(
    'mariadbd',
    programs.server,
    [...COMMON_OPTIONS, ...LOADING_OPTIONS, ...launcher.userOptions, data, '--bootstrap'],
    [
      // The installer makes root accounts for this machine's names too, which no socket connection needs.
      "DELETE FROM mysql.global_priv WHERE Host <> 'localhost'",
      "DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost'",
      ...sampleStatements(),
      '',
    ].join(';\n'),
  );
  // MariaDB has flushed its files on its way out; from this rename on they are the data.
  renameSync(folders.unfinished, folders.data);
  flushFolder(folders.root);
}

async function serve(launcher: Launcher, programs: Programs, folders: Folders, lock: Lock): Promise<EmbeddedDatabase> {
  const socketPath = folders.makeSocketPath();
  const password = randomBytes(32).toString('hex');
  const initFile = join(dirname(socketPath), 'mariadb.init');
  folders.write(initFile, [...privilegeStatements(password, folders.proof), ''].join(';\n'));
  const server = launcher.serve('mariadbd', programs.server, [
    ...COMMON_OPTIONS,
    ...SERVING_OPTIONS,
    ...launcher.userOptions,
    `--datadir=${folders.data}`,
    `--socket=${socketPath}`,
    `--pid-file=${join(dirname(socketPath), 'mariadb.pid')}`,
    `--secure-file-priv=${folders.files}`,
    `--init-file=${initFile}`,
  ]);
  await launcher.guard(server, async (signal) => {
    const ended = server.ended.then((error) => Promise.reject(error));
    await Promise.race([ended, untilGreeted(socketPath, signal)]);
    if (!existsSync(folders.proof)) throw new Error(`the privileges could not be set: ${logTail(folders.log)}`);
  });
  for (const file of [initFile, folders.proof]) rmSync(file, { force: true });
  return new RunningDatabase(socketPath, password, server, folders, lock);
}

/** Owns the server process from readiness to its end, and with it the lock and the transient files. */
class RunningDatabase implements EmbeddedDatabase {
  readonly socketPath: string;
  readonly user = INTERNAL_USER;
  readonly password: string;
  readonly database = SAMPLE_DATABASE;
  readonly exited: Promise<Error>;
  readonly #server: Child;
  readonly #folders: Folders;
  readonly #lock: Lock;
  #stopping: Promise<void> | undefined;
  #ending = false;

  constructor(socketPath: string, password: string, server: Child, folders: Folders, lock: Lock) {
    this.socketPath = socketPath;
    this.password = password;
    this.#server = server;
    this.#folders = folders;
    this.#lock = lock;
    this.exited = new Promise((resolve) => {
      void server.ended.then((error) => {
        if (!this.#ending) resolve(error);
      });
    });
  }

  stop(): Promise<void> {
    this.#ending = true;
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  kill(): void {
    this.#ending = true;
    this.#server.signal('SIGKILL');
    this.#clean();
  }

  async #stop(): Promise<void> {
    this.#server.signal('SIGTERM');
    const timer = setTimeout(() => this.#server.signal('SIGKILL'), STOP_TIMEOUT_MS);
    await this.#server.ended;
    clearTimeout(timer);
    this.#clean();
  }

  #clean(): void {
    this.#folders.removeTransient();
    this.#lock.release();
  }
}

/** A child process in a process group of its own. */
class Child {
  readonly name: string;
  /** Resolves once it has ended, or could not be started; it never rejects. */
  readonly ended: Promise<Error>;
  readonly handle: ChildProcess;
  #over = false;

  constructor(name: string, handle: ChildProcess, log: string) {
    this.name = name;
    this.handle = handle;
    this.ended = new Promise((resolve) => {
      const end = (how: string): void => {
        this.#over = true;
        resolve(new Error(`${name} ${how}: ${logTail(log)}`));
      };
      handle.once('error', (error) => end(`could not be started (${error.message})`));
      handle.once('exit', (code, signal) => end(`ended (${signal ?? `exit code ${code}`})`));
    });
  }

  /** Signals the whole group, since an installer is a script with children; does nothing after the end. */
  signal(name: 'SIGTERM' | 'SIGKILL'): void {
    const { pid } = this.handle;
    if (this.#over || pid === undefined) return;
    try {
      process.kill(-pid, name);
    } catch {
      // It ended a moment ago, and its event is on the way.
    }
  }
}

/** Starts the programs of one start, all of which write to one log, and holds them to the limit of time. */
class Launcher {
  readonly #setpriv: string | undefined;
  readonly #folders: Folders;
  readonly #user: SystemUser | null;
  readonly #options: EmbeddedOptions;

  /** @param user whom the programs run as; null: the user of this process */
  constructor(programs: Programs, folders: Folders, user: SystemUser | null, options: EmbeddedOptions) {
    this.#setpriv = programs.setpriv;
    this.#folders = folders;
    this.#user = user;
    this.#options = options;
    // Each start begins a new log, so that it cannot grow for ever.
    closeSync(openSync(folders.log, 'w', 0o600));
  }

  /** A server that runs as root must be told so. The installer must not: it would change the owner of system files. */
  get userOptions(): string[] {
    return this.#user === null && process.getuid?.() === 0 ? ['--user=root'] : [];
  }

  /** Runs a step of the first start to its end, with `input` on its standard input; rejects if it fails. */
  async run(name: string, path: string, args: readonly string[], input = ''): Promise<void> {
    // What it makes is thrown away if we die, so that it need not end in order.
    const child = this.#launch(name, path, args, 'KILL');
    // A program that ends early closes its input; its exit says why, and this error would not.
    child.handle.stdin?.on('error', () => {});
    child.handle.stdin?.end(input);
    await this.guard(child, async () => {
      const error = await child.ended;
      if (child.handle.exitCode !== 0) throw error;
    });
  }

  /** Starts a server that runs until it is told to end. */
  serve(name: string, path: string, args: readonly string[]): Child {
    const child = this.#launch(name, path, args, 'TERM');
    child.handle.stdin?.end();
    return child;
  }

  /**
   * Resolves once `work` does. Rejects, and leaves no process of the child's group, if `work` rejects, the
   * time is over or the start is aborted. The signal that `work` gets is aborted when this is settled.
   */
  async guard(child: Child, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { startTimeoutMs, signal: outer } = this.#options;
    const settled = new AbortController();
    const abort = (): void => settled.abort(outer?.reason);
    const expire = (): void => {
      const tail = logTail(this.#folders.log);
      settled.abort(new Error(`${child.name} was not done after ${startTimeoutMs} ms: ${tail}`));
    };
    const timer = setTimeout(expire, startTimeoutMs);
    outer?.addEventListener('abort', abort, { once: true });
    if (outer?.aborted) abort();
    try {
      await Promise.race([rejection(settled.signal), work(settled.signal)]);
    } catch (error) {
      child.signal('SIGKILL');
      await child.ended;
      throw settled.signal.aborted ? settled.signal.reason : error;
    } finally {
      clearTimeout(timer);
      outer?.removeEventListener('abort', abort);
      settled.abort();
    }
  }

  #launch(name: string, path: string, args: readonly string[], deathSignal: 'TERM' | 'KILL'): Child {
    // The kernel ends the child when this process dies in a way that lets it do nothing more.
    const [command, words] =
      this.#setpriv === undefined ? [path, args] : [this.#setpriv, ['--pdeathsig', deathSignal, path, ...args]];
    const log = openSync(this.#folders.log, 'a', 0o600);
    try {
      const handle = spawn(command, words, {
        cwd: this.#folders.root,
        ...(this.#user === null ? {} : { uid: this.#user.uid, gid: this.#user.gid }),
        // A session of its own keeps Ctrl-C in the terminal from ending the database before its clients are done.
        detached: true,
        env: this.#environment(),
        stdio: ['pipe', log, log],
      });
      return new Child(name, handle, this.#folders.log);
    } finally {
      closeSync(log);
    }
  }

  /** What the user's environment says of MariaDB is not meant for this one, and secrets are not its business. */
  #environment(): NodeJS.ProcessEnv {
    const { PATH, LD_LIBRARY_PATH } = process.env;
    return {
      PATH: `${PATH ?? ''}:/usr/sbin:/usr/bin:/sbin:/bin`,
      ...(LD_LIBRARY_PATH === undefined ? {} : { LD_LIBRARY_PATH }),
      LC_ALL: 'C',
      TZ: 'UTC',
      TMPDIR: this.#folders.temporary,
    };
  }
}

async function untilGreeted(socketPath: string, signal: AbortSignal): Promise<void> {
  while (!(await greets(socketPath))) await delay(CONNECT_INTERVAL_MS, undefined, { signal });
}

/** Tells whether a server at `socketPath` has sent its first packet: it accepts connections only when it is ready. */
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

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** The errors at the end of a log, or else its last line, in one line. */
function logTail(path: string): string {
  const lines = readLog(path)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const errors = lines.filter((line) => /\[ERROR\]|^ERROR/.test(line) && !line.endsWith('[ERROR] Aborting'));
  const chosen = errors.length > 0 ? errors.slice(-LOG_TAIL_LINES_MAX) : lines.slice(-1);
  return `${chosen.join(' | ').slice(-LOG_TAIL_CHARACTERS_MAX)} (${path})`;
}

function readLog(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function flushFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
