import t from 'tap';
import { type DatabendRequest, parse as parseBody, requestOf } from '#src/api/databend/request.js';
import { SessionTokens } from '#src/api/databend/session.js';
import { InvalidRequestError } from '#src/api/invalid-request.js';
import { requestLimits } from '../../support/request-limits.ts';

const limits = { ...requestLimits, clientSessionBytesMax: 1_024 };
const context = { user: 'ann', client: null, tokens: new SessionTokens(), limits };

function parse(body: unknown, changed: Partial<typeof context> = {}): DatabendRequest {
  return parseText(JSON.stringify(body), { ...context, ...changed });
}

function parseText(text: string, given = context): DatabendRequest {
  return requestOf(parseBody(Buffer.from(text), given.limits), given);
}

t.test('a request with only sql gets the defaults', async (t) => {
  t.strictSame(parse({ sql: 'SELECT 1' }), {
    session: {},
    request: {
      sql: 'SELECT 1',
      session: { type: 'client-managed', database: null, variables: {}, client: null },
      pagination: { waitSecs: 10, maxRowsPerPage: 10_000, maxRowsInBuffer: 5_000_000 },
      timeoutSecs: null,
      format: 'json strings',
    },
  });
});

t.test('a null member equals an omitted one', async (t) => {
  const pagination = { wait_time_secs: null, max_rows_per_page: null, max_rows_in_buffer: null };
  for (const body of [
    { sql: 'x', session: null, pagination: null, params: null, stage_attachment: null },
    { sql: 'x', session: { database: null, settings: null, internal: null, txn_state: null }, pagination },
  ]) {
    t.strictSame(parse(body).request, parse({ sql: 'x' }).request);
  }
});

t.test('unknown members are ignored, and returned in the session', async (t) => {
  const session = {
    catalog: 'default',
    database: 'shop',
    role: 'r',
    secondary_roles: null,
    need_sticky: false,
    more: [1],
  };
  const read = parse({ sql: 'x', session, string_fields: true, more: {}, pagination: { more: 1 } });
  t.strictSame(read.session, session);
  t.equal(read.request.session.type === 'client-managed' && read.request.session.database, 'shop');
});

t.test('settings are variables, except those of the client alone', async (t) => {
  const settings = { sql_mode: 'ANSI', timezone: 'UTC', format_null_as_str: '1' };
  const { request } = parse({ sql: 'x', session: { settings } }, { client: null });
  t.match(request, { format: 'json strings, NULL too', session: { variables: { sql_mode: 'ANSI', timezone: 'UTC' } } });
  t.notMatch(request.session, { variables: { format_null_as_str: String } });
  t.equal(parse({ sql: 'x', session: { settings: { format_null_as_str: '0' } } }).request.format, 'json strings');
});

t.test('a session token selects the pinned session', async (t) => {
  const id = 'ab'.repeat(16);
  const internal = context.tokens.issue(id, 'ann');
  const otherwise = { type: 'client-managed', database: null, variables: {}, client: null };
  t.strictSame(parse({ sql: 'x', session: { internal } }).request.session, { type: 'existing', id, otherwise });
  t.throws(() => parse({ sql: 'x', session: { internal: `${internal}x` } }), InvalidRequestError);
  t.throws(() => parse({ sql: 'x', session: { internal } }, { user: 'bob' }), InvalidRequestError);
});

t.test('page sizes beyond the limit are accepted and clamped', async (t) => {
  const { pagination } = parse({
    sql: 'x',
    pagination: { wait_time_secs: 99, max_rows_per_page: 1e15, max_rows_in_buffer: 1e15 },
  }).request;
  t.strictSame(pagination, { waitSecs: 50, maxRowsPerPage: 1_000_000, maxRowsInBuffer: 5_000_000 });
  t.equal(parse({ sql: 'x', pagination: { wait_time_secs: -1 } }).request.pagination.waitSecs, 50);
});

t.test('params are values for placeholders, by position or by name', async (t) => {
  t.strictSame(parse({ sql: 'x', params: [1, 'a', null, true, 0.5, { a: [1] }, [2]] }).request.params, [
    ...[1, 'a', null, true, 0.5, '{"a":[1]}', '[2]'],
  ]);
  t.strictSame(parse({ sql: 'x', params: { a: 1, b: {} } }).request.params, { a: 1, b: '{}' });
  t.strictSame(parse({ sql: 'x', params: [] }).request.params, []);
  t.throws(() => parse({ sql: 'x', params: [2 ** 53] }), /"params\[0\]".*as a string/);
});

t.test('an invalid request is refused with a reason', async (t) => {
  for (const [text, reason] of [
    ['{', /not JSON/],
    ['[]', /the body must be a JSON object/],
    ['{}', /the member "sql" is missing/],
    ['{"sql":1}', /"sql" must be a string/],
    ['{"sql":"x","session":1}', /"session" must be a JSON object or a null/],
    ['{"sql":"x","session":{"settings":{"a":1}}}', /"session.settings.a" must be a string/],
    ['{"sql":"x","pagination":{"max_rows_per_page":0}}', /"pagination.max_rows_per_page" must be >= 1/],
    ['{"sql":"x","stage_attachment":{"location":"@s"}}', /there are no stages/],
    [JSON.stringify({ sql: 'x', session: { role: 'x'.repeat(1_024) } }), /--client_session_bytes_max/],
  ] as const) {
    t.throws(() => parseText(text), reason, text.slice(0, 100));
  }
  t.ok(parse({ sql: 'x'.repeat(5_000), session: { role: 'r' } }), 'a long statement does not count as session');
});

t.test('A7: a list in params is bound as its JSON text, and inexact numbers are refused', async (t) => {
  t.strictSame(parse({ sql: 'x', params: [[1, 'a'], [], [[{}]]] }).request.params, ['[1,"a"]', '[]', '[[{}]]']);
  t.throws(() => parseText('{"sql":"x","params":[[0.12345678901234567890]]}'), /"params\[0\]".*as a string/);
  const nested = (levels: number) => `{"sql":"x","params":[${'['.repeat(levels)}${']'.repeat(levels)}]}`;
  t.ok(parseText(nested(100)));
  t.throws(() => parseText(nested(101)), /"params\[0\]" is nested deeper than 100 levels/);
});

t.test(
  'half of a surrogate pair, which UTF-8 cannot express, is refused where it would reach the database',
  async (t) => {
    for (const [body, place] of [
      [{ sql: "SELECT '\ud800'" }, 'sql'],
      [{ sql: 'x', params: ['a\udc00'] }, 'params[0]'],
      [{ sql: 'x', session: { database: '\ud800' } }, 'session.database'],
      [{ sql: 'x', session: { settings: { sql_mode: '\ud800' } } }, 'session.settings.sql_mode'],
      [{ sql: 'x', session: { settings: { '\ud800': '' } } }, 'session.settings'],
    ] as const) {
      t.throws(
        () => parse(body),
        new RegExp(`^"${place.replaceAll(/[[\]]/g, '\\$&')}" contains half of a surrogate pair`),
        place,
      );
    }
    const session = { role: '\ud800' };
    t.strictSame(
      parse({ sql: 'x', session }).session,
      session,
      'members that only the client reads are returned unchanged',
    );
  },
);

t.test('E (http_handler_result_timeout_secs): it sets how long the result is kept, within the limit', async (t) => {
  const read = (secs: string) => parse({ sql: 'x', session: { settings: { http_handler_result_timeout_secs: secs } } });
  t.equal(read('120').request.resultTimeoutSecs, 120);
  t.equal(read('3601').request.resultTimeoutSecs, 3_600);
  for (const secs of ['0', '-1', '1.5', 'x', '', '9'.repeat(10)])
    t.notOk('resultTimeoutSecs' in read(secs).request, secs);
  t.strictSame(read('120').request.session, { type: 'client-managed', database: null, variables: {}, client: null });
});
