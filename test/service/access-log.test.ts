import t from 'tap';
import { exchange, requestText } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { follow, get, post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

type Line = Readonly<Record<string, unknown>>;

function linesOf(sluice: SluiceProcess, msg: string): Line[] {
  const lines = sluice.log().split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line) as Line).filter((line) => line['msg'] === msg);
}

/** Log lines are written after the answers are sent. */
function untilLogged(sluice: SluiceProcess, msg: string, count: number): Promise<Line[]> {
  return until(
    () => linesOf(sluice, msg),
    (lines) => lines.length >= count,
  );
}

// The log does not depend on the database.
const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no database to test with');

t.test('D3: each statement is one line at info', async (t) => {
  const sluice = await startSluice(['--mysql_url', server.url]);
  t.teardown(() => sluice.stop());
  const given = { headers: { 'x-request-id': 'req-1' } };
  const reply = await post(sluice.url, { sql: "SELECT 'marker' UNION SELECT 'b'" }, given);
  t.equal(reply.headers['x-request-id'], 'req-1', 'the answer has the id');
  const failed = await query(sluice.url, 'SELECT marker FROM');
  const slow = await post(sluice.url, { sql: 'SELECT SLEEP(0.2)', pagination: { wait_time_secs: 0 } });
  await follow(sluice.url, slow.json);
  const lines = await untilLogged(sluice, 'query_settled', 3);
  const bytes = Number((reply.json.stats['result_progress'] as { bytes: number }).bytes);
  const common = { level: 30, user: 'root', client: '127.0.0.1', queueMs: Number, runningMs: Number, spilledBytes: 0 };
  t.match(lines, [
    {
      ...common,
      query: reply.json.id,
      session: reply.json.session_id,
      requestId: 'req-1',
      state: 'Succeeded',
      code: null,
      rows: 2,
      bytes,
    },
    {
      ...common,
      query: failed.last.id,
      requestId: failed.pages[0]?.headers['x-request-id'],
      state: 'Failed',
      code: 1064,
      rows: 0,
      bytes: 0,
    },
    { ...common, query: slow.json.id, state: 'Succeeded', rows: 1 },
  ]);
  t.equal(lines.length, 3);
  t.ok(Number(lines[2]?.['runningMs']) >= 150, 'the running time');
  const mine = sluice
    .log()
    .split('\n')
    .filter((line) => line.includes(reply.json.id));
  t.equal(mine.length, 1, 'one line, not three');
  t.notMatch(sluice.log(), /marker|SELECT/, 'no SQL');
});

t.test('D3: the line of a statement has its SQL with --log_sql', async (t) => {
  const sluice = await startSluice(['--mysql_url', server.url, '--log_sql']);
  t.teardown(() => sluice.stop());
  await query(sluice.url, 'SELECT 1');
  t.match(await untilLogged(sluice, 'query_settled', 1), [{ sql: 'SELECT 1', requestId: /^[0-9a-f]{12}-[0-9]+$/ }]);
});

t.test('D3: the queue time of a statement is logged separately from its running time', async (t) => {
  const sluice = await startSluice(['--mysql_url', server.url, '--connections_max', '1']);
  t.teardown(() => sluice.stop());
  const slow = { sql: 'SELECT SLEEP(0.5)' };
  await Promise.all([post(sluice.url, slow), post(sluice.url, slow)]);
  const lines = await untilLogged(sluice, 'query_settled', 2);
  const queued = lines.map((line) => Number(line['queueMs'])).sort((a, b) => a - b);
  t.ok((queued[1] ?? 0) >= 400, `${queued} ms in the queue`);
  for (const line of lines) t.ok(Number(line['runningMs']) >= 400);
});

t.test('D3: each refusal is one line at info', async (t) => {
  const sluice = await startSluice(['--mysql_url', server.url, '--header_bytes_max', '2048']);
  t.teardown(() => sluice.stop());
  const id = { headers: { 'x-request-id': 'req-2' } };
  await post(sluice.url, { sql: 'SELECT 1' }, { user: 'nobody', password: 's3cret-pw', ...id });
  await post(sluice.url, '{"sql": SELECT marker}');
  await get(sluice.url, '/nothing?token=s3cret-token');
  await exchange(sluice.url, 'garbage\r\n\r\n');
  await exchange(sluice.url, `GET / HTTP/1.1\r\nX: ${'x'.repeat(4_000)}\r\n\r\n`);
  await exchange(sluice.url, requestText('GET http://ann:s3cret-pw@localhost/x HTTP/1.1'));
  await exchange(sluice.url, 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n');
  const client = '127.0.0.1';
  t.match(await untilLogged(sluice, 'request_refused', 7), [
    {
      status: 401,
      user: 'nobody',
      requestId: 'req-2',
      client,
      method: 'POST',
      path: '/v1/query',
      reason: /Access denied/,
    },
    { status: 400, user: 'root', client, reason: 'the body is not JSON' },
    { status: 404, user: 'root', client, method: 'GET', path: '/nothing', reason: 'there is nothing at this path' },
    { status: 400, client, reason: 'the request is not HTTP' },
    { status: 431, client },
    { status: 404, user: null, client, path: '/x' },
    { status: 501, client },
  ]);
  t.equal(linesOf(sluice, 'request_refused').length, 7);
  for (const line of linesOf(sluice, 'request_refused')) t.equal(line['level'], 30);
  t.notMatch(sluice.log(), /s3cret|marker|SELECT/);
});

t.test('D3: every answer has the id of its request', async (t) => {
  const sluice = await startSluice(['--mysql_url', server.url]);
  t.teardown(() => sluice.stop());
  const headers = { 'x-request-id': 'req-3', 'accept-encoding': 'gzip' };
  const first = await post(sluice.url, { sql: 'SELECT 1' }, { headers });
  for (const path of ['/health', '/ready', '/metrics', '/nothing', first.json.stats_uri, first.json.final_uri]) {
    t.equal((await get(sluice.url, path, { headers })).headers['x-request-id'], 'req-3', path);
  }
  t.equal(first.headers['x-request-id'], 'req-3');
  const made = (await get(sluice.url, '/health', { headers: { 'x-request-id': 'not valid' } })).headers['x-request-id'];
  t.match(made, /^[0-9a-f]{12}-[0-9]+$/);
});
