import { EventEmitter } from 'node:events';
import t from 'tap';
import { SpillUsers } from '#src/session/spill-users.js';

class FakeChannel extends EventEmitter<{ close: [] }> {}

t.test('all connections of a user count in one slot, and no two users share one', async (t) => {
  const users = new SpillUsers(3);
  t.equal(users.slotFor('anna', new FakeChannel()), 0);
  t.equal(users.slotFor('ben', new FakeChannel()), 1);
  t.equal(users.slotFor('anna', new FakeChannel()), 0);
});

t.test('users beyond the number of slots share the last one', async (t) => {
  const users = new SpillUsers(2);
  t.equal(users.slotFor('anna', new FakeChannel()), 0);
  const channel = new FakeChannel();
  t.equal(users.slotFor('ben', channel), 1);
  t.equal(users.slotFor('cleo', new FakeChannel()), 1);
  channel.emit('close');
  t.equal(users.slotFor('dan', new FakeChannel()), 1, 'the shared slot never becomes the slot of one user');
  t.equal(users.slotFor('eve', new FakeChannel()), 1);
});

t.test(
  'a slot is free when all channels of its user are closed, and the one that was freed first is used first',
  async (t) => {
    const users = new SpillUsers(3);
    const [first, second, other] = [new FakeChannel(), new FakeChannel(), new FakeChannel()];
    users.slotFor('anna', first);
    users.slotFor('anna', second);
    users.slotFor('ben', other);
    first.emit('close');
    t.equal(users.slotFor('cleo', new FakeChannel()), 2, 'the slots are used up, but for the shared one');
    other.emit('close');
    second.emit('close');
    t.equal(users.slotFor('dan', new FakeChannel()), 1);
    t.equal(users.slotFor('anna', new FakeChannel()), 0);
  },
);
