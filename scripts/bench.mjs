// npm run bench: brings what is missing, compiles everything, and runs the benchmark. Arguments name scenarios;
// --readme puts the last whole run's targets into the README instead.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { build, installMariadb, installPackages, ROOT, SetupError, say } from './setup.mjs';

try {
  installPackages();
  installMariadb({ client: true });
  build(['.']);
  const run = spawnSync(process.execPath, [join(ROOT, 'build/bench/main.js'), ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  process.exitCode = run.status ?? 1;
} catch (error) {
  say(error instanceof SetupError ? error.message : error.stack);
  process.exitCode = 1;
}
