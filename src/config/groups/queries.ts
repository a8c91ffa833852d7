import { choice, count, seconds, timerSecsMax } from '../option.ts';

export const queries = {
  title: 'Queries',
  options: {
    queries_max: count('queries', {
      default: 10_000,
      min: 1,
      max: 10_000_000,
      help:
        'Queries that the server keeps at once. A new query replaces the oldest one that was read to its end, of the user ' +
        'who has the most of those.',
    }),
    queries_per_user_max: count('queries', {
      default: 1_000,
      min: 1,
      max: 10_000_000,
      total: 'queries_max',
      help: 'Queries that one user may run at once.',
    }),
    unread_per_user_max: count('queries', {
      default: 1_000,
      min: 1,
      max: 10_000_000,
      total: 'queries_max',
      help: 'Queries of one user that run or whose results are not read to their end.',
    }),
    single_page_results_max: count('queries', {
      default: 100,
      min: 1,
      max: 10_000_000,
      help:
        'Results whose only page was the first answer, and which stay for a while. A further one removes the oldest of the user who has the most ' +
        'of them.',
    }),
    removed_queries_max: count('queries', {
      default: 100_000,
      min: 2,
      max: 10_000_000,
      help:
        'Ids of finished and expired queries that are remembered. As many ids of queries with an idempotency key are ' +
        'remembered.',
    }),
    result_timeout_secs: seconds({
      default: 60,
      min: 1,
      max: timerSecsMax,
      help:
        'How long a result is kept without a poll, unless its request gives another time. Its id is remembered for as ' +
        'long after that.',
    }),
    on_disconnect: choice({
      choices: ['continue', 'cancel'],
      default: 'continue',
      help: 'Whether a statement continues or is cancelled if its client hangs up during a poll and does not come back.',
    }),
    disconnect_secs: seconds({
      default: 5,
      min: 0,
      max: 3600,
      help: 'How long --on_disconnect=cancel waits for the client to come back.',
    }),
  },
} as const;
