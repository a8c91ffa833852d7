import { performance as clock } from 'node:perf_hooks';
import type { DatabaseServer } from '../../test/support/servers.ts';
import type { Watched } from '../contenders/contender.ts';
import type { Measurement } from '../figures.ts';
import { childrenCpuMs, peakMemoryBytes, processCpuMs, resetPeakMemory, threadsCpuMs } from '../processes.ts';

/**
 * Runs something and adds what it took of the machine: from the contender's process, or else from the programs that it
 * ran; from the database; and from this process, which is the client.
 */
export async function withUsage(
  watched: Watched | null,
  database: DatabaseServer,
  work: () => Promise<Measurement>,
): Promise<Measurement> {
  if (watched !== null) resetPeakMemory(watched.pid);
  const loopBefore = await watched?.utilization?.();
  const threadsBefore = watched === null ? {} : threadsCpuMs(watched.pid);
  const cpu = (): number => (watched === null ? childrenCpuMs() : processCpuMs(watched.pid));
  const cpuBefore = cpu();
  const databaseBefore = processCpuMs(database.pid);
  const clientBefore = process.cpuUsage();
  const started = clock.now();
  const figures = await work();
  const wallMs = clock.now() - started;
  const client = process.cpuUsage(clientBefore);
  const cpuMs = cpu() - cpuBefore;
  const databaseCpuMs = processCpuMs(database.pid) - databaseBefore;
  const clientCpuMs = (client.user + client.system) / 1_000;
  const busyCores = (cpuMs + databaseCpuMs + clientCpuMs) / wallMs;
  const measurement = { wallMs, cpuMs, databaseCpuMs, clientCpuMs, busyCores, ...figures };
  if (watched === null) return measurement;
  const threads = threadsCpuMs(watched.pid);
  const loop = await watched.utilization?.();
  return {
    ...measurement,
    ...threadFigures(threads, threadsBefore, cpuMs),
    peakBytes: peakMemoryBytes(watched.pid),
    ...(loop === undefined ? {} : { utilization: clock.eventLoopUtilization(loop, loopBefore).utilization }),
  };
}

function threadFigures(after: Record<string, number>, before: Record<string, number>, allMs: number): Measurement {
  const spent: Record<string, number> = {};
  let known = 0;
  for (const [thread, time] of Object.entries(after)) {
    spent[thread] = time - (before[thread] ?? 0);
    known += spent[thread];
  }
  // Each is counted in hundredths of a second for itself, so that the rest may seem to be less than nothing.
  spent['other'] = Math.max(0, allMs - known);
  return { mainCpuMs: spent['main'] ?? 0, threadsCpuMs: spent };
}
