import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import type { Config } from '#src/config/config.js';
import { ConfigError } from '#src/config/config-error.js';
import { helpText } from '#src/config/help.js';
import { optionsDoc } from '#src/config/options-doc.js';
import { readCommand } from '#src/config/read-command.js';

const MAIN_FILE = fileURLToPath(new URL('../../../dist/main.js', import.meta.url));
const MIB = 1024 * 1024;

/** Every numeric option with what docs/options.md promises: its default, its least and its greatest value. */
const NUMBERS: Readonly<Record<string, [byDefault: number, min: number, max: number]>> = {
  http_handler_port: [8000, 0, 65_535],
  worker_threads: [Math.min(4, availableParallelism()), 1, 256],
  connections_max: [128, 1, 100_000],
  connections_per_user_max: [0, 0, 100_000],
  queue_max: [1024, 0, 1_000_000],
  queue_wait_secs: [60, 0, 2_147_483],
  connection_idle_secs: [30, 1, 86_400],
  connect_timeout_secs: [10, 1, 3600],
  kill_timeout_secs: [5, 1, 3600],
  ping_secs: [5, 1, 3600],
  worker_stall_secs: [30, 1, 3600],
  logins_max: [64, 1, 10_000],
  auth_cache_secs: [30, 0, 3600],
  auth_failures_max: [60, 1, 1_000_000],
  auth_cache_max: [10_000, 1, 10_000_000],
  queries_max: [10_000, 1, 10_000_000],
  queries_per_user_max: [1000, 1, 10_000_000],
  unread_per_user_max: [1000, 1, 10_000_000],
  single_page_results_max: [100, 1, 10_000_000],
  removed_queries_max: [100_000, 2, 10_000_000],
  sessions_max: [96, 1, 100_000],
  sessions_per_user_max: [64, 1, 100_000],
  session_idle_secs_max: [14_400, 1, 86_400],
  session_queue_max: [8, 0, 100_000],
  statement_timeout_secs: [3600, 0, 2_147_483],
  result_timeout_secs: [60, 1, 2_147_483],
  result_timeout_secs_max: [3600, 1, 2_147_483],
  disconnect_secs: [5, 0, 3600],
  wait_time_secs_max: [50, 0, 3600],
  page_rows_max: [1_000_000, 1, 2_147_483_647],
  page_bytes_max: [8 * MIB, 1024, 1024 * MIB],
  buffer_rows_max: [5_000_000, 1, 2_147_483_647],
  query_buffer_bytes_max: [16 * MIB, 1024, 2048 * MIB],
  buffer_bytes_max: [512 * MIB, MIB, 1024 * 1024 * MIB],
  spill_bytes_max: [1024 * MIB, 0, 1024 * 1024 * MIB],
  spill_total_bytes_max: [10 * 1024 * MIB, 0, 1024 * 1024 * MIB],
  spill_bytes_per_user_max: [0, 0, 1024 * 1024 * MIB],
  spill_files_max: [2_000, 1, 1_000_000],
  spill_wait_ms: [100, 0, 3_600_000],
  kept_secs_max: [86_400, 0, 2_147_483],
  kept_bytes_max: [10 * 1024 * MIB, 0, 1024 * 1024 * 1024 * MIB],
  kept_bytes_per_user_max: [0, 0, 1024 * 1024 * 1024 * MIB],
  kept_count_max: [1_000, 1, 1_000_000],
  gzip_level: [1, 0, 9],
  row_bytes_max: [64 * MIB, 1024, 512 * MIB],
  columns_max: [8_192, 1, 65_535],
  results_bytes_max: [1024 * MIB, MIB, 1024 * 1024 * MIB],
  body_bytes_max: [16 * MIB, 1024, 1024 * MIB],
  params_max: [65_535, 1, 65_535],
  request_bytes_max: [256 * MIB, MIB, 1024 * 1024 * MIB],
  request_bytes_per_user_max: [0, 0, 1024 * 1024 * MIB],
  header_bytes_max: [16 * 1024, 1024, MIB],
  pipelined_requests_max: [100, 1, 10_000],
  pipelined_bytes_max: [64 * MIB, 0, 1024 * 1024 * MIB],
  request_timeout_secs: [30, 1, 3600],
  http_idle_secs: [120, 1, 86_400],
  http_connections_max: [20_000, 1, 1_000_000],
  drain_secs: [30, 0, 2_147_483],
  drain_idle_secs: [5, 0, 2_147_483],
  embedded_start_secs: [60, 1, 3600],
  pinned_session_idle_secs: [300, 1, 86_400],
  client_session_bytes_max: [65_536, 1_024, 1_048_576],
};

/** Every textual option: its default and another value that it takes. */
const TEXTS: Readonly<Record<string, [byDefault: string, other: string]>> = {
  http_handler_host: ['127.0.0.1', '::1'],
  http_host_names: ['', 'sql.example,sluice'],
  data_dir: ['sluice-data', '/some where/é'],
  anonymous_user: ['', 'guest'],
  anonymous_password: ['', 'a=b--c_d'],
  dialect: ['auto', 'databend'],
  on_disconnect: ['continue', 'cancel'],
  cors_origin: ['', 'https://a.example,https://b.example'],
  log_level: ['info', 'debug'],
};

/** Every option that is on or off; all are off unless given. */
const FLAGS = ['read_only', 'log_sql'];

/** Other options that must be set so that each extreme of an option is accepted. */
const COMPANIONS: Readonly<Record<string, string[]>> = {
  page_bytes_max: [`--query_buffer_bytes_max=${2048 * MIB}`],
  query_buffer_bytes_max: ['--page_bytes_max=1024'],
  buffer_bytes_max: [`--results_bytes_max=${1024 * 1024 * MIB}`],
  results_bytes_max: [`--buffer_bytes_max=${MIB}`],
  body_bytes_max: [`--request_bytes_max=${1024 * 1024 * MIB}`],
  request_bytes_max: ['--body_bytes_max=1024'],
  connections_per_user_max: ['--connections_max=100000'],
  request_bytes_per_user_max: [`--request_bytes_max=${1024 * 1024 * MIB}`],
  kept_bytes_per_user_max: [`--kept_bytes_max=${1024 * 1024 * 1024 * MIB}`],
  spill_bytes_per_user_max: [`--spill_total_bytes_max=${1024 * 1024 * MIB}`],
  queries_per_user_max: ['--queries_max=10000000'],
  unread_per_user_max: ['--queries_max=10000000'],
  sessions_max: ['--connections_max=100000'],
  sessions_per_user_max: ['--connections_max=100000', '--sessions_max=100000'],
  anonymous_password: ['--anonymous_user=guest'],
};

t.test('every option has the default that is promised, and there is no other option', async (t) => {
  const config = serve([]);
  for (const [name, [byDefault]] of Object.entries(NUMBERS)) t.equal(settingOf(config, name), byDefault, name);
  for (const [name, [byDefault]] of Object.entries(TEXTS)) t.equal(settingOf(config, name), byDefault, name);
  for (const name of FLAGS) t.equal(settingOf(config, name), false, name);
  const names = [...Object.keys(NUMBERS), ...Object.keys(TEXTS), ...FLAGS, 'tls_cert', 'tls_key', 'mysql_url'];
  const members = Object.values(config).flatMap((group) => Object.keys(group));
  t.same(members.sort(), names.map(memberOf).sort());
  t.equal(config.database.mysqlUrl, null, 'without --mysql_url the database is the private one');
  t.ok(Object.isFrozen(config));
  for (const [name, group] of Object.entries(config)) t.ok(Object.isFrozen(group), name);
});

t.test('every option is set by a flag, spelled either way, and by the environment; the flag wins', async (t) => {
  const values = [
    ...Object.entries(NUMBERS).flatMap(([name, [, min, max]]) => [min, max].map((value) => [name, value] as const)),
    ...Object.entries(TEXTS).map(([name, [, other]]) => [name, other] as const),
  ];
  for (const [name, value] of values) {
    const companions = COMPANIONS[name] ?? [];
    const dashed = name.replaceAll('_', '-');
    const variable = `SLUICE_${name.toUpperCase()}`;
    t.equal(settingOf(serve([...companions, `--${name}`, `${value}`]), name), value, `--${name} ${value}`);
    t.equal(settingOf(serve([...companions, `--${name}=${value}`]), name), value, `--${name}=${value}`);
    t.equal(settingOf(serve([...companions, `--${dashed}=${value}`]), name), value, `--${dashed}=${value}`);
    t.equal(settingOf(serve([...companions, `--${dashed}`, `${value}`]), name), value, `--${dashed} ${value}`);
    t.equal(settingOf(serve(companions, { [variable]: `${value}` }), name), value, `${variable}=${value}`);
    const other = name in NUMBERS ? 'nonsense' : (TEXTS[name] as string[])[0];
    const flagged = serve([...companions, `--${name}=${value}`], { [variable]: other });
    t.equal(settingOf(flagged, name), value, `--${name} wins over ${variable}`);
  }
});

t.test(
  'D4: an option that is on or off is set by its flag, alone or with =on or =off, or by the environment',
  async (t) => {
    const values = { on: true, off: false, true: true, false: false, 1: true, 0: false };
    for (const name of FLAGS) {
      const dashed = name.replaceAll('_', '-');
      const variable = `SLUICE_${name.toUpperCase()}`;
      t.equal(settingOf(serve([`--${name}`]), name), true);
      t.equal(settingOf(serve([`--${dashed}`]), name), true);
      for (const [value, isOn] of Object.entries(values)) {
        t.equal(settingOf(serve([], { [variable]: value }), name), isOn, `${variable}=${value}`);
        t.equal(settingOf(serve([`--${name}=${value}`]), name), isOn, `--${name}=${value}`);
        t.equal(settingOf(serve([`--${dashed}=${value}`]), name), isOn, `--${dashed}=${value}`);
        const other = `${!isOn}`;
        t.equal(settingOf(serve([`--${name}=${value}`], { [variable]: other }), name), isOn, 'the flag wins');
      }
      t.equal(settingOf(serve([`--${name}`, `--${name}=off`]), name), false, 'the last one holds');
      const choices = 'it must be one of on, off, true, false, 1, 0';
      for (const value of ['yes', 'ON', '', 'constructor']) {
        refuses(t, [], `${variable} is '${value}'; ${choices}`, { [variable]: value });
        refuses(t, [`--${name}=${value}`], `--${name} is '${value}'; ${choices}`);
      }
      refuses(t, [`--${dashed}`, 'off'], new RegExp(`^'off' after --${name} .*write --${name}=on or --${name}=off`));
    }
  },
);

t.test('the certificate and its key are given together', async (t) => {
  t.match(serve(['--tls_cert=c', '--tls_key=k']), {
    listening: { tlsCert: 'c', tlsKey: 'k' },
  });
});

t.test('the last of two equal flags holds', async (t) => {
  t.equal(serve(['--drain_secs', '1', '--drain-secs=2']).stopping.drainMs, 2_000);
});

t.test('a value out of range is refused with one line that names the option and the range', async (t) => {
  for (const [name, [, min, max]] of Object.entries(NUMBERS)) {
    const values = [`${max + 1}`, ...(min > 0 ? [`${min - 1}`] : [])];
    for (const value of values) {
      const message = `is '${value}'; it must be a whole number from ${min} to ${max}`;
      refuses(t, [`--${name}=${value}`], `--${name} ${message}`);
      refuses(t, [`--${name.replaceAll('_', '-')}`, value], `--${name} ${message}`);
      refuses(t, [], `SLUICE_${name.toUpperCase()} ${message}`, { [`SLUICE_${name.toUpperCase()}`]: value });
    }
  }
});

t.test('what is no whole number is refused', async (t) => {
  const values = [
    '',
    ' ',
    '1 ',
    ' 1',
    '-1',
    '+1',
    '1.5',
    '1e3',
    '0x10',
    '1_000',
    '1,000',
    'ten',
    'NaN',
    'Infinity',
    '１',
  ];
  for (const value of values) {
    refuses(t, [`--drain_secs=${value}`], `--drain_secs is '${value}'; it must be a whole number from 0 to 2147483`);
    refuses(t, [], /^SLUICE_DRAIN_SECS is /, { SLUICE_DRAIN_SECS: value });
  }
  refuses(t, [`--drain_secs=${'9'.repeat(400)}`], /^--drain_secs is /);
});

t.test('a choice is one of those listed', async (t) => {
  for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'silent']) {
    t.equal(serve(['--log_level', level]).log.logLevel, level);
  }
  refuses(t, ['--log_level=loud'], "--log_level is 'loud'; it must be one of trace, debug, info, warn, error, silent");
  refuses(t, [], /^SLUICE_LOG_LEVEL is 'INFO'/, { SLUICE_LOG_LEVEL: 'INFO' });
});

t.test('D4: the refusal of an unknown option names the nearest one', async (t) => {
  const mistakes = {
    '--http-handler-prt': 'http_handler_port',
    '--http_handler_prot=1': 'http_handler_port',
    '--mysqlurl': 'mysql_url',
    '--readonly': 'read_only',
    '--read-olny': 'read_only',
    '--datadir': 'data_dir',
    '--log': null,
    '--port': 'http_handler_port',
    '--versoin': 'version',
    '--hepl': 'help',
    '--unheard_of': null,
    // Former names.
    '--whole_results_max=1': 'single_page_results_max',
    '--held-session-idle-secs=1': 'pinned_session_idle_secs',
  };
  for (const [arg, meant] of Object.entries(mistakes)) {
    const name = arg.replace(/=.*/, '').slice(2).replaceAll('-', '_');
    const hint = meant === null ? '' : ` (did you mean --${meant}?)`;
    refuses(t, [arg], `unknown option --${name}${hint}; see --help`);
  }
});

t.test('an unknown option, a word that is none and a flag without its value are named', async (t) => {
  refuses(t, ['--unknown'], /--unknown/);
  refuses(t, ['--unknown=1'], /--unknown/);
  refuses(t, ['--http-handler-prt', '9000'], /--http_handler_prt/);
  refuses(t, ['-p', '9000'], /-p/);
  refuses(t, ['9000'], /9000/);
  refuses(t, ['serve'], /serve/);
  refuses(t, ['--', 'x'], /'x'/);
  refuses(t, ['--drain_secs'], /--drain_secs/);
  refuses(t, ['--drain_secs', '--http_handler_port=0'], /^--drain_secs has no value/);
  refuses(t, ['--drain_secs', '-1'], /^--drain_secs is '-1'; it must be a whole number from 0 to 2147483;/);
  refuses(t, ['--drain_secs=1', '--drain-secs', '-2'], /^--drain_secs is '-2'; it must be/);
  refuses(
    t,
    ['--data_dir', '-x'],
    '--data_dir has no value; one that begins with a dash is given as --data_dir=-…; see --help',
  );
  refuses(t, ['--no-help'], /--no_help/);
  refuses(t, ['--help=yes'], /--help/);
});

t.test('a variable SLUICE_… that is no option is refused, with the nearest one', async (t) => {
  const mistakes = {
    SLUICE_READONLY: 'SLUICE_READ_ONLY',
    SLUICE_MYSQLURL: 'SLUICE_MYSQL_URL',
    SLUICE_PORT: 'SLUICE_HTTP_HANDLER_PORT',
    SLUICE_read_only: 'SLUICE_READ_ONLY',
    SLUICE_UNHEARD_OF: null,
    SLUICE_: null,
  };
  for (const [variable, meant] of Object.entries(mistakes)) {
    const hint = meant === null ? '' : ` (did you mean ${meant}?)`;
    refuses(t, [], `unknown option ${variable} in the environment${hint}; see --help`, { [variable]: '1' });
  }
  t.same(readCommand(['--help'], { SLUICE_READONLY: '1' }), { type: 'help' });
  t.same(readCommand(['--version'], { SLUICE_READONLY: '1' }), { type: 'version' });
});

t.test('the variables that Kubernetes sets for services are no options', async (t) => {
  for (const name of ['SLUICE', 'SLUICE_DB']) {
    t.ok(
      serve([], {
        [`${name}_SERVICE_HOST`]: '10.0.0.11',
        [`${name}_SERVICE_PORT`]: '8000',
        [`${name}_SERVICE_PORT_HTTP`]: '8000',
        [`${name}_PORT`]: 'tcp://10.0.0.11:8000',
        [`${name}_PORT_8000_TCP`]: 'tcp://10.0.0.11:8000',
        [`${name}_PORT_8000_TCP_PROTO`]: 'tcp',
        [`${name}_PORT_8000_TCP_PORT`]: '8000',
        [`${name}_PORT_8000_TCP_ADDR`]: '10.0.0.11',
      }),
      name,
    );
  }
});

t.test('an option that is given as an empty text is refused', async (t) => {
  const defaults = { mysql_url: 'none', tls_cert: 'none', tls_key: 'none', http_handler_host: '127.0.0.1' };
  const others = { data_dir: 'sluice-data', http_host_names: 'none', anonymous_user: 'none', cors_origin: 'none' };
  for (const [name, byDefault] of Object.entries({ ...defaults, ...others })) {
    const message = `is empty: leave it out for the default (${byDefault})`;
    refuses(t, [`--${name}=`], `--${name} ${message}`);
    refuses(t, [`--${name}`, ''], `--${name} ${message}`);
    const variable = `SLUICE_${name.toUpperCase()}`;
    refuses(t, [], `${variable} ${message}`, { [variable]: '' });
  }
  t.equal(serve(['--anonymous_user=guest', '--anonymous_password=']).users.anonymousPassword, '', 'except a password');
});

t.test('other people’s variables are left alone', async (t) => {
  t.equal(serve([], { DRAIN_SECS: '1', drain_secs: '1', sluice_drain_secs: '1', PORT: 'x' }).stopping.drainMs, 30_000);
  t.equal(serve([], { SLUICE_DRAIN_SECS: undefined }).stopping.drainMs, 30_000);
});

t.test('two options that contradict each other are both named', async (t) => {
  refuses(t, ['--query_buffer_bytes_max=1024'], /--query_buffer_bytes_max.*--page_bytes_max/);
  refuses(t, ['--page_bytes_max=16777217'], /--query_buffer_bytes_max.*--page_bytes_max/);
  refuses(t, ['--results_bytes_max=1048576'], /--results_bytes_max.*--buffer_bytes_max/);
  refuses(t, ['--request_bytes_max=67108864'], /--request_bytes_max.*--body_bytes_max/);
  refuses(t, ['--request_bytes_per_user_max=67108863'], /--request_bytes_per_user_max.*--body_bytes_max/);
  refuses(t, ['--body_bytes_max=67108864'], /--request_bytes_max.*--body_bytes_max/);
  t.ok(serve(['--request_bytes_per_user_max=67108864']));
  refuses(t, ['--tls_cert=c'], /--tls_cert and --tls_key/);
  refuses(t, ['--tls_key=k'], /--tls_cert and --tls_key/);
  t.ok(serve(['--page_bytes_max=16777216']), 'equal is enough');
  refuses(t, ['--anonymous_password=x'], /--anonymous_password.*--anonymous_user/);
  refuses(t, ['--sessions_max=129'], /--sessions_max.*--connections_max/);
  refuses(t, ['--sessions_max=96', '--connections_max=95'], /--sessions_max.*--connections_max/);
  t.equal(serve(['--connections_max=1']).sessions.sessionsMax, 96, 'the default is no contradiction');
});

t.test('the share of one user does not exceed the total', async (t) => {
  const shares: [share: string, total: string, byDefault: number][] = [
    ['connections_per_user_max', 'connections_max', 0],
    ['sessions_per_user_max', 'sessions_max', 10],
    ['queries_per_user_max', 'queries_max', 10],
    ['unread_per_user_max', 'queries_max', 10],
  ];
  for (const [share, total, byDefault] of shares) {
    refuses(t, [`--${share}=11`, `--${total}=10`], `--${share} is 11; it must not be more than --${total}, 10`);
    const variable = `SLUICE_${share.toUpperCase()}`;
    refuses(t, [`--${total}=10`], `${variable} is 11; it must not be more than --${total}, 10`, { [variable]: '11' });
    t.equal(settingOf(serve([`--${share}=10`, `--${total}=10`]), share), 10, 'equal is enough');
    t.equal(settingOf(serve([`--${total}=10`]), share), byDefault, `the default of --${share} is lowered`);
  }
  refuses(
    t,
    ['--connections_per_user_max=129'],
    '--connections_per_user_max is 129; it must not be more than --connections_max, 128',
  );
  const bytes = ['--request_bytes_max=134217728', '--request_bytes_per_user_max=134217729'];
  refuses(
    t,
    bytes,
    '--request_bytes_per_user_max is 134217729; it must not be more than --request_bytes_max, 134217728',
  );
});

t.test('--mysql_url names a host, a socket, a database and a user', async (t) => {
  const tcp = (host: string, port: number) => ({ host, port, tls: null });
  const urls: [string, object][] = [
    ['mysql://db', { address: tcp('db', 3306), name: null, user: '', password: '' }],
    ['mysql://db/', { address: tcp('db', 3306), name: null, user: '', password: '' }],
    ['mariadb://db:3307', { address: tcp('db', 3307), name: null, user: '', password: '' }],
    ['mysql://root@127.0.0.1:3306/shop', { address: tcp('127.0.0.1', 3306), name: 'shop', user: 'root', password: '' }],
    ['mysql://u:p@[::1]:1/d', { address: tcp('::1', 1), name: 'd', user: 'u', password: 'p' }],
    ['mysql://a%40b:p%3Aw%2F@h/d%20%C3%A9', { address: tcp('h', 3306), name: 'd é', user: 'a@b', password: 'p:w/' }],
    ['/run/mysqld/mysqld.sock', { address: { socketPath: '/run/mysqld/mysqld.sock' }, name: null, user: '' }],
    [
      'mysql://root:pw@localhost/shop?socket=/tmp/a%20b.sock',
      { address: { socketPath: '/tmp/a b.sock' }, name: 'shop', user: 'root', password: 'pw' },
    ],
  ];
  for (const [url, expected] of urls) {
    t.match(serve(['--mysql_url', url]).database.mysqlUrl, expected, url);
    t.match(serve([], { SLUICE_MYSQL_URL: url }).database.mysqlUrl, expected, `${url} in the environment`);
  }
});

t.test('--mysql_url says how connections to the database are encrypted', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'config-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const [caFile, otherFile] = [join(folder, 'an issuer.pem'), join(folder, 'text.pem')];
  await writeFile(caFile, rootCertificates[0] as string);
  await writeFile(otherFile, 'no certificate\n');
  const tlsOf = (search: string): unknown => {
    const address = serve([`--mysql_url=mysql://h/d?${search}`]).database.mysqlUrl?.address;
    return address !== undefined && 'host' in address ? address.tls : address;
  };
  for (const mode of ['disabled', 'DISABLED', 'disable']) t.equal(tlsOf(`ssl-mode=${mode}`), null, mode);
  const modes = {
    required: ['required', 'REQUIRED', 'require'],
    'verify-ca': ['verify-ca', 'VERIFY_CA', 'verify_ca', 'Verify-CA'],
    'verify-full': ['verify-full', 'VERIFY_IDENTITY', 'verify-identity', 'VERIFY_FULL'],
  };
  for (const [mode, names] of Object.entries(modes)) {
    for (const name of names) t.strictSame(tlsOf(`ssl-mode=${name}`), { mode, ca: null }, name);
  }
  for (const mode of ['verify-ca', 'verify-full']) {
    const ca = encodeURIComponent(caFile);
    t.strictSame(tlsOf(`ssl-ca=${ca}&ssl-mode=${mode}`), { mode, ca: rootCertificates[0] }, 'the file is read at once');
  }

  const choices = /^--mysql_url has the ssl-mode '.*'; it must be one of disabled, required, verify-ca, verify-full$/;
  for (const mode of ['preferred', 'PREFERRED', 'prefer', '', 'true', 'constructor', '__proto__']) {
    refuses(t, [`--mysql_url=mysql://h?ssl-mode=${mode}`], choices);
  }
  const verified = 'mysql://h?ssl-mode=verify-ca&ssl-ca=';
  refuses(t, [`--mysql_url=${verified}${folder}/absent`], /^--mysql_url has the ssl-ca '.*\/absent', .*no such file/);
  refuses(t, [`--mysql_url=${verified}${folder}`], /^--mysql_url has the ssl-ca '.*', .*directory/);
  refuses(t, [`--mysql_url=${verified}`], /^--mysql_url has the ssl-ca ''/);
  refuses(t, [`--mysql_url=${verified}${otherFile}`], /^--mysql_url has the ssl-ca '.*text.pem', .*no certificate/);
  for (const mode of ['', '&ssl-mode=disabled', '&ssl-mode=required']) {
    refuses(t, [`--mysql_url=mysql://h?ssl-ca=${encodeURIComponent(caFile)}${mode}`], /ssl-ca.*ssl-mode=verify-ca/);
  }
  for (const parameter of ['ssl-mode=required', 'ssl-mode=disabled', `ssl-mode=verify-ca&ssl-ca=${caFile}`]) {
    refuses(t, [`--mysql_url=mysql://h?socket=/s&${parameter}`], /^--mysql_url names a socket.*ssl-mode and ssl-ca/);
  }
});

t.test('a parameter of --mysql_url that means nothing is named, and so is one given twice', async (t) => {
  for (const name of ['sslmode', 'ssl_mode', 'SSL-MODE', 'ssl', 'charset', '']) {
    refuses(
      t,
      [`--mysql_url=mysql://h?${name}=x`],
      `--mysql_url has an unknown parameter '${name}'; it takes socket, ssl-mode, ssl-ca`,
    );
  }
  refuses(t, ['--mysql_url=mysql://h?socket=/a&socket=/b'], '--mysql_url gives socket twice');
  refuses(t, ['--mysql_url=mysql://h?ssl-mode=required&ssl-mode=disabled'], '--mysql_url gives ssl-mode twice');
  refuses(t, ['--mysql_tls=verify'], /--mysql_tls/);
});

t.test('a --mysql_url that cannot be read is refused with one line that names it', async (t) => {
  const urls = [
    ...['db', 'db:3306', 'http://db', 'postgres://db/d', 'mysql:', 'mysql://', 'mysql:///shop', 'mysql:db', ' '],
    ...['mysql://db:port', 'mysql://db:65536', 'mysql://db:-1', './mysqld.sock', 'mysql://[::1'],
    ...['mysql://db/%', 'mysql://db/%ff', 'mysql://%zz@db', 'mysql://u:%e9@db'],
  ];
  for (const url of urls) refuses(t, [`--mysql_url=${url}`], /^--mysql_url /);
});

t.test('what --mysql_url could not mean is refused', async (t) => {
  const mistakes: [url: string, message: RegExp][] = [
    ['mysql://h?socket=', /empty socket/],
    ['mysql://h:0', /port 0/],
    ['mysql://h/a/b', /more than one name after the host.*%2F/],
    ['mysql://h/a/', /more than one name/],
    ['mysql://h/a#b', /'#'.*%23/],
    ['mysql://h/a#', /'#'/],
    ['mysql://u:p#w@h', /'#'.*%23/],
  ];
  for (const [url, message] of mistakes) {
    refuses(t, [`--mysql_url=${url}`], message);
    refuses(t, [`--mysql_url=${url}`], /^--mysql_url /);
  }
  const { mysqlUrl } = serve(['--mysql_url=mysql://u:p%23w@h/a%2Fb']).database;
  t.match(mysqlUrl, { name: 'a/b', password: 'p#w' });
});

t.test('an address in brackets is refused with the address that is meant', async (t) => {
  refuses(t, ['--http_handler_host', '[::1]'], "--http_handler_host is '[::1]'; leave the brackets out: ::1");
});

t.test('a refusal does not show the password of --mysql_url', async (t) => {
  for (const url of [
    'http://u:hush@db',
    'mysql://u:hush@db:port',
    'mysql://u:hush@db/%',
    'mysql://u:1/hush@db',
    'mysql://u:#hush@db',
  ]) {
    const error = errorOf([`--mysql_url=${url}`]);
    t.notMatch(error?.message, /hush/, url);
  }
});

t.test('--help lists every option with its default and its unit', async (t) => {
  t.same(readCommand(['--help'], {}), { type: 'help' });
  t.same(readCommand(['-h'], {}), { type: 'help' });
  t.same(readCommand(['--http_handler_port=0', '--help'], { SLUICE_DRAIN_SECS: 'x' }), { type: 'help' });
  const help = helpText();
  for (const [name, [byDefault, min, max]] of Object.entries(NUMBERS)) {
    const entry = entryOf(help, name);
    t.match(entry, new RegExp(`\\([a-z]+, ${min} to ${max}, default: ${byDefault}\\)$`), name);
  }
  const others = { mysql_url: [''], tls_cert: [''], tls_key: [''] };
  for (const [name, [byDefault]] of Object.entries({ ...TEXTS, ...others })) {
    t.match(entryOf(help, name), `(default: ${byDefault || 'none'})`, name);
  }
  for (const name of FLAGS) t.match(entryOf(help, name), '(default: off)', name);
  const listed = [...help.matchAll(/^ {2}--(\w+)/gm)].map(([, name]) => name);
  t.same(listed.sort(), [...Object.keys(NUMBERS), ...Object.keys(TEXTS), ...FLAGS, ...Object.keys(others)].sort());
  t.match(help, /SLUICE_/);
});

t.test(
  'docs/options.md is what the table of options gives, and lists every option with its default and its unit',
  async (t) => {
    const doc = await readFile(new URL('../../../docs/options.md', import.meta.url), 'utf8');
    t.equal(doc, optionsDoc(), 'run "npm run options-doc"');
    const rows = new Map(
      [...doc.matchAll(/^\| `--(\w+)` \| (.+?) \| (.+?) \| (.+?) \| (.+) \|$/gm)].map(([, name = '', ...cells]) => [
        name,
        cells,
      ]),
    );
    const entries = [...helpText().matchAll(/^ {2}--(\w+)/gm)].map(([, name = '']) => name);
    t.same([...rows.keys()], entries, 'the options of --help, in the same order');
    const help = helpText();
    for (const [name, [byDefault, unit, values, meaning = '']] of rows) {
      const entry = entryOf(help, name);
      t.ok(entry.includes(` ${meaning.replaceAll('\\', '')} (`), `${name} means the same: ${entry}`);
      const number = NUMBERS[name];
      if (number === undefined) {
        t.ok(entry.endsWith(`(default: ${byDefault})`), `${name} has the default ${byDefault}`);
      } else {
        const [defaultNumber, min, max] = number;
        t.equal(byDefault, name === 'worker_threads' ? 'one per core, up to 4' : String(defaultNumber), name);
        t.equal(values, `${min} to ${max}`, name);
        t.ok(entry.includes(`(${unit}, `), `${name} has the unit ${unit}`);
      }
    }
  },
);

t.test('D4: --help has an example, names a subject for every option and no line longer than 100 columns', async (t) => {
  const help = helpText();
  for (const line of help.split('\n')) t.ok(line.length <= 100, line);
  const examples = [...help.matchAll(/^ {2}(?:SLUICE_MYSQL_URL=(\S+) )?sluice(?: (--.*))?$/gm)];
  t.ok(examples.length > 1);
  for (const [line, url, args = ''] of examples) {
    t.doesNotThrow(() => serve(args.split(' ').filter(Boolean), { SLUICE_MYSQL_URL: url }), line);
  }
  t.notMatch(help, /^Other:/m, 'a new option belongs to a group');
  t.notMatch(help, /:\n\n/, 'no subject is empty');
});

t.test('D4: --version prints the name and the version in package.json', async (t) => {
  const { version } = JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8'));
  t.same(readCommand(['--version'], {}), { type: 'version' });
  t.match(await run(['--version'], { PATH: '' }), { status: 0, stdout: `sluice ${version}\n`, stderr: '' });
});

t.test('the program prints its help without a database', async (t) => {
  // Nothing is on the way of the search, so that not even a MariaDB could be started.
  const result = await run(['--help'], { PATH: '' });
  t.equal(result.status, 0);
  t.equal(result.stdout, helpText());
  t.equal(result.stderr, '');
});

t.test('the program refuses a bad option with one line on standard error and exit code 1', async (t) => {
  const cases: [string[], Record<string, string>, RegExp][] = [
    [['--http_handler_prt=1'], {}, /^sluice: .*--http_handler_prt/],
    [['--http-handler-port', '65536'], {}, /^sluice: --http_handler_port is '65536'/],
    [['--drain_secs', '-1'], {}, /^sluice: .*--drain_secs/],
    [['--mysql_url', 'mysql://db/%'], {}, /^sluice: --mysql_url/],
    [[], { SLUICE_LOG_LEVEL: 'loud' }, /^sluice: SLUICE_LOG_LEVEL is 'loud'/],
  ];
  const results = await Promise.all(cases.map(([args, environment]) => run(args, environment)));
  for (const [index, [args, , line]] of cases.entries()) {
    const result = results[index] as RunResult;
    t.equal(result.status, 1, args.join(' '));
    t.equal(result.stdout, '');
    t.match(result.stderr, line);
    t.equal(result.stderr.trimEnd().split('\n').length, 1, result.stderr);
  }
});

interface RunResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program until it ends. */
function run(args: string[], env: Record<string, string>): Promise<RunResult> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN_FILE, ...args], { env }, (error, stdout, stderr) => {
      resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

function serve(args: readonly string[], environment: Record<string, string | undefined> = {}): Config {
  const command = readCommand(args, environment);
  if (command.type !== 'serve') throw new Error('it was taken for a call for help');
  return command.config;
}

/** The value of an option in the unit of its name. */
function settingOf(config: Config, name: string): unknown {
  const member = memberOf(name);
  const group = Object.values(config).find((values) => member in values) as Record<string, unknown> | undefined;
  const value = group?.[member];
  return /_secs(?:_|$)/.test(name) ? Number(value) / 1_000 : value;
}

/** The name of an option's member in the config: queue_wait_secs is queueWaitMs. */
function memberOf(name: string): string {
  const [first = '', ...words] = name.replace('secs', 'ms').split('_');
  return first + words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join('');
}

function errorOf(args: readonly string[], environment: Record<string, string | undefined> = {}): Error | undefined {
  try {
    serve(args, environment);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

function refuses(t: Test, args: string[], message: string | RegExp, environment: Record<string, string> = {}): void {
  const error = errorOf(args, environment);
  const name = [...args, ...Object.entries(environment).map((pair) => pair.join('='))].join(' ').slice(0, 80);
  t.type(error, ConfigError, name);
  if (typeof message === 'string') t.equal(error?.message, message, name);
  else t.match(error?.message, message, name);
  t.notOk(error?.message.includes('\n'), `${name}: one line`);
}

/** The help text of an option, in one line. */
function entryOf(help: string, name: string): string {
  const [, first, rest = ''] = new RegExp(`^ {2}(--${name}\\b.*)\n((?: {6}.*\n)+)`, 'm').exec(help) ?? [];
  return first === undefined ? '' : `${first} ${rest.replace(/\s+/g, ' ').trim()}`;
}
