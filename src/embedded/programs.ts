import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** The absolute paths of the programs that a private MariaDB needs. */
export interface Programs {
  readonly server: string;
  readonly install: string;
  /** util-linux's `setpriv`, or undefined where it is missing or too old to know `--pdeathsig`. */
  readonly setpriv: string | undefined;
}

/** Distributions install the server in sbin, which is not in every user's PATH. */
const usualFolders = [
  '/usr/sbin',
  '/usr/bin',
  '/usr/libexec',
  '/usr/local/sbin',
  '/usr/local/bin',
  '/usr/local/mysql/bin',
  '/usr/local/mariadb/bin',
  '/opt/homebrew/bin',
];

/**
 * Looks for the programs in `searchPath` (in the form of PATH) and then in the usual folders.
 * @throws Error of one line with the packages to install, if the server or its installer is missing
 */
export async function findPrograms(
  searchPath: string = userPath(),
  commonFolders: readonly string[] = usualFolders,
): Promise<Programs> {
  // An empty element of PATH means the working directory, from which no server may be started.
  const folders = [...searchPath.split(delimiter).filter((folder) => folder.startsWith('/')), ...commonFolders];
  const [server, install, setpriv] = await Promise.all([
    find('mariadbd', folders),
    find('mariadb-install-db', folders),
    process.platform === 'linux' ? find('setpriv', folders) : undefined,
  ]);
  if (server === undefined || install === undefined) {
    const missing = server === undefined ? 'mariadbd' : 'mariadb-install-db';
    throw new Error(
      `no ${missing} found: install MariaDB 10.11 or later (Debian: apt-get install mariadb-server-core ` +
        'mariadb-client-core), or name a database with --mysql_url',
    );
  }
  const usable = setpriv !== undefined && (await knowsParentDeath(setpriv));
  return { server, install, setpriv: usable ? setpriv : undefined };
}

function userPath(): string {
  const { PATH = '' } = process.env;
  return PATH;
}

async function find(name: string, folders: readonly string[]): Promise<string | undefined> {
  for (const folder of folders) {
    const path = join(folder, name);
    try {
      await access(path, constants.X_OK);
      return path;
    } catch {
      // It is not in this folder, or not executable. The next folder may have one.
    }
  }
  return undefined;
}

/** Whether it has the option. The `setpriv` of BusyBox does not. */
function knowsParentDeath(setpriv: string): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(setpriv, ['--pdeathsig', 'TERM', 'true'], (error) => resolve(error === null));
  });
}
