import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { logTail } from './error-log.ts';
import type { Folders } from './folders.ts';
import type { Programs } from './programs.ts';
import type { SystemUser } from './system-user.ts';

/** A child process in a process group of its own. */
export class Child {
  readonly name: string;
  /** Resolves when it has ended, or could not be started; it never rejects. */
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

  /** Signals the whole process group, since an installer is a script with children. Does nothing after the end. */
  signal(name: 'SIGTERM' | 'SIGKILL'): void {
    const { pid } = this.handle;
    if (this.#over || pid === undefined) return;
    try {
      process.kill(-pid, name);
    } catch {
      // It has ended, and its event is not emitted yet.
    }
  }
}

export interface LauncherOptions {
  /** The limit of each step. */
  readonly startTimeoutMs: number;
  /** Aborts the start. */
  readonly signal?: AbortSignal;
}

/** Runs the programs of one start, which write to one log, and ends them when they take too long or the start is aborted. */
export class Launcher {
  readonly #setpriv: string | undefined;
  readonly #folders: Folders;
  readonly #user: SystemUser | null;
  readonly #options: LauncherOptions;

  /** @param user the user that the programs run as; null: the user of this process */
  constructor(programs: Programs, folders: Folders, user: SystemUser | null, options: LauncherOptions) {
    this.#setpriv = programs.setpriv;
    this.#folders = folders;
    this.#user = user;
    this.#options = options;
    // Each start truncates the log, so that it does not grow without limit.
    closeSync(openSync(folders.log, 'w', 0o600));
  }

  /** The option that a server needs to run as root. The installer must not have it: it would change the owner of system files. */
  get userOptions(): string[] {
    return this.#user === null && process.getuid?.() === 0 ? ['--user=root'] : [];
  }

  /** Runs a step of the first start to its end, with `input` as its standard input; rejects if it fails. */
  async run(name: string, path: string, args: readonly string[], input = ''): Promise<void> {
    // If this process dies, the next start discards the files of the step, so it need not shut down in order.
    const child = this.#launch(name, path, args, 'KILL');
    // A program that fails early closes its input. Its exit status has the reason, and this error has not.
    child.handle.stdin?.on('error', () => {});
    child.handle.stdin?.end(input);
    await this.guard(child, async () => {
      const error = await child.ended;
      if (child.handle.exitCode !== 0) throw error;
    });
  }

  /** Starts a server, which runs until it is signalled. */
  serve(name: string, path: string, args: readonly string[]): Child {
    const child = this.#launch(name, path, args, 'TERM');
    child.handle.stdin?.end();
    return child;
  }

  /**
   * Resolves when `work` does. Rejects, and leaves no process of the child's group, if `work` rejects, the time is over or the
   * start is aborted.
   * @param work its signal is aborted when this promise is settled
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
    // The kernel ends the child when this process is killed.
    const [command, words] =
      this.#setpriv === undefined ? [path, args] : [this.#setpriv, ['--pdeathsig', deathSignal, path, ...args]];
    const log = openSync(this.#folders.log, 'a', 0o600);
    try {
      const handle = spawn(command, words, {
        cwd: this.#folders.root,
        ...(this.#user === null ? {} : { uid: this.#user.uid, gid: this.#user.gid }),
        // With a session of its own, Ctrl-C in the terminal does not end the database while clients still use it.
        detached: true,
        env: this.#environment(),
        stdio: ['pipe', log, log],
      });
      return new Child(name, handle, this.#folders.log);
    } finally {
      closeSync(log);
    }
  }

  /** Without variables for other MariaDB servers and clients, and without secrets. */
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

function rejection(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
