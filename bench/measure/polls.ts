import { fork } from 'node:child_process';
import { once } from 'node:events';
import { performance as clock } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import mysql from 'mysql2/promise';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { fire } from '../clients/autocannon.ts';
import type { PollerCommand } from '../clients/pollers.ts';
import { openSessions } from '../contenders/sluice.ts';
import { uriOf } from '../database.ts';
import { type Measurement, percentile } from '../figures.ts';
import { memoryBytes, openFilesMax } from '../processes.ts';
import type { PollsScenario } from '../scenarios.ts';
import type { ServerProcess } from '../server-process.ts';

const sessionIdleSecs = 60;
const lockSecs = 600;
const quietMs = 300;
const patienceMs = 60_000;

/**
 * Many statements that wait, each with a request that waits for it on a connection of its own. They share a few sessions: the
 * first statement of each session waits for a lock of its own, the others for their turn. Then all the first ones get
 * their locks at once. What Sluice's heap grows by counts all that a waiting poll needs: its connection, its request and its
 * query. Resident memory grows by more, and by another amount in each run: by what Node keeps of a connection outside the heap,
 * and by garbage.
 */
export async function measurePolls(
  { polls, sessions, seconds }: PollsScenario,
  sluice: ServerProcess,
  database: DatabaseServer,
): Promise<Measurement> {
  if (openFilesMax() < polls + 1_000) {
    throw new Error(
      `${polls} polls need as many open files and some; the hard limit is ${openFilesMax()} (ulimit -Hn)`,
    );
  }
  const one = [{ sql: 'SELECT 1' }];
  // Once to warm up, from more connections than one so that the heap has its lasting size.
  await fire(sluice.url, new Array(64).fill(one[0]), seconds);
  const { p99Ms: p99AloneMs = Number.NaN } = await fire(sluice.url, one, seconds);

  await using locks = await Locks.take(database, sessions);
  await using pollers = new Pollers();
  await quiet(sluice);
  const empty = await memoryOf(sluice);
  await pollers.ask({ type: 'connect', url: sluice.url, connections: polls });
  await quiet(sluice);
  const connected = await memoryOf(sluice);

  const ids = await openSessions(sluice.url, sessions, sessionIdleSecs);
  await pollers.ask({ type: 'post', bodies: ids.map((id, number) => statement(id, locks.first(number))) });
  await until('all sessions wait for their locks', () => locks.areAllWaitedFor());
  const others = Array.from({ length: polls - sessions }, (_, number) => ids[number % sessions] as string);
  await pollers.ask({ type: 'post', bodies: others.map((id) => statement(id, locks.rest)) });
  await quiet(sluice);
  const waiting = await memoryOf(sluice);

  // Once to warm up: the collection drops compiled code as well.
  await fire(sluice.url, one, seconds);
  const { p99Ms: p99AmongPollsMs = Number.NaN } = await fire(sluice.url, one, seconds);
  const answers = pollers.ask({ type: 'collect', answers: sessions });
  await locks.release();
  const lateMs = await answers;
  return {
    bytesPerConnection: (connected.heapBytes - empty.heapBytes) / polls,
    bytesPerPoll: (waiting.heapBytes - empty.heapBytes) / polls,
    residentBytesPerPoll: (waiting.residentBytes - empty.residentBytes) / polls,
    p99AloneMs,
    p99AmongPollsMs,
    p99AmongPollsRatio: p99AmongPollsMs / p99AloneMs,
    wakeP50Ms: percentile(lateMs, 0.5),
    wakeP99Ms: percentile(lateMs, 0.99),
  };
}

async function memoryOf(sluice: ServerProcess): Promise<{ heapBytes: number; residentBytes: number }> {
  return { heapBytes: await sluice.liveHeapBytes(), residentBytes: memoryBytes(sluice.pid) };
}

function statement(sessionId: string, lock: string): object {
  return {
    // Columns are evaluated from left to right: the second is the time at which the lock was got.
    sql: `SELECT GET_LOCK('${lock}', ${lockSecs}), UNIX_TIMESTAMP(SYSDATE(6))`,
    session: { id: sessionId },
    pagination: { wait_time_secs: -1 },
  };
}

/** Named locks of the database, held by connections that have nothing to do with Sluice. */
class Locks implements AsyncDisposable {
  readonly rest = 'rest';
  readonly #sessions: number;
  readonly #firsts: mysql.Connection;
  readonly #rest: mysql.Connection;

  private constructor(sessions: number, firsts: mysql.Connection, rest: mysql.Connection) {
    this.#sessions = sessions;
    this.#firsts = firsts;
    this.#rest = rest;
  }

  static async take(database: DatabaseServer, sessions: number): Promise<Locks> {
    const [firsts, rest] = [
      await mysql.createConnection(uriOf(database)),
      await mysql.createConnection(uriOf(database)),
    ];
    const locks = new Locks(sessions, firsts, rest);
    for (let number = 0; number < sessions; number++) await firsts.query('DO GET_LOCK(?, 0)', [locks.first(number)]);
    await rest.query('DO GET_LOCK(?, 0)', [locks.rest]);
    return locks;
  }

  first(session: number): string {
    return `first ${session}`;
  }

  /** Whether a statement of every session waits for its lock. */
  async areAllWaitedFor(): Promise<boolean> {
    const sql = `SELECT COUNT(*) AS waiting FROM information_schema.processlist WHERE state = 'User lock'`;
    const [rows] = await this.#rest.query<mysql.RowDataPacket[]>(sql);
    return rows[0]?.['waiting'] === this.#sessions;
  }

  async release(): Promise<void> {
    await this.#firsts.query('DO RELEASE_ALL_LOCKS()');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#firsts.end();
    await this.#rest.end();
  }
}

/** The clients, in a process of their own, so that their memory is not in the way of what is measured. */
class Pollers implements AsyncDisposable {
  readonly #child = fork(fileURLToPath(new URL('../clients/pollers.js', import.meta.url)));
  readonly #exit = once(this.#child, 'exit');

  async ask(command: PollerCommand): Promise<number[]> {
    const answer = once(this.#child, 'message');
    this.#child.send(command);
    const ended = this.#exit.then(() => {
      throw new Error('the clients ended before they had done their work');
    });
    const [result] = (await Promise.race([answer, ended])) as [number[]];
    return result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#exit;
  }
}

/** Resolves when the main thread has next to nothing to do, and so has taken all that was sent to it. */
function quiet(sluice: ServerProcess): Promise<void> {
  return until('sluice is quiet', async () => {
    const before = await sluice.utilization();
    await sleep(quietMs);
    return clock.eventLoopUtilization(await sluice.utilization(), before).utilization < 0.02;
  });
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = clock.now() + patienceMs;
  while (!(await isSo())) {
    if (clock.now() > deadline) throw new Error(`not within ${patienceMs} ms: ${what}`);
    await sleep(50);
  }
}
