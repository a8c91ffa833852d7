import { count, seconds } from '../option.ts';

export const sessions = {
  title: 'Sessions',
  options: {
    sessions_max: count('sessions', {
      default: 96,
      min: 1,
      max: 100_000,
      help: 'Kept sessions at once. Each holds a connection, so it cannot be set to more than --connections_max.',
    }),
    sessions_per_user_max: count('sessions', {
      default: 64,
      min: 1,
      max: 100_000,
      total: 'sessions_max',
      help: 'Kept sessions of one user at once.',
    }),
    session_idle_secs_max: seconds({
      default: 14_400,
      min: 1,
      max: 86_400,
      help: 'Maximum of max_idle_time, the time for which a session is kept between statements.',
    }),
    pinned_session_idle_secs: seconds({
      default: 300,
      min: 1,
      max: 86_400,
      help:
        'How long a pinned session is kept without a statement or a heartbeat. The session of a client that carries its ' +
        'session is pinned while it has state that the client cannot carry, such as an open transaction.',
    }),
    session_queue_max: count('statements', {
      default: 8,
      min: 0,
      max: 100_000,
      help: 'Statements that may wait in one session.',
    }),
  },
} as const;
