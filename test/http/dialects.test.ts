import t from 'tap';
import { dialectOf } from '#src/http/dialects.js';

t.test('a request says by its headers in which dialect it is', async (t) => {
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
  ] as const) {
    t.equal(dialectOf(headers, 'auto'), expected, JSON.stringify(headers));
    t.equal(dialectOf(headers, 'v1'), 'v1');
    t.equal(dialectOf(headers, 'databend'), 'databend');
  }
});
