import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { identify } from '../process-identity.ts';
import type { QueryStats } from '../query/pages.ts';
import type { QueryState } from '../query/state.ts';
import type { Effect } from '../wire/effect.ts';
import { isMissing } from '../wire/file-trouble.ts';
import { keptFiles, type ShownColumns } from '../wire/kept-rows.ts';
import type { Column, FormatName } from '../wire/statement.ts';
import { validate as areColumns } from './columns.validator.ts';
import { validate as isManifest } from './manifest.validator.ts';

/** What is known of a kept result beside its rows. Times are in milliseconds since 1970. */
export interface Manifest {
  readonly version: 1;
  readonly id: string;
  readonly user: string;
  /** The database whose user that is: a name is another's in another database. */
  readonly database: string;
  readonly sessionId: string;
  /** The first characters of its statement; null: they are not logged either. */
  readonly sql: string | null;
  /** What a statement that is cut off may have done. */
  readonly effect: Effect;
  readonly isStandalone: boolean;
  /** The server that serves the result (see process-identity.ts). While it lives, no other does. */
  readonly process: { readonly pid: number; readonly identity: string };
  readonly madeAt: number;
  readonly keepMs: number;
  /** When the statement ended; null: it runs. */
  readonly endedAt: number | null;
  readonly state: QueryState;
  readonly stats: QueryStats | null;
  readonly rows: number;
  /** How its pages are made. */
  readonly pages: { readonly rows: number; readonly format: FormatName };
}

/** For the manifests of the results that this process serves. */
export function thisProcess(): Manifest['process'] {
  return { pid: process.pid, identity: identify(process.pid) ?? '' };
}

/** A larger file is none of ours. */
const jsonBytesMax = 64 * 1024 * 1024;

/**
 * Replaces the manifest of a folder: after a loss of power there is either the old one or the new one.
 * @throws Error of the file system
 */
export async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  const path = join(folder, keptFiles.manifest);
  const unfinished = `${path}.new`;
  const file = await open(unfinished, 'w', 0o600);
  try {
    await file.writeFile(JSON.stringify(manifest));
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(unfinished, path);
  await syncFolder(folder);
}

/** Without this, a loss of power may undo a rename, or the making of a file (fsync(2)). */
export async function syncFolder(folder: string): Promise<void> {
  const opened = await open(folder, 'r');
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}

/** A file of a result was changed by somebody else, or cut off. */
export class DamagedFileError extends Error {
  override readonly name = 'DamagedFileError';
}

/**
 * @returns null if there is none
 * @throws DamagedFileError, or Error of the file system
 */
export async function readManifest(folder: string): Promise<Manifest | null> {
  const manifest = await readJson(join(folder, keptFiles.manifest));
  if (manifest === null || isManifest(manifest)) return manifest as Manifest | null;
  throw new DamagedFileError('its manifest has a member that is missing or wrong');
}

/**
 * @returns null if there is no such file
 * @throws DamagedFileError, or Error of the file system
 */
async function readJson(path: string): Promise<unknown> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      if (size > jsonBytesMax) throw new DamagedFileError(`${basename(path)} has ${size} bytes`);
      return JSON.parse(await file.readFile('utf8')) ?? '';
    } finally {
      await file.close();
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw new DamagedFileError(`${basename(path)} is not JSON`);
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/**
 * The columns that the worker has written before the first row; none if the statement has returned none.
 * @throws DamagedFileError, or Error of the file system
 */
export async function readColumns(folder: string): Promise<readonly Column[]> {
  const found = await readJson(join(folder, keptFiles.columns));
  if (found === null) return [];
  if (areColumns(found)) return (found as ShownColumns).columns;
  throw new DamagedFileError(`${keptFiles.columns} has a member that is missing or wrong`);
}

/** The index of a folder; empty if there is none. */
export async function readIndexFile(folder: string): Promise<Buffer> {
  return readFile(join(folder, keptFiles.index)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  });
}

/** Removes a result from the disk. Without its manifest, the rest is no result any more. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(join(folder, keptFiles.manifest), { force: true });
  // A file of a format may be begun meanwhile.
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  // A loss of power does not bring it back.
  await syncFolder(dirname(folder)).catch((error: Error) => {
    if (!isMissing(error)) throw error;
  });
}

/** @returns the bytes of a file; 0 if there is none */
export async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => null))?.size ?? 0;
}
