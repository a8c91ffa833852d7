import { generator } from '../../test/support/random.ts';
import { HttpConnection } from './http-connection.ts';

/** A result that Sluice keeps on disk. */
export interface KeptResult {
  readonly uri: string;
  readonly finalUri: string;
  readonly rows: number;
}

const keepSecs = 900;

/** Runs a statement; resolves when the last of its rows is on disk. */
export function keep(url: string, sql: string, rows: number): Promise<KeptResult> {
  return withConnection(url, async (connection) => {
    const pagination = { wait_time_secs: 20, max_rows_per_page: 1 };
    const { tail } = await connection.post('/v1/query', { sql, result: { keep_secs: keepSecs }, pagination });
    const [uri, finalUri] = [uriIn(tail, 'result_uri'), uriIn(tail, 'final_uri')];
    for (;;) {
      // There is no such row, so that the answer comes at the end.
      const last = await connection.get(`${uri}/rows?from=${rows}`);
      const { state, rows: kept } = JSON.parse(last.tail) as { readonly state: string; readonly rows: number };
      if (state === 'Running') continue;
      if (kept !== rows) throw new Error(`sluice: ${kept} rows are kept instead of ${rows}: ${last.tail}`);
      return { uri, finalUri, rows };
    }
  });
}

export async function forget(url: string, results: readonly KeptResult[]): Promise<void> {
  await withConnection(url, async (connection) => {
    for (const { finalUri } of results) await connection.get(finalUri);
  });
}

/** @returns the number of bytes of a file of a kept result */
export async function downloadFile(url: string, { uri }: KeptResult, format: string): Promise<number> {
  return withConnection(url, async (connection) => (await connection.get(`${uri}.${format}`)).bytes);
}

/** The server closes connections that are idle for long. */
async function withConnection<T>(url: string, use: (connection: HttpConnection) => Promise<T>): Promise<T> {
  const connection = await HttpConnection.open(url);
  try {
    return await use(connection);
  } finally {
    connection.close();
  }
}

export interface RandomReads {
  readonly readers: number;
  readonly rowsPerPage: number;
  readonly seconds: number;
}

/**
 * Readers, each with a connection of its own, that ask for pages at random places, one page after the other. A reader keeps to one
 * of the results.
 * @returns how long each page took, in milliseconds
 */
export async function readAtRandom(
  url: string,
  results: readonly KeptResult[],
  { readers, rowsPerPage, seconds }: RandomReads,
): Promise<number[]> {
  const connections = await Promise.all(Array.from({ length: readers }, () => HttpConnection.open(url)));
  const latencies: number[] = [];
  const stopsAt = performance.now() + seconds * 1_000;
  try {
    await Promise.all(
      connections.map(async (connection, reader) => {
        const random = generator(reader);
        const { uri, rows } = results[reader % results.length] as KeptResult;
        let before = performance.now();
        while (before < stopsAt) {
          const from = random(rows - rowsPerPage);
          const { tail } = await connection.get(`${uri}/rows?from=${from}&count=${rowsPerPage}`);
          const now = performance.now();
          if (!tail.includes(`/rows?from=${from + rowsPerPage}&`)) throw new Error(`not a whole page: ${tail}`);
          latencies.push(now - before);
          before = now;
        }
      }),
    );
  } finally {
    for (const connection of connections) connection.close();
  }
  return latencies;
}

function uriIn(tail: string, member: 'result_uri' | 'final_uri'): string {
  const found = new RegExp(`"${member}":"([^"]+)"`).exec(tail)?.[1];
  if (found === undefined) throw new Error(`sluice: an answer without ${member}: ${tail}`);
  return found;
}
