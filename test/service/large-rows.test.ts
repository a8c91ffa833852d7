import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { startProxy, type TcpProxy } from '../support/proxy.ts';
import { type DatabaseServer, sharedServers, startServer } from '../support/servers.ts';
import { follow, get, post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { threadFaults } from '../support/thread-faults.ts';
import { until } from '../support/until.ts';

/*
 * Rows of 1 MiB and more are reserved before they are received: however many a user selects at once, few are in memory, and all are
 * delivered. What is reserved is given back, whatever ends the statement.
 */

t.setTimeout(540_000);

const MIB = 1024 * 1024;
const noWait = { pagination: { wait_time_secs: 0 } };
const smallBudget = ['--buffer_bytes_max', `${8 * MIB}`, '--query_buffer_bytes_max', `${8 * MIB}`];

for (const shared of await sharedServers()) {
  t.test(shared.kind, async (t) => {
    const server = await startServer(shared.kind, ['--max-allowed-packet=128M']);
    t.teardown(() => server.stop());

    await t.test('however many large rows one user receives at once, few are in memory', async (t) => {
      // Every row stops before its end, so that all that are received are in memory together.
      const [count, rowBytes, sentBytes] = [24, 12 * MIB, 11 * MIB];
      const { sluice, users, proxy } = await start(t, server, ['--buffer_bytes_max', `${64 * MIB}`]);
      const [greedy = '', other = ''] = users;
      proxy.silenceAfter(sentBytes);
      const before = sluice.memoryBytes();
      const sql = `SELECT REPEAT('x', ${rowBytes})`;
      await Promise.all(Array.from({ length: count }, () => post(sluice.url, { sql, ...noWait }, { user: greedy })));
      await until(
        () => metric(sluice, 'waiting_large_rows'),
        (waiting) => waiting === count - 3,
      );
      const one = { sql: 'SELECT 1', pagination: { wait_time_secs: 30 } };
      t.match((await post(sluice.url, one, { user: other })).json, { state: 'Succeeded', data: [[1]] });
      const reserved = await metric(sluice, 'large_row_bytes');
      t.ok(reserved >= 3 * rowBytes && reserved < 4 * rowBytes, `three quarters of the budget: ${reserved} bytes`);
      const grown = sluice.memoryBytes() - before;
      t.ok(grown < (count * sentBytes) / 2, `memory has grown by ${grown} bytes`);
    });

    await t.test('one user who leaves more large rows unread than the budget does not hold up another', async (t) => {
      const { sluice, users } = await start(t, server, smallBudget);
      const [greedy = '', other = ''] = users;
      const sql = `SELECT REPEAT('x', ${5 * MIB})`;
      await Promise.all(Array.from({ length: 6 }, () => post(sluice.url, { sql, ...noWait }, { user: greedy })));
      await until(
        () => metric(sluice, 'buffered_bytes'),
        (bytes) => bytes >= 6 * 5 * MIB,
      );
      const one = { sql: 'SELECT 1', pagination: { wait_time_secs: 5 } };
      t.match((await post(sluice.url, one, { user: other })).json, { state: 'Succeeded', data: [[1]] });
    });

    await t.test('rows that are all larger than the budget come one after the other, and exact', async (t) => {
      const small = ['buffer_bytes_max', 'query_buffer_bytes_max', 'page_bytes_max'];
      const { sluice, users } = await start(
        t,
        server,
        small.flatMap((name) => [`--${name}`, `${MIB}`]),
      );
      const [user = ''] = users;
      const results = await Promise.all(
        ['a', 'é', '"'].map(async (letter) => {
          const texts = [3 * MIB, 17 * MIB].map((bytes) => letter.repeat(bytes / Buffer.byteLength(letter)));
          const sql = texts.map(({ length }) => `SELECT REPEAT('${letter}', ${length})`).join(' UNION ALL ');
          const { rows } = await query(sluice.url, sql, { user, body: { pagination: { wait_time_secs: 5 } } });
          return texts.map((text, row) => rows[row]?.[0] === text);
        }),
      );
      t.strictSame(results, Array(3).fill([true, true]));
      await untilNothingReserved(sluice);
    });

    await t.test('what is reserved is given back, whatever ends the statement', async (t) => {
      const { sluice, users, proxy } = await start(t, server, [...smallBudget, ...['--kill_timeout_secs', '1']]);
      const [user = ''] = users;
      const sql = `SELECT REPEAT('x', ${20 * MIB})`;
      for (const end of ['is killed', 'is finished', 'expires', 'runs past its time', 'loses its connection']) {
        proxy.silenceAfter(5 * MIB);
        const more = { expires: { result_timeout_secs: 5 }, 'runs past its time': { timeout_secs: 5 } }[end] ?? {};
        const posts = await Promise.all(
          Array.from({ length: 4 }, () => post(sluice.url, { sql, ...more, ...noWait }, { user })),
        );
        await until(
          () => metric(sluice, 'waiting_large_rows'),
          (waiting) => waiting > 0,
        );
        for (const { json } of posts) {
          if (end === 'is killed') await get(sluice.url, json.kill_uri, { user });
          if (end === 'is finished') await get(sluice.url, json.final_uri, { user });
        }
        if (end === 'loses its connection') proxy.resetAll();
        await untilNothingReserved(sluice);
        t.match((await query(sluice.url, 'SELECT 1', { user })).rows, [[1]], `one that ${end}`);
      }
    });

    await t.test('what is reserved is given back when a worker thread dies', async (t) => {
      const faults = new URL('../support/thread-faults.js', import.meta.url).href;
      const environment = { NODE_OPTIONS: `--import=${faults}` };
      const { sluice, users, proxy } = await start(t, server, ['--worker_threads', '1', ...smallBudget], environment);
      const [user = '', other = ''] = users;
      proxy.silenceAfter(5 * MIB);
      const sql = `SELECT REPEAT('x', ${20 * MIB})`;
      const posts = await Promise.all(Array.from({ length: 4 }, () => post(sluice.url, { sql, ...noWait }, { user })));
      await until(
        () => metric(sluice, 'waiting_large_rows'),
        (waiting) => waiting === 3,
      );
      await post(sluice.url, { sql: `SELECT SLEEP(10) ${threadFaults.exits}`, ...noWait }, { user: other });
      for (const { json } of posts) t.match(await follow(sluice.url, json, { user }), { error: { code: 90006 } });
      await untilNothingReserved(sluice);
      const { rows } = await query(sluice.url, `SELECT REPEAT('z', ${2 * MIB})`, { user });
      t.ok(rows[0]?.[0] === 'z'.repeat(2 * MIB), 'another thread goes on');
    });

    await t.test(
      'large rows that find no room on disk count as held, and fail with 90010 past that limit',
      async (t) => {
        const { sluice, users } = await start(t, server, [
          ...['--spill_bytes_max', `${MIB}`, '--spill_wait_ms', '0'],
          ...['--buffer_bytes_max', `${32 * MIB}`, '--results_bytes_max', `${32 * MIB}`],
        ]);
        const [user = ''] = users;
        const sql = `SELECT REPEAT('x', ${5 * MIB}) UNION ALL SELECT REPEAT('y', ${5 * MIB}) UNION ALL SELECT REPEAT('z', ${5 * MIB})`;
        const held = await post(sluice.url, { sql, pagination: { wait_time_secs: 5 } }, { user });
        await until(
          () => metric(sluice, 'buffered_bytes'),
          (bytes) => bytes >= 10 * MIB,
        );
        const others = await Promise.all(
          Array.from({ length: 4 }, () => post(sluice.url, { sql, ...noWait }, { user })),
        );
        const ends = await until(
          () => Promise.all([held, ...others].map(({ json }) => get(sluice.url, json.stats_uri, { user }))),
          (answers) => answers.some(({ json }) => json.state === 'Failed'),
        );
        t.match(ends.find(({ json }) => json.state === 'Failed')?.json.error, { code: 90010 });
        const bytes = await metric(sluice, 'buffered_bytes');
        t.ok(bytes <= 32 * MIB, `${bytes} bytes are held`);
      },
    );
  });
}

async function metric(sluice: SluiceProcess, name: string): Promise<number> {
  const { text } = await get(sluice.url, '/metrics');
  return Number(new RegExp(`^sluice_${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

async function untilNothingReserved(sluice: SluiceProcess): Promise<void> {
  for (const name of ['large_row_bytes', 'waiting_large_rows']) {
    await until(
      () => metric(sluice, name),
      (value) => value === 0,
    );
  }
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
  t.teardown(() => sluice.kill());
  return { sluice, users, proxy };
}
