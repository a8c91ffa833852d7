import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';
import { gunzipSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { InvalidRequestError } from '#src/api/invalid-request.js';
import { parse } from '#src/api/native/request.js';
import type { QueryRequest } from '#src/engine/query-request.js';
import { figure, measured, testMsMax } from '../support/form.ts';
import { generator, invalidText, pick, type Random, seedOf } from '../support/random.ts';
import { sharedServers } from '../support/servers.ts';
import { type SluiceProcess, startSluice } from '../support/sluice.ts';
import { startTraffic } from '../support/traffic.ts';

/*
 * Request bodies that are mutated in their text, structure, SQL or compression. This file decides independently, from the
 * specification, which bodies are valid. The parser and the service must agree with it about each body.
 */

const inProcessCount = figure(6_000, 900_000);
/** Bodies for each database. */
const overHttpCount = figure(600, 50_000);
/** Pause of the regular clients between two statements. */
const restMs = figure(25, 5);
const lanes = 24;
const bodyBytesMax = 16 * 1024;
const limits = {
  bodyBytesMax,
  waitTimeMsMax: 50_000,
  pageRowsMax: 1_000_000,
  bufferRowsMax: 5_000_000,
  statementTimeoutMs: 10_000,
  resultTimeoutMsMax: 4_000,
  paramsMax: 65_535,
  clientSessionBytesMax: 65_536,
  keptMsMax: 86_400_000,
};
/** Nesting levels within one member of the body. */
const nestingMax = 100;
/** A refusal is one printable line. */
const reasonLengthMax = 400;
const answerMsMax = 20_000;

const contentTypes: readonly [string, boolean][] = [
  ['APPLICATION/JSON', true],
  ['application/json;charset="UTF-8"', true],
  ['application/json ; charset=utf8', true],
  ['application/json; charset=latin1', false],
  ['text/json', false],
  ['application/jsonx', false],
  ['application/x-www-form-urlencoded', false],
  [';application/json', false],
];

const memberNames = [
  'sql',
  'session',
  'pagination',
  'timeout_secs',
  'result_timeout_secs',
  'integers',
  'id',
  'database',
  'max_idle_time',
  'wait_time_secs',
  'max_rows_per_page',
  'max_rows_in_buffer',
  'SQL',
  'sql ',
  '',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'ſql',
  'a/b',
  'a~0b',
  '\n',
  '\ud800',
  'x'.repeat(3_000),
];

const strangeNumbers = [
  'NaN',
  'Infinity',
  '-Infinity',
  '1e999',
  '-1e999',
  '01',
  '+1',
  '.5',
  '1.',
  '0x1',
  '1_0',
  '9'.repeat(400),
  '-',
  '-0',
  '1n',
];

const pieces = [
  '"',
  '\\',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  'null',
  '\0',
  '\ufeff',
  '/*',
  '//',
  "'",
  '\\u',
  '\\ud800',
  'NaN',
  '\u2028',
  '﻿',
  '{"sql":',
];

// No mutated body may make the server wait or run for long.
const statements = [
  'SELECT 1',
  'SELECT * FROM t WHERE i < 10 ORDER BY word',
  "INSERT INTO t (word) VALUES ('a'), ('b')",
  "UPDATE t SET word = 'c' WHERE i = 3",
  'DELETE FROM t WHERE i > 5',
  'SHOW TABLES',
  'SET @a = 1, @b = @a',
  'SELECT @a, LAST_INSERT_ID(), DATABASE()',
  'SELECT CAST(? AS CHAR)',
  "SELECT 'it''s', \"x\", `i` FROM t -- end",
  '/* only */',
  '',
  'SELECT 1; SELECT 2',
  'EXPLAIN SELECT * FROM t',
  "PREPARE s FROM 'SELECT 1'",
  'BEGIN',
  'COMMIT',
  'USE mysql',
  "SELECT '\\u0000', X'00ff', 0x41, b'1', 1e999, -0.0, NULL",
];

const sqlPieces = [
  "'",
  '"',
  '`',
  ';',
  '--',
  '#',
  '/*',
  '*/',
  '/*!',
  '(',
  ')',
  ',',
  '?',
  '@',
  '\\',
  '\0',
  '😀',
  '\ud800',
  'UNION',
  'NULL',
  '9'.repeat(100),
];

t.test('the parser accepts valid bodies and refuses invalid ones', { timeout: testMsMax }, async (t) => {
  const seed = seedOf(t);
  const wrong: string[] = [];
  const counts = { taken: 0, refused: 0 };
  const beganMs = performance.now();
  for (let number = 0; number < inProcessCount; number++) {
    // Encodes as UTF-8, which cannot express half of a surrogate pair. A cut may leave such a half.
    const text = Buffer.from(mutatedText(generator(seed, number))).toString();
    const expected = judge(text);
    const found = parsed(text);
    counts[expected === null ? 'refused' : 'taken']++;
    if (JSON.stringify(found) !== JSON.stringify(expected)) {
      wrong.push(
        `case ${number}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}: ${text.slice(0, 300)}`,
      );
    }
  }
  const tookSecs = (performance.now() - beganMs) / 1_000;
  t.strictSame(
    wrong.slice(0, 5),
    [],
    `${wrong.length} of ${inProcessCount} bodies are judged differently from this file`,
  );
  t.ok(
    counts.taken > inProcessCount / 20 && counts.refused > inProcessCount / 20,
    'there are enough valid and invalid bodies',
  );
  t.equal(({} as Record<string, unknown>)['polluted'], undefined, 'no body changed the prototype of all objects');
  measured(
    t,
    `${inProcessCount} mutated bodies in process in ${tookSecs.toFixed(1)} s: ${counts.taken} taken, ` +
      `${counts.refused} refused, ${wrong.length} wrong`,
  );
});

for (const server of await sharedServers()) {
  t.test(`over HTTP, on ${server.kind}`, { timeout: testMsMax }, async (t) => {
    const seed = seedOf(t);
    const name = `bodies_${randomBytes(4).toString('hex')}`;
    const neighbour = `${name}_n`;
    await server.sql(
      `CREATE DATABASE ${name}; CREATE TABLE ${name}.t (i INT PRIMARY KEY AUTO_INCREMENT, word VARCHAR(100));
       CREATE USER ${name}@'%', ${neighbour}@'%'; GRANT ALL ON ${name}.* TO ${name}@'%', ${neighbour}@'%'`,
    );
    const { port } = new URL(server.url);
    const sluice = await startSluice([
      ...['--mysql_url', `mysql://root@127.0.0.1:${port}/${name}`, '--drain_secs', '0'],
      ...['--body_bytes_max', `${bodyBytesMax}`, '--wait_time_secs_max', '2'],
      ...['--result_timeout_secs', '2', '--result_timeout_secs_max', `${limits.resultTimeoutMsMax / 1_000}`],
      // Some bodies open sessions, which must expire soon to make room for others.
      ...['--session_idle_secs_max', '1', '--statement_timeout_secs', '10'],
    ]);
    const agent = new Agent({ keepAlive: true, maxSockets: lanes });
    t.teardown(async () => {
      agent.destroy();
      await sluice.kill();
      await server.sql(`DROP USER ${name}, ${neighbour}; DROP DATABASE ${name}`);
    });
    const traffic = startTraffic(sluice.url, { login: { user: neighbour }, restMs });
    const statuses = new Map<string, number>();
    const wrong: string[] = [];
    let latestMs = 0;

    const one = async (number: number): Promise<void> => {
      const { headers, bytes, expected, mayBeFull } = mutatedBody(generator(seed, number));
      const sentMs = performance.now();
      const { status, text } = await send(sluice, agent, { ...headers, Authorization: basic(name) }, bytes);
      latestMs = Math.max(latestMs, performance.now() - sentMs);
      const state = status === 200 ? (/"state":"(\w+)"/.exec(text)?.[1] ?? 'none') : '';
      statuses.set(`${status} ${state}`, (statuses.get(`${status} ${state}`) ?? 0) + 1);
      const isFull = mayBeFull && (status === 503 || status === 429) && /sessions/.test(text);
      const isRight = isFull || (expected.includes(status) && (status === 200 ? state !== 'none' : isOneLine(text)));
      if (!isRight) {
        const what = `${status} ${text.slice(0, 300)} instead of ${expected.join(' or ')}`;
        wrong.push(`case ${number}: ${what}: ${JSON.stringify(headers)} ${bytes.toString('latin1').slice(0, 500)}`);
      }
    };
    let number = 0;
    const lane = async (): Promise<void> => {
      while (number < overHttpCount) await one(number++);
    };
    const beganMs = performance.now();
    await Promise.all(Array.from({ length: lanes }, lane));
    const tookSecs = (performance.now() - beganMs) / 1_000;
    await traffic.stop();

    t.strictSame(wrong.slice(0, 5), [], `${wrong.length} of ${overHttpCount} bodies get a wrong answer`);
    for (const status of ['200 Succeeded', '200 Failed', '400 ', '413 ', '415 ']) {
      t.ok((statuses.get(status) ?? 0) > 0, `some answers have status ${status}`);
    }
    t.ok(latestMs <= answerMsMax, `every body is answered, the last after ${Math.round(latestMs)} ms`);
    t.strictSame(
      traffic.wrong.slice(0, 3),
      [],
      `all ${traffic.count} valid concurrent statements returned the right rows`,
    );
    t.notMatch(sluice.log(), /"level":50/, 'the log reports no defect');
    t.equal(await sluice.stop(), 0, 'the service stops cleanly');
    t.comment([...statuses].map(([status, count]) => `${status}: ${count}`).join(', '));
    measured(
      t,
      `${overHttpCount} mutated bodies over HTTP in ${tookSecs.toFixed(1)} s: ${wrong.length} wrong, ` +
        `the longest answer ${Math.round(latestMs)} ms`,
    );
  });
}

interface SentBody {
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  /** The correct statuses. */
  readonly expected: readonly number[];
  /** Whether the answer may be that the session limit is reached. */
  readonly mayBeFull: boolean;
}

function mutatedBody(random: Random): SentBody {
  const text = mutatedText(random);
  const plain = random(20) === 0 ? spoilUtf8(random, Buffer.from(text)) : Buffer.from(text);
  const headers: Record<string, string> = { 'Content-Type': 'application/json' };
  let expected = expectedOf(plain);
  let bytes = plain;
  if (random(4) === 0) {
    headers['Content-Encoding'] = pick(random, ['gzip', 'gzip', 'GZIP', ' gzip ']);
    bytes = mutatedGzip(random, plain);
    expected = expectedOfGzip(bytes);
  }
  if (random(30) === 0) {
    const [type, isJson] = pick(random, contentTypes);
    headers['Content-Type'] = type;
    if (!isJson) expected = [415];
  }
  if (random(40) === 0) {
    headers['Content-Encoding'] = pick(random, ['br', 'deflate', 'gzip, gzip', 'x', 'zstd']);
    expected = [415, ...(expected.includes(415) ? [] : bytes.length > bodyBytesMax ? [413] : [])];
  }
  return { headers, bytes, expected, mayBeFull: /max_idle_time|\\u/.test(text) };
}

function expectedOf(plain: Buffer): number[] {
  if (plain.length > bodyBytesMax) return [413];
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(plain);
  } catch {
    return [400];
  }
  return [judge(text) === null ? 400 : 200];
}

/** If the stream is broken behind the limit, either error may be reported first. */
function expectedOfGzip(bytes: Buffer): number[] {
  if (bytes.length > bodyBytesMax) return [413];
  try {
    return expectedOf(gunzipSync(bytes));
  } catch {
    return [400, 413];
  }
}

function mutatedGzip(random: Random, plain: Buffer): Buffer {
  const whole = gzipSync(plain, { level: random(10) });
  switch (random(12)) {
    case 0:
      return whole.subarray(0, random(whole.length));
    case 1: {
      const mutated = Buffer.from(whole);
      const at = random(mutated.length);
      mutated[at] = (mutated[at] as number) ^ (1 << random(8));
      return mutated;
    }
    case 2:
      return Buffer.concat([whole, gzipSync(pick(random, ['', ' ', '\n', 'x']))]);
    case 3:
      // A small gzip bomb.
      return gzipSync(Buffer.alloc(bodyBytesMax * (1 + random(200)), ' '));
    case 4:
      return gzipSync(whole);
    default:
      return whole;
  }
}

function spoilUtf8(random: Random, bytes: Buffer): Buffer {
  const at = random(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, at), invalidText(random, 1 + random(6)), bytes.subarray(at)]);
}

/** A request that is mutated in its structure, in its text, or not at all. */
function mutatedText(random: Random): string {
  const value = validRequest(random);
  for (let times = random(3); times > 0; times--) mutateMember(random, value);
  let text = stringify(random, value);
  for (let times = random(6) === 0 ? 1 + random(3) : 0; times > 0; times--) text = mutateText(random, text);
  return text;
}

type Json = Record<string, unknown>;

function validRequest(random: Random): Json {
  const value: Json = { sql: mutatedSql(random) };
  if (random(2) === 0) {
    value['session'] = pick(random, [
      {},
      { database: pick(random, ['default', '', 'mysql', 'nowhere', 'é', 'x'.repeat(65), "a'b", 'a`b', '\0']) },
      { max_idle_time: pick(random, [0, 0, 0, 1]) },
      { id: pick(random, ['', 'none', '0'.repeat(32), '\u0000', '__proto__', 'x'.repeat(2_000)]) },
    ]);
  }
  if (random(2) === 0) {
    value['pagination'] = {
      ...(random(2) === 0 && { wait_time_secs: pick(random, [0, 1, 2, -1, 50, 2_147_483_647, -2_147_483_648]) }),
      ...(random(2) === 0 && { max_rows_per_page: pick(random, [1, 2, 10_000, 1_000_000]) }),
      ...(random(2) === 0 && { max_rows_in_buffer: pick(random, [1, 1_000, 5_000_000]) }),
    };
  }
  if (random(8) === 0) value['integers'] = pick(random, ['string', 'number', 'String', 64, null]);
  if (random(8) === 0) value['timeout_secs'] = pick(random, [1, 5, 10, 11, 2_147_483]);
  // Short, because the server under test keeps a limited number of results.
  if (random(8) === 0) value['result_timeout_secs'] = pick(random, [1, 2, 4, 5, 2_147_483]);
  return value;
}

/** Replaces, adds or removes a member at a random position. */
function mutateMember(random: Random, root: Json): void {
  const objects = [root, ...Object.values(root).filter((member): member is Json => isObject(member))];
  const owner = pick(random, objects);
  const name = random(3) === 0 ? pick(random, memberNames) : pick(random, [...Object.keys(owner), 'sql', 'session']);
  if (random(4) === 0) delete owner[name];
  // An assignment to __proto__ would make no member.
  else
    Object.defineProperty(owner, name, {
      value: strange(random),
      enumerable: true,
      configurable: true,
      writable: true,
    });
}

function strange(random: Random): unknown {
  return pick(random, [
    null,
    true,
    false,
    0,
    -0,
    1,
    -1,
    1.5,
    1e-7,
    1e300,
    2_147_483_647,
    2_147_483_648,
    -2_147_483_649,
    1_000_001,
    5_000_001,
    Number.MAX_SAFE_INTEGER + 1,
    '',
    '1',
    'NaN',
    '\0\u001f\u2028\ud800',
    'x'.repeat(random(5_000)),
    [],
    [[[[1]]]],
    ['sql'],
    {},
    { sql: 'SELECT 1' },
    { id: 'x' },
    { id: 1 },
    { id: 'x', database: 'y' },
    { polluted: true },
    nested(random(200)),
  ]);
}

function nested(depth: number): unknown {
  let value: unknown = 'x';
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { sql: value };
  return value;
}

/** JSON text in one of its equivalent spellings. */
function stringify(random: Random, value: Json): string {
  const text = JSON.stringify(value, null, pick(random, [undefined, undefined, 1, '\t', '\r\n']) as number | undefined);
  switch (random(12)) {
    case 0:
      // The last of duplicate members counts.
      return text.replace(
        /\}\s*$/,
        `,"${pick(random, ['sql', 'session', 'pagination', 'x'])}":${JSON.stringify(strange(random))}}`,
      );
    case 1:
      return text.replaceAll(/[a-z]/g, (letter) =>
        random(4) === 0 ? `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}` : letter,
      );
    case 2:
      return text.replaceAll(
        /:(-?\d+)(?=[,}])/g,
        (_, digits) => `:${pick(random, [`${digits}.0`, `${digits}e0`, `${digits}E+0`, digits])}`,
      );
    case 3:
      return text.replaceAll(/:(-?\d+)(?=[,}])/g, () => `:${pick(random, strangeNumbers)}`);
    default:
      return text;
  }
}

function mutateText(random: Random, text: string): string {
  const at = random(text.length + 1);
  const length = 1 + random(20);
  const [before, after] = [text.slice(0, at), text.slice(at)];
  switch (random(7)) {
    case 0:
      return before + after.slice(length);
    case 1:
      return before + after.slice(0, length) + after;
    case 2:
      return before + pick(random, pieces) + after;
    case 3:
      return before;
    case 4:
      return text.repeat(1 + random(3));
    case 5:
      return before + String.fromCharCode(random(0x3000)) + after.slice(1);
    default:
      return before + ' '.repeat(random(bodyBytesMax * 2)) + after;
  }
}

function mutatedSql(random: Random): string {
  let sql = pick(random, statements);
  for (let times = random(3); times > 0; times--) {
    const at = random(sql.length + 1);
    const rest = sql.slice(at);
    sql =
      sql.slice(0, at) +
      pick(random, [
        rest.slice(1),
        rest.slice(random(8)),
        `${pick(random, sqlPieces)}${rest}`,
        rest.slice(0, 5) + rest,
        String.fromCodePoint(random(0xd800)) + rest.slice(1),
      ]);
  }
  return sql;
}

/** The request that a text stands for by the specification, with its defaults, or null if the text must be refused. */
function judge(text: string): QueryRequest | null {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return null;
  }
  if (
    !isObject(body) ||
    !hasOnly(body, ['sql', 'session', 'pagination', 'integers', 'timeout_secs', 'result_timeout_secs'])
  )
    return null;
  if (nestingOf(text) > 1 + nestingMax) return null;
  const sql = own(body, 'sql');
  if (typeof sql !== 'string' || !sql.isWellFormed()) return null;
  const session = judgeSession(own(body, 'session') ?? (Object.hasOwn(body, 'session') ? null : {}));
  const pagination = judgePagination(own(body, 'pagination') ?? (Object.hasOwn(body, 'pagination') ? null : {}));
  const timeoutSecs = Object.hasOwn(body, 'timeout_secs')
    ? integer(body, 'timeout_secs', 0, 1, limits.statementTimeoutMs / 1_000)
    : null;
  if (Object.hasOwn(body, 'timeout_secs') && timeoutSecs === null) return null;
  const isKept = Object.hasOwn(body, 'result_timeout_secs');
  const kept = isKept ? integer(body, 'result_timeout_secs', 0, 1, limits.resultTimeoutMsMax / 1_000) : null;
  if (isKept && kept === null) return null;
  const integers = Object.hasOwn(body, 'integers') ? own(body, 'integers') : 'number';
  if (integers !== 'number' && integers !== 'string') return null;
  if (session === null || pagination === null) return null;
  return {
    sql,
    session,
    pagination,
    timeoutSecs,
    ...(integers === 'string' && { format: 'json, large integers as strings' }),
    ...(kept !== null && { resultTimeoutSecs: kept }),
  };
}

/** The nesting depth of lists and objects in a JSON text, including members that a later duplicate replaces. */
function nestingOf(text: string): number {
  let level = 0;
  let deepest = 0;
  for (const [bracket] of text.replaceAll(/"(?:[^"\\]|\\.)*"/gs, '').matchAll(/[[\]{}]/g)) {
    level += bracket === '[' || bracket === '{' ? 1 : -1;
    deepest = Math.max(deepest, level);
  }
  return deepest;
}

function judgeSession(session: unknown): QueryRequest['session'] | null {
  if (!isObject(session)) return null;
  if (Object.hasOwn(session, 'id')) {
    const id = own(session, 'id');
    return hasOnly(session, ['id']) && typeof id === 'string' ? { type: 'existing', id } : null;
  }
  if (!hasOnly(session, ['database', 'max_idle_time'])) return null;
  const database = Object.hasOwn(session, 'database') ? own(session, 'database') : '';
  const maxIdleSecs = integer(session, 'max_idle_time', 0, 0, 2_147_483_647);
  if (typeof database !== 'string' || !database.isWellFormed() || maxIdleSecs === null) return null;
  return { type: 'new', database: database === '' || database === 'default' ? null : database, maxIdleSecs };
}

function judgePagination(pagination: unknown): QueryRequest['pagination'] | null {
  if (!isObject(pagination) || !hasOnly(pagination, ['wait_time_secs', 'max_rows_per_page', 'max_rows_in_buffer']))
    return null;
  const wait = integer(pagination, 'wait_time_secs', 1, -2_147_483_648, 2_147_483_647);
  const maxRowsPerPage = integer(pagination, 'max_rows_per_page', 10_000, 1, limits.pageRowsMax);
  const maxRowsInBuffer = integer(pagination, 'max_rows_in_buffer', 5_000_000, 1, limits.bufferRowsMax);
  if (wait === null || maxRowsPerPage === null || maxRowsInBuffer === null) return null;
  return {
    waitSecs: wait < 0 ? limits.waitTimeMsMax / 1_000 : Math.min(wait, limits.waitTimeMsMax / 1_000),
    maxRowsPerPage,
    maxRowsInBuffer,
  };
}

function integer(owner: Json, name: string, byDefault: number, min: number, max: number): number | null {
  if (!Object.hasOwn(owner, name)) return byDefault;
  const value = own(owner, name);
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max ? value : null;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function hasOnly(value: Json, names: readonly string[]): boolean {
  return Object.keys(value).every((name) => names.includes(name));
}

function own(value: Json, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

/** The parser's result for a text. The test fails if the parser throws anything but a one-line refusal. */
function parsed(text: string): QueryRequest | null {
  try {
    return parse(Buffer.from(text), limits).request;
  } catch (error) {
    if (!(error instanceof InvalidRequestError)) throw error;
    if (!isOneLine(error.message))
      throw new Error(`the message is not one printable line: ${JSON.stringify(error.message)}`);
    return null;
  }
}

function isOneLine(text: string): boolean {
  return /^[\x20-\x7e]+$/.test(text) && text.length <= reasonLengthMax;
}

function basic(user: string): string {
  return `Basic ${Buffer.from(`${user}:`).toString('base64')}`;
}

function send(
  { url }: SluiceProcess,
  agent: Agent,
  headers: Readonly<Record<string, string>>,
  bytes: Buffer,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const all = { ...headers, 'Content-Length': `${bytes.length}` };
    const outgoing = request(`${url}/v1/query`, { agent, method: 'POST', headers: all }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('error', reject);
      incoming.on('end', () =>
        resolve({ status: incoming.statusCode ?? 0, text: `${Buffer.concat(chunks)}`.replace(/\n$/, '') }),
      );
    });
    outgoing.on('error', reject);
    outgoing.end(bytes);
  });
}
