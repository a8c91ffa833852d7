import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { identify } from '../process-identity.ts';

/** A journal is written anew when it has this many lines and most of them are of connections that are closed. */
const linesMin = 1_000;
/** Whatever ran when an older journal ended has ended too, or its connections will not be known for ours any more. */
const ageMsMax = 24 * 3600 * 1_000;

export interface JournaledConnection {
  /** Its id in the database. */
  readonly id: number;
  readonly user: string;
  /** Milliseconds since 1970. */
  readonly openedAt: number;
}

/** What a process that has died has left. */
export interface LeftJournal {
  readonly connections: readonly JournaledConnection[];
  /** Called when there is nothing left to be done about them. */
  remove(): void;
}

/**
 * A file that names the open database connections of this process, so that the next one can end what they still run if
 * this one is killed. A line each: `+` and the connection as JSON, or `-` and its id; the first names the database.
 * If it cannot be written, that is said once, and the journal is not kept any more.
 */
export class Journal {
  readonly #folder: string;
  readonly #path: string;
  readonly #database: string;
  readonly #failed: (error: Error) => void;
  readonly #open = new Map<number, JournaledConnection>();
  /** Null when it is not kept. */
  #file: number | null = null;
  #lines = 0;

  /**
   * @param folder made if there is none
   * @param database where the connections lead, as a text
   */
  constructor(folder: string, database: string, failed: (error: Error) => void) {
    this.#folder = folder;
    this.#path = join(folder, nameOf(process.pid));
    this.#database = database;
    this.#failed = failed;
    this.#try(() => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      this.#rewrite();
    });
  }

  /** The journals of this database whose processes have died. */
  left(): LeftJournal[] {
    const left: LeftJournal[] = [];
    for (const name of this.#names()) {
      const pid = Number(name.split('.')[0]);
      // What was never a journal is not ours to judge. A draft belongs to its process too.
      if (!Number.isInteger(pid) || pid === 0 || name.replace(draftSuffix, '') === nameOf(pid)) continue;
      const path = join(this.#folder, name);
      const remove = (): void => rmSync(path, { force: true });
      try {
        const connections = name.endsWith(draftSuffix) ? [] : this.#read(path);
        if (connections?.length === 0 || Date.now() - statSync(path).mtimeMs > ageMsMax) remove();
        else if (connections !== null) left.push({ connections, remove });
      } catch (error) {
        this.#failed(error as Error);
      }
    }
    return left;
  }

  #names(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch {
      // That there is no such folder has been said when it could not be made.
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

  /** Removes the file: nothing of this process is left in the database. */
  close(): void {
    const file = this.#file;
    this.#file = null;
    if (file === null) return;
    closeSync(file);
    rmSync(this.#path, { force: true });
  }

  #append(line: string): void {
    const file = this.#file;
    if (file === null) return;
    this.#try(() => {
      writeSync(file, line);
      this.#lines++;
      if (this.#lines > linesMin && this.#lines > 4 * this.#open.size) this.#rewrite();
    });
  }

  /** In one step, so that there is always a whole journal. */
  #rewrite(): void {
    const draft = `${this.#path}${draftSuffix}`;
    const file = openSync(draft, 'w', 0o600);
    const lines = [...this.#open.values()].map((connection) => `+${JSON.stringify(connection)}\n`);
    writeSync(file, `${JSON.stringify({ database: this.#database })}\n${lines.join('')}`);
    renameSync(draft, this.#path);
    if (this.#file !== null) closeSync(this.#file);
    this.#file = file;
    this.#lines = lines.length;
  }

  /** @returns null if it is another database's */
  #read(path: string): JournaledConnection[] | null {
    const open = new Map<number, JournaledConnection>();
    const [first = '', ...lines] = readFileSync(path, 'utf8').split('\n');
    if (first !== JSON.stringify({ database: this.#database })) return null;
    // The last line is empty, or was cut off in the midst.
    for (const line of lines.slice(0, -1)) {
      if (line.startsWith('-')) {
        open.delete(Number(line.slice(1)));
      } else {
        const connection = JSON.parse(line.slice(1)) as JournaledConnection;
        open.set(connection.id, connection);
      }
    }
    return [...open.values()];
  }

  #try(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (this.#file !== null) closeSync(this.#file);
      this.#file = null;
      this.#failed(error as Error);
    }
  }
}

const draftSuffix = '.draft';

/** The name of the journal of a process that lives, which no later process with the same number has. */
function nameOf(pid: number): string {
  return `${pid}.${identify(pid)?.replaceAll('/', '.')}`;
}
