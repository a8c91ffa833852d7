import type { DatabaseServer } from '../../test/support/servers.ts';
import { forget, type KeptResult, keep, readAtRandom } from '../clients/kept-results.ts';
import { type Measurement, percentile } from '../figures.ts';
import { memoryBytes } from '../processes.ts';
import type { KeptResultsScenario } from '../scenarios.ts';
import type { ServerProcess } from '../server-process.ts';
import { withUsage } from './usage.ts';

const warmUpSecs = 5;
const sampleMs = 500;

/**
 * Keeps many results and has as many clients read pages of them at random places: alone, and then while others keep more
 * results, one after the other. Memory is that of the second time.
 */
export async function measureKeptResults(
  scenario: KeptResultsScenario,
  sluice: ServerProcess,
  database: DatabaseServer,
): Promise<Measurement> {
  const { table, results: count, rows, rowsPerPage, seconds } = scenario;
  const sql = `SELECT * FROM ${table} LIMIT ${rows}`;
  const results: KeptResult[] = [];
  while (results.length < count) results.push(await keep(sluice.url, sql, rows));
  const read = (seconds: number): Promise<number[]> =>
    readAtRandom(sluice.url, results, { readers: count, rowsPerPage, seconds });
  await read(warmUpSecs);
  const pageP99AloneMs = percentile(await read(seconds), 0.99);
  const measurement = await withUsage(sluice, database, async () => {
    const reading = { isDone: false };
    const memory = sampleMemory(sluice.pid);
    const writers = writeMeanwhile(sluice.url, scenario, reading);
    try {
      const started = performance.now();
      const latencies = await Promise.race([read(seconds), writers.then(() => [])]);
      const pageP99BesideMs = percentile(latencies, 0.99);
      const perSecond = (latencies.length / (performance.now() - started)) * 1_000;
      return { perSecond, pageP99BesideMs, memoryGrowth: memory.growth() };
    } finally {
      reading.isDone = true;
      memory.stop();
      await writers;
    }
  });
  await forget(sluice.url, results);
  const pageP99Ratio = (measurement.pageP99BesideMs ?? Number.NaN) / pageP99AloneMs;
  return { ...measurement, pageP99AloneMs, pageP99Ratio };
}

/** Keeps results one after the other, by several clients at once, until those who read are done. */
async function writeMeanwhile(
  url: string,
  { table, writers, writtenRows }: KeptResultsScenario,
  reading: { readonly isDone: boolean },
): Promise<void> {
  const sql = `SELECT * FROM ${table} LIMIT ${writtenRows}`;
  await Promise.all(
    Array.from({ length: writers }, async () => {
      while (!reading.isDone) await forget(url, [await keep(url, sql, writtenRows)]);
    }),
  );
}

interface MemorySamples {
  /** How many times the memory of the first quarter of the time the process holds in the last one. */
  growth(): number;
  stop(): void;
}

function sampleMemory(pid: number): MemorySamples {
  const samples: number[] = [];
  const timer = setInterval(() => samples.push(memoryBytes(pid)), sampleMs);
  return {
    growth: () => {
      const quarter = Math.ceil(samples.length / 4);
      return percentile(samples.slice(-quarter), 0.5) / percentile(samples.slice(0, quarter), 0.5);
    },
    stop: () => clearInterval(timer),
  };
}
