import fs from 'node:fs';
import { open } from 'node:fs/promises';
import t from 'tap';
import { Metrics } from '#src/metrics.js';
import { until } from './support/until.ts';

t.test('a reading does not list descriptors or handles, possibly thousands, on the main thread', async (t) => {
  const listed: string[] = [];
  const inner = process as unknown as Record<string, unknown>;
  for (const [owner, name] of [
    [fs as unknown as Record<string, unknown>, 'readdirSync'],
    [inner, '_getActiveHandles'],
    [inner, 'getActiveResourcesInfo'],
  ] as const) {
    const original = owner[name] as (...args: unknown[]) => unknown;
    owner[name] = (...args: unknown[]) => {
      listed.push(name);
      return original(...args);
    };
    t.teardown(() => {
      owner[name] = original;
    });
  }
  const { text } = await new Metrics().read();
  t.match(text, /^process_cpu_seconds_total /m);
  t.match(text, /^nodejs_eventloop_lag_seconds /m);
  t.strictSame(listed, []);
});

t.test('the open descriptors are counted', { skip: process.platform !== 'linux' }, async (t) => {
  const count = async (): Promise<number> =>
    Number(/^process_open_fds (\d+)$/m.exec((await new Metrics().read()).text)?.[1]);
  const before = await count();
  t.ok(before > 3, `${before}`);
  const files = await Promise.all(Array.from({ length: 200 }, () => open('/dev/null')));
  const after = await count();
  for (const file of files) await file.close();
  t.ok(Math.abs(after - before - 200) < 50, `${before} before, ${after} with 200 more`);
});

t.test('B (attack): a client that requests the metrics constantly gets the last reading', async (t) => {
  let readings = 0;
  const levels = new Proxy(
    {},
    {
      get: (_, name) => {
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
  t.ok(readings >= 1 && readings < asked / 2, `${readings} readings for ${asked} requests`);
  const before = readings;
  await until(
    async () => {
      await metrics.read();
      return readings;
    },
    (count) => count > before,
  );
});
