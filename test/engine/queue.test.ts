import t, { type Test } from 'tap';
import { Queue, type QueueOptions, type Waiter } from '#src/engine/queue.js';
import { forever } from '../query/make-query.ts';
import { installFakeClock } from '../support/fake-clock.ts';
import { pick, seeded } from '../support/random.ts';

/** A queue, what there is for those in it, and what becomes of them. */
class Stage {
  readonly queue: Queue;
  /** Statements for which there is memory yet. */
  room = 0;
  readonly events: string[] = [];
  /** Asked of each that could begin. */
  mayStart: (name: string) => boolean = () => true;
  /** Called in the midst of each beginning. */
  onStart: (name: string) => void = () => {};

  constructor(t: Test, options: Partial<QueueOptions> = {}) {
    this.queue = new Queue({ queueMax: 1_000, queueWaitMs: forever, ...options }, () => this.room > 0);
    t.teardown(() => this.queue.close());
  }

  /** @param name begins with its user's, in one letter; it ends with an s if the statement is of a session that has a connection */
  add(name: string): Waiter {
    const waiter: Waiter = {
      user: name.slice(0, 1),
      needsConnection: !name.endsWith('s'),
      start: () => {
        if (!this.mayStart(name)) return false;
        this.room--;
        this.events.push(name);
        this.onStart(name);
        return true;
      },
      giveUp: () => this.events.push(`${name} gives up`),
    };
    this.queue.add(waiter);
    return waiter;
  }

  /** Makes room for so many, and tells who has begun. */
  advance(room: number): string[] {
    const before = this.events.length;
    this.room = room;
    this.queue.advance();
    return this.events.slice(before);
  }
}

t.test('statements of one user begin in the order of their arrival', async (t) => {
  const stage = new Stage(t);
  for (const name of ['a1', 'a2', 'a3', 'a4']) stage.add(name);
  t.equal(stage.queue.size, 4);
  t.strictSame(stage.advance(1), ['a1']);
  t.strictSame(stage.advance(2), ['a2', 'a3']);
  t.strictSame(stage.advance(5), ['a4']);
  t.equal(stage.queue.size, 0);
  t.strictSame(stage.advance(5), []);
});

t.test('users have turns, however many of one wait', async (t) => {
  const stage = new Stage(t);
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'c2']) stage.add(name);
  t.strictSame(stage.advance(4), ['a1', 'b1', 'c1', 'a2']);
  stage.add('b2');
  t.strictSame(stage.advance(9), ['c2', 'a3', 'b2', 'a4']);
});

t.test('without memory none begins', async (t) => {
  const stage = new Stage(t);
  stage.add('a1');
  t.strictSame(stage.advance(0), []);
  t.equal(stage.queue.size, 1);
});

t.test('one that waits for a connection holds up none that needs no other', async (t) => {
  const stage = new Stage(t);
  for (const name of ['a1', 'a2s', 'b1', 'c1']) stage.add(name);
  stage.mayStart = (name) => name !== 'a1' && name !== 'b1';
  t.strictSame(stage.advance(9), ['a2s', 'c1'], 'of the same user or of another');
  stage.mayStart = () => true;
  t.strictSame(stage.advance(9), ['b1', 'a1'], 'whose turn was passed over comes before one who had it');
});

t.test('B3: of the statements of a user who gets no connection, one is tried', async (t) => {
  const stage = new Stage(t);
  for (let number = 0; number < 100; number++) stage.add(`a${number}`);
  for (const name of ['a0s', 'b1']) stage.add(name);
  const tried: string[] = [];
  stage.mayStart = (name) => {
    tried.push(name);
    return !name.startsWith('a') || name.endsWith('s');
  };
  t.strictSame(stage.advance(9), ['a0s', 'b1']);
  t.ok(tried.length < 10, tried.join());
  t.equal(stage.queue.hasWaiting('a'), true);
  t.equal(stage.queue.hasWaiting('b'), false);
});

t.test('B4: one that is put back is the next of its user, and has waited as long as before', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { queueWaitMs: 60_000 });
  const [a1] = ['a1', 'a2', 'b1'].map((name) => stage.add(name)) as [Waiter];
  t.strictSame(stage.advance(1), ['a1']);
  stage.queue.putBack(a1, 10);
  t.equal(stage.queue.size, 3);
  t.strictSame(stage.advance(3), ['b1', 'a1', 'a2']);
  stage.queue.putBack(a1, 59_990);
  clock.tick(9);
  t.equal(stage.queue.size, 1);
  clock.tick(1);
  t.equal(stage.events.at(-1), 'a1 gives up');
  t.equal(stage.queue.size, 0);
});

t.test('a place is left by who gives it up, and by who is removed', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { queueWaitMs: 40 });
  stage.add('a1');
  const a2 = stage.add('a2');
  t.equal(stage.queue.remove(a2), true);
  t.equal(stage.queue.remove(a2), false);
  t.equal(stage.queue.position(a2), 0);
  t.equal(stage.queue.size, 1);
  clock.tick(39);
  t.strictSame(stage.events, []);
  clock.tick(1);
  t.strictSame(stage.events, ['a1 gives up']);
  t.equal(stage.queue.size, 0);
  clock.tick(60);
  t.strictSame(stage.events, ['a1 gives up'], 'once, and nobody who was removed');
  t.strictSame(stage.advance(5), []);
});

t.test('who has begun does not give up afterwards', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { queueWaitMs: 20 });
  stage.add('a1');
  stage.advance(1);
  clock.tick(50);
  t.strictSame(stage.events, ['a1']);
});

t.test('the queue is full with as many as may wait', async (t) => {
  const stage = new Stage(t, { queueMax: 2 });
  stage.add('a1');
  t.equal(stage.queue.admit('a'), 'admitted');
  const b1 = stage.add('b1');
  t.equal(stage.queue.admit('a'), 'queue full');
  stage.queue.remove(b1);
  t.equal(stage.queue.admit('a'), 'admitted');
  const none = new Queue({ queueMax: 0, queueWaitMs: 1 }, () => true);
  t.equal(none.admit('a'), 'queue full', 'of none there is always one too many');
});

t.test('B (attack): users who wait with all that they may leave places for the next', async (t) => {
  const stage = new Stage(t, { queueMax: 1_024 });
  const taken = [...'abcd'].map((user) => {
    let count = 0;
    for (; stage.queue.admit(user) === 'admitted'; count++) stage.add(`${user}${count}`);
    return count;
  });
  t.strictSame(taken, [768, 192, 48, 12]);
  t.equal(stage.queue.admit('a'), 'user has too many');
  t.equal(stage.queue.admit('e'), 'admitted');
});

t.test('what makes room while one begins is used after it, in turn', async (t) => {
  const stage = new Stage(t);
  for (const name of ['a1', 'a2', 'b1']) stage.add(name);
  let depth = 0;
  stage.onStart = (name) => {
    depth++;
    if (depth > 1) t.fail('one begins within another');
    stage.room++;
    stage.queue.advance();
    if (name === 'a1') stage.add('c1');
    depth--;
  };
  t.strictSame(stage.advance(1), ['a1', 'b1', 'c1', 'a2']);
  t.equal(stage.queue.size, 0);
});

t.test('one that is removed by its own beginning, or by that of another, is no harm', async (t) => {
  const stage = new Stage(t);
  const waiters = new Map(['a1', 'a2', 'a3', 'b1', 'c1'].map((name) => [name, stage.add(name)]));
  stage.onStart = (name) => {
    if (name === 'a1') for (const other of ['a1', 'a2', 'b1']) stage.queue.remove(waiters.get(other) as Waiter);
  };
  t.strictSame(stage.advance(9), ['a1', 'c1', 'a3']);
  t.equal(stage.queue.size, 0);
});

t.test('one whose beginning throws does not stop the queue for good', async (t) => {
  const stage = new Stage(t);
  const a1 = stage.add('a1');
  stage.add('b1');
  stage.onStart = (name) => {
    if (name === 'a1') throw new Error('a defect');
  };
  t.throws(() => stage.advance(9), /a defect/);
  stage.queue.remove(a1);
  t.strictSame(stage.advance(9), ['b1']);
});

t.test('a closed queue has nobody in it, and nobody gives up', async (t) => {
  const clock = installFakeClock(t);
  const stage = new Stage(t, { queueWaitMs: 10 });
  stage.add('a1');
  stage.queue.close();
  t.equal(stage.queue.size, 0);
  t.strictSame(stage.advance(5), []);
  clock.tick(30);
  t.strictSame(stage.events, []);
});

t.test('a position is the number of turns until its own', async (t) => {
  const random = seeded(t);
  for (let run = 0; run < 200; run++) {
    const stage = new Stage(t);
    const waiting = new Map<string, Waiter>();
    const add = (step: number): void => {
      const name = `${pick(random, [...'abcde'])}${step}`;
      waiting.set(name, stage.add(name));
    };
    // Some come, some begin and some are gone, so that turns are at any user's.
    for (let step = 0; step < random(60); step++) {
      if (random(3) > 0) add(step);
      else if (random(2) === 0) for (const name of stage.advance(1)) waiting.delete(name);
      else {
        const [name] = [...waiting.keys()].slice(random(waiting.size + 1));
        if (name === undefined) continue;
        stage.queue.remove(waiting.get(name) as Waiter);
        waiting.delete(name);
      }
    }
    const positions = [...waiting].map(([name, waiter]) => [stage.queue.position(waiter), name] as const);
    const expected = positions.sort(([one], [other]) => one - other).map(([, name]) => name);
    const numbers = positions.map(([position]) => position);
    if (numbers.some((position, index) => position !== index + 1)) {
      t.fail(`run ${run}: the positions are ${numbers.join()}`);
      return;
    }
    const order = stage.advance(1_000);
    if (order.join() !== expected.join()) {
      t.equal(order.join(), expected.join(), `run ${run}`);
      return;
    }
  }
  t.pass('200 queues');
});

t.test('turns are those of a simple model, also when some cannot begin', async (t) => {
  const random = seeded(t);
  for (let run = 0; run < 200; run++) {
    const stage = new Stage(t);
    /** Users in turn, each with those who wait. */
    const model: { user: string; names: string[] }[] = [];
    for (let step = 0; step < 80; step++) {
      if (random(3) > 0) {
        const name = `${pick(random, [...'abcd'])}${step}${pick(random, ['', 's'])}`;
        stage.add(name);
        const entry = model.find(({ user }) => user === name[0]);
        if (entry === undefined) model.push({ user: name.slice(0, 1), names: [name] });
        else entry.names.push(name);
        continue;
      }
      const blocked = pick(random, [...'abcd']);
      stage.mayStart = (name) => name.endsWith('s') || !name.startsWith(blocked);
      const room = random(4);
      const expected: string[] = [];
      while (expected.length < room) {
        const entry = model.find(({ names }) => names.some(stage.mayStart));
        if (entry === undefined) break;
        const [name] = entry.names.splice(entry.names.findIndex(stage.mayStart), 1);
        expected.push(name as string);
        model.splice(model.indexOf(entry), 1);
        if (entry.names.length > 0) model.push(entry);
      }
      const order = stage.advance(room);
      if (order.join() !== expected.join()) {
        t.equal(order.join(), expected.join(), `run ${run}, step ${step}`);
        return;
      }
    }
  }
  t.pass('200 queues');
});
