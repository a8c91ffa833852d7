import t from 'tap';
import { pageBody, statsBody } from '#src/api/native/response.js';
import { EncodedText } from '#src/http/encoded-text.js';
import type { BodyParts } from '#src/http/reply.js';
import type { Page } from '#src/query/pages.js';
import { noRows } from '#src/query/ring.js';
import { running } from '#src/query/state.js';
import { failureOf } from '#src/wire/failures.js';
import type { Column, ColumnType } from '#src/wire/statement.js';

const identity = { id: 'abc', sessionId: 'def', owner: 'ann' };
const stats = {
  runningMs: 12.5,
  scan: { rows: 9, bytes: 8, known: true, estimatedRows: 90 },
  write: { rows: 7, bytes: 0 },
  result: { rows: 5, bytes: 4 },
  spill: { rows: 3, bytes: 2 },
  queue: null,
};
const column: Column = { name: 'n', type: { name: 'Int64' }, nullable: true };
const outcome = { affectedRows: '0', lastInsertId: null, warnings: 0 };
const page: Page = { number: 0, next: 1, rows: noRows, state: running, columns: [column], stats };

const statsText =
  '"stats":{"running_time_ms":12.5,' +
  '"scan_progress":{"rows":9,"bytes":8,"read_rows":9,"read_bytes":8,"known":true,"estimated_rows":90},' +
  '"write_progress":{"rows":7,"bytes":0,"read_rows":7,"read_bytes":0},' +
  '"result_progress":{"rows":5,"bytes":4,"read_rows":5,"read_bytes":4},' +
  '"spill_progress":{"rows":3,"bytes":2,"read_rows":3,"read_bytes":2},"queue":null}';
const urisText =
  '"stats_uri":"/v1/query/abc","final_uri":"/v1/query/abc/kill?delete=true","kill_uri":"/v1/query/abc/kill"';
const members = [
  'id',
  'session_id',
  'state',
  'error',
  'schema',
  'data',
  'stats',
  'affected_rows',
  'last_insert_id',
  'warnings',
  'stats_uri',
  'final_uri',
  'kill_uri',
  'next_uri',
];

function textOf(parts: BodyParts): string {
  const bytes = parts.map((part) => (part instanceof EncodedText ? part.bytes : Buffer.from(part as string)));
  return Buffer.concat(bytes).toString();
}

function piecesOf(...texts: string[]): Page['rows'] {
  const pieces = texts.map((text) => Buffer.from(text));
  return { pieces, count: texts.length, bytes: texts.join(',').length, heldBytes: 0 };
}

t.test('the exact response to a running query', async (t) => {
  t.equal(
    textOf(pageBody(identity, { ...page, rows: piecesOf('[1],[2]', '[3]') })),
    '{"id":"abc","session_id":"def","state":"Running","error":null,' +
      '"schema":{"fields":[{"name":"n","data_type":{"type":"Int64"},"nullable":true,"default_expr":null}],' +
      `"metadata":{}},"data":[[1],[2],[3]],${statsText},"affected_rows":0,"last_insert_id":null,"warnings":0,` +
      `${urisText},"next_uri":"/v1/query/abc/page/1"}`,
  );
});

t.test('the exact response to a query whose columns are not known', async (t) => {
  t.equal(
    textOf(pageBody(identity, { ...page, columns: [], next: 0 })),
    '{"id":"abc","session_id":"def","state":"Running","error":null,"schema":{"fields":[],"metadata":{}},' +
      `"data":[],${statsText},"affected_rows":0,"last_insert_id":null,"warnings":0,` +
      `${urisText},"next_uri":"/v1/query/abc/page/0"}`,
  );
});

t.test('the exact last response to a query that succeeded', async (t) => {
  const state = { name: 'Succeeded', outcome: { affectedRows: '3', lastInsertId: '42', warnings: 2 } } as const;
  t.equal(
    textOf(pageBody(identity, { ...page, columns: [], next: null, state })),
    '{"id":"abc","session_id":"def","state":"Succeeded","error":null,"schema":{"fields":[],"metadata":{}},' +
      `"data":[],${statsText},"affected_rows":3,"last_insert_id":42,"warnings":2,${urisText},"next_uri":null}`,
  );
});

t.test('the exact response to a query that failed', async (t) => {
  const cause = { code: 1064, sqlstate: '42000', message: 'near "x"\nat line 1' };
  const failure = failureOf(cause, 'not_started');
  t.equal(
    textOf(pageBody(identity, { ...page, columns: [], next: null, state: { name: 'Failed', failure } })),
    '{"id":"abc","session_id":"def","state":"Failed","error":{"stats":1064,"code":1064,"sqlstate":"42000",' +
      '"message":"near \\"x\\"\\nat line 1","outcome":"not_started","retryable":false,"backtrace":""},"schema":{"fields":[],"metadata":{}},' +
      `"data":[],${statsText},"affected_rows":0,"last_insert_id":null,"warnings":0,${urisText},"next_uri":null}`,
  );
});

t.test('the answer to stats_uri is the same without rows, and names the next page', async (t) => {
  const text = textOf(statsBody(identity, { state: running, columns: [column], stats }, 3));
  t.equal(text, textOf(pageBody(identity, { ...page, next: 3 })));
  t.match(text, /"data":\[\],/);
});

t.test('all members are always present, in order', async (t) => {
  const failure = failureOf({ code: 1, sqlstate: 'HY000', message: '' }, 'unknown');
  for (const state of [
    running,
    { name: 'Succeeded', outcome } as const,
    { name: 'Failed', failure } as const,
  ] as const) {
    for (const body of [
      pageBody(identity, { ...page, state }),
      statsBody(identity, { state, columns: [], stats }, null),
    ]) {
      t.strictSame(Object.keys(JSON.parse(textOf(body))), members, state.name);
    }
  }
});

t.test('a response without a session id has an empty one', async (t) => {
  t.match(textOf(statsBody({ ...identity, sessionId: '' }, page, null)), /"session_id":"",/);
});

t.test('E (integers): with integers as strings, so is last_insert_id', async (t) => {
  const state = {
    name: 'Succeeded',
    outcome: { affectedRows: '3', lastInsertId: '9007199254740993', warnings: 0 },
  } as const;
  const body = pageBody(identity, { ...page, state }, 'string');
  t.match(textOf(body), '"affected_rows":3,"last_insert_id":"9007199254740993",');
  t.match(textOf(pageBody(identity, page, 'string')), '"last_insert_id":null,');
});

t.test('counts keep their digits beyond 2^53', async (t) => {
  const state = {
    name: 'Succeeded',
    outcome: { affectedRows: '18446744073709551615', lastInsertId: '9007199254740993', warnings: 65535 },
  } as const;
  t.match(
    textOf(pageBody(identity, { ...page, state })),
    '"affected_rows":18446744073709551615,"last_insert_id":9007199254740993,"warnings":65535,',
  );
});

t.test('rows are passed on byte by byte', async (t) => {
  const row = '[18446744073709551615,0.10,"\\u0000é😀",null]';
  const parts = pageBody(identity, { ...page, rows: piecesOf(row, row) });
  t.match(textOf(parts), `"data":[${row},${row}],`);
});

t.test('every type has its name, and its digits if it has any', async (t) => {
  const types: [ColumnType, string][] = [
    [{ name: 'UInt64' }, '{"type":"UInt64"}'],
    [{ name: 'Variant' }, '{"type":"Variant"}'],
    [{ name: 'Null' }, '{"type":"Null"}'],
    [{ name: 'Decimal', precision: 10, scale: 2 }, '{"type":"Decimal","precision":10,"scale":2}'],
    [{ name: 'Timestamp', precision: 6 }, '{"type":"Timestamp","precision":6}'],
    [{ name: 'Time', precision: 0 }, '{"type":"Time","precision":0}'],
  ];
  for (const [type, expected] of types) {
    const text = textOf(statsBody(identity, { ...page, columns: [{ name: 'c', type, nullable: false }] }, null));
    t.ok(text.includes(`{"name":"c","data_type":${expected},"nullable":false,"default_expr":null}`), expected);
  }
});

t.test('column names are any text and may be repeated', async (t) => {
  const names = ['', '"', 'ä\n', 'n', 'n', '__proto__'];
  const text = textOf(statsBody(identity, { ...page, columns: names.map((name) => ({ ...column, name })) }, null));
  const { schema } = JSON.parse(text) as { schema: { fields: { name: string }[] } };
  t.strictSame(
    schema.fields.map(({ name }) => name),
    names,
  );
});

t.test('a long schema is encoded once for all answers about a result', async (t) => {
  const columns = Array.from({ length: 1_000 }, (_, number) => ({ ...column, name: `"größe" 語 ${number}` }));
  const first = pageBody(identity, { ...page, columns, rows: piecesOf('[1],[2]', '[3]') });
  const fields = columns.map(
    ({ name }) => `{"name":${JSON.stringify(name)},"data_type":{"type":"Int64"},"nullable":true,"default_expr":null}`,
  );
  t.equal(
    textOf(first),
    '{"id":"abc","session_id":"def","state":"Running","error":null,' +
      `"schema":{"fields":[${fields}],"metadata":{}},"data":[[1],[2],[3]],${statsText},` +
      `"affected_rows":0,"last_insert_id":null,"warnings":0,${urisText},"next_uri":"/v1/query/abc/page/1"}`,
  );
  const encoded = (parts: BodyParts) => parts.find((part) => part instanceof EncodedText);
  t.ok(encoded(first));
  t.equal(encoded(pageBody(identity, { ...page, columns, number: 1 })), encoded(first));
  t.equal(encoded(statsBody(identity, { ...page, columns }, null)), encoded(first));
});
