import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { KeptResult } from '#src/results/kept-result.js';
import type { Manifest } from '#src/results/manifest.js';
import { causes } from '#src/wire/failures.js';
import { columns, newResult, Place, queryOf, writeRows } from './place.ts';

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

t.test('the rows of a statement that was cut off have their columns', async (t) => {
  const place = new Place(t);
  const result = await place.open().make(newResult());
  writeRows(result, 5);
  abandon(result);
  const [loaded] = await place.open().load();
  t.match(loaded?.manifest, { columns, rows: 5, state: { name: 'Failed', failure: { code: 90006 } } });
  abandon(result);
  const [again] = await place.open().load();
  t.equal(again?.result.rows, 5, 'also after another restart');
});
