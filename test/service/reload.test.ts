import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { findPrograms } from '#src/embedded/programs.js';
import { makeCertificate } from '../support/certificates.ts';
import { putPrivateData } from '../support/private-data.ts';
import { sharedServers } from '../support/servers.ts';
import { get, post, query, startSluice } from '../support/sluice.ts';
import { until } from '../support/until.ts';

const MAIN_FILE = fileURLToPath(new URL('../../../dist/main.js', import.meta.url));
const START_FILE = fileURLToPath(new URL('../../../scripts/start.mjs', import.meta.url));

// SIGHUP does not depend on the database.
const [server] = await sharedServers();
const mysqlUrl = server?.url ?? '';

t.test('D1: SIGHUP without TLS is logged, and the server continues', async (t) => {
  const sluice = await startSluice(['--mysql_url', mysqlUrl]);
  t.teardown(() => sluice.stop());
  sluice.child.kill('SIGHUP');
  await until(
    () => sluice.log(),
    (log) => log.includes('"msg":"nothing_reloaded"'),
  );
  t.match(sluice.log(), /"level":30,.*"reason":"there is no --tls_cert; other options are read at the start"/);
  const { rows } = await query(sluice.url, 'SELECT 1');
  t.strictSame(rows, [[1]]);
});

t.test('D1: SIGHUP during the stop does not end the server before its results are read', async (t) => {
  const sluice = await startSluice(['--mysql_url', mysqlUrl, '--drain_secs', '60']);
  sluice.child.ref();
  const exited = once(sluice.child, 'exit');
  const paged = { sql: 'SELECT 1 UNION ALL SELECT 2', pagination: { max_rows_per_page: 1, wait_time_secs: 30 } };
  const { json } = await post(sluice.url, paged);
  sluice.child.kill('SIGTERM');
  await until(
    () => get(sluice.url, '/ready'),
    ({ status }) => status === 503,
  );
  for (let count = 0; count < 3; count++) sluice.child.kill('SIGHUP');
  await until(
    () => sluice.log(),
    (log) => log.includes('nothing_reloaded'),
  );
  const page = await get(sluice.url, json.next_uri ?? '');
  t.strictSame(page.json.data, [[2]], 'the result can still be read');
  t.strictSame(await exited, [0, null]);
});

t.test('SIGHUP while the modules are loaded does not end the server', async (t) => {
  const sent = join(t.testdir({ sent: '' }), 'sent');
  const sluice = await startSluice(['--mysql_url', mysqlUrl], {
    NODE_OPTIONS: `--import=${new URL('../support/early-hangups.js', import.meta.url).href}`,
    EARLY_HANGUPS: sent,
  });
  t.teardown(() => sluice.stop());
  const specifiers = readFileSync(sent, 'utf8').trim().split('\n');
  t.ok(specifiers.length > 50, `${specifiers.length} signals`);
  t.match(specifiers, ['./run.js'], 'the first signal came at the first module');
  const { rows } = await query(sluice.url, 'SELECT 1');
  t.strictSame(rows, [[1]]);
});

t.test('D1: SIGHUP during the start does not end the server, and takes effect afterwards', async (t) => {
  const files = await makeCertificate(t);
  const next = await makeCertificate(t);
  const dataDir = t.testdir();
  const args = [
    ...['--http_handler_port', '0', '--data_dir', dataDir, '--drain_secs', '0'],
    ...['--tls_cert', files.certFile, '--tls_key', files.keyFile],
  ];
  await putPrivateData(dataDir);
  // The test controls how long the private database takes to start.
  const gate = await slowMariadb(t);
  const child = spawn(process.execPath, [MAIN_FILE, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    env: { ...process.env, PATH: `${gate.folder}:${process.env['PATH']}` },
  });
  t.teardown(() => end(child));
  let output = '';
  let log = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  await until(gate.isReached);
  await copyFile(next.certFile, files.certFile);
  await copyFile(next.keyFile, files.keyFile);
  child.kill('SIGHUP');
  t.notMatch(output, 'listens', 'it is still starting');
  gate.open();
  const url = await until(
    () => /https:\S+/.exec(output)?.[0],
    (url) => url !== undefined || child.exitCode !== null || child.signalCode !== null,
  );
  t.ok(url, `it listens: ${log}`);
  await until(
    () => log,
    (log) => log.includes('certificate_renewed'),
  );
  t.equal(await statusOf(`${url}/health`, next.cert), 200);
});

t.test('SIGHUP to npm start reads the certificate again', async (t) => {
  const files = await makeCertificate(t);
  const next = await makeCertificate(t);
  const args = [...startArgs(t), '--tls_cert', files.certFile, '--tls_key', files.keyFile];
  const child = spawn(process.execPath, [START_FILE, ...args], { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  t.teardown(() => end(child));
  const read = readerOf(child);
  const url = await until(
    () => /https:\S+/.exec(read())?.[0],
    (url) => url !== undefined || child.exitCode !== null,
  );
  t.ok(url, read());
  await copyFile(next.certFile, files.certFile);
  await copyFile(next.keyFile, files.keyFile);
  child.kill('SIGHUP');
  await until(read, (text) => text.includes('certificate_renewed'));
  t.equal(await statusOf(`${url}/health`, next.cert), 200);
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  t.strictSame(await exited, [0, null], 'a signal that follows at once is no repetition');
});

const terminal = ['script', '--quiet', '--flush', '--return', '--command'] as const;
const hasTerminal = spawnSync(terminal[0], [...terminal.slice(1), 'test -t 0', '/dev/null']).status === 0;

t.test('a terminal that is closed ends npm start', { skip: hasTerminal ? false : 'no script(1)' }, async (t) => {
  const args = startArgs(t);
  const logFile = join(t.testdirName, 'log');
  const command = `exec '${process.execPath}' '${START_FILE}' ${args.join(' ')} 2>'${logFile}'`;
  const [program, ...options] = terminal;
  const child = spawn(program, [...options, command, '/dev/null'], { stdio: ['pipe', 'pipe', 'pipe'] });
  t.teardown(() => child.kill('SIGKILL'));
  const read = readerOf(child);
  await until(read, (text) => /http:\S+/.test(text));
  child.kill('SIGKILL');
  await until(
    () => readFileSync(logFile, 'utf8'),
    (log) => log.includes('"msg":"stopped"'),
  );
  t.pass('the server has stopped');
});

function startArgs(t: Test): string[] {
  return ['--mysql_url', mysqlUrl, '--data_dir', t.testdir(), '--http_handler_port', '0', '--drain_secs', '0'];
}

/** Its output and its log so far. */
function readerOf({ stdout, stderr }: ChildProcess): () => string {
  let text = '';
  for (const stream of [stdout, stderr]) {
    stream?.on('data', (chunk) => {
      text += chunk;
    });
  }
  return () => text;
}

/** A program with the name of MariaDB's server that waits, and then executes the server. */
async function slowMariadb(t: Test) {
  const { server } = await findPrograms();
  // The user that MariaDB runs as may be another one, and must have access.
  const folder = mkdtempSync(join(tmpdir(), 'slow-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o777);
  const [reached, opened] = [join(folder, 'reached'), join(folder, 'opened')];
  const script = `#!/bin/sh\n: > '${reached}'\nwhile [ ! -e '${opened}' ]; do sleep 0.05; done\nexec '${server}' "$@"\n`;
  writeFileSync(join(folder, 'mariadbd'), script);
  chmodSync(join(folder, 'mariadbd'), 0o755);
  return { folder, isReached: () => existsSync(reached), open: () => writeFileSync(opened, '') };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  await exited;
}

function statusOf(url: string, ca: Buffer): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { ca }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on('error', reject).end();
  });
}
