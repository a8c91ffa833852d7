import { hash } from 'node:crypto';
import { deserialize } from 'node:v8';
import t, { type Test } from 'tap';
import type { BodyFormat, ParsedBody } from '#src/api/body.js';
import { BodyParser, type BodyToParse, type Parsed } from '#src/api/body-parser.js';
import { databendBodies } from '#src/api/databend/request.js';
import { nativeBodies } from '#src/api/native/request.js';
import { HttpError } from '#src/http/http-error.js';
import { RequestAbortedError } from '#src/refusal-error.js';
import { traitsOf } from '#src/wire/sql-traits.js';
import { requestLimits } from '../support/request-limits.ts';

const KIB = 1024;

t.test('B2: a small body is parsed at once and a large one in another thread, with the same result', async (t) => {
  const parser = open(t);
  for (const format of [nativeBodies, databendBodies] as BodyFormat[]) {
    const isNative = format === nativeBodies;
    const given = (length: number) => ({
      sql: `SELECT '${'ä'.repeat(length)}', ?, ? FROM a WITH ROLLUP`,
      params: [1, ['x']],
    });
    const text = (length: number) => JSON.stringify(given(length));
    const small = parser.parse(body(text(1), { format, wantsDigest: true }));
    if (small instanceof Promise) throw new Error('it was not parsed at once');
    const large = parser.parse(body(text(200 * KIB), { format, wantsDigest: true }));
    t.type(large, Promise);
    const { body: parsed, digest } = await large;
    t.equal(digest, hash('sha256', text(200 * KIB), 'base64'));
    const { sql, params, traits, ...rest } = parsed.request;
    t.equal(sql, given(200 * KIB).sql);
    const at = sql.indexOf('?');
    const packed = {
      params: isNative ? [1, ['x']] : [1, '["x"]'],
      placeholders: isNative ? Uint32Array.of(at, at + 1, at + 3, at + 4) : null,
    };
    t.strictSame(deserialize(params as Uint8Array), packed, 'the params are packed');
    t.strictSame(traits, traitsOf(sql));
    t.match(traits, { effect: 'read', firstWord: 'SELECT', hasRollup: true, locksRows: false });
    const { sql: _, params: __, ...smallRest } = small.body.request;
    t.strictSame(rest, smallRest);
  }
});

t.test('B2: a large body that is refused gives its reason', async (t) => {
  const parser = open(t);
  for (const [text, reason] of [
    [`{"sql":"","params":[${'1,'.repeat(100 * KIB)}`, /--params_max/],
    [`{"sql":"x"${' '.repeat(100 * KIB)}`, /not JSON/],
    [`{"sql":1${' '.repeat(100 * KIB)}}`, /"sql" must be a string/],
  ] as const) {
    const error = await errorOf(async () => parser.parse(body(text)));
    t.type(error, HttpError);
    t.match(error, { status: 400, message: reason });
  }
});

t.test('B2: large bodies are parsed one at a time, alternating between users', async (t) => {
  const parser = open(t);
  const order: string[] = [];
  const large = `{"sql":"${'x'.repeat(100 * KIB)}"}`;
  const parse = async (user: string): Promise<void> => {
    await parser.parse(body(large, { user }));
    order.push(user);
  };
  await Promise.all(['greedy', 'greedy', 'greedy', 'greedy', 'modest'].map(parse));
  t.ok(order.indexOf('modest') <= 2, `${order}`);
});

t.test('B2: the wait of a large body ends with its client, and the number of waiting bodies is limited', async (t) => {
  const parser = open(t, 1);
  const large = `{"sql":"${'x'.repeat(100 * KIB)}"}`;
  const first = parser.parse(body(large));
  const second = errorOf(async () => parser.parse(body(large, { isAbandoned: () => true })));
  const third = await errorOf(async () => parser.parse(body(large)));
  t.match(third, { status: 503, message: /--queue_max/ });
  t.ok(await first);
  t.type(await second, RequestAbortedError);
});

function open(t: Test, waitingMax = 100): BodyParser {
  const parser = new BodyParser({ limits: requestLimits, queueMax: waitingMax, queueWaitMs: 60_000 }, () => {});
  t.teardown(() => parser[Symbol.asyncDispose]());
  return parser;
}

function body(text: string, changed: Partial<BodyToParse<ParsedBody>> = {}): BodyToParse<ParsedBody> {
  // In memory of its own, like a body from the network.
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return { user: 'ann', format: nativeBodies, bytes, wantsDigest: false, isAbandoned: () => false, ...changed };
}

async function errorOf(parse: () => Promise<Parsed<ParsedBody>>): Promise<unknown> {
  return parse().then(
    () => null,
    (error: unknown) => error,
  );
}
