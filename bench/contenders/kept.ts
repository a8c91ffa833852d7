import type { DatabaseServer } from '../../test/support/servers.ts';
import { authorization } from '../database.ts';
import { tables } from '../tables.ts';
import { type Contender, type Download, selectOf } from './contender.ts';
import { Sluice, type SluiceOptions } from './sluice.ts';

interface Answer {
  readonly result_uri: string;
  readonly final_uri: string;
  readonly state: string;
  readonly rows: number;
}

/** Sluice, which keeps whole results on disk. Its download ends when the last row is there. */
export class Kept implements Contender {
  readonly #sluice: Sluice;

  private constructor(sluice: Sluice) {
    this.#sluice = sluice;
  }

  static async start(database: DatabaseServer, options: SluiceOptions = {}): Promise<Kept> {
    return new Kept(await Sluice.start(database, options));
  }

  get process(): Contender['process'] {
    return this.#sluice.process;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sluice[Symbol.asyncDispose]();
  }

  async download(download: Download): Promise<{ bytes?: number }> {
    const expected = tables[download.table].rows * download.times;
    const body = {
      sql: selectOf(download),
      result: { keep_secs: 600 },
      pagination: { wait_time_secs: 20, max_rows_per_page: 1 },
    };
    const { result_uri, final_uri } = await this.#ask('/v1/query', body);
    // There is no such row, so that the answer comes at the end.
    let last = await this.#ask(`${result_uri}/rows?from=${expected}`);
    while (last.state === 'Running') last = await this.#ask(`${result_uri}/rows?from=${expected}`);
    if (last.rows !== expected) throw new Error(`sluice kept: ${last.rows} rows are kept instead of ${expected}`);
    await this.#ask(final_uri);
    return {};
  }

  async #ask(path: string, body?: object): Promise<Answer> {
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const headers = { authorization: authorization(), 'content-type': 'application/json' };
    const response = await fetch(`${this.#sluice.url}${path}`, { headers, ...sent });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`sluice kept: ${response.status} ${text}`);
    return (text === '' ? {} : JSON.parse(text)) as Answer;
  }

  async repeat(): Promise<never> {
    throw new Error('results are kept in downloads only');
  }
}
