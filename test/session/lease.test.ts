import { once } from 'node:events';
import t, { type Test } from 'tap';
import { Lease } from '#src/session/lease.js';
import { OpenRefusedError } from '#src/session/open-refused-error.js';
import { type Failure, failureOf } from '#src/wire/failures.js';
import type { Batch } from '#src/wire/statement.js';
import { turns } from '../support/turns.ts';
import { until } from '../support/until.ts';
import { anna, type FakeConnection, FakeLargeRows, FakeWorkers, outcome, Recorder, request } from './fake-workers.ts';

function failureWith(code: number): Failure {
  return failureOf({ code, sqlstate: '', message: '' }, 'rolled_back');
}

function batchOf(rows: number): Batch {
  return { buffer: new ArrayBuffer(8), length: 3, rows };
}

async function openLease(t: Test): Promise<{ lease: Lease; connection: FakeConnection; largeRows: FakeLargeRows }> {
  const workers = new FakeWorkers();
  const largeRows = new FakeLargeRows();
  const lease = await Lease.open(workers.connect(), anna, largeRows, 0);
  t.teardown(() => {
    lease.close();
    workers.close();
  });
  return { lease, connection: await workers.connection(0), largeRows };
}

t.test('a statement is sent with its number, its credits and whether to clean up after it', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'clean', observer);
  t.equal(lease.isRunning, true);
  t.strictSame(observer.reported, ['started']);
  const message = await connection.got(({ type }) => type === 'execute');
  t.strictSame(message, {
    type: 'execute',
    statement: 1,
    ...request,
    after: 'clean',
  });
});

t.test('columns, rows and the end are reported in that order, also if one message holds all', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'clean', observer);
  connection.post({
    type: 'update',
    statement: 1,
    columns: { number: 0, columns: [{ name: 'a', type: { name: 'Int32' }, nullable: false }] },
    batch: { buffer: new ArrayBuffer(8), length: 3, rows: 1 },
    end: { ok: true, outcome, rowsToCome: 0 },
  });
  await observer.hears('ended');
  t.strictSame(observer.reported, ['started', 'columns a', 'rows 1', 'ended']);
  t.equal(lease.isRunning, true, 'the connection is not ready before it says so');
  const idle = once(lease, 'idle');
  connection.post({ type: 'idle' });
  await idle;
  t.equal(lease.isRunning, false);
});

t.test('the end may say as well that the connection is ready, and then the observer hears it first', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  const order: string[] = [];
  observer.on('reported', () => order.push(`${observer.reported.at(-1)}, ${lease.isRunning ? 'running' : 'idle'}`));
  lease.on('idle', () => order.push('idle'));
  lease.run(request, 'clean', observer);
  const idle = once(lease, 'idle');
  connection.post({
    type: 'update',
    statement: 1,
    columns: { number: 0, columns: [{ name: 'a', type: { name: 'Int32' }, nullable: false }] },
    batch: { buffer: new ArrayBuffer(8), length: 3, rows: 1 },
    end: { ok: true, outcome, rowsToCome: 0 },
    idle: true,
  });
  await idle;
  t.strictSame(order, ['started, running', 'columns a, running', 'rows 1, running', 'ended, running', 'idle']);
  t.equal(lease.isRunning, false);
  const next = new Recorder();
  lease.run(request, 'clean', next);
  connection.post({
    type: 'update',
    statement: 2,
    end: { ok: false, failure: failureWith(1064) },
    idle: true,
  });
  await once(lease, 'idle');
  t.strictSame(next.reported, ['started', 'failed 1064']);
});

t.test('a listener of `idle` can run the next statement at once', async (t) => {
  const { lease, connection } = await openLease(t);
  const next = new Recorder();
  lease.once('idle', () => lease.run({ ...request, sql: 'SELECT 2' }, 'keep', next));
  lease.run(request, 'keep', new Recorder());
  connection.endAndIdle(1);
  await connection.gotExecute('SELECT 2');
  t.equal(lease.isRunning, true);
  connection.endAndIdle(2);
  await next.hears('ended');
});

t.test('a lease that is closed by its observer over the end does not become idle by the same message', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  let idles = 0;
  lease.on('idle', () => idles++);
  lease.run(request, 'keep', observer);
  observer.once('reported', () => lease.close());
  connection.endAndIdle(1);
  await observer.hears('ended');
  await connection.gone();
  t.equal(lease.isClosed, true);
  t.equal(idles, 0);
  t.throws(() => lease.run(request, 'keep', observer), /closed/);
});

for (const together of [true, false]) {
  const title = together ? 'in the message with its end' : 'after its end';
  t.test(`a cancelled statement leaves an idle connection, said ${title}`, async (t) => {
    const { lease, connection } = await openLease(t);
    const observer = new Recorder();
    const handle = lease.run(request, 'keep', observer);
    handle.cancel();
    const idle = once(lease, 'idle');
    if (together) {
      connection.endAndIdle(1);
    } else {
      connection.end(1);
      connection.post({ type: 'idle' });
    }
    await idle;
    t.strictSame(observer.reported, ['started']);
    t.equal(lease.isRunning, false);
  });
}

for (const idle of [{ idle: true }, {}] as const) {
  const title = 'idle' in idle ? 'with that it is idle' : 'alone';
  t.test(`an observer that cancels over its rows does not hear the end that came with them, ${title}`, async (t) => {
    const { lease, connection } = await openLease(t);
    const observer = new Recorder();
    const handle = lease.run(request, 'clean', observer);
    observer.once('reported', () => handle.cancel());
    const isIdle = once(lease, 'idle');
    connection.post({
      type: 'update',
      statement: 1,
      batch: { buffer: new ArrayBuffer(8), length: 3, rows: 1 },
      end: { ok: true, outcome, rowsToCome: 0 },
      ...idle,
    });
    if (!('idle' in idle)) connection.post({ type: 'idle' });
    await isIdle;
    t.strictSame(observer.reported, ['started', 'rows 1']);
    t.equal(lease.isRunning, false);
  });
}

t.test('late messages of an earlier statement do not reach the one that runs', async (t) => {
  const { lease, connection } = await openLease(t);
  const first = new Recorder();
  const firstHandle = lease.run(request, 'keep', first);
  connection.endAndIdle(1);
  await once(lease, 'idle');
  const second = new Recorder();
  lease.run({ ...request, sql: 'SELECT 2' }, 'keep', second);
  connection.post({ type: 'update', statement: 1, batch: { buffer: new ArrayBuffer(8), length: 3, rows: 1 } });
  connection.post({ type: 'examined', statement: 1, rows: 77, estimatedRows: null });
  connection.post({ type: 'update', statement: 1, end: { ok: false, failure: failureWith(1) } });
  connection.post({ type: 'examined', statement: 2, rows: 5, estimatedRows: null });
  await second.hears('examined 5');
  t.strictSame(second.reported, ['started', 'examined 5']);
  t.strictSame(first.reported, ['started', 'ended']);

  firstHandle.credit(1, 1);
  firstHandle.askExamined();
  firstHandle.cancel();
  connection.endAndIdle(2);
  await once(lease, 'idle');
  lease.run({ ...request, sql: 'SELECT 3' }, 'keep', new Recorder());
  await connection.gotExecute('SELECT 3');
  t.strictSame(
    connection.received.map(({ type }) => type),
    ['execute', 'execute', 'execute'],
    'the handle of a statement that has ended says nothing to the worker',
  );
});

t.test(
  'a cancelled statement tells its observer nothing more, and the lease is busy until the worker is',
  async (t) => {
    const { lease, connection } = await openLease(t);
    const observer = new Recorder();
    const handle = lease.run(request, 'keep', observer);
    handle.cancel();
    handle.cancel();
    handle.credit(5, 5);
    await connection.got(({ type }) => type === 'cancel');
    t.equal(lease.isRunning, true);
    t.throws(() => lease.run(request, 'keep', new Recorder()), /running/);
    connection.end(1);
    const idle = once(lease, 'idle');
    connection.post({ type: 'idle' });
    await idle;
    t.strictSame(observer.reported, ['started']);
    t.strictSame(
      connection.received.map(({ type }) => type),
      ['execute', 'cancel'],
      'one cancel, and no credit after it',
    );
    lease.run(request, 'keep', new Recorder());
    await connection.got((message) => message.type === 'execute' && message.statement === 2);
  },
);

t.test('a cancel and an end that cross on their way do no harm', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  const handle = lease.run(request, 'keep', observer);
  const idle = once(lease, 'idle');
  connection.endAndIdle(1);
  handle.cancel();
  await idle;
  t.strictSame(observer.reported, ['started']);
  const next = new Recorder();
  lease.run(request, 'keep', next);
  connection.end(2);
  await next.hears('ended');
  const cancel = await connection.got(({ type }) => type === 'cancel');
  t.match(cancel, { statement: 1 }, 'by its number the worker can tell that it is too late');
});

t.test('a connection that is lost fails its statement with 90006', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'keep', observer);
  const lost = once(lease, 'lost');
  connection.lose('the cable was cut');
  t.strictSame(await lost, ['the cable was cut']);
  t.strictSame(observer.reported, ['started', 'failed 90006']);
  t.match(observer.failure?.message, /the cable was cut/);
  t.equal(lease.isClosed, true);
});

t.test('a statement that crossed with the loss of its connection is reported as not begun', async (t) => {
  for (const [taken, expected] of [
    [1, 'not begun'],
    [2, 'failed 90006'],
  ] as const) {
    const { lease, connection } = await openLease(t);
    lease.run(request, 'keep', new Recorder());
    connection.endAndIdle(1);
    await once(lease, 'idle');
    const heard: string[] = [];
    const observer = new Recorder();
    observer.on('reported', () => heard.push(observer.reported.at(-1) ?? ''));
    const lost = once(lease, 'lost');
    lease.run(
      request,
      'keep',
      Object.assign(observer, { notSent: (reason: string) => heard.push('not begun', reason) }),
    );
    connection.lose('the cable was cut', taken);
    await lost;
    t.strictSame(heard, expected === 'not begun' ? ['started', expected, 'the cable was cut'] : ['started', expected]);
  }
});

t.test('B1: `released` is called once when the connection no longer holds the text of a statement', async (t) => {
  const { lease, connection } = await openLease(t);
  const ended = new Recorder();
  lease.run(request, 'keep', ended);
  t.equal(ended.releases, 0);
  connection.endAndIdle(1);
  await once(lease, 'idle');
  t.equal(ended.releases, 1, 'when it is idle');

  const cancelled = new Recorder();
  lease.run(request, 'keep', cancelled).cancel();
  t.equal(cancelled.releases, 0, 'not when it is cancelled, as the worker has it yet');
  connection.endAndIdle(2);
  await once(lease, 'idle');
  t.equal(cancelled.releases, 1, 'but when its kill is over');

  const lost = new Recorder();
  lease.run(request, 'keep', lost);
  connection.lose('the cable was cut', 3);
  await once(lease, 'lost');
  t.equal(lost.releases, 1, 'when the connection is lost');
  lease.close();
  t.strictSame([ended.releases, cancelled.releases, lost.releases], [1, 1, 1]);

  const other = await openLease(t);
  const closed = new Recorder();
  other.lease.run(request, 'keep', closed);
  other.lease.close();
  t.equal(closed.releases, 1, 'when the connection is closed under it');
});

t.test('of a statement whose thread died it is not said that it has not begun', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'keep', Object.assign(observer, { notSent: () => t.fail('nobody knows') }));
  connection.die();
  await observer.hears('failed 90006');
});

t.test('a failure that the worker has reported is not followed by another when the connection is lost', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'keep', observer);
  const lost = once(lease, 'lost');
  connection.post({
    type: 'update',
    statement: 1,
    end: { ok: false, failure: failureWith(1317) },
  });
  connection.lose('killed');
  await lost;
  t.strictSame(observer.reported, ['started', 'failed 1317']);
});

t.test('a thread that dies without a word fails the statements of its leases', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'keep', observer);
  const lost = once(lease, 'lost');
  connection.die();
  await lost;
  t.strictSame(observer.reported, ['started', 'failed 90006']);
});

t.test('a refused login rejects with the refusal', async (t) => {
  const workers = new FakeWorkers();
  t.teardown(() => workers.close());
  const refusal = { kind: 'denied' as const, failure: { code: 1045, sqlstate: '28000', message: 'no' } };
  workers.refusalFor = () => refusal;
  const error = await Lease.open(workers.connect(), anna, new FakeLargeRows(), 0).catch((error: unknown) => error);
  t.ok(error instanceof OpenRefusedError);
  t.strictSame((error as OpenRefusedError).refusal, refusal);
});

t.test('a thread that dies while the connection is opened rejects as unavailable', async (t) => {
  const workers = new FakeWorkers();
  workers.refusalFor = () => 'later';
  const opening = Lease.open(workers.connect(), anna, new FakeLargeRows(), 0);
  (await workers.connection(0)).die();
  await t.rejects(opening, { name: 'OpenRefusedError', message: 'its worker thread ended' });
});

t.test('columns that were reported before come by their number', async (t) => {
  const { lease, connection } = await openLease(t);
  const named = (name: string) => [{ name, type: { name: 'Int32' as const }, nullable: false }];
  const reported: string[][] = [];
  for (const [statement, columns] of [
    { number: 0, columns: named('a') },
    { number: 1, columns: named('b') },
    { number: 0 },
    { number: 1 },
    { number: 0, columns: named('c') },
    { number: 0 },
  ].entries()) {
    const observer = new Recorder();
    lease.run(request, 'keep', observer);
    connection.post({ type: 'update', statement: statement + 1, columns });
    connection.endAndIdle(statement + 1);
    await observer.hears('ended');
    reported.push(observer.reported);
  }
  t.strictSame(
    reported.map(([, columns]) => columns),
    ['a', 'b', 'a', 'b', 'c', 'c'].map((name) => `columns ${name}`),
  );
});

t.test('B1: columns that are too large to be remembered come without a number', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'keep', observer);
  const columns = [{ name: 'a', type: { name: 'Int32' as const }, nullable: false }];
  connection.post({ type: 'update', statement: 1, columns: { columns } });
  await observer.hears('columns a');
});

t.test('columns of a statement that nobody listens to any more are known to the next', async (t) => {
  const { lease, connection } = await openLease(t);
  lease.run(request, 'keep', new Recorder()).cancel();
  const columns = [{ name: 'a', type: { name: 'Int32' as const }, nullable: false }];
  connection.post({ type: 'update', statement: 1, columns: { number: 0, columns } });
  const idle = once(lease, 'idle');
  connection.post({ type: 'idle' });
  await idle;
  const observer = new Recorder();
  lease.run(request, 'keep', observer);
  connection.post({ type: 'update', statement: 2, columns: { number: 0 } });
  await observer.hears('columns a');
});

t.test('a closed lease stays closed, whatever was on its way to it', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, 'keep', observer);
  let emitted = 0;
  lease.on('idle', () => emitted++).on('lost', () => emitted++);
  connection.endAndIdle(1);
  connection.lose('too late');
  lease.close();
  lease.close();
  await connection.gone();
  // Messages that had arrived are delivered in the following turns.
  await turns();
  t.equal(lease.isClosed, true);
  t.equal(lease.isRunning, false);
  t.equal(emitted, 0);
  t.strictSame(observer.reported, ['started']);
  t.throws(() => lease.run(request, 'keep', observer), /closed/);
});

t.test('rows that follow an end are reported after it, and the next statement runs meanwhile', async (t) => {
  const { lease, connection } = await openLease(t);
  const [first, second] = [new Recorder(), new Recorder()];
  const handle = lease.run(request, 'keep', first);
  connection.post({ type: 'update', statement: 1, spilled: { rows: 5, bytes: 50 } });
  connection.endAndIdle(1, 5);
  await once(lease, 'idle');
  lease.run({ ...request, sql: 'SELECT 2' }, 'keep', second);
  handle.credit(7, 3);
  t.match(await connection.got(({ type }) => type === 'credit'), { statement: 1, bytes: 7, rows: 3 });
  connection.post({ type: 'update', statement: 1, batch: batchOf(2), fromDisk: true });
  connection.post({ type: 'update', statement: 2, batch: batchOf(1) });
  connection.post({ type: 'update', statement: 1, batch: batchOf(3) });
  connection.endAndIdle(2);
  await once(lease, 'idle');
  t.strictSame(first.reported, ['started', 'spilled 5, 50 bytes', 'ended, 5 to come', 'spilled rows 2', 'rows 3']);
  t.strictSame(second.reported, ['started', 'rows 1', 'ended']);
  handle.credit(1, 1);
  handle.cancel();
  lease.run({ ...request, sql: 'SELECT 3' }, 'keep', new Recorder());
  await connection.gotExecute('SELECT 3');
  t.equal(connection.received.filter(({ type }) => type === 'credit' || type === 'cancel').length, 1, 'all has come');
});

t.test('rows that are to come can be cancelled, and lost, each without the others', async (t) => {
  const { lease, connection } = await openLease(t);
  const observers = [new Recorder(), new Recorder(), new Recorder()] as const;
  const handles = [];
  for (const [index, observer] of observers.entries()) {
    handles.push(lease.run(request, 'keep', observer));
    connection.endAndIdle(index + 1, 4);
    await once(lease, 'idle');
  }
  handles[0]?.cancel();
  handles[0]?.cancel();
  t.match(await connection.got(({ type }) => type === 'cancel'), { statement: 1 });
  connection.post({ type: 'update', statement: 1, batch: batchOf(4), fromDisk: true });
  connection.post({ type: 'update', statement: 2, end: { ok: false, failure: failureWith(90010) } });
  connection.post({ type: 'update', statement: 2, batch: batchOf(4), fromDisk: true });
  connection.post({ type: 'update', statement: 3, batch: batchOf(4), fromDisk: true });
  await observers[2].hears('spilled rows 4');
  t.strictSame(observers[0].reported, ['started', 'ended, 4 to come']);
  t.strictSame(observers[1].reported, ['started', 'ended, 4 to come', 'failed 90010']);
  t.equal(connection.received.filter(({ type }) => type === 'cancel').length, 1);
  t.equal(lease.isClosed, false);
});

t.test('a lease that is closed while rows are to come lets the connection go, and hands them over', async (t) => {
  const { lease, connection } = await openLease(t);
  const [trailing, running] = [new Recorder(), new Recorder()];
  const handle = lease.run(request, 'keep', trailing);
  connection.endAndIdle(1, 3);
  await once(lease, 'idle');
  lease.run(request, 'keep', running);
  lease.close();
  lease.close();
  await connection.got(({ type }) => type === 'close');
  t.equal(connection.closed, false, 'the worker closes it when they are handed over');
  handle.credit(5, 5);
  await connection.got(({ type }) => type === 'credit');
  connection.post({ type: 'update', statement: 2, end: { ok: false, failure: failureWith(1317) } });
  connection.post({ type: 'update', statement: 1, batch: batchOf(3), fromDisk: true });
  await trailing.hears('spilled rows 3');
  t.strictSame(trailing.reported, ['started', 'ended, 3 to come', 'spilled rows 3']);
  t.strictSame(running.reported, ['started'], 'of the running statement nothing is reported');
  t.equal(connection.received.filter(({ type }) => type === 'close').length, 1);
  t.throws(() => lease.run(request, 'keep', running), /closed/);
});

t.test('rows that are to come outlast the connection', async (t) => {
  const { lease, connection } = await openLease(t);
  const [trailing, running] = [new Recorder(), new Recorder()];
  const handle = lease.run(request, 'keep', trailing);
  connection.endAndIdle(1, 3);
  await once(lease, 'idle');
  lease.run(request, 'keep', running);
  const lost = once(lease, 'lost');
  connection.post({ type: 'lost', reason: 'the cable was cut', received: 2, hasRowsToCome: false, mayRunOn: true });
  await lost;
  t.strictSame(running.reported, ['started', 'failed 90006']);
  t.strictSame(trailing.reported, ['started', 'ended, 3 to come']);
  lease.close();
  handle.credit(5, 5);
  t.match(await connection.got(({ type }) => type === 'credit'), { statement: 1 });
  connection.post({ type: 'update', statement: 1, batch: batchOf(3), fromDisk: true });
  await trailing.hears('spilled rows 3');
});

t.test('a thread that dies takes the rows on disk with it, and that is reported', async (t) => {
  for (const [sql, outcomeTold] of [
    ['SELECT 1', 'rolled_back'],
    ['INSERT INTO t VALUES (1) RETURNING a', 'committed'],
  ] as const) {
    const { lease, connection } = await openLease(t);
    const [trailing, read, running] = [new Recorder(), new Recorder(), new Recorder()];
    lease.run({ ...request, sql }, 'keep', trailing);
    connection.endAndIdle(1, 3);
    await once(lease, 'idle');
    lease.run(request, 'keep', read);
    connection.endAndIdle(2, 1);
    connection.post({ type: 'update', statement: 2, batch: batchOf(1), fromDisk: true });
    await read.hears('spilled rows 1');
    lease.run({ ...request, sql: 'DELETE FROM t' }, 'keep', running);
    const lost = once(lease, 'lost');
    connection.die();
    await lost;
    await trailing.hears('failed 90010');
    t.match(trailing.failure, { outcome: outcomeTold });
    t.match(running.failure, { code: 90006, outcome: 'unknown' });
    t.strictSame(read.reported, ['started', 'ended, 1 to come', 'spilled rows 1'], 'what has come is not lost');
    t.equal(lease.isClosed, true);
  }
});

t.test(
  'a statement that has ended as its connection is lost comes to its end, if rows of it are on disk',
  async (t) => {
    const { lease, connection } = await openLease(t);
    const observer = new Recorder();
    lease.run(request, 'keep', observer);
    const lost = once(lease, 'lost');
    connection.post({ type: 'lost', reason: 'the cable was cut', received: 1, hasRowsToCome: true, mayRunOn: true });
    await lost;
    t.strictSame(observer.reported, ['started'], 'it has not failed');
    const outcome = { affectedRows: '0', lastInsertId: null, warnings: 0 };
    connection.post({ type: 'update', statement: 1, end: { ok: true, outcome, rowsToCome: 2 } });
    await observer.hears('ended, 2 to come');
    connection.die();
    await observer.hears('failed 90010');
  },
);

t.test('a lease knows whether its session is pinned, and so whether a statement is alone', async (t) => {
  const { lease, connection } = await openLease(t);
  const state = { schema: null, variables: {}, inTransaction: true, isPinned: true, isChanged: true };
  t.equal(lease.isPinned, false);
  const observer = new Recorder();
  lease.run(request, 'pin', observer);
  const end = { ok: true, outcome, rowsToCome: 0 } as const;
  connection.post({ type: 'update', statement: 1, end, session: state, idle: true });
  await once(lease, 'idle');
  t.strictSame(observer.reported, ['started', `left ${JSON.stringify(state)}`, 'ended']);
  t.equal(lease.isPinned, true);
  lease.run(request, 'pin', new Recorder()).cancel();
  connection.post({ type: 'idle', session: { ...state, isPinned: false } });
  await once(lease, 'idle');
  t.equal(lease.isPinned, false, 'it is known of a statement that was cancelled too');
  lease.run(request, 'pin', new Recorder());
  connection.post({ type: 'update', statement: 3, end, session: state, idle: true });
  await once(lease, 'idle');
  lease.run(request, 'clean', new Recorder());
  t.equal(lease.isPinned, false, 'a clean statement ends the state of the session');
});

for (const isPinned of [false, true]) {
  t.test(`a read on a session that is ${isPinned ? '' : 'not '}held, and is lost`, async (t) => {
    const { lease, connection } = await openLease(t);
    lease.run(request, 'pin', new Recorder());
    const session = { schema: null, variables: {}, inTransaction: isPinned, isPinned, isChanged: isPinned };
    connection.post({ type: 'update', statement: 1, end: { ok: true, outcome, rowsToCome: 0 }, session, idle: true });
    await once(lease, 'idle');
    const observer = new Recorder();
    lease.run({ ...request, sql: 'SELECT 1' }, 'pin', observer);
    await connection.gotExecute('SELECT 1');
    connection.lose('it broke');
    await observer.hears('failed 90006');
    t.match(observer.failure, { code: 90_006, outcome: 'rolled_back', retryable: !isPinned });
  });
}

t.test('memory for a large row is reserved for the user, and the worker hears when it may read the row', async (t) => {
  const { lease, connection, largeRows } = await openLease(t);
  lease.run(request, 'clean', new Recorder());
  await connection.got(({ type }) => type === 'execute');
  connection.post({ type: 'large_row', statement: 1, bytes: 5_000_000 });
  connection.post({ type: 'large_row', statement: 2, bytes: 6_000_000 });
  await until(() => largeRows.reserved.length === 2);
  t.match(largeRows.reserved, [
    { user: anna.user, bytes: 5_000_000 },
    { user: anna.user, bytes: 6_000_000 },
  ]);
  t.notOk(connection.received.some(({ type }) => type === 'room'));
  largeRows.reserved[1]?.granted();
  t.strictSame(await connection.got(({ type }) => type === 'room'), { type: 'room', statement: 2 });
  connection.post({ type: 'large_row', statement: 2, bytes: 0 });
  await until(() => largeRows.released > 0);
  t.equal(largeRows.released, 1, 'the other statement keeps its own');
});

t.test('what is reserved for large rows is given back when the thread dies or the lease is closed', async (t) => {
  for (const end of ['dies', 'closed'] as const) {
    const { lease, connection, largeRows } = await openLease(t);
    lease.run(request, 'clean', new Recorder());
    await connection.got(({ type }) => type === 'execute');
    connection.post({ type: 'large_row', statement: 1, bytes: 5_000_000 });
    await until(() => largeRows.reserved.length === 1);
    if (end === 'dies') connection.die();
    else lease.close();
    await until(() => largeRows.released > 0);
    t.equal(largeRows.released, 1, end);
  }
});
