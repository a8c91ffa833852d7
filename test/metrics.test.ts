import t from 'tap';
import { Metrics } from '#src/metrics.js';
import { until } from './support/until.ts';

t.test('B (attack): whoever asks for the metrics all the time gets the last reading', async (t) => {
  let readings = 0;
  const levels = new Proxy(
    {},
    {
      get: (_, name) => () => {
        if (name === 'responses') return new Map();
        if (name === 'sessions') readings++;
        return 0;
      },
    },
  );
  const limits = new Proxy({}, { get: () => 1 });
  const metrics = new Metrics();
  metrics.watch(levels as never, limits as never);
  const asked = 5_000;
  for (let count = 0; count < asked; count++) await metrics.read();
  t.ok(readings >= 1 && readings < asked / 2, `${readings} readings for ${asked}`);
  const before = readings;
  await until(
    async () => {
      await metrics.read();
      return readings;
    },
    (count) => count > before,
  );
});
