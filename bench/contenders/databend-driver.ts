import { Client, type Connection } from 'databend-driver';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { account } from '../database.ts';
import { tables } from '../tables.ts';
import { type Contender, type Download, selectOf } from './contender.ts';
import { Sluice, type SluiceOptions } from './sluice.ts';

/** Databend's own driver, which reads whole results from Sluice. What it makes of the rows is the client's work, not Sluice's. */
export class DatabendDriver implements Contender {
  readonly #sluice: Sluice;
  readonly #connection: Connection;

  private constructor(sluice: Sluice, connection: Connection) {
    this.#sluice = sluice;
    this.#connection = connection;
  }

  /** @param format in which the driver asks for rows: json or arrow */
  static async start(format: string, database: DatabaseServer, options: SluiceOptions = {}): Promise<DatabendDriver> {
    const sluice = await Sluice.start(database, options);
    const { host } = new URL(sluice.url);
    const { user, password } = account;
    const client = new Client(
      `databend://${user}:${password}@${host}/${user}?sslmode=disable&query_result_format=${format}`,
    );
    return new DatabendDriver(sluice, await client.getConn());
  }

  get process(): Contender['process'] {
    return this.#sluice.process;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection.close();
    await this.#sluice[Symbol.asyncDispose]();
  }

  async download(download: Download): Promise<object> {
    const { length: rows } = await this.#connection.queryAll(selectOf(download));
    const expected = tables[download.table].rows * download.times;
    if (rows !== expected) throw new Error(`databend-driver: ${rows} rows came instead of ${expected}`);
    return {};
  }

  async repeat(): Promise<never> {
    throw new Error('databend-driver takes part in downloads only');
  }
}
