import { randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { Buffers, type BuffersOptions } from '#src/query/buffers.js';
import type { QueryLimits } from '#src/query/limits.js';
import type { Page } from '#src/query/pages.js';
import { Query } from '#src/query/query.js';
import { RequestMemory } from '#src/query/request-memory.js';
import { Ring } from '#src/query/ring.js';
import { causes, type Failure, failureOf } from '#src/wire/failures.js';
import type { Batch, StatementHandle, StatementObserver, StatementRequest } from '#src/wire/statement.js';
import { installFakeClock } from '../support/fake-clock.ts';
import { seeded } from '../support/random.ts';
import { statement as plain } from '../support/statement.ts';
import { isPending } from '../support/turns.ts';
import { batchOf, deflated, textOf } from './batches.ts';
import { forever } from './make-query.ts';
import { readPage } from './read-page.ts';
import { idleHandle, runBy } from './run-by.ts';

const outcome = { affectedRows: '0', lastInsertId: null, warnings: 0 };
const failure: Failure = failureOf({ code: 1054, sqlstate: '42S22', message: 'Unknown column' }, 'rolled_back');
const limits: QueryLimits = {
  waitMs: forever,
  pageRows: 3,
  readyRows: 3,
  pageBytes: 1_000,
  bufferRows: 100,
  gzipLevel: 0,
  timeoutMs: forever,
  isTimeoutAsked: false,
  format: 'json',
};

/** Room for many queries, of which each may have 10,000 bytes from its beginning on. */
function buffersOf(changed: Partial<BuffersOptions> = {}): Buffers {
  return new Buffers({
    bufferBytesMax: 1_000_000,
    resultsBytesMax: 1_000_000,
    queryBufferBytesMax: 10_000,
    ...changed,
  });
}

/** A query with the session's side of its statement in the test's hands. */
class Stage {
  readonly buffers: Buffers;
  readonly query: Query;
  readonly credits: { bytes: number; rows: number }[] = [];
  request: StatementRequest | null = null;
  runs = 0;
  cancels = 0;
  asks = 0;
  settled = 0;
  lost = 0;
  place: number | null = null;

  constructor(changed: Partial<QueryLimits> = {}, buffers = buffersOf()) {
    this.buffers = buffers;
    this.query = new Query({ id: 'q', sessionId: 's', owner: 'u' }, { ...limits, ...changed }, buffers);
    this.query.on('settled', () => this.settled++);
    this.query.on('rowsLost', () => this.lost++);
  }

  /** A statement that has been handed to a session, and sent to the database. */
  start(sent = true, sql = 'SELECT 1', isStandalone = true): StatementObserver {
    const run = (request: StatementRequest, observer: StatementObserver): StatementHandle => {
      this.runs++;
      this.request = request;
      if (sent) observer.started();
      return {
        credit: (bytes, rows) => this.credits.push({ bytes, rows }),
        cancel: () => this.cancels++,
        askExamined: () => this.asks++,
        queuePosition: () => this.place,
      };
    };
    runBy(this.query, plain(sql), run, isStandalone);
    return this.query;
  }

  async page(number: number): Promise<Page> {
    const page = readPage(this.query, number);
    if (page === null) throw new Error(`there is no page ${number}`);
    return page;
  }

  get credited(): { bytes: number; rows: number } {
    return this.credits.reduce((sum, { bytes, rows }) => ({ bytes: sum.bytes + bytes, rows: sum.rows + rows }), {
      bytes: 0,
      rows: 0,
    });
  }
}

/** Rows whose texts are as long as the numbers say. */
function sized(...sizes: number[]): Batch {
  return batchOf(sizes.map((size) => `["${'x'.repeat(size - 4)}"]`));
}

t.test('the statement is handed over with as much credit as the buffer has room', async (t) => {
  const stage = new Stage();
  stage.start();
  t.strictSame(stage.request, {
    ...plain('SELECT 1'),
    traits: undefined,
    creditBytes: 10_000,
    creditRows: 100,
    gzipLevel: 0,
    pageRows: 3,
    keep: null,
  });
  stage.query.cancel(causes.cancelled());
});

t.test('a page is answered when it is full of rows', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const poll = stage.page(0);
  observer.rows(batchOf(['[1]', '[2]']), false);
  t.equal(await isPending(poll), true, 'two rows are not three');
  observer.rows(batchOf(['[3]', '[4]']), false);
  const page = await poll;
  t.equal(textOf(page.rows), '[1],[2],[3]');
  t.equal(page.next, 1);
  t.equal(page.state.name, 'Running');
  stage.query.cancel(causes.cancelled());
});

t.test('a page is answered when it is full of bytes', async (t) => {
  const stage = new Stage({ pageRows: 1_000 });
  const observer = stage.start();
  const poll = stage.page(0);
  observer.rows(sized(400, 400), false);
  t.equal(await isPending(poll), true);
  observer.rows(sized(300, 20), false);
  const page = await poll;
  t.equal(page.rows.count, 2, 'the third row would have passed the limit');
  t.equal(page.rows.bytes, 801);
  stage.query.cancel(causes.cancelled());
});

t.test('a row larger than a page has a page for itself', async (t) => {
  const stage = new Stage({ pageRows: 1_000 });
  const observer = stage.start();
  observer.rows(sized(5_000), false);
  observer.rows(sized(20, 20), false);
  const page = await stage.page(0);
  t.equal(page.rows.count, 1);
  t.equal(page.rows.bytes, 5_000);
  observer.ended(outcome, 0);
  t.equal((await stage.page(1)).rows.count, 2);
});

t.test('a page is answered when the statement has ended and the rest fits', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const poll = stage.page(0);
  observer.rows(batchOf(['[1]']), false);
  observer.ended(outcome, 0);
  const page = await poll;
  t.equal(page.rows.count, 1);
  t.equal(page.next, null);
  t.equal(page.state.name, 'Succeeded');
  t.equal(stage.settled, 1);
});

t.test('a statement that has ended is Succeeded while rows of it are still to be fetched', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]', '[4]']), false);
  observer.ended(outcome, 0);
  t.equal(stage.query.isDrained, false);
  const first = await stage.page(0);
  t.equal(first.state.name, 'Succeeded');
  t.equal(first.next, 1);
  t.equal(stage.query.isDrained, false);
  const second = await stage.page(1);
  t.equal(textOf(second.rows), '[4]');
  t.equal(second.next, null);
  t.equal(stage.query.isDrained, true);
});

t.test('a page that holds the last row exactly has no next', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]']), false);
  observer.ended(outcome, 0);
  t.equal((await stage.page(0)).next, null);
});

t.test('a page that was full before the end was known is followed by an empty one', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]']), false);
  t.equal((await stage.page(0)).next, 1);
  const poll = stage.page(1);
  observer.ended(outcome, 0);
  const page = await poll;
  t.equal(page.rows.count, 0);
  t.equal(page.next, null);
});

t.test('a page is answered with what there is when the wait is over', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ waitMs: 30 });
  const observer = stage.start();
  observer.rows(batchOf(['[1]']), false);
  const poll = stage.page(0);
  clock.tick(29);
  t.equal(await isPending(poll), true, 'and not before');
  clock.tick(1);
  const page = await poll;
  t.equal(page.rows.count, 1);
  t.equal(page.next, 1);
  stage.query.cancel(causes.cancelled());
});

t.test('an empty poll repeats the number', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ waitMs: 5 });
  const observer = stage.start();
  for (let polls = 0; polls < 3; polls++) {
    const poll = stage.page(0);
    clock.tick(5);
    const page = await poll;
    t.equal(page.rows.count, 0);
    t.equal(page.next, 0);
  }
  observer.rows(batchOf(['[1]']), false);
  observer.ended(outcome, 0);
  t.equal((await stage.page(0)).rows.count, 1);
});

t.test('with no wait a page is answered at once with what there is', async (t) => {
  const stage = new Stage({ waitMs: 0 });
  const observer = stage.start();
  t.equal((await stage.page(0)).next, 0);
  observer.rows(batchOf(['[1]']), false);
  t.equal((await stage.page(0)).next, 1);
  stage.query.cancel(causes.cancelled());
});

t.test('two polls of one page get the same rows, and an older page is gone', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const polls = [stage.page(0), stage.page(0)];
  observer.rows(batchOf(['[1]', '[2]', '[3]', '[4]', '[5]', '[6]']), false);
  const [one, other] = await Promise.all(polls);
  t.equal(one, other);
  t.equal(textOf((await stage.page(1)).rows), '[4],[5],[6]');
  t.equal(readPage(stage.query, 0), null);
  t.equal(readPage(stage.query, 3), null);
  stage.query.cancel(causes.cancelled());
});

t.test('a full buffer is handed out rather than waited with', async (t) => {
  const byRows = new Stage({ bufferRows: 2 });
  byRows.start().rows(batchOf(['[1]', '[2]']), false);
  t.equal((await byRows.page(0)).rows.count, 2, 'max_rows_in_buffer');
  byRows.query.cancel(causes.cancelled());
  const byBytes = new Stage({ pageRows: 1_000, pageBytes: 1_000 }, buffersOf({ queryBufferBytesMax: 1_000 }));
  // The commas between batches are no part of the credit, so a buffer can be full a little before the page is.
  byBytes.start().rows(sized(500, 499), false);
  t.equal((await byBytes.page(0)).rows.count, 2, 'bytes of the buffer');
  byBytes.query.cancel(causes.cancelled());
});

t.test('rows that are handed out are given back as credit', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const first = batchOf(['[1]', '[2]', '[3]', '[4]']);
  const last = batchOf(['[5]', '[6]']);
  observer.rows(first, false);
  await stage.page(0);
  t.equal(stage.credits.length, 1);
  t.equal(stage.credited.rows, 3);
  t.equal(stage.credited.bytes, 0, 'the memory is held as long as a row of it is');
  await stage.page(0);
  t.equal(stage.credits.length, 1, 'a repeated page gives nothing back');
  observer.rows(last, false);
  await stage.page(1);
  t.strictSame(stage.credited, { rows: 6, bytes: first.buffer.byteLength + last.buffer.byteLength });
  stage.query.cancel(causes.cancelled());
});

t.test('the last rows of a result give no credit: the worker has no use for it', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]', '[4]']), false, true);
  observer.ended(outcome, 0);
  t.equal((await stage.page(0)).rows.count, 3);
  t.equal((await stage.page(1)).next, null);
  t.strictSame(stage.credits, []);
  t.end();
});

t.test('an empty poll gives no credit', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ waitMs: 1 });
  stage.start();
  const poll = stage.page(0);
  clock.tick(1);
  await poll;
  t.strictSame(stage.credits, []);
  stage.query.cancel(causes.cancelled());
});

t.test('what was received, what was handed out and what is credited add up, whatever the sizes', async (t) => {
  const random = seeded(t);
  for (let run = 0; run < 50; run++) {
    const buffers = buffersOf({ bufferBytesMax: 1_000_000_000, resultsBytesMax: 1_000_000_000 });
    const stage = new Stage({ waitMs: 0, pageRows: 1 + random(20) }, buffers);
    const observer = stage.start();
    let sent = 0;
    let sentBytes = 0;
    let number = 0;
    const texts: string[] = [];
    const receive = async (): Promise<void> => {
      const page = await stage.page(number);
      if (page.rows.count > 0) texts.push(textOf(page.rows));
      if (buffers.heldBytes < page.rows.bytes) t.fail('the last page is not accounted for');
      number = page.next ?? -1;
    };
    for (let step = 0; step < 40; step++) {
      if (random(2) === 0) {
        const rows = Array.from({ length: 1 + random(9) }, () => `[${sent++},"${'y'.repeat(random(300))}"]`);
        const batch = batchOf(rows);
        sentBytes += batch.buffer.byteLength;
        observer.rows(batch, false);
      } else {
        await receive();
      }
    }
    // The rest is handed out while the statement still runs, so that its credit comes back too.
    while (stage.credited.rows < sent) await receive();
    if (stage.credited.bytes !== sentBytes) {
      t.equal(stage.credited.bytes, sentBytes, `run ${run}`);
      return;
    }
    observer.ended(outcome, 0);
    while (number >= 0) await receive();
    const numbers = (JSON.parse(`[${texts.join(',')}]`) as [number, string][]).map(([first]) => first);
    if (numbers.length !== sent || numbers.some((value, index) => value !== index)) {
      t.fail(`run ${run}: rows were lost, repeated or out of order`);
      return;
    }
    stage.query.remove(causes.cancelled());
    if (buffers.heldBytes !== 0 || buffers.reservedBytes !== 0) {
      t.fail(`run ${run}: ${buffers.heldBytes} and ${buffers.reservedBytes} bytes are not given back`);
      return;
    }
  }
  t.pass('50 runs add up');
});

t.test('the buffers count the rows that wait and the last page, and no more', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]', '[4]', '[5]', '[6]']), false);
  t.equal(stage.buffers.heldBytes, 24 + 24, 'the text, rounded up, and where each row ends');
  await stage.page(0);
  t.equal(stage.buffers.heldBytes, 24 + 24, 'a batch is held whole until its last row is handed out');
  await stage.page(1);
  t.equal(stage.buffers.heldBytes, 24 + 24, 'and then by the page that may be asked for again');
  observer.ended(outcome, 0);
  t.equal((await stage.page(2)).next, null);
  t.equal(stage.buffers.heldBytes, 0, 'the last page is empty');
  stage.query.remove(causes.cancelled());
  t.equal(stage.buffers.heldBytes, 0);
});

t.test(
  'a statement whose rows no longer fit into the memory for all fails with 90010 and gives its room back',
  async (t) => {
    const buffers = buffersOf({ resultsBytesMax: 100 });
    const other = new Stage({}, buffers);
    other.start().rows(sized(60), false);
    const stage = new Stage({}, buffers);
    const observer = stage.start();
    const poll = stage.page(0);
    observer.rows(sized(20), false);
    t.equal(stage.query.isRunning, true);
    observer.rows(sized(30), false);
    const page = await poll;
    t.match(page.state, { name: 'Failed', failure: { code: 90010, message: /--results_bytes_max/ } });
    t.match(page, { rows: { count: 0 }, next: null });
    t.equal(stage.cancels, 1, 'the statement is stopped in the database');
    t.equal(buffers.heldBytes, 64, 'the text and where its row ends');
    t.equal(other.query.isRunning, true, 'the other query is left alone');
    other.query.remove(causes.cancelled());
  },
);

t.test('a failure drops the rows that were not handed out', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]', '[4]']), false);
  const first = await stage.page(0);
  observer.failed(failure);
  const page = await stage.page(1);
  t.strictSame(page.state, { name: 'Failed', failure });
  t.strictSame(page.rows, { pieces: [], count: 0, bytes: 0, heldBytes: 0 });
  t.equal(page.next, null);
  t.equal(stage.query.isDrained, true);
  t.equal(textOf(first.rows), '[1],[2],[3]', 'what was handed out stays');
  t.equal(stage.settled, 1);
});

t.test('a failure answers the poll that waits at once', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const poll = stage.page(0);
  observer.rows(batchOf(['[1]']), false);
  observer.failed(failure);
  const page = await poll;
  t.equal(page.state.name, 'Failed');
  t.equal(page.rows.count, 0);
});

t.test('a page that was answered before the failure is repeated as it was', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]']), false);
  const page = await stage.page(0);
  observer.failed(failure);
  t.equal(await stage.page(0), page);
});

t.test('a query can fail before it is handed to a session', async (t) => {
  const stage = new Stage();
  stage.query.failed(failureOf(causes.noSuchSession('x'), 'not_started'));
  const page = await stage.page(0);
  t.match(page.state, { name: 'Failed', failure: { code: 90001 } });
  t.equal(page.next, null);
  t.equal(page.stats.runningMs, 0);
});

t.test('a statement that fails as it is handed over is held no more', async (t) => {
  const stage = new Stage();
  let cancels = 0;
  const run = (_request: StatementRequest, observer: StatementObserver): StatementHandle => {
    observer.failed(failureOf(causes.sessionQueueFull(8), 'not_started'));
    return { ...idleHandle, cancel: () => cancels++ };
  };
  runBy(stage.query, plain('x'), run, false);
  stage.query.cancel(causes.cancelled());
  t.equal(cancels, 0);
  t.match(stage.query.snapshot().state, { failure: { code: 90004 } });
});

t.test('a cancel stops the statement, fails the query and answers the poll that waits', async (t) => {
  const stage = new Stage();
  stage.start().rows(batchOf(['[1]']), false);
  const poll = stage.page(0);
  stage.query.cancel(causes.cancelled());
  const page = await poll;
  t.match(page.state, { name: 'Failed', failure: { code: 90002 } });
  t.equal(page.rows.count, 0);
  t.equal(stage.cancels, 1);
  t.equal(stage.buffers.heldBytes, 0);
});

t.test('a cancel of a query that has ended changes nothing', async (t) => {
  for (const end of ['ended', 'failed', 'cancel'] as const) {
    const stage = new Stage();
    const observer = stage.start();
    if (end === 'ended') observer.ended(outcome, 0);
    else if (end === 'failed') observer.failed(failure);
    else stage.query.cancel(causes.expired(60));
    const { state } = stage.query.snapshot();
    const cancels = stage.cancels;
    stage.query.cancel(causes.cancelled());
    t.equal(stage.query.snapshot().state, state, end);
    t.equal(stage.cancels, cancels, end);
    t.equal(stage.settled, 1, end);
  }
});

t.test('a query is ended once, and what comes late changes nothing', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.failed(failure);
  observer.ended(outcome, 0);
  observer.failed(failureOf(causes.cancelled(), 'unknown'));
  t.strictSame(stage.query.snapshot().state, { name: 'Failed', failure });
  t.equal(stage.settled, 1);
});

t.test('a removed query stops its statement and answers the poll that waits with the reason', async (t) => {
  const stage = new Stage();
  stage.start().rows(batchOf(['[1]']), false);
  const poll = stage.page(0);
  stage.query.remove(causes.expired(60));
  t.match((await poll).state, { failure: { code: 90003, message: /not polled for 60 s/ } });
  t.equal(stage.cancels, 1);
  t.equal(stage.buffers.heldBytes, 0);
  stage.query.remove(causes.expired(60));
  t.equal(stage.cancels, 1, 'a second removal is none');
  t.equal(stage.buffers.heldBytes, 0);
});

t.test('a removed query that had succeeded gives back the room of its rows', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]', '[4]', '[5]']), false);
  observer.ended(outcome, 0);
  await stage.page(0);
  t.ok(stage.buffers.heldBytes > 0);
  stage.query.remove(causes.cancelled());
  t.equal(stage.buffers.heldBytes, 0);
  t.equal(stage.query.snapshot().state.name, 'Succeeded');
  t.equal(stage.cancels, 0);
});

t.test('a statement that runs past its time fails with 90005', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ timeoutMs: 20, isTimeoutAsked: false });
  stage.start();
  const poll = stage.page(0);
  clock.tick(19);
  t.equal(stage.query.isRunning, true);
  clock.tick(1);
  const page = await poll;
  t.match(page.state, {
    failure: { code: 90005, message: 'the statement ran past 0.02 s (--statement_timeout_secs) and was cancelled' },
  });
  t.equal(stage.cancels, 1);
});

t.test('the time of a statement begins when it is sent, not when it waits for its session', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ timeoutMs: 20, isTimeoutAsked: false });
  const observer = stage.start(false);
  const poll = stage.page(0);
  clock.tick(40);
  t.equal(stage.query.isRunning, true);
  t.equal(stage.query.snapshot().stats.runningMs, 0);
  observer.started();
  clock.tick(20);
  t.match((await poll).state, { failure: { code: 90005 } });
});

t.test('a statement that ended in time is not cancelled afterwards', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ timeoutMs: 10, isTimeoutAsked: false });
  stage.start().ended(outcome, 0);
  clock.tick(25);
  t.equal(stage.cancels, 0);
  t.equal(stage.query.snapshot().state.name, 'Succeeded');
});

t.test('the running time moves while the statement runs and then stands', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage();
  const observer = stage.start();
  const runningMs = (): number => stage.query.snapshot().stats.runningMs;
  t.equal(runningMs(), 0);
  clock.tick(20);
  t.equal(runningMs(), 20);
  clock.tick(5);
  observer.ended(outcome, 0);
  t.equal(runningMs(), 25);
  clock.tick(20);
  t.equal(runningMs(), 25);
});

t.test('a page keeps the statistics of its moment', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]']), false);
  const page = await stage.page(0);
  observer.rows(batchOf(['[4]']), false);
  observer.ended(outcome, 0);
  t.equal(page.stats.result.rows, 3);
  t.equal(stage.query.snapshot().stats.result.rows, 4);
});

t.test('the result progress counts rows and bytes received, read or not', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]', '[3]']), false);
  observer.rows(batchOf(['[4]']), false);
  t.strictSame(stage.query.snapshot().stats.result, { rows: 4, bytes: 14 });
  await stage.page(0);
  t.strictSame(stage.query.snapshot().stats.result, { rows: 4, bytes: 14 });
  observer.ended(outcome, 0);
});

t.test('the scan progress is what the database has examined, or what was received if that is more', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const rows = (): number => stage.query.snapshot().stats.scan.rows;
  t.equal(rows(), 0);
  observer.rows(batchOf(['[1]', '[2]']), false);
  t.equal(rows(), 2);
  const { known, estimatedRows } = stage.query.snapshot().stats.scan;
  t.strictSame([known, estimatedRows], [false, null]);
  observer.examined(50, null);
  t.equal(rows(), 50);
  observer.examined(40, null);
  t.equal(rows(), 50, 'it never goes back');
  observer.ended(outcome, 0);
  t.equal(rows(), 50);
});

t.test('E (scan_progress): it says whether the database has given a count, and what it estimates', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const scan = (): unknown => stage.query.snapshot().stats.scan;
  t.strictSame(scan(), { rows: 0, bytes: 0, known: false, estimatedRows: null });
  observer.examined(null, 100);
  t.strictSame(scan(), { rows: 0, bytes: 0, known: false, estimatedRows: 100 });
  observer.examined(0, null);
  t.strictSame(
    scan(),
    { rows: 0, bytes: 0, known: true, estimatedRows: 100 },
    'an estimate that is not repeated stays',
  );
  observer.examined(60, 90);
  observer.examined(null, null);
  t.strictSame(scan(), { rows: 60, bytes: 0, known: true, estimatedRows: 90 });
  observer.examined(91, null);
  t.strictSame(scan(), { rows: 91, bytes: 0, known: true, estimatedRows: null }, 'it was wrong');
  observer.ended(outcome, 0);
});

t.test('the write progress is the affected rows of a statement that succeeded', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  t.equal(stage.query.snapshot().stats.write.rows, 0);
  observer.ended({ affectedRows: '12', lastInsertId: '7', warnings: 0 }, 0);
  t.equal(stage.query.snapshot().stats.write.rows, 12);
});

t.test('the database is asked for its count only on behalf of a poll that has waited, and once a second', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage();
  stage.start(false);
  clock.tick(250);
  stage.query.askProgress();
  t.equal(stage.asks, 0, 'nobody polls');
  const poll = stage.page(0);
  stage.query.askProgress();
  t.equal(stage.asks, 0, 'a poll that has just come may be answered at once');
  clock.tick(250);
  stage.query.askProgress();
  t.equal(stage.asks, 0, 'of a statement that waits its turn, the database knows nothing');
  stage.query.started();
  stage.query.askProgress();
  t.equal(stage.asks, 1);
  stage.query.askProgress();
  t.equal(stage.asks, 1, 'it was asked just now');
  clock.tick(999);
  stage.query.askProgress();
  t.equal(stage.asks, 1);
  clock.tick(1);
  stage.query.askProgress();
  t.equal(stage.asks, 2);
  stage.query.cancel(causes.cancelled());
  await poll;
  stage.query.askProgress();
  t.equal(stage.asks, 2);
});

t.test('the columns are none until they are known and then the same', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  t.strictSame(stage.query.snapshot().columns, []);
  const columns = [{ name: 'a', type: { name: 'Int32' }, nullable: false }] as const;
  observer.columns(columns);
  observer.rows(batchOf(['[1]', '[2]', '[3]']), false);
  t.equal((await stage.page(0)).columns, columns);
  observer.failed(failure);
  t.equal((await stage.page(1)).columns, columns, 'also when it fails');
});

t.test('B1: the rows of an answer that nobody reads are counted, until it has left', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const batches = [batchOf(['[1]', '[2]', '[3]']), batchOf(['[4]', '[5]', '[6]'])] as const;
  const [firstBytes, secondBytes] = batches.map(({ buffer }) => buffer.byteLength) as [number, number];
  observer.rows(batches[0], false);
  const first = await stage.page(0);
  stage.query.rowBuffer.sending(first.rows);
  stage.query.rowBuffer.sending(first.rows);
  t.equal(stage.buffers.heldBytes, firstBytes, 'the last page is counted once');
  observer.rows(batches[1], false);
  observer.ended(outcome, 0);
  const second = await stage.page(1);
  t.equal(second.next, null);
  t.equal(stage.buffers.heldBytes, firstBytes + secondBytes, 'the page before it is held for its answers');
  stage.query.rowBuffer.sent(first.rows);
  t.equal(stage.buffers.heldBytes, firstBytes + secondBytes);
  stage.query.rowBuffer.sent(first.rows);
  t.equal(stage.buffers.heldBytes, secondBytes);
  stage.query.rowBuffer.sending(second.rows);
  stage.query.remove(causes.cancelled());
  t.equal(stage.buffers.heldBytes, secondBytes, 'also when the query is removed');
  stage.query.rowBuffer.sent(second.rows);
  t.strictSame([stage.buffers.heldBytes, stage.buffers.reservedBytes], [0, 0]);
});

t.test('rows that are read from disk are counted while they are sent', async (t) => {
  const { query, buffers } = new Stage();
  const batch = batchOf(['[1]', '[2]', '[3]']);
  const ring = new Ring();
  ring.push(batch);
  const rows = ring.take(3, 1_000);
  query.rowBuffer.sending(rows);
  t.equal(buffers.heldBytes, batch.buffer.byteLength);
  t.equal(buffers.reservedBytes, batch.buffer.byteLength);
  query.rowBuffer.sent(rows);
  t.strictSame([buffers.heldBytes, buffers.reservedBytes], [0, 0]);
});

t.test('B (attack): a few rows that are sent count with the whole batch that they keep', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const batch = batchOf(['[1]', '[2]', '[3]', '[4]', '[5]']);
  const { byteLength } = batch.buffer;
  observer.rows(batch, false);
  const first = await stage.page(0);
  t.equal(first.rows.count, 3);
  stage.query.rowBuffer.sending(first.rows);
  t.equal(stage.buffers.heldBytes, byteLength, 'once as long as the rest of it waits');
  observer.ended(outcome, 0);
  const second = await stage.page(1);
  stage.query.rowBuffer.sending(second.rows);
  t.equal(stage.buffers.heldBytes, byteLength, 'and once as long as the last page has rows of it');
  stage.query.remove(causes.cancelled());
  stage.query.rowBuffer.sent(second.rows);
  t.equal(stage.buffers.heldBytes, byteLength, 'until nobody is sent rows of it');
  stage.query.rowBuffer.sent(first.rows);
  t.strictSame([stage.buffers.heldBytes, stage.buffers.reservedBytes], [0, 0]);
});

t.test(
  'B (attack): the last page of a statement that is cancelled counts with the whole batch that it keeps',
  async (t) => {
    const stage = new Stage();
    const observer = stage.start();
    const batch = batchOf(['[1]', '[2]', '[3]', '[4]', '[5]']);
    observer.rows(batch, false);
    await stage.page(0);
    stage.query.cancelByClient();
    t.equal(stage.buffers.heldBytes, batch.buffer.byteLength);
    stage.query.remove(causes.cancelled());
    t.strictSame([stage.buffers.heldBytes, stage.buffers.reservedBytes], [0, 0]);
  },
);

t.test(
  'the memory of a batch is given back when neither the ring, the last page nor an answer has rows of it',
  async (t) => {
    const stage = new Stage(
      { pageRows: 2, pageBytes: 1_000_000, bufferRows: 1_000 },
      buffersOf({ queryBufferBytesMax: 5_000_000 }),
    );
    const observer = stage.start();
    const batches = [sized(20_000, 20_000, 20_000), sized(30_000, 30_000), sized(9, 9), sized(50_000), sized(60_000)];
    const lengths = async (): Promise<number[]> => {
      // It is done at the end of a turn.
      await setImmediate();
      return batches.map(({ buffer }) => buffer.byteLength);
    };
    const all = await lengths();
    const [, second = 0, third = 0, fourth = 0, fifth = 0] = all;
    for (const batch of batches) observer.rows(batch, false);

    const one = await stage.page(0);
    stage.query.rowBuffer.sending(one.rows);
    stage.query.rowBuffer.sent(one.rows);
    const two = await stage.page(1);
    t.strictSame(await lengths(), all, 'two pages have rows of the first');
    stage.query.rowBuffer.sending(two.rows);
    stage.query.rowBuffer.sending(two.rows);
    const three = await stage.page(2);
    t.strictSame(await lengths(), all, 'both answers are on their way');
    stage.query.rowBuffer.sent(two.rows);
    t.strictSame(await lengths(), all, 'one of them still is');
    t.equal(textOf(two.rows).length, 20_000 + 1 + 30_000);
    stage.query.rowBuffer.sent(two.rows);
    t.strictSame(await lengths(), [0, second, third, fourth, fifth]);

    // A page is used in the turn in which it is given out, or not at all.
    const same = await stage.page(2);
    await stage.page(3);
    stage.query.rowBuffer.sending(same.rows);
    t.strictSame(await lengths(), [0, second, third, fourth, fifth]);
    t.equal(textOf(same.rows), textOf(three.rows));
    stage.query.rowBuffer.sent(same.rows);
    t.strictSame(await lengths(), [0, 0, third, fourth, fifth], 'a small batch is left to the collector');

    stage.query.cancelByClient();
    t.strictSame(
      await lengths(),
      [0, 0, third, fourth, 0],
      'a statement that fails has no rows but those of its last page',
    );
    stage.query.remove(causes.cancelled());
    t.strictSame(await lengths(), [0, 0, third, 0, 0]);
  },
);

t.test('the memory of a result that is removed is given back, but for that of answers on their way', async (t) => {
  const stage = new Stage({ pageRows: 2, pageBytes: 1_000_000 }, buffersOf({ queryBufferBytesMax: 5_000_000 }));
  const observer = stage.start();
  const batch = sized(20_000, 20_000, 20_000);
  const other = sized(50_000);
  // Text that hardly shrinks: it is large when compressed, too.
  const compressed = deflated(batchOf([`["${randomBytes(30_000).toString('base64')}"]`]));
  for (const given of [batch, other, compressed]) observer.rows(given, false);
  observer.ended(outcome, 0);
  const { rows } = await stage.page(0);
  stage.query.rowBuffer.sending(rows);
  stage.query.remove(causes.cancelled());
  await setImmediate();
  t.ok(batch.buffer.byteLength > 0, 'it is sent');
  t.equal(other.buffer.byteLength, 0);
  // Another thread may be inflating it.
  t.ok(compressed.buffer.byteLength >= 16 * 1024, 'what is compressed is left to the collector');
  stage.query.rowBuffer.sent(rows);
  await setImmediate();
  t.equal(batch.buffer.byteLength, 0);
});

t.test('a page that is made as its query is removed is not taken for an end without rows', async (t) => {
  const columns = [{ name: 'a', type: { name: 'Int32' as const }, nullable: false }];
  const stage = new Stage();
  const observer = stage.start();
  observer.columns(columns);
  const polled = stage.page(0);
  observer.rows(batchOf(['[1]']), false);
  observer.ended(outcome, 0);
  stage.query.remove(causes.cancelled());
  t.ok(stage.query.isTooLate(await polled));
  t.equal(readPage(stage.query, 0), null);

  const read = new Stage();
  const other = read.start();
  other.columns(columns);
  other.rows(batchOf(['[1]']), false);
  other.ended(outcome, 0);
  const taken = read.page(0);
  read.query.remove(causes.cancelled());
  t.notOk(read.query.isTooLate(await taken), 'its rows were taken before');
  t.equal(textOf((await taken).rows), '[1]');

  const failing = new Stage();
  failing.start().columns(columns);
  const waiting = failing.page(0);
  failing.query.remove(causes.cancelled());
  t.notOk(failing.query.isTooLate(await waiting), 'it says that it was cancelled');
});

t.test('B1: large columns count as memory of the result, until it is removed', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const named = (length: number) =>
    Array.from({ length: 100 }, () => ({
      name: 'x'.repeat(length),
      type: { name: 'Int32' as const },
      nullable: false,
    }));
  observer.columns(named(1_000));
  const { heldBytes } = stage.buffers;
  t.ok(heldBytes >= 100 * 2 * 1_000 && heldBytes < 1_000_000, `${heldBytes} bytes`);
  observer.ended(outcome, 0);
  await stage.page(0);
  t.equal(stage.buffers.heldBytes, heldBytes);
  stage.query.remove(causes.cancelled());
  t.equal(stage.buffers.heldBytes, 0);

  const larger = new Stage({}, buffersOf({ resultsBytesMax: 100_000 }));
  larger.start().columns(named(1_000));
  t.match(larger.query.snapshot(), { state: { failure: { code: 90010 } }, columns: [] });
  t.equal(larger.buffers.heldBytes, 0, 'what cannot be held is let go');
});

t.test(
  'B1: the memory of a statement is reserved until it is over and its session holds its text no longer',
  async (t) => {
    const reserved = (sent: boolean): { memory: RequestMemory; query: Query } => {
      const memory = new RequestMemory({ max: 1_000, perUserMax: 1_000 });
      const reservation = memory.reserve('u', 100);
      const query = new Query({ id: 'q', sessionId: 's', owner: 'u' }, limits, buffersOf(), {
        reservation,
        keptBytes: 10,
      });
      const run = (_request: StatementRequest, observer: StatementObserver): StatementHandle => {
        if (sent) observer.started();
        return idleHandle;
      };
      runBy(query, plain('SELECT 1'), run);
      return { memory, query };
    };
    const ended = reserved(true);
    ended.query.ended(outcome, 0);
    t.equal(ended.memory.reservedBytes, 100, 'the connection is not idle yet');
    ended.query.released();
    t.equal(ended.memory.reservedBytes, 10);
    ended.query.remove(causes.cancelled());
    t.equal(ended.memory.reservedBytes, 0);

    const spilled = reserved(true);
    spilled.query.ended(outcome, 2);
    spilled.query.released();
    t.equal(spilled.memory.reservedBytes, 100, 'a loss of rows on disk may have to be reported yet');
    spilled.query.rows(batchOf(['[1]', '[2]']), true);
    t.equal(spilled.memory.reservedBytes, 10);

    const cancelled = reserved(true);
    cancelled.query.remove(causes.cancelled());
    t.equal(cancelled.memory.reservedBytes, 100, 'the worker has it yet');
    cancelled.query.released();
    t.equal(cancelled.memory.reservedBytes, 0);

    const waiting = reserved(false);
    waiting.query.cancel(causes.cancelled());
    t.equal(waiting.memory.reservedBytes, 10, 'of one that waits in the queue nobody else holds anything');

    const again = reserved(true);
    again.query.released();
    again.query.notSent('gone');
    t.equal(again.memory.reservedBytes, 100);
    again.query.ended(outcome, 0);
    again.query.released();
    t.equal(again.memory.reservedBytes, 10);
  },
);

t.test(
  'a statement that was provably not sent is run once more, on another connection, if it is of no session',
  async (t) => {
    const stage = new Stage();
    stage.start().notSent('gone');
    t.equal(stage.runs, 2);
    t.equal(stage.query.isRunning, true);
    stage.query.notSent('gone again');
    t.equal(stage.runs, 2, 'not for ever');
    t.match(stage.query.snapshot().state, {
      failure: { code: 90006, outcome: 'not_started', retryable: true, message: /gone again/ },
    });

    const kept = new Stage();
    kept.start(true, 'SELECT 1', false).notSent('gone');
    t.equal(kept.runs, 1);
    t.match(kept.query.snapshot().state, { failure: { code: 90006, outcome: 'not_started', retryable: false } });
  },
);

t.test(
  'a statement whose rows are read as they come gets more of a window each time, if there is memory',
  async (t) => {
    const buffers = buffersOf({ bufferBytesMax: 4_000_000, queryBufferBytesMax: 1_000_000 });
    const stage = new Stage({ waitMs: 0 }, buffers);
    const observer = stage.start();
    const floor = buffers.floorBytes;
    t.equal(stage.request?.creditBytes, floor);
    t.equal(buffers.reservedBytes, floor);
    const batch = batchOf(['[1]', '[2]', '[3]']);
    for (const window of [2 * floor, 1_000_000, 1_000_000]) {
      observer.rows(batch, false);
      t.equal(buffers.reservedBytes, window);
      t.equal(floor + stage.credited.bytes, window, 'what the window has grown by is credited');
    }
    t.equal(stage.credited.rows, 0);
    stage.query.remove(causes.cancelled());
    t.equal(buffers.reservedBytes, 0);
  },
);

t.test('no window grows while half of the memory is set aside', async (t) => {
  const buffers = buffersOf({ bufferBytesMax: 1_000_000, queryBufferBytesMax: 1_000_000 });
  const others = [new Stage({}, buffers), new Stage({}, buffers)];
  for (const other of others) other.start();
  const stage = new Stage({}, buffers);
  const observer = stage.start();
  observer.rows(batchOf(['[1]']), false);
  t.strictSame(stage.credits, []);
  t.equal(buffers.reservedBytes, 3 * buffers.floorBytes);
  for (const { query } of [...others, stage]) query.remove(causes.cancelled());
  t.equal(buffers.reservedBytes, 0);
});

t.test('a window shrinks as its rows are handed out, while memory is scarce, and never below the least', async (t) => {
  const buffers = buffersOf({ bufferBytesMax: 3_000_000, queryBufferBytesMax: 1_000_000 });
  const stage = new Stage({ waitMs: 0, pageRows: 1_000, pageBytes: 1_000_000 }, buffers);
  const observer = stage.start();
  const sent = [sized(400_000), sized(300_000), sized(200_000)];
  for (const batch of sent) observer.rows(batch, false);
  t.equal(buffers.reservedBytes, 1_000_000);
  const grown = stage.credited.bytes;
  const others = Array.from({ length: 3 }, () => new Stage({}, buffers));
  for (const other of others) other.start();
  const page = await stage.page(0);
  t.equal(page.rows.count, 3);
  const free = sent.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  const window = buffers.floorBytes;
  t.equal(stage.credited.bytes - grown, free - (1_000_000 - window), 'what is taken from the window is not credited');
  t.equal(stage.credited.rows, 3);
  t.equal(buffers.reservedBytes, 4 * window + page.rows.heldBytes);
  for (const { query } of [...others, stage]) query.remove(causes.cancelled());
  t.equal(buffers.reservedBytes, 0);
});

t.test('credit and window add up, however windows grow and shrink', async (t) => {
  const random = seeded(t);
  for (let run = 0; run < 40; run++) {
    const buffers = buffersOf({
      bufferBytesMax: 2_000_000 + random(4_000_000),
      resultsBytesMax: 1_000_000_000,
      queryBufferBytesMax: 1_500_000,
    });
    const others: Stage[] = [];
    const stage = new Stage({ waitMs: 0, pageRows: 1 + random(20), bufferRows: 1_000_000 }, buffers);
    const observer = stage.start();
    let [number, sentBytes, credit] = [0, 0, stage.request?.creditBytes ?? 0];
    for (let step = 0; step < 120; step++) {
      credit = (stage.request?.creditBytes ?? 0) + stage.credited.bytes - sentBytes;
      if (stage.credits.some(({ bytes }) => bytes < 0)) {
        t.fail(`run ${run}: credit was taken back`);
        return;
      }
      const what = random(4);
      if (what === 0) {
        if (random(2) === 0 || others.length === 0) {
          if (!buffers.hasRoomFor('v')) continue;
          const other = new Stage({}, buffers);
          others.push(other);
          other.start();
        } else others.pop()?.query.remove(causes.cancelled());
      } else if (what < 3 && credit > 0) {
        const batch = sized(...Array.from({ length: 1 + random(5) }, () => 10 + random(60_000)));
        sentBytes += batch.buffer.byteLength;
        observer.rows(batch, false);
      } else number = (await stage.page(number)).next ?? number;
    }
    // With all handed out, what is credited is the window, and the window is what is set aside.
    while (stage.query.snapshot().stats.result.rows > stage.credited.rows)
      number = (await stage.page(number)).next ?? 0;
    credit = (stage.request?.creditBytes ?? 0) + stage.credited.bytes - sentBytes;
    for (const { query } of others) query.remove(causes.cancelled());
    const page = await stage.page(number - 1);
    if (buffers.reservedBytes !== credit + page.rows.heldBytes) {
      t.equal(buffers.reservedBytes, credit + page.rows.heldBytes, `run ${run}`);
      return;
    }
    stage.query.remove(causes.cancelled());
    if (buffers.reservedBytes !== 0) t.fail(`run ${run}: ${buffers.reservedBytes} bytes are not given back`);
  }
  t.pass('40 runs add up');
});

t.test('a statement that has not begun has nothing set aside', async (t) => {
  const stage = new Stage({ waitMs: 0 });
  const observer = stage.start(false);
  await stage.page(0);
  t.equal(stage.buffers.reservedBytes, 0);
  observer.started();
  t.equal(stage.buffers.reservedBytes, 10_000);
  observer.ended(outcome, 0);
  t.equal(stage.buffers.reservedBytes, 0);
});

t.test('rows that come after the end are handed out as any others, and then all has been said', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  observer.rows(batchOf(['[1]', '[2]']), false);
  const first = stage.page(0);
  observer.ended({ ...outcome, affectedRows: '5' }, 3);
  t.equal(stage.settled, 1, 'the statement is done');
  t.equal(await isPending(first), true, 'the page is not full');
  observer.rows(batchOf(['[3]', '[4]']), true);
  t.equal(textOf((await first).rows), '[1],[2],[3]');
  t.equal((await first).state.name, 'Succeeded');
  t.equal((await first).next, 1);
  t.ok(stage.credited.rows >= 3, 'its rows are credited after the end too');
  t.equal(stage.query.isDrained, false);
  const second = stage.page(1);
  t.equal(await isPending(second), true, 'one is still to come');
  observer.rows(batchOf(['[5]']), true);
  t.equal(textOf((await second).rows), '[4],[5]');
  t.equal((await second).next, null);
  t.equal(stage.query.isDrained, true);
  t.equal(stage.settled, 1);
  stage.query.remove(causes.cancelled());
  t.equal(stage.cancels, 0, 'there is nothing left to be stopped');
  t.equal(stage.buffers.reservedBytes, 0);
});

t.test('rows on disk count as results once, when they are put there, and as spilled', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  t.strictSame(stage.query.snapshot().stats.spill, { rows: 0, bytes: 0 });
  observer.rows(batchOf(['[1]']), false);
  observer.spilled(2, 7);
  const { stats } = stage.query.snapshot();
  t.strictSame(stats.spill, { rows: 2, bytes: 7 });
  t.strictSame(stats.result, { rows: 3, bytes: 10 });
  t.equal(stats.scan.rows, 3);
  observer.ended(outcome, 2);
  observer.rows(batchOf(['[2]', '[3]']), true);
  t.strictSame(stage.query.snapshot().stats.result, { rows: 3, bytes: 10 });
  t.strictSame((await stage.page(0)).stats.spill, { rows: 2, bytes: 7 });
});

t.test('rows that are lost after the end make a success a failure, which says that it took effect', async (t) => {
  for (const [sql, outcomeOfSql] of [
    ['SELECT 1', 'rolled_back'],
    ['INSERT INTO t VALUES (1) RETURNING a', 'committed'],
  ] as const) {
    const stage = new Stage();
    const observer = stage.start(true, sql);
    observer.rows(batchOf(['[1]', '[2]', '[3]', '[4]']), false);
    observer.ended(outcome, 2);
    const first = await stage.page(0);
    const poll = stage.page(1);
    const lost = failureOf(causes.spillFailed('gone'), outcomeOfSql);
    observer.failed(lost);
    const page = await poll;
    t.strictSame(page.state, { name: 'Failed', failure: lost });
    t.equal(page.rows.count, 0, 'what came before them is not handed out any more');
    t.equal(page.next, null);
    t.equal(textOf(first.rows), '[1],[2],[3]', 'but what was handed out stays');
    t.equal(stage.settled, 1, 'it is not settled twice');
    t.equal(stage.lost, 1);
    t.equal(stage.query.nextPage, null);
    stage.query.remove(causes.cancelled());
    t.equal(stage.cancels, 0);
    t.equal(stage.buffers.reservedBytes, 0);
  }
});

t.test('a removal while rows are to come gives all back, and answers who waits', async (t) => {
  for (const [sql, outcomeOfSql] of [
    ['SELECT 1', 'rolled_back'],
    ['CALL p()', 'committed'],
  ] as const) {
    const stage = new Stage();
    const observer = stage.start(true, sql);
    observer.rows(batchOf(['[1]']), false);
    observer.ended(outcome, 2);
    const poll = stage.page(0);
    stage.query.remove(causes.expired(60));
    t.match((await poll).state, { name: 'Failed', failure: { code: 90003, outcome: outcomeOfSql } });
    t.equal(stage.cancels, 1, 'the disk is given back');
    t.equal(stage.buffers.reservedBytes, 0);
    t.equal(stage.buffers.heldBytes, 0);
    t.equal(stage.settled, 1);
    observer.rows(batchOf(['[2]', '[3]']), true);
    t.equal(stage.buffers.reservedBytes, 0, 'nor does a row that comes late take anything');
  }
});

t.test('rows after the end that no longer fit into the memory for all fail what had succeeded', async (t) => {
  const stage = new Stage({}, buffersOf({ resultsBytesMax: 100 }));
  const observer = stage.start(true, 'INSERT INTO t VALUES (1) RETURNING a');
  observer.ended(outcome, 1);
  observer.rows(sized(200), true);
  t.match((await stage.page(0)).state, { name: 'Failed', failure: { code: 90010, outcome: 'committed' } });
  t.equal(stage.buffers.heldBytes, 0);
});

t.test('a statement without a time limit runs for as long as it likes', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ timeoutMs: 0, isTimeoutAsked: false });
  stage.start();
  clock.tick(forever);
  t.equal(stage.query.isRunning, true);
  t.equal(stage.cancels, 0);
  stage.query.cancel(causes.cancelled());
});

t.test('a time limit that the client has asked for is called so', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage({ timeoutMs: 10, isTimeoutAsked: true });
  stage.start();
  const poll = stage.page(0);
  clock.tick(10);
  t.match((await poll).state, {
    failure: { code: 90005, message: 'the statement ran past 0.01 s (its timeout_secs) and was cancelled' },
  });
});

t.test('a cancel says what it has left: nothing before the start, nothing of a read, or nobody knows', async (t) => {
  for (const [sent, sql, isStandalone, expected] of [
    [false, 'INSERT INTO t VALUES (1)', true, { outcome: 'not_started', retryable: true }],
    [false, 'INSERT INTO t VALUES (1)', false, { outcome: 'not_started', retryable: true }],
    [true, 'SELECT 1', true, { outcome: 'rolled_back', retryable: true }],
    [true, 'SELECT 1', false, { outcome: 'rolled_back', retryable: false }],
    [true, 'INSERT INTO t VALUES (1)', true, { outcome: 'unknown', retryable: false }],
  ] as const) {
    const stage = new Stage();
    stage.start(sent, sql, isStandalone);
    stage.query.cancel(causes.cancelled());
    t.match(
      stage.query.snapshot().state,
      { failure: { code: 90002, ...expected } },
      `${sent}, ${sql}, ${isStandalone}`,
    );
    t.equal(stage.cancels, 1);
  }
});

t.test('the position of a statement in its queue is reported while it waits', async (t) => {
  const stage = new Stage();
  const observer = stage.start(false);
  t.equal(stage.query.snapshot().stats.queue, null);
  stage.place = 3;
  t.equal(stage.query.snapshot().stats.queue, 3);
  stage.place = null;
  observer.started();
  t.equal(stage.query.snapshot().stats.queue, null);
  stage.query.cancel(causes.cancelled());
});

t.test('a statement that is run once more does not hold the memory that it may have to wait for', async (t) => {
  const stage = new Stage();
  const reserved: number[] = [];
  const run = (_request: StatementRequest, observer: StatementObserver): StatementHandle => {
    reserved.push(stage.buffers.reservedBytes);
    observer.started();
    return idleHandle;
  };
  runBy(stage.query, plain('SELECT 1'), run);
  t.ok(stage.buffers.reservedBytes > 0);
  stage.query.notSent('gone');
  t.strictSame(reserved, [0, 0]);
  stage.query.remove(causes.cancelled());
});

t.test('a large row that finds no room on disk counts as held, and too much of that fails the statement', async (t) => {
  const buffers = buffersOf({ resultsBytesMax: 1_000 });
  const stage = new Stage({}, buffers);
  const observer = stage.start();
  observer.unwritten(900);
  t.equal(buffers.heldBytes, 900);
  observer.unwritten(0);
  t.equal(buffers.heldBytes, 0);
  t.equal(stage.query.isRunning, true);
  observer.unwritten(1_001);
  t.match(stage.query.snapshot().state, { name: 'Failed', failure: { code: 90010 } });
  t.equal(stage.cancels, 1);
  t.equal(buffers.heldBytes, 0);
});

t.test('the database is asked for its progress while anybody listens for it', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage();
  const observer = stage.start();
  let emitted = 0;
  const count = (): void => {
    emitted++;
  };
  clock.tick(5_000);
  stage.query.askProgress();
  t.equal(stage.asks, 0, 'nobody listens, and nobody polls');
  stage.query.on('progress', count);
  stage.query.askProgress();
  stage.query.askProgress();
  t.equal(stage.asks, 1, 'once a second at most');
  observer.examined(7, null);
  observer.rows(batchOf(['[1]']), false);
  observer.spilled(1, 3);
  t.equal(emitted, 3);
  stage.query.off('progress', count);
  clock.tick(5_000);
  stage.query.askProgress();
  t.equal(stage.asks, 1);
  stage.query.remove(causes.cancelled());
});

t.test('a query tells any number of listeners when it is readable, settled and removed', async (t) => {
  const stage = new Stage();
  const observer = stage.start();
  const events: string[] = [];
  for (const event of ['readable', 'settled', 'removed'] as const) {
    stage.query.on(event, () => events.push(event));
    stage.query.on(event, () => events.push(event));
  }
  observer.rows(batchOf(['[1]']), false);
  t.strictSame(events, [], 'one row of three makes no page');
  observer.ended(outcome, 0);
  t.strictSame(events, ['readable', 'readable', 'settled', 'settled']);
  stage.query.remove(causes.cancelled());
  t.strictSame(events.slice(4), ['removed', 'removed']);
});
