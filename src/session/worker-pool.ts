import type { MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { Observe } from '../events.ts';
import type { LeaseTask } from '../wire/messages.ts';

export interface WorkerPoolOptions {
  readonly threads: number;
  /** Connections that one thread may have to serve at most. */
  readonly tasksPerThread: number;
}

/**
 * What a thread makes is short-lived and small, its rows aside, which lie outside of its heap. By default the room for such
 * would grow to 48 MB in each thread before it is swept.
 */
const youngGenerationMb = 6;

/** The threads that talk to the database. Each task is one connection for as long as it lives. */
export class WorkerPool implements AsyncDisposable {
  readonly #piscina: Piscina;

  constructor(options: WorkerPoolOptions, observe: Observe) {
    this.#piscina = new Piscina({
      // Compiled code runs from the build's folder, where the entry is JavaScript.
      filename: new URL('../worker/entry.js', import.meta.url).href,
      minThreads: options.threads,
      maxThreads: options.threads,
      concurrentTasksPerWorker: options.tasksPerThread,
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
      // The default waits for tasks by blocking the thread, and with it every socket that the thread serves.
      atomics: 'disabled',
    });
    // Piscina starts another thread in place of one that failed; its tasks are rejected, and their leases lost.
    this.#piscina.on('error', (error: Error) => observe({ type: 'worker_failed', error }));
  }

  /** Resolves when the connection of the task is gone; rejects if its thread is. */
  async run(task: LeaseTask & { readonly port: MessagePort }): Promise<void> {
    await this.#piscina.run(task, { transferList: [task.port] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#piscina.destroy();
  }
}
