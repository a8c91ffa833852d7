// npm test: brings what is missing, compiles and lints everything, and runs the tests against one MariaDB and one MySQL
// that the whole suite shares. The last line on stdout is the count: "N passed, N failed". Arguments choose test files
// (test/query/ring.test.ts); --long runs what needs hours, too.
//
// The files are run by Node itself and not by tap's runner, whose loaders would come into every process that a test starts,
// the server's included.

import { spawn } from 'node:child_process';
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { lint } from './lint.mjs';
import { obtainMysql } from './mysql.mjs';
import { build, checkNode, installMariadb, installPackages, ROOT, SetupError, say } from './setup.mjs';

// How many test files are run at a time.
const SIDE_BY_SIDE = 5;
// The files that take longest are begun first, so that at the end no core waits for one of them.
const FIRST = [
  'test/faults/soak.test.ts',
  'test/service/start-stop.test.ts',
  'test/service/kept-results.test.ts',
  'test/service/faults.test.ts',
  'test/service/large-rows.test.ts',
  'test/api/databend/driver.test.ts',
  'test/faults/reads.test.ts',
  'test/service/authentication.test.ts',
  'test/api/databend/protocol.test.ts',
  'test/api/databend/cursors.test.ts',
  'test/service/paging.test.ts',
  'test/service/progress.test.ts',
  'test/service/parquet.test.ts',
  'test/service/arrow.test.ts',
  'test/faults/restart.test.ts',
  'test/worker/executor.test.ts',
  'test/service/secrets.test.ts',
  'test/service/database-tls.test.ts',
  'test/service/whole-results.test.ts',
  'test/faults/threads.test.ts',
  'test/service/spill-shares.test.ts',
];
// Files that are run two at a time, when those before are done: they measure load or memory, with much room in their limits.
const IN_PAIRS = [
  'test/faults/slow-readers.test.ts',
  'test/faults/stop-under-load.test.ts',
  'test/faults/one-user.test.ts',
  'test/service/polls.test.ts',
];
// Files that are run one by one, when all others are done: what measures time, and what looks at more of the servers that
// all tests share than is its own.
const ALONE = ['test/hot-path.test.ts', 'test/worker/prepared.test.ts'];
// Folders whose tests need neither a server nor a database: the files of one share a process, whose start takes longer than
// most of them do.
const IN_ONE_PROCESS = [
  'test/engine',
  'test/http',
  'test/query',
  'test/results',
  'test/session',
  'test/wire',
  'test/api/native',
];

const TEST_FILE_SECONDS_MAX = 600;
const LONG_TEST_FILE_SECONDS_MAX = 3 * 3600;

const LOG = join(ROOT, '.cache/test.log');

const counts = { passed: 0, failed: 0, skipped: 0 };
let mysqlMissing;
let interruptedBy;
const running = new Set();

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  // The first signal ends the tests, and the way out of main() is the usual one, past everything that must be stopped.
  process.on(signal, () => {
    if (interruptedBy !== undefined) return;
    interruptedBy = signal;
    for (const child of running) child.kill('SIGKILL');
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
  const prepared = Promise.all([build(['.']), reportLint()]);
  // The others go on in processes of their own while it unpacks MySQL.
  mysqlMissing = obtainMysql();
  warnAboutMysql();
  await prepared;

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
async function reportLint() {
  const faults = await lint();
  if (faults === '') return;
  counts.failed++;
  say(faults);
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
  const { sideBySide, inPairs, alone, isLong } = readArguments(process.argv.slice(2));
  mkdirSync(dirname(LOG), { recursive: true });
  writeFileSync(LOG, '');
  const secondsMax = isLong ? LONG_TEST_FILE_SECONDS_MAX : TEST_FILE_SECONDS_MAX;
  const variables = {
    ...environment,
    TAP_TIMEOUT: String(secondsMax),
    // Has impossible transitions between phases throw (src/wire/phase.ts).
    NODE_ENV: 'test',
    // Read by test/support/form.ts.
    ...(isLong ? { FORM: 'long' } : {}),
  };
  for (const [files, jobs] of [
    [sideBySide, SIDE_BY_SIDE],
    [inPairs, isLong ? 1 : 2],
    [alone, 1],
  ]) {
    const waiting = groupFiles(files);
    const work = async () => {
      for (let group = waiting.shift(); group !== undefined && interruptedBy === undefined; group = waiting.shift())
        await runGroup(group, variables, secondsMax);
    };
    await Promise.all(Array.from({ length: jobs }, work));
  }
  if (interruptedBy === undefined && counts.passed + counts.failed === 0) {
    counts.failed++;
    say('no test was run');
  }
}

/** The files that share a process, and each other file, in the order of the first of each. */
function groupFiles(files) {
  const groups = new Map();
  for (const source of files) {
    const name = IN_ONE_PROCESS.includes(dirname(source)) ? dirname(source) : source;
    groups.set(name, [...(groups.get(name) ?? []), source]);
  }
  return [...groups].map(([name, sources]) => ({ name: sources.length === 1 ? sources[0] : name, sources }));
}

/**
 * Runs test files in one process and prints a line about them, and under it what failed in them and what they measured.
 * @param group its files, and what the line calls them
 */
async function runGroup({ name, sources }, variables, secondsMax) {
  // Not before now, as it reads with a parser that is one of the packages.
  const { readResults } = await import('./report.mjs');
  const startedMs = performance.now();
  const compiled = sources.map((source) => join('build', source.replace(/\.ts$/, '.js')));
  const program = compiled.length === 1 ? compiled : [join('scripts', 'test-files.mjs'), ...compiled];
  const child = spawn(process.execPath, ['--enable-source-maps', ...program], {
    cwd: ROOT,
    env: variables,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.add(child);
  const output = [];
  child.stdout.on('data', (chunk) => output.push(chunk));
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, secondsMax * 1000);
  const ended = new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('close', (code, signal) => resolve(signal ?? code));
  });
  const [how, results] = await Promise.all([ended, readResults(child.stdout)]);
  clearTimeout(timer);
  running.delete(child);
  const secs = ((performance.now() - startedMs) / 1000).toFixed(1);
  appendFileSync(LOG, `# ${sources.join(', ')} (${secs} s)\n${Buffer.concat(output)}\n`);
  if (interruptedBy !== undefined) return;

  const { passed, skipped, failures, measured } = results;
  let { failed } = results;
  if (isLate || (how !== 0 && failed === 0)) {
    failed++;
    const reason = isLate ? `was not done after ${secondsMax} s` : `ended with ${how} though no test failed`;
    failures.push(`\n  not ok: ${name} ${reason}; its output is in ${relative(ROOT, LOG)}\n\n`);
  }
  counts.passed += passed;
  counts.failed += failed;
  counts.skipped += skipped;
  const mark = failed > 0 ? 'FAILED' : 'ok    ';
  const tail = skipped > 0 ? `, ${skipped} skipped` : '';
  process.stdout.write(`${mark} ${name} (${secs} s): ${passed} passed, ${failed} failed${tail}\n`);
  for (const line of measured) process.stdout.write(`       ${line}\n`);
  for (const failure of failures) process.stdout.write(failure);
}

/** The test files that the command line names, or all. */
function readArguments(given) {
  const sources = readdirSync(join(ROOT, 'test'), { recursive: true })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join('test', name))
    .sort();
  const unknown = given.find((arg) => arg.startsWith('-') && arg !== '--long');
  if (unknown !== undefined) throw new SetupError(`unknown option ${unknown}: there is --long`);
  const chosen = given
    .filter((arg) => !arg.startsWith('-'))
    .flatMap((arg) => {
      const path = relative(ROOT, resolve(ROOT, arg));
      const matches = sources.filter((source) => isIn(source, path));
      if (matches.length === 0) throw new SetupError(`no test file ${arg}`);
      return matches;
    });
  const files = chosen.length > 0 ? chosen : sources;
  const lists = [FIRST, IN_PAIRS, ALONE];
  const others = files.filter((source) => !lists.some((list) => list.includes(source)));
  const [first, inPairs, alone] = lists.map((list) => list.filter((source) => files.includes(source)));
  return {
    sideBySide: [...first, ...others],
    inPairs,
    alone,
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
