// npm run test:node -- LINE [ARGUMENTS]: runs the tests on another line of Node: 22, 24, 26 or an exact version. npm's package
// "node" brings the binary, which is kept in .cache/. The arguments behind the line are those of npm test.

import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { obtainNode } from './node-line.mjs';
import { ROOT, runQuietly, SetupError, say } from './setup.mjs';

const [line, ...args] = process.argv.slice(2);
try {
  run(obtainNode(line));
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exit(1);
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
