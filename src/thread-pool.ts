import { Piscina } from 'piscina';
import type { Observe } from './events.ts';

export type ThreadPool = Piscina;

export interface ThreadPoolOptions {
  /** The file that the threads run: JavaScript in the folder of the build. */
  readonly file: URL;
  readonly minThreads: number;
  readonly maxThreads: number;
  /** How long a thread above the minimum is kept without a task. */
  readonly idleTimeout?: number;
  readonly youngGenerationMb: number;
}

export function openThreadPool(options: ThreadPoolOptions, observe: Observe): ThreadPool {
  const { file, youngGenerationMb, ...others } = options;
  const pool = new Piscina({
    ...others,
    filename: file.href,
    resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
    // By default, a thread that waits for a task is blocked, with all of its sockets, and waking it costs a system call.
    atomics: 'disabled',
  });
  // Piscina replaces a thread that failed. If the thread has no task, it reports the failure by this event, and otherwise by
  // rejecting the task.
  pool.on('error', (error: Error) => observe({ type: 'worker_failed', error }));
  return pool;
}
