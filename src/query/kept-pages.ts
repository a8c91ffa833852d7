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

/** A request that waits for rows. */
interface Waiting {
  readonly wanted: Wanted;
  readonly timer: NodeJS.Timeout;
}

/** What all that wait have to wait for at least. */
interface Awaited {
  /** The number of rows with which the first of them may be ready. */
  readonly rows: number;
  /** The first row that one of them wants. */
  readonly from: number;
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
  readonly #waiting = new Map<PageReader, Waiting>();
  #awaited: Awaited | null = null;
  /** Those whose rows are being read from the disk. */
  readonly #reading = new Map<PageReader, AbortController>();
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

  leave(reader: PageReader): void {
    this.#reading.get(reader)?.abort();
    const waiting = this.#waiting.get(reader);
    if (waiting !== undefined) this.#stopWaiting(reader, waiting);
  }

  #take(wanted: Wanted, reader: PageReader): void {
    if (this.#limits.waitMs === 0 || this.#isReady(wanted)) queueMicrotask(() => void this.#give(wanted, reader));
    else this.#wait(wanted, reader);
  }

  #isReady({ number, count }: Wanted): boolean {
    return !this.#query.isReported || this.#store.rows >= this.#rowsFor(number, count) || this.#hasPageBehind(number);
  }

  #rowsFor(number: number, count: number): number {
    return number + Math.min(count, this.#limits.readyRows);
  }

  #hasPageBehind(number: number): boolean {
    return this.#store.textBytesFrom(number) >= 2 * this.#limits.pageBytes;
  }

  #wait(wanted: Wanted, reader: PageReader): void {
    if (this.#waiting.size === 0) {
      this.#polledSince = performance.now();
      this.#query.on('readable', this.#check);
    }
    const timer = setTimeout(() => this.#wake(reader), this.#limits.waitMs);
    this.#waiting.set(reader, { wanted, timer });
    this.#await(wanted);
  }

  #await({ number, count }: Wanted): void {
    const { rows = Number.POSITIVE_INFINITY, from = Number.POSITIVE_INFINITY } = this.#awaited ?? {};
    this.#awaited = { rows: Math.min(rows, this.#rowsFor(number, count)), from: Math.min(from, number) };
  }

  /** One listener for all that wait, which may be thousands: only when one of them may be ready does it look at each. */
  readonly #check = (): void => {
    const awaited = this.#awaited;
    if (awaited === null) return;
    const { rows, from } = awaited;
    if (this.#query.isReported && this.#store.rows < rows && !this.#hasPageBehind(from)) return;
    this.#awaited = null;
    for (const [reader, { wanted }] of [...this.#waiting]) {
      if (this.#isReady(wanted)) this.#wake(reader);
      else this.#await(wanted);
    }
  };

  #wake(reader: PageReader): void {
    const waiting = this.#waiting.get(reader);
    if (waiting === undefined) return;
    this.#stopWaiting(reader, waiting);
    queueMicrotask(() => void this.#give(waiting.wanted, reader));
  }

  #stopWaiting(reader: PageReader, { timer }: Waiting): void {
    clearTimeout(timer);
    this.#waiting.delete(reader);
    if (this.#waiting.size > 0) return;
    this.#polledSince = null;
    this.#awaited = null;
    this.#query.off('readable', this.#check);
  }

  async #give(wanted: Wanted, reader: PageReader): Promise<void> {
    const leaving = new AbortController();
    this.#reading.set(reader, leaving);
    try {
      const page = await this.#read(wanted, leaving.signal);
      if (!leaving.signal.aborted) reader.page(page);
    } catch (error) {
      if (!leaving.signal.aborted) reader.noPage(error);
    } finally {
      this.#reading.delete(reader);
    }
  }

  async #read({ number, count: wantedRows, areOfFailed }: Wanted, signal: AbortSignal): Promise<Page> {
    const { pageBytes, format } = this.#limits;
    const before = this.#query.snapshot();
    if (before.state.name === 'Failed' && !areOfFailed) return { ...before, number, rows: noRows, next: null };
    const count = Math.max(0, Math.min(wantedRows, this.#store.rows - number));
    const rows: Rows = count === 0 ? noRows : await this.#store.read(number, count, pageBytes, format, signal);
    const behind = number + rows.count;
    const isLast = !this.#query.isReported && behind >= this.#store.rows;
    if (behind > this.#next) this.#next = behind;
    const { state, columns, stats } = this.#query.snapshot();
    return { state, columns, stats, number, rows, next: isLast ? null : behind };
  }
}
