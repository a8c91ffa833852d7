import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { pick, seeded } from '../support/random.ts';
import { type DatabaseServer, isInstalled, sharedServers, startServer } from '../support/servers.ts';
import { follow, get, post, type QueryResponse, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

const killCountMax = figure(100, 1_000);
/** Concurrent killers, each with a statement of its own. */
const killers = 20;
/**
 * How long a statement may stay in the process list after its kill: ten times the documented limit, to tolerate a busy
 * machine.
 */
const stopMsMax = 10_000;

/** A user, a database and a service of one test. */
interface Bench {
  readonly server: DatabaseServer;
  readonly sluice: SluiceProcess;
  readonly user: string;
  readonly database: string;
}

async function prepare(t: Test, server: DatabaseServer, args: readonly string[] = []): Promise<Bench> {
  const unique = `cancel_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  await server.sql(
    `CREATE DATABASE ${unique}; CREATE USER ${unique}@'%' IDENTIFIED BY 'pw';` +
      `GRANT ALL ON ${unique}.* TO ${unique}@'%'; USE ${unique};` +
      'CREATE TABLE n (i INT PRIMARY KEY, v INT, filler CHAR(100) NOT NULL);' +
      `SET SESSION ${server.kind === 'mysql' ? 'cte_max_recursion_depth' : 'max_recursive_iterations'} = 100000;` +
      "INSERT INTO n WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < 20000) SELECT i, 0, 'x' FROM c",
  );
  const sluice = await startSluice([
    ...['--mysql_url', `${server.url}${unique}`, '--log_level', 'debug', '--drain_secs', '0'],
    ...args,
  ]);
  t.teardown(async () => {
    await sluice.stop();
    await server.sql(`DROP USER ${unique}; DROP DATABASE ${unique}`);
  });
  return { server, sluice, user: unique, database: unique };
}

/** The statements of the user that the database is running. */
async function statementsOf({ server, user }: Bench): Promise<string[]> {
  const rows = await server.sql(
    `SELECT CONCAT(ID, ' ', COMMAND, ' ', COALESCE(INFO, '')) FROM information_schema.PROCESSLIST
     WHERE USER = '${user}' AND COMMAND NOT IN ('Sleep', 'Connect')`,
  );
  return rows === '' ? [] : rows.split('\n');
}

/** Waits until the check holds for the user's statements, and returns how long that took, in milliseconds. */
async function untilStatements(bench: Bench, check: (statements: string[]) => boolean): Promise<number> {
  const began = performance.now();
  await until(() => statementsOf(bench), check);
  return performance.now() - began;
}

const empty = (statements: string[]): boolean => statements.length === 0;

function says(text: string): (statements: string[]) => boolean {
  return (statements) => statements.some((statement) => statement.includes(text));
}

class Client {
  readonly #bench: Bench;

  constructor(bench: Bench) {
    this.#bench = bench;
  }

  get login(): { user: string; password: string } {
    return { user: this.#bench.user, password: 'pw' };
  }

  /** Posts a statement, and returns page 0, whether or not the statement has ended. */
  async start(sql: string, session?: object, waitSecs = 0): Promise<QueryResponse> {
    const body = { sql, pagination: { wait_time_secs: waitSecs }, ...(session && { session }) };
    const reply = await post(this.#bench.sluice.url, body, this.login);
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    return reply.json;
  }

  /** Runs a statement to its end. @returns the last answer and all rows */
  async run(sql: string, session?: object): Promise<{ last: QueryResponse; rows: readonly (readonly unknown[])[] }> {
    const options = { ...this.login, body: { pagination: { wait_time_secs: 5 }, ...(session && { session }) } };
    return query(this.#bench.sluice.url, sql, options);
  }

  async get(path: string): Promise<{ status: number; text: string }> {
    return get(this.#bench.sluice.url, path, this.login);
  }

  kill(id: string): Promise<{ status: number; text: string }> {
    return this.get(`/v1/query/${id}/kill`);
  }

  async stats(response: QueryResponse): Promise<QueryResponse> {
    return (await get(this.#bench.sluice.url, response.stats_uri, this.login)).json;
  }

  async openSession(): Promise<{ id: string }> {
    const { last } = await this.run('SELECT 1', { max_idle_time: 600 });
    return { id: last.session_id };
  }
}

const heavySelect = 'SELECT COUNT(*) FROM n a, n b, n c WHERE a.i + b.i + c.i = -1';
const bigResult = 'SELECT a.i, b.i, a.filler FROM n a, n b';

for (const server of await sharedServers()) {
  t.test(`on ${server.kind}`, async (t) => {
    const bench = await prepare(t, server, [
      ...['--page_bytes_max', '262144', '--query_buffer_bytes_max', '1048576', '--kill_timeout_secs', '30'],
    ]);
    const client = new Client(bench);

    t.test('kill and final stop any kind of statement within a second', async (t) => {
      const victims: [string, string][] = [
        ['a sleep', 'SELECT SLEEP(1000)'],
        ['a CPU-bound statement', heavySelect],
        ['a result that nobody reads', bigResult],
        ['a change', 'UPDATE n SET v = v + SLEEP(1)'],
      ];
      for (const [what, sql] of victims) {
        for (const how of ['kill', 'final'] as const) {
          const started = await client.start(sql);
          t.equal(started.state, 'Running', what);
          await untilStatements(bench, says(sql));
          const reply = await client.get(how === 'kill' ? `/v1/query/${started.id}/kill` : started.final_uri);
          t.strictSame([reply.status, reply.text], [200, '']);
          const tookMs = await untilStatements(bench, empty);
          t.ok(tookMs < stopMsMax, `${how} stops ${what}: ${Math.round(tookMs)} ms`);
          const after = await client.get(started.stats_uri);
          if (how === 'final') t.match(after, { status: 404, text: /was finished by the client/ });
          else t.match(JSON.parse(after.text), { state: 'Failed', error: { code: 90002 }, data: [], next_uri: null });
        }
      }
    });

    t.test('a statement that waits for a row lock is stopped, and does not change the row', async (t) => {
      const [holder, waiter] = [await client.openSession(), await client.openSession()];
      await client.run('BEGIN', holder);
      await client.run('UPDATE n SET v = 1 WHERE i = 7', holder);
      await client.run('BEGIN', waiter);
      const sql = 'UPDATE n SET v = 2 WHERE i = 7';
      const blocked = await client.start(sql, waiter);
      await untilStatements(bench, says(sql));
      await client.kill(blocked.id);
      const tookMs = await untilStatements(bench, empty);
      t.ok(tookMs < stopMsMax, `${Math.round(tookMs)} ms`);
      await client.run('COMMIT', holder);
      await client.run('COMMIT', waiter);
      t.strictSame((await client.run('SELECT v FROM n WHERE i = 7')).rows, [[1]]);
    });

    t.test('a killed statement that waits in its session is never sent', async (t) => {
      const session = await client.openSession();
      const running = await client.start('SELECT SLEEP(1000)', session);
      const waiting = await client.start('UPDATE n SET v = 99 WHERE i = 8', session);
      t.equal(waiting.state, 'Running');
      t.equal((await client.kill(waiting.id)).status, 200);
      t.match(await client.stats(waiting), { state: 'Failed', error: { code: 90002 }, stats: { running_time_ms: 0 } });
      t.match(await client.stats(running), { state: 'Running' }, 'the statement before it continues');
      await client.kill(running.id);
      t.strictSame((await client.run('SELECT v FROM n WHERE i = 8', session)).rows, [[0]]);
    });

    t.test('killed statements do not count as unread', async (t) => {
      const { sluice, user } = await prepare(t, server, ['--unread_per_user_max', '2']);
      const login = { user, password: 'pw' };
      for (let round = 0; round < 4; round++) {
        const reply = await post(sluice.url, { sql: 'SELECT SLEEP(60)', pagination: { wait_time_secs: 0 } }, login);
        t.equal(reply.status, 200, reply.text.slice(0, 200));
        t.equal((await get(sluice.url, reply.json.kill_uri, login)).status, 200);
        t.equal((await get(sluice.url, reply.json.stats_uri, login)).json.error?.code, 90002, 'the record is kept');
      }
    });

    t.test('the kill of a statement that has ended does nothing', async (t) => {
      const { last } = await client.run('SELECT 42');
      t.equal((await client.get(last.final_uri)).status, 200, 'a repeated final');
      const done = await client.start('SELECT 42', undefined, 5);
      t.equal((await client.kill(done.id)).status, 200);
      t.equal((await client.kill(done.id)).status, 200);
      t.match(await client.stats(done), { state: 'Succeeded', error: null });
      const failed = await client.start('SELECT nonsense', undefined, 5);
      t.equal((await client.kill(failed.id)).status, 200);
      t.match(await client.stats(failed), { state: 'Failed', error: { code: 1054 } });
      const killed = await client.start('SELECT SLEEP(1000)');
      t.equal((await client.kill(killed.id)).status, 200);
      t.equal((await client.kill(killed.id)).status, 200);
      t.equal((await client.kill('0'.repeat(38))).status, 404);
    });

    t.test('a kept session continues after the kill of its statement', async (t) => {
      const session = await client.openSession();
      await client.run('SET @x = 5', session);
      await client.run('CREATE TEMPORARY TABLE kept (a INT)', session);
      await client.run('BEGIN', session);
      await client.run('INSERT INTO kept VALUES (1), (2)', session);
      await client.run('UPDATE n SET v = 77 WHERE i = 9', session);
      const { rows } = await client.run('SELECT CONNECTION_ID()', session);
      for (const sql of ['SELECT SLEEP(1000)', heavySelect, bigResult, 'UPDATE n SET v = SLEEP(1) WHERE i > 9']) {
        const victim = await client.start(sql, session);
        await untilStatements(bench, says(sql));
        await client.kill(victim.id);
        const state = 'SELECT @x, (SELECT COUNT(*) FROM kept), (SELECT v FROM n WHERE i = 9), CONNECTION_ID()';
        t.strictSame((await client.run(state, session)).rows, [[5, 2, 77, rows[0]?.[0]]], sql);
      }
      t.strictSame((await client.run('SELECT v FROM n WHERE i = 9')).rows, [[0]], 'the transaction is still open');
      await client.run('ROLLBACK', session);
      t.strictSame((await client.run('SELECT v FROM n WHERE i = 9', session)).rows, [[0]]);
    });

    t.test(
      `${killCountMax} kills at random moments hit their statements and no others`,
      { timeout: 540_000 },
      async (t) => {
        const random = seeded(t);
        const began = performance.now();
        let kills = 0;
        let working = killers;
        const hit: string[] = [];
        const wrong: string[] = [];

        /** Kills one statement after another, and checks that its session, if any, continues. */
        const killer = async (number: number): Promise<void> => {
          const session = number % 2 === 0 ? await client.openSession() : undefined;
          if (session !== undefined) await client.run(`SET @mine = ${number}`, session);
          while (kills < killCountMax) {
            kills++;
            const victims = [
              'SELECT SLEEP(1000)',
              heavySelect,
              bigResult,
              `UPDATE n SET v = v + SLEEP(1) WHERE i BETWEEN ${number * 100 + 100} AND ${number * 100 + 199}`,
              'SELECT 1',
            ];
            const sql = pick(random, victims);
            const moment = random(100);
            const isFinal = random(2) === 0;
            const started = client.start(sql, session);
            const { id, final_uri } = await started;
            // One more in the session's queue, which is killed before it is sent.
            const queued =
              session !== undefined && random(10) < 3 ? await client.start('SELECT SLEEP(1000)', session) : null;
            await delay(moment);
            if (queued !== null) await client.kill(queued.id);
            const reply = await client.get(isFinal ? final_uri : `/v1/query/${id}/kill`);
            if (reply.status !== 200) wrong.push(`${reply.status} ${reply.text}`);
            if (session === undefined) continue;
            const { last, rows } = await client.run(`SELECT @mine, ${kills}`, session);
            if (last.state !== 'Succeeded' || rows[0]?.[0] !== number)
              hit.push(`in a session: ${JSON.stringify(last.error)}`);
          }
        };

        let innocent = 0;
        const bystander = async (): Promise<void> => {
          const session = random(2) === 0 ? await client.openSession() : undefined;
          while (working > 0 || innocent <= figure(20, 50)) {
            const value = random(1e9);
            const { last, rows } = await client.run(`SELECT ${value}, SLEEP(${random(51) / 1_000})`, session);
            innocent++;
            if (last.state !== 'Succeeded' || rows[0]?.[0] !== value || rows[0]?.[1] !== 0) {
              hit.push(`a bystander: ${JSON.stringify(last.error)} ${JSON.stringify(rows)}`);
            }
          }
        };

        const work = Array.from({ length: killers }, (_, number) =>
          killer(number).finally(() => {
            working--;
          }),
        );
        await Promise.all([...work, bystander(), bystander(), bystander(), bystander()]);
        const tookSecs = ((performance.now() - began) / 1_000).toFixed(1);
        t.comment(`${kills} kills among ${innocent} other statements in ${tookSecs} s`);
        const cleanMs = await untilStatements(bench, empty);
        t.comment(`the process list is clean after ${Math.round(cleanMs)} ms`);
        t.strictSame(wrong, []);
        t.strictSame(hit, [], 'no other statement was hit');
        t.ok(kills >= killCountMax);
        t.strictSame(
          (await client.run('SELECT COUNT(*) FROM n WHERE v <> 0 AND i > 99')).rows,
          [[0]],
          'no change was committed',
        );
        t.notMatch(bench.sluice.log(), /connection_lost/, 'every connection survived');
      },
    );
  });

  const { kind } = server;
  t.test(
    `if ${kind} is paused and does not end a killed statement, the connection is closed`,
    { skip: !isInstalled(kind) },
    async (t) => {
      const own = await startServer(kind);
      t.teardown(() => own.stop());
      const bench = await prepare(t, own, ['--kill_timeout_secs', '1', '--connect_timeout_secs', '3']);
      const client = new Client(bench);
      const session = await client.openSession();
      const victim = await client.start('SELECT SLEEP(1000)', session);
      const waiting = await client.start('SELECT 2', session);
      await untilStatements(bench, says('SLEEP'));

      await own.pause();
      const killed = performance.now();
      t.equal((await client.kill(victim.id)).status, 200, 'a kill does not wait for the database');
      t.match(await client.stats(victim), { state: 'Failed', error: { code: 90002 } });
      const last = await follow(bench.sluice.url, waiting, client.login);
      const tookMs = performance.now() - killed;
      t.match(last, { state: 'Failed', error: { code: 90006, message: /did not end within 4000 ms/ } });
      t.ok(tookMs >= 3_950 && tookMs < 40_000, `${Math.round(tookMs)} ms`);
      t.match(await client.start('SELECT 3', session, 5), { state: 'Failed', error: { code: 90001 } });

      own.resume();
      await untilStatements(bench, empty);
      t.strictSame((await client.run('SELECT 4')).rows, [[4]], 'the service continues with the database');
      const again = await client.start('SELECT SLEEP(1000)');
      await untilStatements(bench, says('SLEEP'));
      await client.kill(again.id);
      await untilStatements(bench, empty);
      t.pass('statements can still be killed');
    },
  );
}
