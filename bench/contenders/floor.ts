import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { DatabaseServer } from '../../test/support/servers.ts';
import { uriOf } from '../database.ts';
import { latencyFigures, type Measurement } from '../figures.ts';
import { type Contender, type Download, type Load, selectOf, type Watched } from './contender.ts';

/** `peers/floor.ts` in a process of its own. */
export class Floor implements Contender {
  readonly process: Watched;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #answers: AsyncIterator<string>;

  constructor(database: DatabaseServer) {
    const peer = fileURLToPath(new URL('../peers/floor.js', import.meta.url));
    this.#child = spawn(process.execPath, [peer, uriOf(database)], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.process = { pid: this.#child.pid as number };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.stdin.end();
    await exit;
  }

  async download(download: Download): Promise<{ bytes: number }> {
    return (await this.#ask(`rows ${selectOf(download)}`)) as { bytes: number };
  }

  /** On one connection, as there is no more than one: a statement is sent when the one before it has ended. */
  async repeat({ sql, seconds }: Load): Promise<Measurement> {
    const { latencies, wallMs } = (await this.#ask(`loop ${seconds} ${sql}`)) as {
      latencies: number[];
      wallMs: number;
    };
    return latencyFigures(latencies, wallMs);
  }

  async #ask(line: string): Promise<object> {
    this.#child.stdin.write(`${line}\n`);
    const { value, done } = await this.#answers.next();
    if (done) throw new Error('the floor ended before it answered');
    return JSON.parse(value) as object;
  }
}
