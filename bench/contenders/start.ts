import type { DatabaseServer } from '../../test/support/servers.ts';
import type { Contender } from './contender.ts';
import { DatabendDriver } from './databend-driver.ts';
import { Fastify } from './fastify.ts';
import { Floor } from './floor.ts';
import { Kept } from './kept.ts';
import { NativeClient } from './native-client.ts';
import { Sluice, type SluiceOptions } from './sluice.ts';
import { Streamed } from './streamed.ts';

export type ContenderName =
  | 'sluice'
  | 'sluice csv'
  | 'sluice tsv'
  | 'sluice ndjson'
  | 'sluice arrow'
  | 'sluice kept'
  | 'databend-driver json'
  | 'databend-driver arrow'
  | 'native client'
  | 'floor'
  | 'fastify whole'
  | 'fastify pages';

export interface ContenderOptions {
  readonly sluiceOptions?: SluiceOptions;
  /** At which answers are compressed for a client that asks for it. */
  readonly gzipLevel?: number;
}

export async function startContender(
  name: ContenderName,
  database: DatabaseServer,
  options: ContenderOptions = {},
): Promise<Contender> {
  switch (name) {
    case 'sluice':
      return Sluice.start(database, options.sluiceOptions);
    case 'sluice csv':
    case 'sluice tsv':
    case 'sluice ndjson':
    case 'sluice arrow':
      return Streamed.start(name.slice('sluice '.length), database, options.sluiceOptions);
    case 'sluice kept':
      return Kept.start(database, options.sluiceOptions);
    case 'databend-driver json':
    case 'databend-driver arrow':
      return DatabendDriver.start(name.slice('databend-driver '.length), database, options.sluiceOptions);
    case 'native client':
      return new NativeClient(database);
    case 'floor':
      return new Floor(database);
    case 'fastify whole':
      return Fastify.start(database, { pages: false, ...options });
    case 'fastify pages':
      return Fastify.start(database, { pages: true, ...options });
  }
}
