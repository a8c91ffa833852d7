import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { figure, measured, testMsMax } from '../support/form.ts';
import { generator, pick, type Random, seedOf } from '../support/random.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import {
  follow,
  get,
  post,
  type QueryResponse,
  query,
  type Reply,
  type SluiceProcess,
  startSluice,
} from '../support/sluice.ts';

/*
 * Several users at once, on a few connections, who run statements and keep sessions, and at every step try what belongs to
 * another: queries, pages, sessions, and whatever a connection could have kept of whoever had it before. Nobody may see
 * anything of it, not even that it is there: the answer is that for an id that never was.
 */

/** With either number of connections. */
const statementCount = figure(300, 5_000);
const userCount = 4;
const lanesPerUser = 3;
/** With fewer connections than clients each is closed for the next user; with more, each serves one user again and again. */
const connectionsMaxima = [10, 18];
const tableRows = 500;
/** What another's query could be asked for, and how. */
const attempts: readonly (readonly [string, string])[] = [
  ['GET', ''],
  ['HEAD', ''],
  ['GET', '/page/0'],
  ['GET', '/page/1'],
  ['GET', '/page/999'],
  ['GET', '/kill'],
  ['POST', '/kill'],
  ['GET', '/kill?delete=true'],
  ['POST', '/kill?delete=true'],
];

/** Somebody's query that is there to be tried. */
interface Known {
  readonly owner: string;
  readonly answer: QueryResponse;
}

/** A user, with what is known to be theirs alone. */
interface Person {
  readonly user: string;
  readonly secret: string;
  /** A kept session. */
  readonly session: string;
}

for (const server of await sharedServers()) {
  for (const connectionsMax of connectionsMaxima) {
    t.test(`on ${server.kind}, with ${connectionsMax} connections`, { timeout: testMsMax }, async (t) => {
      const seed = seedOf(t);
      const { sluice, people } = await startPlace(t, server, connectionsMax);
      const run = new Run(sluice, people);
      const beganMs = performance.now();
      let number = 0;
      const lane = async (person: Person): Promise<void> => {
        // Each step draws from a generator of its own, though nobody can say in which order the steps of all lanes come.
        // What is tried is drawn: it goes on until all of it was.
        const isEnough = (): boolean =>
          run.statements >= statementCount &&
          (Object.values(run.counts).every((count) => count > 0) || run.statements >= 4 * statementCount);
        while (!isEnough()) await run.step(person, generator(seed, number++));
      };
      await Promise.all(people.flatMap((person) => Array.from({ length: lanesPerUser }, () => lane(person))));
      const tookSecs = (performance.now() - beganMs) / 1_000;
      t.strictSame(run.wrong.slice(0, 5), [], `${run.wrong.length} times somebody saw something of another`);
      for (const [what, count] of Object.entries(run.counts)) t.ok(count > 0, `${what}: ${count} times`);
      t.notMatch(sluice.log(), /"level":50/, 'the log has no defect');
      measured(
        t,
        `${run.statements} statements of ${userCount} users on ${connectionsMax} connections in ${tookSecs.toFixed(0)} s, ` +
          `${run.counts.queries} tries at another's query, ${run.counts.sessions} at another's session, ` +
          `${run.counts.traces} looks for traces: ${run.wrong.length} saw anything`,
      );
    });
  }
}

class Run {
  readonly wrong: string[] = [];
  readonly counts = { queries: 0, sessions: 0, traces: 0, own: 0, progress: 0 };
  statements = 0;
  readonly #sluice: SluiceProcess;
  readonly #people: readonly Person[];
  /** The latest queries, some of them still running, some read, some gone by now. */
  readonly #known: Known[] = [];

  constructor(sluice: SluiceProcess, people: readonly Person[]) {
    this.#sluice = sluice;
    this.#people = people;
  }

  async step(person: Person, random: Random): Promise<void> {
    const leave = () => this.#leave(person, random);
    const look = () => this.#look(person, random);
    const read = () => this.#read(person, random);
    const tryQuery = () => this.#tryQuery(person, random);
    const trySession = () => this.#trySession(person, random);
    const watch = () => this.#watch(person, random);
    const often = [leave, leave, look, look, read, tryQuery, tryQuery, trySession];
    await pick(random, [...often, ...often, watch])();
  }

  /** Leaves something on a connection, or in a session. */
  async #leave(person: Person, random: Random): Promise<void> {
    const { secret } = person;
    const sql = pick(random, [
      `SET @mine = '${secret}', @shared = '${secret}'`,
      `CREATE TEMPORARY TABLE IF NOT EXISTS shared_name AS SELECT '${secret}' AS word`,
      `SELECT LAST_INSERT_ID(${100_000 + random(1_000)})`,
      `USE ${person.user}`,
      'SET SESSION sql_select_limit = 1',
      `SELECT '${secret}' INTO @shared`,
      `SELECT GET_LOCK('${secret}', 0)`,
      'BEGIN',
      "SELECT CAST('x' AS SIGNED)",
      `PREPARE shared_statement FROM 'SELECT ''${secret}'''`,
    ]);
    const reply = await this.#run(person, sql, random(2) === 0 ? { id: person.session } : undefined);
    this.#remember(person, reply.json);
  }

  /** Looks for what another may have left on the connection. */
  async #look(person: Person, random: Random): Promise<void> {
    this.counts.traces++;
    const [sql, expected] = pick(random, [
      ['SELECT @mine, @shared', [[null, null]]],
      ['SELECT * FROM shared_name', null],
      ['SELECT LAST_INSERT_ID()', [[0]]],
      ['SELECT DATABASE()', [[null]]],
      ['EXECUTE shared_statement', null],
      ['SHOW WARNINGS', []],
      ['SELECT CURRENT_USER()', [[`${person.user}@%`]]],
      ['SELECT 1 UNION ALL SELECT 2', [[1], [2]]],
      ["SELECT DISTINCT USER FROM information_schema.PROCESSLIST WHERE USER LIKE 'two\\_%'", [[person.user]]],
      [`SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE 'two\\_%'`, [[1]]],
    ] as const);
    const { json } = await this.#run(person, sql);
    const isRight =
      expected === null ? json.state === 'Failed' : JSON.stringify(json.data) === JSON.stringify(expected);
    if (!isRight) this.wrong.push(`${sql} of ${person.user}: ${JSON.stringify([json.data, json.error])}`);
    this.#check(person, JSON.stringify(json));
  }

  /** Reads one's own, in pages, in the meantime of all the others. */
  async #read(person: Person, random: Random): Promise<void> {
    this.counts.own++;
    const body = {
      pagination: { max_rows_per_page: 1 + random(tableRows), wait_time_secs: 5 },
      ...(random(3) === 0 && { session: { id: person.session } }),
    };
    this.statements++;
    const sql = `SELECT word FROM ${person.user}.words ORDER BY i LIMIT ${50 + random(50)}`;
    const { last, pages, rows } = await query(this.#sluice.url, sql, {
      user: person.user,
      body,
      finish: random(2) === 0,
    });
    this.#remember(person, last);
    if (last.state !== 'Succeeded' || rows.some(([word]) => word !== person.secret)) {
      this.wrong.push(`${sql}: ${JSON.stringify(last.error)} ${JSON.stringify(rows.slice(0, 3))}`);
    }
    for (const { text } of pages) this.#check(person, text);
  }

  /** Watches the progress of a statement that examines few rows, beside others' that examine many. */
  async #watch(person: Person, random: Random): Promise<void> {
    this.counts.progress++;
    const isLarge = random(2) === 0;
    const sql = isLarge
      ? `SELECT COUNT(*), SLEEP(0.4) FROM ${person.user}.words a, ${person.user}.words b`
      : 'SELECT SLEEP(0.4)';
    const first = await this.#run(person, sql, undefined, 1);
    this.#remember(person, first.json);
    const last = await follow(this.#sluice.url, first.json, { user: person.user });
    const { scan_progress } = last.stats as { scan_progress: { rows: number } };
    // The database counts rows of its own tables for some statements; those of the others are in the hundred thousands.
    const isRight = last.state === 'Succeeded' && (isLarge || scan_progress.rows < tableRows);
    if (!isRight) this.wrong.push(`${sql} of ${person.user}: ${JSON.stringify([last.stats, last.error])}`);
  }

  /** Asks for another's query, and for one that never was: they must be told the same. */
  async #tryQuery(person: Person, random: Random): Promise<void> {
    const others = this.#known.filter(({ owner }) => owner !== person.user);
    if (others.length === 0) return;
    this.counts.queries++;
    const { answer, owner } = pick(random, others);
    const [method, tail] = pick(random, attempts);
    const neverWas = otherId(random, answer.id);
    const ask = (id: string): Promise<Reply> => this.#ask(person, method, `/v1/query/${id}${tail}`);
    const [theirs, nobodys] = await Promise.all([ask(answer.id), ask(neverWas)]);
    const [told, expected] = [plain(theirs, answer.id), plain(nobodys, neverWas)];
    if (told !== expected || (theirs.status !== 404 && theirs.status !== 405)) {
      this.wrong.push(`${method} ${tail} of ${owner}'s query by ${person.user}: ${told} instead of ${expected}`);
    }
    // The owner's query is as it was, so that whatever is asked for it is known to be there.
    const still = await get(this.#sluice.url, answer.stats_uri, { user: owner });
    const isOwners = still.status === 200 ? still.json.id === answer.id : /finished|make room|expired/.test(still.text);
    if (!isOwners) this.wrong.push(`${owner} has lost a query to ${person.user}: ${still.status} ${still.text}`);
    if (still.status === 200 && still.json.error?.code === 90002)
      this.wrong.push(`${person.user} has stopped ${answer.id}`);
  }

  /** Sends a statement to another's session, and to one that never was: both must fail in the same words. */
  async #trySession(person: Person, random: Random): Promise<void> {
    const other = pick(random, this.#people);
    if (other === person) return;
    const { session } = other;
    this.counts.sessions++;
    const neverWas = otherId(random, session);
    const [theirs, nobodys] = await Promise.all(
      [session, neverWas].map((id) => this.#run(person, 'SELECT @mine, @shared', { id })),
    );
    const [told, expected] = [theirs, nobodys].map((reply, index) => {
      const { state, error, data, schema, affected_rows, session_id } = (reply as Reply).json;
      const id = index === 0 ? session : neverWas;
      return JSON.stringify([
        (reply as Reply).status,
        state,
        error,
        data,
        schema,
        affected_rows,
        session_id,
      ]).replaceAll(id, '#');
    });
    if (told !== expected || (theirs as Reply).json.error?.code !== 90001) {
      this.wrong.push(`the session of ${other.user}, tried by ${person.user}: ${told} instead of ${expected}`);
    }
    this.#check(person, (theirs as Reply).text);
  }

  async #run(person: Person, sql: string, session?: object, waitSecs = 5): Promise<Reply> {
    this.statements++;
    const body = { sql, pagination: { wait_time_secs: waitSecs }, ...(session && { session }) };
    const reply = await post(this.#sluice.url, body, { user: person.user });
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    return reply;
  }

  #ask(person: Person, method: string, path: string): Promise<Reply> {
    return get(this.#sluice.url, path, { user: person.user, method });
  }

  #remember(person: Person, answer: QueryResponse): void {
    this.#known.push({ owner: person.user, answer });
    if (this.#known.length > 60) this.#known.shift();
  }

  /** No text that one gets may hold another's secret. */
  #check(person: Person, text: string): void {
    for (const other of this.#people) {
      if (other !== person && text.includes(other.secret)) {
        this.wrong.push(`${person.user} has got the secret of ${other.user}: ${text.slice(0, 500)}`);
      }
    }
  }
}

/** An id of the same form, and of the same time, that nobody has. */
function otherId(random: Random, id: string): string {
  return id.replaceAll(/[0-9a-f]/g, (digit, at) => (at < 12 ? digit : random(16).toString(16)));
}

/** What an answer says, but for the id that was asked for, the time of day and the number of the request. */
function plain({ status, headers, text }: Reply, id: string): string {
  const { date: _, 'x-request-id': __, ...others } = headers;
  return JSON.stringify([status, others, text]).replaceAll(id, '#');
}

async function startPlace(
  t: Test,
  server: DatabaseServer,
  connectionsMax: number,
): Promise<{ sluice: SluiceProcess; people: Person[] }> {
  const prefix = `two_${randomBytes(4).toString('hex')}`;
  const named = Array.from({ length: userCount }, (_, number) => ({
    user: `${prefix}_${number}`,
    secret: `secret-${randomBytes(8).toString('hex')}`,
  }));
  for (const { user, secret } of named) {
    await server.sql(
      `CREATE DATABASE ${user}; CREATE USER ${user}@'%'; GRANT ALL ON ${user}.* TO ${user}@'%';
       SET SESSION ${server.kind === 'mysql' ? 'cte_max_recursion_depth' : 'max_recursive_iterations'} = 100000;
       CREATE TABLE ${user}.words (i INT PRIMARY KEY, word VARCHAR(100));
       INSERT INTO ${user}.words WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < ${tableRows})
         SELECT i, '${secret}' FROM c`,
    );
  }
  const sluice = await startSluice([
    ...['--mysql_url', server.url, '--drain_secs', '0', '--worker_threads', '2'],
    ...['--connections_max', `${connectionsMax}`, '--sessions_max', `${userCount}`],
  ]);
  t.teardown(async () => {
    await sluice.kill();
    for (const { user } of named) await server.sql(`DROP DATABASE ${user}; DROP USER ${user}`);
  });
  const people = await Promise.all(
    named.map(async ({ user, secret }) => {
      const body = { session: { max_idle_time: 600 } };
      const { last } = await query(sluice.url, `SET @mine = '${secret}'`, { user, body });
      return { user, secret, session: last.session_id };
    }),
  );
  return { sluice, people };
}
