// A MySQL 9 server for the tests. Debian's stable release packages MariaDB alone; its development suite packages MySQL
// too, for newer libraries than a stable system has. So the packages and all they depend on are unpacked into a folder
// of their own, where MySQL runs by its own loader and touches nothing of the system. No right of root is needed.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findProgram, ROOT, runQuietly, SetupError, say } from './setup.mjs';

const FOLDER = join(ROOT, '.cache/mysql');

// test/support reads this file: its presence says that the folder is complete, its content how to run what is in it.
const DESCRIPTION_FILE = 'mysql.json';

const PACKAGES = ['mysql-server-core', 'mysql-client-core'];

// What the packages depend on for their scripts, and not for the two programs that are run here.
const UNNEEDED = /^(perl|libperl|libgdbm|libdb5|gcc-|libc-gconv|libtirpc-common)/;

/** Makes MySQL available in the cache. Returns undefined when it is there, or the reason why it cannot be had. */
export function obtainMysql() {
  if (existsSync(join(FOLDER, DESCRIPTION_FILE))) return undefined;
  try {
    fetchMysql();
    return undefined;
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    return error.message;
  }
}

function fetchMysql() {
  const source = archiveSource();
  say(`fetching MySQL for the tests (${PACKAGES.join(', ')}, unpacked into .cache)`);
  mkdirSync(join(ROOT, '.cache'), { recursive: true });
  // Everything happens in a folder beside the final one, so that an interrupted run leaves nothing that looks complete.
  const scratch = mkdtempSync(join(ROOT, '.cache/mysql-'));
  try {
    const archives = downloadArchives(source, scratch);
    const unpacked = join(scratch, 'root');
    mkdirSync(unpacked);
    const description = unpack(archives, unpacked);
    removeUnneeded(unpacked);
    writeFileSync(join(unpacked, DESCRIPTION_FILE), `${JSON.stringify(description, null, 2)}\n`);
    rmSync(FOLDER, { recursive: true, force: true });
    renameSync(unpacked, FOLDER);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The line for apt that names the development suite of the Debian archive which this machine already uses. */
function archiveSource() {
  for (const program of ['apt-get', 'dpkg-deb']) {
    if (findProgram(program) === undefined)
      throw new SetupError(`MySQL is taken from Debian, and here is no ${program}`);
  }
  const format = '$(REPO_URI)\t$(RELEASE)\t$(ORIGIN)\t$(COMPONENT)';
  const targets = runQuietly('apt-get', ['indextargets', '--format', format, 'Created-By: Packages'], 'apt-get');
  const uri = targets
    .split('\n')
    .map((line) => line.split('\t'))
    // Before its first update apt does not know the origin and prints the variable's name instead.
    .filter(([, , origin, component]) => (origin === 'Debian' || origin === '$(ORIGIN)') && component === 'main')
    .find(([, release]) => !/[-/](security|updates|backports)/.test(release))?.[0];
  const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
  if (uri === undefined || !existsSync(keyring)) {
    throw new SetupError('MySQL is taken from Debian, and the apt of this machine knows no Debian archive');
  }
  return `deb [signed-by=${keyring}] ${uri} sid main\n`;
}

/** Downloads the packages with all their dependencies, by an apt that shares nothing with the system's. */
function downloadArchives(source, scratch) {
  for (const folder of ['state/lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(scratch, folder), { recursive: true });
  }
  writeFileSync(join(scratch, 'sources.list'), source);
  // With no package installed, every dependency down to the C library is downloaded too.
  writeFileSync(join(scratch, 'status'), '');
  const options = [
    `Dir::Etc::sourcelist=${join(scratch, 'sources.list')}`,
    'Dir::Etc::sourceparts=-',
    `Dir::State=${join(scratch, 'state')}`,
    `Dir::State::status=${join(scratch, 'status')}`,
    `Dir::Cache=${join(scratch, 'cache')}`,
    'Debug::NoLocking=1',
    // The user that apt downloads as cannot write into a folder of this one.
    'APT::Sandbox::User=',
    'Acquire::Languages=none',
    'Acquire::Retries=2',
    'Acquire::http::Timeout=30',
  ].flatMap((option) => ['-o', option]);
  // Without --error-on=any an update that reached nobody is only a warning.
  runQuietly('apt-get', [...options, '--error-on=any', 'update'], 'apt-get update for MySQL');
  const install = ['install', '-y', '--no-install-recommends', '--download-only', ...PACKAGES];
  runQuietly('apt-get', [...options, ...install], 'apt-get download of MySQL');

  const folder = join(scratch, 'cache/archives');
  return readdirSync(folder)
    .filter((name) => name.endsWith('.deb'))
    .map((name) => join(folder, name));
}

/** Unpacks the archives and tries the programs; the seemingly unneeded ones follow only if a library is missing. */
function unpack(archives, folder) {
  const isUnneeded = (archive) => UNNEEDED.test(archive.slice(archive.lastIndexOf('/') + 1));
  const extract = (archive) => runQuietly('dpkg-deb', ['-x', archive, folder], 'dpkg-deb');
  archives.filter((archive) => !isUnneeded(archive)).forEach(extract);
  let description = describe(folder);
  if (description === undefined) {
    archives.filter(isUnneeded).forEach(extract);
    description = describe(folder);
  }
  if (description === undefined) throw new SetupError('MySQL was unpacked, but it does not run on this machine');
  return description;
}

/** How to run what is in the folder, with paths relative to it; undefined when it does not run. */
function describe(folder) {
  const libraries = readdirSync(join(folder, 'usr/lib'))
    .filter((name) => name.endsWith('-linux-gnu'))
    .map((name) => `usr/lib/${name}`);
  const loader = libraries
    .flatMap((library) => readdirSync(join(folder, library)).map((name) => `${library}/${name}`))
    .find((path) => /\/ld-linux[^/]*\.so\.\d+$/.test(path));
  if (loader === undefined) return undefined;

  const run = (program, ...before) => {
    const path = libraries.map((library) => join(folder, library)).join(':');
    const args = [...before, '--library-path', path, join(folder, program)];
    return spawnSync(join(folder, loader), before.length > 0 ? args : [...args, '--no-defaults', '--version'], {
      encoding: 'utf8',
    });
  };
  for (const program of ['usr/sbin/mysqld', 'usr/bin/mysql']) {
    const list = run(program, '--list');
    if (list.status !== 0 || list.stdout.includes('not found')) return undefined;
  }
  const version = /Ver (\S+)/.exec(run('usr/sbin/mysqld').stdout ?? '')?.[1];
  return version === undefined ? undefined : { version, loader, libraries };
}

/** The tests run the server and one client; the other programs and the documents are half of the folder. */
function removeUnneeded(folder) {
  for (const name of readdirSync(join(folder, 'usr/bin'))) {
    if (name !== 'mysql') rmSync(join(folder, 'usr/bin', name));
  }
  for (const name of ['doc', 'man', 'lintian', 'locale']) {
    rmSync(join(folder, 'usr/share', name), { recursive: true, force: true });
  }
}
