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

/**
 * A request for a page. One of the two is called, once, in a later microtask than the one in which the page was asked for, unless
 * the reader leaves.
 */
export interface PageReader {
  page(page: Page): void;
  /** The page could not be made: a defect. */
  noPage(error: unknown): void;
}

/** The pages of a query. */
export interface PageTable {
  /** All rows have been handed out, or will be there whenever they are asked for. */
  readonly isReadToEnd: boolean;
  /** The first page was the only one, and has been handed out. */
  readonly isSinglePage: boolean;
  /** The number of the page to ask for; null after the last. */
  readonly next: number | null;
  /** Since when a poll waits for a page, by `performance.now()`; null: none does. */
  readonly polledSince: number | null;
  /** Whether a page that is waited for may be ready. */
  readonly isReadable: boolean;
  /** @returns false if there is no page of that number, or it is no longer kept */
  readPage(number: number, reader: PageReader): boolean;
  /** The reader's client has gone. */
  leave(reader: PageReader): void;
  /** Nobody will ask for a page again. */
  forget(): void;
}

/** Where pages come from. */
export interface PageSource {
  readonly polledSince: number | null;
  readonly isReadable: boolean;
  /** Whether a page can be made now. */
  readonly isReady: boolean;
  /** Calls `Pages.ready` when a page can be made, or the wait is over. */
  wait(pages: Pages): void;
  /** Makes the page of that number. */
  take(number: number): Page;
}

/**
 * Maps page numbers to pages. `#last` is the last page that had rows or ended the result; `#number` is the number of the next
 * one. All readers of a number wait for the same page. If it turns out empty with more rows to come, it is not kept. So repeated
 * requests, concurrent polls and lost answers take the same path.
 */
export class Pages implements PageTable {
  readonly #source: PageSource;
  #last: Page | null = null;
  #number = 0;
  /** Those who wait for the page `#number`. */
  #readers: PageReader[] | null = null;

  constructor(source: PageSource) {
    this.#source = source;
  }

  get isReadToEnd(): boolean {
    return this.#last?.next === null;
  }

  get isSinglePage(): boolean {
    return this.#last?.number === 0 && this.#last.next === null;
  }

  get polledSince(): number | null {
    return this.#source.polledSince;
  }

  get isReadable(): boolean {
    return this.#source.isReadable;
  }

  get next(): number | null {
    return this.#last?.next === null ? null : this.#number;
  }

  /** Drops the rows of the last page. */
  forget(): void {
    if (this.#last !== null) this.#last = { ...this.#last, rows: noRows };
  }

  readPage(number: number, reader: PageReader): boolean {
    const last = this.#last;
    if (last !== null && number === last.number) give(last, [reader]);
    else if (number !== this.#number) return false;
    else if (last !== null && last.next === null) give(pastTheEnd(last), [reader]);
    else if (this.#readers !== null) this.#readers.push(reader);
    else if (this.#source.isReady) this.#make([reader]);
    else {
      this.#readers = [reader];
      this.#source.wait(this);
    }
    return true;
  }

  leave(reader: PageReader): void {
    const index = this.#readers?.indexOf(reader) ?? -1;
    if (index >= 0) this.#readers?.splice(index, 1);
  }

  /** For `PageSource`. */
  ready(): void {
    const readers = this.#readers;
    this.#readers = null;
    if (readers !== null && readers.length > 0) this.#make(readers);
  }

  #make(readers: readonly PageReader[]): void {
    const number = this.#number;
    let page: Page;
    try {
      page = this.#source.take(number);
    } catch (error) {
      queueMicrotask(() => {
        for (const reader of readers) reader.noPage(error);
      });
      return;
    }
    if (page.next !== number) {
      this.#last = page;
      this.#number = number + 1;
    }
    give(page, readers);
  }
}

/** Not at once: the page may be read, or become ready, in the middle of a change of the query. */
function give(page: Page, readers: readonly PageReader[]): void {
  queueMicrotask(() => {
    for (const reader of readers) reader.page(page);
  });
}

function pastTheEnd(last: Page): Page {
  return { ...last, number: last.number + 1, rows: noRows, next: null };
}
