import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { formatHelp, type HelpEntry } from './help.ts';
import type { LogLevel } from './log.ts';
import { nearest } from './nearest.ts';
import { defaultPerUserMax } from './share.ts';
import { version } from './version.ts';
import type { DatabaseAddress, DatabaseTls } from './wire/messages.ts';

/** A mistake in the flags or the environment; the message is one line that names the option. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

interface NumberOption {
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly unit: string;
  readonly help: string;
}

interface TextOption {
  readonly default: string;
  readonly choices?: readonly string[];
  readonly placeholder: string;
  readonly help: string;
}

/** Off unless it is given. */
interface FlagOption {
  readonly help: string;
}

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
/** The longest that a timer of Node's can run. */
const timerSecsMax = 2_147_483;

const textOptions = {
  http_handler_host: { default: '127.0.0.1', placeholder: 'ADDRESS', help: 'address to listen on' },
  http_host_names: {
    default: '',
    placeholder: 'NAMES',
    help:
      'host names that requests may have in their Host header, comma-separated, or * for any; ' +
      'localhost, IP addresses and --http_handler_host are always accepted, other names get 421',
  },
  mysql_url: {
    default: '',
    placeholder: 'URL',
    help:
      'the database: mysql://[user[:password]@]host[:port][/database], or the path of a Unix socket, or ' +
      'mysql://[user[:password]@]localhost[/database]?socket=PATH; the user is for /ready, and for ending what a ' +
      'killed server left running; ' +
      'for TLS, ?ssl-mode=required, verify-ca or verify-full (which also checks the host name), ' +
      'and &ssl-ca=FILE for certificates (PEM) to trust instead of the usual ones; ' +
      'none: a private MariaDB with sample data',
  },
  tls_cert: {
    default: '',
    placeholder: 'FILE',
    help: 'certificate chain (PEM) to serve HTTPS with; none: plain HTTP',
  },
  tls_key: { default: '', placeholder: 'FILE', help: 'private key (PEM) of --tls_cert' },
  cors_origin: {
    default: '',
    placeholder: 'ORIGINS',
    help: 'web origins whose pages may read answers, parted by commas, or *; none: no page may',
  },
  data_dir: {
    default: 'sluice-data',
    placeholder: 'FOLDER',
    help: 'for the files of the private MariaDB, rows on disk, and a journal of the open database connections',
  },
  anonymous_user: {
    default: '',
    placeholder: 'USER',
    help: 'database user for requests without credentials; none: they get 401',
  },
  anonymous_password: { default: '', placeholder: 'PASSWORD', help: 'the password of --anonymous_user' },
  dialect: {
    default: 'auto',
    choices: ['auto', 'v1', 'databend'],
    placeholder: 'auto|v1|databend',
    help: "the form of requests and answers: Sluice's own, Databend's, or by the headers of each request",
  },
  on_disconnect: {
    default: 'continue',
    choices: ['continue', 'cancel'],
    placeholder: 'continue|cancel',
    help: 'what becomes of a statement whose client hangs up during a poll and does not come back',
  },
  log_level: {
    default: 'info',
    choices: ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
    placeholder: 'LEVEL',
    help: 'trace, debug, info, warn, error or silent; the log goes to standard error',
  },
} as const satisfies Record<string, TextOption>;

const flagOptions = {
  read_only: { help: 'every statement runs in a read-only transaction; those that could leave it are refused' },
  log_sql: {
    help: 'write the SQL of statements to the log, up to 10,000 characters of each; it may hold personal data',
  },
} as const satisfies Record<string, FlagOption>;

/** What the databases allow in one prepared statement: the protocol counts them in 16 bits. */
const placeholdersMax = 65_535;

const numberOptions = {
  http_handler_port: {
    default: 8000,
    min: 0,
    max: 65535,
    unit: 'port',
    help: 'port to listen on; 0: any that is free',
  },
  worker_threads: {
    default: Math.min(4, availableParallelism()),
    min: 1,
    max: 256,
    unit: 'threads',
    help: 'threads that talk to the database (default: one per core, up to 4)',
  },
  connections_max: { default: 128, min: 1, max: 100_000, unit: 'connections', help: 'database connections at once' },
  connections_per_user_max: {
    default: 0,
    min: 0,
    max: 100_000,
    unit: 'connections',
    help:
      'database connections that one user uses at once, for statements and kept sessions; fewer while others use many, so ' +
      'that some stay free; 0: three quarters of --connections_max',
  },
  queue_max: {
    default: 1024,
    min: 0,
    max: 1_000_000,
    unit: 'statements',
    help: 'statements that may wait for a connection or for memory, three quarters of them of one user; one more gets 503',
  },
  queue_wait_secs: {
    default: 60,
    min: 0,
    max: timerSecsMax,
    unit: 's',
    help: 'how long a statement waits there before it fails',
  },
  connection_idle_secs: {
    default: 30,
    min: 1,
    max: 86_400,
    unit: 's',
    help: 'how long a connection is kept for the next statement of its user',
  },
  connect_timeout_secs: { default: 10, min: 1, max: 3600, unit: 's', help: 'time for a connection to be opened' },
  kill_timeout_secs: {
    default: 5,
    min: 1,
    max: 3600,
    unit: 's',
    help: 'time for a cancelled statement to end before its connection is closed; up to four times as long while the database does not answer the kill',
  },
  ping_secs: {
    default: 5,
    min: 1,
    max: 3600,
    unit: 's',
    help: 'how often a database that has fallen silent is asked whether it still works on a statement',
  },
  worker_stall_secs: {
    default: 30,
    min: 1,
    max: 3600,
    unit: 's',
    help: 'a thread that does not answer for so long is replaced',
  },
  logins_max: {
    default: 64,
    min: 1,
    max: 10_000,
    unit: 'logins',
    help: 'logins under way at once; a quarter is for credentials that were accepted before',
  },
  auth_cache_secs: {
    default: 30,
    min: 0,
    max: 3600,
    unit: 's',
    help:
      'how long accepted credentials are trusted without asking the database, and how long after its login a connection is ' +
      'used for new one-off statements (at least 1 s)',
  },
  auth_failures_max: {
    default: 60,
    min: 1,
    max: 1_000_000,
    unit: 'logins',
    help: 'wrong passwords of one user in a minute; after that, 429 without asking the database',
  },
  auth_cache_max: { default: 10_000, min: 1, max: 10_000_000, unit: 'users', help: 'accepted credentials remembered' },
  queries_max: {
    default: 10_000,
    min: 1,
    max: 10_000_000,
    unit: 'queries',
    help: 'queries held at once; past that, one that was read to its end makes room, of the user who has most of those',
  },
  queries_per_user_max: {
    default: 1_000,
    min: 1,
    max: 10_000_000,
    unit: 'queries',
    help: 'queries that one user runs at once',
  },
  unread_per_user_max: {
    default: 1_000,
    min: 1,
    max: 10_000_000,
    unit: 'queries',
    help: 'queries of one user that run or whose results are not read to their end',
  },
  whole_results_max: {
    default: 100,
    min: 1,
    max: 10_000_000,
    unit: 'queries',
    help: 'results kept of which the first answer told all; past that, the oldest of the user who has most of them is removed',
  },
  removed_queries_max: {
    default: 100_000,
    min: 2,
    max: 10_000_000,
    unit: 'queries',
    help: 'ids of finished and expired queries remembered at most, and as many of those with an idempotency key',
  },
  sessions_max: {
    default: 96,
    min: 1,
    max: 100_000,
    unit: 'sessions',
    help: 'kept sessions at once; each holds a connection',
  },
  sessions_per_user_max: {
    default: 64,
    min: 1,
    max: 100_000,
    unit: 'sessions',
    help: 'kept sessions of one user at once',
  },
  session_idle_secs_max: {
    default: 14_400,
    min: 1,
    max: 86_400,
    unit: 's',
    help: 'the longest that max_idle_time can keep a session',
  },
  held_session_idle_secs: {
    default: 300,
    min: 1,
    max: 86_400,
    unit: 's',
    help: 'how long a Databend client may leave its open transaction, or the like, without a sign',
  },
  client_session_bytes_max: {
    default: 64 * KiB,
    min: KiB,
    max: MiB,
    unit: 'bytes',
    help: 'the session that a Databend client carries, as JSON',
  },
  session_queue_max: {
    default: 8,
    min: 0,
    max: 100_000,
    unit: 'statements',
    help: 'statements that may wait in one session',
  },
  statement_timeout_secs: {
    default: 3600,
    min: 0,
    max: timerSecsMax,
    unit: 's',
    help: 'how long a statement may run before it is killed, and the most that timeout_secs can ask for; 0: no limit',
  },
  result_timeout_secs: {
    default: 60,
    min: 1,
    max: timerSecsMax,
    unit: 's',
    help: 'how long a result is kept that nobody polls, if its request does not say; and how long its id is kept after that',
  },
  result_timeout_secs_max: {
    default: 3600,
    min: 1,
    max: timerSecsMax,
    unit: 's',
    help: 'the most that result_timeout_secs in a request can ask for; --result_timeout_secs is always allowed',
  },
  disconnect_secs: {
    default: 5,
    min: 0,
    max: 3600,
    unit: 's',
    help: 'how long --on_disconnect cancel waits for the client to come back',
  },
  wait_time_secs_max: {
    default: 50,
    min: 0,
    max: 3600,
    unit: 's',
    help: 'the longest that wait_time_secs can make a request wait',
  },
  page_rows_max: {
    default: 1_000_000,
    min: 1,
    max: 2_147_483_647,
    unit: 'rows',
    help: 'the most that max_rows_per_page can ask for',
  },
  page_bytes_max: {
    default: 8 * MiB,
    min: KiB,
    max: GiB,
    unit: 'bytes',
    help: 'a page is full at this size; a row that is larger has a page for itself',
  },
  buffer_rows_max: {
    default: 5_000_000,
    min: 1,
    max: 2_147_483_647,
    unit: 'rows',
    help: 'the most that max_rows_in_buffer can ask for',
  },
  query_buffer_bytes_max: {
    default: 16 * MiB,
    min: KiB,
    max: 2 * GiB,
    unit: 'bytes',
    help: 'rows of one query held in memory ahead of its client',
  },
  buffer_bytes_max: {
    default: 512 * MiB,
    min: MiB,
    max: 1024 * GiB,
    unit: 'bytes',
    help: 'memory for the rows of all queries, three quarters of it for one user at most; when it is used up, new statements and rows of 1 MiB and more wait',
  },
  spill_bytes_max: {
    default: GiB,
    min: 0,
    max: 1024 * GiB,
    unit: 'bytes',
    help: 'rows of one query kept on disk when its memory is full; past that, the database waits; 0: none',
  },
  spill_total_bytes_max: {
    default: 10 * GiB,
    min: 0,
    max: 1024 * GiB,
    unit: 'bytes',
    help: 'the same for all queries together',
  },
  spill_wait_ms: {
    default: 100,
    min: 0,
    max: 3_600_000,
    unit: 'ms',
    help: 'how long the memory of a query must be full before its rows go to disk',
  },
  gzip_level: {
    default: 1,
    min: 0,
    max: 9,
    unit: 'level',
    help: 'how hard rows are compressed for clients that accept gzip, as in zlib; 0: not at all',
  },
  row_bytes_max: {
    default: 64 * MiB,
    min: KiB,
    max: 512 * MiB,
    unit: 'bytes',
    help: 'a row, as JSON; one that is larger fails the statement',
  },
  columns_max: {
    default: 8_192,
    min: 1,
    max: 65_535,
    unit: 'columns',
    help: 'columns of a result; a statement that has more fails',
  },
  results_bytes_max: {
    default: GiB,
    min: MiB,
    max: 1024 * GiB,
    unit: 'bytes',
    help: 'rows of all queries in memory at the very most: a query that receives more fails, of several users that of one who holds more than an equal part',
  },
  body_bytes_max: {
    default: 16 * MiB,
    min: KiB,
    max: GiB,
    unit: 'bytes',
    help: 'a request body, as sent and as inflated',
  },
  params_max: {
    default: placeholdersMax,
    min: 1,
    max: placeholdersMax,
    unit: 'values',
    help: 'values in the params of one request, those in lists and objects included, and placeholders that lists expand to',
  },
  request_bytes_max: {
    default: 256 * MiB,
    min: MiB,
    max: 1024 * GiB,
    unit: 'bytes',
    help:
      'memory for the requests of all users: bodies being received, and the text and params of statements that wait or ' +
      'run; a request that needs more gets 503',
  },
  request_bytes_per_user_max: {
    default: 0,
    min: 0,
    max: 1024 * GiB,
    unit: 'bytes',
    help: 'the same for one user, who gets 429; less while others use much; 0: three quarters of --request_bytes_max',
  },
  header_bytes_max: { default: 16 * KiB, min: KiB, max: MiB, unit: 'bytes', help: 'request line and headers together' },
  pipelined_requests_max: {
    default: 100,
    min: 1,
    max: 10_000,
    unit: 'requests',
    help: 'requests sent on one HTTP connection ahead of their answers; one more closes it',
  },
  pipelined_bytes_max: {
    default: 64 * MiB,
    min: 0,
    max: 1024 * GiB,
    unit: 'bytes',
    help: 'memory for the requests that are sent ahead of answers on all HTTP connections, three quarters of it for one client address; one more closes its connection',
  },
  request_timeout_secs: { default: 30, min: 1, max: 3600, unit: 's', help: 'time for a request to arrive whole' },
  http_idle_secs: {
    default: 120,
    min: 1,
    max: 86_400,
    unit: 's',
    help: 'time without a byte either way before an HTTP connection is closed; must exceed --wait_time_secs_max',
  },
  http_connections_max: {
    default: 20_000,
    min: 1,
    max: 1_000_000,
    unit: 'connections',
    help: 'HTTP connections at once; fewer if the limit of file descriptors (ulimit -n) leaves room for fewer',
  },
  drain_secs: {
    default: 30,
    min: 0,
    max: timerSecsMax,
    unit: 's',
    help: 'how long results may still be read after SIGTERM',
  },
  drain_idle_secs: {
    default: 5,
    min: 0,
    max: timerSecsMax,
    unit: 's',
    help: 'after SIGTERM, the server does not wait for a result that has not been polled for this long',
  },
  embedded_start_secs: {
    default: 60,
    min: 1,
    max: 3600,
    unit: 's',
    help: 'time for each step of starting the private MariaDB',
  },
} as const satisfies Record<string, NumberOption>;

type TextName = keyof typeof textOptions;
type FlagName = keyof typeof flagOptions;
type NumberName = keyof typeof numberOptions;

/** The values of all options, by their names, checked; `database` is `mysql_url` taken apart, null for the private one. */
export type Config = Readonly<
  Record<Exclude<TextName, 'dialect' | 'log_level' | 'on_disconnect' | 'mysql_url'>, string>
> &
  Readonly<Record<NumberName, number>> &
  Readonly<Record<FlagName, boolean>> & {
    readonly log_level: LogLevel;
    readonly on_disconnect: 'continue' | 'cancel';
    readonly dialect: 'auto' | 'v1' | 'databend';
    readonly database: DatabaseConfig | null;
  };

export interface DatabaseConfig {
  readonly address: DatabaseAddress;
  /** The database that statements start in when they name none; null: see decisions, "Sessions". */
  readonly name: string | null;
  readonly user: string;
  readonly password: string;
}

export type Command =
  | { readonly type: 'help' }
  | { readonly type: 'version' }
  | { readonly type: 'serve'; readonly config: Config };

/** @throws ConfigError */
export function readCommand(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Command {
  const flags = parseFlags(args);
  if (flags['help'] === true) return { type: 'help' };
  if (flags['version'] === true) return { type: 'version' };
  const raw = (name: string): { value: string; from: string } | undefined => {
    const flag = flags[name];
    if (typeof flag === 'string') return { value: flag, from: `--${name}` };
    const variable = `SLUICE_${name.toUpperCase()}`;
    const value = environment[variable];
    return value === undefined ? undefined : { value, from: variable };
  };
  const values: Record<string, string | number | boolean> = {};
  for (const [name, option] of Object.entries(textOptions)) values[name] = readText(option, raw(name));
  for (const [name, option] of Object.entries(numberOptions)) values[name] = readNumber(option, raw(name));
  for (const name of Object.keys(flagOptions)) values[name] = readFlag(raw(name));
  const { mysql_url, ...rest } = values;
  const database = readDatabase(String(mysql_url));
  const config = Object.freeze({ ...rest, database }) as unknown as Config;
  if (config.query_buffer_bytes_max < config.page_bytes_max) {
    throw new ConfigError('--query_buffer_bytes_max must not be less than --page_bytes_max, or no page could fill');
  }
  if (config.results_bytes_max < config.buffer_bytes_max) {
    throw new ConfigError(
      '--results_bytes_max must not be less than --buffer_bytes_max, or statements would fail that could wait',
    );
  }
  const requestBytesMin = requestBytesPerBodyByte * config.body_bytes_max;
  if (requestBytesPerUserMax(config) < requestBytesMin) {
    const name = config.request_bytes_per_user_max === 0 ? 'request_bytes_max' : 'request_bytes_per_user_max';
    throw new ConfigError(
      `--${name} must leave one user at least ${requestBytesMin} bytes, ${requestBytesPerBodyByte} times --body_bytes_max, or ` +
        'large bodies would always be refused',
    );
  }
  if ((config.tls_cert === '') !== (config.tls_key === '')) {
    throw new ConfigError('--tls_cert and --tls_key are given together or not at all');
  }
  if (config.http_idle_secs <= config.wait_time_secs_max) {
    throw new ConfigError('--http_idle_secs must be more than --wait_time_secs_max, or polls would be cut off');
  }
  return { type: 'serve', config };
}

/** A body, and the statement in it while both are held: two bytes for each character of SQL. */
const requestBytesPerBodyByte = 4;

/** `--request_bytes_per_user_max`, with its default worked out. */
export function requestBytesPerUserMax(config: Config): number {
  const { request_bytes_max: max, request_bytes_per_user_max: perUserMax } = config;
  return perUserMax === 0 ? defaultPerUserMax(max) : Math.min(perUserMax, max);
}

const valueOptionNames = [...Object.keys(textOptions), ...Object.keys(numberOptions)];
const optionNames = [...valueOptionNames, ...Object.keys(flagOptions), 'help', 'version'];

function parseFlags(args: readonly string[]): Record<string, string | boolean | undefined> {
  const options: Record<string, { type: 'string' | 'boolean'; short?: string }> = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean' },
  };
  for (const name of [...valueOptionNames, ...Object.keys(flagOptions)]) options[name] = { type: 'string' };
  const spelled = args.map((arg) => {
    if (!arg.startsWith('--')) return arg;
    const name = arg.slice(2).replaceAll('-', '_');
    if (Object.hasOwn(flagOptions, name)) return `--${name}=on`;
    return arg.replace(/^--[^=]*/, (flag) => `--${flag.slice(2).replaceAll('-', '_')}`);
  });
  try {
    return parseArgs({ args: spelled, options }).values as Record<string, string | boolean | undefined>;
  } catch (error) {
    throw new ConfigError(`${explain(error as NodeJS.ErrnoException, spelled)}; see --help`);
  }
}

/** One line for what parseArgs refuses. */
function explain({ code, message }: NodeJS.ErrnoException, args: readonly string[]): string {
  const [, unknown] = code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? (/'--([^'=]*)/.exec(message) ?? []) : [];
  if (unknown !== undefined) {
    const meant = nearest(unknown, optionNames);
    return `unknown option --${unknown}${meant === null ? '' : ` (did you mean --${meant}?)`}`;
  }
  const [, word] = code === 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL' ? (/'(.*?)'/.exec(message) ?? []) : [];
  const flag = word === undefined ? undefined : args[args.indexOf(word) - 1]?.replace(/=on$/, '');
  if (flag !== undefined && Object.hasOwn(flagOptions, flag.slice(2))) {
    return `'${word}' after ${flag} belongs to no option: write ${flag}=on or ${flag}=off`;
  }
  return message.split(/\.\s/)[0] ?? message;
}

function readText(option: TextOption, raw: { value: string; from: string } | undefined): string {
  if (raw === undefined) return option.default;
  if (option.choices !== undefined && !option.choices.includes(raw.value)) {
    throw new ConfigError(`${raw.from} is '${raw.value}'; it must be one of ${option.choices.join(', ')}`);
  }
  return raw.value;
}

function readNumber(option: NumberOption, raw: { value: string; from: string } | undefined): number {
  if (raw === undefined) return option.default;
  const value = Number(raw.value);
  if (!/^[0-9]+$/.test(raw.value) || value < option.min || value > option.max) {
    throw new ConfigError(
      `${raw.from} is '${raw.value}'; it must be a whole number from ${option.min} to ${option.max}`,
    );
  }
  return value;
}

const flagValues: Readonly<Record<string, boolean>> = {
  on: true,
  off: false,
  true: true,
  false: false,
  1: true,
  0: false,
};

function readFlag(raw: { value: string; from: string } | undefined): boolean {
  if (raw === undefined) return false;
  const isOn = Object.hasOwn(flagValues, raw.value) ? flagValues[raw.value] : undefined;
  if (isOn !== undefined) return isOn;
  throw new ConfigError(`${raw.from} is '${raw.value}'; it must be one of on, off, true, false, 1, 0`);
}

function readDatabase(url: string): DatabaseConfig | null {
  if (url === '') return null;
  if (url.startsWith('/')) return { address: { socketPath: url }, name: null, user: '', password: '' };
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !['mysql:', 'mariadb:'].includes(parsed.protocol) || parsed.hostname === '') {
    throw new ConfigError(
      '--mysql_url must be mysql://[user[:password]@]host[:port][/database] or the path of a socket',
    );
  }
  const { socket, ...ssl } = readParameters(parsed.searchParams);
  const tls = readTls(ssl['ssl-mode'], ssl['ssl-ca']);
  if (socket !== undefined && Object.keys(ssl).length > 0) {
    throw new ConfigError('--mysql_url names a socket, which never leaves this machine: leave ssl-mode and ssl-ca out');
  }
  const name = decode(parsed.pathname.slice(1));
  return {
    address:
      socket === undefined
        ? { host: parsed.hostname.replace(/^\[|\]$/g, ''), port: Number(parsed.port || 3306), tls }
        : { socketPath: socket },
    name: name === '' ? null : name,
    user: decode(parsed.username),
    password: decode(parsed.password),
  };
}

const urlParameters = ['socket', 'ssl-mode', 'ssl-ca'] as const;

type UrlParameters = Partial<Record<(typeof urlParameters)[number], string>>;

function readParameters(search: URLSearchParams): UrlParameters {
  const parameters: UrlParameters = {};
  for (const [key, value] of search) {
    const name = urlParameters.find((known) => known === key);
    if (name === undefined) {
      throw new ConfigError(`--mysql_url has an unknown parameter '${key}'; it takes ${urlParameters.join(', ')}`);
    }
    if (parameters[name] !== undefined) throw new ConfigError(`--mysql_url gives ${name} twice`);
    parameters[name] = value;
  }
  return parameters;
}

/** The names of MySQL's own clients are taken too (MySQL manual, "--ssl-mode"), in any case, and those short ones. */
const tlsModes: Readonly<Record<string, DatabaseTls['mode'] | 'disabled'>> = {
  disabled: 'disabled',
  disable: 'disabled',
  required: 'required',
  require: 'required',
  'verify-ca': 'verify-ca',
  'verify-full': 'verify-full',
  'verify-identity': 'verify-full',
};

function readTls(modeName = 'disabled', caFile?: string): DatabaseTls | null {
  const mode = Object.hasOwn(tlsModes, foldMode(modeName)) ? tlsModes[foldMode(modeName)] : undefined;
  if (mode === undefined) {
    throw new ConfigError(
      `--mysql_url has the ssl-mode '${modeName}'; it must be one of disabled, required, verify-ca, verify-full`,
    );
  }
  if (caFile === undefined) return mode === 'disabled' ? null : { mode, ca: null };
  // Whoever names a CA wants certificates checked; not to do it would be worse than to say so.
  if (mode === 'disabled' || mode === 'required') {
    throw new ConfigError('--mysql_url has an ssl-ca, which only ssl-mode=verify-ca and ssl-mode=verify-full look at');
  }
  return { mode, ca: readCertificates(caFile) };
}

function foldMode(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

function readCertificates(file: string): string {
  try {
    const pem = readFileSync(file, 'utf8');
    // The first one stands for all: TLS itself would pass over a file without any, and then trust nobody.
    new X509Certificate(pem);
    return pem;
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException;
    const reason = syscall === undefined ? 'it holds no certificate (PEM)' : message;
    throw new ConfigError(`--mysql_url has the ssl-ca '${file}', which cannot be used: ${reason}`);
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new ConfigError('--mysql_url has a bad percent code; a percent sign itself is written %25');
  }
}

/** The text of `--help`. */
export function helpText(): string {
  const texts = Object.entries<TextOption>(textOptions).map(
    ([name, { placeholder, help, default: byDefault }]): HelpEntry => ({
      name,
      placeholder,
      text: `${help} (default: ${byDefault || 'none'})`,
    }),
  );
  const flags = Object.entries<FlagOption>(flagOptions).map(
    ([name, { help }]): HelpEntry => ({ name, placeholder: '', text: `${help} (default: off)` }),
  );
  const numbers = Object.entries<NumberOption>(numberOptions).map(
    ([name, { help, unit, min, max, default: byDefault }]): HelpEntry => ({
      name,
      placeholder: 'N',
      text: `${help} (${unit}, ${min} to ${max}, default: ${byDefault})`,
    }),
  );
  return formatHelp(version, [...texts, ...flags, ...numbers]);
}
