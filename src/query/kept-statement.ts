import type { Effect } from '../wire/effect.ts';
import { type Cause, causes, undelivered } from '../wire/failures.ts';
import { fileTrouble } from '../wire/file-trouble.ts';
import type { KeepRequest, KeptBatch } from '../wire/kept-rows.ts';
import { KeptPages } from './kept-pages.ts';
import type { QueryLimits } from './limits.ts';
import type { QueryStats } from './pages.ts';
import type { PagedQuery } from './row-pages.ts';
import type { RowStore } from './row-store.ts';
import type { QueryState } from './state.ts';

/** The query whose rows are kept. */
export interface KeptQuery extends PagedQuery {
  cancel(cause: Cause): void;
}

/** A statement whose rows go to disk instead of to its query. */
export class KeptStatement {
  readonly store: RowStore;
  readonly pages: KeptPages;
  readonly #query: KeptQuery;
  #grantTimer: NodeJS.Timeout | undefined;

  constructor(store: RowStore, query: KeptQuery, limits: QueryLimits) {
    this.store = store;
    this.pages = new KeptPages(query, limits, store);
    this.#query = query;
  }

  get request(): KeepRequest {
    return { folder: this.store.folder };
  }

  /** @returns bytes of disk space for a worker that has not begun, also if it is another than the one that was granted them */
  grantedBytes(): number {
    this.#grant();
    return this.store.grantedBytes;
  }

  /** @returns bytes of disk space for the worker */
  add(batch: KeptBatch): number {
    const owed = this.store.add(batch);
    const delayMs = this.store.grantDelayMs();
    if (delayMs === 0) return owed + this.#grant();
    clearTimeout(this.#grantTimer);
    this.#grantTimer = setTimeout(() => this.#query.credit({ bytes: this.#grant(), rows: 0 }), delayMs);
    return owed;
  }

  /** @returns bytes more; 0 if there are none, and the statement is cancelled */
  #grant(): number {
    const granted = this.store.grant();
    if (typeof granted === 'number') return granted;
    // Not while it is being sent.
    queueMicrotask(() => this.#query.cancel(granted));
    return 0;
  }

  /** A client that has seen the end finds the result after a restart as well. @returns the state in which it has ended */
  async seal(state: QueryState, stats: QueryStats, effect: Effect): Promise<QueryState> {
    clearTimeout(this.#grantTimer);
    try {
      await this.store.seal(state, stats);
      return state;
    } catch (error) {
      const cause = causes.keepFailed(fileTrouble(error as Error));
      return { name: 'Failed', failure: undelivered(cause, effect) };
    }
  }
}
