import { seconds, timerSecsMax } from '../option.ts';

export const stopping = {
  title: 'Stopping',
  options: {
    drain_secs: seconds({
      default: 30,
      min: 0,
      max: timerSecsMax,
      help: 'How long results may be read after SIGTERM.',
    }),
    drain_idle_secs: seconds({
      default: 5,
      min: 0,
      max: timerSecsMax,
      help: 'After SIGTERM, the server does not wait for a result that has not been polled for this long.',
    }),
  },
} as const;
