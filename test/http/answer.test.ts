import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import t from 'tap';
import { addressOf, requestIdOf } from '#src/http/answer.js';

function idFor(given: string | undefined): string {
  return requestIdOf({ headers: given === undefined ? {} : { 'x-request-id': given } } as IncomingMessage);
}

t.test('D3: the id of a request is its X-Request-Id, or one that the server generates', async (t) => {
  for (const id of ['a', '7d3ab3f2-1f1b-4d8e-9a6b-2b0a1d2c3e4f', 'Root=1-67891233-abc', 'a+b/c==', 'x'.repeat(128)]) {
    t.equal(idFor(id), id);
  }
  const made = [undefined, '', 'a b', 'a"b', 'a\\b', 'ä', 'a\tb', '{}', '<a>', 'x'.repeat(129)].map(idFor);
  for (const id of made) t.match(id, /^[0-9a-f]{12}-[0-9]+$/);
  t.equal(new Set(made).size, made.length, 'each id differs');
});

t.test('D3: an IPv4-mapped address is shown as IPv4', async (t) => {
  t.equal(addressOf({ remoteAddress: '::ffff:192.0.2.1' } as Socket), '192.0.2.1');
  t.equal(addressOf({ remoteAddress: '2001:db8::1' } as Socket), '2001:db8::1');
  t.equal(addressOf({} as Socket), '', 'a closed connection');
});
