import { bytes, count, GiB, seconds, TiB, timerSecsMax } from '../option.ts';

export const kept = {
  title: 'Kept results',
  options: {
    kept_secs_max: seconds({
      default: 86_400,
      min: 0,
      max: timerSecsMax,
      help:
        'How long a request may have its result kept on disk after its statement has ended (result.keep_secs). 0 keeps ' +
        'none.',
    }),
    kept_bytes_max: bytes({
      default: 10 * GiB,
      min: 0,
      max: 1024 * TiB,
      help: 'Disk space for all kept results. When it is used up, a statement whose rows are kept fails.',
    }),
    kept_bytes_per_user_max: bytes({
      default: 0,
      min: 0,
      max: 1024 * TiB,
      total: 'kept_bytes_max',
      help:
        'Disk space for the kept results of one user. The limit is lower while other users use much. 0 means three ' +
        'quarters of --kept_bytes_max.',
    }),
    kept_count_max: count('results', {
      default: 1_000,
      min: 1,
      max: 1_000_000,
      help: 'Kept results of all users. One user may have three quarters of them.',
    }),
  },
} as const;
