import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { measured } from '../support/form.ts';
import { seeded } from '../support/random.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

/** The result of a request: its status, or the code of its client's error. */
interface Outcome {
  readonly sentMs: number;
  /** When the client received the answer or the error. */
  readonly endedMs: number;
  readonly result: number | string;
  readonly isLast: boolean;
  /** Whether a connection was opened for it. */
  readonly isNew: boolean;
}

const requestsPerSec = 200;
/** Clients that keep a connection, and clients that open one for each request. */
const keeping = 6;
const opening = 4;

/** On a busy machine, the server may stop accepting this long before connections are refused. */
const closingMs = 500;

const statement = JSON.stringify({ sql: 'SELECT 1' });

function exitOf({ child }: SluiceProcess): Promise<unknown[]> {
  child.ref();
  return once(child, 'exit');
}

function ask(sluice: SluiceProcess, agent: Agent | false): Promise<Outcome> {
  const sentMs = performance.now();
  return new Promise((resolve) => {
    const outgoing = request(
      `${sluice.url}/v1/query`,
      { agent, method: 'POST', auth: 'root:', headers: { 'content-type': 'application/json' } },
      (incoming) => {
        incoming.on('error', fail);
        incoming.on('end', () => {
          const isLast = incoming.headers.connection === 'close';
          resolve({
            sentMs,
            endedMs: performance.now(),
            result: incoming.statusCode as number,
            isLast,
            isNew: !outgoing.reusedSocket,
          });
        });
        incoming.resume();
      },
    );
    const fail = (error: NodeJS.ErrnoException): void =>
      resolve({
        sentMs,
        endedMs: performance.now(),
        result: error.code ?? error.message,
        isLast: false,
        isNew: !outgoing.reusedSocket,
      });
    outgoing.on('error', fail);
    outgoing.end(statement);
  });
}

for (const server of await sharedServers()) {
  t.test(`${server.kind}: a stop under load cuts off no request and no result`, { timeout: 540_000 }, async (t) => {
    const random = seeded(t);
    const sluice = await startSluice(['--mysql_url', server.url, '--drain_secs', '60']);
    t.teardown(() => sluice.kill());
    const exited = exitOf(sluice);

    const sql =
      'SELECT seq.n FROM (WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n < 900) SELECT n FROM c) seq';
    const first = (await post(sluice.url, { sql, pagination: { max_rows_per_page: 30 } })).json;
    const readAll = async (): Promise<number> => {
      let [rows, last] = [first.data.length, first];
      while (last.next_uri !== null) {
        await delay(50);
        last = (await get(sluice.url, last.next_uri)).json;
        rows += last.data.length;
      }
      return rows;
    };

    const outcomes: Outcome[] = [];
    const client = async (agent: Agent | false): Promise<void> => {
      for (;;) {
        await delay(random((2_000 * (keeping + opening)) / requestsPerSec));
        const outcome = await ask(sluice, agent);
        outcomes.push(outcome);
        if (outcome.result === 'ECONNREFUSED') return;
      }
    };
    const agents = Array.from({ length: keeping }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
    t.teardown(() => {
      for (const agent of agents) agent.destroy();
    });
    const clients = [...agents.map(client), ...Array.from({ length: opening }, () => client(false))];
    // The stop lasts until a statement that waits for this lock ends.
    const lock = `stop_${process.pid}_${server.kind}`;
    const holder = server.sql(`SELECT GET_LOCK('${lock}', 0); SELECT SLEEP(600)`).catch(() => {});
    const lockedBy = await until(
      () => server.sql(`SELECT IS_USED_LOCK('${lock}')`),
      (id) => id !== 'NULL',
    );
    const waiting = post(sluice.url, {
      sql: `SELECT GET_LOCK('${lock}', 600)`,
      pagination: { wait_time_secs: 50 },
    });
    const locking = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%LOCK(''${lock}'', 600)%'`;
    // Excludes the statement that counts.
    await until(async () => (await server.sql(`${locking} AND ID <> CONNECTION_ID()`)) === '1');
    await until(() => outcomes.length > 100);
    const read = readAll();
    const stoppedMs = performance.now();
    sluice.child.kill('SIGTERM');
    await until(() => outcomes.filter(({ sentMs }) => sentMs >= stoppedMs).length > 150);
    await server.sql(`KILL ${lockedBy}`);
    await holder;
    await Promise.all(clients);

    t.match((await waiting).json, { state: 'Succeeded', data: [[1]] }, 'a waiting poll gets its answer');
    t.equal(await read, 900, 'a result that is being read is read to its end');
    t.same(await exited, [0, null]);
    const drainMs = performance.now() - stoppedMs;

    const count = (check: (outcome: Outcome) => boolean): number => outcomes.filter(check).length;
    const byResult = JSON.stringify(
      Object.fromEntries(
        [...new Set(outcomes.map(({ result }) => result))].map((result) => [
          result,
          count((outcome) => outcome.result === result),
        ]),
      ),
    );
    measured(t, `${outcomes.length} requests, ended ${Math.round(drainMs)} ms after the signal: ${byResult}`);
    // When the listener closes, the system resets connections that it accepted and the server did not. No byte of their requests
    // has been read.
    const closedMs = Math.min(
      ...outcomes.filter(({ result }) => result === 'ECONNREFUSED').map(({ sentMs }) => sentMs),
    );
    const isTooLate = ({ result, isNew, sentMs }: Outcome): boolean =>
      result === 'ECONNREFUSED' || (result === 'ECONNRESET' && isNew && sentMs >= closedMs - closingMs);
    t.equal(
      count((outcome) => ![200, 503].includes(outcome.result as number) && !isTooLate(outcome)),
      0,
      byResult,
    );
    const before = count(({ sentMs }) => sentMs < stoppedMs);
    const after = count((outcome) => outcome.sentMs >= stoppedMs && !isTooLate(outcome));
    t.ok(before > 100 && after > 100, `${before} before and ${after} after the signal`);
    // Requests that are sent after the first refusal are refused too.
    const refusedMs = Math.min(...outcomes.filter(({ result }) => result === 503).map(({ endedMs }) => endedMs));
    const late = outcomes.filter((outcome) => outcome.sentMs >= refusedMs && !isTooLate(outcome));
    t.ok(late.length > 10, `${late.length} after the first refusal`);
    t.ok(
      late.every(({ result, isLast }) => result === 503 && isLast),
      'each answer closes its connection',
    );
    t.ok(late.every(({ sentMs }) => sentMs < stoppedMs + drainMs));
  });
}

t.test('a stop answers clients for a second if no statement runs', async (t) => {
  const [server] = await sharedServers();
  const sluice = await startSluice(['--mysql_url', server?.url as string, '--drain_secs', '10']);
  t.teardown(() => sluice.kill());
  const { port } = new URL(sluice.url);
  const socket = connect(Number(port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  await once(socket, 'connect');
  const exited = exitOf(sluice);
  sluice.child.kill('SIGTERM');
  await until(
    () => get(sluice.url, '/ready'),
    ({ status }) => status === 503,
  );
  socket.write('GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(2));
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk;
  });
  await once(socket, 'end');
  const heads = text.split('HTTP/1.1 ').slice(1);
  t.equal(heads.length, 2, 'both pipelined requests are answered');
  t.notMatch(heads[0], /connection: close/i);
  t.match(heads[1], /^503 .*connection: close/is);
  t.same(await exited, [0, null]);

  const other = await startSluice(['--mysql_url', server?.url as string, '--drain_secs', '10']);
  t.teardown(() => other.kill());
  const silent = connect(Number(new URL(other.url).port), '127.0.0.1').on('error', () => {});
  t.teardown(() => silent.destroy());
  await once(silent, 'connect');
  // The server accepts connections in order.
  t.equal((await get(other.url, '/health')).status, 200);
  const otherExited = exitOf(other);
  const begin = performance.now();
  other.child.kill('SIGTERM');
  t.same(await otherExited, [0, null]);
  const tookMs = performance.now() - begin;
  // Usually one and a half seconds.
  t.ok(tookMs >= 990 && tookMs < 15_000, `it waits ${Math.round(tookMs)} ms for a silent client`);
});

t.test('a client that does not read its page does not block the stop', async (t) => {
  const [server] = await sharedServers();
  const sluice = await startSluice(['--mysql_url', server?.url as string, '--drain_secs', '1']);
  t.teardown(() => sluice.kill());
  const body = JSON.stringify({ sql: "SELECT REPEAT('x', 15000000)" });
  const socket = connect(Number(new URL(sluice.url).port), '127.0.0.1').on('error', () => {});
  t.teardown(() => socket.destroy());
  const head = `POST /v1/query HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic cm9vdDo=\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  socket.write(head + body);
  await once(socket, 'readable');
  const exited = exitOf(sluice);
  const begin = performance.now();
  sluice.child.kill('SIGTERM');
  t.same(await exited, [0, null]);
  const tookMs = performance.now() - begin;
  // Usually two seconds.
  t.ok(tookMs >= 990 && tookMs < 20_000, `it took ${Math.round(tookMs)} ms`);
});
