// scripts/start.mjs as npm start runs it: real processes, in a copy of the scripts. npm alone is a fake in PATH, as the real
// one needs a network and minutes, and must not touch the packages that these tests run with.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { identify } from '#src/process-identity.js';
import { until } from '../support/until.ts';

const PROJECT_FOLDER = fileURLToPath(new URL('../../../', import.meta.url));

interface Start {
  readonly folder: string;
  readonly child: ChildProcess;
  log(): string;
  /** Its exit code and signal. */
  readonly ended: Promise<unknown>;
}

/** Makes a project without packages, whose npm is the shell script, and starts it. */
function start(
  t: Test,
  npm: string,
  args: readonly string[] = [],
  options: { environment?: Readonly<Record<string, string>>; neededNode?: string } = {},
): Start {
  const folder = mkdtempSync(join(tmpdir(), 'start-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(join(PROJECT_FOLDER, 'scripts'), join(folder, 'scripts'), { recursive: true });
  const { engines } = JSON.parse(readFileSync(join(PROJECT_FOLDER, 'package.json'), 'utf8'));
  const node = options.neededNode ?? engines.node;
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', engines: { node } }));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/npm'), `#!/bin/sh\ncd "${folder}"\ntouch called\n${npm}\n`);
  chmodSync(join(folder, 'bin/npm'), 0o755);

  const PATH = [join(folder, 'bin'), dirname(process.execPath), process.env['PATH']].join(delimiter);
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'));
  const child = spawn(process.execPath, [join(folder, 'scripts/start.mjs'), ...args], {
    detached: true,
    env: { ...Object.fromEntries(own), PATH, ...options.environment },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let log = '';
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  return { folder, child, log: () => log, ended: once(child, 'close') };
}

t.test('D5: a Node that is too old is refused before anything is installed', async (t) => {
  const { folder, log, ended } = start(t, 'exit 0', [], { neededNode: '>=999.1' });
  t.same(await ended, [1, null]);
  t.match(
    log(),
    /^sluice: Node 999\.1 or later is needed, and this is \d+\.\d+\.\d+ \(\/.*\): install a newer one .*\n$/,
  );
  t.equal(log().includes(process.versions.node), true);
  t.notOk(existsSync(join(folder, 'called')), 'npm was not called');
});

t.test('D5: this Node is one that package.json allows, down to its last number', async (t) => {
  for (const neededNode of ['>=20', `>=${process.versions.node}`]) {
    const { folder, log, ended } = start(t, 'exit 7', ['--http_handler_port', '0'], { neededNode });
    t.same(await ended, [1, null]);
    t.match(log(), /npm ci failed: exit code 7/);
    t.ok(existsSync(join(folder, 'called')));
  }
});

t.test('D5: a port in use is reported before anything is installed, with the option that helps', async (t) => {
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  t.teardown(() => holder.close());
  const { port } = holder.address() as AddressInfo;
  const ways: [string[], Record<string, string>][] = [
    [['--http_handler_port', `${port}`], {}],
    [['--http-handler-port=1', `--http-handler-port=${port}`], { SLUICE_HTTP_HANDLER_PORT: '0' }],
    [['--http_handler_host=localhost', '--mysql_url=mysql://db'], { SLUICE_HTTP_HANDLER_PORT: `${port}` }],
  ];
  for (const [args, environment] of ways) {
    const { folder, log, ended } = start(t, 'exit 0', args, { environment });
    t.same(await ended, [1, null], args.join(' '));
    t.match(
      log(),
      new RegExp(`^sluice: another program listens on port ${port} of \\S+: .*--http_handler_port \\d+\\n$`),
    );
    t.notOk(existsSync(join(folder, 'called')), 'npm was not called');
  }
  const help = start(t, 'exit 7', ['--http_handler_port', `${port}`, '--help']);
  await help.ended;
  t.match(help.log(), /npm ci failed/, 'for --help the port does not matter');
});

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  for (const isGroup of [false, true]) {
    const to = isGroup ? 'to the whole group, as by Ctrl-C' : 'to the script alone';
    t.test(`D5: npm ci shows its progress, and ${signal} ${to} ends all that it has started`, async (t) => {
      // A package's install script, say, that does not heed the signal.
      const stubborn = `(trap '' INT TERM HUP; echo $$ > npm.pid; sleep 600 & echo $! > sleep.pid; wait; sleep 600)`;
      const { folder, child, log, ended } = start(t, `echo "arguments: $*"; echo under way >&2; ${stubborn}`, [
        '--http_handler_port=0',
      ]);
      await until(log, (text) => text.includes('under way'));
      t.match(log(), /^sluice: installing the packages \(npm ci\)\narguments: ci .*\nunder way\n$/);
      const pidIn = (name: string) =>
        Number(existsSync(join(folder, name)) && readFileSync(join(folder, name), 'utf8'));
      const pids = await until(
        () => ['npm.pid', 'sleep.pid'].map(pidIn),
        (found) => found.every((pid) => pid > 0),
      );
      process.kill(isGroup ? -(child.pid as number) : (child.pid as number), signal);
      t.same(await ended, [{ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }[signal], null]);
      for (const pid of pids) {
        await until(
          () => identify(pid),
          (found) => found === undefined,
        );
      }
      t.match(log(), `sluice: interrupted by ${signal}\n`);
    });
  }
}
