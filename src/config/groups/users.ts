import { count, seconds, text } from '../option.ts';

export const users = {
  title: 'Users and logins',
  options: {
    anonymous_user: text({
      placeholder: 'USER',
      default: '',
      help: 'Database user for requests without credentials. Without it, such requests get 401.',
    }),
    anonymous_password: text({
      placeholder: 'PASSWORD',
      default: '',
      mayBeEmpty: true,
      help: 'Password of --anonymous_user.',
    }),
    logins_max: count('logins', {
      default: 64,
      min: 1,
      max: 10_000,
      help: 'Logins in progress at once. A quarter is reserved for credentials that were accepted before.',
    }),
    auth_cache_secs: seconds({
      default: 30,
      min: 0,
      max: 3600,
      help:
        'How long accepted credentials are trusted without asking the database. For the same time after its login, and ' +
        'for at least 1 s, a connection is used for new one-off statements.',
    }),
    auth_cache_max: count('users', {
      default: 10_000,
      min: 1,
      max: 10_000_000,
      help: 'Accepted credentials that are remembered.',
    }),
    auth_failures_max: count('logins', {
      default: 60,
      min: 1,
      max: 1_000_000,
      help: 'Wrong passwords of one user in a minute. After that, logins get 429 and the database is not asked.',
    }),
  },
} as const;
