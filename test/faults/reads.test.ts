import t, { type Test } from 'tap';
import { figure, isLong, measured, testMsMax } from '../support/form.ts';
import { startProxy, type TcpProxy } from '../support/proxy.ts';
import { type DatabaseKind, isInstalled, type PrivateServer, startServer } from '../support/servers.ts';
import {
  get,
  post,
  type QueryResponse,
  query,
  type Reply,
  type SluiceProcess,
  split,
  startSluice,
  untilReady,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * A fault during a long read or a long change, on the connection to the database or in the database. A polling client must get
 * the error at once, and never an incomplete result that looks complete. The next statement must work as soon as the database
 * does.
 */

const rowCount = figure(60_000, 1_000_000);
/** The change copies this many rows within the database. */
const changedCount = figure(10_000, rowCount);
/** The client requests the next page when it has read the previous one, so all of this is time that the client waits. */
const pageRows = 1_000;
/** More than ten times the usual time, because the machine may be busy. The measured time is printed. */
const failedMsMax = 10_000;
const pingSecs = 1;
/** Long enough for the login at a database on a busy machine. */
const connectTimeoutSecs = 3;
const silentMsMax = 10 * (2 * pingSecs + connectTimeoutSecs) * 1_000;
/** The time limit for a statement that is sent when the database works again. */
const nextMsMax = 20_000;

/** The statement waits at this row: the buffers between the client and the database have no room for the rest. */
const waitingRow = waitingRowOf(rowCount);
/** Long enough for the fault to occur, and short, because the database may sleep to the end although no client waits any more. */
const waitSecs = 15;
const longChange = `INSERT INTO copies SELECT i, filler, IF(i = ${waitingRowOf(changedCount)}, SLEEP(${waitSecs}), 0)
  FROM numbers WHERE i <= ${changedCount}`;

function waitingRowOf(count: number): number {
  return Math.floor(count * 0.995);
}

function longRead(waitsAt: number): string {
  return `SELECT i, filler, IF(i = ${waitsAt}, SLEEP(${waitSecs}), 0) FROM numbers ORDER BY i`;
}

interface Place {
  readonly server: PrivateServer;
  readonly proxy: TcpProxy;
  readonly sluice: SluiceProcess;
}

interface Fault {
  readonly name: string;
  readonly msMax: number;
  /** The positions in the short form. They differ in the state of the database and in the rows that the client has. */
  readonly percents: Readonly<Record<DatabaseKind, readonly number[]>>;
  readonly strike: (place: Place) => Promise<void>;
  /** Makes the database work again. */
  readonly mend: (place: Place) => Promise<void>;
}

const faults: readonly Fault[] = [
  {
    name: 'the database is killed',
    msMax: failedMsMax,
    percents: { mariadb: [0, 50], mysql: [99] },
    strike: ({ server }) => server.kill(),
    mend: ({ server }) => server.restart(),
  },
  {
    name: 'an operator kills the connection',
    msMax: failedMsMax,
    percents: { mariadb: [1, 99], mysql: [0] },
    strike: async ({ server }) => {
      const [id] = (await busyIds(server)).slice(-1);
      await server.sql(`KILL ${id}`);
    },
    mend: async () => {},
  },
  {
    name: 'the connection is reset',
    msMax: failedMsMax,
    percents: { mariadb: [0, 50], mysql: [1] },
    strike: async ({ proxy }) => proxy.resetAll(),
    mend: async () => {},
  },
  {
    name: 'the connection to the database falls silent',
    msMax: silentMsMax,
    percents: { mariadb: [1, 99], mysql: [50] },
    strike: async ({ proxy }) => proxy.fallSilent(),
    mend: async ({ proxy }) => proxy.speak(),
  },
];

const everywhere = [0, 1, 50, 99];

const kinds = ['mariadb', 'mysql'] satisfies DatabaseKind[];

// Most of the time is spent waiting, so both databases are tested concurrently.
t.jobs = kinds.length;

for (const kind of kinds) {
  t.test(kind, { skip: !isInstalled(kind), timeout: testMsMax, buffered: true }, async (t) => {
    const server = await startServer(kind);
    t.teardown(() => server.stop());
    await fill(server);
    // The same service must continue after each fault.
    const place = await startPlace(t, server);
    const options = { timeout: testMsMax };
    for (const fault of faults) {
      for (const percent of isLong ? everywhere : fault.percents[kind]) {
        await t.test(`${fault.name} when ${percent} % has been read`, options, (t) =>
          readThrough(t, place, fault, percent),
        );
      }
      await t.test(`${fault.name} during a change`, options, (t) => changeThrough(t, place, fault));
    }
  });
}

async function readThrough(t: Test, place: Place, fault: Fault, percent: number): Promise<void> {
  const { server } = place;
  const { url } = place.sluice;
  await untilIdle(server);
  const strikeAt = Math.floor((rowCount * percent) / 100);
  const pagination = { wait_time_secs: 1, max_rows_per_page: pageRows };
  let reply = await post(url, { sql: longRead(percent === 0 ? 1 : waitingRow), pagination });
  let rows = 0;
  let struckMs: number | null = null;
  let striking: Promise<void> | null = null;
  for (;;) {
    const { head, rowsText } = split(reply.text);
    rows = countInOrder(rowsText, rows);
    if (head.next_uri === null) {
      await striking;
      const tookMs = performance.now() - (struckMs ?? Number.NaN);
      t.match(head, { state: 'Failed', error: { code: 90006 }, next_uri: null }, `${head.error?.message}`);
      t.equal(rowsText, '', 'the answer with the error has no rows');
      t.ok(tookMs <= fault.msMax, `the error is reported after ${Math.round(tookMs)} ms`);
      t.ok(rows < rowCount, `${rows} rows came before the error`);
      measured(t, `Failed ${Math.round(tookMs)} ms after the fault, ${rows} of ${rowCount} rows read`);
      break;
    }
    if (striking === null && rows >= strikeAt) {
      const { state } = (await get(url, head.stats_uri)).json;
      t.equal(state, 'Running', 'the fault occurs while the statement runs');
      await until(
        () => busyIds(server),
        (ids) => ids.length > 0,
      );
      struckMs = performance.now();
      // The client continues meanwhile, because its poll is what is measured.
      striking = fault.strike(place);
    }
    if (struckMs !== null) isPatient(struckMs, fault);
    reply = await get(url, head.next_uri);
  }
  await fault.mend(place);
  await nextWorks(t, place);
}

async function changeThrough(t: Test, place: Place, fault: Fault): Promise<void> {
  const { server } = place;
  const { url } = place.sluice;
  await untilIdle(server);
  await server.sql('TRUNCATE long_reads.copies');
  let last = (await post(url, { sql: longChange, pagination: { wait_time_secs: 1 } })).json;
  await until(
    () => busyIds(server),
    (ids) => ids.length > 0,
  );
  t.equal(last.state, 'Running', 'the fault occurs while the statement runs');
  const struckMs = performance.now();
  const striking = fault.strike(place);
  while (last.next_uri !== null) {
    isPatient(struckMs, fault);
    last = (await get(url, last.next_uri)).json;
  }
  const tookMs = performance.now() - struckMs;
  await striking;
  t.match(last, { state: 'Failed', error: { code: 90006 }, affected_rows: 0 }, `${last.error?.message}`);
  t.ok(tookMs <= fault.msMax, `the error is reported after ${Math.round(tookMs)} ms`);
  measured(t, `Failed ${Math.round(tookMs)} ms after the fault`);
  await fault.mend(place);
  await nextWorks(t, place);
  // The database may learn late or never that the client disconnected, and then it completes the change.
  await untilIdle(server);
  const copied = Number(await server.sql('SELECT COUNT(*) FROM long_reads.copies'));
  t.ok(copied === 0 || copied === changedCount, `the change is atomic: ${copied} of ${changedCount} rows`);
}

/** Waits until no statement of a test runs. The database may learn late that the client disconnected. */
async function untilIdle(server: PrivateServer): Promise<void> {
  await until(
    () => busyIds(server),
    (ids) => ids.length === 0,
  );
}

/** Throws when the failure is long overdue. */
function isPatient(struckMs: number, { msMax }: Pick<Fault, 'msMax'>): void {
  if (performance.now() - struckMs > 2 * msMax)
    throw new Error(`no failure is reported ${2 * msMax} ms after the fault`);
}

/** The database works again, so the service must work at once for the same user. */
async function nextWorks(t: Test, { sluice }: Place): Promise<void> {
  const beganMs = performance.now();
  const outcome = await until(
    () => oneRow(sluice),
    ({ isRight }) => isRight,
  );
  const tookMs = performance.now() - beganMs;
  t.ok(tookMs <= nextMsMax, `the next statement works after ${Math.round(tookMs)} ms`);
  measured(t, `the next statement has its answer ${Math.round(tookMs)} ms after the database works`);
  t.match(outcome, { isRight: true });
  // While the connection is silent, it rightly reports that the database cannot be reached.
  t.notMatch(sluice.log(), /"level":50(?!.*"trouble":"database_unavailable")/, 'the log reports no defect');
}

async function oneRow({ url }: SluiceProcess): Promise<{ readonly isRight: boolean; readonly reply: Reply }> {
  const reply = await post(url, { sql: 'SELECT COUNT(*) FROM numbers WHERE i <= 7' });
  return { isRight: reply.status === 200 && (reply.json as QueryResponse).data[0]?.[0] === 7, reply };
}

/** Checks that the rows continue from `before` without a gap, and returns the last one. */
function countInOrder(rowsText: string, before: number): number {
  let last = before;
  if (rowsText === '') return last;
  for (const [i, filler] of JSON.parse(`[${rowsText}]`) as [number, string][]) {
    if (i !== last + 1 || filler !== fillerOf(i)) throw new Error(`after row ${last} came row ${i}: ${filler}`);
    last = i;
  }
  return last;
}

const fillerLength = 300;

function fillerOf(i: number): string {
  return `${i}`.padStart(fillerLength, 'x');
}

/** The connections that run a statement of the test, the newest last. */
async function busyIds(server: PrivateServer): Promise<string[]> {
  const ids = await server.sql(
    `SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query' AND INFO LIKE '%FROM numbers%'
     AND INFO NOT LIKE '%PROCESSLIST%' ORDER BY ID`,
  );
  return ids === '' ? [] : ids.split('\n');
}

async function startPlace(t: Test, server: PrivateServer): Promise<Place> {
  const proxy = await startProxy(t, server.port);
  const sluice = await startSluice([
    ...['--mysql_url', `mysql://root@127.0.0.1:${proxy.port}/long_reads`, '--drain_secs', '0'],
    ...['--ping_secs', `${pingSecs}`, '--connect_timeout_secs', `${connectTimeoutSecs}`],
    // With small buffers in between, the database works on the result until nearly all of it has been read.
    ...['--query_buffer_bytes_max', `${1024 * 1024}`, '--page_bytes_max', `${512 * 1024}`, '--spill_bytes_max', '0'],
  ]);
  t.teardown(() => sluice.kill());
  await untilReady(sluice.url);
  await query(sluice.url, 'SELECT 1');
  return { server, proxy, sluice };
}

async function fill(server: PrivateServer): Promise<void> {
  const digits = Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`).join(' UNION ALL ');
  const places = Array.from({ length: Math.ceil(Math.log10(rowCount)) }, (_, place) => place);
  const value = places.map((place) => `${10 ** place} * d${place}.d`).join(' + ');
  const tables = places.map((place) => `(${digits}) d${place}`).join(', ');
  await server.sql(
    `CREATE DATABASE long_reads; USE long_reads;
     CREATE TABLE numbers (i INT PRIMARY KEY, filler VARCHAR(${fillerLength}) CHARACTER SET ascii NOT NULL);
     CREATE TABLE copies (i INT PRIMARY KEY, filler VARCHAR(${fillerLength}) CHARACTER SET ascii NOT NULL, waited INT);
     INSERT INTO numbers SELECT n, LPAD(n, ${fillerLength}, 'x') FROM (SELECT 1 + ${value} AS n FROM ${tables}) s
       WHERE n <= ${rowCount} ORDER BY n`,
  );
}
