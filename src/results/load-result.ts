import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { timeOfQueryId } from '../ids.ts';
import { identify } from '../process-identity.ts';
import { causes, interrupted, undelivered } from '../wire/failures.ts';
import { isFormatFile, keptFiles, readIndex } from '../wire/kept-rows.ts';
import { KeptResult, type ResultParts } from './kept-result.ts';
import {
  DamagedFileError,
  type Manifest,
  readIndexFile,
  readManifest,
  removeFolder,
  sizeOf,
  thisProcess,
} from './manifest.ts';

export interface LoadedResult {
  readonly result: KeptResult;
  readonly manifest: Manifest;
  /** How long it is still kept. */
  readonly leftMs: number;
}

type Found =
  | { readonly type: 'loaded'; readonly loaded: LoadedResult }
  /** Another process that is alive has it, or it is no result. */
  | { readonly type: 'not ours' }
  /** It stays on disk for a server of that database. */
  | { readonly type: 'of another database' }
  | { readonly type: 'unusable'; readonly reason: string };

const unfinishedManifest = `${keptFiles.manifest}.new`;
/** How long a server may take to write the first manifest. */
const makingMsMax = 60_000;

const lastingNames: readonly string[] = Object.values(keptFiles);

/** Files of formats, which may be incomplete, and an unfinished manifest. */
function isPassing(name: string): boolean {
  return isFormatFile(name) || name === unfinishedManifest;
}

/**
 * Reads one result that an earlier process has left.
 * @param database whose users may see results
 */
export async function loadResult(folder: string, name: string, database: string, parts: ResultParts): Promise<Found> {
  try {
    // The user may have other files there.
    if (timeOfQueryId(name) === null || !(await lstat(folder)).isDirectory()) return { type: 'not ours' };
    const manifest = await readManifest(folder);
    if (manifest === null) {
      if (await isBeingMade(folder, name)) return { type: 'not ours' };
      return (await removeLeftover(folder)) ? { type: 'unusable', reason: 'it has no manifest' } : { type: 'not ours' };
    }
    if (manifest.id !== name) throw new DamagedFileError('its manifest is of another result');
    const { pid, identity } = manifest.process;
    const isAlive = pid !== process.pid && identity !== '' && identify(pid) === identity;
    if (isAlive) return { type: 'not ours' };
    return await loadFrom(folder, manifest, database, parts);
  } catch (error) {
    const { message: reason } = error as Error;
    if (error instanceof DamagedFileError) await removeLeftover(folder).catch(() => {});
    return { type: 'unusable', reason };
  }
}

async function loadFrom(folder: string, old: Manifest, database: string, parts: ResultParts): Promise<Found> {
  const now = Date.now();
  const endedAt = old.endedAt ?? now;
  // A clock that was set back does not keep it for longer.
  const leftMs = Math.min(old.keepMs, endedAt + old.keepMs - now);
  if (leftMs <= 0) {
    await removeFolder(folder);
    return { type: 'unusable', reason: 'it has expired' };
  }
  if (old.database !== database) return { type: 'of another database' };
  await removePassingFiles(folder);
  const rowsBytes = await sizeOf(join(folder, keptFiles.rows));
  const index = await readIndexFile(folder);
  const result = new KeptResult(folder, old, parts);
  // What was written after the end, as when a statement was cancelled, is none of its rows.
  const rowsMax = old.state.name === 'Running' ? Number.POSITIVE_INFINITY : old.rows;
  for (const batch of readIndex(index)) {
    const isBeyond = result.index.bytes + batch.bytes > rowsBytes || result.index.rows + batch.rows > rowsMax;
    if (isBeyond) break;
    result.add(batch);
  }
  const { rows } = result;
  const state = stateAfter(old, rows);
  // From now on no other server takes it over. If that cannot be written, as on a full disk, it is served all the same.
  await result.save({ ...old, process: thisProcess(), state, endedAt, rows }).catch(() => {});
  return { type: 'loaded', loaded: { result, manifest: result.manifest, leftMs } };
}

/** The state of a statement whose server has ended, given the rows that were found. */
function stateAfter({ state, rows, effect, isStandalone }: Manifest, found: number): Manifest['state'] {
  if (state.name === 'Running') {
    return { name: 'Failed', failure: interrupted(causes.serverEnded(), effect, isStandalone) };
  }
  if (state.name === 'Succeeded' && found < rows) {
    return { name: 'Failed', failure: undelivered(causes.rowsLost(found, rows), effect) };
  }
  return state;
}

async function removePassingFiles(folder: string): Promise<void> {
  // One that stays is written anew.
  const remove = (name: string): Promise<void> => rm(join(folder, name), { force: true }).catch(() => {});
  await Promise.all((await readdir(folder)).filter(isPassing).map(remove));
}

/** Whether another server may be about to write the manifest. There are no rows before it has (see `KeptResults.make`). */
async function isBeingMade(folder: string, id: string): Promise<boolean> {
  const isYoung = Math.abs(Date.now() - (timeOfQueryId(id) ?? 0)) < makingMsMax;
  return isYoung && (await readdir(folder)).every((name) => name === unfinishedManifest);
}

/**
 * Removes a folder that has no manifest, or a damaged one: a server was killed before it had written the manifest, or while it
 * removed the result.
 * @returns false if there are files in it that are not a server's
 */
async function removeLeftover(folder: string): Promise<boolean> {
  const names = await readdir(folder);
  if (!names.every((name) => lastingNames.includes(name) || isPassing(name))) return false;
  await removeFolder(folder);
  return true;
}
