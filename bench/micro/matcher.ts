import { finalUri, pageUri, statsUri } from '#src/api/native/uris.js';
import { type Route, Router } from '#src/http/router.js';
import { callNs, print } from './measure.ts';

const id = '01a1fc7e18649a1c64db4c59ae518009081e5ee08229';

const requests = [
  ['POST', '/v1/query'],
  ['GET', pageUri(id, 12)],
  ['GET', statsUri(id)],
  ['GET', finalUri(id)],
  ['GET', '/health'],
  ['GET', '/v1//query/%C3%A9/'],
  ['GET', `http://127.0.0.1:8000${pageUri(id, 12)}`],
  ['GET', '/favicon.ico'],
] as const;

/** As many routes as the dialects have. */
const table: readonly [methods: readonly string[], path: string][] = [
  [['GET', 'HEAD'], '/health'],
  [['GET', 'HEAD'], '/ready'],
  [['GET', 'HEAD'], '/metrics'],
  [['POST'], '/v1/query'],
  [['GET', 'HEAD'], '/v1/query/:id'],
  [['GET'], '/v1/query/:id/page/#number'],
  [['GET', 'POST'], '/v1/query/:id/kill'],
  [['GET', 'POST'], '/v1/query/:id/final'],
  [['DELETE'], '/v1/session/:id'],
  [['POST'], '/v1/session/login'],
  [['POST'], '/v1/session/logout'],
  [['POST'], '/v1/session/heartbeat'],
  [['GET', 'POST'], '/v1/verify'],
];

const copies = 4096;

export async function run(): Promise<void> {
  const router = new Router(table.map(([methods, path]): Route => ({ methods, path, handle: () => {} })));
  const kinds = requests.map(([method, target]) => ({
    name: `${method} ${target.replace(id, 'ID')}`,
    method,
    // Each request brings a string of its own, whereas V8 remembers how it has split one that it knows.
    targets: Array.from({ length: copies }, () => Buffer.from(target).toString()),
  }));
  // All of them before any is measured: a compiler that has seen one kind alone makes code for that alone.
  for (const { method, targets } of kinds) for (const target of targets) router.match(method, target);
  for (const { name, method, targets } of kinds) {
    let next = 0;
    const ns = await callNs(() => router.match(method, targets[next++ % copies] as string));
    print(`matcher, ${name}: ${ns.toFixed(0)} ns`);
  }
}
