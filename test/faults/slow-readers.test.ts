import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, isLong, measured, testMsMax } from '../support/form.ts';
import { type DatabaseKind, isInstalled, type PrivateServer, startServer } from '../support/servers.ts';
import { get, post, type Reply, type SluiceProcess, split, startSluice } from '../support/sluice.ts';
import { describeWindows, medianP99Ms, p99MsMax, startTraffic, type Window } from '../support/traffic.ts';
import { until } from '../support/until.ts';

/*
 * Many clients that read large results slowly. They stay within the memory for rows and delay no other client, and each gets its
 * complete result, even if it pauses for longer than the `net_write_timeout` of the database.
 */

const MIB = 1024 * 1024;
const readerCount = figure(24, 200);
const pageEverySecs = figure(2, 10);
/** More than the buffers of a query and of its sockets hold, so that the database must wait for the reader. */
const resultRows = 20_000;
const rowLength = 1_000;
const pageRows = 100;
/** The long form uses the default of the database, one minute. */
const shortNetWriteTimeoutSecs = 3;
const windowMs = figure(1_000, 20_000);
const windowCount = figure(3, 11);
/** How many clients read the rest of their results at once. */
const finishing = 8;

/** Room for the minimum of each reader, a quarter of a MiB, and for a page of each. */
const bufferBytesMax = figure(24, 256) * MIB;
/**
 * Added to the buffers: for each reader the page that can be requested again and the cost of a connection, and garbage of the
 * bytes that passed through, which a busy machine collects late: 60 readers took 71 to 95 MiB. All results together are far
 * larger.
 */
const allowanceBytes = 128 * MIB + (readerCount * MIB) / 2;

const kinds = ['mariadb', 'mysql'] satisfies DatabaseKind[];

// Most of the time is spent waiting, so both databases are tested concurrently.
t.jobs = kinds.length;

for (const kind of kinds) {
  const options = { skip: !isInstalled(kind), timeout: testMsMax };
  t.test(`${kind}: a reader that pauses for longer than net_write_timeout loses no rows`, options, async (t) => {
    const server = await start(t, kind);
    const netWriteTimeoutSecs = Number(await server.sql('SELECT @@GLOBAL.net_write_timeout'));
    // With small buffers in between, the database waits.
    const room = ['--query_buffer_bytes_max', `${MIB}`, '--page_bytes_max', `${MIB}`, '--spill_bytes_max', '0'];
    const place = await startPlace(t, server, room);
    const restSecs = netWriteTimeoutSecs + 2;
    const reader = new Reader(place);
    await reader.begin();
    await delay(restSecs * 1_000);
    await reader.finish();
    t.equal(reader.failure, null);
    t.equal(reader.rows, resultRows);
    measured(t, `${reader.rows} rows, with a rest of ${restSecs} s (net_write_timeout ${netWriteTimeoutSecs} s)`);
  });
}

for (const kind of kinds) {
  // Memory and queues belong to the service, so one database is enough.
  const skip = !isInstalled(kind) || (!isLong && kind === 'mysql' ? 'only in the long form' : false);
  // This test measures times and memory, so nothing runs concurrently.
  const options = { skip, timeout: testMsMax, buffered: false };
  t.test(
    `${kind}: slow readers stay within their memory, delay no other client and lose no rows`,
    options,
    async (t) => {
      const server = await start(t, kind);
      await readBesideOthers(t, await startPlace(t, server, ['--buffer_bytes_max', `${bufferBytesMax}`]));
    },
  );
}

async function start(t: Test, kind: DatabaseKind): Promise<PrivateServer> {
  const server = await startServer(kind, isLong ? [] : [`--net-write-timeout=${shortNetWriteTimeoutSecs}`]);
  t.teardown(() => server.stop());
  return server;
}

async function readBesideOthers(t: Test, place: Place): Promise<void> {
  const { sluice, login } = place;
  const traffic = startTraffic(sluice.url, { login: { user: `${login.user}_n` } });
  // The first result lets the engine compile hot functions and the process allocate its permanent memory.
  const warm = new Reader(place);
  await warm.begin();
  await warm.finish();
  await traffic.windows(1, windowMs);
  const before = await traffic.windows(windowCount, windowMs);
  const beforeBytes = sluice.memoryBytes();

  const readers = Array.from({ length: readerCount }, () => new Reader(place));
  let isOver = false;
  let begun = 0;
  const reading = Promise.all(
    readers.map(async (reader, number) => {
      // Spreads the page requests of the readers.
      await delay((number / readerCount) * pageEverySecs * 1_000);
      await reader.begin();
      begun++;
      while (!isOver && (await reader.turn())) await delay(pageEverySecs * 1_000);
    }),
  );
  let peakBytes = 0;
  let bufferedBytes = 0;
  const sample = setInterval(() => {
    peakBytes = Math.max(peakBytes, sluice.memoryBytes() - beforeBytes);
  }, 100);
  const look = setInterval(async () => {
    const { text } = await get(sluice.url, '/metrics');
    bufferedBytes = Math.max(bufferedBytes, Number(/^sluice_buffered_bytes (\d+)$/m.exec(text)?.[1]));
  }, 500);
  // Starting many statements at once is a different load. Only the time in which they are read is measured.
  const start: Window[] = [];
  while (begun < readerCount) start.push(...(await traffic.windows(1, windowMs)));
  const beside = await traffic.windows(windowCount, windowMs);
  // On a busy machine a page may take longer than the windows.
  await until(() => readers.every(({ slowPages, failure }) => slowPages >= 2 || failure !== null));
  isOver = true;
  await reading;
  // The rest is read at once. A reader whose connection the database had closed would get an error now.
  const unfinished = [...readers];
  const finish = async (): Promise<void> => {
    for (let reader = unfinished.pop(); reader !== undefined; reader = unfinished.pop()) await reader.finish();
  };
  await Promise.all(Array.from({ length: finishing }, finish));
  clearInterval(sample);
  clearInterval(look);
  await traffic.stop();

  const lost = readers.filter(({ failure }) => failure !== null);
  t.strictSame(lost.map(({ failure }) => failure).slice(0, 3), [], `${lost.length} readers were lost`);
  const short = readers.filter(({ rows }) => rows !== resultRows);
  t.equal(short.length, 0, 'each reader has all rows');
  t.ok(
    readers.every(({ slowPages }) => slowPages >= 2),
    'each reader read slowly',
  );
  const bufferedMib = bufferedBytes / MIB;
  t.ok(bufferedMib > 1 && bufferedMib <= bufferBytesMax / MIB, `rows took ${bufferedMib.toFixed(1)} MiB at most`);
  const grownMib = peakBytes / MIB;
  const boundMib = (bufferBytesMax + allowanceBytes) / MIB;
  t.ok(grownMib <= boundMib, `memory grew by ${grownMib.toFixed(0)} MiB; the limit is ${boundMib} MiB`);
  t.strictSame(traffic.wrong.slice(0, 3), [], 'all other clients got correct answers');
  const [aloneMs, besideMs] = [medianP99Ms(before), medianP99Ms(beside)];
  t.ok(
    besideMs <= p99MsMax,
    `p99 of other clients: ${aloneMs.toFixed(1)} ms alone, ${besideMs.toFixed(1)} ms with slow readers; the limit is ${p99MsMax} ms`,
  );
  t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
  t.comment(
    `p99 in ms (statements) alone: ${describeWindows(before)}; while they begin: ${describeWindows(start)}; beside: ${describeWindows(beside)}`,
  );
  measured(
    t,
    `${readerCount} readers of ${((resultRows * rowLength) / MIB).toFixed(0)} MiB each, a page per ${pageEverySecs} s: ` +
      `rows at most ${bufferedMib.toFixed(0)} MiB, memory +${grownMib.toFixed(0)} MiB (budget ${bufferBytesMax / MIB} MiB, bound ${boundMib} MiB); ` +
      `p99 of others ${aloneMs.toFixed(1)} ms alone, ${besideMs.toFixed(1)} ms beside; ${lost.length} lost`,
  );
}

interface Place {
  readonly sluice: SluiceProcess;
  readonly login: { readonly user: string };
}

/** A client that reads a result page by page at its own pace. */
class Reader {
  readonly #sluice: SluiceProcess;
  readonly #login: Place['login'];
  #next: string | null = null;
  #final = '';
  rows = 0;
  slowPages = 0;
  /** The first failure, or null. */
  failure: string | null = null;

  constructor({ sluice, login }: Place) {
    this.#sluice = sluice;
    this.#login = login;
  }

  async begin(): Promise<void> {
    const sql = `SELECT i, REPEAT('x', ${rowLength}) FROM numbers ORDER BY i LIMIT ${resultRows}`;
    const pagination = { max_rows_per_page: pageRows, wait_time_secs: 2 };
    this.#take(await post(this.#sluice.url, { sql, pagination }, this.#login));
  }

  /** Reads one page. Returns whether there is another. */
  async turn(): Promise<boolean> {
    if (this.#next === null) return false;
    this.#take(await get(this.#sluice.url, this.#next, this.#login));
    this.slowPages++;
    return this.#next !== null;
  }

  /** Reads the rest without pauses. */
  async finish(): Promise<void> {
    while (this.#next !== null) this.#take(await get(this.#sluice.url, this.#next, this.#login));
    if (this.#final !== '') await get(this.#sluice.url, this.#final, this.#login);
  }

  #take(reply: Reply): void {
    if (reply.status !== 200) {
      this.failure = `${reply.status} ${reply.text}`;
      this.#next = null;
      return;
    }
    const { head, rowsText } = split(reply.text);
    this.#next = head.next_uri;
    this.#final = head.final_uri;
    if (head.state === 'Failed') this.failure = `${head.error?.code} ${head.error?.message}`;
    if (rowsText === '') return;
    // A row begins with its number, and the numbers are consecutive.
    let count = 1;
    for (let at = rowsText.indexOf('],['); at >= 0; at = rowsText.indexOf('],[', at + 1)) count++;
    const last = Number(/\[(\d+),"x*"\]$/.exec(rowsText.slice(-2 * rowLength))?.[1]);
    if (!rowsText.startsWith(`[${this.rows + 1},`) || last !== this.rows + count) {
      this.failure ??= `${count} rows came after row ${this.rows}, the last of which is ${last}`;
    }
    this.rows += count;
  }
}

async function startPlace(t: Test, server: PrivateServer, args: readonly string[]): Promise<Place> {
  const user = `slow_${randomBytes(4).toString('hex')}`;
  await server.sql(
    `CREATE DATABASE ${user}; USE ${user}; CREATE TABLE numbers (i INT PRIMARY KEY);
     CREATE USER ${user}@'%', ${user}_n@'%'; GRANT ALL ON ${user}.* TO ${user}@'%', ${user}_n@'%';
     SET SESSION ${server.kind === 'mysql' ? 'cte_max_recursion_depth' : 'max_recursive_iterations'} = 100000;
     INSERT INTO numbers WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < ${resultRows})
       SELECT i FROM c`,
  );
  const dataDir = await mkdtemp(join(tmpdir(), 'slow-readers-'));
  const sluice = await startSluice([
    ...['--mysql_url', `mysql://root@127.0.0.1:${server.port}/${user}`, '--drain_secs', '0'],
    ...[
      '--connections_max',
      `${readerCount + 20}`,
      '--connections_per_user_max',
      `${readerCount + 10}`,
      '--result_timeout_secs',
      '600',
    ],
    ...['--data_dir', dataDir],
    ...args,
  ]);
  t.teardown(async () => {
    await sluice.kill();
    await rm(dataDir, { recursive: true, force: true });
  });
  return { sluice, login: { user } };
}
