import t from 'tap';
import { InvalidRequestError } from '#src/api/invalid-request.js';
import { parse as parseBody } from '#src/api/native/request.js';
import type { QueryRequest } from '#src/engine/query-request.js';
import { requestLimits } from '../../support/request-limits.ts';

const pagination = { waitSecs: 1, maxRowsPerPage: 10_000, maxRowsInBuffer: 5_000_000 };

function parse(body: unknown, changed: Partial<typeof requestLimits> = {}): QueryRequest {
  return parseText(JSON.stringify(body), { ...requestLimits, ...changed });
}

function parseText(text: string | Buffer, given = requestLimits): QueryRequest {
  return parseBody(Buffer.from(text as string), given).request;
}

function reasonAgainst(text: string | Buffer): string {
  try {
    parseText(text);
  } catch (error) {
    if (error instanceof InvalidRequestError) return error.message;
    throw error;
  }
  return 'accepted';
}

t.test('a request with only sql gets the defaults', async (t) => {
  t.strictSame(parse({ sql: 'SELECT 1' }), {
    sql: 'SELECT 1',
    session: { type: 'new', database: null, maxIdleSecs: 0 },
    pagination,
    timeoutSecs: null,
  });
});

t.test('the sql is not changed', async (t) => {
  for (const sql of ['', '  ', '-- x', 'SELECT "ä😀\u0000\n"', 'x'.repeat(1_000_000)]) {
    t.equal(parse({ sql }).sql, sql);
  }
});

t.test('a new session has a database and an idle time, each with its default', async (t) => {
  for (const [session, expected] of [
    [{}, { database: null, maxIdleSecs: 0 }],
    [{ database: 'shop' }, { database: 'shop', maxIdleSecs: 0 }],
    [{ database: 'default' }, { database: null, maxIdleSecs: 0 }],
    [{ database: '' }, { database: null, maxIdleSecs: 0 }],
    [{ max_idle_time: 10 }, { database: null, maxIdleSecs: 10 }],
    [{ max_idle_time: 0 }, { database: null, maxIdleSecs: 0 }],
    [{ max_idle_time: 2_147_483_647 }, { database: null, maxIdleSecs: 2_147_483_647 }],
    [
      { database: 'shop', max_idle_time: 1 },
      { database: 'shop', maxIdleSecs: 1 },
    ],
  ] as const) {
    t.strictSame(parse({ sql: '', session }).session, { type: 'new', ...expected }, JSON.stringify(session));
  }
});

t.test('a session with an id is an existing one', async (t) => {
  t.strictSame(parse({ sql: '', session: { id: 'abc' } }).session, { type: 'existing', id: 'abc' });
  t.strictSame(parse({ sql: '', session: { id: '' } }).session, { type: 'existing', id: '' });
});

t.test('each member of pagination may be omitted', async (t) => {
  for (const [given, expected] of [
    [{}, {}],
    [{ wait_time_secs: 7 }, { waitSecs: 7 }],
    [{ max_rows_per_page: 7 }, { maxRowsPerPage: 7 }],
    [{ max_rows_in_buffer: 7 }, { maxRowsInBuffer: 7 }],
    [
      { max_rows_per_page: 1, max_rows_in_buffer: 2 },
      { maxRowsPerPage: 1, maxRowsInBuffer: 2 },
    ],
  ] as const) {
    t.strictSame(
      parse({ sql: '', pagination: given }).pagination,
      { ...pagination, ...expected },
      JSON.stringify(given),
    );
  }
});

t.test('the wait time is clamped at both ends', async (t) => {
  for (const [asked, expected] of [
    [0, 0],
    [1, 1],
    [50, 50],
    [51, 50],
    [2_147_483_647, 50],
    [-1, 50],
    [-2_147_483_648, 50],
  ] as const) {
    t.equal(parse({ sql: '', pagination: { wait_time_secs: asked } }).pagination.waitSecs, expected, `${asked}`);
  }
  t.equal(parse({ sql: '' }, { waitTimeMsMax: 0 }).pagination.waitSecs, 0, 'the default is clamped too');
});

t.test('the row limits of a page and of the buffer are at least 1 and at most the options', async (t) => {
  const parsed = parse({ sql: '', pagination: { max_rows_per_page: 1_000_000, max_rows_in_buffer: 5_000_000 } });
  t.strictSame(parsed.pagination, { waitSecs: 1, maxRowsPerPage: 1_000_000, maxRowsInBuffer: 5_000_000 });
  t.strictSame(
    parse({ sql: '' }, { pageRowsMax: 10, bufferRowsMax: 20 }).pagination,
    { waitSecs: 1, maxRowsPerPage: 10, maxRowsInBuffer: 20 },
    'a default above the option becomes the option',
  );
});

t.test('integers may have any JSON spelling', async (t) => {
  const { waitSecs } = parseText('{"sql":"","pagination":{"wait_time_secs":2.0e0}}').pagination;
  t.equal(waitSecs, 2);
});

t.test('an invalid request is refused with the member and the reason', async (t) => {
  for (const [text, reason] of [
    ['[]', 'the body must be a JSON object'],
    ['null', 'the body must be a JSON object'],
    ['"SELECT 1"', 'the body must be a JSON object'],
    ['1', 'the body must be a JSON object'],
    ['{}', 'the member "sql" is missing'],
    ['{"SQL":"SELECT 1"}', 'the member "sql" is missing'],
    ['{"sql":null}', '"sql" must be a string'],
    ['{"sql":1}', '"sql" must be a string'],
    ['{"sql":["SELECT 1"]}', '"sql" must be a string'],
    ['{"sql":"","sqI":""}', 'unknown member "sqI"'],
    ['{"sql":"","__proto__":{}}', 'unknown member "__proto__"'],
    ['{"sql":"","constructor":{}}', 'unknown member "constructor"'],
    ['{"sql":"","session_id":"a"}', 'unknown member "session_id"'],
    ['{"sql":"","session":null}', '"session" must be a JSON object'],
    ['{"sql":"","session":"abc"}', '"session" must be a JSON object'],
    ['{"sql":"","session":[]}', '"session" must be a JSON object'],
    ['{"sql":"","session":{"ID":"a"}}', 'unknown member "session.ID"'],
    ['{"sql":"","session":{"id":1}}', '"session.id" must be a string'],
    ['{"sql":"","session":{"id":null}}', '"session.id" must be a string'],
    ['{"sql":"","session":{"database":null}}', '"session.database" must be a string'],
    ['{"sql":"","session":{"database":1}}', '"session.database" must be a string'],
    ['{"sql":"","session":{"max_idle_time":"1"}}', '"session.max_idle_time" must be an integer'],
    ['{"sql":"","session":{"max_idle_time":1.5}}', '"session.max_idle_time" must be an integer'],
    ['{"sql":"","session":{"max_idle_time":null}}', '"session.max_idle_time" must be an integer'],
    ['{"sql":"","session":{"max_idle_time":-1}}', '"session.max_idle_time" must be >= 0'],
    ['{"sql":"","session":{"max_idle_time":2147483648}}', '"session.max_idle_time" must be <= 2147483647'],
    [
      '{"sql":"","session":{"id":"a","database":"b"}}',
      '"session.database" cannot stand beside "session.id": an old session keeps what it was opened with',
    ],
    [
      '{"sql":"","session":{"max_idle_time":1,"id":"a"}}',
      '"session.max_idle_time" cannot stand beside "session.id": an old session keeps what it was opened with',
    ],
    ['{"sql":"","pagination":null}', '"pagination" must be a JSON object'],
    ['{"sql":"","pagination":[]}', '"pagination" must be a JSON object'],
    ['{"sql":"","pagination":{"wait":1}}', 'unknown member "pagination.wait"'],
    ['{"sql":"","pagination":{"wait_time_secs":"1"}}', '"pagination.wait_time_secs" must be an integer'],
    ['{"sql":"","pagination":{"wait_time_secs":0.5}}', '"pagination.wait_time_secs" must be an integer'],
    ['{"sql":"","pagination":{"wait_time_secs":true}}', '"pagination.wait_time_secs" must be an integer'],
    ['{"sql":"","pagination":{"wait_time_secs":2147483648}}', '"pagination.wait_time_secs" must be <= 2147483647'],
    ['{"sql":"","pagination":{"wait_time_secs":-2147483649}}', '"pagination.wait_time_secs" must be >= -2147483648'],
    ['{"sql":"","pagination":{"max_rows_per_page":0}}', '"pagination.max_rows_per_page" must be >= 1'],
    ['{"sql":"","pagination":{"max_rows_per_page":-1}}', '"pagination.max_rows_per_page" must be >= 1'],
    ['{"sql":"","pagination":{"max_rows_per_page":"1"}}', '"pagination.max_rows_per_page" must be an integer'],
    [
      '{"sql":"","pagination":{"max_rows_per_page":1000001}}',
      '"pagination.max_rows_per_page" is 1000001; it must be from 1 to 1000000',
    ],
    [
      '{"sql":"","pagination":{"max_rows_per_page":2147483648}}',
      '"pagination.max_rows_per_page" must be <= 2147483647',
    ],
    ['{"sql":"","pagination":{"max_rows_in_buffer":0}}', '"pagination.max_rows_in_buffer" must be >= 1'],
    ['{"sql":"","pagination":{"max_rows_in_buffer":1e3.5}}', /^the body is not JSON: /],
    [
      '{"sql":"","pagination":{"max_rows_in_buffer":5000001}}',
      '"pagination.max_rows_in_buffer" is 5000001; it must be from 1 to 5000000',
    ],
    ['{"sql":"","pagination":{"max_rows_in_buffer":1e300}}', '"pagination.max_rows_in_buffer" must be <= 2147483647'],
    ['', /^the body is not JSON: /],
    ['{', /^the body is not JSON: /],
    ["{'sql':''}", /^the body is not JSON: /],
    ['{"sql":""} {}', /^the body is not JSON: /],
    ['{"sql":"a\nb"}', /^the body is not JSON: /],
  ] as [string, string | RegExp][]) {
    const given = reasonAgainst(text);
    if (typeof reason === 'string') t.equal(given, reason, text);
    else t.match(given, reason, text);
  }
});

t.test('a refusal is one printable line of limited length for any body', async (t) => {
  for (const text of [
    '{"sql":"","a\\r\\nb\\u0000":1}',
    `{"sql":"","${'x'.repeat(100_000)}":1}`,
    '{"sql":"","session":{"ä😀":1}}',
    '\u0000\n\n',
    `${'['.repeat(10_000)}`,
    `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
    `{"sql":"","session":${'['.repeat(10_000)}${']'.repeat(10_000)}}`,
  ]) {
    const reason = reasonAgainst(text);
    t.not(reason, 'accepted');
    t.match(reason, /^[\x20-\x7e]{1,300}$/, JSON.stringify(text.slice(0, 40)));
  }
});

t.test('a member named __proto__ changes no object', async (t) => {
  reasonAgainst('{"sql":"","__proto__":{"polluted":1},"session":{"__proto__":{"polluted":1}}}');
  t.equal(({} as { polluted?: number }).polluted, undefined);
  t.equal(reasonAgainst('{"sql":"","session":{"__proto__":{"id":"a"}}}'), 'unknown member "session.__proto__"');
});

t.test('the last of duplicate members counts', async (t) => {
  t.equal(parseText('{"sql":"a","sql":"b"}').sql, 'b');
});

t.test('E (result_timeout_secs): it is accepted within the limit of the option, and refused beyond', async (t) => {
  t.equal(parse({ sql: '' }).resultTimeoutSecs, undefined);
  t.equal(parse({ sql: '', result_timeout_secs: 1 }).resultTimeoutSecs, 1);
  t.equal(parse({ sql: '', result_timeout_secs: 3_600 }).resultTimeoutSecs, 3_600);
  t.equal(
    reasonAgainst('{"sql":"","result_timeout_secs":3601}'),
    '"result_timeout_secs" is 3601; it must be from 1 to 3600',
  );
  t.equal(reasonAgainst('{"sql":"","result_timeout_secs":0}'), '"result_timeout_secs" must be >= 1');
  t.equal(reasonAgainst('{"sql":"","result_timeout_secs":"60"}'), '"result_timeout_secs" must be an integer');
});

t.test('A7: a list of scalars in params is a list of values; other lists are refused', async (t) => {
  t.strictSame(parse({ sql: '', params: [[1, 'a', null, true, 0.5], 2] }).params, [[1, 'a', null, true, 0.5], 2]);
  t.strictSame(parse({ sql: '', params: { ids: [1, 2] } }).params, { ids: [1, 2] });
  t.strictSame(parse({ sql: '', params: [{ a: [1, []] }, '[1]'] }).params, ['{"a":[1,[]]}', '[1]'], 'JSON text');
  t.match(reasonAgainst('{"sql":"","params":[1,[]]}'), /^"params\[1\]" is an empty list/);
  t.match(reasonAgainst('{"sql":"","params":{"ids":[]}}'), /^"params.ids" is an empty list/);
  for (const list of ['[[1]]', '[1,{}]']) {
    t.match(
      reasonAgainst(`{"sql":"","params":[${list}]}`),
      /^"params\[0\]" is a list that contains a list or an object/,
    );
  }
});

t.test('A7: inexact numbers in params are refused, including fractions', async (t) => {
  for (const number of ['0.12345678901234567890', '9007199254740993', '1e400']) {
    const reason = reasonAgainst(`{"sql":"","params":[{"a":${number}}]}`);
    t.equal(
      reason,
      `"params[0]" is or contains the number ${number}, which a JSON number (a double) does not carry exactly; send it as a string`,
    );
  }
  t.strictSame(parseText('{"sql":"","params":[0.1,1e3,1.50,100.0,5e-1]}').params, [0.1, 1000, 1.5, 100, 0.5]);
});

t.test('invalid UTF-8 is refused', async (t) => {
  for (const hex of ['ff', 'c328', 'e28228', 'c0af', 'eda080', 'f4908080', '7b22c3', 'fffe7b00']) {
    t.equal(reasonAgainst(Buffer.from(hex, 'hex')), 'the body is not UTF-8', hex);
  }
});

t.test(
  'half of a surrogate pair, which UTF-8 cannot express, is refused where it would reach the database',
  async (t) => {
    for (const [text, place] of [
      ['{"sql":"SELECT \'\\ud800\'"}', 'sql'],
      ['{"sql":"SELECT \'\\udc00\\ud800\'"}', 'sql'],
      ['{"sql":"","params":["a","😀\\ude00"]}', 'params[1]'],
      ['{"sql":"","params":["a",[1,"b\\ud83d"]]}', 'params[1]'],
      ['{"sql":"","params":{"a":"\\ud800x"}}', 'params.a'],
      ['{"sql":"","session":{"database":"\\ud800"}}', 'session.database'],
    ] as const) {
      t.equal(
        reasonAgainst(text),
        `"${place}" contains half of a surrogate pair (such as \\ud800), which is no character and has no form in UTF-8`,
        text,
      );
    }
    const whole = parseText('{"sql":"\\ud83d\\ude00","params":["\\ud83d\\ude00",{"a":"\\ud800"}]}');
    t.equal(whole.sql, '😀');
    t.strictSame(whole.params, ['😀', '{"a":"\\ud800"}'], 'JSON text keeps it unchanged');
  },
);

t.test('E (integers): 64-bit integers are requested as strings, or as numbers, which is the default', async (t) => {
  t.equal(parse({ sql: '' }).format, undefined);
  t.equal(parse({ sql: '', integers: 'number' }).format, undefined);
  t.equal(parse({ sql: '', integers: 'string' }).format, 'json, large integers as strings');
  for (const integers of ['strings', '', 64, null, true]) {
    t.equal(reasonAgainst(JSON.stringify({ sql: '', integers })), '"integers" must be "number" or "string"');
  }
});
