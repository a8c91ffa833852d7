import { spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { newQueryId } from '#src/ids.js';
import { Lock } from '#src/lock.js';
import { identify } from '#src/process-identity.js';
import { RefusalError, RequestAbortedError } from '#src/refusal-error.js';
import type { FileForm } from '#src/results/format-files.js';
import type { KeptResult } from '#src/results/kept-result.js';
import type { Manifest } from '#src/results/manifest.js';
import { causes } from '#src/wire/failures.js';
import { idleHandle, runBy } from '../query/run-by.ts';
import { installFakeClock } from '../support/fake-clock.ts';
import { statement } from '../support/statement.ts';
import { until } from '../support/until.ts';
import { columns, newResult, Place, queryOf, writeRows } from './place.ts';

const outcome = { affectedRows: '0', lastInsertId: null, warnings: 0 };
const counts = { rows: 0, bytes: 0 };
const stats = {
  runningMs: 1,
  scan: { ...counts, known: false, estimatedRows: null },
  write: counts,
  result: counts,
  spill: counts,
  queue: null,
};
const csv: FileForm = { format: 'csv', content: { type: 'text', head: '', tail: '\n' }, columns };
/** A client that waits. */
const stays = new AbortController().signal;
/** A process that has ended, or never was. */
const gone = { pid: 2 ** 22 + 1, identity: 'gone' };

function manifestOf({ folder }: KeptResult): Manifest {
  return JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Manifest;
}

/** As if the server that has it were killed. */
function abandon(result: KeptResult, more: object = {}): void {
  writeFileSync(
    join(result.folder, 'manifest.json'),
    JSON.stringify({ ...manifestOf(result), process: gone, ...more }),
  );
}

t.test('a result has a manifest as soon as it is made, and none when its removal is reported', async (t) => {
  const results = new Place(t).open();
  const result = await results.make(newResult());
  t.match(manifestOf(result), { user: 'ann', state: { name: 'Running' }, process: { pid: process.pid } });
  const query = queryOf(result);
  results.add(query, result);
  query.remove(causes.cancelled());
  t.ok(existsSync(result.folder));
  await results.removed(query);
  t.notOk(existsSync(result.folder));
  t.equal(results.bytes, 0);
});

t.test('while pages are waited for, disk space is granted in turns', async (t) => {
  const results = new Place(t).open();
  const read = await results.make(newResult());
  read.add(writeRows(read, 1_000));
  const clock = installFakeClock(t);
  const [one, other] = [await results.make(newResult()), await results.make(newResult())];
  t.equal(one.grant(), 8 * 1024 * 1024, 'at once if nobody waits');
  t.equal(one.grantDelayMs(), 0);
  const batch = { ...writeRows(one, 1), bytes: 8 * 1024 * 1024 };

  const reads = Array.from({ length: 20 }, () => read.read(0, 10, 1_000, 'json', new AbortController().signal));
  t.equal(one.grantDelayMs(), 0, 'while there is some left');
  for (const result of [one, other]) result.add(batch);
  const delays = [one, other, one, other].map((result) => result.grantDelayMs());
  t.strictSame(delays, [0, 25, 50, 75]);
  t.equal(other.grant(), 512 * 1024);
  t.equal(other.grant(), 0);
  await Promise.all(reads);

  clock.tick(1_000);
  t.equal(other.grant(), 8 * 1024 * 1024, 'nobody has waited for a while');
  other.removed();
  t.equal(other.grant(), 0, 'none is granted to a result that has ended');
});

t.test('the rows of a statement that was cut off have their columns', async (t) => {
  const place = new Place(t);
  const result = await place.open().make(newResult());
  writeRows(result, 5);
  abandon(result);
  const [loaded] = await place.open().load();
  t.match(loaded?.manifest, { rows: 5, state: { name: 'Failed', failure: { code: 90006 } } });
  t.strictSame(await loaded?.result.readColumns(), columns);
  abandon(result);
  const [again] = await place.open().load();
  t.equal(again?.result.rows, 5, 'also after another restart');
});

t.test('an error of reading is refused for its reason, and without a path of the server', async (t) => {
  const place = new Place(t);
  const results = place.open();
  const make = async (): Promise<KeptResult> => {
    const result = await results.make(newResult());
    result.add(writeRows(result, 3));
    return result;
  };
  const refusalOf = async (reading: Promise<unknown>): Promise<RefusalError> => {
    const error = await reading.then(
      () => null,
      (reason: unknown) => reason,
    );
    t.type(error, RefusalError);
    const refusal = error as RefusalError;
    t.notOk(refusal.message.includes('/'), refusal.message);
    return refusal;
  };
  const whole = await make();
  t.equal((await whole.read(0, 3, 1_000, 'json', stays)).count, 3);
  place.hasRoom = false;
  t.match(await refusalOf(whole.read(0, 3, 1_000, 'json', stays)), {
    reason: 'too many',
    message: /--buffer_bytes_max/,
  });
  place.hasRoom = true;

  symlinkSync('/dev/full', join(whole.folder, 'rows.csv'));
  t.match(await refusalOf(whole.file('rows.csv', csv, stays)), { reason: 'unavailable', message: /no space left/ });
  t.match(place.reasons('kept_result_failed'), [/ENOSPC/]);
  const path = await whole.file('rows.csv', csv, stays);
  t.equal(readFileSync(path, 'utf8'), '7\r\n7\r\n7\r\n', 'and is made when there is space');

  const broken = await make();
  rmSync(join(broken.folder, 'rows'));
  t.match(await refusalOf(broken.read(0, 3, 1_000, 'json', stays)), { reason: 'gone' });
  mkdirSync(join(broken.folder, 'rows'));
  t.match(await refusalOf(broken.read(0, 3, 1_000, 'json', stays)), { reason: 'unavailable', message: /EISDIR/ });

  const damaged = await make();
  writeFileSync(join(damaged.folder, 'columns.json'), '{"definitions":[{}');
  t.match(await refusalOf(damaged.read(0, 3, 1_000, 'json', stays)), { reason: 'gone', message: /damaged/ });

  const full = await make();
  symlinkSync('/dev/full', join(full.folder, 'manifest.json.new'));
  await t.rejects(full.save(full.manifest), /ENOSPC/);
  t.match(place.reasons('kept_result_failed').at(-1), /ENOSPC/, 'a manifest that cannot be written is logged');
});

t.test('a statement whose end cannot be written fails without a path of the server', async (t) => {
  const place = new Place(t);
  const results = place.open();
  const result = await results.make(newResult());
  const query = queryOf(result);
  results.add(query, result);
  symlinkSync('/dev/full', join(result.folder, 'manifest.json.new'));
  runBy(query, statement('SELECT 1'), () => idleHandle);
  query.started();
  query.ended(outcome, 0);
  await until(() => !query.isRunning);
  const { state } = query;
  t.match(state, { name: 'Failed', failure: { code: 90010, message: /no space left/ } });
  t.notOk(JSON.stringify(state).includes('/'));
  t.match(place.reasons('kept_result_failed')[0], /ENOSPC/);
});

t.test('a result whose manifest is not as it was written is dropped, and costs no other', async (t) => {
  const place = new Place(t);
  const results = place.open();
  const make = async (more: object): Promise<string> => {
    const result = await results.make(newResult());
    writeRows(result, 2);
    const succeeded = { state: { name: 'Succeeded', outcome }, stats, rows: 2, endedAt: Date.now() };
    abandon(result, { ...succeeded, ...more });
    return result.manifest.id;
  };
  const whole = await make({});
  const known = await make({ stats: null });
  const wrong: object[] = [
    { stats: 5 },
    { stats: {} },
    { stats: { ...stats, runningMs: null } },
    { stats: { ...stats, scan: null } },
    { stats: { ...stats, result: { rows: 'x', bytes: 1 } } },
    { madeAt: null },
    { madeAt: 1e16 },
    { endedAt: 'now' },
    { endedAt: -1e300 },
    { endedAt: null },
    { keepMs: '60' },
    { keepMs: 1e10 },
    { state: null },
    { state: { name: 'Sleeping' } },
    { state: { name: 'Failed' } },
    { state: { name: 'Failed', failure: { code: 1 } } },
    { state: { name: 'Succeeded' } },
    { state: { name: 'Succeeded', outcome: { ...outcome, lastInsertId: '1,"x":2' } } },
    { rows: null },
    { rows: -1 },
    { pages: { rows: 0, format: 'json' } },
    { pages: { rows: 5, format: 'xml' } },
    { pages: null },
    { process: null },
    { user: 5 },
    { sql: {} },
    { version: 2 },
    { id: 'another' },
  ];
  for (const more of wrong) await make(more);
  const infinite = await make({ madeAt: 123_456 });
  const file = join(place.folder, infinite, 'manifest.json');
  writeFileSync(file, readFileSync(file, 'utf8').replace('123456', '1e999'));
  const theirs = await make({ state: 7 });
  writeFileSync(join(place.folder, theirs, 'notes.txt'), 'of the operator');

  const loaded = await place.open().load();
  t.strictSame(
    loaded.map(({ manifest }) => manifest.id),
    [whole, known],
  );
  t.equal(place.reasons('kept_result_dropped').length, wrong.length + 2);
  t.strictSame(readdirSync(place.folder).sort(), [whole, known, theirs].sort(), 'other files stay');
});

t.test('columns that are not as they were written are refused, and those of each type are known', async (t) => {
  const place = new Place(t);
  const made = await place.open().make(newResult());
  writeRows(made, 2);
  abandon(made);
  const [loaded] = await place.open().load();
  const result = loaded?.result as KeptResult;
  const write = (text: string): void => writeFileSync(join(result.folder, 'columns.json'), text);
  const decimal = { name: 'Decimal', precision: 10, scale: 2 };
  const types = [decimal, { name: 'Time', precision: 3 }, { name: 'Vector' }];
  const known = types.map((type) => ({ name: 'b', type, nullable: true }));
  write(JSON.stringify({ columns: known }));
  t.strictSame(await result.readColumns(), known);
  const wrong: unknown[] = [
    ...[null, {}, [null]],
    [{ name: 'a', nullable: true }],
    [{ name: 'a', type: { name: 'Int33' }, nullable: true }],
    [{ name: 'a', type: { name: 'Decimal' }, nullable: true }],
    [{ name: 7, type: { name: 'Int32' }, nullable: true }],
  ];
  for (const columns of wrong) {
    write(JSON.stringify({ columns }));
    await t.rejects(result.readColumns(), { reason: 'gone', message: /damaged: columns\.json has a member/ });
  }
  write('{"columns":[');
  await t.rejects(result.readColumns(), { reason: 'gone', message: /damaged: columns\.json is not JSON/ });
  rmSync(join(result.folder, 'columns.json'));
  t.strictSame(await result.readColumns(), [], 'a statement that returns none has no such file');
});

t.test('a result is for users of its database', async (t) => {
  const place = new Place(t);
  const result = await place.open().make(newResult());
  writeRows(result, 5);
  abandon(result);
  place.database = '127.0.0.1:3307';
  t.strictSame(await place.open().load(), []);
  t.match(place.events, [{ type: 'kept_results_left', count: 1, database: '127.0.0.1:3307' }]);
  place.database = '127.0.0.1:3306';
  const [loaded] = await place.open().load();
  t.equal(loaded?.result.rows, 5, 'it has stayed');
});

t.test('what a killed server has left without a manifest is removed, unless there are other files', async (t) => {
  const place = new Place(t);
  const results = place.open();
  const make = async (names: readonly string[]): Promise<string> => {
    const { folder, manifest } = await results.make(newResult());
    for (const name of names) writeFileSync(join(folder, name), 'x');
    rmSync(join(folder, 'manifest.json'));
    return manifest.id;
  };
  await make(['rows', 'index', 'columns.json', 'manifest.json.new']);
  await make(['rows', 'rows.csv', 'rows-without-header.tsv', 'arrays.ndjson', 'rows.json']);
  const theirs = [await make(['rows', 'notes.txt']), await make(['rows.csv', 'rows.csv.bak'])];
  t.strictSame(await place.open().load(), []);
  t.strictSame(readdirSync(place.folder).sort(), theirs.sort());

  const kept = await results.make(newResult());
  for (const name of ['rows.csv', 'notes.txt']) writeFileSync(join(kept.folder, name), 'x');
  abandon(kept);
  t.equal((await place.open().load()).length, 1);
  t.strictSame(readdirSync(kept.folder).sort(), ['manifest.json', 'notes.txt']);
});

t.test('a result belongs to one server: the one that has made it or taken it over', async (t) => {
  const place = new Place(t);
  const results = place.open();
  const child = spawn('sleep', ['600']);
  t.teardown(() => child.kill());
  const alive = { pid: child.pid as number, identity: identify(child.pid as number) };
  abandon(await results.make(newResult()), { process: alive });
  const left = await results.make(newResult());
  abandon(left);
  const loaded = await place.open().load();
  t.strictSame(
    loaded.map(({ result }) => result.folder),
    [left.folder],
  );
  t.strictSame(manifestOf(left).process, { pid: process.pid, identity: identify(process.pid) });

  abandon(left);
  mkdirSync(join(left.folder, 'manifest.json.new'));
  t.equal((await place.open().load()).length, 1, 'it is served even if that cannot be written');
});

t.test('a result that another server is making is not removed', async (t) => {
  const place = new Place(t);
  place.open();
  const folders = [newQueryId(), newQueryId()].map((id) => join(place.folder, id));
  for (const folder of folders) mkdirSync(folder);
  writeFileSync(join(folders[1] as string, 'manifest.json.new'), '{');
  const old = join(place.folder, `00a${newQueryId().slice(3)}`);
  mkdirSync(old);
  t.strictSame(await place.open().load(), []);
  t.strictSame(folders.map(existsSync), [true, true]);
  t.notOk(existsSync(old), 'one that is old is left over');
});

t.test('one server at a time takes results over', async (t) => {
  const place = new Place(t);
  abandon(await place.open().make(newResult()));
  const lock = Lock.take(join(place.folder, '.loading'), place.folder);
  const loading = place.open().load();
  t.equal(await Promise.race([loading, delay(200, 'waits')]), 'waits');
  lock.release();
  t.equal((await loading).length, 1);
  t.strictSame(readdirSync(place.folder).length, 1, 'the lock is released');
});

t.test('the disk space of columns and manifests counts', async (t) => {
  const results = new Place(t).open();
  const result = await results.make(newResult());
  const query = queryOf(result);
  results.add(query, result);
  const many = Array.from({ length: 4_096 }, (_, number) => ({ ...columns[0], name: `${number}`.padStart(256, 'x') }));
  const batch = writeRows(result, 10);
  writeFileSync(join(result.folder, 'columns.json'), JSON.stringify({ columns: many, definitions: many }));
  result.add(batch);
  const takes = (): number =>
    readdirSync(result.folder).reduce((sum, name) => sum + statSync(join(result.folder, name)).size, 0);
  await until(() => results.bytes >= takes());
  t.ok(results.bytes > 2_000_000, `${results.bytes} bytes`);
  await result.seal({ name: 'Succeeded', outcome }, stats);
  t.equal(results.bytes, takes());
  query.remove(causes.cancelled());
  t.equal(results.bytes, 0);
  await results.removed(query);
  t.equal(results.bytes, 0);
});

t.test('the disk space of a result that is taken over counts', async (t) => {
  const place = new Place(t);
  const made = await place.open().make(newResult());
  writeRows(made, 100);
  abandon(made);
  const results = place.open();
  await results.load();
  t.equal(
    results.bytes,
    readdirSync(made.folder).reduce((sum, name) => sum + statSync(join(made.folder, name)).size, 0),
  );
});

t.test('a file that nobody waits for any more is given up, and its space is free', async (t) => {
  const results = new Place(t).open();
  const batches = 2_000;
  const result = await results.make(newResult());
  const query = queryOf(result);
  results.add(query, result);
  const batch = writeRows(result, 10_000, batches);
  for (let count = 0; count < batches; count++) result.add(batch);
  // With what describes it.
  await result.save(result.manifest);
  const before = results.bytes;
  const path = join(result.folder, 'rows.csv');
  const begin = async (...clients: AbortController[]): Promise<unknown[]> => {
    const outcomes = clients.map(({ signal }) => result.file('rows.csv', csv, signal).catch((error: unknown) => error));
    await until(() => existsSync(path) && statSync(path).size > 0);
    t.ok(results.bytes > before);
    return outcomes;
  };
  const [ann, bob] = [new AbortController(), new AbortController()];
  const [outcomeOfAnn, outcomeOfBob] = await begin(ann, bob);
  ann.abort();
  t.equal(await Promise.race([outcomeOfBob, delay(50, 'waits')]), 'waits', 'another client waits');
  bob.abort();
  // A client that comes now gets a file of its own.
  const begunAt = performance.now();
  const whole = result.file('rows.csv', csv, stays);
  t.type(await outcomeOfBob, RequestAbortedError);
  t.type(await outcomeOfAnn, RequestAbortedError);
  t.equal(statSync(await whole).size, 3 * 10_000 * batches);
  const wholeMs = performance.now() - begunAt;
  t.equal(results.bytes, before + 3 * 10_000 * batches);

  rmSync(path);
  const [last] = await begin(new AbortController());
  const startedAt = performance.now();
  query.remove(causes.cancelled());
  t.match(await last, { reason: 'gone' });
  const givenUpMs = performance.now() - startedAt;
  t.ok(givenUpMs < wholeMs / 6, `${givenUpMs} ms, and ${wholeMs} ms for the whole`);
  await results.removed(query);
  t.notOk(existsSync(result.folder));
  t.equal(results.bytes, 0);
});
