import { Agent, type IncomingMessage, request } from 'node:http';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { authorization } from '../database.ts';
import { tables } from '../tables.ts';
import { type Contender, type Download, selectOf } from './contender.ts';
import { Sluice, type SluiceOptions } from './sluice.ts';

/** Sluice, from which whole results are read as one body in a format. */
export class Streamed implements Contender {
  readonly #sluice: Sluice;
  readonly #format: string;
  readonly #agent = new Agent({ keepAlive: true });

  private constructor(sluice: Sluice, format: string) {
    this.#sluice = sluice;
    this.#format = format;
  }

  static async start(format: string, database: DatabaseServer, options: SluiceOptions = {}): Promise<Streamed> {
    return new Streamed(await Sluice.start(database, options), format);
  }

  get process(): Contender['process'] {
    return this.#sluice.process;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    await this.#sluice[Symbol.asyncDispose]();
  }

  async download(download: Download): Promise<{ bytes: number }> {
    const response = await this.#post(selectOf(download));
    let bytes = 0;
    for await (const chunk of response) bytes += (chunk as Buffer).length;
    const rows = Number(response.trailers['sluice-rows']);
    const expected = tables[download.table].rows * download.times;
    if (rows !== expected) throw new Error(`sluice, ${this.#format}: ${rows} rows came instead of ${expected}`);
    return { bytes };
  }

  #post(sql: string): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: authorization(), 'content-type': 'application/json' };
      const path = `${this.#sluice.url}/v1/query?format=${this.#format}`;
      const sent = request(path, { method: 'POST', agent: this.#agent, headers });
      sent.on('response', resolve).on('error', reject);
      sent.end(JSON.stringify({ sql }));
    });
  }

  async repeat(): Promise<never> {
    throw new Error('whole results are read in downloads only');
  }
}
