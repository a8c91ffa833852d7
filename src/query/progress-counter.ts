import type { Batch } from '../wire/statement.ts';
import type { QueryStats } from './pages.ts';

/** A finished query's totals, for the log. */
export interface QueryTotals {
  readonly runningMs: number;
  readonly rows: number;
  /** As JSON. */
  readonly bytes: number;
  /** The part of `bytes` that went by disk. */
  readonly spilledBytes: number;
}

/** The database is asked for its progress at most this often, */
const askIntervalMs = 1_000;
/** and not for a poll that is answered sooner than this. */
const askAfterMs = 200;

/** Counts how far a statement is: rows examined, rows returned, and how long it has run. */
export class ProgressCounter {
  readonly #createdAt = performance.now();
  #rows = 0;
  #bytes = 0;
  /** The part of them that was written to disk. */
  #spilledRows = 0;
  #spilledBytes = 0;
  /** null: the database has given no count. */
  #examinedRows: number | null = null;
  #estimatedRows: number | null = null;
  /** When the statement was sent to its connection; null if it was not. */
  #sentAt: number | null = null;
  /** null until the statement has settled. */
  #runningMs: number | null = null;

  /** When the database was last asked for its count. */
  #askedAt = Number.NEGATIVE_INFINITY;

  #restored: QueryStats | null = null;

  sent(): void {
    this.#sentAt = performance.now();
  }

  /** The connection was lost before the statement was sent. */
  notSent(): void {
    this.#sentAt = null;
  }

  settled(): void {
    this.#runningMs = this.runningMs;
  }

  received({ rows, length }: Pick<Batch, 'rows' | 'length'>): void {
    this.#rows += rows;
    this.#bytes += length;
  }

  /** Rows of the result were written to disk, from where they are received later. */
  spilled(rows: number, bytes: number): void {
    this.#spilledRows += rows;
    this.#spilledBytes += bytes;
    this.#rows += rows;
    this.#bytes += bytes;
  }

  /** @param rows null: unknown. A count that is lower than an earlier one is ignored. */
  examined(rows: number | null, estimatedRows: number | null): void {
    if (rows !== null) this.#examinedRows = Math.max(this.#examinedRows ?? 0, rows);
    this.#estimatedRows = estimatedRows ?? this.#estimatedRows;
  }

  /**
   * Whether to ask the database for its count now, which counts as asked then.
   * @param polledSince since when a poll waits; null: none does
   */
  isDue(polledSince: number | null, hasListener: boolean): boolean {
    const now = performance.now();
    const isAwaited = hasListener || (polledSince !== null && now >= polledSince + askAfterMs);
    if (!isAwaited || now < this.#askedAt + askIntervalMs) return false;
    this.#askedAt = now;
    return true;
  }

  /** From the POST until the statement was sent to its connection; until now if it was not. */
  get queueMs(): number {
    return (this.#sentAt ?? performance.now()) - this.#createdAt;
  }

  /** From when the statement was sent until it settled, or until now. */
  get runningMs(): number {
    if (this.#runningMs !== null) return this.#runningMs;
    return this.#sentAt === null ? 0 : performance.now() - this.#sentAt;
  }

  get totals(): QueryTotals {
    return { runningMs: this.runningMs, rows: this.#rows, bytes: this.#bytes, spilledBytes: this.#spilledBytes };
  }

  /** An earlier process has run the statement. */
  restore(stats: QueryStats): void {
    this.#restored = stats;
  }

  /**
   * @param writtenRows rows that the statement has changed
   * @param queuePosition null: the statement does not wait
   */
  stats(writtenRows: number, queuePosition: number | null): QueryStats {
    if (this.#restored !== null) return this.#restored;
    const rows = this.#rows;
    const bytes = this.#bytes;
    const examined = Math.max(this.#examinedRows ?? 0, rows);
    const estimatedRows = this.#estimatedRows !== null && this.#estimatedRows >= examined ? this.#estimatedRows : null;
    return {
      runningMs: this.runningMs,
      scan: { rows: examined, bytes, known: this.#examinedRows !== null, estimatedRows },
      write: { rows: writtenRows, bytes: 0 },
      result: { rows, bytes },
      spill: { rows: this.#spilledRows, bytes: this.#spilledBytes },
      queue: queuePosition,
    };
  }
}
