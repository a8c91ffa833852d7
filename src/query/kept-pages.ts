import type { QueryLimits } from './limits.ts';
import type { Page, PageReader, PageTable } from './pages.ts';
import { noRows, type Rows } from './ring.ts';
import type { PagedQuery } from './row-pages.ts';
import type { RowStore } from './row-store.ts';

/** Rows that are asked for: at most `count` from row `number` on. */
interface Wanted {
  readonly number: number;
  readonly count: number;
  /** Whether rows of a statement that has failed are wanted too. */
  readonly areOfFailed: boolean;
}

/**
 * The pages of a kept result. The number of a page is that of its first row, so that any page can be asked for at any time, as
 * often as its client likes.
 */
export class KeptPages implements PageTable {
  readonly #query: PagedQuery;
  readonly #limits: QueryLimits;
  readonly #store: RowStore;
  /** Since when polls wait, by `performance.now()`; null: none does. */
  #polledSince: number | null = null;
  #polls = 0;
  /** The number of the page after the furthest that was given. */
  #next = 0;

  constructor(query: PagedQuery, limits: QueryLimits, store: RowStore) {
    this.#query = query;
    this.#limits = limits;
    this.#store = store;
  }

  /** A result that is kept is there whether or not it is read. */
  get isReadToEnd(): boolean {
    return !this.#query.isReported;
  }

  get isSinglePage(): boolean {
    return false;
  }

  get next(): number | null {
    return this.#query.isReported || this.#next < this.#store.rows ? this.#next : null;
  }

  get polledSince(): number | null {
    return this.#polledSince;
  }

  get isReadable(): boolean {
    return true;
  }

  /** The rows are on disk. */
  forget(): void {}

  readPage(number: number, reader: PageReader): boolean {
    if (number > this.#store.rows) return false;
    this.#take({ number, count: this.#limits.pageRows, areOfFailed: false }, reader);
    return true;
  }

  /**
   * As `readPage`, for at most `count` rows from any row on, those of a statement that has failed later included. Without rows
   * there, it waits for them.
   * @param count null: as many as a page has
   */
  readRows(from: number, count: number | null, reader: PageReader): void {
    this.#take({ number: from, count: count ?? this.#limits.pageRows, areOfFailed: true }, reader);
  }

  #take(wanted: Wanted, reader: PageReader): void {
    if (this.#limits.waitMs === 0 || this.#isReady(wanted)) queueMicrotask(() => void this.#give(wanted, reader));
    else this.#wait(wanted, reader);
  }

  #isReady({ number, count }: Wanted): boolean {
    if (!this.#query.isReported) return true;
    const { readyRows, pageBytes } = this.#limits;
    return (
      this.#store.rows - number >= Math.min(count, readyRows) || this.#store.textBytesFrom(number) >= 2 * pageBytes
    );
  }

  #wait(wanted: Wanted, reader: PageReader): void {
    this.#polls++;
    this.#polledSince ??= performance.now();
    const wake = (): void => {
      clearTimeout(timer);
      this.#query.off('readable', check);
      this.#polls--;
      if (this.#polls === 0) this.#polledSince = null;
      queueMicrotask(() => void this.#give(wanted, reader));
    };
    const check = (): void => {
      if (this.#isReady(wanted)) wake();
    };
    const timer = setTimeout(wake, this.#limits.waitMs);
    this.#query.on('readable', check);
  }

  async #give(wanted: Wanted, reader: PageReader): Promise<void> {
    try {
      reader.page(await this.#read(wanted));
    } catch (error) {
      reader.noPage(error);
    }
  }

  async #read({ number, count: wantedRows, areOfFailed }: Wanted): Promise<Page> {
    const { pageBytes, format } = this.#limits;
    const before = this.#query.snapshot();
    if (before.state.name === 'Failed' && !areOfFailed) return { ...before, number, rows: noRows, next: null };
    const count = Math.max(0, Math.min(wantedRows, this.#store.rows - number));
    const rows: Rows = count === 0 ? noRows : await this.#store.read(number, count, pageBytes, format);
    const behind = number + rows.count;
    const isLast = !this.#query.isReported && behind >= this.#store.rows;
    if (behind > this.#next) this.#next = behind;
    const { state, columns, stats } = this.#query.snapshot();
    return { state, columns, stats, number, rows, next: isLast ? null : behind };
  }
}
