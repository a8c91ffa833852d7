export interface QueryLimits {
  /** How long each request waits for rows. */
  readonly waitMs: number;
  readonly pageRows: number;
  readonly pageBytes: number;
  readonly bufferRows: number;
  /** zlib's; 0: rows are not compressed. */
  readonly gzipLevel: number;
  readonly timeout: StatementTimeout;
}

/** How long a statement may run. */
export interface StatementTimeout {
  /** 0: without limit. */
  readonly ms: number;
  /** Whether the client asked for it. */
  readonly isAsked: boolean;
}
