import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { metric } from '../support/metrics.ts';
import { startProxy, type TcpProxy } from '../support/proxy.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { follow, get, post, type QueryResponse, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { threadFaults } from '../support/thread-faults.ts';
import { until } from '../support/until.ts';

/*
 * Memory for rows of 1 MiB and more is reserved before they are received. Few of them are in memory at a time, and all
 * are delivered. The reservation is released however the statement ends.
 */

t.setTimeout(540_000);

const MIB = 1024 * 1024;
const noWait = { pagination: { wait_time_secs: 0 } };
const smallBudget = ['--buffer_bytes_max', `${8 * MIB}`, '--query_buffer_bytes_max', `${8 * MIB}`];

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const small = await start(t, server, [...smallBudget, '--kill_timeout_secs', '1']);

    await t.test('few of the large rows that one user receives concurrently are in memory', async (t) => {
      // Every row stops before its end, so that all rows that are being received are in memory together.
      const [count, rowBytes, sentBytes] = [24, 12 * MIB, 11 * MIB];
      const { sluice, users, proxy } = await start(t, server, ['--buffer_bytes_max', `${64 * MIB}`]);
      const [greedy = '', other = ''] = users;
      proxy.silenceAfter(sentBytes);
      const before = sluice.memoryBytes();
      const sql = `SELECT REPEAT('x', ${rowBytes})`;
      await Promise.all(Array.from({ length: count }, () => post(sluice.url, { sql, ...noWait }, { user: greedy })));
      await until(
        () => metric(sluice, 'sluice_waiting_large_rows'),
        (waiting) => waiting === count - 3,
      );
      const one = { sql: 'SELECT 1', pagination: { wait_time_secs: 30 } };
      t.match((await post(sluice.url, one, { user: other })).json, { state: 'Succeeded', data: [[1]] });
      const reserved = await metric(sluice, 'sluice_large_row_bytes');
      t.ok(reserved >= 3 * rowBytes && reserved < 4 * rowBytes, `three quarters of the budget: ${reserved} bytes`);
      const grown = sluice.memoryBytes() - before;
      t.ok(grown < (count * sentBytes) / 2, `memory has grown by ${grown} bytes`);
    });

    await t.test('unread large rows of one user that exceed the budget do not block another user', async (t) => {
      const { sluice, users } = small;
      const [greedy = '', other = ''] = users;
      const sql = `SELECT REPEAT('x', ${5 * MIB})`;
      const unread = await Promise.all(
        Array.from({ length: 6 }, () => post(sluice.url, { sql, ...noWait }, { user: greedy })),
      );
      await until(
        () => metric(sluice, 'sluice_buffered_bytes'),
        (bytes) => bytes >= 6 * 5 * MIB,
      );
      const one = { sql: 'SELECT 1', pagination: { wait_time_secs: 5 } };
      t.match((await post(sluice.url, one, { user: other })).json, { state: 'Succeeded', data: [[1]] });
      for (const { json } of unread) await get(sluice.url, json.final_uri, { user: greedy });
    });

    await t.test('rows that each exceed the budget are delivered one at a time, unchanged', async (t) => {
      const small = ['buffer_bytes_max', 'query_buffer_bytes_max', 'page_bytes_max'];
      const { sluice, users } = await start(
        t,
        server,
        small.flatMap((name) => [`--${name}`, `${MIB}`]),
      );
      const [user = ''] = users;
      const results = await Promise.all(
        ['a', 'é', '"'].map(async (letter) => {
          // From 16 MiB on, a row takes several packets.
          const sizes = [3 * MIB, (letter === 'a' ? 17 : figure(5, 17)) * MIB];
          const texts = sizes.map((bytes) => letter.repeat(bytes / Buffer.byteLength(letter)));
          const sql = texts.map(({ length }) => `SELECT REPEAT('${letter}', ${length})`).join(' UNION ALL ');
          const { rows } = await query(sluice.url, sql, { user, body: { pagination: { wait_time_secs: 5 } } });
          return texts.map((text, row) => rows[row]?.[0] === text);
        }),
      );
      t.strictSame(results, Array(3).fill([true, true]));
      await untilNothingReserved(sluice);
    });

    await t.test('the reservation is released however the statement ends', async (t) => {
      const { sluice, users, proxy } = small;
      const [user = ''] = users;
      for (const end of ['is killed', 'is finished', 'expires', 'times out', 'loses its connection']) {
        proxy.silenceAfter(figure(3, 5) * MIB);
        const more = { expires: { result_timeout_secs: 5 }, 'times out': { timeout_secs: 5 } }[end] ?? {};
        for (const { user, json } of await startLargeRows(sluice, users, more)) {
          if (end === 'is killed') await get(sluice.url, json.kill_uri, { user });
          if (end === 'is finished') await get(sluice.url, json.final_uri, { user });
        }
        if (end === 'loses its connection') proxy.resetAll();
        await untilNothingReserved(sluice);
        t.match((await query(sluice.url, 'SELECT 1', { user })).rows, [[1]], `after a statement that ${end}`);
      }
    });

    await t.test('the reservation is released when a worker thread dies', async (t) => {
      const faults = new URL('../support/thread-faults.js', import.meta.url).href;
      const environment = { NODE_OPTIONS: `--import=${faults}` };
      const { sluice, users, proxy } = await start(t, server, ['--worker_threads', '1', ...smallBudget], environment);
      const [user = '', other = ''] = users;
      proxy.silenceAfter(figure(3, 5) * MIB);
      const started = await startLargeRows(sluice, users, {});
      await post(sluice.url, { sql: `SELECT SLEEP(10) ${threadFaults.exits}`, ...noWait }, { user: other });
      for (const { user, json } of started)
        t.match(await follow(sluice.url, json, { user }), { error: { code: 90006 } });
      await untilNothingReserved(sluice);
      const { rows } = await query(sluice.url, `SELECT REPEAT('z', ${2 * MIB})`, { user });
      t.ok(rows[0]?.[0] === 'z'.repeat(2 * MIB), 'another thread continues');
    });

    await t.test(
      'large rows that do not fit on disk count as held bytes, and fail with 90010 over that limit',
      async (t) => {
        const [unit, rowBytes] = figure([4 * MIB, 2.5 * MIB], [8 * MIB, 5 * MIB]) as [number, number];
        const { sluice, users } = await start(t, server, [
          ...['--spill_bytes_max', `${MIB}`, '--spill_wait_ms', '0'],
          ...['--buffer_bytes_max', `${4 * unit}`, '--results_bytes_max', `${4 * unit}`],
        ]);
        const [user = ''] = users;
        const sql = `SELECT REPEAT('x', ${rowBytes}) UNION ALL SELECT REPEAT('y', ${rowBytes}) UNION ALL SELECT REPEAT('z', ${rowBytes})`;
        const held = await post(sluice.url, { sql, pagination: { wait_time_secs: 5 } }, { user });
        await until(
          () => metric(sluice, 'sluice_buffered_bytes'),
          (bytes) => bytes >= 2 * rowBytes,
        );
        const others = await Promise.all(
          Array.from({ length: 4 }, () => post(sluice.url, { sql, ...noWait }, { user })),
        );
        const ends = await until(
          () => Promise.all([held, ...others].map(({ json }) => get(sluice.url, json.stats_uri, { user }))),
          (answers) => answers.some(({ json }) => json.state === 'Failed'),
        );
        t.match(ends.find(({ json }) => json.state === 'Failed')?.json.error, { code: 90010 });
        const bytes = await metric(sluice, 'sluice_buffered_bytes');
        t.ok(bytes <= 4 * unit, `${bytes} bytes are buffered`);
      },
    );
  });
}

async function untilNothingReserved(sluice: SluiceProcess): Promise<void> {
  for (const name of ['sluice_large_row_bytes', 'sluice_waiting_large_rows']) {
    await until(
      () => metric(sluice, name),
      (value) => value === 0,
    );
  }
}

/**
 * Starts four statements with a large row each, no two of which fit into the small budget: one of the first user, which takes all
 * the memory that a user may have, and then three of the second, whose rows wait. More statements of the first user would wait in
 * the queue, before they have a row.
 * @param more members of the bodies
 */
async function startLargeRows(
  sluice: SluiceProcess,
  [first = '', second = '']: readonly string[],
  more: object,
): Promise<{ user: string; json: QueryResponse }[]> {
  const sql = `SELECT REPEAT('x', ${figure(7, 20) * MIB})`;
  const begin = async (user: string): Promise<{ user: string; json: QueryResponse }> => {
    const { json } = await post(sluice.url, { sql, ...more, ...noWait }, { user });
    return { user, json };
  };
  // The first statement may be sent on a connection that the proxy has just cut.
  let one = await begin(first);
  const isReserved = async (): Promise<boolean> => {
    if ((await get(sluice.url, one.json.stats_uri, { user: first })).json.state === 'Failed') one = await begin(first);
    return (await metric(sluice, 'sluice_large_row_bytes')) > 0;
  };
  await until(isReserved);
  const others = await Promise.all([second, second, second].map(begin));
  await until(
    () => metric(sluice, 'sluice_waiting_large_rows'),
    (waiting) => waiting === others.length,
  );
  return [one, ...others];
}

async function start(
  t: Test,
  server: DatabaseServer,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ sluice: SluiceProcess; users: string[]; proxy: TcpProxy }> {
  const users = ['a', 'b'].map((name) => `${name}_${randomBytes(4).toString('hex')}`);
  for (const user of users) await server.sql(`CREATE USER '${user}'@'%'`);
  const proxy = await startProxy(t, server.port);
  const url = `mysql://root@127.0.0.1:${proxy.port}/`;
  const sluice = await startSluice(['--mysql_url', url, '--drain_secs', '0', ...args], environment);
  t.teardown(async () => {
    await sluice.kill();
    for (const user of users) await server.sql(`DROP USER '${user}'@'%'`);
  });
  return { sluice, users, proxy };
}
