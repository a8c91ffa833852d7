import type { Contender } from '../contenders/contender.ts';
import type { Measurement } from '../figures.ts';
import type { DownloadScenario, Variant } from '../scenarios.ts';
import { tables } from '../tables.ts';

/** One client, or several at once, each with a result of its own. */
export async function measureDownload(
  { table, gzipLevel }: DownloadScenario,
  { times, clients }: Variant,
  contender: Contender,
): Promise<Measurement> {
  const download = { table, times, gzip: gzipLevel !== undefined };
  const started = performance.now();
  const results = await Promise.all(Array.from({ length: clients }, () => contender.download(download)));
  const wallMs = performance.now() - started;
  const rows = tables[table].rows * times * clients;
  const bytes = results.reduce((sum, result) => sum + (result.bytes ?? 0), 0);
  return {
    wallMs,
    perSecond: (rows / wallMs) * 1_000,
    ...(bytes === 0 ? {} : { bytes }),
  };
}
