import t from 'tap';
import { finalUri, killUri, pageUri, statsUri } from '#src/api/native/uris.js';
import { match } from '#src/http/router.js';

t.test('the paths are those that were decided', async (t) => {
  t.equal(pageUri('abc', 0), '/v1/query/abc/page/0');
  t.equal(pageUri('abc', 12_345_678_901), '/v1/query/abc/page/12345678901');
  t.equal(statsUri('abc'), '/v1/query/abc');
  t.equal(finalUri('abc'), '/v1/query/abc/kill?delete=true');
  t.equal(killUri('abc'), '/v1/query/abc/kill');
});

t.test('every path that is handed out leads back to its query', async (t) => {
  const id = 'abc';
  t.strictSame(match('GET', pageUri(id, 7)), { type: 'route', route: { name: 'page', id, page: 7 } });
  t.strictSame(match('GET', statsUri(id)), { type: 'route', route: { name: 'stats', id } });
  t.strictSame(match('GET', finalUri(id)), { type: 'route', route: { name: 'kill', id, isFinal: true } });
  t.strictSame(match('POST', killUri(id)), { type: 'route', route: { name: 'kill', id, isFinal: false } });
});
