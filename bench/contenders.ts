import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';
import autocannon from 'autocannon';
import type { DatabaseServer } from '../test/support/servers.ts';
import { childrenCpuMs, peakMemoryBytes, processCpuMs, resetPeakMemory, threadCpuMs } from './processes.ts';
import {
  type ContenderName,
  type DownloadScenario,
  type RequestsScenario,
  type Scenario,
  tables,
} from './scenarios.ts';

/** What one contender did in one round. Figures that do not apply are left out. */
export interface Measurement {
  wallMs: number;
  /** CPU time of the contender's process, all threads. */
  cpuMs?: number;
  threadsCpuMs?: Record<string, number>;
  /** CPU time of the database in the same while. */
  databaseCpuMs?: number;
  peakBytes?: number;
  bytes?: number;
  rows?: number;
  requests?: number;
  perSecond?: number;
  p50Ms?: number;
  p99Ms?: number;
}

export interface Contender extends AsyncDisposable {
  run(scenario: Scenario): Promise<Measurement>;
}

const rowsPerPage = 10_000;
const user = 'bench';
const password = 'bench';

export async function startContender(name: ContenderName, server: DatabaseServer): Promise<Contender> {
  switch (name) {
    case 'sluice':
      return startSluice(server);
    case 'native client':
      return nativeClient(server);
    case 'floor':
      return startFloor(server);
    case 'fastify whole':
      return startFastify(server, false);
    case 'fastify pages':
      return startFastify(server, true);
  }
}

/** The account that all contenders use; the tables are in a schema of its name. */
export const setUp = `CREATE DATABASE ${user}; CREATE USER ${user}@'%' IDENTIFIED BY '${password}', ${user}@localhost
  IDENTIFIED BY '${password}'; GRANT ALL ON ${user}.* TO ${user}@'%', ${user}@localhost`;

function select(scenario: DownloadScenario): string {
  const limit = scenario.rows === tables[scenario.table].rows ? '' : ` LIMIT ${scenario.rows}`;
  return `SELECT * FROM ${scenario.table}${limit}`;
}

async function startSluice(server: DatabaseServer): Promise<Contender> {
  const main = new URL(import.meta.resolve('#src/main.js')).pathname;
  const child = spawn(
    process.execPath,
    [
      main,
      '--mysql_url',
      `mysql://localhost/${user}?socket=${server.socketPath}`,
      '--http_handler_port',
      '0',
      '--log_level',
      'warn',
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const url = await addressOf(child);
  return httpContender(child, server, url, async (scenario, agent) => {
    let reply = await call(agent, `${url}/v1/query`, {
      sql: select(scenario),
      pagination: { max_rows_per_page: rowsPerPage },
    });
    let bytes = reply.bytes;
    let first = reply;
    for (;;) {
      const next = /"next_uri":(?:null|"([^"]+)")\}$/.exec(reply.tail);
      if (next === null) throw new Error(`not an answer of the protocol: ${reply.tail}`);
      if (next[1] === undefined) break;
      reply = await call(agent, url + next[1]);
      bytes += reply.bytes;
      first = reply;
    }
    const rows = Number(/"result_progress":\{"rows":(\d+)/.exec(first.tail)?.[1] ?? 0);
    const final = /"final_uri":"([^"]+)"/.exec(reply.tail)?.[1];
    if (final !== undefined) await call(agent, url + final);
    return { bytes, rows };
  });
}

async function startFastify(server: DatabaseServer, pages: boolean): Promise<Contender> {
  const child = spawn(process.execPath, [peer('fastify'), uriOf(server)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await addressOf(child);
  return httpContender(child, server, url, async (scenario, agent) => {
    if (!pages) return { bytes: (await call(agent, `${url}/v1/query`, { sql: select(scenario) })).bytes };
    let bytes = 0;
    for (let offset = 0; offset < scenario.rows; offset += rowsPerPage) {
      const sql = `SELECT * FROM ${scenario.table} ORDER BY id LIMIT ${rowsPerPage} OFFSET ${offset}`;
      bytes += (await call(agent, `${url}/v1/query`, { sql })).bytes;
    }
    return { bytes };
  });
}

function httpContender(
  child: ChildProcess,
  server: DatabaseServer,
  url: string,
  download: (scenario: DownloadScenario, agent: Agent) => Promise<{ bytes: number; rows?: number }>,
): Contender {
  const pid = child.pid as number;
  const agent = new Agent({ keepAlive: true });
  return {
    run: (scenario) =>
      measured(pid, server, () => (scenario.kind === 'download' ? download(scenario, agent) : fire(url, scenario))),
    [Symbol.asyncDispose]: async () => {
      agent.destroy();
      child.kill();
      await once(child, 'exit');
    },
  };
}

/** Runs something and reads what the process and the database spent on it. */
async function measured(pid: number, server: DatabaseServer, work: () => Promise<object>): Promise<Measurement> {
  resetPeakMemory(pid);
  const before = threadCpuMs(pid);
  const databaseBefore = processCpuMs(server.pid);
  const started = performance.now();
  const result = await work();
  const wallMs = performance.now() - started;
  const threadsCpuMs: Record<string, number> = {};
  let cpuMs = 0;
  for (const [thread, time] of threadCpuMs(pid)) {
    const spent = time - (before.get(thread) ?? 0);
    cpuMs += spent;
    if (spent > 0) threadsCpuMs[thread] = spent;
  }
  const databaseCpuMs = processCpuMs(server.pid) - databaseBefore;
  return { wallMs, ...result, cpuMs, threadsCpuMs, databaseCpuMs, peakBytes: peakMemoryBytes(pid) };
}

function nativeClient(server: DatabaseServer): Contender {
  return {
    run: async (scenario) => {
      if (scenario.kind !== 'download') throw new Error('the native client takes part in downloads only');
      const flags = ['--no-defaults', '--quick', '--batch', '--skip-column-names', `--socket=${server.socketPath}`];
      const cpuBefore = childrenCpuMs();
      const started = performance.now();
      const child = spawn('mariadb', [...flags, `-u${user}`, `-p${password}`, user, '-e', select(scenario)], {
        stdio: ['ignore', 'ignore', 'inherit'],
      });
      const [code] = await once(child, 'exit');
      if (code !== 0) throw new Error(`the native client ended with ${code}`);
      return { wallMs: performance.now() - started, cpuMs: childrenCpuMs() - cpuBefore };
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

async function startFloor(server: DatabaseServer): Promise<Contender> {
  const child = spawn(process.execPath, [peer('floor'), uriOf(server)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (line: string): Promise<Measurement & { latencies?: number[] }> => {
    child.stdin.write(`${line}\n`);
    return JSON.parse((await lines.next()).value as string);
  };
  await ask('loop 0.2 SELECT 1');
  return {
    run: (scenario) =>
      measured(child.pid as number, server, async () => {
        if (scenario.kind === 'download') return ask(`rows ${select(scenario)}`);
        const { latencies = [], wallMs } = await ask(`loop ${scenario.seconds} ${scenario.sql}`);
        return latencyFigures(latencies, wallMs);
      }),
    [Symbol.asyncDispose]: async () => {
      child.stdin.end();
      await once(child, 'exit');
    },
  };
}

/** Small statements by autocannon. Its own percentiles are whole milliseconds, so each answer's time is kept. */
async function fire(url: string, scenario: RequestsScenario): Promise<object> {
  const latencies: number[] = [];
  const started = performance.now();
  const options = {
    url: `${url}/v1/query`,
    method: 'POST',
    connections: scenario.connections,
    duration: scenario.seconds,
    headers: { 'content-type': 'application/json', authorization: basic() },
    body: JSON.stringify({ sql: scenario.sql }),
  } as const;
  const failures = await new Promise<number>((resolve, reject) => {
    const run = autocannon(options, (error, result) =>
      error ? reject(error) : resolve(result.non2xx + result.errors),
    );
    run.on('response', (_client, _statusCode, _bytes, responseTime) => latencies.push(responseTime));
  });
  if (failures > 0) throw new Error(`${failures} requests were not answered with 200`);
  return latencyFigures(latencies, performance.now() - started);
}

function latencyFigures(latencies: number[], wallMs: number): object {
  latencies.sort((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
  return {
    requests: latencies.length,
    perSecond: (latencies.length / wallMs) * 1_000,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
  };
}

interface Reply {
  readonly bytes: number;
  /** The end of the body, where the protocol has its URIs. */
  readonly tail: string;
}

/** One request whose body is thrown away as it comes. */
function call(agent: Agent, url: string, body?: object): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      agent,
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'content-type': 'application/json', authorization: basic() },
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      let bytes = 0;
      let tail: Buffer = Buffer.alloc(0);
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        tail = chunk.length >= 2_000 ? chunk : Buffer.concat([tail.subarray(-2_000), chunk]);
      });
      response.on('end', () => {
        const text = tail.subarray(-2_000).toString();
        if (response.statusCode === 200) resolve({ bytes, tail: text });
        else reject(new Error(`status ${response.statusCode}: ${text}`));
      });
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function basic(): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

function uriOf(server: DatabaseServer): string {
  return `mysql://${user}:${password}@127.0.0.1:${server.port}/${user}?socketPath=${encodeURIComponent(server.socketPath)}`;
}

function peer(name: string): string {
  return new URL(`./peers/${name}.js`, import.meta.url).pathname;
}

async function addressOf(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('the output of the process is not piped');
  for await (const line of createInterface({ input: child.stdout })) {
    const address = /http:\/\/\S+/.exec(line)?.[0];
    if (address === undefined) continue;
    child.stdout.resume();
    return address;
  }
  throw new Error('the process ended before it listened');
}
