import { HttpConnection } from '../clients/http-connection.ts';
import { finalUri, nextUri } from '../contenders/sluice.ts';
import { latencyFigures, type Measurement } from '../figures.ts';
import { threadsCpuMs } from '../processes.ts';
import type { PageAgainScenario } from '../scenarios.ts';
import type { ServerProcess } from '../server-process.ts';

/** Asks for the second page of a result again and again, on one connection. */
export async function measurePageAgain(
  { table, rowsPerPage, seconds }: PageAgainScenario,
  sluice: ServerProcess,
): Promise<Measurement> {
  const connection = await HttpConnection.open(sluice.url);
  try {
    const sql = `SELECT * FROM ${table}`;
    const first = await connection.post('/v1/query', { sql, pagination: { max_rows_per_page: rowsPerPage } });
    const page = nextUri(first);
    if (page === null) throw new Error(`${sql} has no second page`);
    const answer = await connection.get(page);
    if (nextUri(answer) === page) throw new Error(`the page of ${sql} came empty`);
    const latencies: number[] = [];
    const mainBefore = threadsCpuMs(sluice.pid)['main'] ?? 0;
    const started = performance.now();
    let before = started;
    while (before - started < seconds * 1_000) {
      const { bytes } = await connection.get(page);
      if (bytes !== answer.bytes) throw new Error(`the page came again with ${bytes} bytes instead of ${answer.bytes}`);
      const now = performance.now();
      latencies.push(now - before);
      before = now;
    }
    const mainCpuMs = (threadsCpuMs(sluice.pid)['main'] ?? 0) - mainBefore;
    const figures = latencyFigures(latencies, before - started);
    await connection.get(finalUri(answer));
    return { ...figures, bytes: answer.bytes, mainCpuMsPerRequest: mainCpuMs / latencies.length };
  } finally {
    connection.close();
  }
}
