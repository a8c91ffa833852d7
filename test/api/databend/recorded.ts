// Requests of clients that cannot run here, in their format on the wire, replayed over plain HTTP. This file tests the needs that
// all these clients share; the file of a client tests its own.

import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { tableFromIPC } from 'apache-arrow';
import t, { type Test } from 'tap';
import { readArrow } from '../../support/arrow-cells.ts';
import { type DatabaseServer, sharedServers } from '../../support/servers.ts';
import { startSluice } from '../../support/sluice.ts';
import { until } from '../../support/until.ts';
import { makeCellTables, nameOf, tableOf } from './cells.ts';

/** The session that a client carries. Members that are not named are opaque to it. */
export interface Carried {
  readonly database?: string | null;
  readonly settings?: Readonly<Record<string, string>> | null;
  readonly txn_state?: string | null;
  readonly need_sticky?: boolean | null;
  readonly need_keep_alive?: boolean | null;
  readonly internal?: string | null;
}

interface Progress {
  readonly rows: number;
  readonly bytes: number;
}

export interface Body {
  readonly id: string;
  readonly session_id: string;
  readonly node_id: string;
  readonly state: 'Starting' | 'Running' | 'Failed' | 'Succeeded';
  readonly session: Carried | null;
  readonly error: { readonly code: number; readonly message: string; readonly detail?: string } | null;
  readonly schema: readonly { readonly name: string; readonly type: string }[];
  readonly data: readonly (readonly (string | null)[])[];
  readonly result_timeout_secs: number;
  readonly settings?: Readonly<Record<string, string>> | null;
  readonly stats: {
    readonly scan_progress: Progress;
    readonly write_progress: Progress;
    readonly result_progress: Progress;
    readonly running_time_ms: number;
  };
  readonly stats_uri: string;
  readonly final_uri: string;
  readonly next_uri: string | null;
  readonly kill_uri: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Throws for any other answer. */
  readonly json: Body;
}

/** The format of a client's requests. */
export interface Shape {
  readonly client: string;
  /** Headers of each request. */
  readonly headers: Readonly<Record<string, string>>;
  readonly queryPath: string;
  /**
   * The value of the query id header on each request, from the connection and the number of its query; null: the client sends the
   * id that the server chose, on pages only.
   */
  readonly queryId: ((connection: string, count: number) => string) | null;
  /** The session before the first answer. */
  readonly session: (database: string) => object;
  /** Members of each POST beside sql and session. */
  readonly body: object;
  /** null: the client does not log in. */
  readonly login: ((database: string) => object) | null;
  /** The prefix that the client adds to the URIs of answers. */
  readonly before: string;
  /** Whether the client reads /final like any other page. Otherwise it stops before, and requests final_uri at the end. */
  readonly readsFinal: boolean;
  /** The answers whose session the client takes. With 'from POST', a null session discards the previous one. */
  readonly takesSession: 'from all' | 'from POST';
}

export interface Ran {
  readonly answers: readonly Answer[];
  readonly first: Body;
  /** The last answer that was not requested at final_uri. */
  readonly last: Body;
  readonly rows: readonly (readonly (string | null)[])[];
}

const agent = new Agent({ keepAlive: true });

/** A request with exactly these parts. fetch would take more time than the rest of the test. */
async function ask(
  url: string,
  method: string,
  body: object | undefined,
  headers: Readonly<Record<string, string>>,
): Promise<{ readonly status: number; readonly headers: IncomingHttpHeaders; readonly bytes: Buffer }> {
  const content = body === undefined ? undefined : JSON.stringify(body);
  const length = content === undefined ? {} : { 'content-length': Buffer.byteLength(content) };
  const outgoing = request(url, { agent, method, headers: { ...headers, ...length } });
  outgoing.end(content);
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: incoming.statusCode ?? 0, headers: incoming.headers, bytes: await buffer(incoming) };
}

const arrowType = 'application/vnd.apache.arrow.stream';

/** The page that a stream of Arrow is, as it would be in JSON. */
function jsonOfArrow(bytes: Buffer): string {
  const answer = JSON.parse(tableFromIPC(bytes).schema.metadata.get('response_header') ?? '') as Body;
  const { columns, rows } = readArrow(bytes);
  // JavaScript prints a positive exponent with its sign.
  const cell = (text: string | null, column: number): string | null =>
    columns[column]?.type.startsWith('Float') === true && text !== null ? text.replace('e+', 'e') : text;
  return JSON.stringify({ ...answer, data: rows.map((row) => row.map(cell)) });
}

/** One connection of a client. */
export class Replay {
  readonly #base: string;
  readonly #shape: Shape;
  readonly #database: string;
  readonly #authorization: string;
  readonly #cookies = new Map([['cookie_enabled', 'true']]);
  readonly #connection = randomUUID();
  #count = 0;
  #node = '';
  session: Carried;

  constructor(base: string, shape: Shape, { user, password, database }: Stage) {
    this.#base = base;
    this.#shape = shape;
    this.#database = database;
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
    this.session = shape.session(database);
  }

  /** @param body is sent as JSON */
  async send(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
    const {
      status,
      headers: given,
      bytes,
    } = await ask(this.#base + path, method, body, {
      authorization: this.#authorization,
      cookie: [...this.#cookies].map((pair) => pair.join('=')).join('; '),
      'accept-encoding': 'gzip',
      ...this.#shape.headers,
      ...(this.#shape.queryId !== null && {
        'x-databend-query-id': this.#shape.queryId(this.#connection, this.#count),
      }),
      ...headers,
    });
    for (const cookie of given['set-cookie'] ?? []) {
      const [, name = '', value = ''] = /^([^=;]+)=([^;]*)/.exec(cookie) ?? [];
      this.#cookies.set(name, value);
    }
    const plain = given['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes;
    const text = given['content-type'] === arrowType ? jsonOfArrow(plain) : plain.toString();
    let parsed: Body | undefined;
    return {
      status,
      headers: given,
      text,
      get json() {
        parsed ??= JSON.parse(text) as Body;
        return parsed;
      },
    };
  }

  login(): Promise<Answer> {
    const body = this.#shape.login?.(this.#database) ?? {};
    return this.send('POST', '/v1/session/login', body);
  }

  get readsFinalAlone(): boolean {
    return this.#shape.client === 'databend-py';
  }

  /** Starts a statement with the next query id, or with the same one for a repeated POST. */
  async post(sql: string, more: object = {}, again = false): Promise<Answer> {
    if (!again) this.#count++;
    const sticky = this.session.need_sticky ? { 'x-databend-sticky-node': this.#node } : {};
    const body = { session: this.session, sql, ...this.#shape.body, ...more };
    const answer = await this.send('POST', this.#shape.queryPath, body, sticky);
    if (answer.status === 200) this.#heed(answer.json, true);
    return answer;
  }

  /** Requests a URI of an answer like the client. */
  async get(uri: string, method: 'GET' | 'POST' = 'GET'): Promise<Answer> {
    const named = this.#shape.queryId === null ? { 'x-databend-query-id': uri.split('/')[3] ?? '' } : {};
    return this.send(method, this.#shape.before + uri, undefined, { 'x-databend-sticky-node': this.#node, ...named });
  }

  /** Requests a page, and takes its session like the client. */
  async page(uri: string | null): Promise<Answer> {
    if (uri === null) throw new Error('there is no such page');
    const page = await this.get(uri);
    if (page.status === 200) this.#heed(page.json, false);
    return page;
  }

  /** Runs a statement, reads all its rows and closes it. */
  async run(sql: string, more: object = {}): Promise<Ran> {
    const answers = [await this.post(sql, more)];
    for (;;) {
      const answer = answers.at(-1) as Answer;
      if (answer.status !== 200) throw new Error(`${sql}: ${answer.status} ${answer.text}`);
      const { next_uri, error } = answer.json;
      if (next_uri === null || error !== null || (!this.#shape.readsFinal && next_uri.endsWith('/final'))) break;
      answers.push(await this.page(next_uri));
    }
    const bodies = answers.map(({ json }) => json);
    const [first, last] = [bodies[0], bodies.at(-1)] as [Body, Body];
    if (!this.#shape.readsFinal) answers.push(await this.get(last.final_uri));
    return { answers, first, last, rows: bodies.flatMap(({ data }) => data) };
  }

  #heed({ session, error, node_id }: Body, isFirst: boolean): void {
    if (isFirst) this.#node = node_id;
    if (this.#shape.takesSession === 'from all') this.session = session ?? this.session;
    else if (isFirst && error === null) this.session = session ?? { database: this.#database };
  }
}

/** The fixture of a client's tests: a service with one of the databases, and a user. */
export interface Stage {
  readonly server: DatabaseServer;
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly other: string;
  connect(shape?: Shape): Promise<Replay>;
}

/** Tests the needs of a client with both databases. */
export async function testRecorded(shape: Shape, more: (t: Test, stage: Stage) => Promise<void>): Promise<void> {
  t.setTimeout(540_000);
  for (const server of await sharedServers()) {
    await t.test(`${shape.client} on ${server.kind} ${server.version}`, async (t) => {
      const stage = await startStage(t, server, shape);
      await testAnswers(t, stage, shape);
      await testSession(t, stage);
      await testEnds(t, stage, shape);
      await more(t, stage);
    });
  }
}

async function startStage(t: Test, server: DatabaseServer, shape: Shape): Promise<Stage> {
  const database = `recorded_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
  const [other, user, password] = [`${database}_b`, database, 'p:a ss é'];
  await server.sql(
    `CREATE DATABASE ${database} CHARACTER SET utf8mb4; CREATE DATABASE ${other};
    CREATE USER ${user}@'%' IDENTIFIED BY '${password}';
    GRANT ALL ON ${database}.* TO ${user}@'%'; GRANT ALL ON ${other}.* TO ${user}@'%';`,
  );
  t.teardown(() => server.sql(`DROP DATABASE ${database}; DROP DATABASE ${other}; DROP USER ${user}@'%'`));
  const sluice = await startSluice(['--mysql_url', server.url, '--worker_threads', '1']);
  t.teardown(() => sluice.stop());
  const stage: Stage = {
    ...{ server, url: sluice.url, user, password, database, other },
    connect: async (as = shape) => {
      const client = new Replay(sluice.url, as, stage);
      if (as.login !== null) {
        const { status, text } = await client.login();
        if (status !== 200) throw new Error(`login: ${status} ${text}`);
      }
      return client;
    },
  };
  return stage;
}

/** Members that at least one client reads without a check. */
const members = ['id', 'session_id', 'node_id', 'state', 'session', 'error', 'schema', 'data', 'affect', 'stats'];
const uris = ['stats_uri', 'final_uri', 'next_uri', 'kill_uri'] as const;

/**
 * Checks that an answer about a query has everything that clients need. It is a single assertion, because there are many answers.
 */
export function checkAnswer(t: Test, { status, headers, text, json }: Answer): void {
  const missing = [...members, ...uris, 'warnings', 'result_timeout_secs'].filter((name) => !(name in json));
  const isProgress = ({ rows, bytes }: Progress) => typeof rows === 'number' && typeof bytes === 'number';
  const isField = ({ name, type }: Body['schema'][number]) => typeof name === 'string' && typeof type === 'string';
  const isRow = (row: readonly unknown[]) =>
    row.length === json.schema.length && row.every((cell) => cell === null || typeof cell === 'string');
  const { error, stats } = json;
  const rules: readonly (readonly [isKept: boolean, rule: string])[] = [
    [status === 200, `its status is ${status}`],
    [['application/json', arrowType].includes(headers['content-type'] ?? ''), 'it is JSON or Arrow'],
    [Boolean(headers['x-databend-version']), 'it reports the version'],
    [missing.length === 0, `members are missing: ${missing}`],
    [headers['x-databend-query-id'] === json.id, 'the header has the id'],
    [headers['x-databend-query-state'] === json.state, 'the header has the state'],
    [headers['x-databend-query-page-rows'] === String(json.data.length), 'the header counts the rows'],
    [Boolean(json.node_id), 'JDBC fails without a node'],
    [json.result_timeout_secs > 0, 'results are kept for some time'],
    ...uris.map((name) => {
      const isNone = name === 'next_uri' && json[name] === null;
      return [
        isNone || /^\/v1\/query\/[^?]+$/.test(json[name] ?? ''),
        `JDBC escapes a question mark: ${name}`,
      ] as const;
    }),
    [isProgress(stats.scan_progress), 'scan_progress'],
    [isProgress(stats.write_progress), 'write_progress'],
    [isProgress(stats.result_progress), 'result_progress'],
    [typeof stats.running_time_ms === 'number', 'running_time_ms'],
    [Array.isArray(json.schema) && json.schema.every(isField), 'the schema has names and types'],
    [json.data.length === 0 || json.schema.length > 0, 'rows come with their columns'],
    [json.data.every(isRow), 'all cells are strings or null, one for each column'],
    [Object.values(json.session?.settings ?? {}).every((value) => typeof value === 'string'), 'settings are strings'],
    [error === null || typeof error.message === 'string', 'an error has a message'],
    [error === null || (error.code > 0 && error.code < 65_536), `clients have no room for the code ${error?.code}`],
  ];
  const broken = rules.flatMap(([isKept, rule]) => (isKept ? [] : [rule]));
  t.equal(broken.join('; '), '', `an answer is valid for clients: ${text.slice(0, 100)}`);
}

async function testAnswers(t: Test, stage: Stage, shape: Shape): Promise<void> {
  const { server, database } = stage;

  await t.test('cells of every type, and the type names', async (t) => {
    const client = await stage.connect();
    for (const [cellCase, expected] of await makeCellTables(server, database)) {
      const { answers, rows, first } = await client.run(`SELECT v FROM ${tableOf(cellCase)} ORDER BY id`);
      for (const answer of answers) checkAnswer(t, answer);
      t.strictSame(rows.flat(), expected, cellCase.type);
      t.strictSame(first.schema, [{ name: 'v', type: `Nullable(${nameOf(cellCase, server.kind)})` }], cellCase.type);
    }
    await server.sql(
      `SET sql_mode = ''; CREATE TABLE filled (i INT NOT NULL, s VARCHAR(5) NOT NULL, d DATE NOT NULL, m DATETIME NOT NULL);
      INSERT INTO filled VALUES (1, 'a', '0000-00-00', '0000-00-00 00:00:00')`,
      { database },
    );
    const { first, rows } = await client.run('SELECT * FROM filled');
    t.strictSame(
      first.schema.map(({ type }) => type),
      ['Int32', 'String', 'Nullable(Date)', 'Nullable(Timestamp)'],
    );
    t.strictSame(rows, [['1', 'a', null, null]]);
    t.strictSame((await client.run('SELECT NULL AS n')).rows, [[null]]);
  });

  await t.test('a result of many pages', async (t) => {
    const client = await stage.connect();
    const digits = 'SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4';
    await server.sql(
      `CREATE TABLE five (d INT); INSERT INTO five ${digits};
      CREATE TABLE many (id INT PRIMARY KEY, v VARCHAR(40));
      INSERT INTO many SELECT a.d + 5 * b.d + 25 * c.d + 125 * d.d + 625 * e.d + 3125 * f.d, CONCAT('row ', a.d, b.d, f.d)
      FROM five a, five b, five c, five d, five e, five f;
      INSERT INTO many SELECT id + 15625, v FROM many`,
      { database },
    );
    const { answers, rows } = await client.run('SELECT id, v FROM many ORDER BY id');
    for (const answer of answers) checkAnswer(t, answer);
    const direct = await server.sql('SELECT id, v FROM many ORDER BY id', { database });
    t.equal(rows.length, 31_250);
    t.equal(sha256(rows.map((row) => row.join('\t')).join('\n')), sha256(direct), 'the rows equal a direct read');
    t.ok(answers.filter(({ json }) => json.data.length > 0).length > 3, 'there are several pages');
  });

  await t.test('a page may be requested again, and a page past the end is empty', async (t) => {
    const client = await stage.connect();
    const first = (await client.post('SELECT id, v FROM many ORDER BY id')).json;
    t.equal(first.data.length, 10_000);
    const { next_uri: uri } = first as { next_uri: string };
    const [page, again] = [await client.get(uri), await client.get(uri)];
    t.equal(page.json.data[0]?.[0], '10000');
    t.strictSame(again.json.data, page.json.data);
    const past = await client.get((await client.get(page.json.next_uri ?? '')).json.next_uri ?? '');
    checkAnswer(t, past);
    const state = await client.get(first.stats_uri);
    t.equal(state.status, 200);
    t.match(state.json, { state: 'Succeeded', error: null, stats: { running_time_ms: Number } });
    t.equal((await client.get(first.final_uri)).status, 200);
  });

  await t.test('affected rows are counted', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE counted (id INT PRIMARY KEY, v INT)');
    for (const [sql, word, count] of [
      ['INSERT INTO counted VALUES (1, 1), (2, 2), (3, 3)', 'inserted', '3'],
      ['UPDATE counted SET v = 9 WHERE id < 3', 'updated', '2'],
      ['DELETE FROM counted WHERE id = 3', 'deleted', '1'],
      ['DELETE FROM counted WHERE id = 77', 'deleted', '0'],
      ['  insert into counted values (4, 4)', 'inserted', '1'],
    ] as const) {
      const { answers, rows, last } = await client.run(sql);
      for (const answer of answers) checkAnswer(t, answer);
      t.strictSame(rows, [[count]], sql);
      const withRow = answers.find(({ json }) => json.data.length > 0)?.json as Body;
      t.strictSame(withRow.schema, [{ name: `number of rows ${word}`, type: 'UInt64' }], sql);
      t.equal(withRow.stats.write_progress.rows, Number(count), sql);
      t.equal(last.stats.write_progress.rows, Number(count), sql);
    }
    const slow = 'INSERT INTO counted SELECT 10 + SLEEP(1.2), 1 UNION ALL SELECT 11 + SLEEP(1.2), 1';
    const ran = await client.run(slow, { pagination: { wait_time_secs: 1 } });
    t.equal(ran.first.state, 'Running', 'the statement still ran');
    t.strictSame(ran.rows, [['2']], 'also of a slow one');
    t.equal(await server.sql('SELECT COUNT(*) FROM counted', { database }), '5');
  });

  await t.test('SQL errors', async (t) => {
    const client = await stage.connect();
    for (const [sql, code] of [
      ['SELECT * FROM absent', 1146],
      ['SELEC 1', 1064],
      ['INSERT INTO counted VALUES (1, 1)', 1062],
      ['', 1065],
    ] as const) {
      const answer = await client.post(sql);
      checkAnswer(t, answer);
      t.match(answer.json, { state: 'Failed', error: { code }, data: [] }, sql);
      const final = await client.get(answer.json.final_uri);
      t.equal(final.status, 200);
      t.equal(final.json.next_uri, null);
    }
    const late = 'SELECT IF(id = 25000, (SELECT d FROM five), id) FROM many ORDER BY id';
    const { last, rows } = await client.run(late);
    t.match(last, { state: 'Failed', error: { code: 1242 }, data: [] });
    t.ok(rows.length < 31_250);
    t.strictSame((await client.run('SELECT 1')).rows, [['1']], 'the connection continues');
  });

  await t.test('a wrong password and an unknown query', async (t) => {
    const wrong = new Replay(stage.url, shape, { ...stage, password: 'wrong' });
    for (const answer of [await wrong.login(), await wrong.post('SELECT 1')]) {
      t.equal(answer.status, 401);
      t.match(answer.json.error, { code: Number, message: String });
    }
    const client = await stage.connect();
    const absent = await client.get('/v1/query/0123456789abcdef0123456789abcdef/page/1');
    t.equal(absent.status, 404);
    t.match(absent.json.error, { code: Number, message: String });
  });

  await t.test('the other dialect is not affected', async (t) => {
    const answer = await fetch(`${stage.url}/v1/query`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`${stage.user}:${stage.password}`).toString('base64')}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ sql: 'SELECT 1 AS n' }),
    });
    t.strictSame(
      [...answer.headers.keys()].filter((name) => name.startsWith('x-databend') || name === 'set-cookie'),
      [],
    );
    t.match(await answer.json(), { schema: { fields: [{ name: 'n' }] }, data: [[1]], affected_rows: 0 });
  });
}

async function testSession(t: Test, stage: Stage): Promise<void> {
  const { server, database, other } = stage;
  const cell = async (client: Replay, sql: string) => (await client.run(sql)).rows[0]?.[0];

  await t.test('USE and SET apply to the next statement, and to no other session', async (t) => {
    const [client, bystander] = [await stage.connect(), await stage.connect()];
    t.equal(await cell(client, 'SELECT DATABASE()'), database);
    await client.run(`USE ${other}`);
    t.equal(client.session.database, other);
    t.equal(await cell(client, 'SELECT DATABASE()'), other);
    await client.run('SET SESSION group_concat_max_len = 4321');
    t.equal(await cell(client, 'SELECT @@group_concat_max_len'), '4321');
    await client.run("SET time_zone = '+02:00'");
    t.equal(await cell(client, 'SELECT @@time_zone'), '+02:00');
    t.equal(await cell(client, 'SELECT @@group_concat_max_len'), '4321', 'earlier settings are kept');
    t.equal(await cell(client, 'SELECT DATABASE()'), other);
    t.strictSame(
      [await cell(bystander, 'SELECT DATABASE()'), await cell(bystander, 'SELECT @@group_concat_max_len = 4321')],
      [database, '0'],
    );
    t.notOk(client.session.need_sticky, 'none of them pins a session');
  });

  await t.test('settings that the database does not know have no effect', async (t) => {
    const client = await stage.connect();
    client.session = { ...client.session, settings: { ...client.session.settings, max_threads: '8', warehouse: 'w' } };
    t.equal(await cell(client, 'SELECT 7'), '7');
    await client.run(`USE ${other}`);
    t.match(client.session.settings, { max_threads: '8', warehouse: 'w' });
    t.equal(await cell(client, 'SELECT DATABASE()'), other);
  });

  await t.test('a transaction lasts until it ends', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE kept (id INT PRIMARY KEY)');
    const seen = () => server.sql('SELECT COUNT(*) FROM kept', { database });
    for (const [end, expected] of [
      ['ROLLBACK', '0'],
      ['COMMIT', '1'],
    ] as const) {
      await client.run('BEGIN');
      t.match(client.session, { txn_state: 'Active', need_sticky: true, need_keep_alive: true, internal: /./ });
      await client.run('INSERT INTO kept VALUES (1)');
      t.equal(await seen(), '0', 'no other session sees the row yet');
      t.equal(await cell(client, 'SELECT COUNT(*) FROM kept'), '1');
      const failed = await client.run('INSERT INTO kept VALUES (1)');
      t.equal(failed.last.error?.code, 1062);
      t.equal(client.session.txn_state, 'Active', 'a failed statement does not end it');
      await client.run(end);
      t.match(client.session, { txn_state: 'AutoCommit', need_sticky: false });
      t.equal(await seen(), expected, end);
    }
  });

  await t.test('A1: the pages of an open cursor do not undo changes of other statements', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE beside (id INT PRIMARY KEY)');
    for (const [end, expected] of [
      ['ROLLBACK', '0'],
      ['COMMIT', '2'],
    ] as const) {
      const first = await client.post('SELECT id FROM many ORDER BY id');
      t.match(first.json.session, { database }, 'the answer to the POST has the session');
      t.ok(first.json.next_uri?.endsWith('/page/1'));
      await client.run('SET @beside = 7');
      await client.run('BEGIN');
      await client.run('INSERT INTO beside VALUES (1)');
      const second = await client.page(first.json.next_uri);
      t.equal(second.json.data[0]?.[0], '10000');
      t.equal(
        (await client.page(first.json.next_uri)).text,
        second.text,
        'a repeated page request gets the same answer',
      );
      t.match(client.session, { txn_state: 'Active', need_sticky: true });
      await client.run('INSERT INTO beside VALUES (2)');
      // A cursor in the transaction. Pages read after the transaction's end must not report its state.
      const inside = await client.post('SELECT id FROM many ORDER BY id');
      t.match(inside.json.session, { txn_state: 'Active' });
      await client.run(end);
      t.equal(client.session.txn_state, 'AutoCommit');
      const pages = [second];
      for (let uri = second.json.next_uri; uri !== null; uri = pages.at(-1)?.json.next_uri ?? null) {
        pages.push(await client.page(uri));
      }
      for (let uri = inside.json.next_uri; uri !== null; uri = pages.at(-1)?.json.next_uri ?? null) {
        pages.push(await client.page(uri));
      }
      t.equal(pages.filter(({ json }) => json.data.length > 0).length, 6);
      for (const page of pages) checkAnswer(t, page);
      t.strictSame(
        pages.map(({ json }) => json.session),
        pages.map(() => null),
        'neither a later page nor /final has a session',
      );
      t.equal(client.session.txn_state, 'AutoCommit');
      t.equal(await cell(client, 'SELECT @beside'), '7');
      t.equal(await server.sql('SELECT COUNT(*) FROM beside', { database }), expected);
    }
  });

  await t.test('A1: changes of a slow statement are sent once, when it has ended', async (t) => {
    const client = await stage.connect();
    const first = (await client.post('SET @slow = 5 + SLEEP(1.2)', { pagination: { wait_time_secs: 1 } })).json;
    t.match(first, { state: 'Running', session: { database } });
    t.notOk(first.session?.need_sticky);
    const page = await client.page(first.next_uri);
    t.match(page.json, { state: 'Succeeded', session: { need_sticky: true, internal: /./ } });
    const again = await client.page(first.next_uri);
    t.strictSame(again.json.session, page.json.session, 'a repeated request gets it again');
    const final = await client.page(page.json.next_uri);
    t.strictSame(final.json.session, client.readsFinalAlone ? page.json.session : null);
  });

  await t.test('A1: /final has the session if no page had it, on every request', async (t) => {
    const client = await stage.connect();
    const first = (await client.post('SET @slow = 5 + SLEEP(1.2)', { pagination: { wait_time_secs: 1 } })).json;
    await until(async () => (await client.get(first.stats_uri)).json.state === 'Succeeded');
    const final = await client.page(first.final_uri);
    t.match(final.json, { state: 'Succeeded', session: { need_sticky: true, internal: /./ } });
    t.strictSame((await client.page(first.final_uri)).json.session, final.json.session);
  });

  await t.test('E (session.internal): text of another kind of server is ignored', async (t) => {
    const client = await stage.connect();
    for (const internal of ['{"variables": [], "last_query_result_cache_key": "x"}', 'nonsense']) {
      client.session = { ...client.session, internal };
      t.equal(await cell(client, 'SELECT 7'), '7');
      client.session = { ...client.session, internal, txn_state: 'Active' };
      const refused = await client.post('SELECT 7');
      t.equal(refused.status, 400, 'except in a transaction, which is open on that server');
      t.match(refused.json.error, { message: /the transaction is on another server/ });
      client.session = { ...client.session, internal: null, txn_state: 'AutoCommit' };
    }
  });

  await t.test('a session token that was changed, or belongs to another user, is refused', async (t) => {
    const client = await stage.connect();
    await client.run('BEGIN');
    await client.run('INSERT INTO kept VALUES (50)');
    const { session } = client;
    const handle = session.internal as string;
    const middle = handle.length >> 1;
    const digit = handle[middle] === '0' ? '1' : '0';
    for (const internal of [`${handle.slice(0, middle)}${digit}${handle.slice(middle + 1)}`, `${handle}x`]) {
      client.session = { ...session, internal };
      const answer = await client.post('SELECT COUNT(*) FROM kept WHERE id = 50');
      t.ok(answer.status === 400 || answer.json.error !== null, answer.text.slice(0, 300));
      t.notMatch(answer.text, /"data":\[\[/);
    }
    client.session = session;
    t.equal(await cell(client, 'SELECT COUNT(*) FROM kept WHERE id = 50'), '1', 'the original token works');
    await client.run('ROLLBACK');
  });
}

async function testEnds(t: Test, stage: Stage, shape: Shape): Promise<void> {
  const { server, database } = stage;
  const running = async (mark: string) => {
    const sql = `SELECT COUNT(*) FROM information_schema.PROCESSLIST
      WHERE INFO LIKE '%${mark}%' AND INFO NOT LIKE '%PROCESSLIST%'`;
    return Number(await server.sql(sql, { user: stage.user, password: stage.password }));
  };

  for (const [how, verb] of [
    ['GET', 'kill_uri'],
    ['POST', 'kill_uri'],
    ['GET', 'final_uri'],
    ['POST', 'final_uri'],
  ] as const) {
    await t.test(`a statement is ended by ${how} of ${verb}`, async (t) => {
      const client = await stage.connect();
      const mark = `m${randomUUID().replaceAll('-', '')}`;
      const answer = await client.post(`SELECT SLEEP(600) AS ${mark}`, { pagination: { wait_time_secs: 0 } });
      checkAnswer(t, answer);
      t.match(answer.json.state, /^(Starting|Running)$/);
      t.ok(answer.json.next_uri, 'the query has more pages');
      await until(async () => (await running(mark)) === 1);
      t.equal((await client.get(answer.json[verb], how)).status, 200);
      await until(async () => (await running(mark)) === 0);
      const page = await client.get(answer.json.next_uri ?? '');
      t.equal(page.status, 400);
      t.match(page.json.error, { code: Number, message: /./ }, 'a client that still waits for it gets an error');
      t.equal((await client.get(answer.json.final_uri)).status, 200, 'it can still be closed');
      t.equal((await client.get(answer.json.kill_uri)).status, 200);
    });
  }

  await t.test('E (/final): it reports how a query ended', async (t) => {
    const client = await stage.connect();
    const killed = (await client.post('SELECT SLEEP(600)', { pagination: { wait_time_secs: 0 } })).json;
    await client.get(killed.kill_uri);
    const unread = (await client.post('SELECT id FROM many')).json;
    await client.get(unread.kill_uri);
    for (const { id, final_uri } of [killed, unread]) {
      for (const _ of ['once', 'again']) {
        const final = await client.get(final_uri);
        t.equal(final.status, 200);
        t.match(final.json, {
          state: 'Failed',
          error: { code: 60002, message: `query ${id} was cancelled by the client` },
        });
        t.match(final.json, { next_uri: null, data: [], session: null });
      }
    }
    const closed = (await client.post('SELECT SLEEP(600)', { pagination: { wait_time_secs: 0 } })).json;
    const finals = [await client.get(closed.final_uri), await client.get(closed.final_uri)];
    for (const { json } of finals) t.match(json, { state: 'Failed', error: { code: 60002 } });
    const done = (await client.run('SELECT 1')).last;
    t.match((await client.get(done.kill_uri)).status, 200);
    t.match((await client.get(done.final_uri)).json, { state: 'Succeeded', error: null });
  });

  if (shape.queryId === null) return;
  await t.test("E (query id): a query has the client's id, separately for each user", async (t) => {
    const client = await stage.connect();
    const given = `${randomUUID()}.7`;
    const body = { session: client.session, sql: 'SELECT id FROM many ORDER BY id' };
    const named = await client.send('POST', '/v1/query', body, { 'x-databend-query-id': given });
    checkAnswer(t, named);
    t.equal(named.json.id, given);
    t.equal(named.json.next_uri, `/v1/query/${given}/page/1`);
    const [user, password] = [`${stage.user}_x`, 'other'];
    await server.sql(`CREATE USER ${user}@'%' IDENTIFIED BY '${password}'; GRANT ALL ON ${database}.* TO ${user}@'%'`);
    t.teardown(() => server.sql(`DROP USER ${user}@'%'`));
    const other = new Replay(stage.url, shape, { ...stage, user, password });
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/page/0'],
      ['GET', '/page/1'],
      ['POST', '/kill'],
      ['GET', '/final'],
    ] as const) {
      const answer = await other.send(method, `/v1/query/${given}${path}`);
      t.equal(answer.status, 404, `the query of another user is not found: ${path}`);
    }
    const theirs = await other.send(
      'POST',
      '/v1/query',
      { session: { database }, sql: "SELECT 'theirs'" },
      { 'x-databend-query-id': given },
    );
    t.match(theirs.json, { id: given, data: [['theirs']] });
    t.equal((await client.get(`/v1/query/${given}/page/1`)).json.data[0]?.[0], '10000');
    t.strictSame((await other.get(`/v1/query/${given}/page/0`)).json.data, [['theirs']]);
    t.equal((await other.get(`/v1/query/${given}/kill`)).status, 200);
    t.equal(
      (await client.get(`/v1/query/${given}/page/2`)).json.data[0]?.[0],
      '20000',
      'only the query of that user is killed',
    );
    const again = await client.send('POST', '/v1/query', body, { 'x-databend-query-id': given });
    t.equal(again.status, 404, 'a repeated POST does not return a page that was left behind');
    for (const unsafe of ['../x', '.', 'a/b', 'a b', 'a?b', "a'b", 'x'.repeat(65), '%2e']) {
      const answer = await client.send('POST', '/v1/query', { sql: 'SELECT 1' }, { 'x-databend-query-id': unsafe });
      t.match(answer.json.id, /^[0-9a-f]{44}$/, `not accepted as an id: ${unsafe}`);
      t.strictSame((await client.get(`/v1/query/${answer.json.id}/page/0`)).json.data, [['1']]);
    }
  });

  await t.test('a repeated POST runs once', async (t) => {
    const client = await stage.connect();
    await client.run('CREATE TABLE once (v INT)');
    const sql = 'INSERT INTO once VALUES (1)';
    const { session } = client;
    const first = await client.post(sql);
    client.session = session;
    const again = await client.post(sql, {}, true);
    t.equal(first.json.error, null);
    t.equal(again.json.id, first.json.id);
    t.strictSame([again.json.data, again.json.schema], [first.json.data, first.json.schema]);
    client.session = session;
    const different = await client.post('INSERT INTO once VALUES (2)', {}, true);
    t.ok([400, 409].includes(different.status), `${different.status} ${different.text.slice(0, 300)}`);
    t.equal(await server.sql('SELECT GROUP_CONCAT(v) FROM once', { database }), '1');
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
