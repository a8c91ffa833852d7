import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { account } from '../database.ts';
import { type Contender, type Download, selectOf } from './contender.ts';

/** `mariadb --quick --batch --skip-column-names > /dev/null`, one run for each download. */
export class NativeClient implements Contender {
  readonly process = null;
  readonly #database: DatabaseServer;

  constructor(database: DatabaseServer) {
    this.#database = database;
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async download(download: Download): Promise<object> {
    const args = [
      '--no-defaults',
      '--quick',
      '--batch',
      '--skip-column-names',
      '--default-character-set=utf8mb4',
      `--socket=${this.#database.socketPath}`,
      `--user=${account.user}`,
      `--password=${account.password}`,
      `--execute=${selectOf(download)}`,
      account.user,
    ];
    const child = spawn('mariadb', args, { stdio: ['ignore', 'ignore', 'inherit'] });
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error(`the native client ended with ${code}`);
    return {};
  }

  async repeat(): Promise<never> {
    throw new Error('the native client takes part in downloads only');
  }
}
