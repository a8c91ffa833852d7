import { checkAnswer, type Shape, testRecorded } from './recorded.ts';

// The requests of databend-jdbc, which asks for Arrow: a login without a query id, a session with null members, and URIs appended to the host without
// changes, which gives two slashes if the host ends with one.
const jdbc: Shape = {
  client: 'databend-jdbc',
  headers: {
    'user-agent': 'databend-jdbc/0.4.1',
    'content-type': 'application/json',
    accept: 'application/vnd.apache.arrow.stream',
    'x-databend-route-hint': 'aHR0cDovL2xvY2FsaG9zdDo4MDAw#',
  },
  queryPath: '/v1/query',
  queryId: (connection, count) => `${connection.replaceAll('-', '').slice(0, -2)}${String(count).padStart(2, '0')}`,
  session: (database) => ({
    ...{ database, settings: {}, txn_state: null, need_sticky: false, need_keep_alive: false, autoCommit: false },
  }),
  body: {
    pagination: { wait_time_secs: 10, max_rows_in_buffer: 5_000_000, max_rows_per_page: 10_000 },
    arrow_result_version_max: 2,
  },
  login: (database) => ({ database, settings: {} }),
  before: '/',
  readsFinal: false,
  takesSession: 'from all',
};

await testRecorded(jdbc, async (t, stage) => {
  await t.test('login returns a version that can be compared', async (t) => {
    const client = await stage.connect();
    const answer = await client.login();
    const { version, server_max_arrow_result_version } = JSON.parse(answer.text) as Record<string, string>;
    t.match(version, /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$/);
    t.equal(server_max_arrow_result_version, 2);
    t.match(answer.headers['content-type'], /^application\/json/);
  });

  await t.test('timestamps have six digits of a second, in a named zone', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE moments (a DATETIME, b DATETIME(3), c TIMESTAMP(6) NULL)');
    await client.run(
      "INSERT INTO moments VALUES ('2026-01-02 03:04:05', '2026-01-02 03:04:05.6', '2026-01-02 03:04:05')",
    );
    const { answers, rows } = await client.run('SELECT a, b, c, NOW(), NOW(2) FROM moments');
    t.equal(rows[0]?.length, 5);
    for (const cell of rows.flat()) t.match(cell, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}$/);
    for (const { json } of answers) {
      const timezone = json.settings?.['timezone'] ?? 'UTC';
      t.doesNotThrow(() => new Intl.DateTimeFormat('en', { timeZone: timezone }), timezone);
      t.match(timezone, /^[A-Za-z]/, 'a name, not an offset');
    }
  });

  await t.test('heartbeats report removed queries', async (t) => {
    const client = await stage.connect();
    const first = await client.post('SELECT SLEEP(600)', { pagination: { wait_time_secs: 0 } });
    checkAnswer(t, first);
    const { id, node_id } = first.json;
    const beat = async () => {
      const answer = await client.send('POST', '/v1/session/heartbeat', {
        node_to_queries: { [node_id]: [id, '0123456789abcdef0123456789abcdef'] },
      });
      t.equal(answer.status, 200, answer.text);
      t.match(answer.headers['content-type'], /^application\/json/);
      return (JSON.parse(answer.text) as { queries_to_remove: string[] }).queries_to_remove;
    };
    t.strictSame(await beat(), ['0123456789abcdef0123456789abcdef']);
    await client.get(first.json.final_uri);
    t.strictSame((await beat()).sort(), ['0123456789abcdef0123456789abcdef', id].sort());
  });

  await t.test('logout ends the pinned session', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE held (id INT PRIMARY KEY)');
    await client.run('BEGIN');
    await client.run('INSERT INTO held VALUES (1)');
    t.equal(client.session.need_keep_alive, true, 'otherwise the client does not log out');
    const answer = await client.send('POST', '/v1/session/logout', {});
    t.equal(answer.status, 200, answer.text);
    // The row lock is released. Otherwise this INSERT would wait until its timeout.
    const other = await stage.connect();
    const { last } = await other.run('INSERT INTO held VALUES (1)');
    t.equal(last.error, null);
    const { last: after } = await client.run('SELECT 1').catch((error: Error) => ({ last: { error } }));
    t.ok(after.error, 'the client gets an error instead of a new session in place of the pinned one');
    t.match(after.error?.message, /./);
  });

  await t.test('there are no tokens, so none can be refreshed', async (t) => {
    const client = await stage.connect();
    const { tokens } = JSON.parse((await client.login()).text) as { tokens?: object | null };
    t.notOk(tokens, 'without tokens clients continue to send the password');
    const refreshed = await client.send('POST', '/v1/session/refresh', { session_token: 'none' });
    t.equal(refreshed.status, 400);
    t.match(refreshed.json.error, { code: Number, message: /token/ });
    const bearer = await client.send('POST', '/v1/query', { sql: 'SELECT 1' }, { authorization: 'Bearer none' });
    t.equal(bearer.status, 401);
    t.match(bearer.json.error, { code: Number, message: /./ });
  });
});
