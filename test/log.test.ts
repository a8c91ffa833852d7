import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { ServiceEvent } from '#src/events.js';
import { until } from './support/until.ts';

const LOG_MODULE = new URL('../../dist/log.js', import.meta.url).href;
const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const LEVELS = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, silent: 100 } as const;

/** Each kind of event with its level. The child adds the error, which JSON cannot carry. */
const EVENTS: readonly [ServiceEvent, keyof typeof LEVELS][] = [
  [{ type: 'listening', address: 'http://127.0.0.1:8000' }, 'info'],
  [{ type: 'draining', queries: 2, drainMs: 30_000 }, 'info'],
  [{ type: 'stopped' }, 'info'],
  [{ type: 'embedded_database', message: 'making the sample database' }, 'info'],
  [{ type: 'listening_unprotected', address: 'http://0.0.0.0:8000', advice: 'give --tls_cert and --tls_key' }, 'warn'],
  [{ type: 'certificate_renewed', file: '/cert.pem' }, 'info'],
  [{ type: 'certificate_refused', reason: '--tls_key /key.pem is not the private key of --tls_cert' }, 'error'],
  [{ type: 'nothing_reloaded', reason: 'there is no --tls_cert' }, 'info'],
  [{ type: 'user_blocked', user: 'root', failures: 60, retryAfterSecs: 12 }, 'warn'],
  [{ type: 'query_started', query: 'q1', session: 's1', user: 'root' }, 'debug'],
  [
    {
      type: 'query_settled',
      query: 'q1',
      session: 's1',
      user: 'root',
      client: '127.0.0.1',
      requestId: 'r1',
      state: 'Failed',
      code: 1064,
      queueMs: 0.1,
      runningMs: 1.5,
      rows: 0,
      bytes: 0,
      spilledBytes: 0,
      sql: 'SELECT "1"',
    },
    'info',
  ],
  [{ type: 'query_removed', query: 'q1', user: 'root', reason: 'was finished' }, 'debug'],
  [{ type: 'session_opened', session: 's1', user: 'root' }, 'debug'],
  [{ type: 'session_ended', session: 's1', user: 'root', reason: 'idle for 1 s' }, 'debug'],
  [{ type: 'connection_lost', user: 'line\nbreak "and" quote', reason: 'gone' }, 'warn'],
  [{ type: 'orphans_ended', connections: 3 }, 'info'],
  [{ type: 'journal_failed', error: new Error('disk') }, 'warn'],
  [{ type: 'journal_recovered' }, 'info'],
  [{ type: 'worker_failed', error: new Error('thread') }, 'error'],
  [{ type: 'accept_failed', error: new Error('socket') }, 'error'],
  [{ type: 'connect_failed', reason: 'ECONNREFUSED', isOutOfDescriptors: false }, 'debug'],
  [{ type: 'descriptors_exhausted', reason: 'EMFILE' }, 'debug'],
  [{ type: 'database_full', reason: 'Too many connections' }, 'debug'],
  [{ type: 'database_login_refused', reason: 'Access denied' }, 'debug'],
  [{ type: 'http_connection_refused', reason: '--http_connections_max' }, 'debug'],
  [{ type: 'http_connection_replaced', reason: '--http_connections_max' }, 'debug'],
  [{ type: 'login_failed', user: 'root', reason: 'Access denied', isBlocked: false }, 'debug'],
  [{ type: 'trouble_began', trouble: 'database_unavailable', reason: 'ECONNREFUSED' }, 'error'],
  [{ type: 'trouble_began', trouble: 'logins_failing', reason: 'Access denied' }, 'warn'],
  [{ type: 'trouble_ended', trouble: 'database_unavailable', failures: 7, secs: 1.5 }, 'info'],
  [{ type: 'request_refused', status: 400, reason: 'the request is not HTTP', client: '127.0.0.1' }, 'info'],
  [{ type: 'log_lines_dropped', lines: 3 }, 'warn'],
  [
    {
      type: 'request_failed',
      defect: 'abc',
      method: 'GET',
      path: '/',
      requestId: 'r1',
      client: '127.0.0.1',
      error: new Error('oops'),
    },
    'error',
  ],
];

t.test('an event is one line of JSON on standard error, with its level, its time and its members', async (t) => {
  const lines = logged('trace');
  t.equal(lines.length, EVENTS.length);
  EVENTS.forEach(([event, level], index) => {
    const { type, ...members } = event;
    const line = lines[index] as Record<string, unknown>;
    t.equal(line['msg'], type);
    t.equal(line['level'], LEVELS[level], `${type} has the level ${level}`);
    t.ok(Math.abs(Number(line['time']) - Date.now()) < 60_000);
    for (const [name, value] of Object.entries(members))
      if (name !== 'error') t.same(line[name], value, `${type}.${name}`);
  });
});

t.test('D3: an immediate exit loses no line', async (t) => {
  const names = logged('trace', false).map((line) => String(line['msg']));
  t.strictSame(names.sort(), EVENTS.map(([{ type }]) => String(type)).sort());
});

t.test('an error is logged with its message and its stack', async (t) => {
  for (const line of logged('error')) {
    if (line['err'] === undefined) continue;
    const error = line['err'] as { message: string; stack: string; type: string };
    t.match(error.message, /^(thread|socket|oops)$/);
    t.match(error.stack, /^Error: (thread|socket|oops)\n\s+at /);
    t.notOk('error' in line, 'not twice');
    t.strictSame(Object.keys(error).sort(), ['message', 'stack', 'type'], 'other members of the error are omitted');
  }
});

t.test('a level includes the higher levels', async (t) => {
  for (const level of Object.keys(LEVELS) as (keyof typeof LEVELS)[]) {
    const expected = EVENTS.filter(([, worth]) => LEVELS[worth] >= LEVELS[level]).map(([{ type }]) => type);
    t.same(
      logged(level).map((line) => line['msg']),
      expected,
      level,
    );
  }
});

/** The log writes to the file descriptor of standard error, so a child process with a readable one writes it. */
function logged(level: string, isFlushed = true): Record<string, unknown>[] {
  const events = EVENTS.map(([event]) => ('error' in event ? { ...event, error: event.error.message } : event));
  const program = `
    import { openLog } from ${JSON.stringify(LOG_MODULE)};
    const { observe, flush } = openLog(${JSON.stringify(level)});
    for (const event of ${JSON.stringify(events)}) {
      observe('error' in event ? { ...event, error: Object.assign(new Error(event.error), { sql: 'SELECT 1' }) } : event);
    }
    ${isFlushed ? 'await flush();' : ''}
    process.exit(0);`;
  const args = ['--input-type=module', '--eval', program];
  const result = spawnSync(process.execPath, args, { cwd: FOLDER, encoding: 'utf8' });
  t.equal(result.status, 0, result.stderr);
  t.equal(result.stdout, '', 'nothing is written to standard output');
  return result.stderr
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

t.test('D3: a log that nobody reads does not block, and later reports how many lines were lost', async (t) => {
  const program = `
    import { openLog } from ${JSON.stringify(LOG_MODULE)};
    const { observe } = openLog('info');
    const reason = 'x'.repeat(1_000);
    for (let count = 0; count < 20_000; count++) observe({ type: 'request_refused', status: 400, reason, client: '' });
    process.stdout.write('done');
    process.stdin.resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { cwd: FOLDER });
  t.teardown(() => child.kill('SIGKILL'));
  // Standard error is not read until here.
  await once(child.stdout, 'data');
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  await until(
    () => log,
    (log) => /"lines":\d+,"msg":"log_lines_dropped"/.test(log),
  );
  const dropped = Number(/"lines":(\d+),"msg":"log_lines_dropped"/.exec(log)?.[1]);
  const written = log.match(/"msg":"request_refused"/g)?.length ?? 0;
  t.equal(written + dropped, 20_000, `${written} lines written, ${dropped} dropped`);
  t.ok(written > 5_000, 'the buffer takes some megabytes');
});

t.test('D3: a closed log reader does not end the process', async (t) => {
  const program = `
    import { openLog } from ${JSON.stringify(LOG_MODULE)};
    const { observe } = openLog('info');
    process.stdin.on('data', () => {
      for (let count = 0; count < 100; count++) observe({ type: 'stopped' });
      setTimeout(() => process.stdout.write('alive'), 100);
    });
    process.stdout.write('ready');`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { cwd: FOLDER });
  t.teardown(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  child.stderr.destroy();
  child.stdin.write('go');
  const [said] = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')]);
  t.equal(String(said), 'alive');
});

t.test('a log on a full disk does not keep the process from exiting, and its exit code is the one given', async (t) => {
  const full = openSync('/dev/full', 'w');
  for (const isFlushed of [true, false]) {
    const program = `
      import { openLog } from ${JSON.stringify(LOG_MODULE)};
      const { observe, flush } = openLog('info');
      for (let count = 0; count < 1_000; count++) observe({ type: 'stopped' });
      ${isFlushed ? 'await flush();' : ''}
      process.exit(3);`;
    const args = ['--input-type=module', '--eval', program];
    const stdio = ['ignore', 'ignore', full] as const;
    // Without the limit of time, a process that does not exit would block this one.
    const { status } = spawnSync(process.execPath, args, { cwd: FOLDER, stdio: [...stdio], timeout: 60_000 });
    t.equal(status, 3, isFlushed ? 'after a flush' : 'at once');
  }
});
