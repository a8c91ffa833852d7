import { Piscina } from 'piscina';
import type { Observe } from './events.ts';

export type ThreadPool = Piscina;

export interface ThreadPoolOptions {
  /** The file that the threads run. Compiled code runs from the build's folder, where it is JavaScript. */
  readonly file: URL;
  readonly minThreads: number;
  readonly maxThreads: number;
  /** How long a thread above the minimum waits for a task before it ends. */
  readonly idleTimeout?: number;
  readonly youngGenerationMb: number;
}

export function openThreadPool(options: ThreadPoolOptions, observe: Observe): ThreadPool {
  const { file, youngGenerationMb, ...others } = options;
  const pool = new Piscina({
    ...others,
    filename: file.href,
    resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
    // The default blocks a thread while it waits for tasks, with every socket that it serves, and costs the main thread a system
    // call to wake it.
    atomics: 'disabled',
  });
  // Piscina starts another thread in place of one that failed. It tells of the failure by this event if the thread had no
  // task, and else by the task.
  pool.on('error', (error: Error) => observe({ type: 'worker_failed', error }));
  return pool;
}
