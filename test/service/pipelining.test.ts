import { randomBytes } from 'node:crypto';
import t from 'tap';
import { exchange, requestText } from '../support/raw-http.ts';
import { sharedServers } from '../support/servers.ts';
import { type QueryResponse, query, startSluice } from '../support/sluice.ts';

/* Requests that a client sends on one connection without waiting for the answers to those before them. */

t.setTimeout(540_000);

const headers = {
  Authorization: `Basic ${btoa('root:')}`,
  'Content-Type': 'application/json',
  Connection: 'keep-alive',
};
/** Bytes of padding. Larger bodies are parsed in a separate thread, or arrive in several chunks. */
const padding = [0, 200_000, 10, 70_000, 0, 0, 1_000_000, 0, 30_000, 0];

for (const server of await sharedServers()) {
  t.test(server.kind, async (t) => {
    const sluice = await startSluice(['--mysql_url', server.url]);
    t.teardown(() => sluice.stop());
    const posted = (body: object, padding = 0): Buffer =>
      requestText('POST /v1/query HTTP/1.1', headers, JSON.stringify(body) + ' '.repeat(padding));

    t.test('statements of a session run in the order in which they were sent, regardless of their size', async (t) => {
      const begin = { body: { session: { max_idle_time: 60 } } };
      const { session_id: id } = (await query(sluice.url, "SET @seen = ''", begin)).last;
      const requests = padding.map((bytes, index) =>
        posted({ sql: `SET @seen = CONCAT(@seen, '${index},')`, session: { id } }, bytes),
      );
      requests.push(posted({ sql: 'SELECT @seen', session: { id } }));
      const { replies } = await exchange(sluice.url, Buffer.concat(requests), { replies: requests.length });
      const answers = replies.map(({ body }) => JSON.parse(body) as QueryResponse);
      t.strictSame(answers.at(-1)?.data, [['0,1,2,3,4,5,6,7,8,9,']]);
      for (const { state, error } of answers) t.equal(state, 'Succeeded', error?.message ?? '');
    });

    t.test('a statement sees the writes of the statement before it on the same HTTP connection', async (t) => {
      const name = `piped_${randomBytes(4).toString('hex')}`;
      await server.sql(`CREATE DATABASE ${name}; CREATE TABLE ${name}.t (i INT)`);
      t.teardown(() => server.sql(`DROP DATABASE ${name}`));
      const requests = padding.flatMap((bytes, index) => [
        posted({ sql: `INSERT INTO ${name}.t VALUES (${index})` }, bytes),
        posted({ sql: `SELECT COUNT(*) FROM ${name}.t` }),
      ]);
      const { replies } = await exchange(sluice.url, Buffer.concat(requests), { replies: requests.length });
      const counts = replies.flatMap(({ body }) => (JSON.parse(body) as QueryResponse).data.flat());
      t.strictSame(
        counts,
        padding.map((_, index) => index + 1),
      );
    });

    t.test('a session that one request ends does not exist for the next', async (t) => {
      const begin = { body: { session: { max_idle_time: 60 } } };
      const { session_id: id } = (await query(sluice.url, 'SELECT 1', begin)).last;
      const ended = requestText(`DELETE /v1/session/${id} HTTP/1.1`, headers, '{}');
      const one = { sql: 'SELECT 1', session: { id } };
      const requests = [posted(one, 200_000), ended, posted(one)];
      const { replies } = await exchange(sluice.url, Buffer.concat(requests), { replies: requests.length });
      t.match(JSON.parse(replies[0]?.body ?? ''), { state: 'Succeeded', data: [[1]] });
      t.equal(replies[1]?.status, 200);
      t.match(JSON.parse(replies[2]?.body ?? ''), { state: 'Failed', error: { code: 90001 } });
    });
  });
}
