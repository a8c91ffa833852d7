import { once } from 'node:events';
import { MessageChannel, Worker } from 'node:worker_threads';
import t from 'tap';
import { type Channel, Link } from '#src/wire/link.js';
import { until } from '../support/until.ts';

type Text = Channel<string, string>;

/** Both ends of a link, and the channels that the second has accepted. */
function pair(): { near: Link<string, string>; far: Link<string, string>; accepted: Text[] } {
  const { port1, port2 } = new MessageChannel();
  const accepted: Text[] = [];
  const far = new Link<string, string>(port2, (channel) => accepted.push(channel));
  return { near: new Link(port1), far, accepted };
}

function heardBy(channel: Text): string[] {
  const heard: string[] = [];
  channel.on('message', (message) => heard.push(message));
  channel.on('close', () => heard.push('(closed)'));
  return heard;
}

t.test('channels keep their messages apart and in order, both ways', async (t) => {
  const { near, far, accepted } = pair();
  const channels = [near.open(), near.open(), near.open()];
  t.equal(near.size, 3);
  for (const channel of channels) channel.post('hello');
  await until(() => accepted.length === 3);
  t.equal(far.size, 3);
  const heardFar = accepted.map(heardBy);
  const heardNear = channels.map(heardBy);
  for (let message = 0; message < 100; message++) {
    channels[message % 3]?.post(`to ${message}`);
    accepted[message % 3]?.post(`from ${message}`);
  }
  const those = (word: string, rest: number): string[] =>
    Array.from({ length: 100 }, (_, message) => message)
      .filter((message) => message % 3 === rest)
      .map((message) => `${word} ${message}`);
  await until(() => heardNear.flat().length === 100 && heardFar.flat().length === 100);
  for (const rest of [0, 1, 2]) {
    t.strictSame(heardFar[rest], those('to', rest));
    t.strictSame(heardNear[rest], those('from', rest));
  }
  near.close();
});

t.test('what is posted in one turn of the event loop crosses in one message', async (t) => {
  const { port1, port2 } = new MessageChannel();
  const near = new Link<string, string>(port1);
  let parcels = 0;
  port2.on('message', () => parcels++);
  const channels = Array.from({ length: 10 }, () => near.open());
  for (let turn = 0; turn < 3; turn++) {
    for (const channel of channels) for (const word of ['a', 'b']) channel.post(word);
    const before = parcels;
    await until(() => parcels > before);
  }
  t.equal(parcels, 3);
  near.close();
});

t.test('memory is handed over with its message', async (t) => {
  const { port1, port2 } = new MessageChannel();
  const near = new Link<ArrayBuffer, string>(port1);
  const heard: ArrayBuffer[] = [];
  new Link<string, ArrayBuffer>(port2, (channel) => channel.on('message', (buffer) => heard.push(buffer)));
  const channel = near.open();
  const given = Uint8Array.of(1, 2, 3).buffer;
  const copied = Uint8Array.of(4, 5).buffer;
  channel.post(given, given);
  channel.post(copied);
  await until(() => heard.length === 2);
  t.strictSame(
    heard.map((buffer) => [...new Uint8Array(buffer)]),
    [
      [1, 2, 3],
      [4, 5],
    ],
  );
  t.equal(given.byteLength, 0, 'it is no longer ours');
  t.equal(copied.byteLength, 2);
  near.close();
});

t.test('a channel that is closed by either side hears nothing more, and the others go on', async (t) => {
  const { near, far, accepted } = pair();
  const [first, second] = [near.open(), near.open()];
  first.post('hello');
  second.post('hello');
  await until(() => accepted.length === 2);
  const [farFirst, farSecond] = accepted as [Text, Text];
  const heard = { first: heardBy(first), farFirst: heardBy(farFirst), farSecond: heardBy(farSecond) };
  first.post('last');
  first.close();
  first.post('too late');
  first.close();
  farFirst.post('crosses with the end');
  second.post('and on');
  await until(() => heard.farSecond.length > 0);
  t.strictSame(heard, { first: ['(closed)'], farFirst: ['last', '(closed)'], farSecond: ['and on'] });
  t.strictSame([near.size, far.size], [1, 1]);
  const heardSecond = heardBy(second);
  farSecond.post('bye');
  farSecond.close();
  await until(() => heardSecond.length === 2);
  t.strictSame(heardSecond, ['bye', '(closed)']);
  const third = near.open();
  third.post('a new one');
  await until(() => accepted.length === 3);
  t.equal(far.size, 1, 'a number is not used twice');
  near.close();
});

t.test('all channels close with the link, also when the thread behind it dies', async (t) => {
  const { near, accepted } = pair();
  const heard = [near.open(), near.open()].map((channel) => {
    channel.post('hello');
    return heardBy(channel);
  });
  await until(() => accepted.length === 2);
  const heardFar = accepted.map(heardBy);
  near.close();
  t.strictSame(heard, [['(closed)'], ['(closed)']]);
  await until(() => heardFar.flat().length === 2);

  const { port1, port2 } = new MessageChannel();
  const link = new Link<string, string>(port1);
  const channel = link.open();
  const heardLast = heardBy(channel);
  const code = "require('worker_threads').workerData.port.on('message', () => process.exit())";
  const worker = new Worker(code, { eval: true, workerData: { port: port2 }, transferList: [port2] });
  channel.post('die');
  await until(() => heardLast.length > 0);
  t.strictSame(heardLast, ['(closed)']);
  t.equal(link.size, 0);
  await worker.terminate();
});

t.test('a link may be left to somebody who knows why the thread behind it died', async (t) => {
  const { port1, port2 } = new MessageChannel();
  const link = new Link<string, string>(port1, null, false);
  const channel = link.open();
  const reasons: (string | undefined)[] = [];
  channel.on('close', (reason) => reasons.push(reason));
  const closed = once(port1, 'close');
  port2.close();
  await closed;
  t.strictSame(reasons, [], 'the channels wait for the reason');
  link.close('it threw');
  t.strictSame(reasons, ['it threw']);
});

t.test('a channel tells what is said of the thread behind it', (t) => {
  const { near } = pair();
  const channel = near.open();
  t.equal(channel.isAnswering, true);
  near.isAnswering = false;
  t.equal(channel.isAnswering, false);
  near.close();
  t.end();
});
