import { EventEmitter } from 'node:events';
import t, { type Test } from 'tap';
import { KeptPages } from '#src/query/kept-pages.js';
import type { Page, PageReader } from '#src/query/pages.js';
import { noRows, type Rows } from '#src/query/ring.js';
import type { RowStore } from '#src/query/row-store.js';
import { running } from '#src/query/state.js';
import { installFakeClock } from '../support/fake-clock.ts';

const waitMs = 1_000;
const count = { rows: 0, bytes: 0 };
const scan = { ...count, known: false, estimatedRows: null };
const stats = { runningMs: 0, scan, write: count, result: count, spill: count, queue: null };

/** A kept result whose rows come when the test says so. */
class Result {
  readonly query = Object.assign(new EventEmitter<{ readable: [] }>(), {
    isReported: true,
    snapshot: () => ({ state: running, columns: [], stats }),
    credit: () => {},
  });
  rows = 0;
  readonly reads: { readonly from: number; readonly signal: AbortSignal; readonly end: (rows: Rows) => void }[] = [];
  readonly pages: KeptPages;

  constructor() {
    const pages = { pageRows: 10, readyRows: 10, pageBytes: 1_000, bufferRows: 10, format: 'json' } as const;
    const store = {
      textBytesFrom: () => 0,
      read: (from: number, _count: number, _bytes: number, _format: string, signal: AbortSignal) =>
        new Promise<Rows>((end) => this.reads.push({ from, signal, end })),
    };
    Object.defineProperty(store, 'rows', { get: () => this.rows });
    const limits = { ...pages, waitMs, gzipLevel: 0, timeoutMs: 1_000, isTimeoutAsked: false };
    this.pages = new KeptPages(this.query, limits, store as unknown as RowStore);
  }

  have(rows: number): void {
    this.rows = rows;
    this.query.emit('readable');
  }
}

class Reader implements PageReader {
  readonly seen: (number | 'no page')[] = [];

  page({ number }: Page): void {
    this.seen.push(number);
  }

  noPage(): void {
    this.seen.push('no page');
  }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}

function wait(result: Result, from: number): Reader {
  const reader = new Reader();
  result.pages.readRows(from, null, reader);
  return reader;
}

t.test('polls wait with one listener, each for its own rows', async (t: Test) => {
  const clock = installFakeClock(t);
  const result = new Result();
  const near = Array.from({ length: 1_000 }, () => wait(result, 0));
  const far = wait(result, 20);
  const gone = wait(result, 0);
  t.equal(result.query.listenerCount('readable'), 1);
  t.not(result.pages.polledSince, null);
  result.pages.leave(gone);
  result.have(9);
  await turns();
  t.equal(result.reads.length, 0);
  result.have(10);
  await turns();
  t.equal(result.reads.length, near.length);
  for (const { end } of result.reads.splice(0)) end(noRows);
  await turns();
  t.ok(near.every(({ seen }) => seen.join() === '0'));
  t.strictSame([far.seen, gone.seen], [[], []]);
  clock.tick(waitMs);
  await turns();
  t.strictSame(far.seen, [20], 'an empty page when the wait is over');
  t.equal(result.query.listenerCount('readable'), 0);
  t.equal(result.pages.polledSince, null);
});

t.test('all that wait are given what there is when the statement ends', async (t) => {
  const result = new Result();
  const reader = wait(result, 5);
  result.query.isReported = false;
  result.have(7);
  await turns();
  t.strictSame(
    result.reads.map(({ from }) => from),
    [5],
  );
  result.reads[0]?.end(noRows);
  await turns();
  t.strictSame(reader.seen, [5]);
});

t.test('a reader that leaves gives up its reading, and is told nothing', async (t) => {
  const result = new Result();
  result.rows = 100;
  const [reader, other] = [wait(result, 0), wait(result, 1)];
  await turns();
  result.pages.leave(reader);
  t.strictSame(
    result.reads.map(({ signal }) => signal.aborted),
    [true, false],
  );
  for (const { end } of result.reads) end(noRows);
  await turns();
  t.strictSame([reader.seen, other.seen], [[], [1]]);
});
