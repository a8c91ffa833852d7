import type { KeptBatch } from './kept-rows.ts';
import type { Batch, FormatName } from './statement.ts';

/** The tasks of the threads that read kept results, and their results. */

/** A batch, and where it begins in the file. */
export interface PlacedBatch extends KeptBatch {
  readonly position: number;
}

interface Reading {
  /** Of the result. */
  readonly folder: string;
  readonly format: FormatName;
}

/** Rows from some place on. */
export interface ReadTask extends Reading {
  readonly type: 'read';
  readonly batches: readonly PlacedBatch[];
  /** Rows of the first batch that come before the first one that is wanted. */
  readonly skippedRows: number;
  readonly rowsMax: number;
  /** The reading ends when it has so many bytes of text, so that there may be some more. */
  readonly bytesMax: number;
}

/** Rows from the place on that was asked for, at most as many as were. */
export interface ReadRows {
  readonly batches: readonly Batch[];
}

/** What a file has beside its rows. */
export type FileContent =
  | {
      readonly type: 'text';
      /** Before the rows. */
      readonly head: string;
      /** Behind them. */
      readonly tail: string;
    }
  | { readonly type: 'arrow' | 'parquet' };

/** A file with the whole result. */
export interface WriteTask extends Reading {
  readonly type: 'write';
  /** The batches that the result has. */
  readonly batchCount: number;
  readonly content: FileContent;
  readonly file: string;
  /** The file is given up if it is larger. */
  readonly bytesMax: number;
  /** Shared memory: the file is given up when it is no longer 0. */
  readonly stop: Int32Array;
}

export interface WrittenFile {
  readonly bytes: number;
}

export type KeptTask = ReadTask | WriteTask;

/** What a task fails with instead of an exception, whose class and code do not cross threads. */
export type TaskFailure =
  /** The rows on disk are not those that were written. */
  | { readonly damage: string }
  /** An error of the file system. */
  | { readonly code: string; readonly message: string }
  /** A value has no form in the format. */
  | { readonly unrepresentable: string };
