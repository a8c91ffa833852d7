import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { get, post, type QueryResponse, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

async function start(t: Test, server: DatabaseServer, args: readonly string[]): Promise<SluiceProcess> {
  const sluice = await startSluice(['--mysql_url', server.url, '--drain_secs', '0', ...args]);
  t.teardown(() => sluice.stop());
  return sluice;
}

/** Starts a long statement, and returns its first answer. */
async function begin(sluice: SluiceProcess, secs = 60): Promise<QueryResponse> {
  const { json } = await post(sluice.url, { sql: `SELECT SLEEP(${secs}) AS slept`, pagination: { wait_time_secs: 1 } });
  return json;
}

/** Polls the next page, and disconnects while the poll waits. */
async function hangUp(sluice: SluiceProcess, query: QueryResponse): Promise<void> {
  // Enough time for the poll to arrive. It would be answered after a second.
  const signal = AbortSignal.timeout(400);
  await get(sluice.url, query.next_uri as string, { signal }).then(
    () => {
      throw new Error('the poll was answered');
    },
    () => {},
  );
}

async function isRunning(server: DatabaseServer, secs: number): Promise<boolean> {
  const sql = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' AND INFO LIKE 'SELECT SLEEP(${secs})%'`;
  return (await server.sql(sql)) !== '0';
}

// Most of the time is spent waiting, so the tests run concurrently.
t.jobs = 4;

for (const server of await sharedServers()) {
  t.test(
    `${server.kind}: --on_disconnect cancel ends a statement whose client does not return`,
    { buffered: true },
    async (t) => {
      const sluice = await start(t, server, ['--on_disconnect', 'cancel', '--disconnect_secs', '1']);
      const secs = 61;
      const query = await begin(sluice, secs);
      t.equal(query.state, 'Running');
      t.equal(await isRunning(server, secs), true);
      const began = performance.now();
      await hangUp(sluice, query);
      await until(async () => !(await isRunning(server, secs)));
      const tookMs = performance.now() - began;
      t.ok(tookMs >= 990, 'it waited for the client');
      // Usually takes one and a half seconds.
      t.ok(tookMs < 15_000, `${Math.round(tookMs)} ms`);
      const error = {
        code: 90002,
        message: 'the statement was cancelled: its client hung up and did not come back within 1 s (--on_disconnect)',
      };
      t.match(
        (await get(sluice.url, query.stats_uri)).json,
        { state: 'Failed', error },
        'the record of the query stays',
      );
      t.match((await get(sluice.url, query.next_uri as string)).json, { state: 'Failed', error, next_uri: null });
      t.equal((await get(sluice.url, query.final_uri)).status, 200);
    },
  );

  t.test(
    `${server.kind}: the statement continues if its client returns in time or has another poll`,
    { buffered: true },
    async (t) => {
      const sluice = await start(t, server, ['--on_disconnect', 'cancel', '--disconnect_secs', '2']);
      const [polled, asked, shared, left] = [
        await begin(sluice),
        await begin(sluice),
        await begin(sluice),
        await begin(sluice),
      ];
      const other = get(sluice.url, shared.next_uri as string);
      await Promise.all([polled, asked, shared].map((query) => hangUp(sluice, query)));
      const [again] = await Promise.all([get(sluice.url, polled.next_uri as string), get(sluice.url, asked.stats_uri)]);
      t.equal(again.json.state, 'Running');
      t.equal((await other).json.state, 'Running');
      // The POST of `left` was answered and its client sent no poll, so it did not disconnect during one.
      await delay(2_500);
      for (const query of [polled, asked, shared, left]) {
        t.equal((await get(sluice.url, query.stats_uri)).json.state, 'Running');
        await get(sluice.url, query.final_uri);
      }
    },
  );

  t.test(
    `${server.kind}: by default a statement continues without its client, and its rows are kept`,
    { buffered: true },
    async (t) => {
      const sluice = await start(t, server, ['--disconnect_secs', '0']);
      const query = await begin(sluice, 3);
      await hangUp(sluice, query);
      let last = query;
      while (last.next_uri !== null) last = (await get(sluice.url, last.next_uri)).json;
      t.match(last, { state: 'Succeeded', data: [[0]] });
    },
  );

  t.test(
    `${server.kind}: a client that disconnects before the first answer ends its query at once, in both modes`,
    async (t) => {
      for (const [index, mode] of (['continue', 'cancel'] as const).entries()) {
        const sluice = await start(t, server, ['--on_disconnect', mode, '--disconnect_secs', '60']);
        const secs = 62 + index;
        const body = { sql: `SELECT SLEEP(${secs})`, pagination: { wait_time_secs: 30 } };
        const abandon = new AbortController();
        const first = post(sluice.url, body, { signal: abandon.signal }).catch(() => {});
        await until(() => isRunning(server, secs));
        abandon.abort();
        await first;
        await until(async () => !(await isRunning(server, secs)));
      }
    },
  );
}
