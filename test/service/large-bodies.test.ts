import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { figure, isLong } from '../support/form.ts';
import { sharedServers } from '../support/servers.ts';
import { post, query, type RequestOptions, type SluiceProcess, startSluice } from '../support/sluice.ts';
import { canMeasureTurns } from '../support/turn-probe.ts';
import { until } from '../support/until.ts';

/* One request does not block all others, whatever its body contains. */

t.setTimeout(540_000);

const MIB = 1024 * 1024;
/** The most CPU time of one main-thread turn: ten times the documented limit, to tolerate a shared machine. */
const turnMsMax = 500;

const fill = (make: (index: number) => string): string => {
  const parts: string[] = [];
  for (let index = 0, length = 0; length < 16 * MIB - 100; index++) {
    const part = make(index);
    parts.push(part);
    length += part.length + 1;
  }
  return parts.slice(0, -1).join();
};

/** As many comma-separated copies as fit into 16 MiB. */
const repeated = (part: string): string =>
  `${part},`.repeat(Math.floor((16 * MIB - 100) / (part.length + 1)) - 1).slice(0, -1);

/** Bodies of 16 MiB, and the expected answers. */
const bodies: readonly (readonly [name: string, make: () => string, reason: RegExp])[] = [
  ['a million keys in params', () => `{"sql":"SELECT 1","params":{${fill((n) => `"k${n}":1`)}}}`, /--params_max/],
  ['a million members', () => `{"sql":"SELECT 1",${fill((n) => `"k${n}":1`)}}`, /more than 10000 values/],
  ['a million settings', () => `{"session":{"settings":{${fill((n) => `"k${n}":"1"`)}}}}`, /more than 10000 values/],
  ['five million lists', () => `{"sql":"SELECT 1","params":[${repeated('[]')}]}`, /--params_max/],
  ['five million lists in a list', () => `{"sql":"SELECT 1","params":[[${repeated('[]')}]]}`, /--params_max/],
  ['eight million params', () => `{"sql":"SELECT 1","params":[${repeated('1')}]}`, /--params_max/],
  ['deep brackets', () => `{"params":[${'['.repeat(8 * MIB - 100)}${']'.repeat(8 * MIB - 100)}]}`, /deeper than 100/],
  ['brackets that do not end', () => '['.repeat(16 * MIB), /deeper than 100/],
  ['a number of 16 MiB', () => `{"sql":"SELECT ?","params":[0.${'1'.repeat(16 * MIB - 100)}]}`, /as a string/],
  ['text that is not JSON', () => `{"sql":"SELECT 1"${' '.repeat(16 * MIB - 100)}`, /not JSON/],
  ['SQL of 16 MiB', () => `{"sql":"SELECT 1 /* ${'ä'.repeat(8 * MIB - 100)} */"}`, /Succeeded/],
  ['SQL of 16 MiB of parentheses', () => `{"sql":"${'('.repeat(16 * MIB - 100)}"}`, /Failed|"error":\{/],
  ['a param of 16 MiB', () => `{"sql":"SELECT LENGTH(?)","params":["${'x'.repeat(16 * MIB - 100)}"]}`, /16777116/],
  [
    'as many params as are allowed',
    () => `{"sql":"SELECT ${'?+'.repeat(65_534)}0*?","params":[${Array.from({ length: 65_535 }, () => 1)}]}`,
    /65534|Failed|"error":\{/,
  ],
];

/** Bodies that are sent compressed, in Databend's dialect. In the short form, one of each kind. */
const compressed = figure(
  ['a million settings', 'five million lists', 'deep brackets', 'text that is not JSON', 'SQL of 16 MiB'],
  bodies.map(([name]) => name),
);

const [server] = await sharedServers();
if (server === undefined) throw new Error('there is no server');

t.test('B2: no body blocks the main thread', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-turns-'));
  const file = join(folder, 'turns');
  const sluice = await startSluice(
    ['--mysql_url', `mysql://root@127.0.0.1:${new URL(server.url).port}`, '--read_only'],
    {
      NODE_OPTIONS: `--import ${fileURLToPath(new URL('../support/turn-probe.js', import.meta.url))}`,
      TURN_PROBE_FILE: file,
    },
  );
  t.teardown(async () => {
    await sluice.kill();
    rmSync(folder, { recursive: true });
  });
  const holds = async (name: string, send: () => Promise<{ readonly text: string }>, reason: RegExp): Promise<void> => {
    await longestTurnMs(sluice, file);
    const { text } = await send();
    t.match(text, reason, name);
    const turnMs = await longestTurnMs(sluice, file);
    t.ok(turnMs < turnMsMax, `${name}: ${turnMs} ms`);
    t.comment(`${name}: ${turnMs} ms`);
  };
  for (const [name, make, reason] of bodies) {
    const body = Buffer.from(make());
    const ways: [string, Uint8Array, RequestOptions['headers']][] = [];
    if (isLong || !compressed.includes(name)) ways.push(['v1', body, { 'idempotency-key': name.replaceAll(' ', '-') }]);
    if (compressed.includes(name)) {
      const headers = { 'user-agent': 'databend-client-go/1', 'content-encoding': 'gzip' };
      ways.push(['databend, gzip', gzipSync(body, { level: 1 }), headers]);
    }
    for (const [way, bytes, headers] of ways) {
      await holds(`${name}, ${way}`, () => post(sluice.url, bytes, { headers: { ...headers } }), reason);
    }
  }
  const heartbeat = Buffer.from(`{"node_to_queries":{"a":[${repeated('""').slice(0, 60_001)}]}}`);
  await holds('a heartbeat', () => beat(sluice.url, heartbeat), /more than 10000/);
});

for (const database of await sharedServers()) {
  t.test(`a long statement has the same effect as a short one (${database.kind})`, async (t) => {
    const name = `long_statements_${database.kind}`;
    await database.sql(`DROP DATABASE IF EXISTS ${name}; CREATE DATABASE ${name}`);
    const start = async (...options: string[]): Promise<string> => {
      const sluice = await startSluice([
        ...['--mysql_url', `${database.url}${name}`, '--connections_max', '6', '--worker_threads', '1'],
        ...options,
      ]);
      t.teardown(() => sluice.stop());
      return sluice.url;
    };
    const [url, readOnly] = [await start(), await start('--read_only')];
    const comment = `/* :none ? ${"'é".repeat(100 * 1024)} */`;
    for (const padded of [(sql: string) => `${comment} ${sql}`, (sql: string) => `${sql} ${comment}`]) {
      const run = (sql: string, body = {}, to = url) => query(to, padded(sql), { body });
      t.match((await run('')).last.error, { code: 1065 });
      t.match((await run('', { params: [1] })).last.error, { code: 1065 });
      t.strictSame((await run("SELECT ':a', :b, 1 IN (:c), :b", { params: { b: 'é', c: [1, 2] } })).rows, [
        [':a', 'é', 1, 'é'],
      ]);
      t.strictSame((await run("SELECT '?', ?, ? IN (?)", { params: ['é', 3, [1, 2]] })).rows, [['?', 'é', 0]]);
      t.match((await run('SELECT :b', { params: { c: 1 } })).last.error, { code: 1210, message: /:b/ });
      t.match((await run('SELECT ?', { params: [[1], 2] })).last.error, {
        code: 1210,
        message: /1 placeholder.*2 values/,
      });
      t.equal((await run('USE mysql')).last.error, null);
      t.strictSame((await run('SELECT DATABASE()')).rows, [[name]]);

      const { last } = await run('SET @a = 1', { session: { max_idle_time: 60 } });
      const session = { session: { id: last.session_id } };
      for (const sql of [
        'SET character_set_results = latin1',
        'SET @@character_set_results = latin1',
        'SET NAMES latin1',
      ]) {
        t.equal((await run(sql, session)).last.error, null);
        t.strictSame((await run("SELECT 'é', @a", session)).rows, [['é', 1]], sql);
      }

      for (const sql of [
        'CREATE TABLE a (b INT)',
        'SET GLOBAL max_connections = 99',
        'CALL p()',
        'SET DEFAULT ROLE NONE',
      ]) {
        t.match((await run(sql, {}, readOnly)).last.error, { code: 1792, message: /--read_only/ }, sql);
      }
      t.strictSame((await run('SELECT ?', { params: [1] }, readOnly)).rows, [[1]]);
    }
  });
}

async function beat(base: string, body: Uint8Array<ArrayBuffer>): Promise<{ readonly text: string }> {
  const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;
  const headers = { authorization, 'content-type': 'application/json', 'user-agent': 'databend-client-go/1' };
  const reply = await fetch(`${base}/v1/session/heartbeat`, { method: 'POST', headers, body });
  return { text: await reply.text() };
}

async function longestTurnMs({ child }: SluiceProcess, file: string): Promise<number> {
  if (!canMeasureTurns) return 0;
  const lines = (): string[] => {
    try {
      return readFileSync(file, 'utf8').split('\n').slice(0, -1);
    } catch {
      return [];
    }
  };
  const before = lines().length;
  child.kill('SIGUSR2');
  const after = await until(lines, ({ length }) => length > before);
  return Number(after.at(-1));
}
