import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { account } from '../database.ts';
import { tables } from '../tables.ts';
import { type Contender, type Download, selectOf } from './contender.ts';
import { Sluice, type SluiceOptions } from './sluice.ts';

/** Sluice, from which curl reads whole results as one body in a format: a program of its own, as the native client is. */
export class Streamed implements Contender {
  readonly #sluice: Sluice;
  readonly #format: string;

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

  [Symbol.asyncDispose](): Promise<void> {
    return this.#sluice[Symbol.asyncDispose]();
  }

  async download(download: Download): Promise<{ bytes: number }> {
    const headers = await this.#post(selectOf(download));
    const { bytes, rows } = /^Sluice-Rows: (?<rows>\d+)\s+(?<bytes>\d+)$/im.exec(headers)?.groups ?? {};
    const expected = tables[download.table].rows * download.times;
    if (Number(rows) !== expected) throw new Error(`sluice, ${this.#format}: ${rows} rows came instead of ${expected}`);
    return { bytes: Number(bytes) };
  }

  /** @returns the head of the answer, its trailers, and the bytes of its body */
  async #post(sql: string): Promise<string> {
    const { user, password } = account;
    const args = [
      ...['--silent', '--show-error', '--fail', '--output', '/dev/null', '--dump-header', '-'],
      ...['--write-out', '%{size_download}', '--user', `${user}:${password}`, '--json', JSON.stringify({ sql })],
      `${this.#sluice.url}/v1/query?format=${this.#format}`,
    ];
    const curl = spawn('curl', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [[code], output] = await Promise.all([once(curl, 'exit'), text(curl.stdout)]);
    if (code !== 0) throw new Error(`curl ended with ${code}`);
    return output;
  }

  async repeat(): Promise<never> {
    throw new Error('whole results are read in downloads only');
  }
}
