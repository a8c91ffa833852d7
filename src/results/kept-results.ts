import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Observe } from '../events.ts';
import { Lock } from '../lock.ts';
import type { Query } from '../query/query.ts';
import { RefusalError } from '../refusal-error.ts';
import { mayTake, type SharedLimit } from '../share.ts';
import { fileTrouble, isFileError } from '../wire/file-trouble.ts';
import { KeptResult, type ResultParts } from './kept-result.ts';
import { KeptSpace } from './kept-space.ts';
import { type LoadedResult, loadResult } from './load-result.ts';
import { type Manifest, removeFolder, syncFolder, thisProcess } from './manifest.ts';
import type { ResultReader } from './result-reader.ts';
import { WriterPace } from './writer-pace.ts';

export interface KeptResultsOptions {
  /** Of all results: each has a folder of its own in it. */
  readonly folder: string;
  /** Which database's users have the results, as the manifests name it. */
  readonly database: string;
  readonly bytes: SharedLimit;
  readonly count: SharedLimit;
  /** Whether the beginning of a statement is kept with its result. */
  readonly logSql: boolean;
}

/** What a new result begins with. */
export type NewResult = Omit<
  Manifest,
  'version' | 'database' | 'process' | 'madeAt' | 'endedAt' | 'state' | 'stats' | 'rows'
>;

/** Results that are loaded at a time. */
const loadsMax = 16;

/** How long another server may load results, and how often it is looked whether it still does. */
const loadLockMs = 60_000;
const loadLockPollMs = 50;

/** Characters of a statement that are kept with its result. */
export const keptSqlCharacters = 200;

/** The results that are kept on disk, of this process and of those before it. */
export class KeptResults {
  readonly #options: KeptResultsOptions;
  readonly #observe: Observe;
  readonly #space: KeptSpace;
  readonly #parts: ResultParts;
  readonly #results = new Map<Query, KeptResult>();
  /** Removals that are under way. */
  readonly #removals = new Map<Query, Promise<void>>();
  #isClosed = false;

  constructor(options: KeptResultsOptions, reader: ResultReader, observe: Observe) {
    this.#options = options;
    this.#observe = observe;
    this.#space = new KeptSpace(options.bytes);
    this.#parts = { reader, space: this.#space, pace: new WriterPace(), observe };
  }

  get size(): number {
    return this.#results.size;
  }

  /** On disk, and reserved there. */
  get bytes(): number {
    return this.#space.bytes;
  }

  /** @throws RefusalError if the user may keep no other result */
  checkRoom(user: string): void {
    const { count } = this.#options;
    const full = this.#space.check(user);
    if (full !== null) throw new RefusalError(full.message, 'too many');
    if (mayTake(count, this.of(user).length, 1, count.max - this.size)) return;
    throw new RefusalError(
      `this user keeps as many results as one may (--kept_count_max, ${count.max} of all users): delete some, or wait until they expire`,
      'too many',
    );
  }

  /**
   * Makes a place for the rows of a statement that has yet to run. It has a manifest, so that a result is found after a restart as
   * soon as its client knows of it.
   * @throws RefusalError if it cannot be made
   */
  async make(made: NewResult): Promise<KeptResult> {
    const folder = join(this.#options.folder, made.id);
    const manifest: Manifest = {
      version: 1,
      ...made,
      database: this.#options.database,
      sql: this.#options.logSql ? made.sql : null,
      process: thisProcess(),
      madeAt: Date.now(),
      endedAt: null,
      state: { name: 'Running' },
      stats: null,
      rows: 0,
    };
    const result = new KeptResult(folder, manifest, this.#parts);
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await Promise.all([result.save(manifest), syncFolder(this.#options.folder)]);
      return result;
    } catch (error) {
      await this.drop(result);
      throw new RefusalError(`no result can be kept in --data_dir: ${fileTrouble(error as Error)}`, 'unavailable');
    }
  }

  /** The statement was refused. */
  async drop(result: KeptResult): Promise<void> {
    result.removed();
    await result.saved();
    await removeFolder(result.folder).catch(() => {});
  }

  /** From now on the result is found, and removed with its query. */
  add(query: Query, result: KeptResult): void {
    this.#results.set(query, result);
    query.once('removed', () => this.#remove(query, result));
    if (!query.isRunning) return;
    result.sessionId = query.identity.sessionId;
    query.once('settled', () => {
      const { state, stats } = query.snapshot();
      // The end of a statement that succeeded is on disk before it is reported.
      if (state.name === 'Failed') result.seal(state, stats).catch(() => {});
    });
  }

  resultOf(query: Query): KeptResult | undefined {
    return this.#results.get(query);
  }

  /** The user's results, the newest first. */
  of(user: string): { query: Query; result: KeptResult }[] {
    const own: { query: Query; result: KeptResult }[] = [];
    for (const [query, result] of this.#results) if (result.manifest.user === user) own.push({ query, result });
    return own.reverse();
  }

  /**
   * Takes over the results that earlier processes have left, and removes what cannot be used.
   * @throws Error of the file system if the folder cannot be read
   */
  async load(): Promise<LoadedResult[]> {
    const { folder } = this.#options;
    if (!existsSync(folder)) return [];
    const lock = await loadLock(folder);
    try {
      return await this.#load(folder);
    } finally {
      lock?.release();
    }
  }

  async #load(folder: string): Promise<LoadedResult[]> {
    const { database } = this.#options;
    const names = await readdir(folder);
    const loaded: LoadedResult[] = [];
    let others = 0;
    const load = async (name: string): Promise<void> => {
      const found = await loadResult(join(folder, name), name, database, this.#parts);
      if (found.type === 'loaded') loaded.push(found.loaded);
      if (found.type === 'of another database') others++;
      if (found.type === 'unusable') this.#observe({ type: 'kept_result_dropped', result: name, reason: found.reason });
    };
    for (let at = 0; at < names.length; at += loadsMax) await Promise.all(names.slice(at, at + loadsMax).map(load));
    if (others > 0) this.#observe({ type: 'kept_results_left', count: others, database });
    return loaded.sort((a, b) => a.manifest.madeAt - b.manifest.madeAt);
  }

  /** Results stay on disk from now on, and are found by the next process. Resolves when nothing is being written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#results.values()].map((result) => result.saved()));
    await Promise.allSettled(this.#removals.values());
  }

  /**
   * Resolves when the result of a query that has just been removed is no longer on disk.
   * @throws RefusalError if it cannot be removed from there
   */
  async removed(query: Query): Promise<void> {
    await this.#removals.get(query);
  }

  #remove(query: Query, result: KeptResult): void {
    this.#results.delete(query);
    if (this.#isClosed) return;
    // At once, so that who deletes one to make room has it.
    result.removed();
    const removal = this.#removeFolder(result).finally(() => this.#removals.delete(query));
    removal.catch(() => {});
    this.#removals.set(query, removal);
  }

  async #removeFolder(result: KeptResult): Promise<void> {
    try {
      await result.saved();
      await removeFolder(result.folder);
    } catch (error) {
      this.#observeFailure(result, error as Error);
      throw new RefusalError(`result ${result.manifest.id} could not be removed from the server's disk`, 'unavailable');
    }
  }

  #observeFailure({ manifest }: KeptResult, { message }: Error): void {
    this.#observe({ type: 'kept_result_failed', result: manifest.id, user: manifest.user, reason: message });
  }
}

/**
 * One server at a time loads results, so that of two that start at once only one takes over each.
 * @returns null if no lock can be written, as on a full disk
 * @throws Error of one line if another server does not end loading
 */
async function loadLock(folder: string): Promise<Lock | null> {
  const deadline = performance.now() + loadLockMs;
  for (;;) {
    try {
      return Lock.take(join(folder, '.loading'), folder);
    } catch (error) {
      if (isFileError(error)) return null;
      if (performance.now() >= deadline) throw error;
      await delay(loadLockPollMs);
    }
  }
}
