import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { EventLoopUtilization } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import type { ServerQuestion } from './preload.ts';

const preload = new URL('./preload.js', import.meta.url).href;

/** An HTTP server in a process of its own, which says on its standard output where it listens. */
export class ServerProcess implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /**
   * @param nodeFlags options of node itself, such as `--cpu-prof`
   * @param node the path of its binary
   */
  static async start(
    args: readonly string[],
    nodeFlags: readonly string[] = [],
    node = process.execPath,
  ): Promise<ServerProcess> {
    const child = spawn(node, ['--import', preload, ...nodeFlags, ...args], {
      env: environmentWithoutOptions(),
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    return new ServerProcess(child, await addressOf(child));
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** How long the event loop of the main thread has been busy and idle so far. */
  async utilization(): Promise<EventLoopUtilization> {
    return (await this.#ask('utilization')) as EventLoopUtilization;
  }

  /** The bytes of the main thread's heap that are in use, without garbage. */
  async liveHeapBytes(): Promise<number> {
    return (await this.#ask('live heap')) as number;
  }

  async #ask(question: ServerQuestion): Promise<unknown> {
    const answer = once(this.#child, 'message');
    this.#child.send(question);
    return (await answer)[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, 'exit');
    this.#child.kill();
    await exit;
  }
}

/** The environment without what a developer may have set for a Sluice of theirs. */
function environmentWithoutOptions(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_')));
}

async function addressOf(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('the output of the process is not piped');
  for await (const line of createInterface({ input: child.stdout })) {
    const address = /http:\/\/\S+/.exec(line)?.[0];
    if (address === undefined) continue;
    child.stdout.resume();
    return address;
  }
  throw new Error(`${child.spawnargs.join(' ')} ended before it listened`);
}
