import { HttpConnection } from '../clients/http-connection.ts';
import { latencyFigures, type Measurement } from '../figures.ts';
import type { FirstPageScenario } from '../scenarios.ts';
import type { ServerProcess } from '../server-process.ts';

/**
 * The first row says when it was made, by the clock that is this process's too. MariaDB holds rows back until it has 16 KiB
 * of them, so a second row of more than that follows and takes the first one along. The third comes after ten seconds.
 */
const sql = `SELECT UNIX_TIMESTAMP(SYSDATE(6)), ''
  UNION ALL SELECT UNIX_TIMESTAMP(SYSDATE(6)), REPEAT('x', 32768)
  UNION ALL SELECT UNIX_TIMESTAMP(SYSDATE(6)), SLEEP(10)`;

interface Answer {
  readonly state: string;
  readonly data: readonly (readonly [madeAtSecs: string, padding: string])[];
  readonly final_uri: string;
}

/** The time from the row's making to the answer with the page that it fills, many times over. */
export async function measureFirstPage({ times }: FirstPageScenario, sluice: ServerProcess): Promise<Measurement> {
  const connection = await HttpConnection.open(sluice.url);
  try {
    const latencies: number[] = [];
    const started = performance.now();
    while (latencies.length < times) {
      const { tail } = await connection.post('/v1/query', { sql, pagination: { max_rows_per_page: 1 } });
      const answeredAtMs = Date.now();
      const { state, data, final_uri } = JSON.parse(tail) as Answer;
      const [row] = data;
      if (row === undefined || state !== 'Running') throw new Error(`no first page while the statement ran: ${tail}`);
      latencies.push(answeredAtMs - Number(row[0]) * 1_000);
      await connection.get(final_uri);
    }
    return latencyFigures(latencies, performance.now() - started);
  } finally {
    connection.close();
  }
}
