import type { FormatName } from '../wire/statement.ts';

export interface QueryLimits {
  /** How long each request waits for rows. */
  readonly waitMs: number;
  readonly pageRows: number;
  /** Rows with which a page is ready, though it may hold more. */
  readonly readyRows: number;
  readonly pageBytes: number;
  readonly bufferRows: number;
  /** How the rows of a kept result are written. */
  readonly format: FormatName;
  /** zlib's; 0: rows are not compressed. */
  readonly gzipLevel: number;
  /** How long the statement may run; 0: without limit. */
  readonly timeoutMs: number;
  /** Whether the client asked for that. */
  readonly isTimeoutAsked: boolean;
}
