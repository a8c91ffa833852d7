// npm start: brings what is missing, compiles the server and runs it with the arguments that were given.

import { spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { isatty } from 'node:tty';
import {
  build,
  checkNode,
  InterruptedError,
  installMariadb,
  installPackages,
  ROOT,
  SetupError,
  say,
} from './setup.mjs';

// One Ctrl-C can reach this process twice, from the terminal and again from npm, which passes on what it gets. The
// server takes a second signal as "end at once", so what follows this closely is taken for the same key press.
const SAME_SIGNAL_MS = 500;

const args = process.argv.slice(2);
const isServer = !['--help', '-h', '--version'].some((name) => args.includes(name));
try {
  await prepare();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exit(error instanceof InterruptedError ? error.exitCode : 1);
}
run();

/** The checks, which take no time, come before the installation, which takes minutes. */
async function prepare() {
  checkNode();
  if (isServer) await checkPort();
  await installPackages();
  if (isServer && optionValue('mysql_url') === undefined) await installMariadb();
  await build(['src']);
}

/** Refuses a port on which another program listens. The server itself reports any other fault of the address. */
async function checkPort() {
  const port = Number(optionValue('http_handler_port') ?? 8000);
  const host = optionValue('http_handler_host') ?? '127.0.0.1';
  if (!(Number.isInteger(port) && port > 0 && port < 65_536)) return;
  const code = await new Promise((resolve) => {
    const server = createServer();
    server.on('error', (error) => resolve(error.code));
    server.listen(port, host, () => server.close(() => resolve(undefined)));
  });
  if (code !== 'EADDRINUSE') return;
  const other = port === 65_535 ? port - 1 : port + 1;
  throw new SetupError(
    `another program listens on port ${port} of ${host}: choose another port, as in npm start -- --http_handler_port ${other}`,
  );
}

/** The value of an option of the server, as the server reads it; undefined if it is not given. */
function optionValue(name) {
  let value = process.env[`SLUICE_${name.toUpperCase()}`];
  for (const [at, arg] of args.entries()) {
    const [flag, ...rest] = arg.split('=');
    if (flag.startsWith('--') && flag.slice(2).replaceAll('-', '_') === name) {
      value = rest.length > 0 ? rest.join('=') : args[at + 1];
    }
  }
  return value;
}

function run() {
  // A terminal sends Ctrl-C to every process of the group, so the server gets a group of its own (detached) and hears
  // only what is passed on below. Outside the group it would outlive a SIGKILL of this one: where the system can tell
  // a child that its parent has died, it is asked to.
  const guard = ['setpriv', '--pdeathsig', 'TERM'];
  const guarded = spawnSync(guard[0], [...guard.slice(1), 'true'], { stdio: 'ignore' }).status === 0;
  const [command, ...rest] = [...(guarded ? guard : []), process.execPath, join(ROOT, 'dist/main.js'), ...args];
  const server = spawn(command, rest, { stdio: 'inherit', detached: true });

  // A terminal that is closed sends SIGHUP as well, and the server then has to stop. Without one, SIGHUP has the meaning
  // that it has for the server, which reads its certificate again.
  const isAtTerminal = isatty(0);
  let passedOnAtMs = Number.NEGATIVE_INFINITY;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (signal === 'SIGHUP' && !isAtTerminal) {
        server.kill(signal);
        return;
      }
      const nowMs = performance.now();
      if (nowMs - passedOnAtMs < SAME_SIGNAL_MS) return;
      passedOnAtMs = nowMs;
      server.kill(signal === 'SIGHUP' ? 'SIGTERM' : signal);
    });
  }
  server.on('error', (error) => {
    say(`the server could not be started: ${error.message}`);
    process.exit(1);
  });
  server.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
