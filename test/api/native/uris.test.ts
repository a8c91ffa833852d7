import t from 'tap';
import { finalUri, killUri, pageUri, statsUri } from '#src/api/native/uris.js';

t.test('the paths are those of the specification', async (t) => {
  t.equal(pageUri('abc', 0), '/v1/query/abc/page/0');
  t.equal(pageUri('abc', 12_345_678_901), '/v1/query/abc/page/12345678901');
  t.equal(statsUri('abc'), '/v1/query/abc');
  t.equal(finalUri('abc'), '/v1/query/abc/kill?delete=true');
  t.equal(killUri('abc'), '/v1/query/abc/kill');
});
