import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { type DatabaseKind, isInstalled, startServer } from '../support/servers.ts';
import { follow, get, post, type QueryResponse, query, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * The database refuses further connections, because of its max_connections or a limit of the account. Statements wait,
 * and running statements can be polled and killed.
 */

t.setTimeout(540_000);

const kinds = ['mariadb', 'mysql'] satisfies DatabaseKind[];
const noWait = { pagination: { wait_time_secs: 0 } };
const tooMany = /too many connections/i;
const longWait = { pagination: { wait_time_secs: 20 } };

for (const kind of kinds) {
  t.test(kind, { skip: !isInstalled(kind) }, async (t) => {
    const server = await startServer(kind, ['--max-connections=14']);
    t.teardown(() => server.stop());
    const users = ['a', 'b', 'other'].map((name) => `${name}_${randomBytes(3).toString('hex')}`);
    const [a = '', b = '', other = ''] = users;
    for (const user of users) await server.sql(`CREATE USER ${user}@'%'; GRANT PROCESS ON *.* TO ${user}@'%'`);
    /** Root may use one more connection than others, which a login may hold until it is refused. */
    const asRoot = (sql: string): Promise<string> =>
      until(
        () =>
          server.sql(sql).catch((error: Error) => {
            if (tooMany.test(error.message)) return null;
            // The connection may have ended by itself.
            if (sql.startsWith('KILL') && error.message.includes('Unknown thread id')) return '';
            throw error;
          }),
        (answer) => answer !== null,
      ) as Promise<string>;
    const countOf = async (like: string): Promise<number> =>
      Number(
        await asRoot(
          `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE '${like}'`,
        ),
      );
    const sluice = await startSluice([
      ...['--mysql_url', `mysql://root@127.0.0.1:${server.port}/`, '--drain_secs', '0', '--worker_threads', '2'],
      ...['--queue_wait_secs', '600', '--result_timeout_secs', '600', '--auth_cache_secs', '1'],
    ]);
    t.teardown(() => sluice.stop());
    const begin = async (user: string, sql: string): Promise<QueryResponse> => {
      const reply = await post(sluice.url, { sql, ...noWait }, { user });
      if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
      return reply.json;
    };

    await t.test('B4: statements wait for connections that other clients of the database hold', async (t) => {
      const running = await begin(a, "SELECT SLEEP(600), 'running'");
      await until(async () => (await countOf('%running%')) === 1);
      // All connections that are left. One more is refused, except root's.
      const taken = new Set<Promise<unknown>>();
      const take = (): void => {
        const ended = server
          .sql("SELECT SLEEP(600), 'taken'", { user: other })
          .catch(() => {})
          .finally(() => taken.delete(ended));
        taken.add(ended);
      };
      const isFull = async (): Promise<boolean> =>
        server.sql('SELECT 1', { user: other }).then(
          () => false,
          (error: Error) => tooMany.test(error.message),
        );
      const fill = async (): Promise<boolean> => {
        // Checked several times: a client of root's that has just ended may still count.
        for (let times = 0; times < 3; times++) {
          if (!(await isFull())) {
            take();
            await until(async () => (await countOf('%taken%')) === taken.size);
            return false;
          }
          await delay(100);
        }
        return true;
      };
      // On a busy machine a connection may be released after that. Then the statement runs, and another is tried.
      const waiting = await until(
        async () => {
          await until(fill);
          return begin(a, 'SELECT 42');
        },
        ({ stats }) => stats['queue'] === 1,
      );
      t.equal(waiting.state, 'Running', 'it waits');
      t.equal(waiting.stats['queue'], 1);
      // For longer than credentials are cached.
      const until2 = performance.now() + 2_500;
      while (performance.now() < until2) {
        const { status, json, text } = await get(sluice.url, running.stats_uri, { user: a });
        t.equal(status, 200, text.slice(0, 200));
        t.equal(json.state, 'Running');
        await delay(200);
      }
      t.match((await get(sluice.url, waiting.stats_uri, { user: a })).json, { state: 'Running', error: null });
      await until(() => sluice.log().includes('"trouble":"database_full"'));
      const refused = await post(sluice.url, { sql: 'SELECT 1' }, { user: a, password: 'wrong' });
      t.ok([401, 503].includes(refused.status), 'a wrong password is refused');

      // Repeated, because root's client is refused, too, while a login that will be refused holds the last connection.
      await until(async () => {
        const ids = await asRoot(`SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '${other}'`);
        for (const id of ids.split('\n').filter(Boolean)) await asRoot(`KILL ${id}`);
        return taken.size === 0;
      });
      t.match(await follow(sluice.url, waiting, { user: a }), { state: 'Succeeded', data: [[42]] });
      t.equal((await get(sluice.url, running.final_uri, { user: a })).status, 200);
      await until(async () => (await countOf('%running%')) === 0);
    });

    await t.test('B4: the connections of Sluice leave room for logins and kills', async (t) => {
      const logged = sluice.log().length;
      const statements = await Promise.all(Array.from({ length: 30 }, () => begin(a, "SELECT SLEEP(600), 'hog'")));
      await until(async () => (await countOf('%hog%')) >= 8);
      t.same(
        (await query(sluice.url, 'SELECT 1', { user: b, body: longWait })).rows,
        [[1]],
        'another user’s statement runs',
      );
      t.equal((await get(sluice.url, '/ready')).status, 200);
      for (const { stats_uri } of statements)
        t.equal((await get(sluice.url, `${stats_uri}/kill`, { user: a })).status, 200);
      await until(async () => (await countOf('%hog%')) === 0);
      t.notMatch(sluice.log().slice(logged), /connection_lost/, 'each statement was ended by a kill');
    });

    await t.test('B4: a limit of the account does not fail its statements', async (t) => {
      const limited = `limited_${randomBytes(3).toString('hex')}`;
      await server.sql(`CREATE USER ${limited}@'%' WITH MAX_USER_CONNECTIONS 3`);
      const replies = await Promise.all(
        Array.from({ length: 12 }, (_, number) =>
          query(sluice.url, `SELECT SLEEP(0.1), ${number}`, { user: limited, body: longWait }),
        ),
      );
      for (const [number, { rows, last }] of replies.entries()) t.same(rows, [[0, number]], last.error?.message ?? '');
      t.same((await query(sluice.url, 'SELECT 1', { user: b, body: longWait })).rows, [[1]]);
    });
  });
}
