// npm start: brings what is missing, compiles the server and runs it with the arguments that were given.

import { spawn, spawnSync } from 'node:child_process';
import { constants } from 'node:os';
import { join } from 'node:path';
import { build, installMariadb, installPackages, ROOT, SetupError, say } from './setup.mjs';

// One Ctrl-C can reach this process twice, from the terminal and again from npm, which passes on what it gets. The
// server takes a second signal as "end at once", so what follows this closely is taken for the same key press.
const SAME_SIGNAL_MS = 500;

const args = process.argv.slice(2);
try {
  prepare();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exit(1);
}
run();

function prepare() {
  installPackages();
  if (needsOwnDatabase()) installMariadb();
  build(['src']);
}

function needsOwnDatabase() {
  const names = args.map((arg) => arg.split('=', 1)[0].replaceAll('-', '_'));
  return !process.env.SLUICE_MYSQL_URL && !names.includes('__mysql_url') && !names.includes('__help');
}

function run() {
  // A terminal sends Ctrl-C to every process of the group, so the server gets a group of its own (detached) and hears
  // only what is passed on below. Outside the group it would outlive a SIGKILL of this one: where the system can tell
  // a child that its parent has died, it is asked to.
  const guard = ['setpriv', '--pdeathsig', 'TERM'];
  const guarded = spawnSync(guard[0], [...guard.slice(1), 'true'], { stdio: 'ignore' }).status === 0;
  const [command, ...rest] = [...(guarded ? guard : []), process.execPath, join(ROOT, 'dist/main.js'), ...args];
  const server = spawn(command, rest, { stdio: 'inherit', detached: true });

  let passedOnAtMs = Number.NEGATIVE_INFINITY;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      const nowMs = performance.now();
      if (nowMs - passedOnAtMs < SAME_SIGNAL_MS) return;
      passedOnAtMs = nowMs;
      // The server has no reason to know SIGHUP: a closed terminal simply asks it to stop.
      server.kill(signal === 'SIGHUP' ? 'SIGTERM' : signal);
    });
  }
  server.on('error', (error) => {
    say(`the server could not be started: ${error.message}`);
    process.exit(1);
  });
  server.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
