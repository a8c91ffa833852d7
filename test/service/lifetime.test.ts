import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import {
  get,
  post,
  type QueryResponse,
  query,
  type Reply,
  type SluiceProcess,
  startSluice,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';

const timeoutSecs = 2;
const timeoutMs = timeoutSecs * 1_000;

interface Progress {
  readonly rows: number;
  readonly bytes: number;
}

interface Stats {
  readonly running_time_ms: number;
  readonly scan_progress: Progress;
  readonly write_progress: Progress;
  readonly result_progress: Progress;
}

/** A service on one server, with its own users and database. */
class Stage {
  readonly server: DatabaseServer;
  readonly sluice: SluiceProcess;
  readonly name = `lifetime_${randomBytes(4).toString('hex')}`;
  readonly user = this.name;
  readonly other = `${this.name}_b`;

  private constructor(server: DatabaseServer, sluice: SluiceProcess) {
    this.server = server;
    this.sluice = sluice;
  }

  static async start(server: DatabaseServer): Promise<Stage> {
    const sluice = await startSluice([
      ...['--mysql_url', server.url, '--result_timeout_secs', String(timeoutSecs)],
      ...['--statement_timeout_secs', '20', '--log_level', 'debug'],
    ]);
    const stage = new Stage(server, sluice);
    for (const user of [stage.user, stage.other]) {
      await server.sql(`CREATE USER ${user}@'%'; GRANT ALL ON ${stage.name}.* TO ${user}@'%'`);
      await server.sql(`GRANT SELECT ON performance_schema.* TO ${user}@'%'`);
    }
    await server.sql(`CREATE DATABASE ${stage.name}`);
    return stage;
  }

  async stop(): Promise<void> {
    await this.sluice.kill();
    await this.server.sql(`DROP DATABASE ${this.name}; DROP USER ${this.user}@'%', ${this.other}@'%'`);
  }

  post(sql: string, body: Readonly<Record<string, unknown>> = {}, signal?: AbortSignal): Promise<Reply> {
    // The default is a second, which may be too short on a busy machine.
    return post(
      this.sluice.url,
      { sql, pagination: { wait_time_secs: 20 }, ...body },
      { user: this.user, ...(signal && { signal }) },
    );
  }

  get(path: string, user = this.user, method = 'GET'): Promise<Reply> {
    return get(this.sluice.url, path, { user, method });
  }

  /** The number of running statements in the database that contain this text. */
  async running(text: string): Promise<number> {
    const count = await this.server.sql(
      `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${this.user}' AND INFO LIKE '%${text}%'`,
    );
    return Number(count);
  }

  /** Waits until the log has the expiry of a query. A request would count as a poll. The tombstone lives equally long. */
  async untilExpired(id: string): Promise<void> {
    const removed = new RegExp(`"query":"${id}".*"reason":"expired.*"msg":"query_removed"`);
    await until(
      () => this.sluice.log(),
      (log) => removed.test(log),
    );
  }

  /** Starts a statement that runs until it is stopped, and waits until the database has it. */
  async startEndless(): Promise<{ first: QueryResponse; mark: string }> {
    const mark = `m${randomBytes(6).toString('hex')}`;
    const { json } = await this.post(`SELECT SLEEP(600) AS ${mark}`, { pagination: { wait_time_secs: 0 } });
    await until(async () => (await this.running(mark)) === 1);
    return { first: json, mark };
  }
}

function pageUri(response: QueryResponse): string {
  return response.next_uri ?? `${response.stats_uri}/page/0`;
}

function statsOf(reply: Reply): Stats {
  return reply.json.stats as unknown as Stats;
}

// Most of the time is spent waiting for timeouts, so the tests run concurrently.
t.jobs = 2;

for (const server of await sharedServers()) {
  t.test(`on ${server.kind}`, async (t) => {
    const stage = await Stage.start(server);
    t.teardown(() => stage.stop());
    t.jobs = 6;
    const expiredText = (id: string): string => `query ${id} expired: not polled for ${timeoutSecs} s`;

    t.test('a result that nobody polls expires, and a late poll reports why', async (t) => {
      const began = performance.now();
      const { json } = await stage.post('SELECT 1');
      t.strictSame(json.data, [[1]]);
      let late: Reply | undefined;
      await stage.untilExpired(json.id);
      for (const path of [json.stats_uri, `${json.stats_uri}/page/0`, `${json.stats_uri}/page/9`]) {
        late = await stage.get(path);
        t.equal(late.status, 404);
        t.equal(late.text, expiredText(json.id));
        t.match(late.headers['content-type'], 'text/plain; charset=utf-8');
      }
      t.equal((await stage.get(`${json.stats_uri}/kill`)).text, expiredText(json.id), 'it cannot be cancelled');
      t.equal(
        (await stage.get(json.stats_uri, stage.other)).text,
        `no query ${json.id}`,
        'another user does not see the reason',
      );
      t.equal((await stage.get(json.final_uri, stage.other)).status, 404);
      t.equal((await stage.get(json.final_uri)).status, 200, 'it can be finished');
      t.equal((await stage.get(json.final_uri)).text, '');

      await until(async () => (await stage.get(json.stats_uri)).text === `no query ${json.id}`);
      const forgottenMs = performance.now() - began;
      t.ok(forgottenMs >= 2 * timeoutMs - 10, `the id was forgotten after ${forgottenMs} ms`);
      t.equal((await stage.get(json.final_uri)).status, 404);
    });

    t.test('E (result_timeout_secs): a request may ask for more or less time than the default', async (t) => {
      const longer = (await stage.post('SELECT 1', { result_timeout_secs: 60 })).json;
      const shorter = (await stage.post('SELECT 1', { result_timeout_secs: 1 })).json;
      const usual = (await stage.post('SELECT 1')).json;
      await stage.untilExpired(shorter.id);
      t.equal((await stage.get(shorter.stats_uri)).text, `query ${shorter.id} expired: not polled for 1 s`);
      await stage.untilExpired(usual.id);
      t.equal((await stage.get(longer.stats_uri)).status, 200);
      const refused = await stage.post('SELECT 1', { result_timeout_secs: 3_601 });
      t.strictSame(
        [refused.status, refused.text.trim()],
        [400, '"result_timeout_secs" is 3601; it must be from 1 to 3600'],
      );
    });

    t.test('every answer restarts the timeout', async (t) => {
      const { json } = await stage.post('SELECT 1');
      // Together the pauses exceed the timeout. Each leaves most of it as tolerance for a busy machine.
      const restMs = 0.3 * timeoutMs;
      for (let look = 1; look <= 4; look++) {
        await sleep(restMs);
        const path = look % 2 === 0 ? `${json.stats_uri}/page/0` : json.stats_uri;
        t.equal((await stage.get(path)).status, 200, `after ${look * restMs} ms`);
      }
    });

    t.test('the timeout does not run while a poll waits', async (t) => {
      const secs = (timeoutMs / 1_000) * 2;
      const reply = await stage.post(`SELECT SLEEP(${secs})`, { pagination: { wait_time_secs: 20 } });
      t.strictSame(reply.json.data, [[0]]);
      t.equal((await stage.get(reply.json.stats_uri)).status, 200);
    });

    t.test('a statement whose result expires is stopped in the database', async (t) => {
      const { first, mark } = await stage.startEndless();
      await until(async () => (await stage.running(mark)) === 0);
      t.equal((await stage.get(pageUri(first))).text, expiredText(first.id));
    });

    t.test('finishing a query removes it and stops its statement, and finishing it again is no error', async (t) => {
      const { first, mark } = await stage.startEndless();
      const final = await stage.get(first.final_uri);
      t.equal(final.status, 200);
      t.equal(final.text, '');
      await until(async () => (await stage.running(mark)) === 0);
      for (const path of [first.stats_uri, pageUri(first), `${first.stats_uri}/kill`]) {
        const late = await stage.get(path);
        t.equal(late.status, 404);
        t.equal(late.text, `query ${first.id} was finished by the client`);
      }
      for (const method of ['GET', 'POST']) {
        const again = await stage.get(first.final_uri, stage.user, method);
        t.equal(again.status, 200, `${method} again`);
        t.equal(again.text, '');
      }
    });

    t.test('a query does not exist for another user', async (t) => {
      const { first, mark } = await stage.startEndless();
      for (const path of [first.stats_uri, pageUri(first), first.final_uri, `${first.stats_uri}/kill`]) {
        const reply = await stage.get(path, stage.other);
        t.equal(reply.status, 404, path);
        t.equal(reply.text, `no query ${first.id}`);
      }
      t.equal(await stage.running(mark), 1, 'another user cannot stop it');
      t.equal((await stage.get(first.stats_uri)).json.state, 'Running');
      await stage.get(first.final_uri);
      t.equal((await stage.get(first.stats_uri, stage.other)).text, `no query ${first.id}`);
    });

    t.test('a killed query keeps its record until it expires', async (t) => {
      const { first, mark } = await stage.startEndless();
      for (const method of ['GET', 'POST']) {
        const kill = await stage.get(`${first.stats_uri}/kill`, stage.user, method);
        t.equal(kill.status, 200);
        t.equal(kill.text, '');
      }
      for (const path of [first.stats_uri, pageUri(first), pageUri(first)]) {
        const reply = await stage.get(path);
        t.equal(reply.status, 200);
        t.match(reply.json, { state: 'Failed', error: { code: 90002, stats: 90002 }, data: [], next_uri: null });
      }
      await until(async () => (await stage.running(mark)) === 0);
      await stage.untilExpired(first.id);
      t.equal((await stage.get(first.stats_uri)).text, expiredText(first.id));
    });

    t.test('a waiting poll is answered when its query is killed or finished', async (t) => {
      const stop = async (verb: string, pauseMs = 200): Promise<void> => {
        const { json } = await stage.post('SELECT SLEEP(600)', {
          pagination: { wait_time_secs: 3 },
        });
        t.equal(json.state, 'Running');
        const poll = stage.get(pageUri(json));
        await sleep(pauseMs);
        t.equal((await stage.get(`${json.stats_uri}/${verb}`)).status, 200);
        const answer = await poll;
        // The poll was sent first, on another connection. On a busy machine it may arrive after the removal.
        if (answer.status === 404 && pauseMs < 2_000) return stop(verb, 3 * pauseMs);
        t.match(answer.json, { state: 'Failed', error: { code: 90002 }, data: [], next_uri: null }, verb);
      };
      await Promise.all(['kill', 'kill?delete=true'].map((verb) => stop(verb)));
    });

    t.test('a client that disconnects before the first answer ends its statement', async (t) => {
      const mark = `m${randomBytes(6).toString('hex')}`;
      const client = new AbortController();
      const reply = stage.post(`SELECT SLEEP(600) AS ${mark}`, { pagination: { wait_time_secs: 15 } }, client.signal);
      await until(async () => (await stage.running(mark)) === 1);
      client.abort();
      await t.rejects(reply);
      await until(async () => (await stage.running(mark)) === 0);
    });

    t.test('a client that disconnects later may return', async (t) => {
      const { first, mark } = await stage.startEndless();
      const client = new AbortController();
      const gone = get(stage.sluice.url, pageUri(first), { user: stage.user, signal: client.signal });
      client.abort();
      await t.rejects(gone);
      t.equal((await stage.get(pageUri(first))).json.state, 'Running');
      t.equal(await stage.running(mark), 1);
      await stage.get(first.final_uri);
    });

    t.test('the statistics are returned at once, without rows', async (t) => {
      // The polls of this query wait for 20 s, and its first row is available at once.
      const sql = `SELECT SLEEP(IF(d = 9, 600, 0)), REPEAT('x', 40000) FROM ${digits('a')}`;
      const first = (await stage.post(sql, { pagination: { wait_time_secs: 20, max_rows_per_page: 1 } })).json;
      const asked = performance.now();
      const reply = await stage.get(first.stats_uri);
      // Usually takes some milliseconds.
      t.ok(performance.now() - asked < 15_000, 'no long-poll');
      t.equal(reply.status, 200);
      t.match(reply.json, { id: first.id, state: 'Running', data: [], error: null });
      const head = await stage.get(first.stats_uri, stage.user, 'HEAD');
      t.equal(head.status, 200);
      t.equal(head.text, '');
      t.ok(Number(head.headers['content-length']) > 100, 'the length is that of the answer to GET');
      t.equal((await stage.get(first.final_uri, stage.user, 'HEAD')).status, 405);
      t.equal((await stage.get(pageUri(first), stage.user, 'HEAD')).status, 405);
      t.equal((await stage.get(first.stats_uri)).json.state, 'Running', 'HEAD does not finish the query');
      await stage.get(first.final_uri);

      const done = await stage.post('SELECT 1 UNION SELECT 2');
      const stats = await stage.get(done.json.stats_uri);
      t.match(stats.json, { state: 'Succeeded', data: [], next_uri: null, schema: done.json.schema });
      t.strictSame(stats.json.stats, done.json.stats);
    });

    t.test('a query that failed before it started can be polled and finished', async (t) => {
      const { json } = await stage.post('SELECT 1', { session: { id: 'none' } });
      t.match(json, { state: 'Failed', error: { code: 90001 }, data: [], next_uri: null });
      t.match((await stage.get(json.stats_uri)).json, { state: 'Failed', error: { code: 90001 } });
      t.equal((await stage.get(json.final_uri)).status, 200);
      const syntax = await stage.post('SELEC 1');
      t.match(syntax.json, { state: 'Failed', error: { code: 1064, sqlstate: '42000' }, next_uri: null });
      t.match((await stage.get(syntax.json.stats_uri)).json, { error: { code: 1064 } });
      t.equal((await stage.get(syntax.json.final_uri)).status, 200);
    });

    t.test('the running time increases while a statement runs, and then stays', async (t) => {
      const { json } = await stage.post('SELECT SLEEP(1)', { pagination: { wait_time_secs: 0 } });
      t.equal(json.state, 'Running');
      const times: number[] = [];
      let reply = await stage.get(json.stats_uri);
      for (; reply.json.state === 'Running'; reply = await stage.get(json.stats_uri)) {
        times.push(statsOf(reply).running_time_ms);
        await sleep(50);
      }
      t.ok(times.length >= 3, `${times.length} samples`);
      t.ok(
        times.every((time, index) => index === 0 || time > (times[index - 1] as number)),
        times.join(' '),
      );
      const last = statsOf(reply).running_time_ms;
      t.ok(last >= 990 && last < 15_000, `${last} ms`);
      await sleep(100);
      t.equal(statsOf(await stage.get(json.stats_uri)).running_time_ms, last);
      t.equal(statsOf(await stage.get(pageUri(json))).running_time_ms, last);
    });

    t.test('the scan progress is the count of the database while a statement runs', async (t) => {
      await stage.server.sql(
        `CREATE TABLE counted (id INT PRIMARY KEY, n INT); INSERT INTO counted
         SELECT a.d + 10 * b.d + 100 * c.d, 0 FROM ${digits('a')}, ${digits('b')}, ${digits('c')}`,
        { database: stage.name },
      );
      // Each row takes some milliseconds. MariaDB reports its count during this UPDATE, MySQL during this SELECT.
      const sql =
        server.kind === 'mariadb'
          ? 'UPDATE counted SET n = n + 1 + SLEEP(0.004)'
          : 'SELECT SUM(SLEEP(0.004)) FROM counted';
      const counts: number[] = [];
      const session = { database: stage.name };
      let reply = await stage.post(sql, { session, pagination: { wait_time_secs: 1 } });
      while (reply.json.next_uri !== null) {
        counts.push(statsOf(reply).scan_progress.rows);
        t.equal(statsOf(reply).write_progress.rows, 0);
        reply = await stage.get(reply.json.next_uri);
      }
      t.equal(reply.json.state, 'Succeeded', reply.text);
      const between = new Set(counts.filter((count) => count > 0));
      t.ok(between.size >= 2, `it increases: ${counts.join(' ')}`);
      t.strictSame(
        counts,
        [...counts].sort((a, b) => a - b),
        'it never decreases',
      );
      t.equal(statsOf(reply).write_progress.rows, server.kind === 'mariadb' ? 1_000 : 0);
    });

    t.test('the result progress counts all received rows and bytes, read or not', async (t) => {
      // A thousand rows of 1,000 characters with brackets. Ten of them fit into the first page.
      const sql = `SELECT REPEAT('x', 996) FROM ${digits('a')}, ${digits('b')}, ${digits('c')}`;
      const first = await stage.post(sql, { pagination: { max_rows_per_page: 10, wait_time_secs: 10 } });
      t.equal(first.json.data.length, 10);
      await until(async () => (await stage.get(first.json.stats_uri)).json.state === 'Succeeded');
      const progress = statsOf(await stage.get(first.json.stats_uri)).result_progress;
      t.equal(progress.rows, 1_000);
      t.ok(progress.bytes >= 1_000_000 - 1 && progress.bytes <= 1_000_000 + 1_000, `${progress.bytes} bytes`);
      t.strictSame(Object.keys(progress).sort(), ['bytes', 'read_bytes', 'read_rows', 'rows']);
      await stage.get(first.json.final_uri);
    });

    t.test('the write progress and the affected rows are those of the database', async (t) => {
      const session = { database: stage.name };
      await query(stage.sluice.url, 'CREATE TABLE written (id INT AUTO_INCREMENT PRIMARY KEY)', {
        user: stage.user,
        body: { session },
      });
      const { json } = await stage.post('INSERT INTO written VALUES (NULL), (NULL), (NULL)', { session });
      t.match(json, { affected_rows: 3, last_insert_id: 1, stats: { write_progress: { rows: 3, read_rows: 3 } } });
    });

    t.end();
  });

  t.test(`on ${server.kind}, a statement that exceeds its time limit is cancelled with 90005`, async (t) => {
    const sluice = await startSluice(['--mysql_url', server.url, '--statement_timeout_secs', '1']);
    t.teardown(() => sluice.kill());
    const mark = `m${randomBytes(6).toString('hex')}`;
    const started = performance.now();
    const { json } = await post(sluice.url, {
      sql: `SELECT SLEEP(600) AS ${mark}`,
      pagination: { wait_time_secs: 30 },
    });
    const tookMs = performance.now() - started;
    t.match(json, { state: 'Failed', error: { code: 90005, sqlstate: 'HY000' }, data: [], next_uri: null });
    t.equal(json.error?.message, 'the statement ran past 1 s (--statement_timeout_secs) and was cancelled');
    t.ok(tookMs >= 990 && tookMs < 10_000, `${tookMs} ms`);
    await until(async () => {
      const sql = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(600) AS ${mark}%'`;
      return (await server.sql(sql)) === '0';
    });
  });
}

/** A derived table of that name, with the ten digits as rows. */
function digits(name: string): string {
  const rows = Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`);
  return `(${rows.join(' UNION ALL ')}) ${name}`;
}
