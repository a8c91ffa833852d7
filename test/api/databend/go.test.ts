import { randomBytes } from 'node:crypto';
import { checkAnswer, type Shape, testRecorded } from './recorded.ts';

// The requests of databend-go: all headers on every request, also without a body. It does not log in, requests no page that ends
// in /final, and closes every query by final_uri, whether it succeeded or failed.
const go: Shape = {
  client: 'databend-go',
  headers: {
    'user-agent': 'databend-go/0.9.1',
    'content-type': 'application/json; charset=utf-8',
    accept: 'application/json; charset=utf-8',
    'x-databend-route': 'warehouse',
    'x-databend-route-hint': randomBytes(8).toString('hex'),
  },
  queryPath: '/v1/query',
  queryId: (connection, count) => `${connection}.${count}`,
  session: (database) => ({ database }),
  body: {},
  login: null,
  before: '',
  readsFinal: false,
  takesSession: 'from all',
};

await testRecorded(go, async (t, stage) => {
  await t.test('Ping identifies the user', async (t) => {
    const client = await stage.connect();
    const answer = await client.send('POST', '/v1/verify', {});
    t.equal(answer.status, 200, answer.text);
    t.match(answer.headers['content-type'], /^application\/json/);
    t.equal((JSON.parse(answer.text) as { user: string }).user, stage.user);
    const wrong = await client.send('POST', '/v1/verify', {}, { authorization: 'Basic bm9ib2R5OndyaXRl' });
    t.equal(wrong.status, 401);
    t.match(wrong.json.error, { message: /./ });
  });

  await t.test('the count is read from the column alone', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE affected (id INT PRIMARY KEY AUTO_INCREMENT, v INT)');
    const read = async (sql: string) => {
      const { rows, answers } = await client.run(sql);
      const { schema } = answers.map(({ json }) => json).find(({ data }) => data.length > 0) ?? { schema: [] };
      return /^number of rows (?:inserted|updated|deleted)$/.test(schema[0]?.name ?? '') ? Number(rows[0]?.[0]) : -1;
    };
    t.equal(await read('INSERT INTO affected (v) VALUES (1), (2)'), 2);
    t.equal(await read('UPDATE affected SET v = v + 1'), 2);
    t.equal(await read('/* which */ DELETE FROM affected'), 2);
  });

  await t.test('answers with errors have the session too', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE ended (id INT PRIMARY KEY)');
    await client.run('BEGIN');
    await client.run('INSERT INTO ended VALUES (1)');
    const { last, answers } = await client.run('INSERT INTO ended VALUES (1)');
    for (const answer of answers) checkAnswer(t, answer);
    t.equal(last.error?.code, 1062);
    t.match(client.session, { txn_state: 'Active', need_sticky: true });
    await client.run('ROLLBACK');
    t.equal(client.session.txn_state, 'AutoCommit');
  });

  await t.test('a query that was read to its end is closed again', async (t) => {
    const client = await stage.connect();
    const { last } = await client.run('SELECT 1');
    t.match(last.next_uri, /\/final$/, 'the URI marks the end of the rows');
    const closed = await client.get(last.final_uri);
    t.equal(closed.status, 200, closed.text);
  });
});
