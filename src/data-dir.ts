import { existsSync, lstatSync, mkdirSync, readdirSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { isSpillName } from './wire/spill-name.ts';

/**
 * Makes the data directory if it does not exist, and checks that it and the given folders are writable. An earlier run may have
 * made the folders as another user; those that do not exist are skipped.
 * @throws Error of one line that names the folder
 */
export function prepareDataDir(dataDir: string, folders: readonly string[]): void {
  try {
    makeFolder(resolve(dataDir));
    tryWriting(dataDir);
    for (const folder of folders) tryWritingIfExists(folder);
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`the data directory ${dataDir} cannot be written: ${message}; give another one by --data_dir`);
  }
}

/**
 * Makes a folder and its missing parents. `mkdirSync` with `recursive` never returns below /proc: `mkdir` fails there with ENOENT
 * although the parent exists, and Node makes the parent and retries forever.
 */
export function makeFolder(path: string): void {
  const missing: string[] = [];
  let above = path;
  while (statSync(above, { throwIfNoEntry: false }) === undefined && above !== dirname(above)) {
    missing.push(above);
    above = dirname(above);
  }
  for (const folder of missing.reverse()) makeOne(folder);
}

function makeOne(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !statSync(folder).isDirectory()) throw error;
  }
}

/**
 * Removes the files that killed processes left in the folder for rows on disk, and the folder itself if nothing else is in it.
 * The user may have files there too. A spill file is unlinked before anything is written to it, so one that was left is empty.
 */
export function removeSpillFiles(folder: string): void {
  try {
    if (!lstatSync(folder).isDirectory()) return;
    for (const name of readdirSync(folder).filter(isSpillName)) {
      const path = join(folder, name);
      const found = lstatSync(path, { throwIfNoEntry: false });
      if (found?.isFile() && found.size === 0) rmSync(path, { force: true });
    }
    rmdirSync(folder);
  } catch {
    // It does not exist, is not empty, or is another user's. Files that stay do no harm.
  }
}

/** Checked afterwards, as another process that starts with the same data directory may remove the folder at any time. */
function tryWritingIfExists(folder: string): void {
  try {
    tryWriting(folder);
  } catch (error) {
    if (existsSync(folder)) throw error;
  }
}

function tryWriting(folder: string): void {
  const file = join(folder, `.written-${process.pid}`);
  try {
    writeFileSync(file, 'x', { mode: 0o600 });
  } finally {
    rmSync(file, { force: true });
  }
}
