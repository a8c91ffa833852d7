import type { Cause } from '../wire/failures.ts';
import type { KeptBatch } from '../wire/kept-rows.ts';
import type { Column, FormatName } from '../wire/statement.ts';
import type { QueryStats } from './pages.ts';
import type { Rows } from './ring.ts';
import type { QueryState } from './state.ts';

/** Where the rows of a kept result lie, so that any of them can be read at any time. */
export interface RowStore {
  /** The folder that the worker writes to. */
  readonly folder: string;
  /** Rows so far. */
  readonly rows: number;
  /**
   * Reserves disk space.
   * @returns bytes that the worker may write in addition; a cause if there is no space left
   */
  grant(): number | Cause;
  /** How long the worker has to wait for more, in milliseconds, because clients wait for pages of kept results. */
  grantDelayMs(): number;
  /** Bytes that were granted and are not used. */
  readonly grantedBytes: number;
  /**
   * The worker has written a batch.
   * @returns bytes of it beyond what was granted, as of a large row, which the worker owes
   */
  add(batch: KeptBatch): number;
  /** Bytes of text of the rows from a batch with that row on. */
  textBytesFrom(row: number): number;
  /**
   * The statement has ended. Resolves when a restart of the server will find the result.
   * @throws Error of the file system
   */
  seal(state: QueryState, stats: QueryStats): Promise<void>;
  /**
   * The columns of its rows; none if its statement has returned none.
   * @throws RefusalError if they cannot be read
   */
  readColumns(): Promise<readonly Column[]>;
  /**
   * Reads rows as text.
   * @param from the first row, from 0 on; less than `rows`
   * @param bytesMax fewer rows are read if their text is longer, but at least one
   * @param signal a reading that has not begun when it is aborted is not done
   * @throws HttpError if they cannot be read, or the reason of the signal
   */
  read(from: number, count: number, bytesMax: number, format: FormatName, signal: AbortSignal): Promise<Rows>;
}
