import type { EventLoopUtilization } from 'node:perf_hooks';
import type { Measurement } from '../figures.ts';
import type { TableName } from '../tables.ts';

/** A process whose use of the machine is measured. */
export interface Watched {
  readonly pid: number;
  utilization?(): Promise<EventLoopUtilization>;
}

/** A whole table, so many times over. */
export interface Download {
  readonly table: TableName;
  readonly times: number;
  readonly gzip: boolean;
}

/** Small statements, from a number of connections at once. */
export interface Load {
  readonly sql: string;
  readonly connections: number;
  readonly seconds: number;
  /** Whether each connection keeps a session for all its statements. */
  readonly keptSessions: boolean;
}

/** Who takes part. */
export interface Contender extends AsyncDisposable {
  /** Null for a program that runs anew for each download. */
  readonly process: Watched | null;
  download(download: Download): Promise<{ bytes?: number }>;
  repeat(load: Load): Promise<Measurement>;
}

export function selectOf({ table, times }: Download): string {
  return times === 1 ? `SELECT * FROM ${table}` : `SELECT ${table}.* FROM seq_1_to_${times} STRAIGHT_JOIN ${table}`;
}
