import { count, seconds } from '../option.ts';

export const connections = {
  title: 'Connections to the database',
  options: {
    connections_max: count('connections', {
      default: 128,
      min: 1,
      max: 100_000,
      help: 'Database connections at once. The limit is lower if the file descriptors (ulimit -n) suffice for fewer only.',
    }),
    connections_per_user_max: count('connections', {
      default: 0,
      min: 0,
      max: 100_000,
      total: 'connections_max',
      help:
        'Database connections that one user may use at once, for statements and kept sessions. The limit is lower while ' +
        'other users use many, so that some connections stay free. 0 means three quarters of --connections_max.',
    }),
    connection_idle_secs: seconds({
      default: 30,
      min: 1,
      max: 86_400,
      help: 'How long an idle connection is kept for the next statement of its user.',
    }),
  },
} as const;
