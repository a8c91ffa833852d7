import type { DatabaseServer } from '../../test/support/servers.ts';
import { downloadFile, forget, keep } from '../clients/kept-results.ts';
import { selectOf } from '../contenders/contender.ts';
import type { Measurement } from '../figures.ts';
import type { FileVariant, KeptFilesScenario } from '../scenarios.ts';
import type { ServerProcess } from '../server-process.ts';
import { tables } from '../tables.ts';
import { withUsage } from './usage.ts';

/** Keeps a result and downloads it as a file, for the first time or again. What it takes to keep it is not counted. */
export async function measureKeptFile(
  { table }: KeptFilesScenario,
  { format, times, isFirst }: FileVariant,
  sluice: ServerProcess,
  database: DatabaseServer,
): Promise<Measurement> {
  const rows = tables[table].rows * times;
  const result = await keep(sluice.url, selectOf({ table, times, gzip: false }), rows);
  if (!isFirst) await downloadFile(sluice.url, result, format);
  const measurement = await withUsage(sluice, database, async () => {
    const started = performance.now();
    const bytes = await downloadFile(sluice.url, result, format);
    const wallMs = performance.now() - started;
    return { wallMs, perSecond: (rows / wallMs) * 1_000, bytesPerSecond: (bytes / wallMs) * 1_000, bytes };
  });
  await forget(sluice.url, [result]);
  return measurement;
}
