import t from 'tap';
import { type Match, type Route, Router } from '#src/http/router.js';

const ID = '0195c0ffee';
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'get', ''] as const;

interface NamedRoute extends Route {
  readonly name: string;
}

const route = (name: string, methods: readonly string[], path: string): NamedRoute => {
  return { name, methods, path, handle: () => {} };
};

const router = new Router([
  route('query', ['POST'], '/v1/query'),
  route('stats', ['GET', 'HEAD'], '/v1/query/:id'),
  route('page', ['GET'], '/v1/query/:id/page/#number'),
  route('kill', ['GET', 'POST'], '/v1/query/:id/kill'),
  route('session', ['DELETE'], '/v1/session/:id'),
  route('login', ['POST'], '/v1/session/login'),
  route('health', ['GET', 'HEAD'], '/health'),
  route('ready', ['GET', 'HEAD'], '/ready'),
  // Of another dialect.
  route('other query', ['POST'], '/v1/query'),
]);

/** A match with the names of its routes. */
function match(method: string, target: string): unknown {
  const found: Match<NamedRoute> = router.match(method, target);
  return found.type === 'found' ? { ...found, routes: found.routes.map(({ name }) => name) } : found;
}

const found = (name: string, params: string[] = [], search = '') => {
  return { type: 'found', routes: name === 'query' ? [name, 'other query'] : [name], params, search };
};
const notFound = { type: 'not found' };

t.test('each path accepts its own methods and lists them in other refusals', async (t) => {
  const paths: [string, ReturnType<typeof found>, string[]][] = [
    ['/v1/query', found('query'), ['POST']],
    [`/v1/query/${ID}`, found('stats', [ID]), ['GET', 'HEAD']],
    [`/v1/query/${ID}/page/0`, found('page', [ID, '0']), ['GET']],
    [`/v1/query/${ID}/kill`, found('kill', [ID]), ['GET', 'POST']],
    [`/v1/query/${ID}/kill?delete=true`, found('kill', [ID], 'delete=true'), ['GET', 'POST']],
    [`/v1/session/${ID}`, found('session', [ID]), ['DELETE']],
    ['/v1/session/login', found('login'), ['POST']],
    ['/health', found('health'), ['GET', 'HEAD']],
    ['/ready', found('ready'), ['GET', 'HEAD']],
  ];
  for (const [path, route, allow] of paths) {
    for (const method of METHODS) {
      const expected = allow.includes(method) ? route : { type: 'method not allowed', allow };
      t.same(match(method, path), expected, `${method} ${path}`);
    }
  }
});

t.test('repeated and trailing slashes are ignored', async (t) => {
  for (const path of ['/v1/query/', '//v1//query', '/v1/query///', '///v1/query']) {
    t.same(match('POST', path), found('query'), path);
  }
  t.same(match('GET', `/v1//query/${ID}//page/3/`), found('page', [ID, `${3}`]));
  t.same(match('GET', `/v1/query/${ID}/kill/?delete=true`), found('kill', [ID], 'delete=true'));
  t.same(match('GET', '//health//'), found('health'));
});

t.test('an unknown path is not found', async (t) => {
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

t.test('dots do not leave the path: a segment of dots is an ordinary name', async (t) => {
  t.same(match('GET', '/v1/query/..'), found('stats', ['..']));
  t.same(match('GET', '/v1/query/%2e%2e'), found('stats', ['..']));
  t.same(match('GET', '/v1/query/../page/0'), found('page', ['..', `${0}`]));
});

t.test('a page number is an unsigned integer, and other text matches no page', async (t) => {
  const page = (number: string) => match('GET', `/v1/query/${ID}/page/${number}`);
  for (const number of [0, 1, 9, 10, 999_999_999_999_999]) {
    t.same(page(`${number}`), found('page', [ID, `${number}`]));
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

t.test('percent encoding is decoded before the path is matched', async (t) => {
  t.same(match('GET', '/he%61lth'), found('health'));
  t.same(match('POST', '/v1/%71uery'), found('query'));
  t.same(match('GET', '/v1/query/%C3%A9'), found('stats', ['é']));
  t.same(match('GET', `/v1/query/${ID}/page/%31`), found('page', [ID, `${1}`]));
});

t.test('invalid percent encoding and control characters are malformed at any position', async (t) => {
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

t.test('a target that is not a path is malformed', async (t) => {
  for (const target of ['', '*', 'health', '?x', '#', 'v1/query']) {
    t.match(match('GET', target), { type: 'malformed', reason: /not a path/ }, target);
  }
});

t.test('an absolute URL stands for its path, with any host', async (t) => {
  t.same(match('GET', 'http://127.0.0.1:8000/health'), found('health'));
  t.same(match('POST', 'HTTPS://any.example//v1/query/'), found('query'));
  t.same(match('GET', `http://any.example/v1/query/${ID}/kill?delete=true`), found('kill', [ID], 'delete=true'));
  t.same(match('GET', 'http://any.example'), notFound);
  t.match(match('GET', 'http:///health'), { type: 'malformed' });
  t.match(match('GET', 'ftp://any.example/health'), { type: 'malformed' });
});

t.test('a query string does not change the route, and is passed on', async (t) => {
  t.same(match('GET', '/health?a=b&%'), found('health', [], 'a=b&%'));
  t.same(match('POST', '/v1/query?delete=true'), found('query', [], 'delete=true'));
  t.same(match('GET', '/ready?'), found('ready'));
  t.same(match('GET', `/v1/query/${ID}/kill?x=1&delete=%74rue`), found('kill', [ID], 'x=1&delete=%74rue'));
});
