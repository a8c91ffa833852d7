// What a fresh clone lacks: the packages, a MariaDB server and the compiled sources. Each function here brings one of
// them, says so in one line on stderr when there is something to do, and costs next to nothing when there is not.
// Only built-in modules may be imported, because this file runs before the packages are there, and no syntax or member that
// Node 16 lacks may be used, because it tells the user of an old Node so.

import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, readdirSync, readFileSync, statSync } from 'node:fs';
import { constants as osConstants } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** A failure that the user can act on: its message is the whole story and needs no stack. */
export class SetupError extends Error {
  name = 'SetupError';
}

/** A signal ended the setup. */
export class InterruptedError extends SetupError {
  constructor(signal) {
    super(`interrupted by ${signal}`);
    /** As a shell reports it. */
    this.exitCode = 128 + osConstants.signals[signal];
  }
}

/** Refuses a Node that is older than package.json asks for, before anything is installed for it. */
export function checkNode() {
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const needed = /\d+(\.\d+)*/.exec(engines.node)[0];
  if (compareVersions(process.versions.node, needed) >= 0) return;
  throw new SetupError(
    `Node ${needed} or later is needed, and this is ${process.versions.node} (${process.execPath}): ` +
      'install a newer one (https://nodejs.org)',
  );
}

function compareVersions(one, other) {
  const [left, right] = [one, other].map((version) => version.split('.').map(Number));
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const difference = (left[at] ?? 0) - (right[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Brings the packages that package-lock.json names, when they are missing or older than it. */
export async function installPackages() {
  // npm writes this file when it has finished, so a half-done installation does not count as one.
  const installed = modifiedMs('node_modules/.package-lock.json');
  if (installed !== undefined && installed >= (modifiedMs('package-lock.json') ?? 0)) return;

  say('installing the packages (npm ci)');
  // The compiler is a development dependency, which NODE_ENV=production would leave out.
  await runStep('npm', ['ci', '--include=dev', '--no-audit', '--no-fund'], { title: 'npm ci', output: 'shown' });
}

/**
 * Brings a MariaDB server by the machine's own package manager, and if asked to what the tests use beside it: its command
 * line client, and openssl for certificates.
 */
export async function installMariadb({ forTests = false } = {}) {
  const programs = ['mariadbd', 'mariadb-install-db', ...(forTests ? ['mariadb', 'openssl'] : [])];
  const missing = programs.filter((program) => findProgram(program) === undefined);
  if (missing.length === 0) return;

  const hint =
    'install MariaDB (Debian and Ubuntu: mariadb-server-core and mariadb-client-core), ' +
    'or start with --mysql_url to use a server that you have';
  const manager = PACKAGE_MANAGERS.find(({ name }) => findProgram(name) !== undefined);
  if (manager === undefined) throw new SetupError(`${missing.join(', ')} not found: ${hint}`);
  const prefix = manager.needsRoot ? rootPrefix() : [];
  if (prefix === undefined) throw new SetupError(`${missing.join(', ')} not found and no right to install: ${hint}`);

  say(`installing MariaDB (${manager.name}: ${manager.packages.join(', ')})`);
  for (const step of [...manager.prepare, [...manager.install, ...manager.packages]]) {
    const [command, ...args] = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', manager.name, ...step];
    await runStep(command, args, { title: `${manager.name} ${step[0]}`, hint, isPackageManager: true });
  }

  const stillMissing = programs.filter((program) => findProgram(program) === undefined);
  if (stillMissing.length > 0)
    throw new SetupError(`${manager.name} did not bring ${stillMissing.join(', ')}: ${hint}`);
}

/** Compiles the kernels, and the projects at the given paths, of which the compiler itself knows what has changed. */
export async function build(projects) {
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
  const pretty = process.stderr.isTTY ? ['--pretty'] : [];
  const compile = runStep(process.execPath, [compiler, '-b', ...projects, ...pretty], { title: 'the build' });
  await Promise.all([compile, buildKernels()]);
}

/** Brings what is missing, compiles everything, and runs a compiled program of the benchmark with this command's arguments. */
export async function runBenchProgram(program, prepare = (args) => args) {
  try {
    checkNode();
    await installPackages();
    await installMariadb({ forTests: true });
    await build(['.']);
    const args = prepare(process.argv.slice(2));
    const run = spawnSync(process.execPath, [join(ROOT, 'build/bench', program), ...args], { stdio: 'inherit' });
    process.exitCode = run.status ?? 1;
  } catch (error) {
    say(error instanceof SetupError ? error.message : error.stack);
    process.exitCode = 1;
  }
}

/** Where the kernels are compiled from and to. */
const kernels = [
  ['main.ts', 'dist/worker/kernel.wasm'],
  ['arrow/main.ts', 'dist/worker/arrow/kernel.wasm'],
];

/** Compiles the kernels to WebAssembly, unless the results are newer than the sources, the compiler and this script. */
async function buildKernels() {
  const folder = 'src/worker/kernel';
  const compiler = 'node_modules/assemblyscript';
  const sources = readdirSync(join(ROOT, folder), { recursive: true }).map((name) => join(folder, name));
  const parts = [...sources, join(compiler, 'package.json'), 'scripts/setup.mjs'];
  const newestMs = Math.max(...parts.map((part) => modifiedMs(part) ?? Number.POSITIVE_INFINITY));

  // No runtime, because the kernels allocate nothing; their memories have a fixed size. Warning 112 is about exports of
  // vectors, which are internal here.
  const options = ['--optimizeLevel=3', '--shrinkLevel=0', '--enable=simd', '--runtime=stub', '--noAssert'];
  const program = join(ROOT, compiler, 'bin/asc.js');
  for (const [source, target] of kernels) {
    if ((modifiedMs(target) ?? 0) > newestMs) continue;
    const args = [program, join(folder, source), '--outFile', target, '--disableWarning', '112', ...options];
    await runStep(process.execPath, args, { title: `the build of ${target}` });
  }
}

/** Finds an executable as a shell would, and also where servers are kept that a user's PATH often leaves out. */
export function findProgram(name) {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/usr/bin'];
  for (const folder of folders) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // It is not in this folder.
    }
  }
  return undefined;
}

/** Runs a command, shows what it printed only if it fails, and then throws. Returns what it wrote to stdout. */
export function runQuietly(command, args, title, hint = '') {
  const result = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: OUTPUT_BYTES_MAX });
  if (result.status === 0) return result.stdout;

  process.stderr.write(`${result.stdout ?? ''}${result.stderr ?? ''}`);
  const reason = result.error?.message ?? (result.signal ? `ended by ${result.signal}` : `exit code ${result.status}`);
  throw new SetupError(`${title} failed: ${reason}${hint && `: ${hint}`}`);
}

/**
 * Runs a step of the setup. A signal to this process ends the step and every process that it has started.
 *
 * @param output `shown` as it comes, on stderr, or `kept` and shown if the step fails
 * @throws SetupError if it fails, InterruptedError if a signal has come
 */
export async function runStep(command, args, { title, hint = '', output = 'kept', isPackageManager = false }) {
  let child;
  let interruptedBy;
  let timer;
  let giveUp;
  const interrupt = (signal) => {
    interruptedBy ??= signal;
    signalGroup(child, 'SIGTERM');
    timer ??= setTimeout(giveUp, INTERRUPT_MS_MAX);
  };
  // Before the step begins: a signal that came in between would end this process, and leave the step.
  for (const signal of SIGNALS) process.on(signal, interrupt);
  child = spawn(command, args, {
    cwd: ROOT,
    stdio: ['ignore', ...(output === 'shown' ? [2, 2] : ['pipe', 'pipe'])],
    // A process group of its own, so that one signal reaches all processes of the step. This user may not signal what sudo
    // runs: that stays in the terminal's group, which gets Ctrl-C.
    detached: command !== 'sudo',
  });
  const printed = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => printed.push(chunk));

  const ended = new Promise((resolve) => {
    giveUp = resolve;
    child.on('error', (error) => resolve(error.message));
    // `close` comes after the last output has been read.
    child.on(output === 'shown' ? 'exit' : 'close', (code, signal) => {
      resolve(code === 0 ? undefined : signal ? `ended by ${signal}` : `exit code ${code}`);
    });
  });
  const reason = await ended;
  clearTimeout(timer);
  for (const signal of SIGNALS) process.off(signal, interrupt);
  if (interruptedBy !== undefined) {
    // Processes that ignore SIGTERM are killed. A killed package manager leaves its database broken, so it may finish.
    if (!isPackageManager) signalGroup(child, 'SIGKILL');
    throw new InterruptedError(interruptedBy);
  }
  if (reason === undefined) return;
  process.stderr.write(Buffer.concat(printed));
  throw new SetupError(`${title} failed: ${reason}${hint && `: ${hint}`}`);
}

/** Signals a step and what it has started; does nothing about what has ended. */
function signalGroup(child, signal) {
  try {
    if (child.spawnfile === 'sudo') child.kill(signal);
    else if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch {
    // All of it has ended, or is another user's.
  }
}

/** Tells the user what is going on; stdout is kept for what the user asked for. */
export function say(line) {
  process.stderr.write(`sluice: ${line}\n`);
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** How long a step may take to end after a signal. */
const INTERRUPT_MS_MAX = 1_000;

const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

const PACKAGE_MANAGERS = [
  {
    name: 'apt-get',
    needsRoot: true,
    prepare: [['update']],
    install: ['install', '-y', '--no-install-recommends'],
    packages: ['mariadb-server-core', 'mariadb-client-core', 'openssl'],
  },
  {
    name: 'dnf',
    needsRoot: true,
    prepare: [],
    install: ['install', '-y'],
    packages: ['mariadb-server', 'mariadb', 'openssl'],
  },
  {
    name: 'apk',
    needsRoot: true,
    prepare: [],
    install: ['add', '--no-cache'],
    packages: ['mariadb', 'mariadb-client', 'openssl'],
  },
  { name: 'brew', needsRoot: false, prepare: [], install: ['install'], packages: ['mariadb', 'openssl'] },
];

/** The words to put before a command that needs root: none, a sudo that does not ask, or undefined if neither works. */
function rootPrefix() {
  if (process.getuid?.() === 0) return [];
  return spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0 ? ['sudo', '-n'] : undefined;
}

function modifiedMs(path) {
  return statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs;
}
