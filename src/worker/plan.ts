/** How far a statement is, as the database reports it. */
export interface ScanState {
  /** Rows examined so far; null if the database gives no count. */
  readonly rows: number | null;
  /** The optimizer's estimate of the rows to examine; null if there is none, or it cannot be summed up. */
  readonly estimatedRows: number | null;
}

/** One table of a join, in the order in which they are read. */
interface Step {
  /** Rows per row of the tables before it. */
  readonly rows: number;
  /** The percentage of rows that pass the conditions on the table. */
  readonly percentLeft: number;
}

/** A table in the JSON of a plan (MariaDB manual, "ANALYZE FORMAT=JSON"). */
interface PlanTable {
  readonly table_name?: string;
  readonly rows?: number;
  readonly filtered?: number;
  readonly r_loops?: number | null;
  readonly r_rows?: number | null;
}

/** Longer plans, which few statements have, are not read. */
const planCharsMax = 256 * 1024;

/**
 * Reads the answer to SHOW ANALYZE FORMAT=JSON, MariaDB's plan of a running statement. A table has been read `r_loops` times, with
 * `r_rows` rows on average.
 */
export function readAnalyze(json: string): ScanState {
  const unknown = { rows: null, estimatedRows: null };
  if (json.length > planCharsMax) return unknown;
  const tables: PlanTable[] = [];
  let queryBlocks = 0;
  let hasJoinBuffer = false;
  try {
    JSON.parse(json, (key, value) => {
      if (key === 'table' && typeof value?.table_name === 'string') tables.push(value);
      if (key === 'query_block') queryBlocks++;
      if (key === 'block-nl-join') hasJoinBuffer = true;
      return value;
    });
  } catch {
    return unknown;
  }
  if (tables.length === 0) return unknown;
  const rows = tables.reduce((sum, { r_loops, r_rows }) => sum + (r_loops ?? 1) * (r_rows ?? 0), 0);
  const steps = tables.map(({ rows, filtered }) => ({ rows: rows ?? Number.NaN, percentLeft: filtered ?? 100 }));
  return { rows: Math.round(rows), estimatedRows: queryBlocks === 1 && !hasJoinBuffer ? estimate(steps) : null };
}

/**
 * Reads the answer to MySQL's EXPLAIN FORMAT=TRADITIONAL FOR CONNECTION.
 * @returns see `ScanState.estimatedRows`
 */
export function readExplain(lines: readonly (readonly (string | null)[])[]): number | null {
  const steps: Step[] = [];
  for (const [id, , table = null, , , , , , , rows = null, percentLeft, extra] of lines) {
    // With several SELECTs, the plan does not show how often each one is run.
    const isOfMany = id !== lines[0]?.[0] || table === null || table.startsWith('<');
    if (isOfMany || rows === null || extra?.includes('join buffer')) return null;
    steps.push({ rows: Number(rows), percentLeft: Number(percentLeft ?? 100) });
  }
  return steps.length === 0 ? null : estimate(steps);
}

/** Rows that a nested loop over tables examines. */
function estimate(steps: readonly Step[]): number | null {
  let sum = 0;
  let found = 1;
  for (const { rows, percentLeft } of steps) {
    sum += found * rows;
    found *= (rows * percentLeft) / 100;
  }
  return Number.isFinite(sum) ? Math.round(sum) : null;
}
