import type { Batch } from '../wire/statement.ts';

/** The output whose batches are delivered. */
export interface DeliveryHost {
  deliver(batch: Batch, fromDisk: boolean): void;
  /** This many more rows, and bytes of JSON, have been written to disk. */
  spilled(rows: number, bytes: number): void;
  /** A large batch of this size stays in memory because there is no disk space for it; 0: it is gone. */
  unwritten(bytes: number): void;
  /** A large batch that was to be written has been written, delivered or dropped. */
  largeGone(): void;
  /** The reader takes no more: pause the database. */
  pause(): void;
  resume(): void;
  /** The reader has everything that was sent and waits for more, even a few rows. */
  onDrain(): void;
  /** Rows are lost; no other call follows. */
  failed(error: NodeJS.ErrnoException): void;
  /** Everything has been delivered after `end`. */
  done(): void;
}

/** Where the batches of one statement go. */
export interface BatchDelivery {
  /** Whether batches go to disk, and the last of them have yet to be written or delivered. */
  readonly isSpilling: boolean;
  /** The database is paused. */
  readonly isPaused: boolean;
  /** Whether a large batch waits to be written, or is being written. */
  readonly hasLarge: boolean;
  /** The most rows of the next batch. */
  readonly rowsWanted: number;
  send(batch: Batch): void;
  credit(bytes: number, rows: number): void;
  /**
   * The last batch has been sent. To be called only while spilling.
   * @param report called once no write is under way, with the number of rows that have yet to be delivered
   */
  end(report: (rowsToCome: number) => void): void;
  /** Drops what has not been delivered. */
  close(): void;
}
