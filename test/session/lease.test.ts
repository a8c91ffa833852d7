import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { Lease, RefusedError } from '#src/session/lease.js';
import type { LeaseTask } from '#src/wire/messages.js';
import { type FakeConnection, FakeWorkers, outcome, Recorder, request } from './fake-workers.ts';

async function openLease(t: Test): Promise<{ lease: Lease; connection: FakeConnection }> {
  const workers = new FakeWorkers();
  const lease = await Lease.open((port) => workers.run(taskOf(port)));
  t.teardown(() => {
    lease.close();
    workers.close();
  });
  return { lease, connection: await workers.connection(0) };
}

function taskOf(port: MessagePort): LeaseTask & { port: MessagePort } {
  return {
    port,
    address: { socketPath: '/nowhere' },
    login: { user: 'anna', password: '', database: null },
    limits: { connectTimeoutMs: 1_000, killTimeoutMs: 1_000, rowBytesMax: 1_000 },
  };
}

t.test('a statement is sent with its number, its credits and whether to clean up after it', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, true, observer);
  t.equal(lease.isRunning, true);
  t.strictSame(observer.told, ['started']);
  const message = await connection.got(({ type }) => type === 'execute');
  t.strictSame(message, {
    type: 'execute',
    statement: 1,
    sql: 'SELECT 1',
    creditBytes: 1_000,
    creditRows: 10,
    clean: true,
  });
});

t.test('the observer is told of columns, rows and the end in that order, also if one message holds all', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, true, observer);
  connection.post({
    type: 'news',
    statement: 1,
    columns: [{ name: 'a', type: { name: 'Int32' }, nullable: false }],
    batch: { buffer: new ArrayBuffer(8), length: 3, rows: 1 },
    end: { ok: true, outcome: { affectedRows: '0', lastInsertId: null, warnings: 0 } },
  });
  await observer.hears('ended');
  t.strictSame(observer.told, ['started', 'columns a', 'rows 1', 'ended']);
  t.equal(lease.isRunning, true, 'the connection is not ready before it says so');
  const idle = once(lease, 'idle');
  connection.post({ type: 'idle' });
  await idle;
  t.equal(lease.isRunning, false);
});

t.test('an observer that cancels over its rows does not hear the end that came with them', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  const handle = lease.run(request, true, observer);
  observer.once('told', () => handle.cancel());
  connection.post({
    type: 'news',
    statement: 1,
    batch: { buffer: new ArrayBuffer(8), length: 3, rows: 1 },
    end: { ok: true, outcome },
  });
  const idle = once(lease, 'idle');
  connection.post({ type: 'idle' });
  await idle;
  t.strictSame(observer.told, ['started', 'rows 1']);
});

t.test('late messages of an earlier statement do not reach the one that runs', async (t) => {
  const { lease, connection } = await openLease(t);
  const first = new Recorder();
  const firstHandle = lease.run(request, false, first);
  connection.endAndIdle(1);
  await once(lease, 'idle');
  const second = new Recorder();
  lease.run({ ...request, sql: 'SELECT 2' }, false, second);
  connection.post({ type: 'news', statement: 1, batch: { buffer: new ArrayBuffer(8), length: 3, rows: 1 } });
  connection.post({ type: 'examined', statement: 1, rows: 77 });
  connection.post({ type: 'news', statement: 1, end: { ok: false, failure: { code: 1, sqlstate: '', message: '' } } });
  connection.post({ type: 'examined', statement: 2, rows: 5 });
  await second.hears('examined 5');
  t.strictSame(second.told, ['started', 'examined 5']);
  t.strictSame(first.told, ['started', 'ended']);

  firstHandle.credit(1, 1);
  firstHandle.askExamined();
  firstHandle.cancel();
  connection.endAndIdle(2);
  await once(lease, 'idle');
  lease.run({ ...request, sql: 'SELECT 3' }, false, new Recorder());
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
    const handle = lease.run(request, false, observer);
    handle.cancel();
    handle.cancel();
    handle.credit(5, 5);
    await connection.got(({ type }) => type === 'cancel');
    t.equal(lease.isRunning, true);
    t.throws(() => lease.run(request, false, new Recorder()), /running/);
    connection.end(1);
    const idle = once(lease, 'idle');
    connection.post({ type: 'idle' });
    await idle;
    t.strictSame(observer.told, ['started']);
    t.strictSame(
      connection.received.map(({ type }) => type),
      ['execute', 'cancel'],
      'one cancel, and no credit after it',
    );
    lease.run(request, false, new Recorder());
    await connection.got((message) => message.type === 'execute' && message.statement === 2);
  },
);

t.test('a cancel and an end that cross on their way do no harm', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  const handle = lease.run(request, false, observer);
  const idle = once(lease, 'idle');
  connection.endAndIdle(1);
  handle.cancel();
  await idle;
  t.strictSame(observer.told, ['started']);
  const next = new Recorder();
  lease.run(request, false, next);
  connection.end(2);
  await next.hears('ended');
  const cancel = await connection.got(({ type }) => type === 'cancel');
  t.match(cancel, { statement: 1 }, 'by its number the worker can tell that it is too late');
});

t.test('a connection that is lost fails its statement with 90006', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, false, observer);
  const lost = once(lease, 'lost');
  connection.lose('the cable was cut');
  t.strictSame(await lost, ['the cable was cut']);
  t.strictSame(observer.told, ['started', 'failed 90006']);
  t.match(observer.failure?.message, /the cable was cut/);
  t.equal(lease.isClosed, true);
});

t.test('a failure that the worker has told is not followed by another when the connection is lost', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, false, observer);
  const lost = once(lease, 'lost');
  connection.post({
    type: 'news',
    statement: 1,
    end: { ok: false, failure: { code: 1317, sqlstate: '', message: '' } },
  });
  connection.lose('killed');
  await lost;
  t.strictSame(observer.told, ['started', 'failed 1317']);
});

t.test('a thread that dies without a word fails the statements of its leases', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, false, observer);
  const lost = once(lease, 'lost');
  connection.die(new Error('out of memory'));
  await lost;
  t.strictSame(observer.told, ['started', 'failed 90006']);
});

t.test('a refused login rejects with the refusal', async (t) => {
  const workers = new FakeWorkers();
  const refusal = { kind: 'denied' as const, failure: { code: 1045, sqlstate: '28000', message: 'no' } };
  workers.refusalFor = () => refusal;
  const error = await Lease.open((port) => workers.run(taskOf(port))).catch((error: unknown) => error);
  t.ok(error instanceof RefusedError);
  t.strictSame((error as RefusedError).refusal, refusal);
});

t.test('a thread that dies while the connection is opened rejects as unavailable', async (t) => {
  const opening = Lease.open(() => Promise.reject(new Error('thread ended')));
  await t.rejects(opening, { name: 'RefusedError', message: 'thread ended' });
});

t.test('a closed lease stays closed, whatever was on its way to it', async (t) => {
  const { lease, connection } = await openLease(t);
  const observer = new Recorder();
  lease.run(request, false, observer);
  let emitted = 0;
  lease.on('idle', () => emitted++).on('lost', () => emitted++);
  connection.endAndIdle(1);
  connection.lose('too late');
  lease.close();
  lease.close();
  await connection.gone();
  // What had arrived is handed over in the turns that follow.
  for (let turns = 0; turns < 5; turns++) await turn();
  t.equal(lease.isClosed, true);
  t.equal(lease.isRunning, false);
  t.equal(emitted, 0);
  t.strictSame(observer.told, ['started']);
  t.throws(() => lease.run(request, false, observer), /closed/);
  t.equal(receiveMessageOnPort(connection.task.port), undefined);
});
