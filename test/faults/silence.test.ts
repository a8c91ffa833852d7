import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { type DatabaseKind, isInstalled, type PrivateServer, startServer } from '../support/servers.ts';
import { get, post, type QueryResponse, query, type SluiceProcess, split, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * A connection that falls silent: the sockets stay open on both sides, and no more bytes arrive. Statements that wait on it fail
 * within a known time, statements that still run in the database are ended, and slow statements are not affected.
 */

const pollMs = 50;
const pingSecs = 1;
const connectTimeoutSecs = 2;
/** For a service whose kills are timed: more than ten times the usual time of a kill. */
const patientSecs = 6;
/** For a service that must not take a database on a busy machine for silent. */
const unhurriedSecs = 30;
/** The limit that the watchdog promises. */
const promisedMs = (2 * pingSecs + connectTimeoutSecs + 1) * 1_000;
/** Ten times as long, because the machine may be busy. */
const noticeMsMax = 10 * promisedMs;

// Both servers share the machine with other processes.
t.setTimeout(540_000);

const noWait = { pagination: { wait_time_secs: 0 } };
/** Rows of a table that the test makes. */
const rowCount = figure(100_000, 1_000_000);
const textLength = figure(250, 100);
/** More bytes than the buffers between the client and the database hold. The proxy doubles them. */
const allRows = 'SELECT n, text, LEFT(text, 150) FROM faults.numbers';

// Most of the time is spent waiting, so both databases run concurrently, with two groups of tests each.
const sideBySide = 2;
t.jobs = sideBySide;

for (const kind of ['mariadb', 'mysql'] satisfies DatabaseKind[]) {
  t.test(kind, { skip: !isInstalled(kind), timeout: 540_000, buffered: true }, async (t) => {
    const server = await startServer(kind);
    t.teardown(() => server.stop());
    await server.sql(
      `CREATE DATABASE faults; CREATE TABLE faults.numbers (n INT PRIMARY KEY, text CHAR(${textLength}))`,
    );
    const digits =
      '(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)';
    await server.sql(
      `INSERT INTO faults.numbers SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d + 100000 * f.d, REPEAT('x', ${textLength})
       FROM ${digits} a, ${digits} b, ${digits} c, ${digits} d, ${digits} e, ${digits} f WHERE f.d < ${rowCount / 100_000}`,
    );

    t.jobs = sideBySide;
    t.test('silent connections', async (t) => {
      // One after the other, because some tests silence all connections.
      const { proxy, sluice } = await start(t, server);

      t.test('a connection that was lost while idle fails the next statement in time', async (t) => {
        await query(sluice.url, 'SELECT 1');
        await until(async () => (await server.sql(`${waiting} LIKE '%:${proxy.lastPort}'`)) === '1');
        // The database has sent the answer to the reset; the service may not have received it yet.
        await delay(500);
        proxy.silenceAll();
        const first = (await post(sluice.url, { sql: 'SELECT 2', ...noWait })).json;
        const { last, tookMs } = await follow(sluice, first);
        t.match(last, { state: 'Failed', error: { code: 90006 } }, last.error?.message ?? '');
        t.ok(tookMs < noticeMsMax, `${tookMs} ms`);
        t.same((await query(sluice.url, 'SELECT 3')).rows, [[3]], 'the next statement gets a working connection');
      });

      t.test('a silent connection fails its own statement only', async (t) => {
        const victim = await begin(sluice, server, "SELECT SLEEP(600), 'victim'");
        proxy.silence(await portOf(server, "SELECT SLEEP(600), 'victim'"));
        const other = await begin(sluice, server, "SELECT SLEEP(600), 'other'");
        const { last, tookMs } = await follow(sluice, victim, promisedMs + 500);
        // The database still works on the statement, so no failure can be detected yet.
        t.equal(last.state, 'Running', `${tookMs} ms`);
        t.equal((await get(sluice.url, other.stats_uri)).json.state, 'Running');
        await server.sql(`KILL QUERY ${await idOf(server, "SELECT SLEEP(600), 'victim'")}`);
        const failed = await follow(sluice, (await get(sluice.url, victim.next_uri as string)).json);
        t.match(failed.last, { state: 'Failed', error: { code: 90006 } }, failed.last.error?.message ?? '');
        t.match(failed.last.error?.message, /nothing has come from it for \d+ s, though the database is done/);
        t.ok(failed.tookMs < noticeMsMax, `${failed.tookMs} ms after its end`);
        t.equal((await get(sluice.url, other.stats_uri)).json.state, 'Running', 'the other statement continues');
        await untilGone(server, "SELECT SLEEP(600), 'victim'");
        t.equal((await get(sluice.url, other.final_uri)).status, 200);
      });

      t.test(
        'a connection that falls silent while rows arrive fails its statement, which is ended in the database',
        async (t) => {
          const sql = `${allRows} WHERE n >= 0`;
          let page = (await post(sluice.url, { sql, pagination: { max_rows_per_page: 10_000, wait_time_secs: 30 } }))
            .json;
          for (let pages = 0; pages < 2; pages++) page = (await get(sluice.url, page.next_uri as string)).json;
          proxy.silence(await portOf(server, sql));
          const { last, tookMs, rows } = await follow(sluice, page);
          t.match(last, { state: 'Failed', error: { code: 90006 } }, last.error?.message ?? '');
          t.ok(rows < rowCount, `${rows} rows`);
          t.ok(tookMs < noticeMsMax, `${tookMs} ms`);
          await untilGone(server, sql);
          t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
        },
      );

      t.test('when no connection answers, all statements fail in time', async (t) => {
        const sleeping = await Promise.all(
          [1, 2, 3].map((n) => begin(sluice, server, `SELECT SLEEP(600), 'all ${n}'`)),
        );
        proxy.silenceAll(true);
        for (const { last, tookMs } of await Promise.all(
          sleeping.map((first) => follow(sluice, first, Number.POSITIVE_INFINITY)),
        )) {
          t.match(last, { state: 'Failed', error: { code: 90006 } });
          t.match(last.error?.message, /and the database does not answer/);
          t.ok(tookMs < noticeMsMax, `${tookMs} ms`);
        }
        proxy.speak();
        await until(async () => (await get(sluice.url, '/ready')).status === 200);
        t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
        // The database still sees their connections as open, and could not be asked to end the statements while it was silent.
        for (const n of [1, 2, 3]) await untilGone(server, `SELECT SLEEP(600), 'all ${n}'`);
      });

      t.test('a statement whose connection is cut is ended in the database', async (t) => {
        const sql = 'SELECT COUNT(*) FROM faults.numbers a, faults.numbers b WHERE a.n * b.n = -2';
        const first = await begin(sluice, server, sql);
        proxy.cut(await portOf(server, sql));
        const { last } = await follow(sluice, first);
        t.match(last, { state: 'Failed', error: { code: 90006 } }, last.error?.message ?? '');
        await untilGone(server, sql);
      });

      t.test('a cancelled statement whose connection is silent is ended in the database', async (t) => {
        const sql = "SELECT SLEEP(600), 'cancelled'";
        const first = await begin(sluice, server, sql);
        proxy.silence(await portOf(server, sql));
        t.equal((await get(sluice.url, first.final_uri)).status, 200);
        await untilGone(server, sql);
        t.same((await query(sluice.url, 'SELECT 1')).rows, [[1]]);
      });
    });

    t.test('slow connections', async (t) => {
      t.jobs = sideBySide;
      const { sluice } = await start(t, server, unhurriedSecs);

      t.test('slow statements are not affected', { timeout: 540_000 }, async (t) => {
        await server.sql(`CREATE TABLE IF NOT EXISTS faults.held (a INT PRIMARY KEY) ENGINE = InnoDB;
          REPLACE INTO faults.held VALUES (1)`);
        const holder = server.sql('START TRANSACTION; SELECT * FROM faults.held FOR UPDATE; SELECT SLEEP(12); COMMIT');
        await untilRuns(server, 'SELECT SLEEP(12)');
        const paused = (await post(sluice.url, { sql: `${allRows} WHERE n > -1` })).json;
        const slow = [
          'SELECT SLEEP(15)',
          "SELECT SLEEP(5), REPEAT('x', 10) FROM faults.numbers WHERE n < 3",
          'UPDATE faults.held SET a = 2 WHERE a = 1',
          `SELECT COUNT(*) FROM faults.numbers a, faults.numbers b WHERE b.n < 60 AND a.n * b.n = -1`,
        ].map((sql) => query(sluice.url, sql, { body: { pagination: { wait_time_secs: 20 } } }));
        for (const { last } of await Promise.all(slow)) {
          t.match(last, { state: 'Succeeded' }, last.error?.message ?? '');
        }
        await holder;
        const read = await follow(sluice, paused, Number.POSITIVE_INFINITY);
        t.match(
          read.last,
          { state: 'Succeeded' },
          'a statement whose client does not read for many seconds succeeds too',
        );
        t.equal(read.rows, rowCount);
      });

      t.test('a database that refuses new connections is not taken for silent', async (t) => {
        const user = 'crowded';
        await server.sql(`CREATE USER ${user}@'%' WITH MAX_USER_CONNECTIONS 1`);
        const { last } = await query(sluice.url, 'SELECT SLEEP(8)', {
          user,
          body: { pagination: { wait_time_secs: 20 } },
        });
        t.match(last, { state: 'Succeeded' }, last.error?.message ?? '');
      });

      t.test('an unanswered kill does not delay other kills', async (t) => {
        const { proxy, sluice } = await start(t, server, patientSecs);
        const [first, second, third] = [1, 2, 3].map((n) => `SELECT SLEEP(600), 'held up ${n}'`) as [
          string,
          string,
          string,
        ];
        const queries = [await begin(sluice, server, first), await begin(sluice, server, second)];
        const last = await begin(sluice, server, third);
        t.equal((await get(sluice.url, queries[0]?.final_uri as string)).status, 200);
        await untilGone(server, first);
        // The connection that sent this kill is reused for the next one.
        proxy.silence(proxy.lastPort);
        t.equal((await get(sluice.url, queries[1]?.final_uri as string)).status, 200);
        const begun = performance.now();
        t.equal((await get(sluice.url, last.final_uri)).status, 200);
        await untilGone(server, third);
        const tookMs = performance.now() - begun;
        t.ok(tookMs < patientSecs * 1_000 - 500, `the other statement is killed after ${Math.round(tookMs)} ms`);
        await untilGone(server, second);
      });
    });
  });
}

async function start(
  t: Test,
  server: PrivateServer,
  connectSecs = connectTimeoutSecs,
): Promise<{ proxy: SilentProxy; sluice: SluiceProcess }> {
  const proxy = await SilentProxy.start(t, server.port);
  const sluice = await startSluice([
    ...['--mysql_url', `mysql://root@127.0.0.1:${proxy.port}/`],
    ...['--ping_secs', `${pingSecs}`, '--connect_timeout_secs', `${connectSecs}`, '--kill_timeout_secs', '1'],
    ...[
      '--drain_secs',
      '0',
      '--worker_threads',
      '1',
      '--spill_bytes_max',
      '0',
      '--query_buffer_bytes_max',
      '1048576',
      '--page_bytes_max',
      '1048576',
    ],
  ]);
  t.teardown(() => sluice.kill());
  return { proxy, sluice };
}

/** Posts a statement and waits until the database runs it. */
async function begin(sluice: SluiceProcess, server: PrivateServer, sql: string): Promise<QueryResponse> {
  const { json } = await post(sluice.url, { sql, ...noWait });
  await untilRuns(server, sql);
  return json;
}

/**
 * Polls until the query has ended and its rows are read, or for some seconds. Returns the time that this took and the number of
 * rows.
 */
async function follow(sluice: SluiceProcess, first: QueryResponse, patienceMs = Number.POSITIVE_INFINITY) {
  const begun = performance.now();
  let last = first;
  let rows = last.data.length;
  const passedMs = (): number => Math.round(performance.now() - begun);
  while (last.next_uri !== null && passedMs() < patienceMs) {
    const { head, rowsText } = split((await get(sluice.url, last.next_uri)).text);
    last = head;
    // No cell contains brackets.
    if (rowsText === '') await delay(pollMs);
    else rows += rowsText.split('],[').length;
  }
  return { last, rows, tookMs: passedMs() };
}

/** Counts the idle connections from the hosts that match a pattern, which follows. */
const waiting = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep' AND HOST`;

function quoted(sql: string): string {
  return `'${sql.replaceAll("'", "''")}'`;
}

function idOf(server: PrivateServer, sql: string): Promise<string> {
  return server.sql(`SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = ${quoted(sql)}`);
}

/** The proxy's port of the connection to the database that runs a statement. */
async function portOf(server: PrivateServer, sql: string): Promise<number> {
  const host = await server.sql(`SELECT HOST FROM information_schema.PROCESSLIST WHERE INFO = ${quoted(sql)}`);
  return Number(host.split(':').at(-1));
}

function untilRuns(server: PrivateServer, sql: string): Promise<boolean> {
  return until(async () => (await idOf(server, sql)) !== '');
}

function untilGone(server: PrivateServer, sql: string): Promise<boolean> {
  return until(async () => (await idOf(server, sql)) === '');
}

type Links = Set<{ readonly near: Socket; readonly far: Socket; silent: boolean }>;

/** A proxy to a database that can silence its connections: they stay open, and no bytes pass. */
class SilentProxy {
  readonly port: number;
  readonly #links: Links;
  readonly #state: { silent: boolean };

  private constructor(port: number, links: Links, state: { silent: boolean }) {
    this.port = port;
    this.#links = links;
    this.#state = state;
  }

  static async start(t: Test, port: number): Promise<SilentProxy> {
    const links: Links = new Set();
    const state = { silent: false };
    const listener = createServer((near) => {
      const link = { near, far: connect(port, '127.0.0.1'), silent: state.silent };
      links.add(link);
      for (const [from, to] of [
        [near, link.far],
        [link.far, near],
      ] as const) {
        from.on('error', () => {});
        from.on('data', (chunk) => {
          if (link.silent) from.pause();
          else if (!to.write(chunk)) from.pause();
        });
        to.on('drain', () => {
          if (!link.silent) from.resume();
        });
        // The proxy does not pass on the end of a connection either.
        from.on('close', () => {
          if (!link.silent) to.destroy();
        });
      }
    });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      for (const { near, far } of links) {
        near.destroy();
        far.destroy();
      }
      listener.close();
    });
    return new SilentProxy((listener.address() as AddressInfo).port, links, state);
  }

  /** The proxy's local port of the newest connection to the database. */
  get lastPort(): number {
    return [...this.#links].at(-1)?.far.localPort ?? 0;
  }

  /** @param port the proxy's local port of its connection to the database */
  silence(port: number): void {
    const links = [...this.#links].filter(({ far }) => far.localPort === port);
    if (links.length === 0) throw new Error(`there is no connection from port ${port}`);
    for (const link of links) link.silent = true;
  }

  /**
   * Resets a connection towards the service only; the database does not notice.
   * @param port the proxy's local port of its connection to the database
   */
  cut(port: number): void {
    this.silence(port);
    for (const { near, far } of this.#links) if (far.localPort === port) near.resetAndDestroy();
  }

  /** @param alsoLater whether connections that are opened later are silent too */
  silenceAll(alsoLater = false): void {
    for (const link of this.#links) link.silent = true;
    this.#state.silent = alsoLater;
  }

  /** Passes bytes on connections that are opened from now on. */
  speak(): void {
    this.#state.silent = false;
  }
}
