import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { makeFolder } from '../data-dir.ts';
import type { SystemUser } from './system-user.ts';

/** The size of the kernel's `sun_path` is 108 bytes (104 on some systems), with a zero at the end. */
const socketPathBytesMax = process.platform === 'linux' ? 107 : 103;

const socketName = 'mariadb.sock';
const outsidePrefix = 'sluice-';

/**
 * The folders and files of a private MariaDB. All are below `<data_dir>/mariadb`, and only the user that MariaDB runs as can
 * read them. If that is not the user of this process, `<data_dir>/mariadb` itself is owned by this process's user, and others
 * can enter it but not list it.
 */
export class Folders {
  /** The real, absolute path of `<data_dir>/mariadb`. */
  readonly root: string;
  /** The complete data directory. It exists if and only if a first start was completed. */
  readonly data: string;
  /** The data directory of a first start that is in progress, or was interrupted. */
  readonly unfinished: string;
  readonly log: string;
  readonly lock: string;
  /** The only folder in which SQL can read and write files. It contains nothing but the proof. */
  readonly files: string;
  /** A file in `files`, which exists if the privileges were set. */
  readonly proof: string;
  readonly temporary: string;
  /** The user that MariaDB runs as; null: the user of this process. */
  #user: SystemUser | null = null;
  /** A folder with the socket and the pid file. It is a link to a folder elsewhere if its path is too long for a socket. */
  readonly #run: string;
  /** The target of that link. It is removed even if somebody removes the data directory while the server runs. */
  #outside: string | undefined;

  /** Makes `dataDir` and the root if they do not exist. Throws the file system's error if it cannot. */
  constructor(dataDir: string) {
    const root = join(resolve(dataDir), 'mariadb');
    makeFolder(root);
    chmodSync(root, 0o700);
    this.root = realpathSync(root);
    this.data = join(this.root, 'data');
    this.unfinished = join(this.root, 'data-unfinished');
    this.log = join(this.root, 'error.log');
    this.lock = join(this.root, 'lock');
    this.files = join(this.root, 'files');
    this.proof = join(this.files, 'privileges');
    this.temporary = join(this.root, 'tmp');
    this.#run = join(this.root, 'run');
  }

  /**
   * Makes the root accessible, and calls `choose` for the user that MariaDB will run as. That user owns its folders from then
   * on.
   */
  openToServerUser(choose: () => SystemUser | null): SystemUser | null {
    if (process.getuid?.() !== 0) return null;
    const dataDir = dirname(this.root);
    const { mode } = statSync(dataDir);
    chmodSync(dataDir, (mode & 0o7777) | 0o011);
    chmodSync(this.root, 0o711);
    this.#user = choose();
    if (this.#user === null) {
      chmodSync(dataDir, mode & 0o7777);
      chmodSync(this.root, 0o700);
    }
    return this.#user;
  }

  isFinished(): boolean {
    return existsSync(this.data);
  }

  /** Removes the files of an earlier run, and makes the folders of this one. Only the holder of the lock may call it. */
  prepare(): void {
    this.removeTransient();
    this.removeUnfinished();
    for (const folder of [this.files, this.temporary]) {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.#give(folder);
    }
    rmSync(this.proof, { force: true });
    if (this.isFinished()) this.#give(this.data);
  }

  makeUnfinished(): void {
    this.#make(this.unfinished);
  }

  /** Removes the data of an interrupted first start. A process of it that is about to die may still add a file. */
  removeUnfinished(): void {
    rmSync(this.unfinished, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
  }

  /** Makes the folder of the socket, which only its user can enter, and returns the path of the socket. */
  makeSocketPath(): string {
    const inside = join(this.#run, socketName);
    if (Buffer.byteLength(inside) <= socketPathBytesMax) {
      this.#make(this.#run);
      return inside;
    }
    const outside = mkdtempSync(join(tmpdir(), outsidePrefix));
    this.#outside = outside;
    this.#give(outside);
    // The link is how the next start finds the folder if this process is killed.
    symlinkSync(outside, this.#run);
    return join(outside, socketName);
  }

  /** Writes a file that only MariaDB's user can read. */
  write(path: string, text: string): void {
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    this.#give(path);
  }

  /** Removes the socket, the pid file and every temporary file. Synchronous. May be called again. */
  removeTransient(): void {
    const outside = this.#outside ?? this.#linked();
    if (outside !== undefined) rmSync(outside, { recursive: true, force: true });
    // It may be a link, which rmSync does not follow.
    rmSync(this.#run, { recursive: true, force: true });
    rmSync(this.temporary, { recursive: true, force: true });
  }

  #make(folder: string): void {
    mkdirSync(folder, { mode: 0o700 });
    this.#give(folder);
  }

  /** Makes MariaDB's user the owner of a file, or of a folder and its content. An earlier start may have had another user. */
  #give(path: string): void {
    if (this.#user === null) return;
    const { uid, gid } = this.#user;
    const found = lstatSync(path);
    if (found.isDirectory()) for (const name of readdirSync(path)) this.#give(join(path, name));
    // A file with several hard links may also be outside the folder.
    else if (found.nlink > 1) return;
    if (found.uid !== uid || found.gid !== gid) lchownSync(path, uid, gid);
  }

  #linked(): string | undefined {
    try {
      if (!lstatSync(this.#run).isSymbolicLink()) return undefined;
      const target = readlinkSync(this.#run);
      // The link may have been changed: only a folder with nothing but our files is removed.
      if (!basename(target).startsWith(outsidePrefix) || !isOurs(lstatSync(target).uid)) return undefined;
      return readdirSync(target).every((name) => name.startsWith('mariadb.')) ? target : undefined;
    } catch {
      return undefined;
    }
  }
}

/** Whether a file or process of this user can be one of ours. Root starts MariaDB as another user. */
export function isOurs(uid: number): boolean {
  const own = process.getuid?.();
  return own === 0 || uid === own;
}
