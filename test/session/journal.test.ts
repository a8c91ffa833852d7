import { spawnSync } from 'node:child_process';
import fs, {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Journal, type JournaledConnection } from '#src/session/journal.js';
import { installFakeClock } from '../support/fake-clock.ts';

const database = '127.0.0.1:3306';
const retryMs = 1_000;

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-journal-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'connections');
}

function connection(id: number): JournaledConnection {
  return { id, user: 'anna', openedAt: 1_000 + id };
}

function open(t: Test, folder: string) {
  const events: string[] = [];
  const failures: string[] = [];
  const journal = new Journal(folder, database, (event) => {
    events.push(event.type);
    if (event.type === 'journal_failed') failures.push(event.error.message);
  });
  t.teardown(() => journal.remove());
  return { journal, events, failures };
}

/** Writes of whole files and of lines fail while the disk is full, after a part of the text is written. */
function faultyDisk(t: Test): { isFull: boolean; failures: number } {
  const disk = { isFull: false, failures: 0 };
  const { writeFileSync: original } = fs;
  const replace = (writeFileSync: typeof original): void => {
    Object.assign(fs, { writeFileSync });
    syncBuiltinESMExports();
  };
  replace((file, data, options) => {
    if (!disk.isFull || typeof data !== 'string') return original(file, data, options);
    disk.failures++;
    original(file, data.slice(0, data.length / 2), options);
    throw Object.assign(new Error('ENOSPC: a fault of the test'), { code: 'ENOSPC' });
  });
  t.teardown(() => replace(original));
  return disk;
}

/** What the next process would find if this one were killed now. */
function found(t: Test, folder: string): readonly (readonly JournaledConnection[])[] {
  const copy = folderOf(t);
  mkdirSync(copy);
  for (const name of readdirSync(folder)) {
    const other = name.endsWith('.draft') ? '1.copy.draft' : '1.copy';
    writeFileSync(join(copy, other), readFileSync(join(folder, name)));
  }
  const { journal, failures } = open(t, copy);
  const left = journal.left().map(({ connections }) => connections);
  t.strictSame(failures, []);
  return left;
}

/** The journal of a process that died after it had opened 1, 2 and 3 and closed 2. */
function leave(folder: string, where = database): void {
  const code = `import { Journal } from ${JSON.stringify(import.meta.resolve('#src/session/journal.js'))};
    const journal = new Journal(${JSON.stringify(folder)}, ${JSON.stringify(where)}, ({ error }) => { throw error; });
    for (const id of [1, 2, 3]) journal.opened({ id, user: 'anna', openedAt: 1000 + id });
    journal.closed(2);
    process.kill(process.pid, 'SIGKILL');`;
  spawnSync(process.execPath, ['--input-type=module', '--eval', code]);
}

t.test('the connections that a dead process had open are found, and its journal goes when they are done with', (t) => {
  const folder = folderOf(t);
  leave(folder);
  const { journal, failures } = open(t, folder);
  const left = journal.left();
  t.strictSame(
    left.map(({ connections }) => connections),
    [[connection(1), connection(3)]],
  );
  t.equal(readdirSync(folder).length, 2);
  for (const _ of left[0]?.connections ?? []) left[0]?.closed();
  t.strictSame(journal.left(), []);
  journal.remove();
  t.strictSame(readdirSync(folder), []);
  t.strictSame(failures, []);
  t.end();
});

t.test('a journal whose process lives is not touched, not even by the process itself', (t) => {
  const folder = folderOf(t);
  const { journal } = open(t, folder);
  journal.opened(connection(1));
  const again = open(t, folder);
  t.strictSame(again.journal.left(), []);
  t.equal(readdirSync(folder).length, 1);
  t.end();
});

t.test('a journal that was cut off in a line is read up to there; a draft, and one that is empty, are removed', (t) => {
  const folder = folderOf(t);
  mkdirSync(folder);
  const first = JSON.stringify({ database });
  writeFileSync(join(folder, '1.a'), `${first}\n+${JSON.stringify(connection(1))}\n+{"id":`);
  writeFileSync(join(folder, '1.b'), `${first}\n+${JSON.stringify(connection(1))}\n-1\n`);
  writeFileSync(join(folder, '1.c.draft'), first);
  const { journal, failures } = open(t, folder);
  t.match(journal.left(), [{ connections: [connection(1)] }]);
  t.strictSame(
    readdirSync(folder).filter((name) => name.startsWith('1.')),
    ['1.a'],
  );
  t.strictSame(failures, []);
  t.end();
});

t.test('the journals of other databases are kept, but none for ever', (t) => {
  const folder = folderOf(t);
  leave(folder, 'elsewhere:3306');
  const { journal } = open(t, folder);
  t.strictSame(journal.left(), []);
  const [other = ''] = readdirSync(folder).filter((name) =>
    readFileSync(join(folder, name), 'utf8').includes('elsewhere'),
  );
  const path = join(folder, other);
  const longAgo = Date.now() / 1_000 - 25 * 3_600;
  utimesSync(path, longAgo, longAgo);
  t.strictSame(journal.left(), []);
  t.notOk(existsSync(path));
  t.end();
});

t.test('files of the user in the folder of the journals are kept, however old they are', (t) => {
  const folder = folderOf(t);
  mkdirSync(folder);
  const longAgo = Date.now() / 1_000 - 25 * 3_600;
  const names = ['2026.csv', '2026.csv.draft'];
  for (const name of names) {
    writeFileSync(join(folder, name), 'id;amount\n1;2\n');
    utimesSync(join(folder, name), longAgo, longAgo);
  }
  const { journal, failures } = open(t, folder);
  t.strictSame(journal.left(), []);
  t.strictSame(
    readdirSync(folder).filter((name) => name.startsWith('2026')),
    names,
  );
  t.strictSame(failures, []);
  t.end();
});

t.test('what cannot be read is said, and hinders nothing', (t) => {
  const folder = folderOf(t);
  mkdirSync(join(folder, '1.folder'), { recursive: true });
  leave(folder);
  const { journal, failures } = open(t, folder);
  t.equal(journal.left().length, 1);
  t.match(failures, [/EISDIR/]);
  t.end();
});

t.test('a journal does not grow with the connections that are closed', (t) => {
  const folder = folderOf(t);
  const { journal } = open(t, folder);
  journal.opened(connection(0));
  for (let id = 1; id <= 10_000; id++) {
    journal.opened(connection(id));
    journal.closed(id);
  }
  const [name = ''] = readdirSync(folder);
  const path = join(folder, name);
  t.ok(statSync(path).size < 100_000, `${statSync(path).size} bytes`);
  t.match(readFileSync(path, 'utf8'), JSON.stringify(connection(0)));
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.end();
});

t.test('a folder that cannot be made is said once', (t) => {
  const folder = folderOf(t);
  writeFileSync(folder, '');
  const { journal, failures } = open(t, folder);
  journal.opened(connection(1));
  journal.closed(1);
  t.strictSame(journal.left(), []);
  journal.remove();
  t.match(failures, [/EEXIST|ENOTDIR/]);
  t.equal(failures.length, 1);
  t.end();
});

t.test(
  'after a full disk, the journal is complete again; the log says once that it failed and once that it works',
  (t) => {
    const clock = installFakeClock(t);
    const folder = folderOf(t);
    const { journal, events } = open(t, folder);
    const disk = faultyDisk(t);
    for (const id of [1, 2]) journal.opened(connection(id));
    disk.isFull = true;
    for (const id of [3, 4]) journal.opened(connection(id));
    journal.closed(1);
    t.equal(disk.failures, 1, 'a change does not cost an attempt');
    clock.tick(3 * retryMs);
    t.equal(disk.failures, 4);
    t.strictSame(events, ['journal_failed']);
    disk.isFull = false;
    t.strictSame(found(t, folder), [[connection(1), connection(2)]], 'the lines before the failure are read');
    clock.tick(retryMs);
    t.strictSame(events, ['journal_failed', 'journal_recovered']);
    journal.opened(connection(5));
    t.strictSame(found(t, folder), [[2, 3, 4, 5].map(connection)]);
    disk.isFull = true;
    journal.closed(2);
    disk.isFull = false;
    clock.tick(retryMs);
    t.strictSame(events, ['journal_failed', 'journal_recovered', 'journal_failed', 'journal_recovered']);
    t.strictSame(found(t, folder), [[3, 4, 5].map(connection)]);
    clock.tick(10 * retryMs);
    journal.remove();
    t.strictSame(readdirSync(folder), []);
    t.end();
  },
);

t.test('a journal that could not be opened is opened later', (t) => {
  const clock = installFakeClock(t);
  const folder = folderOf(t);
  writeFileSync(folder, '');
  const { journal, events } = open(t, folder);
  journal.opened(connection(1));
  rmSync(folder);
  clock.tick(retryMs);
  t.strictSame(events, ['journal_failed', 'journal_recovered']);
  t.strictSame(found(t, folder), [[connection(1)]]);
  t.end();
});

t.test('a journal that fails is removed by a clean stop, and otherwise completed if the disk allows it', (t) => {
  const clock = installFakeClock(t);
  for (const isClean of [true, false]) {
    const folder = folderOf(t);
    const { journal, events } = open(t, folder);
    const disk = faultyDisk(t);
    disk.isFull = true;
    journal.opened(connection(1));
    clock.tick(retryMs);
    t.equal(readdirSync(folder).length, 2, 'the journal and a draft');
    disk.isFull = false;
    if (isClean) {
      journal.remove();
    } else {
      journal.leave();
      t.strictSame(found(t, folder), [[connection(1)]]);
    }
    const names = readdirSync(folder);
    clock.tick(10 * retryMs);
    journal.opened(connection(2));
    t.strictSame(readdirSync(folder), names, 'nothing is written after the end');
    t.equal(names.length, isClean ? 0 : 1);
    t.strictSame(events, isClean ? ['journal_failed'] : ['journal_failed', 'journal_recovered']);
  }
  t.end();
});

t.test('the damaged lines of a journal are skipped, and the others are used', (t) => {
  const folder = folderOf(t);
  mkdirSync(folder);
  const lines = [1, 2, 3, 4].map((id) => `+${JSON.stringify(connection(id))}\n`);
  const half = lines[0]?.slice(0, 9) ?? '';
  const damaged = [`${half}${lines[1]}`, '+{"id":"5","user":"anna","openedAt":1}\n', '+null\n', '\n', '-3-4\n'];
  const first = `${JSON.stringify({ database })}\n`;
  writeFileSync(join(folder, '1.a'), [first, lines[0], ...damaged, ...lines.slice(2), '-3\n'].join(''));
  writeFileSync(join(folder, '1.b'), [first, ...damaged].join(''));
  const { journal, failures } = open(t, folder);
  const left = journal.left();
  t.strictSame(
    left.map(({ connections }) => connections),
    [[connection(1), connection(4)]],
  );
  for (const _ of left[0]?.connections ?? []) left[0]?.closed();
  t.strictSame(
    readdirSync(folder).filter((name) => name.startsWith('1.')),
    [],
  );
  t.strictSame(failures, []);
  t.end();
});

t.test('an old journal is removed whatever is in it', (t) => {
  const folder = folderOf(t);
  mkdirSync(folder);
  const longAgo = Date.now() / 1_000 - 25 * 3_600;
  for (const text of ['', '{', `${JSON.stringify({ database })}\n+{"id":+\n`]) {
    const path = join(folder, '1.a');
    writeFileSync(path, text);
    utimesSync(path, longAgo, longAgo);
    const { journal, failures } = open(t, folder);
    t.strictSame(journal.left(), []);
    t.strictSame(failures, []);
    t.notOk(existsSync(path));
  }
  t.end();
});

t.test('a journal on a small disk that fills up and is freed loses no connection', (t) => {
  const clock = installFakeClock(t);
  const folder = folderOf(t);
  mkdirSync(folder);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
  if (mounted.status !== 0) {
    t.pass('a small disk', { skip: 'no file system may be mounted' });
    t.end();
    return;
  }
  const { journal, events } = open(t, folder);
  t.teardown(() => spawnSync('umount', ['-l', folder]));
  const filler = join(folder, 'filler');
  t.throws(() => writeFileSync(filler, Buffer.alloc(64 * 1024)), { code: 'ENOSPC' });
  const ids = Array.from({ length: 100 }, (_, index) => index + 1);
  for (const id of ids) journal.opened(connection(id));
  t.strictSame(events, ['journal_failed']);
  rmSync(filler);
  clock.tick(retryMs);
  t.strictSame(events, ['journal_failed', 'journal_recovered']);
  t.strictSame(found(t, folder), [ids.map(connection)]);
  t.end();
});

t.test('a journal of a dead process that cannot be removed is reported', (t) => {
  const folder = folderOf(t);
  mkdirSync(folder);
  const path = join(folder, '1.a');
  writeFileSync(path, `${JSON.stringify({ database })}\n+${JSON.stringify(connection(1))}\n`);
  const { journal, failures } = open(t, folder);
  const [left] = journal.left();
  rmSync(path);
  mkdirSync(path);
  left?.closed();
  t.match(failures, [/directory/]);
  t.end();
});
