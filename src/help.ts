/** One option as `--help` shows it. */
export interface HelpEntry {
  readonly name: string;
  /** What stands for its value; empty for a flag. */
  readonly placeholder: string;
  readonly text: string;
}

const columns = 100;
const indent = '      ';

const head = `\
usage: sluice [--option value]…
       sluice --help | --version

examples:
  sluice                              a private MariaDB with sample data, on http://127.0.0.1:8000
  sluice --mysql_url mysql://127.0.0.1:3306/shop --http_handler_port 9000
  SLUICE_MYSQL_URL=mysql://monitor:secret@db.example/shop sluice --read_only --log_level=warn

Each option can also be set as SLUICE_NAME in the environment; a flag wins. Dashes may stand for
underscores. An option that is off by default is turned on by its name alone, and takes on or off
after an equals sign (--read_only=off).
`;

/** The options by subject, in the order of the help. */
const subjects: readonly (readonly [string, readonly string[]])[] = [
  [
    'Listening',
    ['http_handler_host', 'http_handler_port', 'http_host_names', 'tls_cert', 'tls_key', 'cors_origin', 'dialect'],
  ],
  [
    'Database',
    [
      ...['mysql_url', 'read_only', 'worker_threads', 'connections_max', 'connections_per_user_max'],
      ...['connection_idle_secs', 'connect_timeout_secs', 'ping_secs', 'embedded_start_secs'],
    ],
  ],
  [
    'Users and logins',
    [
      ...['anonymous_user', 'anonymous_password', 'logins_max', 'auth_cache_secs', 'auth_failures_max'],
      ...['auth_cache_max'],
    ],
  ],
  [
    'Statements',
    [
      ...['statement_timeout_secs', 'kill_timeout_secs', 'on_disconnect', 'disconnect_secs', 'queue_max'],
      ...['queue_wait_secs', 'queries_max', 'queries_per_user_max', 'unread_per_user_max'],
    ],
  ],
  [
    'Sessions',
    [
      ...['sessions_max', 'sessions_per_user_max', 'session_idle_secs_max', 'held_session_idle_secs'],
      ...['client_session_bytes_max', 'session_queue_max'],
    ],
  ],
  [
    'Results',
    [
      ...['result_timeout_secs', 'result_timeout_secs_max', 'wait_time_secs_max', 'page_rows_max', 'page_bytes_max'],
      ...['buffer_rows_max', 'row_bytes_max', 'columns_max', 'gzip_level', 'whole_results_max', 'removed_queries_max'],
    ],
  ],
  [
    'Memory and disk',
    [
      ...['buffer_bytes_max', 'query_buffer_bytes_max', 'results_bytes_max', 'request_bytes_max'],
      ...['request_bytes_per_user_max', 'data_dir', 'spill_bytes_max', 'spill_total_bytes_max', 'spill_wait_ms'],
    ],
  ],
  [
    'HTTP requests and connections',
    [
      ...[
        'body_bytes_max',
        'params_max',
        'header_bytes_max',
        'pipelined_requests_max',
        'pipelined_bytes_max',
        'request_timeout_secs',
        'http_idle_secs',
      ],
      ...['http_connections_max'],
    ],
  ],
  ['Running', ['log_level', 'log_sql', 'drain_secs', 'drain_idle_secs', 'worker_stall_secs']],
];

/** The text of `--help`. */
export function formatHelp(version: string, entries: readonly HelpEntry[]): string {
  const rest = new Map(entries.map((entry) => [entry.name, entry]));
  const sections = subjects.map(([title, names]) => {
    const found = names.map((name) => rest.get(name)).filter((entry) => entry !== undefined);
    for (const { name } of found) rest.delete(name);
    return formatSection(title, found);
  });
  // An option that no subject names is shown all the same.
  if (rest.size > 0) sections.push(formatSection('Other', [...rest.values()]));
  return [`sluice ${version}: SQL over HTTP for MySQL and MariaDB\n`, head, ...sections].join('\n');
}

function formatSection(title: string, entries: readonly HelpEntry[]): string {
  const options = entries.map(({ name, placeholder, text }) => `  --${name} ${placeholder}`.trimEnd() + wrap(text));
  return `${title}:\n${options.join('\n')}\n`;
}

/** The text in lines that begin with the indent, none longer than the columns unless a single word is. */
function wrap(text: string): string {
  let wrapped = '';
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > columns) {
      wrapped += `\n${indent}${line}`;
      line = word;
    } else {
      line += line === '' ? word : ` ${word}`;
    }
  }
  return `${wrapped}\n${indent}${line}`;
}
