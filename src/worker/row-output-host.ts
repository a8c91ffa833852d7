import type { Cause } from '../wire/failures.ts';
import type { ColumnsRef, FromWorker, StatementUpdate, WorkerLimits } from '../wire/messages.ts';
import type { UserSpillUsage } from '../wire/spill-usage.ts';
import type { Column } from '../wire/statement.ts';

/** The connection that the rows come from. */
export interface RowSource {
  pause(): void;
  resume(): void;
  /** Drops the large row that is being received. */
  dropLarge(): void;
}

/** The executor of the statement. */
export interface RowOutputHost {
  readonly limits: Pick<WorkerLimits, 'rowBytesMax' | 'columnsMax' | 'spill'>;
  readonly spillUsage: UserSpillUsage;
  /** @param transfer memory that is transferred instead of copied */
  post(message: StatementUpdate | (FromWorker & { type: 'large_row' | 'unwritten' }), transfer?: ArrayBuffer): void;
  readonly columnsRefs: { refTo(columns: readonly Column[]): ColumnsRef };
}

/** The statement whose rows are sent. */
export interface RowOutputListener {
  readonly number: number;
  rowTooLarge(): void;
  /** A value has no form in the format. */
  unrepresentable(cause: Cause): void;
  /** Rows that were written to disk, or were to be, are lost. */
  rowsLost(error: NodeJS.ErrnoException): void;
  /** All rows that were on disk at the end of the statement have been delivered. */
  rowsDelivered(): void;
}
