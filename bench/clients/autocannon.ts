import autocannon from 'autocannon';
import { authorization } from '../database.ts';
import { latencyFigures, type Measurement } from '../figures.ts';

/**
 * Posts statements over and over for a number of seconds, on as many connections as there are bodies, each its own.
 * Rejects if any was not answered with 200 and a statement that succeeded.
 */
export async function fire(url: string, bodies: readonly object[], seconds: number): Promise<Measurement> {
  const texts = bodies.map((body) => JSON.stringify(body));
  // Autocannon's own percentiles are in whole milliseconds, so each answer's time is kept.
  const latencies: number[] = [];
  let client = 0;
  const started = performance.now();
  const failures = await new Promise<number>((resolve, reject) => {
    const run = autocannon(
      {
        url: `${url}/v1/query`,
        method: 'POST',
        connections: bodies.length,
        duration: seconds,
        headers: { 'content-type': 'application/json', authorization: authorization() },
        setupClient: (each) => each.setBody(texts[client++]),
        verifyBody: (body) => String(body).includes('"state":"Succeeded"'),
      },
      (error, result) => (error ? reject(error) : resolve(result.non2xx + result.errors + result.mismatches)),
    );
    run.on('response', (_client, _statusCode, _bytes, responseTime) => latencies.push(responseTime));
  });
  if (failures > 0) throw new Error(`${failures} of ${latencies.length} statements failed`);
  return latencyFigures(latencies, performance.now() - started);
}
