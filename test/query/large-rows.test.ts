import t from 'tap';
import { Buffers, MemoryReservation } from '#src/query/buffers.js';
import { LargeRows } from '#src/query/large-rows.js';
import type { LargeRowReservation } from '#src/wire/statement.js';
import { pick, seeded } from '../support/random.ts';

const MiB = 1024 * 1024;

/** Large rows in a budget of their own, and what has been granted, in order. */
class Stage {
  readonly buffers: Buffers;
  readonly rows: LargeRows;
  readonly granted: string[] = [];

  constructor(bytesMax = 64 * MiB) {
    this.buffers = new Buffers({
      bufferBytesMax: bytesMax,
      resultsBytesMax: 1024 * MiB,
      queryBufferBytesMax: 16 * MiB,
    });
    this.rows = new LargeRows(this.buffers);
    this.buffers.onRoom = () => this.rows.advance();
  }

  reserve(user: string, mib: number, name = user): LargeRowReservation {
    return this.rows.reserve(user, mib * MiB, () => this.granted.push(name));
  }
}

t.test('rows of one user have three quarters of the budget, and those beyond it wait in order', async (t) => {
  const stage = new Stage();
  const reservations = [1, 2, 3, 4, 5].map((number) => stage.reserve('a', 16, `a${number}`));
  t.strictSame(stage.granted, ['a1', 'a2', 'a3']);
  t.equal(stage.rows.waiting, 2);
  t.equal(stage.rows.reservedBytes, 48 * MiB);
  t.equal(stage.buffers.reservedBytes, 48 * MiB, 'they count in the budget for rows');
  stage.reserve('b', 8).release();
  t.strictSame(stage.granted, ['a1', 'a2', 'a3', 'b'], 'what is left is for others');
  reservations[1]?.release();
  t.equal(stage.granted.at(-1), 'a4');
  for (const reservation of reservations) reservation.release();
  t.strictSame([stage.rows.waiting, stage.rows.reservedBytes, stage.buffers.reservedBytes], [0, 0, 0]);
  t.equal(stage.granted.includes('a5'), true);
});

t.test('a row that is larger than the budget is granted when no other is reserved', async (t) => {
  const stage = new Stage(MiB);
  const [first, second] = [stage.reserve('a', 80, 'first'), stage.reserve('a', 2, 'second')];
  t.strictSame(stage.granted, ['first']);
  t.ok(stage.buffers.hasRoomFor('b'), 'it leaves room for the statements of others');
  first.release();
  t.strictSame(stage.granted, ['first', 'second']);
  second.release();
  t.equal(stage.buffers.reservedBytes, 0);
});

t.test('rows that are held by slow readers let one row at a time go on', async (t) => {
  const stage = new Stage();
  const held = new MemoryReservation(stage.buffers, 'a');
  held.set(100 * MiB, 100 * MiB);
  const first = stage.reserve('a', 2, 'first');
  const second = stage.reserve('a', 2, 'second');
  t.strictSame(stage.granted, ['first']);
  first.release();
  t.strictSame(stage.granted, ['first', 'second']);
  second.release();
});

t.test('users have their turns, and a row that does not fit is not overtaken by smaller ones of others', async (t) => {
  const stage = new Stage();
  const first = stage.reserve('a', 40, 'a1');
  const large = stage.reserve('b', 40, 'b');
  const second = stage.reserve('a', 2, 'a2');
  const third = stage.reserve('c', 2, 'c');
  t.strictSame(stage.granted, ['a1']);
  first.release();
  t.strictSame(stage.granted, ['a1', 'b', 'a2', 'c']);
  for (const reservation of [large, second, third]) reservation.release();
  t.equal(stage.buffers.reservedBytes, 0);
});

t.test('a row that gives up waiting is not granted, and those behind it go on', async (t) => {
  const stage = new Stage();
  const first = stage.reserve('a', 40, 'a1');
  const large = stage.reserve('b', 40, 'b');
  stage.reserve('c', 2, 'c');
  large.release();
  t.strictSame(stage.granted, ['a1', 'c']);
  first.release();
  first.release();
  t.equal(stage.rows.reservedBytes, 2 * MiB);
});

t.test('a row is granted as soon as other rows make room', async (t) => {
  const stage = new Stage();
  const read = new MemoryReservation(stage.buffers, 'a');
  read.set(40 * MiB, 40 * MiB);
  stage.reserve('a', 4, 'a1');
  stage.reserve('a', 16, 'a2');
  t.strictSame(stage.granted, ['a1']);
  read.set(20 * MiB, 20 * MiB);
  t.strictSame(stage.granted, ['a1', 'a2']);
});

t.test(
  'random rows of many users: the budget is exceeded by one row at most, and none waits for nothing',
  async (t) => {
    const random = seeded(t);
    const rowMiBMax = 20;
    for (let run = 0; run < 50; run++) {
      const stage = new Stage((8 + random(64)) * MiB);
      const open: LargeRowReservation[] = [];
      for (let step = 0; step < 500; step++) {
        if (random(2) === 0) {
          open.push(stage.reserve(pick(random, ['a', 'b', 'c']), 1 + random(rowMiBMax)));
        } else if (open.length > 0) {
          open.splice(random(open.length), 1)[0]?.release();
        }
        if (stage.rows.reservedBytes > stage.buffers.freeBytes + stage.buffers.reservedBytes + rowMiBMax * MiB) {
          t.fail('more is reserved than the budget and a row');
        }
        if (stage.rows.waiting > 0 && stage.rows.reservedBytes === 0) t.fail('rows wait for nothing');
      }
      for (const reservation of open) reservation.release();
      t.strictSame([stage.rows.waiting, stage.rows.reservedBytes, stage.buffers.reservedBytes], [0, 0, 0]);
    }
  },
);
