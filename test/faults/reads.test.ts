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
 * A fault in the midst of a long read, or of a long change, on the way to the database or in it. A client that keeps polling
 * has to hear of it at once, and may never take for whole what is not; the next statement has to work as soon as the
 * database does.
 */

const rowCount = figure(100_000, 1_000_000);
/** The next page is asked for when the one before has been read, so that all this is what the client waits for. */
const pageRows = 1_000;
/** More than ten times what it usually takes: a busy machine is no defect. What it takes is measured and printed. */
const failedMsMax = 10_000;
const pingSecs = 1;
const connectTimeoutSecs = 1;
const silentMsMax = 10 * (2 * pingSecs + connectTimeoutSecs) * 1_000;
/** How long a statement may take that is sent when the database works again. */
const nextMsMax = 20_000;

/** The statement waits at this row: the buffers of the way have not room for the rest, or there is none. */
const waitingRow = Math.floor(rowCount * 0.995);
/** Long enough for the fault to come, and short, as the database may wait to its end though nobody waits for it any more. */
const waitSecs = 15;
const longChange = `INSERT INTO copies SELECT i, filler, IF(i = ${waitingRow}, SLEEP(${waitSecs}), 0) FROM numbers`;

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
  readonly strike: (place: Place) => Promise<void>;
  /** Makes the database work again. */
  readonly mend: (place: Place) => Promise<void>;
}

const faults: readonly Fault[] = [
  {
    name: 'the database is killed',
    msMax: failedMsMax,
    strike: ({ server }) => server.kill(),
    mend: ({ server }) => server.restart(),
  },
  {
    name: 'an operator kills the connection',
    msMax: failedMsMax,
    strike: async ({ server }) => {
      const [id] = (await busyIds(server)).slice(-1);
      await server.sql(`KILL ${id}`);
    },
    mend: async () => {},
  },
  {
    name: 'the connection is reset',
    msMax: failedMsMax,
    strike: async ({ proxy }) => proxy.resetAll(),
    mend: async () => {},
  },
  {
    name: 'the way to the database falls silent',
    msMax: silentMsMax,
    strike: async ({ proxy }) => proxy.fallSilent(),
    mend: async ({ proxy }) => proxy.speak(),
  },
];

/** What is tried one after the other, on a server of its own. */
const parts: readonly (readonly [DatabaseKind, readonly Fault[]])[] = [
  ['mariadb', faults.slice(0, 2)],
  ['mariadb', faults.slice(2)],
  ['mysql', faults],
];

// Most of the time is spent waiting, so they are tried side by side.
t.jobs = parts.length;

for (const [kind, faults] of parts) {
  t.test(kind, { skip: !isInstalled(kind), timeout: testMsMax }, async (t) => {
    const server = await startServer(kind);
    t.teardown(() => server.stop());
    await fill(server);
    for (const fault of faults) {
      for (const percent of kind === 'mariadb' || isLong ? [0, 1, 50, 99] : [50]) {
        const options = { timeout: testMsMax };
        await t.test(`${fault.name} when ${percent} % has been read`, options, (t) =>
          readThrough(t, server, fault, percent),
        );
      }
      const options = { timeout: testMsMax };
      await t.test(`${fault.name} during a change`, options, (t) => changeThrough(t, server, fault));
    }
  });
}

async function readThrough(t: Test, server: PrivateServer, fault: Fault, percent: number): Promise<void> {
  const place = await startPlace(t, server);
  const { url } = place.sluice;
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
      t.equal(rowsText, '', 'the answer that tells of it has no rows');
      t.ok(tookMs <= fault.msMax, `it was told after ${Math.round(tookMs)} ms`);
      t.ok(rows < rowCount, `${rows} rows came before`);
      measured(t, `Failed ${Math.round(tookMs)} ms after the fault, ${rows} of ${rowCount} rows read`);
      break;
    }
    if (striking === null && rows >= strikeAt) {
      const { state } = (await get(url, head.stats_uri)).json;
      t.equal(state, 'Running', 'the fault comes while the statement runs');
      await until(
        () => busyIds(server),
        (ids) => ids.length > 0,
      );
      struckMs = performance.now();
      // The client goes on meanwhile, as its poll is what is measured.
      striking = fault.strike(place);
    }
    if (struckMs !== null) isPatient(struckMs, fault);
    reply = await get(url, head.next_uri);
  }
  await fault.mend(place);
  await nextWorks(t, place);
}

async function changeThrough(t: Test, server: PrivateServer, fault: Fault): Promise<void> {
  const place = await startPlace(t, server);
  const { url } = place.sluice;
  await server.sql('TRUNCATE long_reads.copies');
  let last = (await post(url, { sql: longChange, pagination: { wait_time_secs: 1 } })).json;
  await until(
    () => busyIds(server),
    (ids) => ids.length > 0,
  );
  t.equal(last.state, 'Running', 'the fault comes while the statement runs');
  const struckMs = performance.now();
  const striking = fault.strike(place);
  while (last.next_uri !== null) {
    isPatient(struckMs, fault);
    last = (await get(url, last.next_uri)).json;
  }
  const tookMs = performance.now() - struckMs;
  await striking;
  t.match(last, { state: 'Failed', error: { code: 90006 }, affected_rows: 0 }, `${last.error?.message}`);
  t.ok(tookMs <= fault.msMax, `it was told after ${Math.round(tookMs)} ms`);
  measured(t, `Failed ${Math.round(tookMs)} ms after the fault`);
  await fault.mend(place);
  await nextWorks(t, place);
  // The database may hear late, or never, that nobody waits any more, and then it carries the change through.
  await until(
    () => busyIds(server),
    (ids) => ids.length === 0,
  );
  const copied = Number(await server.sql('SELECT COUNT(*) FROM long_reads.copies'));
  t.ok(copied === 0 || copied === rowCount, `the change was made whole or not at all: ${copied} of ${rowCount} rows`);
}

/** Long past its time nobody needs to wait for the failure any more. */
function isPatient(struckMs: number, { msMax }: Pick<Fault, 'msMax'>): void {
  if (performance.now() - struckMs > 2 * msMax) throw new Error(`${2 * msMax} ms after the fault it is not told yet`);
}

/** The database works again: so must the service, for the same user, at once. */
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
  t.notMatch(sluice.log(), /"level":50/, 'the log has no defect');
}

async function oneRow({ url }: SluiceProcess): Promise<{ readonly isRight: boolean; readonly reply: Reply }> {
  const reply = await post(url, { sql: 'SELECT COUNT(*) FROM numbers WHERE i <= 7' });
  return { isRight: reply.status === 200 && (reply.json as QueryResponse).data[0]?.[0] === 7, reply };
}

/** Checks that rows follow each other from the one after `before` on, and says which is the last. */
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

/** The connections on which a statement of the test runs, the newest last. */
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
    // With little room on the way the database is at work on the result until nearly all of it has been read.
    ...['--query_buffer_bytes_max', `${1024 * 1024}`, '--page_bytes_max', `${512 * 1024}`, '--spill_bytes_max', '0'],
  ]);
  t.teardown(() => sluice.kill());
  await untilReady(sluice.url);
  await query(sluice.url, 'SELECT 1');
  return { server, proxy, sluice };
}

async function fill(server: PrivateServer): Promise<void> {
  const digits = Array.from({ length: 10 }, (_, digit) => `SELECT ${digit} AS d`).join(' UNION ALL ');
  const places = Array.from({ length: Math.log10(rowCount) }, (_, place) => place);
  const value = places.map((place) => `${10 ** place} * d${place}.d`).join(' + ');
  const tables = places.map((place) => `(${digits}) d${place}`).join(', ');
  await server.sql(
    `CREATE DATABASE long_reads; USE long_reads;
     CREATE TABLE numbers (i INT PRIMARY KEY, filler VARCHAR(${fillerLength}) CHARACTER SET ascii NOT NULL);
     CREATE TABLE copies (i INT PRIMARY KEY, filler VARCHAR(${fillerLength}) CHARACTER SET ascii NOT NULL, waited INT);
     INSERT INTO numbers SELECT n, LPAD(n, ${fillerLength}, 'x') FROM (SELECT 1 + ${value} AS n FROM ${tables}) s ORDER BY n`,
  );
}
