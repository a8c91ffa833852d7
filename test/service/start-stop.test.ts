import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import { get, post, type QueryResponse, query, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

const PROJECT_FOLDER = fileURLToPath(new URL('../../../', import.meta.url));
const MAIN_FILE = join(PROJECT_FOLDER, 'dist/main.js');
const START_FILE = join(PROJECT_FOLDER, 'scripts/start.mjs');

// Ten times the usual durations on an idle machine. After a second signal, the service gives statements one second to
// end. A stop that waited for results would take minutes. A start that created the data again would log so.
const ABORT_MS_MAX = 15_000;
const SECOND_START_MS_MAX = 20_000;
const LONG = 'SELECT SLEEP(600)';
const noWait = { pagination: { wait_time_secs: 0 } };

/** Keeps a core of the database busy, much longer than any test waits. */
const spin = "SELECT BENCHMARK(100000000000, SHA2('x', 512))";

/** More bytes than the service reads ahead, in few large rows, which are cheaper than many small ones. */
const large = numbers(1_000_000, "REPEAT('x', 10000)");

for (const server of await sharedServers()) {
  // A signal has the same effect with both databases, so in the short form each is tested with one signal.
  const one = server.kind === 'mariadb' ? 'SIGTERM' : 'SIGINT';
  for (const signal of figure([one], ['SIGTERM', 'SIGINT']) satisfies NodeJS.Signals[]) {
    t.test(
      `${server.kind}: after ${signal}, results can be read to the end, new statements are refused, and the service exits`,
      async (t) => {
        const { sluice, user, running } = await start(t, server, ['--drain_secs', '60', '--drain_idle_secs', '60']);
        const lock = `${user}_lock`;
        const holder = await query(sluice.url, `SELECT GET_LOCK('${lock}', 0)`, {
          user,
          body: { session: { max_idle_time: 60 } },
        });
        const pages = (await post(sluice.url, { sql: numbers(1000), pagination: { max_rows_per_page: 300 } }, { user }))
          .json;
        const waiting = (await post(sluice.url, { sql: `SELECT GET_LOCK('${lock}', 60)`, ...noWait }, { user })).json;
        t.equal(waiting.state, 'Running');
        const exited = exitOf(sluice.child);
        sluice.child.kill(signal);

        const ready = await until(
          () => get(sluice.url, '/ready'),
          ({ status }) => status === 503,
        );
        t.match(ready.text, /stopping/);
        t.ok(ready.headers['retry-after']);
        const refused = await post(sluice.url, { sql: 'SELECT 1' }, { user });
        t.equal(refused.status, 503);
        t.match(refused.text, /stopping/);
        t.ok(refused.headers['retry-after']);
        t.equal((await get(sluice.url, '/health')).status, 200);

        const rows: unknown[] = [...pages.data];
        for (let next = pages.next_uri; next !== null; ) {
          const page = (await get(sluice.url, next, { user })).json;
          rows.push(...page.data);
          next = page.next_uri;
        }
        t.equal(rows.length, 1000, 'no row of an unread result is lost');
        t.equal((await get(sluice.url, waiting.next_uri as string, { user })).json.state, 'Running');
        t.equal(sluice.child.exitCode, null, 'it waits for the running statement');

        await server.sql(`KILL ${await server.sql(`SELECT IS_USED_LOCK('${lock}')`)}`);
        const last = await follow(sluice, waiting, user);
        t.match(last, { state: 'Succeeded', data: [[1]] }, 'the running statement succeeds');
        const begin = performance.now();
        t.same(await exited, [0, null], 'it exits with success');
        t.ok(performance.now() - begin < ABORT_MS_MAX, 'long before --drain_secs');
        t.equal(await running(), 0);
        t.ok(holder);
      },
    );

    t.test(
      `${server.kind}: after ${signal} and --drain_secs, running statements are cancelled in the database`,
      async (t) => {
        const { sluice, user, running } = await start(t, server, ['--drain_secs', '1', '--log_level', 'debug']);
        const statements = [LONG, large, LONG, spin];
        const started = await Promise.all(
          statements.map((sql) => post(sluice.url, { sql, ...noWait }, { user }).then(({ json }) => json)),
        );
        const kept = await query(sluice.url, 'SELECT 1', { user, body: { session: { max_idle_time: 60 } } });
        const queued = { sql: LONG, ...noWait, session: { id: kept.last.session_id } };
        await post(sluice.url, queued, { user });
        await post(sluice.url, queued, { user });
        await until(running, (count) => count >= 4);
        const exited = exitOf(sluice.child);
        const begin = performance.now();
        sluice.child.kill(signal);
        const polled = get(sluice.url, (started[0] as QueryResponse).next_uri as string, { user });
        t.same(await exited, [0, null]);
        const tookMs = performance.now() - begin;
        t.comment(`ended after ${Math.round(tookMs)} ms`);
        // Usually takes two seconds.
        t.ok(tookMs >= 990 && tookMs < 20_000, `ended after ${Math.round(tookMs)} ms`);
        t.equal(await running(), 0, 'no statement is left in the database');
        await until(sluice.log, (log) => log.includes('"msg":"stopped"'));
        t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
        // The poll is answered before the service ends, or its connection is closed with the service.
        const answer = await polled.catch(() => undefined);
        if (answer !== undefined) t.match(answer.json, { next_uri: /./ });
      },
    );

    t.test(`${server.kind}: a second ${signal} ends the service at once and leaves nothing behind`, async (t) => {
      const { sluice, user, running } = await start(t, server, ['--drain_secs', '600', '--drain_idle_secs', '600']);
      for (const sql of [LONG, LONG, spin, large]) await post(sluice.url, { sql, ...noWait }, { user });
      await until(running, (count) => count >= 4);
      const exited = exitOf(sluice.child);
      sluice.child.kill(signal);
      await until(
        () => get(sluice.url, '/ready'),
        ({ status }) => status === 503,
      );
      const begin = performance.now();
      sluice.child.kill(signal);
      const [code] = await exited;
      const tookMs = performance.now() - begin;
      t.comment(`ended after ${Math.round(tookMs)} ms`);
      t.ok(tookMs < ABORT_MS_MAX, `ended after ${Math.round(tookMs)} ms`);
      t.equal(code, signal === 'SIGTERM' ? 143 : 130);
      await until(running, (count) => count === 0);
      t.equal(await running(), 0, 'no statement is left in the database');
    });
  }

  t.test(
    `${server.kind}: a statement that arrives during the stop is refused or cancelled, and not left running`,
    async (t) => {
      for (let round = 0; round < figure(2, 5); round++) {
        const { sluice, user, running } = await start(t, server, ['--drain_secs', '0']);
        const posts = Array.from({ length: 20 }, () =>
          post(sluice.url, { sql: LONG, ...noWait }, { user }).then(
            ({ status }) => status,
            () => 'cut off' as const,
          ),
        );
        // While logins are in progress and connections are being opened.
        await Promise.race(posts.slice(0, round + 1));
        const exited = exitOf(sluice.child);
        sluice.child.kill('SIGTERM');
        t.same(await exited, [0, null]);
        for (const outcome of await Promise.all(posts)) t.ok([200, 503, 'cut off'].includes(outcome), `${outcome}`);
        await until(running, (count) => count === 0);
        t.equal(await running(), 0, `round ${round}`);
      }
    },
  );

  t.test(`B6: ${server.kind}: a stop does not wait for results that nobody polls`, async (t) => {
    // The wait would exceed the timeout of the test.
    const { sluice, user, running } = await start(t, server, ['--drain_secs', '3600', '--drain_idle_secs', '1']);
    const begin = (sql: string): Promise<QueryResponse> =>
      post(sluice.url, { sql, pagination: { max_rows_per_page: 100, wait_time_secs: 0 } }, { user }).then(
        ({ json }) => json,
      );
    await begin(LONG);
    await begin(numbers(1_000));
    const polled = await begin('SELECT SLEEP(3)');
    await until(running, (count) => count >= 2);
    const exited = exitOf(sluice.child);
    sluice.child.kill('SIGTERM');
    let last = polled;
    while (last.next_uri !== null) {
      last = (await get(sluice.url, last.next_uri, { user })).json;
      await delay(50);
    }
    t.match(last, { state: 'Succeeded', data: [[0]] }, 'a result that is polled can be read to its end');
    t.same(await exited, [0, null]);
    t.equal(await running(), 0, 'no statement is left in the database');
  });

  t.test(`${server.kind}: an idle service stops at once`, async (t) => {
    const { sluice, user } = await start(t, server, ['--drain_secs', '600', '--drain_idle_secs', '600']);
    await query(sluice.url, 'SELECT 1', { user, body: { session: { max_idle_time: 600 } } });
    const begin = performance.now();
    t.equal(await sluice.stop(), 0);
    t.ok(performance.now() - begin < ABORT_MS_MAX);
  });
}

t.test('a service whose log is on a full disk exits after SIGTERM with its usual exit code', async (t) => {
  const args = ['--mysql_url', 'mysql://root@127.0.0.1:1', '--drain_secs', '600', '--log_level', 'debug'];
  const sluice = await startSluice(args, {}, ['sh', '-c', 'exec "$@" 2>/dev/full', 'sh']);
  t.teardown(() => sluice.kill());
  t.equal((await get(sluice.url, '/health')).status, 200);
  const begin = performance.now();
  t.equal(await sluice.stop(), 0);
  t.ok(performance.now() - begin < ABORT_MS_MAX);
});

t.test('an address of another machine is reported in one line', async (t) => {
  const result = await run(['--mysql_url', 'mysql://root@127.0.0.1:1', '--http_handler_host', '192.0.2.1']);
  t.equal(result.code, 1);
  t.match(result.log, /^sluice: cannot start: .*192\.0\.2\.1.*--http_handler_host.*\n$/);
});

t.test('a port in use is reported before the private database is made', async (t) => {
  const dataDir = await temporaryFolder(t);
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  t.teardown(() => holder.close());
  const { port } = holder.address() as AddressInfo;
  const result = await run(['--data_dir', dataDir, '--http_handler_port', `${port}`]);
  t.equal(result.code, 1);
  t.match(result.log, new RegExp(`^sluice: cannot start: .*address already in use.*${port}: .*--http_handler_port\n$`));
  t.same(readdirSync(dataDir), [], 'nothing was made');
});

t.test('the embedded default', { timeout: 540_000 }, async (t) => {
  const dataDir = await temporaryFolder(t);

  await t.test('a first start that is stopped by a signal leaves no process and can be repeated', async (t) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const child = launch(['--data_dir', dataDir, '--http_handler_port', '0']);
      const { log, output } = collected(child);
      await until(log, (text) => text.includes('making the sample database'));
      await until(
        () => processesOf(dataDir),
        (found) => found.length > 0,
      );
      const begin = performance.now();
      child.kill(signal);
      const [code] = await exitOf(child);
      t.equal(code, 0, `${signal}: ${log()}`);
      t.ok(performance.now() - begin < ABORT_MS_MAX);
      t.equal(output(), '', 'it did not report an address');
      t.notMatch(log(), /\n\s+at /, 'no stack');
      t.same(processesOf(dataDir), [], 'no process is left');
      t.notOk(leftIn(dataDir).some((name) => ['lock', 'run', 'tmp', 'data-unfinished', 'data'].includes(name)));
    }
  });

  await t.test('it prints its address, and its three examples work unchanged', async (t) => {
    const sluice = await startSluice(['--data_dir', dataDir, '--drain_secs', '1']);
    const lines = sluice.output().trimEnd().split('\n');
    t.match(lines[0], new RegExp(`^[^:]*${sluice.url}$`), 'the first line has the address');
    const examples = await until(
      () =>
        sluice
          .output()
          .split('\n')
          .filter((line) => /^\s*curl /.test(line)),
      (found) => found.length === 3,
    );
    t.equal((await get(sluice.url, '/ready')).status, 200);
    for (const line of examples) {
      const result = spawnSync('sh', ['-c', line], { encoding: 'utf8' });
      t.equal(result.status, 0, line);
      const answer = JSON.parse(result.stdout) as QueryResponse;
      t.ok(['Succeeded', 'Running'].includes(answer.state), `${line}: ${answer.error?.message}`);
      t.ok(answer.data.length > 0, 'the example returns rows');
    }
    t.ok(processesOf(dataDir).length > 0, 'the database is a separate process');
    await query(sluice.url, 'CREATE TABLE kept (a INT)');
    await query(sluice.url, 'INSERT INTO kept VALUES (42)');
    t.equal(await sluice.stop(), 0);
    t.same(processesOf(dataDir), [], 'no process is left');
    t.same(leftIn(dataDir), ['data', 'error.log', 'files'], 'no file is left');
  });

  await t.test('the second start has the same data', async (t) => {
    const begin = performance.now();
    const sluice = await startSluice(['--data_dir', dataDir]);
    const ready = await until(
      () => get(sluice.url, '/ready'),
      ({ status }) => status === 200,
    );
    const tookMs = performance.now() - begin;
    t.comment(`second start: ${Math.round(tookMs)} ms`);
    t.equal(ready.text, 'ready');
    t.ok(tookMs < SECOND_START_MS_MAX, `${Math.round(tookMs)} ms`);
    t.same((await query(sluice.url, 'SELECT a FROM kept')).rows, [[42]]);
    t.equal(await sluice.stop(), 0);
  });

  await t.test(
    'D5: a port in use is reported in one line, which names the option, and the database is stopped again',
    async (t) => {
      const holder = createServer().listen(0, '127.0.0.1');
      await once(holder, 'listening');
      t.teardown(() => holder.close());
      const { port } = holder.address() as AddressInfo;
      for (const args of [
        ['--mysql_url', 'mysql://root@127.0.0.1:1'],
        ['--data_dir', dataDir],
      ]) {
        const result = await run([...args, '--http_handler_port', `${port}`, '--log_level', 'error']);
        t.equal(result.code, 1);
        t.equal(result.output, '');
        t.match(
          result.log,
          new RegExp(`^sluice: cannot start: .*address already in use.*${port}: .*--http_handler_port\n$`),
        );
      }
      t.same(processesOf(dataDir), [], 'no process is left');
      t.same(leftIn(dataDir), ['data', 'error.log', 'files'], 'no file is left');
    },
  );

  await t.test('the database of a killed service ends, and the next service starts', async (t) => {
    const sluice = await startSluice(['--data_dir', dataDir]);
    t.ok(processesOf(dataDir).length > 0);
    await sluice.kill();
    await until(
      () => processesOf(dataDir),
      (found) => found.length === 0,
    );
    t.same(processesOf(dataDir), [], 'no process is left');
    const next = await startSluice(['--data_dir', dataDir]);
    t.same((await query(next.url, 'SELECT a FROM kept')).rows, [[42]]);
    t.equal(await next.stop(), 0);
    t.same(leftIn(dataDir), ['data', 'error.log', 'files'], 'no file is left');
  });

  await t.test('a second signal ends the service and its database at once', async (t) => {
    const sluice = await startSluice(['--data_dir', dataDir, '--drain_secs', '600', '--drain_idle_secs', '600']);
    for (const sql of [LONG, spin]) await post(sluice.url, { sql, ...noWait });
    const exited = exitOf(sluice.child);
    sluice.child.kill('SIGTERM');
    await until(
      () => get(sluice.url, '/ready'),
      ({ status }) => status === 503,
    );
    const begin = performance.now();
    sluice.child.kill('SIGTERM');
    await exited;
    const tookMs = performance.now() - begin;
    t.comment(`ended after ${Math.round(tookMs)} ms`);
    t.ok(tookMs < ABORT_MS_MAX, `${Math.round(tookMs)} ms`);
    await until(
      () => processesOf(dataDir),
      (found) => found.length === 0,
    );
    t.same(leftIn(dataDir), ['data', 'error.log', 'files'], 'no file is left');
  });

  await t.test('a database that ends by itself ends the service, which logs the reason', async (t) => {
    const sluice = await startSluice(['--data_dir', dataDir]);
    const [pid] = processesOf(dataDir);
    const exited = exitOf(sluice.child);
    process.kill(pid as number, 'SIGKILL');
    const [code] = await exited;
    t.equal(code, 1);
    await until(sluice.log, (log) => /^sluice: the private MariaDB ended/m.test(log));
    t.same(leftIn(dataDir), ['data', 'error.log', 'files'], 'no file is left');
  });

  await t.test('Ctrl-C on npm start is one regular stop', async (t) => {
    // npm and its script both get the terminal's signal, and npm forwards it once more.
    const args = [
      'start',
      '--silent',
      '--',
      '--data_dir',
      dataDir,
      '--http_handler_port',
      '0',
      '--drain_secs',
      '60',
      '--drain_idle_secs',
      '60',
    ];
    const child = spawn('npm', args, { cwd: PROJECT_FOLDER, detached: true, env: environment() });
    t.teardown(() => signalGroup(child, 'SIGKILL'));
    const { log, output } = collected(child);
    const text = await until(output, (text) => /http:\S+:\d+/.test(text));
    const url = /http:\S+:\d+/.exec(text)?.[0] as string;
    const waiting = (await post(url, { sql: 'SELECT SLEEP(2)', ...noWait })).json;
    const exited = exitOf(child);
    signalGroup(child, 'SIGINT');
    let last = waiting;
    while (last.next_uri !== null) {
      last = (await get(url, last.next_uri)).json;
      await delay(50);
    }
    t.match(last, { state: 'Succeeded', data: [[0]] }, 'the running statement can be read to its end');
    await exited;
    await until(
      () => processesOf(dataDir),
      (found) => found.length === 0,
    );
    await until(log, (text) => text.includes('"msg":"stopped"'));
    t.equal(log().match(/"msg":"draining"/g)?.length, 1, 'it stopped once');
    t.same(leftIn(dataDir), ['data', 'error.log', 'files'], 'no file is left');
  });

  await t.test('a second Ctrl-C on npm start ends it at once', async (t) => {
    const args = [
      START_FILE,
      '--data_dir',
      dataDir,
      '--http_handler_port',
      '0',
      '--drain_secs',
      '600',
      '--drain_idle_secs',
      '600',
    ];
    const child = spawn(process.execPath, args, { cwd: PROJECT_FOLDER, detached: true, env: environment() });
    t.teardown(() => signalGroup(child, 'SIGKILL'));
    const { output } = collected(child);
    const text = await until(output, (text) => /http:\S+:\d+/.test(text));
    const url = /http:\S+:\d+/.exec(text)?.[0] as string;
    await post(url, { sql: LONG, ...noWait });
    const exited = exitOf(child);
    signalGroup(child, 'SIGINT');
    // A signal sooner after the first is treated as the same key press.
    await delay(700);
    t.equal((await get(url, '/ready')).status, 503);
    const begin = performance.now();
    signalGroup(child, 'SIGINT');
    const [code] = await exited;
    t.equal(code, 130);
    t.ok(performance.now() - begin < ABORT_MS_MAX + 500);
    await until(
      () => processesOf(dataDir),
      (found) => found.length === 0,
    );
  });
});

function numbers(count: number, column = 'd0.d'): string {
  const digits =
    '(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)';
  const tables = Array.from({ length: Math.ceil(Math.log10(count)) }, (_, index) => `${digits} d${index}`);
  return `SELECT ${column} FROM ${tables.join(' CROSS JOIN ')} LIMIT ${count}`;
}

/** Starts a service and creates a user, so that the statements of the test can be distinguished from others. */
async function start(t: Test, server: DatabaseServer, args: readonly string[]) {
  const user = `stop_${randomBytes(4).toString('hex')}`;
  await server.sql(`CREATE USER ${user}@'%'`);
  t.teardown(() => server.sql(`DROP USER ${user}@'%'`));
  const url = `mysql://root@127.0.0.1:${server.port}/`;
  const sluice = await startSluice(['--mysql_url', url, '--worker_threads', '1', ...args]);
  t.teardown(() => sluice.kill());
  const count = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${user}' AND COMMAND <> 'Sleep'`;
  return { sluice, user, running: async () => Number(await server.sql(count)) };
}

async function follow(sluice: SluiceProcess, first: QueryResponse, user: string): Promise<QueryResponse> {
  let last = first;
  while (last.next_uri !== null) last = (await get(sluice.url, last.next_uri, { user })).json;
  return last;
}

async function temporaryFolder(t: Test): Promise<string> {
  const folder = realpathSync(await mkdtemp(join(tmpdir(), 'start-')));
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }));
  return folder;
}

function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_')));
}

function launch(args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [MAIN_FILE, ...args], {
    detached: true,
    env: environment(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const destroy = () => child.kill('SIGKILL');
  process.on('exit', destroy);
  child.on('exit', () => process.off('exit', destroy));
  return child;
}

async function run(args: readonly string[]) {
  const child = launch(args);
  const { log, output } = collected(child);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, log: log(), output: output() };
}

function collected(child: ChildProcess) {
  const texts = { output: '', log: '' };
  child.stdout?.on('data', (chunk: Buffer) => {
    texts.output += chunk;
  });
  child.stderr?.on('data', (chunk: Buffer) => {
    texts.log += chunk;
  });
  return { output: () => texts.output, log: () => texts.log };
}

function exitOf(child: ChildProcess): Promise<[number | null, NodeJS.Signals | null]> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve([child.exitCode, child.signalCode]);
  child.ref();
  return once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-(child.pid as number), signal);
  } catch {
    // The whole group has ended.
  }
}

/** The processes of a private MariaDB: those with its folder as --datadir. */
function processesOf(dataDir: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        // A zombie process has an empty command line.
        return words.some((word) => word.startsWith('--datadir=') && word.includes(dataDir));
      } catch {
        return false;
      }
    });
}

function leftIn(dataDir: string): string[] {
  const folder = join(dataDir, 'mariadb');
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}
