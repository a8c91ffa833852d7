import { Agent } from 'node:http';
import { fileURLToPath } from 'node:url';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { fire } from '../clients/autocannon.ts';
import { HttpConnection } from '../clients/http-connection.ts';
import { callInflating } from '../clients/inflate.ts';
import { uriOf } from '../database.ts';
import type { Measurement } from '../figures.ts';
import { ServerProcess } from '../server-process.ts';
import { tables } from '../tables.ts';
import { type Contender, type Download, type Load, selectOf } from './contender.ts';

const rowsPerPage = 10_000;

/** `peers/fastify.ts` in a process of its own, asked for whole results, or for pages by LIMIT and OFFSET. */
export class Fastify implements Contender {
  readonly process: ServerProcess;
  readonly #pages: boolean;
  readonly #agent = new Agent({ keepAlive: true });

  private constructor(server: ServerProcess, pages: boolean) {
    this.process = server;
    this.#pages = pages;
  }

  static async start(
    database: DatabaseServer,
    { pages, gzipLevel }: { readonly pages: boolean; readonly gzipLevel?: number },
  ): Promise<Fastify> {
    const peer = fileURLToPath(new URL('../peers/fastify.js', import.meta.url));
    const args = [peer, uriOf(database), ...(gzipLevel === undefined ? [] : [String(gzipLevel)])];
    return new Fastify(await ServerProcess.start(args), pages);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    await this.process[Symbol.asyncDispose]();
  }

  async download(download: Download): Promise<{ bytes: number }> {
    const { url } = this.process;
    if (download.gzip) return callInflating(this.#agent, `${url}/v1/query`, { sql: selectOf(download) });
    const connection = await HttpConnection.open(url);
    try {
      let bytes = 0;
      for (const sql of this.#statements(download)) bytes += (await connection.post('/v1/query', { sql })).bytes;
      return { bytes };
    } finally {
      connection.close();
    }
  }

  async repeat({ sql, connections, seconds }: Load): Promise<Measurement> {
    return fire(this.process.url, new Array(connections).fill({ sql }), seconds);
  }

  *#statements(download: Download): Iterable<string> {
    if (!this.#pages) {
      yield selectOf(download);
      return;
    }
    for (let offset = 0; offset < tables[download.table].rows; offset += rowsPerPage) {
      yield `SELECT * FROM ${download.table} ORDER BY id LIMIT ${rowsPerPage} OFFSET ${offset}`;
    }
  }
}
