import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type DatabaseServer, isInstalled, sharedServers, startServer } from '../support/servers.ts';
import {
  follow,
  get,
  post,
  type QueryResponse,
  type QueryResult,
  query,
  type Reply,
  type SluiceProcess,
  startSluice,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';

/** The users, the database and the service of one test. */
class Bench {
  readonly server: DatabaseServer;
  readonly sluice: SluiceProcess;
  /** The name of the database and of the user. A second user has the suffix `_b`. */
  readonly name: string;

  constructor(server: DatabaseServer, sluice: SluiceProcess, name: string) {
    this.server = server;
    this.sluice = sluice;
    this.name = name;
  }

  login(user = this.name): { user: string; password: string } {
    return { user, password: 'pw' };
  }

  /** Posts a statement, and returns page 0. */
  async start(sql: string, session?: object, waitSecs = 0, user = this.name): Promise<QueryResponse> {
    const body = { sql, pagination: { wait_time_secs: waitSecs }, ...(session && { session }) };
    const reply = await post(this.sluice.url, body, this.login(user));
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    return reply.json;
  }

  async run(sql: string, session?: object, user = this.name): Promise<QueryResult> {
    const body = { pagination: { wait_time_secs: 5 }, ...(session && { session }) };
    return query(this.sluice.url, sql, { ...this.login(user), body });
  }

  async rows(sql: string, session?: object, user = this.name): Promise<readonly (readonly unknown[])[]> {
    const { last, rows } = await this.run(sql, session, user);
    if (last.error !== null) throw new Error(`${last.error.code} ${last.error.message}`);
    return rows;
  }

  async open(idleSecs = 600, database?: string, user = this.name): Promise<{ id: string }> {
    const session = { max_idle_time: idleSecs, ...(database === undefined ? {} : { database }) };
    const { last } = await this.run('DO 0', session, user);
    if (last.error !== null) throw new Error(`${last.error.code} ${last.error.message}`);
    return { id: last.session_id };
  }

  async stats(response: QueryResponse): Promise<QueryResponse> {
    return (await get(this.sluice.url, response.stats_uri, this.login())).json;
  }

  async finish(response: QueryResponse): Promise<void> {
    await get(this.sluice.url, response.final_uri, this.login());
  }

  /** Follows next_uri to the end. */
  async follow(response: QueryResponse): Promise<QueryResponse> {
    return follow(this.sluice.url, response, this.login());
  }

  /** Whether the log has the end of a session with this reason. */
  hasEnded({ id }: { id: string }, reason: string): boolean {
    const log = this.sluice.log();
    for (let at = log.indexOf(`"session":"${id}"`); at >= 0; at = log.indexOf(`"session":"${id}"`, at + 1)) {
      if (log.slice(log.lastIndexOf('\n', at) + 1, log.indexOf('\n', at)).includes(reason)) return true;
    }
    return false;
  }

  /** The ids of the user's connections in the database, the oldest first. */
  async connections(user = this.name): Promise<number[]> {
    const rows = await this.server.sql(
      `SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '${user}' ORDER BY ID`,
    );
    return rows === '' ? [] : rows.split('\n').map(Number);
  }
}

async function prepare(t: Test, server: DatabaseServer, args: readonly string[] = [], path?: string): Promise<Bench> {
  const name = `sess_${process.pid}_${Math.random().toString(36).slice(2, 8)}`;
  await server.sql(
    `CREATE DATABASE ${name}; CREATE DATABASE ${name}_other;` +
      `CREATE USER ${name}@'%' IDENTIFIED BY 'pw'; CREATE USER ${name}_b@'%' IDENTIFIED BY 'pw';` +
      [name, `${name}_other`].map((database) => `GRANT ALL ON ${database}.* TO ${name}@'%';`).join('') +
      `GRANT ALL ON ${name}_none.* TO ${name}@'%'; GRANT ALL ON ${name}.* TO ${name}_b@'%';` +
      `CREATE TABLE ${name}.t (i INT PRIMARY KEY, filler CHAR(200) NOT NULL DEFAULT 'x'); INSERT INTO ${name}.t (i) VALUES (1), (2);` +
      `CREATE TABLE ${name}.digits (d INT); INSERT INTO ${name}.digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);`,
  );
  const sluice = await startSluice([
    ...['--mysql_url', `${server.url}${path ?? name}`, '--log_level', 'debug', '--drain_secs', '0'],
    ...args,
  ]);
  t.teardown(async () => {
    await sluice.stop();
    await server
      .sql(`DROP USER ${name}, ${name}_b; DROP DATABASE ${name}; DROP DATABASE ${name}_other`)
      .catch(() => {});
  });
  return new Bench(server, sluice, name);
}

// Most of the time is spent waiting, so three of these tests run at a time.
t.jobs = 3;

for (const server of await sharedServers()) {
  const { kind } = server;

  t.test(`kept sessions on ${kind}`, { timeout: 540_000 }, async (t) => {
    const bench = await prepare(t, server, ['--session_idle_secs_max', '3600']);
    const { name } = bench;

    t.test('settings, database, variables, transactions and temporary tables stay in a session', async (t) => {
      const session = await bench.open();
      await bench.run("SET time_zone = '+03:00', @x = 'ä'", session);
      await bench.run(`USE ${name}_other`, session);
      await bench.run('CREATE TEMPORARY TABLE mine (i INT)', session);
      await bench.run("PREPARE p FROM 'SELECT ? + 1'", session);
      await bench.run(`SELECT GET_LOCK('${name}', 0)`, session);
      t.strictSame(await bench.rows('SELECT @@time_zone, @x, DATABASE(), (SELECT COUNT(*) FROM mine)', session), [
        ['+03:00', 'ä', `${name}_other`, 0],
      ]);
      await bench.run('SET @one = 41', session);
      t.equal(Number((await bench.rows('EXECUTE p USING @one', session))[0]?.[0]), 42);
      t.strictSame(await bench.rows(`SELECT IS_FREE_LOCK('${name}')`), [[0]], 'the session holds its lock');

      await bench.run('BEGIN', session);
      const inserted = await bench.run(`INSERT INTO ${name}.t (i) VALUES (10), (11)`, session);
      t.equal(inserted.last.affected_rows, 2);
      t.strictSame(await bench.rows(`SELECT COUNT(*) FROM ${name}.t`, session), [[4]]);
      t.strictSame(await bench.rows(`SELECT COUNT(*) FROM ${name}.t`), [[2]], 'other connections do not see the rows');
      const failed = await bench.run('SELECT nonsense', session);
      t.equal(failed.last.error?.code, 1054);
      t.strictSame(
        await bench.rows(`SELECT COUNT(*) FROM ${name}.t`, session),
        [[4]],
        'a failed statement does not end the transaction',
      );
      await bench.run('ROLLBACK', session);
      t.strictSame(await bench.rows(`SELECT COUNT(*) FROM ${name}.t`, session), [[2]]);
      await bench.run('BEGIN', session);
      await bench.run(`INSERT INTO ${name}.t (i) VALUES (12)`, session);
      await bench.run('COMMIT', session);
      t.strictSame(await bench.rows(`SELECT COUNT(*) FROM ${name}.t`), [[3]]);
      await bench.run(`DELETE FROM ${name}.t WHERE i = 12`);
    });

    t.test('each session has its own connection', async (t) => {
      const sessions = await Promise.all([bench.open(), bench.open(), bench.open()]);
      const ids = await Promise.all(
        sessions.map(async (session) => (await bench.rows('SELECT CONNECTION_ID()', session))[0]?.[0]),
      );
      t.equal(new Set(ids).size, 3);
      const again = await Promise.all(
        sessions.map(async (session) => (await bench.rows('SELECT CONNECTION_ID()', session))[0]?.[0]),
      );
      t.strictSame(again, ids);
    });

    t.test('statements run in order of arrival; eight wait, the ninth gets 90004', async (t) => {
      const session = await bench.open();
      await bench.run("SET @order = ''", session);
      const running = await bench.start('SELECT SLEEP(1000)', session);
      const waiting: QueryResponse[] = [];
      for (let number = 1; number <= 8; number++) {
        waiting.push(await bench.start(`SELECT @order := CONCAT(@order, '${number}')`, session));
      }
      for (const response of waiting) {
        const { state, stats, session_id } = await bench.stats(response);
        t.strictSame([state, stats['running_time_ms'], session_id], ['Running', 0, session.id]);
      }
      t.match(await bench.start('SELECT 9', session), { state: 'Failed', error: { code: 90004 }, next_uri: null });
      t.ok(Number((await bench.stats(running)).stats['running_time_ms']) > 0);
      await bench.finish(running);
      const seen: unknown[] = [];
      for (const response of waiting) {
        let last = response;
        while (last.data.length === 0 && last.next_uri !== null) {
          last = (await get(bench.sluice.url, last.next_uri, bench.login())).json;
        }
        seen.push(last.data[0]?.[0]);
        t.equal((await bench.follow(last)).state, 'Succeeded');
      }
      t.strictSame(seen, ['1', '12', '123', '1234', '12345', '123456', '1234567', '12345678']);
      t.strictSame(await bench.rows('SELECT 10', session), [[10]], 'the session’s queue has room again');
    });

    t.test('an unread result makes the next statement wait until it is finished', async (t) => {
      const session = await bench.open();
      const digits = Array.from({ length: 7 }, (_, index) => `digits d${index}`).join(', ');
      const big = await bench.start(`SELECT d0.d, REPEAT('y', 100) FROM ${digits}`, session);
      t.equal(big.state, 'Running');
      await until(async () => ((await bench.stats(big)).stats['result_progress'] as { rows: number }).rows > 0);
      const next = await bench.start('SELECT 1', session);
      // Long enough to notice if it ran, and not longer, because all received rows are spilled meanwhile.
      await delay(300);
      t.match(await bench.stats(next), { state: 'Running', stats: { running_time_ms: 0 } });
      await bench.finish(big);
      const last = await bench.follow(next);
      t.equal(last.state, 'Succeeded');
    });

    t.test('all ids that are no session of this user get the same answer', async (t) => {
      const expired = await bench.open(1);
      const oneOff = { id: (await bench.run('SELECT 1')).last.session_id };
      const others = await bench.open(600, undefined, `${name}_b`);
      await until(() => bench.hasEnded(expired, 'session_ended'));
      const answers = new Set<string>();
      for (const session of [{ id: 'f'.repeat(32) }, expired, oneOff, others]) {
        const answer = await bench.start('SELECT 1', session, 5);
        t.match(answer, { state: 'Failed', session_id: session.id, next_uri: null, data: [], error: { code: 90001 } });
        t.match((await bench.stats(answer)).error, { code: 90001 }, 'the failure can be polled again');
        const unlike = JSON.stringify(answer).replaceAll(session.id, 'ID').replaceAll(answer.id, 'QUERY');
        answers.add(unlike.replace(/"running_time_ms":[0-9.e-]+/, ''));
        t.equal((await get(bench.sluice.url, answer.final_uri, bench.login())).status, 200);
      }
      t.strictSame([...answers].slice(1), [], 'no answer differs from the first');
      for (const id of ['', 'ä "\\', ' ', 'x'.repeat(5_000)]) {
        t.match(await bench.start('SELECT 1', { id }, 5), { state: 'Failed', session_id: id, error: { code: 90001 } });
      }
      t.strictSame(
        await bench.rows('SELECT 2', others, `${name}_b`),
        [[2]],
        'the session still exists for its own user',
      );
    });

    t.test('E (DELETE session): a client ends its session, and the statements that run and wait in it', async (t) => {
      const end = (id: string, user = name, method = 'DELETE'): Promise<Reply> =>
        get(bench.sluice.url, `/v1/session/${id}`, { ...bench.login(user), method });
      const session = await bench.open();
      const connection = (await bench.rows('SELECT CONNECTION_ID()', session))[0]?.[0] as number;
      await bench.run('BEGIN', session);
      await bench.run('INSERT INTO t (i) VALUES (55)', session);
      const mark = `ended_${connection}`;
      const running = await bench.start(`SELECT SLEEP(1000) AS ${mark}`, session);
      const waiting = await bench.start('INSERT INTO t (i) VALUES (56)', session);
      t.equal((await end(session.id, `${name}_b`)).status, 404, 'another user has no such session');
      t.equal((await bench.stats(running)).state, 'Running');

      const ended = await end(session.id);
      t.strictSame([ended.status, ended.body], [200, '']);
      const message = 'the statement was cancelled: the client ended its session';
      t.match(await bench.follow(running), { state: 'Failed', error: { code: 90002, message, retryable: false } });
      t.match(await bench.follow(waiting), { error: { code: 90002, message, outcome: 'not_started' } });
      t.match(await bench.start('SELECT 1', session, 5), { state: 'Failed', error: { code: 90001 } });
      await until(async () => !(await bench.connections()).includes(connection));
      await until(async () => {
        const sql = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(1000) AS ${mark}%'`;
        return (await server.sql(sql)) === '0';
      });
      t.strictSame(await bench.rows('SELECT COUNT(*) FROM t WHERE i >= 55'), [[0]], 'nothing was committed');

      t.equal((await end(session.id)).status, 200, 'a repeated request, as after a lost answer');
      t.equal((await end(session.id, `${name}_b`)).status, 404);
      const idle = await bench.open();
      t.equal((await end(idle.id)).status, 200, 'an idle session');
      for (const id of ['f'.repeat(32), (await bench.run('SELECT 1')).last.session_id, '%22x%22']) {
        const reply = await end(id);
        t.equal(reply.status, 404, id);
        t.match(reply.text, /^no session [\w ]+: it never existed/);
      }
      const wrong = await end(session.id, name, 'POST');
      t.match([wrong.status, wrong.headers['allow']], [405, 'DELETE']);
    });

    t.test('E (DELETE session): an ended session makes room for another one at once', async (t) => {
      const { id } = await bench.open(600, undefined, `${name}_b`);
      for (let round = 0; round < 3; round++) {
        // Each session is ended while a statement runs in it.
        const session = await bench.open(600, undefined, `${name}_b`);
        await bench.start('SELECT SLEEP(1000)', session, 0, `${name}_b`);
        const path = `/v1/session/${session.id}`;
        t.equal((await get(bench.sluice.url, path, { ...bench.login(`${name}_b`), method: 'DELETE' })).status, 200);
      }
      t.strictSame(await bench.rows('SELECT 4', { id }, `${name}_b`), [[4]], 'other sessions continue');
      await until(async () => (await bench.connections(`${name}_b`)).length <= 2);
    });

    t.test('the database of a session', async (t) => {
      t.strictSame(await bench.rows('SELECT DATABASE()'), [[name]], 'without a database, the one in --mysql_url');
      t.strictSame(await bench.rows('SELECT DATABASE()', { database: 'default' }), [[name]]);
      t.strictSame(await bench.rows('SELECT DATABASE()', { database: `${name}_other` }), [[`${name}_other`]]);
      t.strictSame(
        await bench.rows('SELECT DATABASE()'),
        [[name]],
        'the database of another statement leaves no residue',
      );
      const session = await bench.open(600, `${name}_other`);
      t.strictSame(await bench.rows('SELECT DATABASE()', session), [[`${name}_other`]]);
      for (const [database, code] of [
        [`${name}_none`, 1049],
        ['no_such_database', 1044],
        ['mysql', 1044],
      ] as const) {
        const answer = await bench.start('SELECT 1', { database }, 5);
        t.match(answer, { state: 'Failed', error: { code }, next_uri: null }, database);
        t.match((await bench.stats(answer)).error, { code });
        t.match(await bench.start('SELECT 1', { database, max_idle_time: 5 }, 5), { error: { code } });
      }
      const denied = await bench.start('SELECT 1', { database: `${name}_other` }, 5, `${name}_b`);
      t.match(denied, { state: 'Failed', error: { code: 1044 } });
      for (const odd of ['a`b', 'x'.repeat(300), '../x', 'ä', ' ', '`']) {
        const answer = await bench.start('SELECT 1', { database: odd }, 5);
        t.equal(answer.state, 'Failed', odd);
        t.ok(answer.error && answer.error.code < 2000, `${odd}: ${answer.error?.code}`);
      }
      await server.sql(`CREATE DATABASE \`${name} \`\`odd\`; GRANT ALL ON \`${name} \`\`odd\`.* TO ${name}`);
      t.teardown(() => server.sql(`DROP DATABASE \`${name} \`\`odd\``));
      t.strictSame(await bench.rows('SELECT DATABASE()', { database: `${name} \`odd` }), [[`${name} \`odd`]]);
    });

    t.test('a killed connection ends its session: 90006 for its statements, 90001 for later ones', async (t) => {
      const session = await bench.open();
      const id = (await bench.rows('SELECT CONNECTION_ID()', session))[0]?.[0];
      const running = await bench.start('SELECT SLEEP(1000)', session);
      const waiting = await bench.start('SELECT 1', session);
      await server.sql(`KILL CONNECTION ${id}`);
      t.match(await bench.follow(running), { state: 'Failed', error: { code: 90006 } });
      t.match(await bench.follow(waiting), { state: 'Failed', error: { code: 90006 } });
      t.match(await bench.start('SELECT 1', session, 5), { state: 'Failed', error: { code: 90001 } });
      t.strictSame(await bench.rows('SELECT 3'), [[3]], 'other statements continue');

      const idle = await bench.open();
      const idleId = (await bench.rows('SELECT CONNECTION_ID()', idle))[0]?.[0];
      await server.sql(`KILL CONNECTION ${idleId}`);
      await until(async () => {
        const { error } = await bench.start('SELECT 1', idle, 5);
        return error?.code === 90001;
      });
    });
  });

  t.test(`the idle time of sessions on ${kind}`, { timeout: 540_000 }, async (t) => {
    const bench = await prepare(t, server, ['--session_idle_secs_max', '2']);

    t.test('after the idle time, the connection is closed and its transaction rolled back', async (t) => {
      const session = await bench.open(1);
      const id = (await bench.rows('SELECT CONNECTION_ID()', session))[0]?.[0] as number;
      await bench.run('BEGIN', session);
      // Measured from before the last statement: when its answer arrives, the session may have been idle for a while.
      const began = performance.now();
      await bench.run('INSERT INTO t (i) VALUES (77)', session);
      await until(async () => !(await bench.connections()).includes(id));
      t.ok(performance.now() - began >= 990, 'not before the idle time has passed');
      t.strictSame(await bench.rows('SELECT COUNT(*) FROM t WHERE i = 77'), [[0]]);
      t.match(await bench.start('SELECT 1', session, 5), { error: { code: 90001 } });
      await until(() => bench.hasEnded(session, 'idle for 1 s'));
    });

    t.test('the idle time does not run while a statement runs or waits, and restarts after each', async (t) => {
      const session = await bench.open(2);
      await bench.run('SET @x = 1', session);
      const long = await bench.start('SELECT SLEEP(2.4)', session);
      const waiting = await bench.start('SELECT @x, SLEEP(0.2)', session);
      t.equal((await bench.follow(long)).state, 'Succeeded');
      t.equal((await bench.follow(waiting)).state, 'Succeeded');
      for (let times = 0; times < 3; times++) {
        await delay(800);
        t.strictSame(await bench.rows('SELECT @x', session), [[1]]);
      }
    });

    t.test('an idle time above the maximum is reduced to it', async (t) => {
      const began = performance.now();
      const session = await bench.open(1_000_000);
      await until(() => bench.hasEnded(session, 'idle for 2 s'));
      t.ok(performance.now() - began >= 1_990);
      t.match(await bench.start('SELECT 1', session, 5), { error: { code: 90001 } });
    });

    t.test('a session that is not kept ends with its statement', async (t) => {
      const { last } = await bench.run('SET @x = 1', { max_idle_time: 0 });
      t.match(await bench.start('SELECT 1', { id: last.session_id }, 5), { error: { code: 90001 } });
    });
  });

  t.test(`limits of sessions and connections on ${kind}`, { timeout: 540_000 }, async (t) => {
    const bench = await prepare(t, server, [
      ...['--sessions_max', '2', '--connections_max', '3', '--queue_wait_secs', '3', '--connection_idle_secs', '2'],
      ...['--auth_cache_secs', '600', '--connections_per_user_max', '3'],
    ]);
    const { name, sluice } = bench;

    t.test('one kept session more than allowed gets a 503', async (t) => {
      const [first] = await Promise.all([bench.open(), bench.open()]);
      const refused = await post(sluice.url, { sql: 'SELECT 1', session: { max_idle_time: 5 } }, bench.login());
      t.equal(refused.status, 503);
      t.match(refused.text, /--sessions_max/);
      t.match(refused.headers['retry-after'], /^\d+$/);
      t.strictSame(await bench.rows('SELECT 1'), [[1]], 'one-off statements still run');
      await bench.run('KILL CONNECTION_ID()', first);
      await until(async () => {
        const reply = await post(sluice.url, { sql: 'SELECT 1', session: { max_idle_time: 1 } }, bench.login());
        return reply.status === 200;
      });
      for (const id of await bench.connections()) await server.sql(`KILL CONNECTION ${id}`).catch(() => {});
      await until(async () => {
        const reply = await post(sluice.url, { sql: 'SELECT 1', session: { max_idle_time: 1 } }, bench.login());
        return reply.status === 200;
      });
      await until(async () => (await bench.connections()).length === 0);
    });

    t.test('statements without a connection wait for one, for a limited time', async (t) => {
      const running = await Promise.all([1, 2, 3].map(() => bench.start('SELECT SLEEP(1000)')));
      const waiting = bench.rows('SELECT 5');
      await until(async () => /^sluice_waiting_statements 1$/m.test((await get(sluice.url, '/metrics')).text));
      await bench.finish(running[0] as QueryResponse);
      t.strictSame(await waiting, [[5]]);
      running[0] = await bench.start('SELECT SLEEP(1000)');
      const began = performance.now();
      const late = { sql: 'SELECT 1', pagination: { wait_time_secs: 50 } };
      const answers = await Promise.all(
        [bench.login(), bench.login(`${name}_b`)].map((own) => post(sluice.url, late, own)),
      );
      const tookMs = performance.now() - began;
      for (const { json } of answers) {
        t.match(json, {
          state: 'Failed',
          error: { code: 1040, outcome: 'not_started', retryable: true },
          next_uri: null,
        });
        t.match(json.error?.message, /--queue_wait_secs/);
      }
      t.ok(tookMs >= 2_950 && tookMs < 30_000, `${Math.round(tookMs)} ms`);
      t.ok((await bench.connections()).length <= 4, 'three for statements, and one for kills');
      for (const response of running) await bench.finish(response);
      t.strictSame(await bench.rows('SELECT 6', undefined, `${name}_b`), [[6]]);
    });

    t.test('connections are reused only by their own user, and closed when idle', async (t) => {
      const own = new Set<unknown>();
      const others = new Set<unknown>();
      let lastUsed = 0;
      for (let times = 0; times < 10; times++) {
        lastUsed = performance.now();
        own.add((await bench.rows('SELECT CONNECTION_ID()'))[0]?.[0]);
        const rows = await bench.rows(
          "SELECT CONNECTION_ID(), SUBSTRING_INDEX(USER(), '@', 1)",
          undefined,
          `${name}_b`,
        );
        others.add(rows[0]?.[0]);
        t.equal(rows[0]?.[1], `${name}_b`);
      }
      // A statement may arrive before the connection of the one before it is clean.
      t.ok(own.size <= 5 && others.size <= 5, `${own.size} and ${others.size} connections`);
      t.strictSame(
        [...own].filter((id) => others.has(id)),
        [],
      );
      await until(async () => {
        const left = [...(await bench.connections()), ...(await bench.connections(`${name}_b`))];
        return left.length === 0;
      });
      const tookMs = performance.now() - lastUsed;
      t.ok(tookMs >= 1_990, `${Math.round(tookMs)} ms`);
      t.strictSame(await bench.rows('SELECT 7'), [[7]]);
    });
  });

  t.test(`the database called default on ${kind}`, { skip: !isInstalled(kind), timeout: 540_000 }, async (t) => {
    const own = await startServer(kind);
    t.teardown(() => own.stop());
    const bench = await prepare(t, own, [], '');
    t.strictSame(await bench.rows('SELECT DATABASE()'), [[null]], 'no database has that name, so none is selected');
    t.strictSame(await bench.rows('SELECT DATABASE()', { database: 'default' }), [[null]]);
    t.match(await bench.start('SELECT * FROM t', undefined, 5), { state: 'Failed', error: { code: 1046 } });

    await own.sql('CREATE DATABASE `default`');
    const { url } = bench.sluice;
    // Another user, because the connections of the first one are older than the database. The same applies below.
    const denied = bench.login(`${bench.name}_b`);
    const { rows: warnings } = await query(url, 'SHOW WARNINGS', denied);
    t.strictSame(warnings, [], 'the failed attempt leaves no warning for the first statement of a connection');
    const { rows: ofDenied } = await query(url, 'SELECT DATABASE()', denied);
    t.strictSame(ofDenied, [[null]], 'a user without privileges on it has no database selected');

    await own.sql(`CREATE USER ${bench.name}_c@'%' IDENTIFIED BY 'pw'; GRANT ALL ON \`default\`.* TO ${bench.name}_c`);
    const granted = bench.login(`${bench.name}_c`);
    t.strictSame((await query(url, 'SELECT DATABASE()', granted)).rows, [['default']]);
    const named = await query(url, 'SELECT DATABASE()', { ...granted, body: { session: { database: 'default' } } });
    t.strictSame(named.rows, [['default']]);

    const gone = await startSluice(['--mysql_url', `${own.url}${bench.name}_none`, '--drain_secs', '0']);
    t.teardown(() => gone.stop());
    const missing = await query(gone.url, 'SELECT 1', bench.login());
    t.match(missing.last, { state: 'Failed', error: { code: 1049 } }, 'the database of the URL is missing');
    const other = await query(gone.url, 'SELECT DATABASE()', {
      ...bench.login(),
      body: { session: { database: bench.name } },
    });
    t.strictSame(other.rows, [[bench.name]], 'a request that names another database succeeds');
  });
}
