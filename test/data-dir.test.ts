import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { makeFolder, prepareDataDir, removeSpillFiles } from '#src/data-dir.js';
import { spillName } from '#src/wire/spill-name.js';
import { figure } from './support/form.ts';

const MAIN_FILE = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const isRoot = process.getuid?.() === 0;
/** The user `nobody` on Debian and others. Only root can switch to another user. */
const other = isRoot ? { uid: 65_534, gid: 65_534 } : {};
const START_MS_MAX = 60_000;

function temporaryFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'data-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs the server as a user who is not root, because root has access to every file, until it ends by itself. */
async function runMain(dataDir: string, more: readonly string[]) {
  const args = [process.execPath, MAIN_FILE, '--data_dir', dataDir, '--http_handler_port', '0', ...more];
  // tap sets this variable for every child, which then writes to a folder that the other user cannot write to.
  const child = spawn('env', ['-u', 'NODE_OPTIONS', ...args], {
    ...other,
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: START_MS_MAX,
    killSignal: 'SIGKILL',
  });
  const [output, log] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return { code: child.exitCode, output, log };
}

const ways = [[], ['--mysql_url', 'mysql://root@127.0.0.1:1']];
let waysTaken = 0;

/** With and without the private database, alternating in the short form. */
function waysOf(): readonly (readonly string[])[] {
  return figure(ways.slice(waysTaken++ % 2).slice(0, 1), ways);
}

t.test('D4: folders are created with their parents, open to their user only', async (t) => {
  const folder = temporaryFolder(t);
  makeFolder(join(folder, 'a/b/c'));
  for (const path of ['a', 'a/b', 'a/b/c']) t.equal(statSync(join(folder, path)).mode & 0o777, 0o700, path);
  makeFolder(join(folder, 'a/b/c'));
  prepareDataDir(join(folder, 'a'), [join(folder, 'a/b'), join(folder, 'a/none')]);
  t.same(readdirSync(join(folder, 'a')), ['b'], 'the write check leaves nothing behind');
  t.same(readdirSync(join(folder, 'a/b')), ['c']);
});

t.test('D4: a data directory that cannot be written stops the start with one line', async (t) => {
  const folder = temporaryFolder(t);
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, 'file'), '');
  mkdirSync(join(folder, 'kept'));
  chmodSync(join(folder, 'kept'), 0o555);
  // Like the directory of another user's earlier run.
  for (const name of ['spill', 'connections']) {
    mkdirSync(join(folder, name, name), { recursive: true });
    chmodSync(join(folder, name), 0o777);
    chmodSync(join(folder, name, name), 0o555);
  }
  for (const [name, reason] of [
    ['file', /EEXIST|ENOTDIR/],
    ['file/data', /ENOTDIR/],
    ['kept', /EACCES/],
    ['kept/data/deep', /EACCES/],
    ['spill', /EACCES.*spill\/spill/],
    ['connections', /EACCES.*connections\/connections/],
  ] as const) {
    for (const more of waysOf()) {
      const dataDir = join(folder, name);
      const { code, output, log } = await runMain(dataDir, more);
      t.equal(code, 1, `${name}: ${log}`);
      t.equal(output, '');
      t.equal(log.trimEnd().split('\n').length, 1, log);
      t.ok(log.startsWith(`sluice: cannot start: the data directory ${dataDir} cannot be written: `), log);
      t.match(log, reason);
      t.match(log, /--data_dir/);
    }
  }
});

t.test(
  'D4: a data directory below /proc does not keep the process busy',
  { skip: !existsSync('/proc/self') },
  async (t) => {
    for (const dataDir of ['/proc/sluice', '/proc/sluice/a/b', '/proc/self', '/proc/self/sluice']) {
      for (const more of waysOf()) {
        const { code, log } = await runMain(dataDir, more);
        t.equal(code, 1, `${dataDir}: ${log}`);
        t.match(log, /^sluice: cannot start: the data directory \S+ cannot be written: .*\n$/);
      }
    }
  },
);

t.test('the spill files of a killed process are removed, and with them their folder', async (t) => {
  const folder = join(temporaryFolder(t), 'spill');
  removeSpillFiles(folder);
  mkdirSync(folder);
  for (let count = 0; count < 3; count++) writeFileSync(join(folder, spillName()), '');
  removeSpillFiles(folder);
  t.notOk(existsSync(folder));
});

t.test('files of the user in the folder for spill files are kept', async (t) => {
  const folder = temporaryFolder(t);
  const spill = join(folder, 'spill');
  const left = join(spill, spillName());
  const [withData, subfolder, link] = [spillName(), spillName(), spillName()];
  mkdirSync(join(spill, 'reports'), { recursive: true });
  writeFileSync(join(spill, 'reports/2026.csv'), 'kept');
  writeFileSync(join(spill, 'empty'), '');
  writeFileSync(join(spill, withData), 'kept');
  mkdirSync(join(spill, subfolder));
  writeFileSync(join(folder, 'target'), '');
  symlinkSync(join(folder, 'target'), join(spill, link));
  writeFileSync(left, '');
  removeSpillFiles(spill);
  t.notOk(existsSync(left), 'what a killed process left is removed beside them');
  t.same(readdirSync(spill).sort(), ['empty', 'reports', withData, subfolder, link].sort());
  t.equal(readFileSync(join(spill, 'reports/2026.csv'), 'utf8'), 'kept');
  t.ok(existsSync(join(folder, 'target')));

  const linked = join(folder, 'linked');
  mkdirSync(join(folder, 'elsewhere'));
  const name = spillName();
  writeFileSync(join(folder, 'elsewhere', name), '');
  symlinkSync(join(folder, 'elsewhere'), linked);
  removeSpillFiles(linked);
  t.same(readdirSync(linked), [name], 'a link is not followed');
});
