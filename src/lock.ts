import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { identify } from './process-identity.ts';

const attemptsMax = 5;

/**
 * A file that identifies the process that uses a folder. It is held from `Lock.take` until `release`; a lock whose process has
 * died is taken over. InnoDB locks its files too. This lock makes the refusal fast and clear, and shows whether a server below
 * the folder belongs to a live process or was left by a dead one.
 */
export class Lock {
  readonly #path: string;
  readonly #content: string;

  private constructor(path: string, content: string) {
    this.#path = path;
    this.#content = content;
  }

  /** @throws Error of one line, which names `folder`, if another live process, or this one, holds the lock */
  static take(path: string, folder: string): Lock {
    const content = `${process.pid} ${identify(process.pid)}\n`;
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      if (create(path, content)) return new Lock(path, content);
      const holder = read(path);
      if (holder === undefined) continue;
      const [pid = '', identity] = holder.trim().split(' ');
      if (identify(Number(pid)) === identity) {
        throw new Error(
          `the data directory ${folder} is in use by process ${pid}: give each server its own --data_dir`,
        );
      }
      discard(path, holder);
    }
    throw new Error(`the data directory ${folder} is being taken by other processes`);
  }

  /** Removes the file, unless another process has taken the lock. */
  release(): void {
    if (read(this.#path) === this.#content) rmSync(this.#path, { force: true });
  }
}

/** Links a complete file to the path in one step, so that no process reads a lock that is half written. */
function create(path: string, content: string): boolean {
  const draft = sibling(path);
  writeFileSync(draft, content, { flag: 'wx', mode: 0o600 });
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Removes a stale lock. Another process may have taken the lock since it was read; then its file is put back. */
function discard(path: string, stale: string): void {
  const aside = sibling(path);
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  const moved = read(aside);
  if (moved !== undefined && moved !== stale) create(path, moved);
  rmSync(aside, { force: true });
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function sibling(path: string): string {
  return `${path}.${randomBytes(6).toString('hex')}`;
}
