import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { sharedServers } from '../support/servers.ts';
import { get, post, query, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

t.setTimeout(540_000);

/** A result of several megabytes, hard to compress. */
const manyRows =
  'SELECT SHA2(a.ORDINAL_POSITION + RAND(), 512) FROM information_schema.COLUMNS a, information_schema.COLUMNS b LIMIT 40000';

t.test('/metrics counts events, and reports the resources in use', async (t) => {
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
    t.notMatch(text, /SELECT|root/, 'it names no user and no statement');
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
  await until(async () => (await get(sluice.url, unread.stats_uri)).json.state !== 'Running');
  // On a busy machine, /metrics repeats a reading for a second.
  const full = await until(read, (values) => values['sluice_queries'] === 1);
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
  const nothing = { sluice_queries: 0, sluice_spilled_bytes: 0, sluice_buffered_bytes: 0, sluice_reserved_bytes: 0 };
  const names = Object.keys(nothing);
  const after = await until(read, (values) => names.every((name) => values[name] === 0));
  t.match(after, nothing);
});

/** The values, types and help texts of /metrics, by name. */
async function readMetrics(url: string) {
  const { text } = await get(url, '/metrics');
  const values = new Map(
    [...text.matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)].map(([, name = '', value]) => [name, Number(value)]),
  );
  const kinds = new Map([...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', kind = '']) => [name, kind]));
  const helps = new Map([...text.matchAll(/^# HELP (\w+) (.*)$/gm)].map(([, name = '', help = '']) => [name, help]));
  return { values, kinds, helps };
}

t.test('D3: /metrics has times, HTTP statuses, limits, the process and the build', async (t) => {
  const [server] = await sharedServers();
  const sluice = await startSluice(['--mysql_url', server?.url ?? '', '--connections_max', '7']);
  t.teardown(() => sluice.stop());
  await query(sluice.url, 'SELECT 1');
  await query(sluice.url, 'SELECT SLEEP(0.3)');
  await get(sluice.url, '/nothing');
  await query(sluice.url, 'SELECT 1', { body: { session: { id: 'none' } } });
  const { values } = await readMetrics(sluice.url);
  const running = 'sluice_statement_duration_seconds';
  t.equal(values.get(`${running}_count`), 2, 'a statement that was never sent is not counted');
  t.equal(values.get(`${running}_bucket{le="+Inf"}`), 2);
  t.ok((values.get(`${running}_bucket{le="0.25"}`) ?? 2) <= 1, 'the slow statement is in a higher bucket');
  t.ok((values.get(`${running}_sum`) ?? 0) >= 0.3, 'in seconds');
  const buckets = [...values].filter(([name]) => name.startsWith(`${running}_bucket`)).map(([, value]) => value);
  t.ok(buckets.length > 10);
  t.strictSame(
    buckets,
    [...buckets].sort((a, b) => a - b),
    'the buckets are cumulative',
  );
  t.equal(values.get('sluice_statement_queue_duration_seconds_count'), 3);
  t.equal(values.get('sluice_http_responses_total{status="404"}'), 1);
  t.ok((values.get('sluice_http_responses_total{status="200"}') ?? 0) >= 3);
  t.equal(values.get('sluice_connections_limit'), 7);
  t.equal(values.get('sluice_queries_limit'), 10_000);
  t.equal(values.get('sluice_database_up'), 1);
  t.ok((values.get('sluice_http_connections') ?? 0) >= 1);
  t.ok((values.get('process_cpu_seconds_total') ?? 0) > 0);
  t.ok((values.get('process_resident_memory_bytes') ?? 0) > 0);
  const built = [...values.keys()].find((name) => name.startsWith('sluice_build_info'));
  t.match(built, /^sluice_build_info\{version="\d+\.\d+\.\d+",node="\d+\.\d+\.\d+"\}$/);
});

t.test('D3: names follow the conventions of Prometheus, and each help text stands alone', async (t) => {
  const [server] = await sharedServers();
  const sluice = await startSluice(['--mysql_url', server?.url ?? '']);
  t.teardown(() => sluice.stop());
  const { kinds, helps } = await readMetrics(sluice.url);
  for (const [name, kind] of kinds) {
    if (!name.startsWith('sluice_')) continue;
    const help = helps.get(name) ?? '';
    t.match(help, /^[A-Z0-9].{15,}\.$/, `${name}: a sentence`);
    t.notMatch(help, /\b(the same|they|of it)\b/, `${name}: it does not refer to another metric`);
    t.equal(kind === 'counter', name.endsWith('_total'), `${name} is a ${kind}`);
    if (name.endsWith('_seconds')) t.match(help, /in seconds/, name);
    if (/bytes/i.test(help) && kind === 'gauge' && !help.includes('option')) t.match(name, /_bytes$/);
  }
  const docs = await readFile(new URL('../../../docs/operations.md', import.meta.url), 'utf8');
  const documented = [...docs.matchAll(/^\| `(sluice_\w+)/gm)].map(([, name]) => name);
  t.strictSame(documented.sort(), [...kinds.keys()].filter((name) => name.startsWith('sluice_')).sort());
});

t.test('D3: every line of the log is documented', async (t) => {
  const docs = await readFile(new URL('../../../docs/operations.md', import.meta.url), 'utf8');
  const events = await readFile(new URL('../../../src/events.ts', import.meta.url), 'utf8');
  const names = [...events.matchAll(/readonly type: '(\w+)'/g)].map(([, name]) => name);
  t.ok(names.length > 20);
  for (const name of names) t.ok(docs.includes(`| \`${name}\` |`), `${name} is documented`);
});
