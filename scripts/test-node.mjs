// npm run test:node -- LINE [ARGUMENTS]: runs the tests on another line of Node: 22, 24, 26 or an exact version. npm's package
// "node" brings the binary, which is kept in .cache/. The arguments behind the line are those of npm test.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { ROOT, runQuietly, SetupError, say } from './setup.mjs';

const [line, ...args] = process.argv.slice(2);
try {
  run(obtainNode(line));
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exit(1);
}

/** The path of that line's binary. */
function obtainNode(line) {
  if (!/^\d+(\.\d+){0,2}$/.test(line ?? '')) {
    throw new SetupError('name a line of Node: npm run test:node -- 22 [test files]');
  }
  const folder = join(ROOT, `.cache/node-${line}`);
  const binary = join(folder, 'node_modules/node/bin/node');
  if (!existsSync(binary)) {
    say(`fetching Node ${line} for the tests (npm's package node, into .cache)`);
    mkdirSync(folder, { recursive: true });
    runQuietly('npm', ['install', '--prefix', folder, '--no-audit', '--no-fund', `node@${line}`], 'npm install node');
  }
  if (!existsSync(binary)) throw new SetupError(`npm's package node@${line} has no binary for this machine`);
  return binary;
}

function run(binary) {
  say(`testing on Node ${runQuietly(binary, ['--version'], 'node --version').trim()}`);
  // The tests start the server by the path of their own binary; what they start by name finds the same one.
  const PATH = `${dirname(binary)}${delimiter}${process.env.PATH ?? ''}`;
  const tests = spawn(binary, [join(ROOT, 'scripts/test.mjs'), ...args], {
    cwd: ROOT,
    env: { ...process.env, PATH },
    stdio: 'inherit',
  });
  // Ctrl-C reaches the tests too, which stop what they have started and then end this process with their exit code.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => tests.kill(signal));
  tests.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
