import type { DatabaseServer } from '../../test/support/servers.ts';
import { forget, keep, readAtRandom } from '../clients/kept-results.ts';
import { selectOf } from '../contenders/contender.ts';
import { latencyFigures, type Measurement } from '../figures.ts';
import type { KeptPagesScenario } from '../scenarios.ts';
import type { ServerProcess } from '../server-process.ts';
import { tables } from '../tables.ts';
import { withUsage } from './usage.ts';

const warmUpSecs = 2;

/** Keeps one large result, and has several clients read pages of it at random places. What it takes to keep it is not counted. */
export async function measureKeptPages(
  { table, times, ...reads }: KeptPagesScenario,
  sluice: ServerProcess,
  database: DatabaseServer,
): Promise<Measurement> {
  const sql = selectOf({ table, times, gzip: false });
  const result = await keep(sluice.url, sql, tables[table].rows * times);
  await readAtRandom(sluice.url, [result], { ...reads, seconds: warmUpSecs });
  let pages = 0;
  const measurement = await withUsage(sluice, database, async () => {
    const started = performance.now();
    const latencies = await readAtRandom(sluice.url, [result], reads);
    pages = latencies.length;
    return latencyFigures(latencies, performance.now() - started);
  });
  await forget(sluice.url, [result]);
  return { ...measurement, mainCpuMsPerRequest: (measurement.mainCpuMs ?? Number.NaN) / pages };
}
