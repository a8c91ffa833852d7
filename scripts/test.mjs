// npm test: brings what is missing, compiles and lints everything, and runs the tests against one MariaDB and one MySQL
// that the whole suite shares. The last line on stdout is the count: "N passed, N failed". Arguments choose test files
// (test/query/ring.test.ts) or are options for tap; --long runs what needs hours, too.

import { spawn } from 'node:child_process';
import { chmodSync, createWriteStream, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { obtainMysql } from './mysql.mjs';
import { build, checkNode, installMariadb, installPackages, ROOT, runQuietly, SetupError, say } from './setup.mjs';

// How many test files are run at a time.
const SIDE_BY_SIDE = 3;
// Files and folders that are run one by one, when all others are done: what measures time, load or memory, and what looks
// at more of the servers that all tests share than is its own.
const ALONE = [
  'test/databend/driver.test.ts',
  'test/embedded',
  'test/faults',
  'test/hot-path.test.ts',
  'test/http/server.test.ts',
  'test/service/cancel.test.ts',
  'test/service/disconnect.test.ts',
  'test/service/lifetime.test.ts',
  'test/service/paging.test.ts',
  'test/service/polls.test.ts',
  'test/service/queue.test.ts',
  'test/service/sessions.test.ts',
  'test/service/start-stop.test.ts',
  'test/worker/delivery.test.ts',
  'test/worker/prepared.test.ts',
];

const TEST_FILE_SECONDS_MAX = 600;
const LONG_TEST_FILE_SECONDS_MAX = 3 * 3600;

// How long tap may take to end its children after it was told to stop.
const TAP_STOP_MS_MAX = 3_000;

const TAP_LOG = join(ROOT, '.cache/test.log');

const counts = { passed: 0, failed: 0, skipped: 0 };
let mysqlMissing;
let interruptedBy;
let tap;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  // The first signal ends tap, and the way out of main() is the usual one, past everything that must be stopped.
  process.on(signal, () => {
    if (interruptedBy !== undefined) return;
    interruptedBy = signal;
    tap?.kill('SIGTERM');
    setTimeout(() => tap?.kill('SIGKILL'), TAP_STOP_MS_MAX).unref();
  });
}

try {
  await main();
} catch (error) {
  counts.failed++;
  say(error instanceof SetupError ? error.message : error.stack);
}
conclude();

async function main() {
  checkNode();
  await installPackages();
  await installMariadb({ forTests: true });
  mysqlMissing = obtainMysql();
  warnAboutMysql();
  await build(['.']);
  lint();

  // Whatever the tests leave in the temporary folder goes with this one. Its path is short, as sockets lie in it.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-test-'));
  // A private MariaDB that root starts runs as another user, who must be able to enter.
  chmodSync(folder, 0o711);
  try {
    process.env.TMPDIR = folder;
    await withServers((environment) => runTests(environment));
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

/** A fault of style is one failure among others: the tests are still run. */
function lint() {
  try {
    const biome = join(ROOT, 'node_modules/@biomejs/biome/bin/biome');
    runQuietly(process.execPath, [biome, 'check', '--diagnostic-level=error', '.'], 'the linter');
  } catch (error) {
    counts.failed++;
    say(error.message);
  }
}

/** Starts the servers that the suite shares, calls back with the environment that names them, and stops them. */
async function withServers(use) {
  const { SHARED_SERVERS_VARIABLE, startServer } = await import(
    pathToFileURL(join(ROOT, 'build/test/support/servers.js')).href
  );
  const kinds = mysqlMissing === undefined ? ['mariadb', 'mysql'] : ['mariadb'];
  const starts = await Promise.allSettled(kinds.map((kind) => startServer(kind)));
  const servers = starts.filter((start) => start.status === 'fulfilled').map((start) => start.value);
  try {
    const failure = starts.find((start) => start.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
    say(`testing with ${servers.map((server) => `${server.kind} ${server.version}`).join(' and ')}`);
    const shared = servers.map(({ kind, version, socketPath, port, pid }) => ({
      kind,
      version,
      socketPath,
      port,
      pid,
    }));
    await use({ ...process.env, [SHARED_SERVERS_VARIABLE]: JSON.stringify(shared) });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

async function runTests(environment) {
  const { sideBySide, alone, options, isLong } = readArguments(process.argv.slice(2));
  mkdirSync(dirname(TAP_LOG), { recursive: true });
  const log = createWriteStream(TAP_LOG);
  const secondsMax = isLong ? LONG_TEST_FILE_SECONDS_MAX : TEST_FILE_SECONDS_MAX;
  // tap has an option for files that are to be run alone (--serial), but takes all files by the alphabet, so that every
  // one of these would have the others wait.
  for (const [files, jobs] of [
    [sideBySide, SIDE_BY_SIDE],
    [alone, 1],
  ]) {
    const settings = ['--reporter=tap', `--jobs=${jobs}`, `--timeout=${secondsMax}`];
    // What test/support/form.ts reads.
    const form = isLong ? { FORM: 'long' } : {};
    // Has impossible transitions between phases throw (src/wire/phase.ts).
    const variables = { ...environment, ...form, NODE_ENV: 'test' };
    if (files.length > 0) await runTap([...settings, ...options, ...files], variables, log);
  }
  log.end();
}

async function runTap(args, environment, log) {
  if (interruptedBy !== undefined) return;
  // Not before now, as it reads with a parser that is one of the packages.
  const { createReport } = await import('./report.mjs');
  const report = createReport(counts, (text) => process.stdout.write(text));
  const before = { ...counts };
  const reported = new Promise((resolve) => report.on('complete', resolve));

  const program = join(ROOT, 'node_modules/tap/dist/esm/run.mjs');
  tap = spawn(process.execPath, [program, ...args], {
    cwd: ROOT,
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  tap.stdout.pipe(log, { end: false });
  tap.stdout.pipe(report);
  const [code, signal] = await new Promise((resolve, reject) => {
    tap.on('error', reject);
    tap.on('close', (...how) => resolve(how));
  });
  tap = undefined;
  await reported;

  if (interruptedBy !== undefined) return;
  if ((code !== 0 || signal !== null) && counts.failed === before.failed) {
    // Something went wrong that is no test's failure: tap itself, or a file of which nothing was heard.
    counts.failed++;
    say(`tap ended with ${signal ?? `code ${code}`} though no test failed; its log is ${relative(ROOT, TAP_LOG)}`);
  } else if (counts.passed + counts.failed === before.passed + before.failed) {
    counts.failed++;
    say('no test was run');
  }
}

/** Splits the command line into the compiled forms of the test files it names and the options for tap. */
function readArguments(given) {
  const sources = readdirSync(join(ROOT, 'test'), { recursive: true })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join('test', name))
    .sort();
  const chosen = given
    .filter((arg) => !arg.startsWith('-'))
    .flatMap((arg) => {
      const path = relative(ROOT, resolve(ROOT, arg));
      const matches = sources.filter((source) => isIn(source, path));
      if (matches.length === 0) throw new SetupError(`no test file ${arg}`);
      return matches;
    });
  const files = chosen.length > 0 ? chosen : sources;
  const isAlone = (source) => ALONE.some((path) => isIn(source, path));
  // Only what has a source is run: the compiled form of a test that has been removed is still in the folder.
  const compiled = (source) => join('build', source.replace(/\.ts$/, '.js'));
  return {
    sideBySide: files.filter((source) => !isAlone(source)).map(compiled),
    alone: files.filter(isAlone).map(compiled),
    options: given.filter((arg) => arg.startsWith('-') && arg !== '--long'),
    isLong: given.includes('--long'),
  };
}

/** Whether a file is the one at the path, or in the folder there. */
function isIn(file, path) {
  return file === path || file.startsWith(path + sep);
}

function warnAboutMysql() {
  if (mysqlMissing === undefined) return;
  const line = '!'.repeat(100);
  process.stderr.write(`${line}\n!! NOT TESTED WITH MySQL, WITH MariaDB ALONE: ${mysqlMissing}\n${line}\n`);
}

function conclude() {
  warnAboutMysql();
  if (interruptedBy !== undefined) {
    counts.failed++;
    say(`interrupted by ${interruptedBy}`);
  }
  const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
  process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  process.exitCode = interruptedBy ? 128 + constants.signals[interruptedBy] : Math.min(counts.failed, 1);
}
