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

/** The kernel's `sun_path` is 108 bytes (104 on some systems), and its last byte is a zero. */
const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;

const SOCKET_NAME = 'mariadb.sock';
const OUTSIDE_PREFIX = 'sluice-';

/**
 * The folders and files of a private MariaDB, all below `<data_dir>/mariadb` and open to one user only: the one that
 * MariaDB runs as. If that is another than this process's, `<data_dir>/mariadb` itself stays this process's, and others
 * can enter it but not list it.
 */
export class Folders {
  /** The real, absolute path of `<data_dir>/mariadb`. */
  readonly root: string;
  /** The finished data directory. It exists if and only if a first start has been completed. */
  readonly data: string;
  /** The data directory of a first start that is under way, or was cut off. */
  readonly unfinished: string;
  readonly log: string;
  readonly lock: string;
  /** The only folder in which MariaDB may read and write files for SQL. Nothing but the proof is ever in it. */
  readonly files: string;
  /** A file in it, which exists if the privileges have been set. */
  readonly proof: string;
  readonly temporary: string;
  /** The user that MariaDB runs as; null: that of this process. */
  #user: SystemUser | null = null;
  /** A folder with the socket and the pid file; a link to one elsewhere if this path is too long for a socket. */
  readonly #run: string;
  /** Where that link points to, should someone remove the whole data directory while the server runs. */
  #outside: string | undefined;

  /** Makes `dataDir` and the root if there are none. Throws the file system's error if it cannot. */
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

  /** Makes the root accessible, calls `choose` for the user that MariaDB will run as, and gives that user its folders. */
  chooseUser(choose: () => SystemUser | null): SystemUser | null {
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

  /** Removes what an earlier run left, and makes the folders of this one. Only the lock's holder may call it. */
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

  /** Removes a first start that was cut off; a process of it that is about to die may still add a file. */
  removeUnfinished(): void {
    rmSync(this.unfinished, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
  }

  /** Makes the folder of the socket, open to its user only, and returns the socket's path. */
  makeSocketPath(): string {
    const inside = join(this.#run, SOCKET_NAME);
    if (Buffer.byteLength(inside) <= SOCKET_PATH_BYTES_MAX) {
      this.#make(this.#run);
      return inside;
    }
    const outside = mkdtempSync(join(tmpdir(), OUTSIDE_PREFIX));
    this.#outside = outside;
    this.#give(outside);
    // The link is how the next start finds the folder if this process is killed.
    symlinkSync(outside, this.#run);
    return join(outside, SOCKET_NAME);
  }

  /** Writes a file that only MariaDB's user can read. */
  write(path: string, text: string): void {
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    this.#give(path);
  }

  /** Removes the socket, the pid file and every temporary file. Synchronous, and safe to call again. */
  removeTransient(): void {
    const outside = this.#outside ?? this.#linked();
    if (outside !== undefined) rmSync(outside, { recursive: true, force: true });
    // rmSync does not follow a link, so the next line removes a folder or a link alike.
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
    // A hard link could be to a file outside the folder.
    else if (found.nlink > 1) return;
    if (found.uid !== uid || found.gid !== gid) lchownSync(path, uid, gid);
  }

  #linked(): string | undefined {
    try {
      if (!lstatSync(this.#run).isSymbolicLink()) return undefined;
      const target = readlinkSync(this.#run);
      // Only a folder that holds nothing but what we put there is removed, wherever the link points to.
      if (!basename(target).startsWith(OUTSIDE_PREFIX) || !isOurs(lstatSync(target).uid)) return undefined;
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
