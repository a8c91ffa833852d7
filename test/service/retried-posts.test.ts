import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startProxy } from '../support/proxy.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { get, post, type Reply, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * A client repeats a POST whose answer was lost. A repeated idempotency key returns the query that the first POST
 * started. The key is the header Idempotency-Key in v1, and the query id of the client in Databend's dialect.
 */

const dialects = [
  { dialect: 'v1', header: 'idempotency-key', refused: 409 },
  { dialect: 'databend', header: 'x-databend-query-id', refused: 400 },
] as const;

const atOnce = 100;

for (const server of await sharedServers()) {
  for (const { dialect, header, refused } of dialects) {
    t.test(`in ${dialect}, on ${server.kind}`, { timeout: 540_000 }, async (t) => {
      const { sluice, count } = await start(t, server);
      const key = (): string => randomBytes(16).toString('hex');
      const send = (name: string, body: object, user = 'root', url = sluice.url): Promise<Reply> =>
        post(url, body, { user, headers: { [header]: name } });
      const insert = (id: string) => ({ sql: `INSERT INTO done SELECT '${id}', SLEEP(0.2)` });

      await t.test(
        'a hundred concurrent POSTs with one key start one query, and each gets its first page',
        async (t) => {
          const name = key();
          const replies = await Promise.all(Array.from({ length: atOnce }, () => send(name, insert(name))));
          t.strictSame([...new Set(replies.map(({ status }) => status))], [200]);
          t.equal(new Set(replies.map(({ json }) => json.id)).size, 1);
          await until(async () => (await count(name)) !== '0');
          t.equal(await count(name), '1', 'the statement ran once');
        },
      );

      await t.test('a repeated POST gets the same answer, also after the query has ended', async (t) => {
        const name = key();
        const body = { sql: "SELECT 'x', 1 UNION ALL SELECT 'y', 2", pagination: { wait_time_secs: 5 } };
        const [first, again] = [await send(name, body), await send(name, body)];
        t.equal(again.json.id, first.json.id);
        t.strictSame(again.json.data, first.json.data);
        t.equal(first.json.data.length, 2);
      });

      await t.test(
        'a repeated POST gets the same answer after many others, whose single-page results are removed',
        async (t) => {
          const name = key();
          const body = { sql: "SELECT 'kept'", pagination: { wait_time_secs: 5 } };
          const first = await send(name, body);
          for (let other = 0; other < 20; other++) await post(sluice.url, { ...body, sql: `SELECT ${other}` });
          t.strictSame((await send(name, body)).json.data, first.json.data);
        },
      );

      await t.test('a repeated key is refused with another body, and after the query is finished', async (t) => {
        const name = key();
        const first = await send(name, { sql: 'SELECT 1', pagination: { wait_time_secs: 5 } });
        const other = await send(name, { sql: 'SELECT 2' });
        t.equal(other.status, refused);
        t.match(other.text, /another body/);
        t.notMatch(other.text, first.json.session_id, 'the refusal reveals nothing about the query');
        t.equal((await get(sluice.url, first.json.final_uri)).status, 200);
        const late = await send(name, { sql: 'SELECT 1', pagination: { wait_time_secs: 5 } });
        t.equal(late.status, refused);
        t.match(late.text, /finished by the client/);
      });

      await t.test('the same key of another user starts another query', async (t) => {
        const name = key();
        const [mine, theirs] = [
          await send(name, { sql: 'SELECT USER()' }),
          await send(name, { sql: 'SELECT USER()' }, 'retrier'),
        ];
        t.equal(theirs.status, 200, theirs.text);
        t.not(theirs.json.session_id, mine.json.session_id);
      });

      await t.test(
        'a repeated POST finds the statement of a POST whose connection was cut before the answer',
        async (t) => {
          const name = key();
          const port = Number(new URL(sluice.url).port);
          const proxy = await startProxy(t, port);
          proxy.silenceAfter(0);
          // Long enough to be still running when the connection is cut.
          const slow = { sql: `INSERT INTO done SELECT '${name}', SLEEP(1)` };
          const lost = send(name, slow, 'root', `http://127.0.0.1:${proxy.port}`);
          const running = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%''${name}'', SLEEP(1)'`;
          await until(async () => (await server.sql(running)) === '1');
          proxy.resetAll();
          await t.rejects(lost);
          const again = await send(name, { ...slow });
          t.equal(again.status, 200);
          await until(async () => (await count(name)) !== '0');
          await delay(300);
          t.equal(await count(name), '1', 'the statement ran once');
        },
      );

      await t.test('the key of a refused POST may be used again', async (t) => {
        const name = key();
        t.equal((await send(name, { sql: 1 })).status, 400);
        t.equal((await send(name, { sql: 'SELECT 1' })).status, 200);
        t.equal((await send('x'.repeat(256), { sql: 'SELECT 1' })).status, 400, 'a key has a maximum length');
      });
    });
  }
}

async function start(
  t: Test,
  server: DatabaseServer,
): Promise<{ sluice: SluiceProcess; count: (id: string) => Promise<string> }> {
  const name = `retried_${randomBytes(4).toString('hex')}`;
  await server.sql(
    `CREATE DATABASE ${name}; CREATE TABLE ${name}.done (id VARCHAR(40), slept INT);
     CREATE USER IF NOT EXISTS retrier@'%'`,
  );
  const { port } = new URL(server.url);
  const sluice = await startSluice([
    '--mysql_url',
    `mysql://root@127.0.0.1:${port}/${name}`,
    '--drain_secs',
    '0',
    '--single_page_results_max',
    '3',
  ]);
  t.teardown(async () => {
    await sluice.kill();
    await server.sql(`DROP DATABASE ${name}; DROP USER IF EXISTS retrier`);
  });
  return { sluice, count: (id) => server.sql(`SELECT COUNT(*) FROM ${name}.done WHERE id = '${id}'`) };
}
