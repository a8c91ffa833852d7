// The driver from npm, a service with one of the databases, and a witness between them.

import { randomUUID } from 'node:crypto';
import { Client, type Connection, type Row, type RowIterator } from 'databend-driver';
import type { Test } from 'tap';
import type { DatabaseServer } from '../../support/servers.ts';
import { type SluiceProcess, startSluice } from '../../support/sluice.ts';
import { until } from '../../support/until.ts';
import { startWitness, type Witness } from './witness.ts';

// The driver reads this when it first connects. A test cannot wait for the default of 15 s.
process.env['DATABEND_DRIVER_HEARTBEAT_INTERVAL_SECONDS'] = '1';

// Once a second, the driver looks for results without a request for more than half of this time, in whole seconds.
export const resultTimeoutSecs = 5;
export const pinnedIdleSecs = 6;

const shortLives = [
  ...['--result_timeout_secs', String(resultTimeoutSecs)],
  ...['--pinned_session_idle_secs', String(pinnedIdleSecs)],
];

export class Stage {
  readonly server: DatabaseServer;
  readonly sluice: SluiceProcess;
  readonly witness: Witness;
  readonly database: string;
  readonly user: string;
  readonly password = "p:a ss/é'@";
  readonly #connections: Connection[] = [];

  constructor(server: DatabaseServer, sluice: SluiceProcess, witness: Witness, database: string) {
    this.server = server;
    this.sluice = sluice;
    this.witness = witness;
    this.database = database;
    this.user = database;
  }

  /** @param options of the service */
  static async start(t: Test, server: DatabaseServer, options: readonly string[] = shortLives): Promise<Stage> {
    const database = `driver_${randomUUID().replaceAll('-', '').slice(0, 12)}`;
    const sluice = await startSluice(['--mysql_url', server.url, ...options]);
    t.teardown(() => sluice.stop());
    const stage = new Stage(server, sluice, await startWitness(t, sluice.url), database);
    const { user, password } = stage;
    await server.sql(
      `CREATE DATABASE ${database} CHARACTER SET utf8mb4; CREATE DATABASE ${database}_b;
      CREATE USER ${user}@'%' IDENTIFIED BY '${password.replace("'", "''")}';
      GRANT ALL ON ${database}.* TO ${user}@'%'; GRANT ALL ON ${database}_b.* TO ${user}@'%';
      GRANT ALL ON ${database}_c.* TO ${user}@'%';`,
    );
    t.teardown(async () => {
      await stage.closeAll();
      await server.sql(`DROP DATABASE ${database}; DROP DATABASE ${database}_b; DROP USER ${user}@'%'`);
    });
    return stage;
  }

  async connect(options = '', password = this.password, database = this.database): Promise<Connection> {
    const login = `${this.user}:${encodeURIComponent(password)}`;
    const dsn = `databend://${login}@127.0.0.1:${this.witness.port}/${database}?sslmode=disable${options}`;
    const connection = await new Client(`${dsn}&retry_delay_secs=1`).getConn();
    this.#connections.push(connection);
    return connection;
  }

  async closeAll(): Promise<void> {
    for (const connection of this.#connections.splice(0)) await connection.close();
  }

  /** Runs statements directly in the database. */
  direct(sql: string): Promise<string> {
    return this.server.sql(sql, { database: this.database });
  }

  /** The number of statements in the database that contain this text. */
  async running(text: string): Promise<number> {
    const { user, password } = this;
    const sql = `SELECT COUNT(*) FROM information_schema.PROCESSLIST
      WHERE INFO LIKE '%${text}%' AND INFO NOT LIKE '%PROCESSLIST%'`;
    return Number(await this.server.sql(sql, { user, password }));
  }

  /** The statuses of the driver's requests of this method and path. */
  statuses(method: string, path: RegExp, from = 0): number[] {
    return this.witness.seen
      .slice(from)
      .flatMap((seen) => (seen.method === method && path.test(seen.path) ? [seen.status] : []));
  }

  /** The same, as soon as there are so many requests, and all have their answers. */
  answered(method: string, path: RegExp, from: number, count = 1): Promise<number[]> {
    return until(
      () => this.statuses(method, path, from),
      (statuses) => statuses.length >= count && !statuses.includes(0),
    );
  }
}

export const valuesOf = (rows: readonly Row[]): unknown[][] => rows.map((row) => row.values());

export async function cell(connection: Connection, sql: string): Promise<unknown> {
  return (await connection.queryRow(sql))?.values()[0];
}

/** The next row's values; null after the last. */
export async function next(rows: RowIterator): Promise<unknown[] | null> {
  const row = await rows.next();
  if (row instanceof Error) throw row;
  return row === null ? null : row.values();
}

export async function* each(rows: RowIterator): AsyncGenerator<unknown[]> {
  for (let values = await next(rows); values !== null; values = await next(rows)) yield values;
}
