import { Agent } from 'node:http';
import { fileURLToPath } from 'node:url';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { fire } from '../clients/autocannon.ts';
import { HttpConnection, type Reply } from '../clients/http-connection.ts';
import { callInflating } from '../clients/inflate.ts';
import { account } from '../database.ts';
import type { Measurement } from '../figures.ts';
import { ServerProcess } from '../server-process.ts';
import { tables } from '../tables.ts';
import { type Contender, type Download, type Load, selectOf } from './contender.ts';

/** Options of the program by their names, without dashes. */
export type SluiceOptions = Readonly<Record<string, number>>;

const sessionIdleSecs = 600;

/** The built program, in a process of its own. */
export class Sluice implements Contender {
  readonly process: ServerProcess;
  readonly #agent = new Agent({ keepAlive: true });
  #sessions: readonly string[] = [];

  private constructor(server: ServerProcess) {
    this.process = server;
  }

  /**
   * @param nodeFlags options of node itself, such as `--cpu-prof`
   * @param node the path of its binary
   */
  static async start(
    database: DatabaseServer,
    options: SluiceOptions = {},
    nodeFlags: readonly string[] = [],
    node?: string,
  ): Promise<Sluice> {
    const args = [
      fileURLToPath(import.meta.resolve('#src/main.js')),
      `--mysql_url=mysql://localhost/${account.user}?socket=${database.socketPath}`,
      '--http_handler_port=0',
      '--log_level=warn',
      // What a client that went away left unread is not to be waited for.
      '--drain_secs=0',
      ...Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    ];
    return new Sluice(await ServerProcess.start(args, nodeFlags, node));
  }

  get url(): string {
    return this.process.url;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    await this.process[Symbol.asyncDispose]();
  }

  async download(download: Download): Promise<{ bytes: number }> {
    const { bytes, rows } = download.gzip
      ? await followPages(download, (path, body) => callInflating(this.#agent, this.url + path, body))
      : await this.#downloadPlain(download);
    const expected = tables[download.table].rows * download.times;
    if (rows !== expected) throw new Error(`sluice: ${rows} rows came instead of ${expected}`);
    return { bytes };
  }

  async #downloadPlain(download: Download): Promise<{ bytes: number; rows: number }> {
    const connection = await HttpConnection.open(this.url);
    try {
      return await followPages(download, (path, body) =>
        body === undefined ? connection.get(path) : connection.post(path, body),
      );
    } finally {
      connection.close();
    }
  }

  async repeat({ sql, connections, seconds, keptSessions }: Load): Promise<Measurement> {
    if (!keptSessions) return fire(this.url, new Array(connections).fill({ sql }), seconds);
    if (this.#sessions.length === 0) this.#sessions = await openSessions(this.url, connections, sessionIdleSecs);
    const bodies = this.#sessions.map((id) => ({ sql, session: { id } }));
    return fire(this.url, bodies, seconds);
  }
}

/** @returns the ids of new sessions, which are kept for so long when they are idle */
export async function openSessions(url: string, count: number, idleSecs: number): Promise<string[]> {
  const connection = await HttpConnection.open(url);
  try {
    const ids: string[] = [];
    while (ids.length < count) {
      const { tail } = await connection.post('/v1/query', { sql: 'DO 0', session: { max_idle_time: idleSecs } });
      const answer = JSON.parse(tail) as { session_id: string; error: unknown };
      if (answer.error !== null) throw new Error(`sluice opened no session: ${tail}`);
      ids.push(answer.session_id);
    }
    return ids;
  } finally {
    connection.close();
  }
}

type Call = (path: string, body?: object) => Promise<Reply>;

async function followPages(download: Download, call: Call): Promise<{ bytes: number; rows: number }> {
  let reply = await call('/v1/query', { sql: selectOf(download) });
  let bytes = reply.bytes;
  for (;;) {
    const next = nextUri(reply);
    if (next === null) break;
    reply = await call(next);
    bytes += reply.bytes;
  }
  const [, rows] = /"result_progress":\{"rows":(\d+)/.exec(reply.tail) ?? [];
  const [, final] = /"final_uri":"([^"]+)"/.exec(reply.tail) ?? [];
  if (rows === undefined || final === undefined)
    throw new Error(`sluice: not an answer of the protocol: ${reply.tail}`);
  await call(final);
  return { bytes, rows: Number(rows) };
}

// The URIs are looked for in the end of an answer: a body of megabytes is not parsed.

export function nextUri({ tail }: Reply): string | null {
  const found = /"next_uri":(?:null|"([^"]+)")\}\n$/.exec(tail);
  if (found === null) throw new Error(`sluice: not an answer of the protocol: ${tail}`);
  return found[1] ?? null;
}

export function finalUri({ tail }: Reply): string {
  const found = /"final_uri":"([^"]+)"/.exec(tail)?.[1];
  if (found === undefined) throw new Error(`sluice: not an answer of the protocol: ${tail}`);
  return found;
}
