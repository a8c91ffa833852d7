import type { DatabaseServer } from '../../test/support/servers.ts';
import { forget, keep } from '../clients/kept-results.ts';
import { tables } from '../tables.ts';
import { type Contender, type Download, selectOf } from './contender.ts';
import { Sluice, type SluiceOptions } from './sluice.ts';

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
    const { url } = this.#sluice;
    const result = await keep(url, selectOf(download), tables[download.table].rows * download.times);
    await forget(url, [result]);
    return {};
  }

  async repeat(): Promise<never> {
    throw new Error('results are kept in downloads only');
  }
}
