// The data of a private MariaDB whose first start is over: for tests that need the sample and not its making, which takes
// seconds. It is made once and kept in .cache/, until the code that makes it or MariaDB's version changes.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startEmbedded } from '#src/embedded/mariadb.js';
import { findPrograms } from '#src/embedded/programs.js';

const CODE_FOLDER = fileURLToPath(new URL('../../../dist/embedded/', import.meta.url));
const CACHE_FOLDER = fileURLToPath(new URL('../../../.cache/data/', import.meta.url));
const PREFIX = 'private-';
const START_MS_MAX = 120_000;

/** Puts the data into a folder for --data_dir, which a start then finds as an earlier one has left it. */
export async function putPrivateData(dataDir: string): Promise<void> {
  const template = await privateData();
  await mkdir(join(dataDir, 'mariadb'), { recursive: true, mode: 0o700 });
  await copy(template, join(dataDir, 'mariadb/data'));
}

async function privateData(): Promise<string> {
  const name = PREFIX + (await version());
  const template = join(CACHE_FOLDER, name);
  if (existsSync(template)) return template;
  await mkdir(CACHE_FOLDER, { recursive: true });
  for (const other of await readdir(CACHE_FOLDER)) {
    // Not the one that is missing: another test file may have just made it.
    if (other.startsWith(PREFIX) && other !== name)
      await rm(join(CACHE_FOLDER, other), { recursive: true, force: true });
  }
  // Made in another place, which MariaDB's user can enter, and under another name, so that an interrupted run or another
  // test file at the same time does no harm.
  const made = await mkdtemp(join(tmpdir(), 'made-'));
  const scratch = await mkdtemp(join(CACHE_FOLDER, 'new-'));
  try {
    const database = await startEmbedded({ dataDir: made, startTimeoutMs: START_MS_MAX, observe: () => {} });
    await database.stop();
    await copy(join(made, 'mariadb/data'), join(scratch, 'data'));
    await rename(join(scratch, 'data'), template).catch((error: unknown) => {
      if (!existsSync(template)) throw error;
    });
  } finally {
    for (const folder of [made, scratch]) await rm(folder, { recursive: true, force: true });
  }
  return template;
}

/** Changes with the code and with MariaDB. */
async function version(): Promise<string> {
  const hash = createHash('sha256');
  const { server } = await findPrograms();
  hash.update((await promisify(execFile)(server, ['--no-defaults', '--version'])).stdout);
  for (const name of (await readdir(CODE_FOLDER)).filter((name) => name.endsWith('.js')).sort()) {
    hash.update(await readFile(join(CODE_FOLDER, name)));
  }
  return hash.digest('hex').slice(0, 16);
}

function copy(from: string, to: string): Promise<void> {
  return cp(from, to, { recursive: true, mode: constants.COPYFILE_FICLONE });
}
