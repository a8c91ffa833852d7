import t from 'tap';
import type { ApiServices } from '#src/api/api.js';
import { dialectNames, openSite } from '#src/api/index.js';

/** Dialects of which only the routes are used. */
const services = { queryRoutes: { routesFor: () => [] }, engine: {} } as unknown as ApiServices;

t.test('the headers of a request select its dialect', async (t) => {
  t.strictSame(dialectNames, ['v1', 'databend']);
  const site = (dialect: string) => openSite(services, dialect, []);
  const dialectOf = (headers: Record<string, string>, dialect: string): unknown => {
    const found = site(dialect).match('POST', '/v1/query', headers);
    return found.type === 'found' ? (found.route as unknown as { api: { name: string } }).api.name : found.type;
  };
  for (const [headers, expected] of [
    [{}, 'v1'],
    [{ 'user-agent': 'curl/8.5.0', accept: '*/*' }, 'v1'],
    [{ 'user-agent': 'not-databend-go' }, 'v1'],
    [{ 'idempotency-key': 'x' }, 'v1'],
    [{ 'user-agent': 'databend-driver-nodejs/0.33.7' }, 'databend'],
    [{ 'user-agent': 'bendsql/0.33.7' }, 'databend'],
    [{ 'user-agent': 'Databend-JDBC' }, 'databend'],
    [{ 'x-databend-query-id': 'x' }, 'databend'],
    [{ 'x-databend-route-hint': 'rh:1' }, 'databend'],
  ] as [Record<string, string>, string][]) {
    t.equal(dialectOf(headers, 'auto'), expected, JSON.stringify(headers));
    t.equal(dialectOf(headers, 'v1'), 'v1');
    t.equal(dialectOf(headers, 'databend'), 'databend');
  }
});

t.test('the routes of a dialect exist if it is served', async (t) => {
  const typeOf = (dialect: string, method: string, path: string): string =>
    openSite(services, dialect, []).match(method, path, {}).type;
  for (const dialect of ['auto', 'databend']) t.equal(typeOf(dialect, 'POST', '/v1/session/login'), 'found');
  t.equal(typeOf('v1', 'GET', '/v1/verify'), 'not found');
  for (const dialect of ['auto', 'v1', 'databend']) t.equal(typeOf(dialect, 'DELETE', '/v1/session/x'), 'found');
});
