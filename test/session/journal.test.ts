import { spawnSync } from 'node:child_process';
import {
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
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Journal, type JournaledConnection } from '#src/session/journal.js';

const database = '127.0.0.1:3306';

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-journal-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'connections');
}

function connection(id: number): JournaledConnection {
  return { id, user: 'anna', openedAt: 1_000 + id };
}

function open(t: Test, folder: string): { journal: Journal; failures: string[] } {
  const failures: string[] = [];
  const journal = new Journal(folder, database, (event) => {
    if (event.type === 'journal_failed') failures.push(event.error.message);
  });
  t.teardown(() => journal.remove());
  return { journal, failures };
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
