/** What is measured, and how each figure is written for people. */

interface FigureStyle {
  readonly title: string;
  show(value: number): string;
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`;
const megabytes = (bytes: number): string => `${Math.round(bytes / 1_000_000)} MB`;
const milliseconds = (ms: number): string => `${ms.toFixed(ms < 10 ? 2 : 1)} ms`;

/** In the order of the tables' columns. Times are in milliseconds, sizes in bytes. */
export const figures = {
  wallMs: { title: 'wall', show: seconds },
  /** Rows or requests. */
  perSecond: { title: 'rate', show: (count) => `${Math.round(count).toLocaleString('en-US')}/s` },
  p50Ms: { title: 'p50', show: milliseconds },
  p99Ms: { title: 'p99', show: milliseconds },
  wakeP50Ms: { title: 'wake p50', show: milliseconds },
  wakeP99Ms: { title: 'wake p99', show: milliseconds },
  p99AloneMs: { title: 'SELECT 1 p99 alone', show: milliseconds },
  p99AmongPollsMs: { title: 'SELECT 1 p99 meanwhile', show: milliseconds },
  p99AmongPollsRatio: { title: 'SELECT 1 p99 meanwhile / alone', show: (ratio) => ratio.toFixed(2) },
  pageP99AloneMs: { title: 'page p99 alone', show: milliseconds },
  pageP99BesideMs: { title: 'page p99 while others write', show: milliseconds },
  pageP99Ratio: { title: 'page p99 while others write / alone', show: (ratio) => ratio.toFixed(2) },
  bytesPerConnection: { title: 'memory per idle connection', show: (bytes) => `${(bytes / 1_000).toFixed(1)} KB` },
  residentBytesPerPoll: { title: 'resident per poll', show: (bytes) => `${(bytes / 1_000).toFixed(1)} KB` },
  bytesPerPoll: { title: 'memory per poll', show: (bytes) => `${(bytes / 1_000).toFixed(1)} KB` },
  /** CPU time of the contender's process, all threads. */
  cpuMs: { title: 'CPU', show: seconds },
  mainCpuMs: { title: 'main thread', show: seconds },
  mainCpuMsPerRequest: { title: 'main thread per request', show: milliseconds },
  /** Share of the time that the event loop of the main thread did not wait. */
  utilization: { title: 'main loop busy', show: (share) => `${Math.round(share * 100)} %` },
  databaseCpuMs: { title: 'database CPU', show: seconds },
  clientCpuMs: { title: 'client CPU', show: seconds },
  /** CPU time of contender, database and client by the wall's. */
  busyCores: { title: 'busy cores', show: (cores) => cores.toFixed(2) },
  peakBytes: { title: 'peak memory', show: megabytes },
  /** Memory in the last quarter of the time, by that in the first. */
  memoryGrowth: { title: 'memory at the end / at the beginning', show: (ratio) => ratio.toFixed(2) },
  bytes: { title: 'body', show: megabytes },
  bytesPerSecond: { title: 'throughput', show: (bytes) => `${megabytes(bytes)}/s` },
} as const satisfies Record<string, FigureStyle>;

export type FigureName = keyof typeof figures;

/** What one contender did in one round. Figures that do not apply are left out. */
export type Measurement = { -readonly [name in FigureName]?: number } & {
  /** CPU time of `cpuMs` by thread: main, each worker, and V8's and libuv's own together as `other`. */
  threadsCpuMs?: Readonly<Record<string, number>>;
};

/** The least value that this share of the values does not exceed. Sorts the values in place. */
export function percentile(values: number[], share: number): number {
  values.sort((a, b) => a - b);
  return values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? Number.NaN;
}

export function latencyFigures(latencies: number[], wallMs: number): Measurement {
  return {
    wallMs,
    perSecond: (latencies.length / wallMs) * 1_000,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
  };
}
