// Other lines of Node than the one that runs this, for the tests and the benchmark.

import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, runQuietly, SetupError, say } from './setup.mjs';

/** The path of a binary of that line, such as 22. npm's package "node" brings it into .cache/. */
export function obtainNode(line) {
  if (!/^\d+(\.\d+){0,2}$/.test(line ?? '')) {
    throw new SetupError(`'${line ?? ''}' is not a line of Node, such as 22`);
  }
  const folder = join(ROOT, `.cache/node-${line}`);
  const binary = join(folder, 'node_modules/node/bin/node');
  if (!existsSync(binary)) {
    say(`fetching Node ${line} (npm's package node, into .cache)`);
    mkdirSync(folder, { recursive: true });
    runQuietly('npm', ['install', '--prefix', folder, '--no-audit', '--no-fund', `node@${line}`], 'npm install node');
  }
  if (!existsSync(binary)) throw new SetupError(`npm's package node@${line} has no binary for this machine`);
  return binary;
}
