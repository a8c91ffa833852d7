import { count, seconds, timerSecsMax } from '../option.ts';

export const queue = {
  title: 'Waiting statements',
  options: {
    queue_max: count('statements', {
      default: 1024,
      min: 0,
      max: 1_000_000,
      help:
        'Statements that may wait for a connection or for memory. One user may have three quarters of them. When the ' +
        'queue is full, a statement gets 503.',
    }),
    queue_wait_secs: seconds({
      default: 60,
      min: 0,
      max: timerSecsMax,
      help: 'How long a statement may wait in the queue before it fails.',
    }),
  },
} as const;
