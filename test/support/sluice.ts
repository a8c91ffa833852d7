// The service as its users meet it: a process of its own, spoken to by HTTP alone.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { until } from './until.ts';

export interface SluiceProcess {
  /** Where it listens: http://host:port, without a slash at the end. */
  readonly url: string;
  readonly pid: number;
  readonly child: ChildProcess;
  /** Its stderr so far. */
  log(): string;
  /** Its stdout so far. */
  output(): string;
  /** The memory that the process holds now. Zero where the system has no /proc. */
  memoryBytes(): number;
  /** The most memory that the process has ever held. Zero where the system has no /proc. */
  peakMemoryBytes(): number;
  /** The files and sockets that the process has open. Zero where the system has no /proc. */
  descriptors(): number;
  /** Asks it to stop, as npm start does, and waits for its exit code. */
  stop(): Promise<number>;
  /** Ends it as a crash would. */
  kill(): Promise<void>;
}

export interface Credentials {
  readonly user?: string;
  readonly password?: string;
}

export interface RequestOptions extends Credentials {
  readonly method?: string;
  /** Added to the defaults. A value of undefined takes a default away, such as authorization. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly signal?: AbortSignal;
}

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The body without the newline at its end. Numbers in it have all their digits, which those in json may not. */
  readonly text: string;
  /** The body as it came. */
  readonly body: string;
  /** The body as parsed JSON. Throws if it is something else. */
  readonly json: QueryResponse;
}

export interface QueryResponse {
  readonly id: string;
  readonly session_id: string;
  readonly state: 'Running' | 'Failed' | 'Succeeded';
  readonly error: QueryError | null;
  readonly schema: { readonly fields: readonly Field[]; readonly metadata: object };
  readonly data: readonly (readonly unknown[])[];
  readonly stats: Readonly<Record<string, unknown>>;
  readonly affected_rows: number;
  /** A string if the request asked for integers as strings. */
  readonly last_insert_id: number | string | null;
  readonly warnings: number;
  readonly stats_uri: string;
  readonly final_uri: string;
  readonly kill_uri: string;
  readonly next_uri: string | null;
}

export interface QueryError {
  readonly stats: number;
  readonly code: number;
  readonly sqlstate: string;
  readonly message: string;
  readonly outcome: 'not_started' | 'rolled_back' | 'committed' | 'unknown';
  readonly retryable: boolean;
  readonly backtrace: string;
}

export interface Field {
  readonly name: string;
  readonly data_type: { readonly type: string; readonly precision?: number; readonly scale?: number };
  readonly nullable: boolean;
  readonly default_expr: null;
}

export interface QueryOptions extends RequestOptions {
  /** Members of the request's body beside sql, such as session and pagination. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** Whether to ask for final_uri after the last page, as a client should. The default is true. */
  readonly finish?: boolean;
}

export interface QueryResult {
  /** The last answer: its state and error are the query's. */
  readonly last: QueryResponse;
  /** Every answer in order, the empty ones included. */
  readonly pages: readonly Reply[];
  /** The rows of all the pages. Numbers of more than 53 bits are rounded here; the text of the pages has every digit. */
  readonly rows: readonly (readonly unknown[])[];
}

/**
 * Starts the compiled service on a free port of this host and waits until it listens.
 * @param starter a program with arguments that becomes the service, such as prlimit
 */
export async function startSluice(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  starter: readonly string[] = [],
): Promise<SluiceProcess> {
  const [command, ...rest] = [...starter, process.execPath, MAIN_FILE, '--http_handler_port', '0', ...args];
  const child = spawn(command as string, rest, {
    // A group of its own keeps a terminal's Ctrl-C from it, so that it hears only what the test sends.
    detached: true,
    env: { ...environmentWithoutOptions(), SLUICE_DATA_DIR: dataFolder(), ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const destroy = () => child.kill('SIGKILL');
  process.on('exit', destroy);
  const exited = new Promise<number>((resolve) => {
    child.on('exit', (code, signal) => {
      process.off('exit', destroy);
      resolve(code ?? (signal === null ? -1 : -2));
    });
    child.on('error', () => resolve(-1));
  });
  const log = collect(child.stderr);
  const output = collect(child.stdout);
  const url = await listeningUrl(child, child.stdout, exited).catch((error: unknown) => {
    destroy();
    throw new Error(`${error instanceof Error ? error.message : error}:\n${output()}${log()}`);
  });

  // A service that a test forgets must not keep the test's process alive, as its end is what ends the service.
  const handles = [child, child.stdout as Socket, child.stderr as Socket];
  for (const handle of handles) handle.unref();
  const end = (signal: 'SIGTERM' | 'SIGKILL') => {
    for (const handle of handles) handle.ref();
    child.kill(signal);
    return exited;
  };

  return {
    url,
    pid: child.pid as number,
    child,
    log,
    output,
    memoryBytes: () => statusBytes(child, 'VmRSS'),
    peakMemoryBytes: () => statusBytes(child, 'VmHWM'),
    descriptors: () => (process.platform === 'linux' ? readdirSync(`/proc/${child.pid}/fd`).length : 0),
    stop: () => end('SIGTERM'),
    kill: async () => {
      await end('SIGKILL');
    },
  };
}

/** Posts a body to /v1/query: text and bytes as they are, anything else as JSON. */
export function post(base: string, body: unknown, options: RequestOptions = {}): Promise<Reply> {
  const bytes = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
  return send(`${base}/v1/query`, { method: 'POST', ...options }, bytes);
}

/** Asks for a path, such as a next_uri, below the base. */
export function get(base: string, path: string, options: RequestOptions = {}): Promise<Reply> {
  return send(base + path, { method: 'GET', ...options });
}

/**
 * Runs a statement as a client should: posts it, follows next_uri to the end, and finishes it. Its answers wait for longer
 * than the default, which is a second, so that also on a busy machine the first one has rows.
 */
export async function query(base: string, sql: string, options: QueryOptions = {}): Promise<QueryResult> {
  const pages: Reply[] = [];
  const rows: (readonly unknown[])[] = [];
  const pagination = { wait_time_secs: 20, ...(options.body?.['pagination'] as object | undefined) };
  let reply = await post(base, { sql, ...options.body, pagination }, options);
  for (;;) {
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    pages.push(reply);
    const last = reply.json;
    // A spread would put every row on the stack, and a page may have more rows than that holds.
    for (const row of last.data) rows.push(row);
    if (last.next_uri === null) {
      if (options.finish ?? true) await get(base, last.final_uri, options);
      return { last, pages, rows };
    }
    reply = await get(base, last.next_uri, options);
  }
}

/** Follows next_uri to the end; the last answer. */
export async function follow(base: string, first: QueryResponse, options: RequestOptions = {}): Promise<QueryResponse> {
  let last = first;
  while (last.next_uri !== null) {
    const { next_uri } = last;
    last = (await get(base, next_uri, options)).json;
    // To a statement that was posted without a wait, polls are answered at once, whether or not there is something.
    if (last.next_uri === next_uri) await sleep(POLL_MS);
  }
  return last;
}

/** Waits until the server has closed all connections that are idle, and this process has noticed. */
export async function untilIdleConnectionsClosed(): Promise<void> {
  await until(
    () => Object.values(agent.freeSockets).length,
    (count) => count === 0,
  );
}

/** Waits until the service says that it can take statements. */
export async function untilReady(base: string): Promise<void> {
  await until(
    () => get(base, '/ready'),
    ({ status }) => status === 200,
  );
}

/** An answer without its rows, and the text of the rows, which is not parsed. */
export interface SplitAnswer {
  readonly head: QueryResponse;
  /** `[1,"a"],[2,"b"]` */
  readonly rowsText: string;
}

/** Parts an answer, for tests that read more rows than they could parse. */
export function split(text: string): SplitAnswer {
  const begin = text.indexOf(',"data":[') + ',"data":['.length;
  const end = text.lastIndexOf('],"stats":{');
  const head = JSON.parse(text.slice(0, begin) + text.slice(end)) as QueryResponse;
  return { head, rowsText: text.slice(begin, end) };
}

const MAIN_FILE = fileURLToPath(new URL('../../../dist/main.js', import.meta.url));

const START_MS_MAX = 180_000;
const POLL_MS = 10;

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

async function send(url: string, options: RequestOptions, body?: string | Uint8Array): Promise<Reply> {
  const credentials = Buffer.from(`${options.user ?? 'root'}:${options.password ?? ''}`).toString('base64');
  const defaults: Record<string, string | undefined> = {
    authorization: `Basic ${credentials}`,
    ...(body === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': `${Buffer.byteLength(body)}` }),
    ...options.headers,
  };
  const headers = Object.fromEntries(Object.entries(defaults).filter(([, value]) => value !== undefined));
  const { method = 'GET', signal } = options;
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { agent, method, headers, ...(signal && { signal }) }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('error', reject);
      incoming.on('end', () => {
        resolve(new ReceivedReply(incoming.statusCode ?? 0, incoming.headers, Buffer.concat(chunks).toString()));
      });
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

class ReceivedReply implements Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: string;
  #json: QueryResponse | undefined;

  constructor(status: number, headers: IncomingHttpHeaders, body: string) {
    this.status = status;
    this.headers = headers;
    this.body = body;
    this.text = body.replace(/\n$/, '');
  }

  get json(): QueryResponse {
    this.#json ??= JSON.parse(this.text) as QueryResponse;
    return this.#json;
  }
}

/** The test's own environment, without what a developer may have set for a service of theirs. */
function environmentWithoutOptions(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_')));
}

let folder: string | undefined;

/** Where the services of this process keep what they must, if a test does not say another place. */
function dataFolder(): string {
  if (folder === undefined) {
    const made = mkdtempSync(join(tmpdir(), 'sluice-data-'));
    process.on('exit', () => rmSync(made, { recursive: true, force: true }));
    folder = made;
  }
  return folder;
}

function collect(stream: Readable): () => string {
  // Tests ask for it again and again while they wait for a line.
  const decoder = new StringDecoder();
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    text += decoder.write(chunk);
  });
  return () => text;
}

/** Waits for the line of the service's output that holds its address. */
async function listeningUrl(child: ChildProcess, output: Readable, exited: Promise<number>): Promise<string> {
  const timer = new AbortController();
  const lines = createInterface({ input: output });
  const found = new Promise<string>((resolve) => {
    lines.on('line', (line) => {
      const url = /https?:\/\/[^\s/'"]+:\d+/.exec(line)?.[0];
      if (url !== undefined) resolve(url);
    });
  });
  const failed = exited.then((code) => {
    throw new Error(`the service ended with code ${code} before it listened`);
  });
  const late = sleep(START_MS_MAX, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`the service ${child.pid} did not listen within ${START_MS_MAX} ms`);
  });
  // The two that lose the race are rejected later or never, and nobody waits for them any more.
  failed.catch(() => {});
  late.catch(() => {});
  try {
    return await Promise.race([found, failed, late]);
  } finally {
    timer.abort();
    lines.removeAllListeners('line');
  }
}

function statusBytes(child: ChildProcess, name: 'VmRSS' | 'VmHWM'): number {
  if (process.platform !== 'linux') return 0;
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
}
