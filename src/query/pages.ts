import type { Column } from '../wire/statement.ts';
import { noRows, type Rows } from './ring.ts';
import type { QueryState } from './state.ts';

/** A count of rows and of their bytes as JSON. */
export interface Progress {
  readonly rows: number;
  readonly bytes: number;
}

/** The rows that the database has examined. */
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
  /** Rows and bytes written to disk. */
  readonly spill: Progress;
  /** The position in the queue, from 1; null if the statement does not wait. */
  readonly queue: number | null;
}

/** A query's state at one moment. */
export interface Snapshot {
  readonly state: QueryState;
  readonly columns: readonly Column[];
  readonly stats: QueryStats;
}

/** One page of a result. A repeated request gets the same page again. */
export interface Page extends Snapshot {
  readonly number: number;
  readonly rows: Rows;
  /** The number of the page after it; null if this is the last page. */
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
 * Maps page numbers to pages. `#last` is the last page that had rows or ended the result; `#number` is the number of the next
 * one. All polls for a number share one promise. It is dropped if its page turns out empty with more rows to come. So repeated
 * requests, concurrent polls and lost answers take the same path.
 */
export class Pages {
  readonly #source: PageSource;
  #last: Page | null = null;
  #number = 0;
  #filling: Promise<Page> | null = null;

  constructor(source: PageSource) {
    this.#source = source;
  }

  /** The page that is kept for repeated requests. */
  get last(): Page | null {
    return this.#last;
  }

  /** The number of the page to come; null after the last. */
  get next(): number | null {
    return this.#last?.next === null ? null : this.#number;
  }

  /** Drops the rows of the last page: nobody will request it again. */
  forget(): void {
    if (this.#last !== null) this.#last = { ...this.#last, rows: noRows };
  }

  /** @returns null if there is no page of that number, or it is no longer kept */
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
