import { readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { figure, measured } from '../support/form.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { get, post, query, type Reply, type SluiceProcess, split, startSluice } from '../support/sluice.ts';
import { threadFaults } from '../support/thread-faults.ts';
import { until } from '../support/until.ts';

/*
 * A worker thread that throws, exits or is blocked. Only its own statements may fail, with a reason; the others complete, and
 * another thread replaces it.
 */

t.setTimeout(540_000);

/** Ten times the usual maximum. */
const nextMsMax = 10_000;
const attemptsMax = 10;
const pollMs = 20;
const noWait = { pagination: { wait_time_secs: 0 } };
const repetitions = figure(3, 40);
const MiB = 1024 * 1024;

const rowsOfOthers = 100_000;
/** Number of statements that read rows concurrently. */
const readers = figure(3, 6);
const digit =
  '(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)';
/** A statement with many rows that takes some time. */
const manyRows = `SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n FROM ${[...'abcde'].map((name) => `${digit} ${name}`).join(', ')}`;

// Most of the time is spent waiting, so both databases are tested concurrently.
t.jobs = 2;

for (const server of await sharedServers()) {
  t.test(server.kind, { buffered: true }, async (t) => {
    const sluice = await start(t, server);
    for (const [fault, reason] of [
      ['throws', /its worker thread failed: a test had the thread throw/],
      ['exits', /its worker thread failed: .*code: 7/],
    ] as const) {
      await t.test(`a thread that ${fault} fails only its own statements, and is replaced`, async (t) => {
        const logged = sluice.log().length;
        const failedMs = await fail(t, sluice, fault, reason);
        measured(t, `its statement fails ${failedMs} ms after it was sent`);
        await until(
          () => sluice.log(),
          (log) => log.slice(logged).includes('"msg":"worker_failed"'),
        );
      });

      await t.test(`a thread that ${fault} repeatedly leaves nothing behind`, async (t) => {
        const few = async (): Promise<void> => {
          for (let done = 0; done < repetitions / 2; done++) await fail(t, sluice, fault, reason, 0.5);
        };
        await few();
        const before = await settled(sluice);
        await few();
        const after = await until(
          () => settled(sluice),
          ({ descriptors, threads }) => descriptors <= before.descriptors + 2 && threads <= before.threads,
        );
        t.ok(after.descriptors <= before.descriptors + 2, `descriptors: ${JSON.stringify([before, after])}`);
        t.ok(after.threads <= before.threads, 'threads');
        t.ok(after.memoryBytes < before.memoryBytes + 40 * MiB, 'memory');
        t.notMatch(sluice.log(), /MaxListenersExceeded/);
        await t.resolves(untilNoneRuns(server), 'no connection of a failed thread is left in the database');
      });
    }

    await t.test('a thread that is blocked for too long is replaced', async (t) => {
      const sluice = await start(t, server, ['--worker_stall_secs', '2']);
      const tookMs = await fail(
        t,
        sluice,
        'hangs',
        /its worker thread did not answer for 2 s and was replaced \(--worker_stall_secs\)/,
      );
      measured(t, `--worker_stall_secs 2: its statement fails after ${tookMs} ms`);
    });

    await t.test('a thread that is blocked for a short time continues, and nothing fails', async (t) => {
      const logged = sluice.log().length;
      await spread(sluice);
      const others = Array.from({ length: readers + 2 }, () => read(sluice, manyRows));
      const blocked = query(sluice.url, `SELECT 'back' ${threadFaults.blocks}`);
      let isBack = false;
      void blocked.then(() => {
        isBack = true;
      });
      let whileBlocked = 0;
      const one = async (statement: number): Promise<void> => {
        t.same((await query(sluice.url, `SELECT ${statement}`)).rows, [[statement]]);
        if (!isBack) whileBlocked++;
      };
      // Statements that start before the block is detected may wait for the thread.
      const statements: Promise<void>[] = [];
      while (!isBack) {
        statements.push(one(statements.length));
        await delay(100);
      }
      await Promise.all(statements);
      t.ok(whileBlocked > 0, `${whileBlocked} of ${statements.length} are answered while the thread is blocked`);
      t.same((await blocked).rows, [['back']]);
      for (const { last, rows } of await Promise.all(others)) {
        t.match(last, { state: 'Succeeded' });
        t.equal(rows, rowsOfOthers);
      }
      t.notMatch(sluice.log().slice(logged), /worker_failed|connection_lost/);
    });
  });
}

function start(t: Test, server: DatabaseServer, args: readonly string[] = []): Promise<SluiceProcess> {
  const preload = new URL('../support/thread-faults.js', import.meta.url).href;
  const common = ['--mysql_url', server.url, '--worker_threads', '2', '--drain_secs', '0', '--ping_secs', '1'];
  return startSluice([...common, ...args], { NODE_OPTIONS: `--import ${preload}` }).then((sluice) => {
    t.teardown(() => sluice.kill());
    return sluice;
  });
}

/** Opens connections on both threads. */
async function spread(sluice: SluiceProcess): Promise<void> {
  await Promise.all(Array.from({ length: 8 }, () => query(sluice.url, 'SELECT SLEEP(0.1)')));
}

/**
 * Makes one of two threads fail while both have statements, and checks that only its own statements fail.
 * @returns the milliseconds until its statement has failed
 */
async function fail(t: Test, sluice: SluiceProcess, fault: keyof typeof threadFaults, reason: RegExp, secs = 3) {
  for (let attempt = 1; ; attempt++) {
    const { failedMs, failed, count } = await failOnce(t, sluice, fault, reason, secs);
    const hasBoth = failed > 0 && failed < count;
    // Connections are reused on any thread, and a thread that is slow to answer gets no new ones, so the distribution of the
    // statements is random. Short statements may all end before the fault.
    if (!hasBoth && secs > 1 && attempt < attemptsMax) continue;
    if (secs > 1) t.ok(hasBoth, `${failed} of ${count} were on that thread`);
    return failedMs;
  }
}

async function failOnce(
  t: Test,
  sluice: SluiceProcess,
  fault: keyof typeof threadFaults,
  reason: RegExp,
  secs: number,
) {
  await spread(sluice);
  const sleeping = await Promise.all(
    Array.from({ length: 6 }, () => post(sluice.url, { sql: `SELECT SLEEP(${secs}), 1`, ...noWait })),
  );
  const reading = await Promise.all(
    Array.from({ length: readers }, () => post(sluice.url, { sql: manyRows, ...noWait })),
  );
  const marking = performance.now();
  const marked = await post(sluice.url, { sql: `SELECT SLEEP(${secs}) ${threadFaults[fault]}`, ...noWait });
  const { last } = await follow(sluice, marked);
  t.match(last, { state: 'Failed', error: { code: 90006, message: reason } }, last.error?.message ?? '');
  const failedMs = Math.round(performance.now() - marking);
  const begun = performance.now();
  for (const { rows } of await Promise.all([1, 2, 3, 4].map((n) => query(sluice.url, `SELECT ${n}`)))) {
    t.equal(rows.length, 1);
  }
  const tookMs = Math.round(performance.now() - begun);
  t.ok(tookMs < nextMsMax, `the next statements take ${tookMs} ms`);
  const ends = await Promise.all([
    ...sleeping.map((first) => follow(sluice, first)),
    ...reading.map((first) => follow(sluice, first)),
  ]);
  let failed = 0;
  for (const [index, { last, rows }] of ends.entries()) {
    if (last.state === 'Failed') {
      failed++;
      t.match(last.error, { code: 90006, message: reason });
    } else {
      t.equal(rows, index < sleeping.length ? 1 : rowsOfOthers, 'the others are complete');
    }
  }
  return { failedMs, failed, count: ends.length };
}

/** Reads to the end. Rows are counted and not parsed. */
async function follow(sluice: SluiceProcess, first: Reply) {
  let rows = 0;
  for (let reply = first; ; ) {
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    const { head: last, rowsText } = split(reply.text);
    rows += rowsText === '' ? 0 : rowsText.split('],[').length;
    if (last.next_uri === null) {
      await get(sluice.url, last.final_uri);
      return { last, rows };
    }
    // Most of these queries do not wait for rows, so polling without a pause would cost more than the rest of the test.
    if (rowsText === '') await delay(pollMs);
    reply = await get(sluice.url, last.next_uri);
  }
}

async function read(sluice: SluiceProcess, sql: string) {
  return follow(sluice, await post(sluice.url, { sql, pagination: { wait_time_secs: 20 } }));
}

/** The resources of the process when it is idle. */
async function settled(sluice: SluiceProcess) {
  await delay(500);
  if (process.platform !== 'linux') return { descriptors: 0, threads: 0, memoryBytes: 0 };
  const folder = `/proc/${sluice.pid}`;
  const threads = readdirSync(`${folder}/task`).length;
  // The descriptors of a thread's event loop. Sockets come and go with the connections of the clients and to the database.
  const descriptors = readdirSync(`${folder}/fd`).filter((fd) => !linkOf(`${folder}/fd/${fd}`).startsWith('socket:'));
  return { descriptors: descriptors.length, threads, memoryBytes: sluice.memoryBytes() };
}

/** The target of a descriptor; empty if it was just closed. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return 'socket:';
  }
}

/** Waits until no statement of the service runs in the database. */
async function untilNoneRuns(server: DatabaseServer): Promise<void> {
  const running = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(0.5)%'`;
  await until(
    () => server.sql(running),
    (count) => count === '0',
  );
}
