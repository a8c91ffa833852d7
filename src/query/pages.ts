import type { Column } from '../wire/statement.ts';
import { noRows, type Rows } from './ring.ts';
import type { QueryState } from './state.ts';

/** Rows and bytes, as counted for a progress. */
export interface Progress {
  readonly rows: number;
  readonly bytes: number;
}

/** What the database has examined. */
export interface ScanProgress extends Progress {
  /** Whether the database has given a count; if not, the rows are those that it has returned. */
  readonly known: boolean;
  /** The database's estimate of the rows to examine; null: it gives none, or has examined more already. */
  readonly estimatedRows: number | null;
}

export interface QueryStats {
  readonly runningMs: number;
  readonly scan: ScanProgress;
  readonly write: Progress;
  readonly result: Progress;
  /** What has been put to disk. */
  readonly spill: Progress;
  /** The place of a statement that waits for its turn, from 1 on; null if it does not. */
  readonly queue: number | null;
}

/** What a query was at one moment. */
export interface Snapshot {
  readonly state: QueryState;
  readonly columns: readonly Column[];
  readonly stats: QueryStats;
}

/** One page as it was, and will be, answered. */
export interface Page extends Snapshot {
  readonly number: number;
  readonly rows: Rows;
  /** The number of the page after it, or null if all has been said. */
  readonly next: number | null;
}

/** Where pages come from. */
export interface PageSource {
  /** Settles when a page can be made, or the wait is over; undefined: it can be made now. Called for one page at a time. */
  ready(): Promise<void> | undefined;
  /** Makes the page of that number. */
  take(number: number): Page;
}

/**
 * Which page a number stands for. `#last` is the page that was answered with rows, or that ended the result; `#number`
 * is the one to come. All who wait for a number share one promise, which is forgotten if its page turns out empty with more
 * to come: so replays, two polls at once and lost answers are one mechanism.
 */
export class Pages {
  readonly #source: PageSource;
  #last: Page | null = null;
  #number = 0;
  #filling: Promise<Page> | null = null;

  constructor(source: PageSource) {
    this.#source = source;
  }

  /** The page kept for those who ask again. */
  get last(): Page | null {
    return this.#last;
  }

  /** The number of the page to come; null after the last. */
  get next(): number | null {
    return this.#last?.next === null ? null : this.#number;
  }

  /** Nobody will ask any more. */
  forget(): void {
    if (this.#last !== null) this.#last = { ...this.#last, rows: noRows };
  }

  /** @returns null if no page has that number, or has it any more */
  get(number: number): Promise<Page> | null {
    const last = this.#last;
    if (last !== null && number === last.number) return Promise.resolve(last);
    if (number !== this.#number) return null;
    if (last !== null && last.next === null) return Promise.resolve(pastTheEnd(last));
    if (this.#filling !== null) return this.#filling;
    const ready = this.#source.ready();
    if (ready === undefined) return Promise.resolve(this.#make(number));
    this.#filling = ready.then(() => this.#make(number));
    return this.#filling;
  }

  #make(number: number): Page {
    this.#filling = null;
    const page = this.#source.take(number);
    if (page.next !== number) {
      this.#last = page;
      this.#number = number + 1;
    }
    return page;
  }
}

function pastTheEnd(last: Page): Page {
  return { ...last, number: last.number + 1, rows: noRows, next: null };
}
