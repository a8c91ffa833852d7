import t from 'tap';
import { readAnalyze, readExplain } from '#src/worker/plan.js';
import { canAnalyze } from '#src/worker/progress-reader.js';

const unknown = { rows: null, estimatedRows: null };

/** A plan of MariaDB with these parts in its only query block. */
function planOf(parts: object): string {
  return JSON.stringify({ r_query_time_in_progress_ms: 7, query_block: { select_id: 1, r_loops: 1, ...parts } });
}

function table(rows: number, loops: number | null, found: number | null, filtered = 100): object {
  return { table: { table_name: 'a', rows, r_loops: loops, r_rows: found, filtered } };
}

t.test('E (scan_progress): rows and estimates are read from a plan of MariaDB', (t) => {
  t.strictSame(readAnalyze(planOf({ nested_loop: [table(1_000, 1, 300)] })), { rows: 300, estimatedRows: 1_000 });
  const joined = [table(1_000, 1, 300, 50), table(2, 300, 1.5)];
  t.strictSame(readAnalyze(planOf({ nested_loop: joined })), { rows: 750, estimatedRows: 2_000 });
  const sorted = { filesort: { sort_key: 'a', temporary_table: { nested_loop: [table(1_000, 1, 12)] } } };
  t.strictSame(readAnalyze(planOf(sorted)), { rows: 12, estimatedRows: 1_000 });
  const updated = { table: { update: 1, table_name: 'a', rows: 100, r_rows: 18 } };
  t.strictSame(readAnalyze(planOf(updated)), { rows: 18, estimatedRows: 100 }, 'an UPDATE has no loops');
  t.strictSame(readAnalyze(planOf({ nested_loop: [table(9, 0, null)] })), { rows: 0, estimatedRows: 9 }, 'not begun');
  t.end();
});

t.test('E (scan_progress): an estimate that cannot be summed is omitted', (t) => {
  const inner = { query_block: { select_id: 2, nested_loop: [table(10, 5, 4)] } };
  const outer = { nested_loop: [table(1_000, 1, 300)], subqueries: [inner] };
  t.strictSame(readAnalyze(planOf(outer)), { rows: 320, estimatedRows: null });
  const buffered = [table(1_000, 1, 300), { 'block-nl-join': table(1_000, 1, 85) }];
  t.strictSame(readAnalyze(planOf({ nested_loop: buffered })), { rows: 385, estimatedRows: null });
  t.strictSame(readAnalyze(planOf({ nested_loop: [{ table: { table_name: 'a', r_rows: 3 } }] })), {
    rows: 3,
    estimatedRows: null,
  });
  t.end();
});

t.test('E (scan_progress): an invalid plan and a plan without a table give no estimate', (t) => {
  for (const text of ['', '{', '[]', 'null', '7', planOf({ table: { message: 'No tables used' } })]) {
    t.strictSame(readAnalyze(text), unknown, text);
  }
  t.strictSame(readAnalyze(planOf({ nested_loop: [table(9, 1, 3)], padding: 'x'.repeat(300_000) })), unknown);
  t.end();
});

t.test('E (scan_progress): estimates are read from a plan of MySQL', (t) => {
  const line = (id: string, name: string | null, rows: string | null, left: string | null, extra: string | null) => [
    ...[id, 'SIMPLE', name, null, 'ALL', null, null, null, null],
    ...[rows, left, extra],
  ];
  t.equal(readExplain([line('1', 'a', '1000', '10.00', 'Using where')]), 1_000);
  t.equal(readExplain([line('1', 'a', '1000', '10.00', null), line('1', 'b', '3', '100.00', null)]), 1_300);
  t.equal(readExplain([]), null);
  t.equal(readExplain([line('1', null, null, null, 'No tables used')]), null);
  t.equal(readExplain([line('1', 'a', '9', '100.00', null), line('2', 'b', '9', '100.00', null)]), null);
  t.equal(readExplain([line('1', '<derived2>', '9', '100.00', null)]), null);
  const buffered = 'Using where; Using join buffer (hash join)';
  t.equal(readExplain([line('1', 'a', '9', '100.00', null), line('1', 'b', '9', '100.00', buffered)]), null);
  t.end();
});

t.test('E (scan_progress): MariaDB is asked for a plan only in releases that support it', (t) => {
  for (const [version, expected] of [
    ['10.6.22-MariaDB', false],
    ['10.9.8-MariaDB', false],
    ['10.11.7-MariaDB', false],
    ['10.11.8-MariaDB-log', true],
    ['10.11.19-MariaDB-0+deb12u1', true],
    ['5.5.5-10.11.19-MariaDB-0+deb12u1', true],
    ['5.5.5-10.6.22-MariaDB', false],
    ['11.2.4-MariaDB', false],
    ['11.4.2-MariaDB', true],
    ['12.0.1-MariaDB', true],
    ['unknown', false],
  ] as const) {
    t.equal(canAnalyze(version), expected, version);
  }
  t.end();
});
