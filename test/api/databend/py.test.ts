import { checkAnswer, Replay, type Shape, testRecorded } from './recorded.ts';

// The requests of databend-py: paths end in a slash, there is no login, and the query id is sent only on pages, as the server
// returned it. `query`, the base of the whole client, reads the session only from the answer to the POST; if that is null, the
// client returns to its initial session. `query_with_session` also reads pages, keeps its session if theirs is null, and for a
// statement without columns sees only the last answer, that of /final.
const py: Shape = {
  client: 'databend-py',
  headers: {
    'user-agent': 'databend-py/0.6.4',
    'content-type': 'application/json',
    accept: 'application/json',
    'x-databend-route': 'warehouse',
  },
  queryPath: '/v1/query/',
  queryId: null,
  session: (database) => ({ database }),
  body: { string_fields: true },
  login: null,
  before: '',
  readsFinal: true,
  takesSession: 'from POST',
};

await testRecorded(py, async (t, stage) => {
  const needed = ['error', 'next_uri', 'schema', 'data', 'session'];

  await t.test('every body has the members that are read without a check, and a session', async (t) => {
    const client = await stage.connect();
    for (const [sql, more] of [
      ['SELECT 1', {}],
      ['SELECT id FROM many ORDER BY id', {}],
      ['INSERT INTO counted VALUES (1000, 1)', {}],
      ['SELECT SLEEP(1.5)', { pagination: { wait_time_secs: 1 } }],
      ['SELECT * FROM absent', {}],
    ] as const) {
      const { answers } = await client.run(sql, more);
      for (const answer of answers) {
        checkAnswer(t, answer);
        for (const name of needed) t.ok(name in answer.json, `${name}: ${sql}`);
      }
      const [posted] = answers.map(({ json }) => json);
      if (posted?.error !== null) continue;
      t.match(posted.session, { database: stage.database }, `only the answer to the POST is read: ${sql}`);
    }
  });

  await t.test('the session of a slow statement is not lost', async (t) => {
    const client = await stage.connect();
    await client.run('SET SESSION group_concat_max_len = 4321');
    await client.run('SELECT SLEEP(1.2)', { pagination: { wait_time_secs: 1 } });
    t.strictSame((await client.run('SELECT @@group_concat_max_len')).rows, [['4321']]);
  });

  await t.test('/final has the session, even if many small results come before its request', async (t) => {
    const client = await stage.connect();
    const changed = await client.post('SET SESSION group_concat_max_len = 4321');
    for (let count = 0; count < 120; count++) await client.post('DO 0');
    const final = await client.get(changed.json.final_uri);
    t.match(final.json.session, { settings: { group_concat_max_len: '4321' } });
  });

  await t.test('/final returns its session again, even if another user runs many statements meanwhile', async (t) => {
    const client = await stage.connect();
    const changed = await client.run('SET SESSION group_concat_max_len = 4321');
    const [user, password] = [`${stage.user}_y`, 'other'];
    await stage.server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY '${password}'`);
    t.teardown(() => stage.server.sql(`DROP USER ${user}@'%'`));
    const other = new Replay(stage.url, py, { ...stage, user, password, database: 'information_schema' });
    for (let count = 0; count < 120; count++) await other.run('DO 0');
    t.match(changed.last.session, { settings: { group_concat_max_len: '4321' } });
    t.strictSame((await client.get(changed.last.final_uri)).json.session, changed.last.session);
  });

  await t.test('NULL is a string if the setting requests it', async (t) => {
    const client = await stage.connect();
    const select = (as: Replay) => as.run("SELECT NULL AS n, 'NULL' AS s, 1 AS i, CAST(NULL AS DATE) AS d");
    t.strictSame((await select(client)).rows, [[null, 'NULL', '1', null]]);
    client.session = { ...client.session, settings: { ...client.session.settings, format_null_as_str: '1' } };
    t.strictSame((await select(client)).rows, [['NULL', 'NULL', '1', 'NULL']]);
    t.equal(client.session.settings?.['format_null_as_str'], '1', 'the setting is kept in the session');
    t.strictSame((await select(client)).rows, [['NULL', 'NULL', '1', 'NULL']]);
  });

  await t.test('paths may have repeated and trailing slashes', async (t) => {
    const client = await stage.connect();
    const first = (await client.post('SELECT id FROM many ORDER BY id')).json;
    const page = await client.get(`/${first.next_uri}/`);
    t.equal(page.status, 200, page.text.slice(0, 300));
    t.equal(page.json.data[0]?.[0], '10000');
    t.equal((await client.get(`/${first.final_uri}/`)).status, 200);
  });
});
