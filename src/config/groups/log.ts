import { choice, flag } from '../option.ts';

export const log = {
  title: 'Log',
  options: {
    log_level: choice({
      choices: ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
      default: 'info',
      help: 'Lowest level of the lines in the log. The log goes to standard error.',
    }),
    log_sql: flag(
      'Write the SQL of statements to the log, up to 10,000 characters of each. It may contain personal data.',
    ),
  },
} as const;
