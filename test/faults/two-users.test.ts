import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { figure, isLong, measured, testMsMax } from '../support/form.ts';
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
 * Several users who run statements and keep sessions on a few shared connections, and who constantly try to use the queries,
 * pages, sessions and connection state of other users. They must not learn anything, not even that a foreign id exists: the
 * answer equals that for an unknown id.
 */

/** For either number of connections. */
const statementCount = figure(150, 5_000);
const userCount = 4;
const lanesPerUser = 3;
/**
 * With fewer connections than clients, connections are closed for the next user; with more, each serves one user repeatedly. This
 * is decided by the service alone, so the short form tries it on one of the databases.
 */
const connectionsMaxima = { mariadb: [10, 18], mysql: isLong ? [10, 18] : [18] };
const tableRows = 500;
/** The requests that are tried with the query of another user. */
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

/** A query that other users try to access. */
interface Known {
  readonly owner: string;
  readonly answer: QueryResponse;
}

/** A user, and the secrets that only this user knows. */
interface Person {
  readonly user: string;
  readonly secret: string;
  /** A kept session. */
  readonly session: string;
}

for (const server of await sharedServers()) {
  for (const connectionsMax of connectionsMaxima[server.kind]) {
    t.test(`on ${server.kind}, with ${connectionsMax} connections`, { timeout: testMsMax }, async (t) => {
      const seed = seedOf(t);
      const { sluice, people } = await startPlace(t, server, connectionsMax);
      const run = new Run(sluice, people);
      const beganMs = performance.now();
      let number = 0;
      const lane = async (person: Person): Promise<void> => {
        // Each step has its own random generator, because the order of the steps of all lanes is not fixed. The attempts are
        // random, so the test runs until all of them occurred.
        const isEnough = (): boolean =>
          run.statements >= statementCount &&
          (Object.values(run.counts).every((count) => count > 0) || run.statements >= 4 * statementCount);
        while (!isEnough()) await run.step(person, generator(seed, number++));
      };
      await Promise.all(people.flatMap((person) => Array.from({ length: lanesPerUser }, () => lane(person))));
      const tookSecs = (performance.now() - beganMs) / 1_000;
      t.strictSame(run.wrong.slice(0, 5), [], `${run.wrong.length} times a user saw data of another user`);
      for (const [what, count] of Object.entries(run.counts)) t.ok(count > 0, `${what}: ${count} times`);
      t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
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
  /** The latest queries: some still run, some are read, some have expired. */
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

  /** Leaves state on a connection or in a session. */
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

  /** Looks for state that another user may have left on the connection. */
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

  /** Reads the user's own result in pages, interleaved with all others. */
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

  /** Watches the progress of a statement that examines few rows while others examine many. */
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
    // For some statements the database also counts rows of its own tables. The statements of the others examine hundreds of
    // thousands.
    const isRight = last.state === 'Succeeded' && (isLarge || scan_progress.rows < tableRows);
    if (!isRight) this.wrong.push(`${sql} of ${person.user}: ${JSON.stringify([last.stats, last.error])}`);
  }

  /** Requests the query of another user, and an unknown query. Both answers must be equal. */
  async #tryQuery(person: Person, random: Random): Promise<void> {
    const others = this.#known.filter(({ owner }) => owner !== person.user);
    if (others.length === 0) return;
    this.counts.queries++;
    const { answer, owner } = pick(random, others);
    const [method, tail] = pick(random, attempts);
    const neverWas = otherId(random, answer.id);
    const ask = (id: string): Promise<Reply> => this.#ask(person, method, `/v1/query/${id}${tail}`);
    const [theirs, nobodys] = await Promise.all([ask(answer.id), ask(neverWas)]);
    const [actual, expected] = [plain(theirs, answer.id), plain(nobodys, neverWas)];
    if (actual !== expected || (theirs.status !== 404 && theirs.status !== 405)) {
      this.wrong.push(`${method} ${tail} of ${owner}'s query by ${person.user}: ${actual} instead of ${expected}`);
    }
    // The query of its owner is unchanged, so the attempts were made on an existing query.
    const still = await get(this.#sluice.url, answer.stats_uri, { user: owner });
    const isOwners = still.status === 200 ? still.json.id === answer.id : /finished|make room|expired/.test(still.text);
    if (!isOwners) this.wrong.push(`${owner} has lost a query to ${person.user}: ${still.status} ${still.text}`);
    if (still.status === 200 && still.json.error?.code === 90002)
      this.wrong.push(`${person.user} has stopped ${answer.id}`);
  }

  /** Sends a statement to the session of another user, and to an unknown session. Both must fail with the same message. */
  async #trySession(person: Person, random: Random): Promise<void> {
    const other = pick(random, this.#people);
    if (other === person) return;
    const { session } = other;
    this.counts.sessions++;
    const neverWas = otherId(random, session);
    const [theirs, nobodys] = await Promise.all(
      [session, neverWas].map((id) => this.#run(person, 'SELECT @mine, @shared', { id })),
    );
    const [actual, expected] = [theirs, nobodys].map((reply, index) => {
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
    if (actual !== expected || (theirs as Reply).json.error?.code !== 90001) {
      this.wrong.push(`the session of ${other.user}, tried by ${person.user}: ${actual} instead of ${expected}`);
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

  /** No answer may contain the secret of another user. */
  #check(person: Person, text: string): void {
    for (const other of this.#people) {
      if (other !== person && text.includes(other.secret)) {
        this.wrong.push(`${person.user} got the secret of ${other.user}: ${text.slice(0, 500)}`);
      }
    }
  }
}

/** An unknown id of the same form and the same time. */
function otherId(random: Random, id: string): string {
  return id.replaceAll(/[0-9a-f]/g, (digit, at) => (at < 12 ? digit : random(16).toString(16)));
}

/** The answer without the requested id, the time of day and the request id. */
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
