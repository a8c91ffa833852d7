import t from 'tap';
import { type Match, match } from '#src/http/router.js';

const ID = '0195c0ffee';
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'get', ''] as const;

const found = (route: (Match & { type: 'route' })['route']): Match => ({ type: 'route', route });
const notFound: Match = { type: 'not found' };

t.test('each path takes its own methods and names them to the others', async (t) => {
  const paths: [string, (Match & { type: 'route' })['route'], string[]][] = [
    ['/v1/query', { name: 'query' }, ['POST']],
    [`/v1/query/${ID}`, { name: 'stats', id: ID }, ['GET', 'HEAD']],
    [`/v1/query/${ID}/page/0`, { name: 'page', id: ID, page: 0 }, ['GET']],
    [`/v1/query/${ID}/kill`, { name: 'kill', id: ID, isFinal: false }, ['GET', 'POST']],
    [`/v1/query/${ID}/kill?delete=true`, { name: 'kill', id: ID, isFinal: true }, ['GET', 'POST']],
    [`/v1/session/${ID}`, { name: 'session', id: ID }, ['DELETE']],
    ['/v1/session/login', { name: 'login' }, ['POST']],
    ['/health', { name: 'health' }, ['GET', 'HEAD']],
    ['/ready', { name: 'ready' }, ['GET', 'HEAD']],
  ];
  for (const [path, route, allow] of paths) {
    for (const method of METHODS) {
      const expected = allow.includes(method) ? found(route) : { type: 'method not allowed', allow };
      t.same(match(method, path), expected, `${method} ${path}`);
    }
  }
});

t.test('double and trailing slashes are folded', async (t) => {
  for (const path of ['/v1/query/', '//v1//query', '/v1/query///', '///v1/query']) {
    t.same(match('POST', path), found({ name: 'query' }), path);
  }
  t.same(match('GET', `/v1//query/${ID}//page/3/`), found({ name: 'page', id: ID, page: 3 }));
  t.same(match('GET', `/v1/query/${ID}/kill/?delete=true`), found({ name: 'kill', id: ID, isFinal: true }));
  t.same(match('GET', '//health//'), found({ name: 'health' }));
});

t.test('what is not a path of ours is not found', async (t) => {
  const paths = [
    '/',
    '//',
    '/v1',
    '/v2/query',
    '/V1/QUERY',
    '/query',
    '/v1/queries',
    '/health/deep',
    '/ready/0',
    '/index.html',
    `/v1/query/${ID}/page`,
    `/v1/query/${ID}/pages/0`,
    `/v1/query/${ID}/page/0/1`,
    `/v1/query/${ID}/kill/now`,
    `/v1/query/${ID}/kil`,
    '/v1/session',
    `/v1/session/${ID}/end`,
    '/v1/../v1/query',
    '/v1/query/../../etc/passwd',
    '/..',
    '/.',
  ];
  for (const path of paths) for (const method of ['GET', 'POST']) t.same(match(method, path), notFound, path);
});

t.test('dots are no way out: a segment of them is a name like any other', async (t) => {
  t.same(match('GET', '/v1/query/..'), found({ name: 'stats', id: '..' }));
  t.same(match('GET', '/v1/query/%2e%2e'), found({ name: 'stats', id: '..' }));
  t.same(match('GET', '/v1/query/../page/0'), found({ name: 'page', id: '..', page: 0 }));
});

t.test('a page number is a plain count, and what is none has no page', async (t) => {
  const page = (number: string) => match('GET', `/v1/query/${ID}/page/${number}`);
  for (const number of [0, 1, 9, 10, 999_999_999_999_999]) {
    t.same(page(`${number}`), found({ name: 'page', id: ID, page: number }));
  }
  const numbers = [
    ...[
      '-1',
      '-0',
      '+1',
      '00',
      '01',
      '1.0',
      '1e3',
      '0x10',
      '1_000',
      'NaN',
      'one',
      '٣',
      '１',
      '1,0',
      '1;',
      '1%20',
      '%2d1',
    ],
    ...['1000000000000000', '9007199254740993', '18446744073709551616', '9'.repeat(400)],
  ];
  for (const number of numbers) t.same(page(number), notFound, number.slice(0, 30));
});

t.test('percent codes are decoded before the path is read', async (t) => {
  t.same(match('GET', '/he%61lth'), found({ name: 'health' }));
  t.same(match('POST', '/v1/%71uery'), found({ name: 'query' }));
  t.same(match('GET', '/v1/query/%C3%A9'), found({ name: 'stats', id: 'é' }));
  t.same(match('GET', `/v1/query/${ID}/page/%31`), found({ name: 'page', id: ID, page: 1 }));
});

t.test('bad percent codes and control characters are malformed, wherever they stand', async (t) => {
  const paths = [
    ...['/%', '/%1', '/%zz', '/v1/query/%', '/v1/query/%g0', '/health%', '/%u0041'],
    // Not UTF-8: a lone continuation byte, a cut sequence, an overlong slash, a surrogate.
    ...['/%80', '/%c3', '/%c0%af', '/%ed%a0%80', '/v1/query/%ff/page/0'],
    ...[
      '/%00',
      '/v1/query/%00',
      `/v1/query/${ID}%00/page/0`,
      '/%0a',
      '/%0d%0aSet-Cookie:x',
      '/%1f',
      '/%7f',
      '/health\t',
    ],
  ];
  for (const path of paths) t.match(match('GET', path), { type: 'malformed', reason: /percent/ }, path);
});

t.test('a target that is no path is malformed', async (t) => {
  for (const target of ['', '*', 'health', '?x', '#', 'v1/query']) {
    t.match(match('GET', target), { type: 'malformed', reason: /not a path/ }, target);
  }
});

t.test('a whole URL stands for its path, whatever host it names', async (t) => {
  t.same(match('GET', 'http://127.0.0.1:8000/health'), found({ name: 'health' }));
  t.same(match('POST', 'HTTPS://any.example//v1/query/'), found({ name: 'query' }));
  t.same(
    match('GET', `http://any.example/v1/query/${ID}/kill?delete=true`),
    found({ name: 'kill', id: ID, isFinal: true }),
  );
  t.same(match('GET', 'http://any.example'), notFound);
  t.match(match('GET', 'http:///health'), { type: 'malformed' });
  t.match(match('GET', 'ftp://any.example/health'), { type: 'malformed' });
});

t.test('a query string changes nothing but a kill', async (t) => {
  t.same(match('GET', '/health?a=b&%'), found({ name: 'health' }));
  t.same(match('POST', '/v1/query?delete=true'), found({ name: 'query' }));
  t.same(match('GET', '/ready?'), found({ name: 'ready' }));
  const kill = (search: string) => match('GET', `/v1/query/${ID}/kill${search}`);
  for (const search of ['', '?', '?delete=false', '?other=true', '?DELETE=true']) {
    t.same(kill(search), found({ name: 'kill', id: ID, isFinal: false }), search);
  }
  for (const search of ['?delete=true', '?x=1&delete=true', '?delete=%74rue', '?delete=true&delete=false']) {
    t.same(kill(search), found({ name: 'kill', id: ID, isFinal: true }), search);
  }
  for (const search of ['?delete', '?delete=', '?delete=1', '?delete=TRUE', '?delete=yes', '?delete=true%00']) {
    t.match(kill(search), { type: 'malformed', reason: /delete/ }, search);
  }
});
