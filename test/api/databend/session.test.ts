import t from 'tap';
import {
  type ClientSession,
  pinnedSessionOf,
  SessionTokens,
  schemaOf,
  sessionAfter,
  sessionWithoutPinned,
} from '#src/api/databend/session.js';
import { InvalidRequestError } from '#src/api/invalid-request.js';
import { noSchema } from '#src/wire/messages.js';

const id = '0123456789abcdef0123456789abcdef';
const state = { schema: null, variables: {}, inTransaction: false, isPinned: false, isChanged: false };

t.test('a session token is valid for its own user only', async (t) => {
  const tokens = new SessionTokens();
  const handle = tokens.issue(id, 'ann');
  t.strictSame(tokens.read(handle, 'ann'), { type: 'existing', id });
  t.strictSame(pinnedSessionOf({ internal: handle }, 'ann', tokens), { type: 'existing', id });
  for (const internal of [undefined, null, '']) {
    t.equal(pinnedSessionOf(internal === undefined ? {} : { internal }, 'ann', tokens), null);
  }
  t.throws(() => tokens.read(handle, 'bob'), InvalidRequestError, 'another user');
  t.throws(() => tokens.read(handle, 'an'), InvalidRequestError);
});

t.test('a session token with any change is refused', async (t) => {
  const tokens = new SessionTokens();
  const handle = tokens.issue(id, 'ann');
  const [node = '', session = '', mac = ''] = handle.split('.');
  for (let at = 0; at < handle.length; at++) {
    const changed = `${handle.slice(0, at)}${handle[at] === '0' ? '1' : '0'}${handle.slice(at + 1)}`;
    // The last character of a MAC has unused bits.
    if (at === handle.length - 1) continue;
    // A token that another server has signed is refused.
    if (at < 16) t.match(tokens.read(changed, 'ann'), { id: '', whyEnded: String }, changed);
    else t.throws(() => tokens.read(changed, 'ann'), InvalidRequestError, changed);
  }
  const other = 'f'.repeat(32);
  for (const changed of [
    'x',
    '..',
    `${handle}.x`,
    `${node}.${other}.${mac}`,
    `${node}.${session}.`,
    `${node}.${session}`,
  ]) {
    t.throws(() => tokens.read(changed, 'ann'), /not as it was given/, changed);
  }
});

t.test('a session token of a stopped server is reported as such', async (t) => {
  t.match(new SessionTokens().read(new SessionTokens().issue(id, 'ann'), 'ann'), { id: '', whyEnded: /runs no more/ });
});

t.test("the client's session has the changes of the statement and keeps its other members", async (t) => {
  const before = { database: 'shop', role: 'r', settings: { a: '1', b: '2' }, other: { x: 1 } } as ClientSession;
  t.strictSame(sessionAfter(before, { ...state, schema: 'stock', variables: { b: '3', c: '4' } }, null, 'handle'), {
    ...before,
    database: 'stock',
    settings: { a: '1', b: '3', c: '4' },
    txn_state: 'AutoCommit',
    need_sticky: false,
    need_keep_alive: false,
    internal: null,
  });
  const dropped = sessionAfter(before, state, null, 'handle').database;
  t.equal(dropped, '(none) ', 'a dropped database is no longer selected');
  t.equal(schemaOf(dropped), noSchema, 'nor is the default one');
  t.equal(sessionAfter({ database: 'default' }, state, null, 'handle').database, 'default');
  t.match(sessionAfter(before, state, '7', 'handle').settings, { a: '1', last_insert_id: '7' });
});

t.test('a pinned session has its session token, and one that is not pinned has none', async (t) => {
  const shop = { ...state, schema: 'shop' };
  const held = sessionAfter({ database: 'shop' }, { ...shop, inTransaction: true, isPinned: true }, null, 'handle');
  t.match(held, { txn_state: 'Active', need_sticky: true, need_keep_alive: true, internal: 'handle' });
  t.match(sessionAfter(held, { ...shop, isPinned: true }, null, 'handle'), {
    txn_state: 'AutoCommit',
    internal: 'handle',
  });
  const ended = {
    database: 'shop',
    txn_state: 'AutoCommit',
    need_sticky: false,
    need_keep_alive: false,
    internal: null,
  };
  t.match(sessionAfter(held, shop, null, 'handle'), ended);
  t.match(sessionWithoutPinned(held), ended);
});

t.test(
  'E (session.internal): text that is not a session token comes from another kind of server and is ignored',
  async (t) => {
    const tokens = new SessionTokens();
    for (const internal of ['x', '{"variables": []}', `${'g'.repeat(16)}.${id}.x`, `${'0'.repeat(15)}.${id}.x`]) {
      t.equal(pinnedSessionOf({ internal }, 'ann', tokens), null, internal);
      t.equal(pinnedSessionOf({ internal, txn_state: 'AutoCommit', need_sticky: true }, 'ann', tokens), null);
      t.throws(() => pinnedSessionOf({ internal, txn_state: 'Active' }, 'ann', tokens), /on another server/);
    }
    const handle = tokens.issue(id, 'ann');
    t.throws(() => pinnedSessionOf({ internal: handle.slice(0, -1) }, 'ann', tokens), /not as it was given/);
    t.throws(() => pinnedSessionOf({ internal: handle.slice(0, 49) }, 'ann', tokens), /not as it was given/);
  },
);
