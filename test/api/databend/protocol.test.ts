import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type DatabaseServer, sharedServers } from '../../support/servers.ts';
import { get, post, type Reply, type RequestOptions, type SluiceProcess, startSluice } from '../../support/sluice.ts';
import { until } from '../../support/until.ts';

/* Databend's dialect beside v1, as any client uses it over HTTP. The other files here test the needs of particular clients. */

const agent = { 'user-agent': 'databend-test/1.0' };
const asClient: RequestOptions = { user: 'root', headers: agent };
/** Counts the statements in the database that match a pattern, which follows. */
const running = 'SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO';
/** The members of a page, in order. */
const members = [
  ...['id', 'session_id', 'node_id', 'state', 'session', 'error', 'warnings', 'has_result_set', 'schema', 'data'],
  ...['affect', 'result_timeout_secs', 'settings', 'stats', 'stats_uri', 'final_uri', 'next_uri', 'kill_uri'],
];

interface Session {
  readonly database?: string;
  readonly settings?: Readonly<Record<string, string>>;
  readonly txn_state?: string;
  readonly need_sticky?: boolean;
  readonly internal?: string | null;
}

interface Body {
  readonly id: string;
  readonly state: string;
  readonly session: Session | null;
  readonly error: { readonly code: number; readonly message: string } | null;
  readonly schema: readonly { readonly name: string; readonly type: string }[];
  readonly data: readonly (readonly (string | null)[])[];
  readonly next_uri: string | null;
  readonly final_uri: string;
  readonly stats_uri: string;
  readonly kill_uri: string;
}

for (const server of await sharedServers()) {
  t.test(`on ${server.kind}`, { timeout: 540_000 }, async (t) => {
    const { sluice, database } = await start(t, server);
    const url = sluice.url;
    const send = (sql: string, more: object = {}): Promise<Reply> =>
      post(url, { sql, pagination: { wait_time_secs: 10 }, ...more }, asClient);
    const bodyOf = ({ status, text }: Reply): Body => {
      if (status !== 200) throw new Error(`${status} ${text}`);
      return JSON.parse(text) as Body;
    };
    /** Runs a statement to its end in a session. Returns its result and the next session. */
    const run = async (sql: string, session: Session = {}): Promise<Body & { readonly after: Session }> => {
      const body = bodyOf(await send(sql, { session }));
      if (body.next_uri !== null) await get(url, body.next_uri, asClient);
      return { ...body, after: body.session ?? session };
    };

    await t.test('a page has every member and leads to the next page, to the last and to none', async (t) => {
      const reply = await send("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL", {
        pagination: { wait_time_secs: 10, max_rows_per_page: 1 },
      });
      const first = bodyOf(reply);
      t.strictSame(Object.keys(first), members);
      t.match(reply.headers, {
        'x-databend-query-id': first.id,
        // The page is full before the database has ended the statement.
        'x-databend-query-state': /^(Running|Succeeded)$/,
        'x-databend-query-page-rows': '1',
        'x-databend-version': /^\d+\.\d+\.\d+/,
        'x-content-type-options': 'nosniff',
      });
      t.strictSame(first.data, [['1', 'x']]);
      t.match(first.schema, [{ name: 'a' }, { name: 'b', type: 'Nullable(String)' }]);
      t.equal(first.next_uri, `/v1/query/${first.id}/page/1`);
      const again = bodyOf(await get(url, `/v1/query/${first.id}/page/0`, asClient));
      t.strictSame(again.data, first.data, 'the last page may be requested again');
      const second = bodyOf(await get(url, first.next_uri as string, asClient));
      t.strictSame(second.data, [['2', null]]);
      t.equal(second.next_uri, first.final_uri);
      const past = bodyOf(await get(url, `/v1/query/${first.id}/page/2`, asClient));
      t.match(past, { data: [], schema: Array }, 'a page past the end is empty');
      const final = bodyOf(await get(url, second.next_uri as string, asClient));
      t.match(final, { state: 'Succeeded', next_uri: null });
      t.strictSame(final.data, []);
      t.strictSame(Object.keys(final), members);
    });

    await t.test('a query that has ended is closed with a reason', async (t) => {
      const { id, final_uri, kill_uri } = await run('SELECT 1');
      for (const method of ['GET', 'POST']) {
        t.equal((await get(url, final_uri, { ...asClient, method })).status, 200);
        t.equal((await get(url, kill_uri, { ...asClient, method })).status, 200);
      }
      const page = await get(url, `/v1/query/${id}/page/0`, asClient);
      t.equal(page.status, 400);
      t.match(JSON.parse(page.text), { error: { code: 400, message: /finished by the client/ } });
      const unknown = await get(url, `/v1/query/${'0'.repeat(44)}/page/0`, asClient);
      t.equal(unknown.status, 404);
      t.match(JSON.parse(unknown.text), { error: { code: 404 } });
    });

    await t.test('a running statement is reported and can be killed', async (t) => {
      const first = bodyOf(await send('SELECT SLEEP(100.125)', { pagination: { wait_time_secs: 0 } }));
      t.match(first, { state: 'Running', data: [], next_uri: /\/page\/0$/ });
      const stats = await get(url, first.stats_uri, asClient);
      t.strictSame(Object.keys(JSON.parse(stats.text)), ['state', 'error', 'warnings', 'stats']);
      t.equal((await get(url, first.kill_uri, { ...asClient, method: 'POST' })).status, 200);
      const page = await get(url, first.next_uri as string, asClient);
      t.equal(page.status, 400);
      t.match(JSON.parse(page.text), { error: { code: 400, message: /cancelled by the client/ } });
      const other = bodyOf(await send('SELECT SLEEP(100.125), 2', { pagination: { wait_time_secs: 0 } }));
      await get(url, other.final_uri, { ...asClient, method: 'POST' });
      t.equal((await get(url, other.next_uri as string, asClient)).status, 400);
      await until(async () => (await server.sql(`${running} LIKE 'SELECT SLEEP(100.125)%'`)) === '0');
    });

    await t.test('a waiting poll reports that its statement was killed', async (t) => {
      const first = bodyOf(await send('SELECT SLEEP(100.125), 3', { pagination: { wait_time_secs: 0 } }));
      const poller = await post(url, { sql: 'SELECT SLEEP(100.125), 4', pagination: { wait_time_secs: 1 } }, asClient);
      const { next_uri, kill_uri } = bodyOf(poller);
      const waiting = get(url, next_uri as string, asClient);
      // Time for the poll to arrive. Without the kill it is answered after a second.
      await delay(400);
      await get(url, kill_uri, { ...asClient, method: 'POST' });
      t.match(bodyOf(await waiting), { state: 'Failed', error: { code: 60002 }, next_uri: /\/final$/ });
      t.equal((await get(url, first.kill_uri, asClient)).status, 200);
    });

    await t.test('a failed statement reports the reason', async (t) => {
      const { body, status } = { ...(await send('SELECT * FROM nothing')), body: await run('SELECT * FROM nothing') };
      t.equal(status, 200);
      t.match(body, { state: 'Failed', error: { code: 1146, message: /nothing/, detail: /42S02/ } });
    });

    await t.test('changes report the number of affected rows', async (t) => {
      await run(`CREATE TABLE ${database}.counted (i INT PRIMARY KEY, j INT)`);
      for (const [sql, name, rows] of [
        ['INSERT INTO counted VALUES (1, 1), (2, 1), (3, 1)', 'number of rows inserted', '3'],
        ['/* c */ update counted SET j = 2 WHERE i > 1', 'number of rows updated', '2'],
        ['DELETE FROM counted WHERE i = 9', 'number of rows deleted', '0'],
        ['REPLACE INTO counted VALUES (4, 1)', 'number of rows inserted', '1'],
      ] as const) {
        const body = await run(sql);
        t.match(body, { schema: [{ name, type: 'UInt64' }], stats: { write_progress: { rows: Number(rows) } } }, sql);
        t.strictSame(body.data, [[rows]]);
      }
      const running = bodyOf(
        await send('INSERT INTO counted SELECT 9, SLEEP(0.5)', { pagination: { wait_time_secs: 0 } }),
      );
      t.strictSame(running.data, [], 'not before the end');
      const ended = await until(
        async () => bodyOf(await get(url, `${running.next_uri}`, asClient)),
        ({ state }) => state !== 'Running',
      );
      t.strictSame(ended.data, [['1']]);
      const past = bodyOf(await get(url, `/v1/query/${ended.id}/page/1`, asClient));
      t.strictSame(past.data, [], 'and not past it');
    });

    await t.test('the client carries USE and SET', async (t) => {
      const used = await run('USE mysql', { database });
      t.match(used.session, { database: 'mysql', need_sticky: false });
      t.strictSame((await run('SELECT DATABASE()', used.after)).data, [['mysql']]);
      const set = await run("SET SESSION sql_mode = 'ANSI_QUOTES', group_concat_max_len = 1234", used.after);
      t.match(set.session, {
        database: 'mysql',
        settings: { sql_mode: 'ANSI_QUOTES', group_concat_max_len: '1234' },
        need_sticky: false,
      });
      const found = await run('SELECT @@sql_mode, @@group_concat_max_len, DATABASE()', set.after);
      t.strictSame(found.data, [['ANSI_QUOTES', '1234', 'mysql']]);
      t.strictSame((await run('SELECT DATABASE()', { database })).data, [[database]], 'no other session is affected');
    });

    await t.test(
      'E (http_handler_result_timeout_secs): a result is kept for as long as the client requests',
      async (t) => {
        const asking = (secs: string): Promise<Body & { readonly result_timeout_secs: number }> =>
          send('SELECT 1 UNION ALL SELECT 2', {
            session: { database, settings: { http_handler_result_timeout_secs: secs } },
            pagination: { max_rows_per_page: 1 },
          }).then((reply) => bodyOf(reply) as Body & { readonly result_timeout_secs: number });
        const [short, long, most, bad] = [
          await asking('1'),
          await asking('60'),
          await asking('99999'),
          await asking('x'),
        ];
        t.strictSame(
          [short, long, most, bad].map(({ result_timeout_secs }) => result_timeout_secs),
          [1, 60, 3_600, 2],
          'within --result_timeout_secs_max',
        );
        t.match(
          short.session,
          { settings: { http_handler_result_timeout_secs: '1' } },
          'the setting is kept in the session',
        );
        await until(() => hasExpired(sluice, short.id) && hasExpired(sluice, bad.id));
        t.equal((await get(url, short.next_uri as string, asClient)).status, 400);
        t.match((await get(url, bad.next_uri as string, asClient)).text, /not polled for 2 s/, 'the default');
        t.strictSame(bodyOf(await get(url, long.next_uri as string, asClient)).data, [['2']]);
      },
    );

    await t.test('E (/final): a result that has expired unread is Failed, a result that was read is not', async (t) => {
      const unread = bodyOf(await send('SELECT 1 UNION ALL SELECT 2', { pagination: { max_rows_per_page: 1 } }));
      const read = bodyOf(await send('SELECT 1'));
      const running = bodyOf(await send('SELECT SLEEP(100.125), 5', { pagination: { wait_time_secs: 0 } }));
      await until(() => [unread, running, read].every(({ id }) => hasExpired(sluice, id)));
      for (const { id, final_uri } of [unread, running]) {
        const page = await get(url, `/v1/query/${id}/page/0`, asClient);
        t.equal(page.status, 400);
        t.match(bodyOf(await get(url, final_uri, asClient)), {
          state: 'Failed',
          error: { code: 60003, message: `query ${id} expired: not polled for 2 s` },
        });
      }
      t.match(bodyOf(await get(url, read.final_uri, asClient)), { state: 'Succeeded', error: null });
    });

    await t.test('A1: the answer to a POST has the session, even if the statement still runs', async (t) => {
      const session = { database, settings: { group_concat_max_len: '4321' } };
      const first = bodyOf(await send('SELECT SLEEP(0.3)', { session, pagination: { wait_time_secs: 0 } }));
      t.equal(first.state, 'Running');
      t.match(first.session, session);
      await get(url, first.final_uri, asClient);
    });

    await t.test('LAST_INSERT_ID() returns the value of the last statement', async (t) => {
      await run('CREATE TABLE numbered (i INT PRIMARY KEY AUTO_INCREMENT, j INT)', { database });
      const inserted = await run('INSERT INTO numbered (j) VALUES (1), (2)', { database });
      const found = await run('SELECT LAST_INSERT_ID()', inserted.after);
      t.strictSame(found.data, [['1']]);
      t.match(found.session, { need_sticky: false });
      const again = await run('INSERT INTO numbered (j) VALUES (3)', found.after);
      t.strictSame((await run('SELECT LAST_INSERT_ID()', again.after)).data, [['3']]);
    });

    await t.test('a client whose database is dropped continues without one', async (t) => {
      await server.sql(`CREATE DATABASE ${database}_b`);
      const used = await run(`USE ${database}_b`, { database });
      const dropped = await run(`DROP DATABASE ${database}_b`, used.after);
      t.match(dropped, { state: 'Succeeded', session: { database: '(none) ' } });
      const next = await run('SELECT DATABASE()', dropped.after);
      t.match(next, { state: 'Succeeded', data: [[null]] }, 'the schema of --mysql_url does not take its place');
      const created = await run('CREATE TABLE landed (i INT)', dropped.after);
      t.match(
        created,
        { state: 'Failed', error: { code: 1046 } },
        'a change runs in no schema that the client did not name',
      );
      t.match(await run(`USE ${database}`, dropped.after), { state: 'Succeeded', session: { database } });
      t.strictSame(
        (await run('SELECT DATABASE()')).data,
        [[database]],
        'a client that names none is in the default one',
      );
    });

    await t.test('a time zone is reported only if the database has accepted it', async (t) => {
      const zoneOf = async (time_zone: string): Promise<string> => {
        const reply = await send('SELECT NOW()', { session: { database, settings: { time_zone } } });
        return (JSON.parse(reply.text) as { settings: { timezone: string } }).settings.timezone;
      };
      t.equal(await zoneOf('Mars/Olympus'), 'UTC', 'text that looks like a time zone name');
      t.equal(await zoneOf('+02:00'), 'Etc/GMT-2');
    });

    await t.test('a fixed TIMESTAMP is not carried, since the clock would stop', async (t) => {
      const set = await run('SET timestamp = DEFAULT', { database });
      t.notMatch(set.session?.settings ?? {}, { timestamp: String });
    });

    await t.test('columns of ROLLUP sums are nullable, although the database declares them NOT NULL', async (t) => {
      await run('CREATE TABLE rolled (b INT NOT NULL)', { database });
      await run('INSERT INTO rolled VALUES (1), (2)', { database });
      const { schema, data } = await run('SELECT b, COUNT(*) AS c FROM rolled GROUP BY b WITH ROLLUP', { database });
      t.strictSame(data.at(-1), [null, '2']);
      t.match(schema[0]?.type, /^Nullable/);
    });

    await t.test('a session whose first statement was ended before its answer ends with its query', async (t) => {
      const held = async (): Promise<number> => {
        const { text } = await get(url, '/metrics', asClient);
        return Number(/^sluice_sessions (\d+)/m.exec(text)?.[1]);
      };
      await until(async () => (await held()) === 0);
      const session = { database, settings: { autocommit: 'OFF' } };
      const pagination = { wait_time_secs: 0 };
      for (const [pauseMs, verb] of [
        [0, 'kill_uri'],
        [300, 'kill_uri'],
        [0, 'final_uri'],
      ] as const) {
        const sql = 'SELECT SLEEP(0.1), i FROM counted LIMIT 1 FOR UPDATE';
        const first = bodyOf(await send(sql, { session, pagination }));
        t.equal(first.state, 'Running');
        await delay(pauseMs);
        await get(url, first[verb], { ...asClient, method: 'POST' });
        await until(async () => (await held()) === 0);
      }
    });

    await t.test('the statement of a client that logs out is completed', async (t) => {
      const login = await loginAs(sluice);
      const asLogged = { ...asClient, headers: { ...agent, cookie: login } };
      const begun = bodyOf(await post(url, { sql: 'BEGIN', session: { database } }, asLogged));
      const body = { sql: 'SELECT SLEEP(1)', session: begun.session, pagination: { wait_time_secs: 0 } };
      const running = bodyOf(await post(url, body, asLogged));
      await jsonPost(sluice, '/v1/session/logout', undefined, login);
      const ended = await until(
        async () => bodyOf(await get(url, running.next_uri as string, asLogged)),
        ({ state }) => state !== 'Running',
      );
      t.match(ended, { state: 'Succeeded', data: [['0']] });
      await until(async () => (await run('SELECT 1', begun.session as Session)).error?.code === 60001);
    });

    await t.test('an idempotency key is separate in each dialect', async (t) => {
      const key = randomBytes(8).toString('hex');
      const plain = await post(url, { sql: 'SELECT 1' }, { user: 'root', headers: { 'idempotency-key': key } });
      const headers = { ...agent, 'x-databend-query-id': key };
      const theirs = bodyOf(await post(url, { sql: 'SELECT 1' }, { user: 'root', headers }));
      t.not(theirs.id, plain.json.id);
      t.strictSame(theirs.data, [['1']]);
    });

    await t.test('a body that is nested too deeply or too large is refused with a reason', async (t) => {
      const deep = `${'['.repeat(200)}${']'.repeat(200)}`;
      for (const text of [`{"sql":"DO 0","session":{"more":${deep}}}`, `{"sql":"DO 0","params":[${deep}]}`]) {
        const reply = await post(url, JSON.parse(text), asClient);
        t.equal(reply.status, 400);
        t.match(reply.text, /deeper/);
      }
      const large = {
        sql: `SELECT ${Array.from({ length: 20 }, () => 'LENGTH(:a)').join()}`,
        params: { a: 'x'.repeat(1e6) },
      };
      t.match(bodyOf(await post(url, large, asClient)), { state: 'Failed', error: { code: 1210 } });
    });

    await t.test('settings that are not variables have no effect', async (t) => {
      const settings = {
        max_threads: '8',
        'a`b': "'",
        sql_mode: "x'; DROP TABLE counted; --",
        wait_timeout: 'nonsense',
      };
      t.strictSame((await run('SELECT 1', { database, settings })).data, [['1']]);
      t.equal((await run('SELECT 1 FROM counted LIMIT 1', { database })).state, 'Succeeded');
    });

    await t.test('a transaction pins its session until it ends', async (t) => {
      const begun = await run('START TRANSACTION', { database });
      t.match(begun.session, { txn_state: 'Active', need_sticky: true, internal: String });
      const inserted = await run('INSERT INTO counted VALUES (100, 1)', begun.after);
      t.match(inserted.session, { txn_state: 'Active', need_sticky: true });
      const seen = 'SELECT COUNT(*) FROM counted WHERE i = 100';
      t.strictSame((await run(seen, inserted.after)).data, [['1']]);
      t.strictSame((await run(seen, { database })).data, [['0']], 'no other session sees it');
      const failed = await run('SELECT nothing', inserted.after);
      t.match(
        failed.session,
        { txn_state: 'Active', need_sticky: true },
        'the transaction survives a failed statement',
      );
      const ended = await run('ROLLBACK', failed.after);
      t.match(ended.session, { txn_state: 'AutoCommit', need_sticky: false, internal: null });
      t.strictSame((await run(seen, ended.after)).data, [['0']]);
      const again = await run('BEGIN', ended.after);
      const committed = await run('COMMIT', (await run('INSERT INTO counted VALUES (100, 1)', again.after)).after);
      t.strictSame((await run(seen, committed.after)).data, [['1']]);
    });

    await t.test('a temporary table and a user variable pin their session', async (t) => {
      const made = await run('CREATE TEMPORARY TABLE mine AS SELECT 7 AS seven', { database });
      t.match(made.session, { txn_state: 'AutoCommit', need_sticky: true, internal: String });
      t.strictSame((await run('SELECT seven FROM mine', made.after)).data, [['7']]);
      t.equal((await run('SELECT seven FROM mine', { database })).state, 'Failed');
      const set = await run('SET @x = 8', { database });
      t.strictSame((await run('SELECT @x', set.after)).data, [['8']]);
    });

    await t.test(
      'A1: a statement that was sent with the session token of a session that a COMMIT ends still runs',
      async (t) => {
        await run('CREATE TABLE moved (i INT PRIMARY KEY)', { database });
        const { after } = await run('BEGIN', { database });
        const pagination = { wait_time_secs: 0 };
        const settings = { ...after.settings, group_concat_max_len: '4321' };
        const posts: Body[] = [];
        for (const sql of [
          'INSERT INTO moved SELECT 1 + SLEEP(0.5)',
          'COMMIT',
          'INSERT INTO moved VALUES (2)',
          'SELECT @@group_concat_max_len, DATABASE()',
          'BEGIN',
          'BEGIN',
        ]) {
          posts.push(bodyOf(await send(sql, { session: { ...after, settings }, pagination })));
        }
        const answers: Body[] = [];
        for (const post of posts) {
          let answer = post;
          const data = [...post.data];
          await until(async () => {
            if (answer.state !== 'Running') return true;
            answer = bodyOf(await get(url, answer.next_uri as string, asClient));
            data.push(...answer.data);
            return answer.state !== 'Running';
          });
          answers.push({ ...answer, data });
        }
        t.strictSame(
          answers.map(({ error }) => error),
          answers.map(() => null),
        );
        t.strictSame(answers[3]?.data, [['4321', database]], 'with the state that the client carries');
        for (const index of [1, 2, 3]) {
          t.match(answers[index]?.session, { txn_state: 'AutoCommit', need_sticky: false, internal: null });
        }
        t.strictSame((await run('SELECT GROUP_CONCAT(i) FROM moved', { database })).data, [['1,2']]);
        const begun = [answers[4]?.session, answers[5]?.session].map((session) => session as Session);
        t.not(begun[0]?.internal, begun[1]?.internal, 'each has its own session');
        for (const session of begun) t.match((await run('ROLLBACK', session)).error, null);
        const late = await run('SELECT 1', { ...after, settings });
        t.match(
          late,
          { state: 'Succeeded', session: { need_sticky: false, internal: null } },
          'also if it comes later',
        );
      },
    );

    await t.test('a session token that was changed, or belongs to another user, is refused', async (t) => {
      const { after } = await run('BEGIN', { database });
      const internal = after.internal as string;
      const changed = `${internal.slice(0, -3)}${internal.at(-3) === 'A' ? 'B' : 'A'}${internal.slice(-2)}`;
      for (const [handle, user] of [
        [changed, 'root'],
        [internal, 'carrier'],
      ] as const) {
        const reply = await post(
          url,
          { sql: 'COMMIT', session: { ...after, internal: handle } },
          { ...asClient, user },
        );
        t.equal(reply.status, 400, reply.text);
        t.match(JSON.parse(reply.text), { error: { code: 400, message: /session\.internal/ } });
      }
      t.match(await run('ROLLBACK', after), { state: 'Succeeded' });
    });

    await t.test(
      'a pinned session without requests or heartbeats expires with a reason, and a new one is created',
      async (t) => {
        const login = await loginAs(sluice);
        const asLogged = { ...asClient, headers: { ...agent, cookie: login } };
        const begin = async (): Promise<Session> => {
          const reply = await post(url, { sql: 'BEGIN', session: { database } }, asLogged);
          return bodyOf(reply).session as Session;
        };
        const [kept, lost] = [await begin(), (await run('BEGIN', { database })).after];
        for (let beat = 0; beat < 8; beat++) {
          await delay(500);
          const reply = await jsonPost(sluice, '/v1/session/heartbeat', { node_to_queries: {} }, login);
          t.equal(reply.status, 200);
        }
        t.match(await run('SELECT 1', kept), { state: 'Succeeded' }, 'heartbeats kept it');
        const expired = await run('SELECT 1', lost);
        t.match(expired, { state: 'Failed', error: { code: 60001, message: /idle for 2 s.*rolled back/ } });
        t.match(expired.session, { txn_state: 'AutoCommit', need_sticky: false, internal: null });
        t.strictSame((await run('SELECT 1', expired.after)).data, [['1']]);
        t.equal((await jsonPost(sluice, '/v1/session/logout', undefined, login)).status, 200);
        await until(async () => (await run('SELECT 1', kept)).error?.code === 60001);
        t.match((await run('SELECT 1', kept)).error, { message: /logged out/ });
      },
    );

    await t.test('a heartbeat keeps a result and reports removed ones', async (t) => {
      const page = bodyOf(await send('SELECT 1 UNION ALL SELECT 2', { pagination: { max_rows_per_page: 1 } }));
      const other = bodyOf(await send('SELECT 1 UNION ALL SELECT 2', { pagination: { max_rows_per_page: 1 } }));
      // It outlives the other query, which was posted later.
      while (!hasExpired(sluice, other.id)) {
        await delay(300);
        const { text } = await jsonPost(sluice, '/v1/session/heartbeat', { node_to_queries: { n: [page.id, 'gone'] } });
        t.strictSame(JSON.parse(text), { queries_to_remove: ['gone'] });
      }
      t.strictSame(bodyOf(await get(url, page.next_uri as string, asClient)).data, [['2']]);
      const late = await get(url, other.next_uri as string, asClient);
      t.equal(late.status, 400);
      t.match(late.text, /not polled for 2 s/);
    });

    await t.test('login, verify, refresh and their requirements', async (t) => {
      const login = await jsonPost(sluice, '/v1/session/login?disable_session_token=true', { database });
      t.match(JSON.parse(login.text), { version: /^\d+\.\d+\.\d+(-MariaDB)?$/, session_id: /^[0-9a-f]{32}$/ });
      t.match(login.headers['set-cookie'], [/^session_id=[0-9a-f]{32};.*HttpOnly/]);
      const verified = await jsonPost(sluice, '//v1/verify/', {});
      t.match(JSON.parse(verified.text), { user: 'root' });
      const refresh = await jsonPost(sluice, '/v1/session/refresh', { refresh_token: 'x' });
      t.equal(refresh.status, 400);
      const wrong = await post(url, { sql: 'SELECT 1' }, { ...asClient, user: 'nobody', password: 'wrong' });
      t.equal(wrong.status, 401);
      t.match(JSON.parse(wrong.text), { error: { code: 401, message: String } });
      t.equal(wrong.headers['content-type'], 'application/json');
    });

    await t.test('cells are strings or NULL', async (t) => {
      const { data } = await run(
        "SELECT 1, -2.50, 1e10, CAST('2024-01-02 03:04:05' AS DATETIME), CAST('00:01:02' AS TIME), X'00FF', NULL",
      );
      t.strictSame(data, [['1', '-2.50', '10000000000', '2024-01-02 03:04:05.000000', '00:01:02', '00FF', null]]);
      const { data: asText } = await run('SELECT NULL, 1', { settings: { format_null_as_str: '1' } });
      t.strictSame(asText, [['NULL', '1']]);
    });

    await t.test('params are bound by position and by name', async (t) => {
      const values = [1, "it's", null, true, 0.5, '\\', '18446744073709551615'];
      const byPlace = bodyOf(await send('SELECT ?, ?, ?, ?, ?, ?, CAST(? AS UNSIGNED)', { params: values }));
      t.strictSame(
        byPlace.data,
        [['1', "it's", null, '1', '0.5', '\\', '18446744073709551615']],
        String(byPlace.error?.message),
      );
      const byName = bodyOf(await send("SELECT :b, ':a', :a, :b", { params: { a: 1, b: 'x' } }));
      t.strictSame(byName.data, [['x', ':a', '1', 'x']], String(byName.error?.message));
      t.match(bodyOf(await send('SELECT ?', { params: [1, 2] })), { state: 'Failed', error: { code: 1210 } });
    });

    await t.test('clients of one dialect do not see the other dialect', async (t) => {
      const plain = await post(url, { sql: 'SELECT 1', pagination: { wait_time_secs: 5 } });
      t.strictSame(plain.json.data, [[1]]);
      t.notMatch(Object.keys(plain.headers).join(), /databend/);
      t.equal((await get(url, `/v1/query/${plain.json.id}/final`)).status, 404);
      const wrong = await post(url, { sql: 'SELECT 1', unknown: 1 });
      t.equal(wrong.status, 400);
      t.equal(wrong.headers['content-type'], 'text/plain; charset=utf-8');
      // Requests for a query without the headers are answered in the dialect of its POST.
      const theirs = bodyOf(await send('SELECT 1'));
      t.strictSame(bodyOf(await get(url, `/v1/query/${theirs.id}/page/0`)).data, [['1']]);
    });
  });
}

t.test('a dialect can be forced', async (t) => {
  const [server] = await sharedServers();
  if (server === undefined) throw new Error('there is no database');
  const v1 = await start(t, server, ['--dialect', 'v1']);
  t.strictSame(
    (await post(v1.sluice.url, { sql: 'SELECT 1', pagination: { wait_time_secs: 5 } }, asClient)).json.data,
    [[1]],
  );
  t.equal((await jsonPost(v1.sluice, '/v1/session/login', {})).status, 404);
  const refused = await post(v1.sluice.url, { sql: 1 }, asClient);
  t.equal(refused.headers['content-type'], 'text/plain; charset=utf-8');
  const databend = await start(t, server, ['--dialect', 'databend']);
  const reply = await post(databend.sluice.url, { sql: 'SELECT 1' }, { user: 'root' });
  t.strictSame((JSON.parse(reply.text) as Body).data, [['1']]);
});

async function start(
  t: Test,
  server: DatabaseServer,
  more: readonly string[] = [],
): Promise<{ sluice: SluiceProcess; database: string }> {
  const database = `carried_${randomBytes(4).toString('hex')}`;
  await server.sql(`CREATE DATABASE ${database}; CREATE USER IF NOT EXISTS carrier@'%'`);
  const { port } = new URL(server.url);
  const sluice = await startSluice([
    ...['--mysql_url', `mysql://root@127.0.0.1:${port}/${database}`, '--drain_secs', '0'],
    ...['--pinned_session_idle_secs', '2', '--result_timeout_secs', '2', '--log_level', 'debug'],
    ...['--worker_threads', '1', ...more],
  ]);
  t.teardown(async () => {
    await sluice.kill();
    await server.sql(`DROP DATABASE ${database}; DROP USER IF EXISTS carrier`);
  });
  return { sluice, database };
}

/** Whether a query has expired. A request for it would count as polling. Its tombstone is kept for the same time. */
function hasExpired(sluice: SluiceProcess, id: string): boolean {
  return new RegExp(`"query":"${id}".*"reason":"expired.*"msg":"query_removed"`).test(sluice.log());
}

/** @returns the cookie of the login */
async function loginAs(sluice: SluiceProcess): Promise<string> {
  const { headers } = await jsonPost(sluice, '/v1/session/login', {});
  return (headers['set-cookie']?.[0] ?? '').split(';')[0] ?? '';
}

/** @param body none is sent if omitted */
async function jsonPost(sluice: SluiceProcess, path: string, body?: object, cookie?: string): Promise<Reply> {
  const response = await fetch(`${sluice.url}${path}`, {
    method: 'POST',
    headers: {
      ...agent,
      authorization: `Basic ${Buffer.from('root:').toString('base64')}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(cookie === undefined ? {} : { cookie }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const headers = { ...Object.fromEntries(response.headers), 'set-cookie': response.headers.getSetCookie() };
  return { status: response.status, headers, text } as unknown as Reply;
}
