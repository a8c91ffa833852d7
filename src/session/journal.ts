import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Observe } from '../events.ts';
import { identify } from '../process-identity.ts';

/** A journal is rewritten when it has more lines than this, and most of them are about connections that are closed. */
const linesMin = 1_000;
/**
 * An older journal is removed: the statements of its connections have ended, or the database uses their ids for other
 * connections.
 */
const ageMsMax = 24 * 3600 * 1_000;
/** The time between two attempts to write a journal that could not be written. */
const retryMs = 1_000;

export interface JournaledConnection {
  /** Its id in the database. */
  readonly id: number;
  readonly user: string;
  /** Milliseconds since 1970. */
  readonly openedAt: number;
}

/** Records that connections are closed. */
export interface ConnectionRecord {
  closed(id: number): void;
}

/** The journal of a process that has died. */
export class LeftJournal implements ConnectionRecord {
  readonly connections: readonly JournaledConnection[];
  readonly #path: string;
  readonly #observe: Observe;
  #left: number;

  constructor(path: string, connections: readonly JournaledConnection[], observe: Observe) {
    this.#path = path;
    this.#observe = observe;
    this.connections = connections;
    this.#left = connections.length;
  }

  /** Called once for each connection that runs nothing any more. The file is removed after the last. */
  closed(): void {
    this.#left--;
    if (this.#left !== 0) return;
    try {
      rmSync(this.#path, { force: true });
    } catch (error) {
      this.#observe({ type: 'journal_failed', error: error as Error });
    }
  }
}

/**
 * A file with the open database connections of this process. If the process is killed, the next one ends the statements that
 * these connections still run. The first line identifies the database. Each other line is `+` and a connection as JSON, or `-`
 * and its id. If a line cannot be written, the whole file is written anew until that succeeds.
 *
 * ```text
 * failing ◀──▶ writable ──▶ ended
 *    └────────────────────────▲
 * ```
 */
export class Journal implements ConnectionRecord {
  readonly #folder: string;
  readonly #path: string;
  readonly #database: string;
  readonly #observe: Observe;
  readonly #open = new Map<number, JournaledConnection>();
  #phase: 'writable' | 'failing' | 'ended' = 'writable';
  /** null unless the phase is `writable`. */
  #file: number | null = null;
  #lines = 0;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param folder made if there is none
   * @param database the address of the database
   */
  constructor(folder: string, database: string, observe: Observe) {
    this.#folder = folder;
    this.#path = join(folder, nameOf(process.pid));
    this.#database = database;
    this.#observe = observe;
    this.#try(() => this.#rewrite());
  }

  /** The journals of this database whose processes have died. */
  left(): LeftJournal[] {
    const left: LeftJournal[] = [];
    for (const name of this.#names()) {
      const pid = Number(name.split('.')[0]);
      // A draft belongs to its process too.
      if (!Number.isInteger(pid) || pid === 0 || name.replace(draftSuffix, '') === nameOf(pid)) continue;
      const path = join(this.#folder, name);
      try {
        const text = readFileSync(path, 'utf8');
        // The user may have files in this folder too. A journal may have been cut while its first line was written.
        if (!text.startsWith(beginning.slice(0, text.length))) continue;
        const isUseless = name.endsWith(draftSuffix) || Date.now() - statSync(path).mtimeMs > ageMsMax;
        const connections = isUseless ? [] : this.#parse(text);
        if (connections?.length === 0) rmSync(path, { force: true });
        else if (connections !== null) left.push(new LeftJournal(path, connections, this.#observe));
      } catch (error) {
        this.#observe({ type: 'journal_failed', error: error as Error });
      }
    }
    return left;
  }

  #names(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch {
      // The constructor has reported that the folder could not be made.
      return [];
    }
  }

  opened(connection: JournaledConnection): void {
    this.#open.set(connection.id, connection);
    this.#append(`+${JSON.stringify(connection)}\n`);
  }

  closed(id: number): void {
    if (this.#open.delete(id)) this.#append(`-${id}\n`);
  }

  /** Ends the journal and removes the file, since no statement of this process runs in the database. */
  remove(): void {
    const isReported = this.#phase === 'failing';
    this.#end();
    try {
      for (const path of [this.#path, this.#draft]) rmSync(path, { force: true });
    } catch (error) {
      if (!isReported) this.#observe({ type: 'journal_failed', error: error as Error });
    }
  }

  /** Ends the journal. The next process ends the statements of the connections in the file. */
  leave(): void {
    if (this.#phase === 'failing') this.#try(() => this.#rewrite());
    this.#end();
  }

  #end(): void {
    this.#phase = 'ended';
    clearTimeout(this.#timer);
    this.#close();
  }

  #close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  get #draft(): string {
    return `${this.#path}${draftSuffix}`;
  }

  #append(line: string): void {
    const file = this.#file;
    // While the journal fails, the next attempt writes all open connections.
    if (file === null) return;
    this.#try(() => {
      // Unlike writeSync, it also writes what is left after a short write, or throws.
      writeFileSync(file, line);
      this.#lines++;
      if (this.#lines > linesMin && this.#lines > 4 * this.#open.size) this.#rewrite();
    });
  }

  /** Replaces the file in one step, so that there is always a complete journal. */
  #rewrite(): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const file = openSync(this.#draft, 'w', 0o600);
    const lines = [...this.#open.values()].map((connection) => `+${JSON.stringify(connection)}\n`);
    try {
      writeFileSync(file, `${JSON.stringify({ database: this.#database })}\n${lines.join('')}`);
      renameSync(this.#draft, this.#path);
    } catch (error) {
      closeSync(file);
      throw error;
    }
    this.#close();
    this.#file = file;
    this.#lines = lines.length;
  }

  /** @returns null if the journal is about another database */
  #parse(text: string): JournaledConnection[] | null {
    const open = new Map<number, JournaledConnection>();
    const [first = '', ...lines] = text.split('\n');
    if (first !== JSON.stringify({ database: this.#database })) return null;
    // The last line is empty or incomplete.
    for (const line of lines.slice(0, -1)) {
      if (line.startsWith('-')) {
        open.delete(Number(line.slice(1)));
      } else {
        const connection = connectionIn(line);
        if (connection !== null) open.set(connection.id, connection);
      }
    }
    return [...open.values()];
  }

  /** Reports an error, unless the last attempt failed too, and after a while writes the file anew. */
  #try(work: () => void): void {
    try {
      work();
      if (this.#phase === 'failing') this.#observe({ type: 'journal_recovered' });
      this.#phase = 'writable';
    } catch (error) {
      // It may end in a part of a line, so nothing is appended to it.
      this.#close();
      if (this.#phase !== 'failing') this.#observe({ type: 'journal_failed', error: error as Error });
      this.#phase = 'failing';
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#try(() => this.#rewrite()), retryMs).unref();
    }
  }
}

/** @returns null if the line is damaged */
function connectionIn(line: string): JournaledConnection | null {
  try {
    const { id, user, openedAt } = JSON.parse(line.slice(1)) as Partial<JournaledConnection>;
    if (!Number.isInteger(id) || typeof user !== 'string' || typeof openedAt !== 'number') return null;
    return { id: id as number, user, openedAt };
  } catch {
    return null;
  }
}

const draftSuffix = '.draft';
/** The first bytes of each journal. */
const beginning = '{"database":';

/** The file name of the journal of a live process. A later process with the same number has another name. */
function nameOf(pid: number): string {
  return `${pid}.${identify(pid)?.replaceAll('/', '.')}`;
}
