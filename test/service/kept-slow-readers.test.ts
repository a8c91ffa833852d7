import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { connectTo } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, type QueryResponse, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

t.setTimeout(300_000);

const MiB = 1024 * 1024;
const bufferBytesMax = 48 * MiB;
/** Pages that are read before they are counted, with the memory of the threads that read them, and garbage. */
const allowanceBytes = 128 * MiB;
const readers = 80;
const sql =
  "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 400) SELECT id, REPEAT('x', 100000) FROM n";

interface KeptResponse extends QueryResponse {
  readonly result_uri: string;
}

// The memory is the server's, so one database is enough.
const [server] = await sharedServers();
t.test('pages of a kept result that nobody reads stay within the memory for rows', { skip: !server }, async (t) => {
  if (server === undefined) return;
  const user = `other_${randomBytes(4).toString('hex')}`;
  await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY 'x'`);
  t.teardown(() => server.sql(`DROP USER ${user}`));
  const dataDir = mkdtempSync(join(tmpdir(), 'kept-'));
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));
  const limit = ['--buffer_bytes_max', `${bufferBytesMax}`];
  const sluice = await startSluice(['--mysql_url', server.url, '--data_dir', dataDir, ...limit]);
  t.teardown(() => sluice.kill());
  const keep = async (login: object = {}): Promise<string> => {
    const body = { sql, result: { keep_secs: 600 }, pagination: { wait_time_secs: 20 } };
    const { stats_uri, result_uri } = (await post(sluice.url, body, login)).json as KeptResponse;
    await until(async () => (await get(sluice.url, stats_uri, login)).json.state === 'Succeeded');
    return `${result_uri}/rows`;
  };
  const other = { user, password: 'x' };
  const [rows, othersRows] = [await keep(), await keep(other)];
  t.equal((await get(sluice.url, rows)).status, 200);
  t.equal((await get(sluice.url, othersRows, other)).status, 200);
  const beforeBytes = sluice.memoryBytes();

  const authorization = Buffer.from('root:').toString('base64');
  const statuses: string[] = [];
  for (let reader = 0; reader < readers; reader++) {
    const socket = connectTo(sluice.url);
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    socket.once('data', (bytes) => {
      socket.pause();
      statuses.push(bytes.toString('latin1', 9, 12));
    });
    socket.write(
      `GET ${rows}?from=${reader * 4} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic ${authorization}\r\n\r\n`,
    );
  }
  await until(() => statuses.length === readers);
  const grownBytes = sluice.memoryBytes() - beforeBytes;
  const shown = `${statuses.filter((status) => status === '200').length} pages, ${Math.round(grownBytes / MiB)} MiB`;
  t.ok(grownBytes <= bufferBytesMax + allowanceBytes, shown);
  t.ok(statuses.includes('200') && statuses.includes('429'), shown);
  t.strictSame(
    statuses.filter((status) => status !== '200' && status !== '429'),
    [],
  );
  const page = await get(sluice.url, othersRows, other);
  t.equal(page.status, 200, 'another user is served');
  t.ok(page.json.data.length > 10);
  await sluice.kill();
});
