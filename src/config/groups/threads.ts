import { availableParallelism } from 'node:os';
import { count, seconds } from '../option.ts';

export const threads = {
  title: 'Threads',
  options: {
    worker_threads: count('threads', {
      default: Math.min(4, availableParallelism()),
      defaultText: 'one per core, up to 4',
      min: 1,
      max: 256,
      help: 'Threads that talk to the database. The default is one per core, up to 4.',
    }),
    worker_stall_secs: seconds({
      default: 30,
      min: 1,
      max: 3600,
      help: 'A thread that does not answer for this long is replaced.',
    }),
  },
} as const;
