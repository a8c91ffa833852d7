import t from 'tap';
import { credentialsOf } from '#src/http/auth.js';

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64');
const basic = (pair: string | Uint8Array) => `Basic ${base64(pair)}`;

const UNAUTHORIZED = { status: 401, headers: { 'WWW-Authenticate': 'Basic realm="sluice"' } };

t.test('user name and password are separated by the first colon', async (t) => {
  const pairs: [string, string, string][] = [
    ['root:', 'root', ''],
    ['user:password', 'user', 'password'],
    ['user:pass:word:', 'user', 'pass:word:'],
    [':', '', ''],
    [':password', '', 'password'],
    ['größe:pässwörd', 'größe', 'pässwörd'],
    ['a b: c ', 'a b', ' c '],
    ['u:😀', 'u', '😀'],
    [`${'ü'.repeat(128)}:${'p'.repeat(5000)}`, 'ü'.repeat(128), 'p'.repeat(5000)],
    [`${'😀'.repeat(128)}:`, '😀'.repeat(128), ''],
    ["'u:", "'u", ''],
    ["':", "'", ''],
  ];
  for (const [pair, user, password] of pairs) {
    t.same(credentialsOf(basic(pair), null), { user, password }, pair.slice(0, 30));
  }
});

t.test('B5: a name that the database treats as another is refused', async (t) => {
  for (const user of ["'u'", "''", "''u''", 'u'.repeat(129), '😀'.repeat(129)]) {
    t.throws(() => credentialsOf(basic(`${user}:x`), null), { ...UNAUTHORIZED, message: /user name/ });
  }
});

t.test('the scheme is case-insensitive, and blanks around it and missing padding are accepted', async (t) => {
  const token = base64('root:x1');
  t.ok(token.endsWith('='), 'the token has padding to omit');
  const headers = [
    `basic ${token}`,
    `BASIC ${token}`,
    `bAsIc    ${token}`,
    `  Basic ${token}  `,
    `Basic ${token.replace(/=+$/, '')}`,
  ];
  for (const header of headers) t.same(credentialsOf(header, null), { user: 'root', password: 'x1' }, header);
});

t.test('without a header the anonymous user applies, if configured', async (t) => {
  t.same(credentialsOf(undefined, { user: 'guest', password: 'g' }), { user: 'guest', password: 'g' });
  t.throws(() => credentialsOf(undefined, null), { ...UNAUTHORIZED, message: /HTTP Basic/ });
});

t.test('an invalid header is refused, even if there is an anonymous user', async (t) => {
  const wrong: [string, RegExp][] = [
    ['', /form/],
    ['Basic', /form/],
    ['Basic ', /form/],
    [`Bearer ${base64('a:b')}`, /form/],
    ['Digest username="root"', /form/],
    [`Basic ${base64('a:b')} ${base64('a:b')}`, /form/],
    [base64('root:'), /form/],
    [`Basic${base64('root:')}`, /form/],
    ['Basic !!!!', /base64/],
    ['Basic root:', /base64/],
    ['Basic cm9vdDo*', /base64/],
    ['Basic =', /base64|colon/],
    ['Basic cm9vdDo=x', /base64/],
    // So long that a quadratic pattern would take minutes.
    [`Basic ${'='.repeat(1_000_000)}x`, /base64/],
    [basic('root'), /colon/],
    [basic('ro\0ot:'), /NUL/],
    [basic('root:pass\0word'), /NUL/],
  ];
  for (const [header, message] of wrong) {
    for (const anonymous of [null, { user: 'guest', password: '' }]) {
      t.throws(
        () => credentialsOf(header, anonymous),
        { ...UNAUTHORIZED, message },
        JSON.stringify(header.slice(0, 50)),
      );
    }
  }
});

t.test('a refusal does not contain the credentials', async (t) => {
  for (const header of [basic('topsecret'), basic('topsecret\0:topsecret'), 'Basic topsecret!', 'topsecret']) {
    try {
      credentialsOf(header, null);
      t.fail('it was not refused');
    } catch (error) {
      const { message } = error as Error;
      t.notMatch(message, /topsecret/);
      t.notOk(message.includes(base64('topsecret').slice(0, 8)));
    }
  }
});
