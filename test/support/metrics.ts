import { get, type SluiceProcess } from './sluice.ts';

/**
 * A value of /metrics; NaN if it is not there. On a busy machine the server repeats a reading for a second, so a value that has just
 * changed is waited for.
 * @param name with its labels, such as `sluice_troubles_total{event="connect_failed"}`
 */
export async function metric(sluice: SluiceProcess, name: string): Promise<number> {
  const { text } = await get(sluice.url, '/metrics');
  const line = text.split('\n').find((line) => line.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}
