import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { sharedServers } from '../support/servers.ts';
import { get, post, query, startSluice } from '../support/sluice.ts';

t.setTimeout(60_000);

/** Half a megabyte and more, hard to compress. */
const manyRows =
  'SELECT SHA2(a.ORDINAL_POSITION + RAND(), 512) FROM information_schema.COLUMNS a, information_schema.COLUMNS b LIMIT 40000';

t.test('/metrics counts what happens, and tells what is held', async (t) => {
  const [server] = await sharedServers();
  const dataDir = await mkdtemp(join(tmpdir(), 'metrics-'));
  const sluice = await startSluice([
    ...['--mysql_url', server?.url ?? '', '--data_dir', dataDir, '--drain_secs', '0', '--worker_threads', '2'],
    ...['--query_buffer_bytes_max', '262144', '--page_bytes_max', '262144', '--spill_wait_ms', '0'],
  ]);
  t.teardown(async () => {
    await sluice.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const read = async (): Promise<Record<string, number>> => {
    const { status, text, headers } = await get(sluice.url, '/metrics', { headers: { authorization: undefined } });
    t.equal(status, 200);
    t.match(headers['content-type'], /^text\/plain; version=/);
    t.notMatch(text, /SELECT|root/, 'it tells of nobody');
    return Object.fromEntries(
      [...text.matchAll(/^(sluice_\S+) (\S+)$/gm)].map(([, name, value]) => [name, Number(value)]),
    );
  };
  t.match(await read(), { sluice_queries: 0, sluice_rows_total: 0, sluice_connections: 0, sluice_spilled_bytes: 0 });

  const kept = { session: { max_idle_time: 60 } };
  await query(sluice.url, 'SELECT 1 UNION SELECT 2', { body: kept });
  await query(sluice.url, 'nonsense');
  const orphan = await query(sluice.url, 'SELECT 1', { body: { session: { id: 'none' } } });
  t.equal(orphan.last.error?.code, 90001);
  const unread = (
    await post(
      sluice.url,
      { sql: manyRows, pagination: { wait_time_secs: 0 } },
      { headers: { 'accept-encoding': 'identity' } },
    )
  ).json;
  while ((await get(sluice.url, unread.stats_uri)).json.state === 'Running') await delay(20);
  const full = await read();
  t.match(full, {
    'sluice_statements_total{state="Succeeded"}': 2,
    'sluice_statements_total{state="Failed"}': 2,
    'sluice_own_failures_total{code="90001"}': 1,
    sluice_rows_total: 40_002,
    sluice_queries: 1,
    sluice_sessions: 1,
    sluice_waiting_statements: 0,
  });
  t.ok((full['sluice_row_bytes_total'] ?? 0) > 40_000 * 128);
  t.ok((full['sluice_spilled_bytes'] ?? 0) > 4_000_000, `${full['sluice_spilled_bytes']} bytes on disk`);
  t.ok((full['sluice_spilled_row_bytes_total'] ?? 0) > 4_000_000);
  t.ok((full['sluice_buffered_bytes'] ?? 0) > 0);
  t.ok((full['sluice_reserved_bytes'] ?? 0) >= (full['sluice_buffered_bytes'] ?? 0));
  t.ok((full['sluice_connections'] ?? 0) >= 1);

  await get(sluice.url, unread.final_uri);
  await delay(100);
  t.match(await read(), {
    sluice_queries: 0,
    sluice_spilled_bytes: 0,
    sluice_buffered_bytes: 0,
    sluice_reserved_bytes: 0,
  });
});
