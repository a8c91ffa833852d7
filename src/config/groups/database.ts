import { parseDatabaseUrl } from '../mysql-url.ts';
import { flag, parsedText, seconds } from '../option.ts';

export const database = {
  title: 'Database',
  options: {
    mysql_url: parsedText({
      placeholder: 'URL',
      default: '',
      parse: parseDatabaseUrl,
      help:
        'The database: mysql://[user[:password]@]host[:port][/database], or ' +
        'mysql://[user[:password]@]localhost[/database]?socket=PATH, or the path of a Unix socket. The user is for ' +
        '/ready, and for ending statements that a killed server left running. ?ssl-mode=required, verify-ca or ' +
        'verify-full turns on TLS; verify-full also checks the host name. &ssl-ca=FILE names certificates (PEM) to ' +
        'trust instead of the usual ones. Without a URL, the server starts a private MariaDB with sample data.',
    }),
    read_only: flag(
      'Run every statement in a read-only transaction. A statement that could leave the transaction is refused.',
    ),
    connect_timeout_secs: seconds({
      default: 10,
      min: 1,
      max: 3600,
      help: 'Time limit for opening a connection to the database.',
    }),
    ping_secs: seconds({
      default: 5,
      min: 1,
      max: 3600,
      help: 'How often a silent database is asked whether it still works on a statement.',
    }),
    kill_timeout_secs: seconds({
      default: 5,
      min: 1,
      max: 3600,
      help:
        'How long a cancelled statement may take to end before its connection is closed. While the database does not ' +
        'answer the kill, it may take up to four times as long.',
    }),
    embedded_start_secs: seconds({
      default: 60,
      min: 1,
      max: 3600,
      help: 'Time limit for each step of starting the private MariaDB.',
    }),
  },
} as const;
