import type { QueryLimits } from './limits.ts';
import type { Page, PageSource, Pages, Snapshot } from './pages.ts';
import { noRows } from './ring.ts';
import type { Credit, RowBuffer } from './row-buffer.ts';

/** The query whose rows are made into pages. */
export interface PagedQuery {
  /** Whether rows, or the end of the statement, may still come. */
  readonly isReported: boolean;
  snapshot(): Snapshot;
  /** Lets the worker send as much more. */
  credit(credit: Credit): void;
  on(event: 'readable', listener: () => void): unknown;
  off(event: 'readable', listener: () => void): unknown;
}

/** Makes pages of the rows that a query has received. */
export class RowPages implements PageSource {
  readonly #query: PagedQuery;
  readonly #limits: QueryLimits;
  readonly #rows: RowBuffer;
  #polledSince: number | null = null;

  constructor(query: PagedQuery, limits: QueryLimits, rows: RowBuffer) {
    this.#query = query;
    this.#limits = limits;
    this.#rows = rows;
  }

  get polledSince(): number | null {
    return this.#polledSince;
  }

  /** Whether a page is full, nothing more comes to fill it, or the worker waits for credit. */
  get isReadable(): boolean {
    const { readyRows, pageBytes, bufferRows } = this.#limits;
    const { rows, bytes } = this.#rows;
    if (!this.#query.isReported || rows >= readyRows || bytes >= pageBytes) return true;
    return rows > 0 && this.#rows.isOutOfCredit(bufferRows);
  }

  get isReady(): boolean {
    return this.#limits.waitMs === 0 || this.isReadable;
  }

  wait(pages: Pages): void {
    this.#polledSince = performance.now();
    const wake = (): void => {
      clearTimeout(timer);
      this.#query.off('readable', wake);
      this.#polledSince = null;
      // Not at once: the query emits events in the middle of its changes.
      queueMicrotask(() => pages.ready());
    };
    const timer = setTimeout(wake, this.#limits.waitMs);
    this.#query.on('readable', wake);
  }

  take(number: number): Page {
    const { pageRows, pageBytes } = this.#limits;
    const taken = this.#rows.take(pageRows, pageBytes);
    if (taken !== null) this.#query.credit(taken.credit);
    const rows = taken?.rows ?? noRows;
    const isLast = !this.#query.isReported && this.#rows.rows === 0;
    const next = isLast ? null : rows.count > 0 ? number + 1 : number;
    if (next !== number) this.#rows.keep(rows);
    // Object spread takes longer than all the rest of a small page.
    const { state, columns, stats } = this.#query.snapshot();
    return { state, columns, stats, number, rows, next };
  }
}
