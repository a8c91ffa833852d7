import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { identify } from '../process-identity.ts';

const ATTEMPTS_MAX = 5;

/**
 * A file that says which process owns a folder. It is held from `Lock.take` until `release`; a lock
 * whose process has died is taken over. InnoDB locks its files too: this one only makes the refusal
 * quick and clear, and tells a live owner's server from one that was left behind.
 */
export class Lock {
  readonly #path: string;
  readonly #content: string;

  private constructor(path: string, content: string) {
    this.#path = path;
    this.#content = content;
  }

  /** Throws an Error of one line, which names `folder`, if another live process (or this one) holds `path`. */
  static take(path: string, folder: string): Lock {
    const content = `${process.pid} ${identify(process.pid)}\n`;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
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

  /** Removes the file; does nothing if it is no longer ours. */
  release(): void {
    if (read(this.#path) === this.#content) rmSync(this.#path, { force: true });
  }
}

/** A link appears with its content in one step, so that nobody reads a lock that is half written. */
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

/** Between our reading and our removing another process may have taken over; then its lock is put back. */
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
