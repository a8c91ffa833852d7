import { randomBytes } from 'node:crypto';
import { constants, deflateRawSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { figure } from '../support/form.ts';
import { type connectTo, exchange, requestText } from '../support/raw-http.ts';
import { type DatabaseServer, sharedServers } from '../support/servers.ts';
import {
  type Credentials,
  get,
  post,
  type QueryResponse,
  query,
  type SluiceProcess,
  startSluice,
} from '../support/sluice.ts';
import { until } from '../support/until.ts';

/*
 * Malformed, oversized and hostile requests. After each row of the tables, the service must still answer its other
 * users, exceed no connection limit and have no abandoned statement in the database. A statement of another user, which
 * has been running since before the first row, must be unaffected.
 */

const KIB = 1024;
const MIB = 1024 * KIB;
// More than the largest body that is refused for another reason.
const BODY_BYTES_MAX = figure(8, 16) * MIB;
const ROW_BYTES_MAX = figure(17, 64) * MIB;
const REQUEST_TIMEOUT_SECS = 2;
const CONNECTIONS_MAX = 8;
const WORKER_THREADS = 2;

interface Target {
  readonly sluice: SluiceProcess;
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly authorization: string;
  /** The name of the user's own database, which is empty. */
  readonly database: string;
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** The expected answer: a status with the reason, or a 200 with a state and the codes of possible errors. */
type Expected =
  | { readonly status: number; readonly reason: RegExp }
  | { readonly state: 'Succeeded'; readonly data?: unknown }
  | { readonly state: 'Failed'; readonly codes: readonly number[]; readonly message?: RegExp }
  | { readonly body: string };

type Row = readonly [name: string, send: (target: Target) => Promise<Answer>, expected: Expected];

const refused = (status: number, reason: RegExp): Expected => ({ status, reason });
const succeeded = (data?: unknown): Expected =>
  data === undefined ? { state: 'Succeeded' } : { state: 'Succeeded', data };
const failed = (...codes: number[]): Expected => ({ state: 'Failed', codes });

const bodyRows: readonly Row[] = [
  ['an empty body', body(''), refused(400, /not JSON/)],
  ['text', body('SELECT 1'), refused(400, /not JSON/)],
  ['half of a JSON text', body('{"sql":"SELECT 1"'), refused(400, /not JSON/)],
  ['JSON with trailing text', body('{"sql":"SELECT 1"} {}'), refused(400, /not JSON/)],
  ['a trailing comma', body('{"sql":"SELECT 1",}'), refused(400, /not JSON/)],
  ['single quotes', body("{'sql':'SELECT 1'}"), refused(400, /not JSON/)],
  ['a raw line break in a string', body('{"sql":"SELECT\n1"}'), refused(400, /not JSON/)],
  ['a byte order mark', body('\ufeff{"sql":"SELECT 1"}'), refused(400, /not JSON/)],
  ['NUL bytes', body('\0\0\0\0'), refused(400, /not JSON/)],
  ['a comment in JSON', body('{"sql":"SELECT 1"/* */}'), refused(400, /not JSON/)],
  ['NaN', body('{"sql":"SELECT 1","pagination":{"wait_time_secs":NaN}}'), refused(400, /not JSON/)],
  ['null', body('null'), refused(400, /must be a JSON object/)],
  ['an array', body('["SELECT 1"]'), refused(400, /must be a JSON object/)],
  ['a string', body('"SELECT 1"'), refused(400, /must be a JSON object/)],
  ['a number', body('1'), refused(400, /must be a JSON object/)],
  ['true', body('true'), refused(400, /must be a JSON object/)],
  ['an empty object', body('{}'), refused(400, /"sql" is missing/)],
  ['the last of two equal members counts', body('{"sql":"SELEC","sql":"SELECT 2"}'), succeeded([[2]])],
  [
    'equal members in pagination',
    body('{"sql":"SELECT 2","pagination":{"wait_time_secs":1,"wait_time_secs":"x"}}'),
    refused(400, /integer/),
  ],
  ['__proto__', body('{"sql":"SELECT 1","__proto__":{"admin":true}}'), refused(400, /unknown member "__proto__"/)],
  ['__proto__ with the sql', body('{"__proto__":{"sql":"SELECT 1"}}'), refused(400, /__proto__|"sql" is missing/)],
  [
    '__proto__ in the session',
    body('{"sql":"SELECT 1","session":{"__proto__":{"id":"x"}}}'),
    refused(400, /"session.__proto__"/),
  ],
  [
    'constructor',
    body('{"sql":"SELECT 1","constructor":{"prototype":{}}}'),
    refused(400, /unknown member "constructor"/),
  ],
  ['toString', body('{"sql":"SELECT 1","session":{"toString":1}}'), refused(400, /"session.toString"/)],
  ['an unknown member', body('{"sql":"SELECT 1","sqll":""}'), refused(400, /unknown member "sqll"/)],
  ['a member in another case', body('{"SQL":"SELECT 1"}'), refused(400, /"SQL"|"sql" is missing/)],
  ['an unknown member of the session', body('{"sql":"SELECT 1","session":{"db":"x"}}'), refused(400, /"session.db"/)],
  [
    'an unknown member of the pagination',
    body('{"sql":"SELECT 1","pagination":{"wait":1}}'),
    refused(400, /"pagination.wait"/),
  ],
  [
    'a member whose name is long',
    body(`{"sql":"SELECT 1","${'n'.repeat(100_000)}":1}`),
    refused(400, /unknown member "n+"/),
  ],
  [
    'a member whose name is not ASCII',
    body('{"sql":"SELECT 1","größe\\r\\nX: y":1}'),
    refused(400, /unknown member "gr.*"/),
  ],
  [
    'an existing session with a database',
    body('{"sql":"SELECT 1","session":{"id":"x","database":"y"}}'),
    refused(400, /"session.database" cannot/),
  ],
  [
    'an existing session with an idle time',
    body('{"sql":"SELECT 1","session":{"id":"x","max_idle_time":9}}'),
    refused(400, /"session.max_idle_time" cannot/),
  ],
  ...([null, 1, true, ['SELECT 1'], { text: 'SELECT 1' }] as const).map(
    (sql): Row => [
      `sql: ${JSON.stringify(sql)}`,
      body(JSON.stringify({ sql })),
      refused(400, /"sql" must be a string/),
    ],
  ),
  ...([null, 'x', 1, [], false] as const).flatMap((value): Row[] => [
    [`session: ${JSON.stringify(value)}`, json({ session: value }), refused(400, /"session" must be a JSON object/)],
    [
      `pagination: ${JSON.stringify(value)}`,
      json({ pagination: value }),
      refused(400, /"pagination" must be a JSON object/),
    ],
  ]),
  ...([1, null, {}, []] as const).flatMap((value): Row[] => [
    [
      `session.id: ${JSON.stringify(value)}`,
      json({ session: { id: value } }),
      refused(400, /"session.id" must be a string/),
    ],
    [
      `session.database: ${JSON.stringify(value)}`,
      json({ session: { database: value } }),
      refused(400, /"session.database" must be a string/),
    ],
  ]),
  ...['2147483648', '-2147483649', '1e10', '9223372036854775808', '1e308', '-1e400', '9'.repeat(500)].map(
    (number): Row => [
      `wait_time_secs: ${number.slice(0, 20)}`,
      body(`{"sql":"SELECT 1","pagination":{"wait_time_secs":${number}}}`),
      refused(400, /"pagination.wait_time_secs"/),
    ],
  ),
  ...['1.5', '"1"', 'null', 'true', '[1]', '{}', '0.0000001'].flatMap((number): Row[] =>
    ['wait_time_secs', 'max_rows_per_page', 'max_rows_in_buffer'].map((member) => [
      `${member}: ${number}`,
      body(`{"sql":"SELECT 1","pagination":{"${member}":${number}}}`),
      refused(400, new RegExp(`"pagination.${member}" must be an integer`)),
    ]),
  ),
  ...['0', '-1', '2147483648', '1e15'].flatMap((number): Row[] =>
    ['max_rows_per_page', 'max_rows_in_buffer'].map((member) => [
      `${member}: ${number}`,
      body(`{"sql":"SELECT 1","pagination":{"${member}":${number}}}`),
      refused(400, new RegExp(`"pagination.${member}"`)),
    ]),
  ),
  [
    'more rows per page than the server allows',
    json({ pagination: { max_rows_per_page: 1_000_001 } }),
    refused(400, /from 1 to 1000000/),
  ],
  ...['-1', '2147483648', '1.5', '"60"', 'null'].map(
    (number): Row => [
      `max_idle_time: ${number}`,
      body(`{"sql":"SELECT 1","session":{"max_idle_time":${number}}}`),
      refused(400, /"session.max_idle_time"/),
    ],
  ),
  [
    'an integer written as 1e0 is one',
    body('{"sql":"SELECT 2","pagination":{"wait_time_secs":1e0}}'),
    succeeded([[2]]),
  ],
  [
    'an integer written as 1.0 is one',
    body('{"sql":"SELECT 2","pagination":{"wait_time_secs":1.0}}'),
    succeeded([[2]]),
  ],
  ['the largest wait', json({ pagination: { wait_time_secs: 2_147_483_647 } }), succeeded([[1]])],
  ['the smallest wait', json({ pagination: { wait_time_secs: -2_147_483_648 } }), succeeded([[1]])],
  [
    'objects 10,000 deep',
    body(`${'{"sql":'.repeat(10_000)}"x"${'}'.repeat(10_000)}`),
    refused(400, /"sql" is nested deeper than 100 levels/),
  ],
  ['arrays 10,000 deep', body(`${'['.repeat(10_000)}${']'.repeat(10_000)}`), refused(400, /the body is nested deeper/)],
  ['arrays 10,000 deep that do not end', body('['.repeat(10_000)), refused(400, /the body is nested deeper/)],
  [
    'arrays 1,000,000 deep',
    body(`${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`),
    refused(400, /the body is nested deeper/),
  ],
  [
    'objects 1,000,000 deep in an unknown member',
    body(`{"sql":"SELECT 1","a":${'{"a":'.repeat(1_000_000)}1${'}'.repeat(1_000_001)}`),
    refused(400, /"a" is nested deeper/),
  ],
  [
    '100,000 members',
    body(`{${Array.from({ length: 100_000 }, (_, n) => `"m${n}":1`).join()}}`),
    refused(400, /more than 10000 values/),
  ],
  ['a byte that is not UTF-8', body(Buffer.from('{"sql":"SELECT \xff"}', 'latin1')), refused(400, /not UTF-8/)],
  ['an overlong character', body(Buffer.from('{"sql":"SELECT \xc0\xaf"}', 'latin1')), refused(400, /not UTF-8/)],
  ['a surrogate as UTF-8', body(Buffer.from('{"sql":"SELECT \xed\xa0\x80"}', 'latin1')), refused(400, /not UTF-8/)],
  ['UTF-16', body(Buffer.from('{"sql":"SELECT 1"}', 'utf16le')), refused(400, /not JSON/)],
  ['a body over the limit', body(Buffer.alloc(BODY_BYTES_MAX + 1, ' ')), refused(413, /--body_bytes_max/)],
  [
    'a body over the limit, declared and not sent',
    raw({ 'Content-Length': `${BODY_BYTES_MAX + 1}` }, '{'),
    refused(413, /--body_bytes_max/),
  ],
  [
    'a Content-Length that exceeds all integers',
    raw({ 'Content-Length': '9'.repeat(30) }, '{'),
    refused(400, /not HTTP/),
  ],
  [
    'a body over the limit in chunks, sent to the end before the answer is read',
    chunkedPastTheLimit,
    refused(413, /--body_bytes_max/),
  ],
  [
    'a body over the limit, declared, sent to the end before the answer is read',
    declaredPastTheLimit,
    refused(413, /--body_bytes_max/),
  ],
  ['a gzip bomb', body(gzipBomb(1024), { 'content-encoding': 'gzip' }), refused(413, /--body_bytes_max/)],
  [
    'half of a gzip',
    body(gzipSync('{"sql":"SELECT 1"}').subarray(0, 20), { 'content-encoding': 'gzip' }),
    refused(400, /not gzip/),
  ],
  ['a body that is not gzip', body('{"sql":"SELECT 1"}', { 'content-encoding': 'gzip' }), refused(400, /not gzip/)],
  [
    'invalid UTF-8 in gzip',
    body(gzipSync(Buffer.from('ff', 'hex')), { 'content-encoding': 'gzip' }),
    refused(400, /not UTF-8/),
  ],
  ['gzip', body(gzipSync('{"sql":"SELECT 2"}'), { 'content-encoding': 'gzip' }), succeeded([[2]])],
  ['another encoding', body('{"sql":"SELECT 1"}', { 'content-encoding': 'br' }), refused(415, /gzip is/)],
  ['no content type', body('{"sql":"SELECT 1"}', { 'content-type': undefined }), refused(415, /application\/json/)],
  ...['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'application/json; charset=latin1'].map(
    (type): Row => [
      `content type ${type}`,
      body('{"sql":"SELECT 1"}', { 'content-type': type }),
      refused(415, /application\/json|UTF-8/),
    ],
  ),
  [
    'a content type in upper case',
    body('{"sql":"SELECT 2"}', { 'content-type': 'APPLICATION/JSON; Charset=UTF-8' }),
    succeeded([[2]]),
  ],
];

const connectionRows: readonly Row[] = [
  ['a body that stalls', raw({ 'Content-Length': '100' }, '{"sql"'), refused(408, /--request_timeout_secs/)],
  ['a body shorter than its Content-Length', rawEnded({ 'Content-Length': '100' }, '{"sql"'), refused(400, /not HTTP/)],
  ['chunks that stall', raw(chunked(), '5\r\n{"sql'), refused(408, /--request_timeout_secs/)],
  ['chunks that end in the middle', rawEnded(chunked(), '5\r\n{"sql'), refused(400, /not HTTP/)],
  ['a chunk whose size is not a number', raw(chunked(), 'zz\r\n{}\r\n0\r\n\r\n'), refused(400, /not HTTP/)],
  ['a chunk whose size is negative', raw(chunked(), '-2\r\n{}\r\n0\r\n\r\n'), refused(400, /not HTTP/)],
  [
    'a chunk size that exceeds all integers',
    raw(chunked(), `${'f'.repeat(17)}\r\n{}\r\n0\r\n\r\n`),
    refused(400, /not HTTP/),
  ],
  ['a chunk longer than its size', raw(chunked(), '1\r\n{}\r\n0\r\n\r\n'), refused(400, /not HTTP/)],
  [
    'headers that do not end',
    bytes('POST /v1/query HTTP/1.1\r\nHost: localhost\r\n'),
    refused(408, /--request_timeout_secs/),
  ],
  ['no request line', bytes('hello\r\n\r\n'), refused(400, /not HTTP/)],
  ['TLS', bytes(Buffer.from('16030100a5010000a10303', 'hex')), refused(400, /not HTTP/)],
  ['a NUL in a header', bytes('GET /health HTTP/1.1\r\nHost: localhost\r\nA: \0\r\n\r\n'), refused(400, /not HTTP/)],
  [
    'a length and chunks at once',
    raw({ 'Content-Length': '4', 'Transfer-Encoding': 'chunked' }, '0\r\n\r\n'),
    refused(400, /not HTTP/),
  ],
  [
    'two lengths',
    bytes('POST /v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'),
    refused(400, /not HTTP/),
  ],
  [
    '10,000 headers',
    bytes(`GET /health HTTP/1.1\r\nHost: localhost\r\n${'A: b\r\n'.repeat(10_000)}\r\n`),
    refused(431, /--header_bytes_max/),
  ],
  [
    '64 KiB of path',
    bytes(`GET /v1/query/${'a'.repeat(64 * KIB)} HTTP/1.1\r\nHost: localhost\r\n\r\n`),
    refused(431, /--header_bytes_max/),
  ],
  [
    '64 KiB of credentials',
    raw({ Authorization: `Basic ${'QTpC'.repeat(16 * KIB)}` }, '{}'),
    refused(431, /--header_bytes_max/),
  ],
  ['OPTIONS *', request('OPTIONS *'), refused(400, /not a path/)],
  ['HTTP/1.0', bytes('GET /health HTTP/1.0\r\n\r\n'), { body: 'ok' }],
  ['an Upgrade header', request('GET /health', { Connection: 'Upgrade, close', Upgrade: 'websocket' }), { body: 'ok' }],
  ['Expect: 100-continue', expectContinue, succeeded([[1]])],
  ['pipelined requests', pipelined, { body: 'ok'.repeat(50) }],
];

const pathRows: readonly Row[] = [
  ['the root', request('GET /'), refused(404, /nothing at this path/)],
  ['dots', request('GET /v1/query/../../etc/passwd'), refused(404, /nothing at this path/)],
  ['dots in percent codes', request('GET /%2e%2e/%2e%2e/etc/passwd'), refused(404, /nothing at this path/)],
  ['backslashes', request('GET /v1\\query'), refused(404, /nothing at this path/)],
  ['%00', request('GET /v1/query/%00'), refused(400, /percent/)],
  ['%00 in a page', request('GET /v1/query/x/page/0%00'), refused(400, /percent/)],
  ['a percent sign alone', request('GET /v1/query/%'), refused(400, /percent/)],
  ['a percent code without digits', request('GET /v1/query/%zz/page/0'), refused(400, /percent/)],
  ['a percent code that is not UTF-8', request('GET /v1/query/%ff'), refused(400, /percent/)],
  ['8 KiB of path', request(`GET /v1/query/${'a'.repeat(8 * KIB)}`), refused(404, /no query/)],
  ['an unknown id', request('GET /v1/query/0195c0ffee'), refused(404, /no query 0195c0ffee/)],
  ['an id with invalid characters', request('GET /v1/query/<script>'), refused(404, /no query of that id/)],
  ['a page of an unknown id', request('GET /v1/query/0195c0ffee/page/0'), refused(404, /no query/)],
  ['a kill of an unknown id', request('POST /v1/query/0195c0ffee/kill'), refused(404, /no query/)],
  ['the end of an unknown id', request('GET /v1/query/0195c0ffee/kill?delete=true'), refused(404, /no query/)],
  ['__proto__ as an id', request('GET /v1/query/__proto__'), refused(404, /no query __proto__/)],
  ...['delete', 'delete=', 'delete=1', 'delete=TRUE', 'delete=maybe', 'delete=true%00'].map(
    (search): Row => [`a kill with ${search}`, request(`GET /v1/query/x/kill?${search}`), refused(400, /"delete"/)],
  ),
  ...['-1', '1.5', 'one', '00', '0x1', '99999999999999999999', '9'.repeat(1000), '%2d1', '1e1'].map(
    (number): Row => [`page ${number.slice(0, 20)}`, pageOfAQuery(number), refused(404, /nothing at this path/)],
  ),
  ['the number of a missing page', pageOfAQuery('5'), refused(404, /no page 5/)],
  ['the largest page number', pageOfAQuery('999999999999999'), refused(404, /no page 999999999999999/)],
  ...['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'HEAD'].map(
    (method): Row => [
      `${method} /v1/query`,
      request(`${method} /v1/query`),
      refused(405, method === 'HEAD' ? /^$/ : /POST/),
    ],
  ),
  ['DELETE of a query', request('DELETE /v1/query/x'), refused(405, /GET, HEAD/)],
  ['HEAD of a page, which would consume it', request('HEAD /v1/query/x/page/0'), refused(405, /^$/)],
];

const credentialRows: readonly Row[] = [
  ['no credentials', login(undefined), refused(401, /Basic/)],
  ['another scheme', login('Bearer abc'), refused(401, /Basic/)],
  ['no token', login('Basic'), refused(401, /Basic/)],
  ['credentials that are not base64', login('Basic !!!!'), refused(401, /base64/)],
  ['base64 with trailing text', login(`Basic ${encode('root:')}*`), refused(401, /base64/)],
  ['no colon', login(`Basic ${encode('root')}`), refused(401, /colon/)],
  ['a NUL in the user', login(`Basic ${encode('ro\0ot:')}`), refused(401, /NUL/)],
  ['a NUL in the password', login(`Basic ${encode('root:\0')}`), refused(401, /NUL/)],
  ['nobody', login(`Basic ${encode(':')}`), refused(401, /denied/i)],
  ['an unknown user', login(`Basic ${encode('nobody_at_all:x')}`), refused(401, /denied/i)],
  ['a user of 5,000 characters', login(`Basic ${encode(`${'u'.repeat(5000)}:x`)}`), refused(401, /./)],
  ['a password of 5,000 characters', login(`Basic ${encode(`root:${'p'.repeat(5000)}`)}`), refused(401, /denied/i)],
  ['a user that is not UTF-8', login(`Basic ${encode(Buffer.from('ff3a78', 'hex'))}`), refused(401, /./)],
  ['a user with quotes and an emoji', login(`Basic ${encode("'; DROP TABLE x; -- 😀:x")}`), refused(401, /./)],
];

function statementRows(target: Target): readonly Row[] {
  const big = 'x'.repeat(BODY_BYTES_MAX - JSON.stringify({ sql: "SELECT LENGTH('')" }).length);
  const columns = (count: number) => `SELECT ${Array.from({ length: count }, (_, n) => n).join()}`;
  return [
    ['an empty statement', sql(''), failed(1065)],
    ['blanks', sql(' \t\r\n'), failed(1065)],
    ['a semicolon', sql(';'), failed(1065, 1064)],
    ['only a line comment', sql('-- nothing to do'), failed(1065)],
    ['only a block comment', sql('/* nothing */'), failed(1065)],
    ['comments of every kind', sql('-- a\n# b\n/* c */ -- d'), failed(1065)],
    [
      'a body full of comments',
      sql(`${'/**/'.repeat(BODY_BYTES_MAX / 8 - 10)}${'-- \n'.repeat(BODY_BYTES_MAX / 10)}`),
      failed(1065),
    ],
    ['a comment before and after', sql('/* " */ SELECT 2 -- \' ;'), succeeded([[2]])],
    ['a comment that is executed', sql('/*! SELECT */ 2'), succeeded([[2]])],
    ['a comment that does not end', sql('SELECT 2 /* '), failed(1064)],
    ['a quote that does not end', sql("SELECT 'x"), failed(1064)],
    ['a trailing semicolon', sql('SELECT 2;'), succeeded([[2]])],
    ['two statements', sql('SELECT 1; SELECT 2'), failed(1064)],
    ['a semicolon in a string', sql("SELECT ';' a"), succeeded([[';']])],
    ['DELIMITER', sql('DELIMITER //'), failed(1064)],
    ['a command of the client', sql('\\q'), failed(1064)],
    ['nonsense', sql('SELEC 1'), failed(1064)],
    ['no rows and no columns', sql('DO 0'), succeeded([])],
    ['no rows', sql('SELECT 1 FROM DUAL WHERE FALSE'), succeeded([])],
    ['several result sets', sql('CALL two_results()'), failed(90008)],
    ['several result sets, of which the second fails', sql('CALL failing_results()'), failed(1146, 90008)],
    ['one result set of a procedure', sql('CALL one_result()'), succeeded([[1]])],
    ['4,096 columns', sql(columns(4096)), succeeded([Array.from({ length: 4096 }, (_, n) => n)])],
    ['as many columns as a result may have', sql(columns(8_192)), succeeded()],
    ['more columns than a result may have', sql(columns(10_000)), failed(90007)],
    ['LOAD DATA LOCAL', sql(`LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE ${target.database}.t`), failed(90009)],
    ['LOAD DATA', sql(`LOAD DATA INFILE '/etc/hostname' INTO TABLE ${target.database}.t`), failed(1045, 1290, 1227)],
    ['a kill of its own connection', sql('KILL CONNECTION_ID()'), failed(1317, 1927, 90006)],
    ['a kill of its own statement', sql('KILL QUERY CONNECTION_ID()'), failed(1317)],
    ['a kill of the connection of another user', sql('KILL 1'), failed(1094, 1095)],
    ['SHUTDOWN', sql('SHUTDOWN'), failed(1227)],
    ['a file on the server', sql("SELECT 1 INTO OUTFILE '/tmp/x'"), failed(1045, 1227, 1290)],
    ['PREPARE over the text protocol', sql("PREPARE s FROM 'SELECT ?'"), succeeded([])],
    ['an unknown prepared statement', sql('EXECUTE s'), failed(1243)],
    ['XA', sql("XA START 'x'"), succeeded([])],
    ['an emoji', sql("SELECT '😀'"), succeeded([['😀']])],
    ['a NUL in a string', sql("SELECT 'a\0b'"), succeeded([['a\0b']])],
    ['a NUL between words', sql('SELECT\0 1'), failed(1064)],
    ['a lone surrogate', body('{"sql":"SELECT \'\\ud800\'"}'), refused(400, /"sql" contains half of a surrogate pair/)],
    ['control characters', sql("SELECT '\x01\x1f\x7f\u2028'"), succeeded([['\x01\x1f\x7f\u2028']])],
    [
      'a string that is not UTF-8 to the database',
      sql("SELECT CAST(_binary X'ff' AS CHAR CHARACTER SET utf8mb4) x"),
      succeeded(),
    ],
    ['as much SQL as a body may have', sql(`SELECT LENGTH('${big}')`), succeeded([[big.length]])],
    ['one byte more', sql(`SELECT LENGTH('${big}x')`), refused(413, /--body_bytes_max/)],
    [
      'a body full of parentheses',
      sql(`SELECT ${'('.repeat(BODY_BYTES_MAX - 100)}`),
      failed(1064, 1436, 1119, 3170, 1038, 1037, 1105, 3950),
    ],
    ['a cell as large as a row may be', sql(`SELECT REPEAT('x', ${ROW_BYTES_MAX})`), failed(90007)],
    ['the same in hex', sql(`SELECT CAST(REPEAT('x', ${ROW_BYTES_MAX}) AS BINARY)`), failed(90007)],
    [
      'a cell that just fits into a row',
      sql(`SELECT REPEAT('x', ${ROW_BYTES_MAX - 4})`),
      // The row is the cell in quotes and brackets.
      { state: 'Succeeded', data: [['x'.repeat(ROW_BYTES_MAX - 4)]] },
    ],
    ['an unknown database', json({ session: { database: 'not_there' } }), failed(1044, 1049)],
    ['a database without privileges on it', json({ session: { database: 'mysql' } }), failed(1044)],
    [
      'a database whose name is SQL',
      json({ session: { database: '`; DROP DATABASE x; --' } }),
      failed(1044, 1049, 1102),
    ],
    ['a database whose name is long', json({ session: { database: 'd'.repeat(10_000) } }), failed(1059, 1102)],
    ['a database whose name is an emoji', json({ session: { database: '😀' } }), failed(1044, 1049, 1102, 1300)],
    ['a database whose name has a NUL', json({ session: { database: 'a\0b' } }), failed(1044, 1049, 1064, 1102, 1300)],
    ['a database whose name is a blank', json({ session: { database: ' ' } }), failed(1044, 1049, 1102)],
    ['an unknown session', json({ session: { id: 'not there' } }), failed(90001)],
    ['a session whose id is long', json({ session: { id: 'x'.repeat(100_000) } }), failed(90001)],
    ['a session whose id is empty', json({ session: { id: '' } }), failed(90001)],
    ['a session whose id is a member of Object.prototype', json({ session: { id: 'constructor' } }), failed(90001)],
  ];
}

type Table = readonly [title: string, rows: (target: Target) => readonly Row[]];

/** These requests are refused before the database is asked, so one kind of database is enough. */
const httpTables: readonly Table[] = [
  ['bodies', () => bodyRows],
  ['connections', () => connectionRows],
  ['paths', () => pathRows],
];

for (const server of await sharedServers()) {
  const tables: readonly Table[] = [
    ...(server.kind === 'mariadb' ? httpTables : []),
    ['credentials', () => credentialRows],
    ['statements', statementRows],
  ];

  t.test(`${server.kind}: bad input is refused and affects nobody else`, { timeout: 540_000 }, async (t) => {
    const target = await startTarget(t, server);
    const neighbour = await startNeighbour(server, target);
    for (const [title, rows] of tables) {
      await t.test(title, { timeout: 280_000 }, async (t) => {
        for (const [name, send, expected] of rows(target)) {
          const answer = await send(target);
          check(t, answer, expected, name);
          await isUnharmed(t, server, target, neighbour, name);
        }
      });
    }
    await neighbour.finish(t);
    await stopInOrder(t, target.sluice);
  });
}

function check(t: Test, answer: Answer, expected: Expected, name: string): void {
  const seen = printable(answer.text);
  if ('status' in expected) {
    t.equal(answer.status, expected.status, `${name}: ${seen}`);
    t.match(answer.text, expected.reason, `${name}: the reason`);
    t.ok(answer.text.length < 1000 && !answer.text.includes('\n'), `${name}: one line`);
    t.notMatch(answer.text, /\bat \S+:\d+:\d+|node:/, `${name}: no stack`);
    return;
  }
  t.equal(answer.status, 200, `${name}: ${seen}`);
  if ('body' in expected) {
    t.equal(answer.text, expected.body, name);
    return;
  }
  if (answer.status !== 200) return;
  const response = JSON.parse(answer.text) as QueryResponse;
  t.equal(response.state, expected.state, `${name}: ${printable(response.error?.message ?? '')}`);
  if (expected.state === 'Failed') {
    const code = response.error?.code ?? 0;
    t.ok(expected.codes.includes(code), `${name}: ${code} ${printable(response.error?.message ?? '')}`);
    t.same([response.data, response.next_uri], [[], null], `${name}: no data`);
    t.equal(response.error?.backtrace, '');
  } else if (expected.data !== undefined) {
    // The difference may be many MiB long, so it is not printed.
    t.ok(JSON.stringify(response.data) === JSON.stringify(expected.data), `${name}: ${seen}`);
  }
}

/** The beginning of a text for the name of an assertion. Control characters would break the report. */
function printable(text: string): string {
  return text.slice(0, 300).replace(/[^ -~]/g, '?');
}

interface Neighbour {
  /** Fetches the state of the neighbour's statement. */
  look(): Promise<QueryResponse>;
  /** Lets the statement end, and checks that it succeeds. */
  finish(t: Test): Promise<void>;
}

async function isUnharmed(
  t: Test,
  server: DatabaseServer,
  target: Target,
  neighbour: Neighbour,
  name: string,
): Promise<void> {
  const health = await get(target.url, '/health');
  const one = await query(target.url, 'SELECT 1', target);
  const { state } = await neighbour.look();
  const count = `SELECT COUNT(*), COALESCE(SUM(COMMAND <> 'Sleep'), 0) FROM information_schema.PROCESSLIST
    WHERE USER = '${target.user}'`;
  const [connections = 0, running = 0] = await until(
    async () => (await server.sql(count)).split('\t').map(Number),
    ([, running]) => running === 0,
  );
  // Beside the connections for statements, each thread may temporarily have one admin connection.
  const bound = CONNECTIONS_MAX + WORKER_THREADS;
  const unharmed = health.text === 'ok' && one.rows[0]?.[0] === 1 && state === 'Running' && connections <= bound;
  t.ok(
    unharmed && running === 0,
    `${name}: affects nobody else (${health.text}, ${one.rows[0]?.[0]}, ${state}, ${connections} connections, ${running} running)`,
  );
}

async function startTarget(t: Test, server: DatabaseServer): Promise<Target> {
  const name = `bad_${randomBytes(4).toString('hex')}`;
  const password = 'pw';
  await server.sql(`CREATE DATABASE ${name}; CREATE TABLE ${name}.t (a TEXT);
    CREATE USER ${name}@'%' IDENTIFIED BY '${password}'; GRANT ALL ON ${name}.* TO ${name}@'%';
    CREATE PROCEDURE ${name}.one_result() SELECT 1;
    DELIMITER //
    CREATE PROCEDURE ${name}.two_results() BEGIN SELECT 1; SELECT 2; END //
    CREATE PROCEDURE ${name}.failing_results() BEGIN SELECT 1; SELECT * FROM ${name}.not_there; END //
    DELIMITER ;
    CREATE USER ${name}_n@'%'; GRANT ALL ON ${name}.* TO ${name}_n@'%'`);
  t.teardown(() => server.sql(`DROP DATABASE ${name}; DROP USER ${name}@'%', ${name}_n@'%'`));
  const sluice = await startSluice([
    ...['--mysql_url', `mysql://root@127.0.0.1:${server.port}/${name}`],
    ...['--connections_max', `${CONNECTIONS_MAX}`, '--worker_threads', `${WORKER_THREADS}`],
    ...['--request_timeout_secs', `${REQUEST_TIMEOUT_SECS}`, '--drain_secs', '0'],
    ...['--body_bytes_max', `${BODY_BYTES_MAX}`, '--row_bytes_max', `${ROW_BYTES_MAX}`],
  ]);
  t.teardown(() => sluice.kill());
  const authorization = `Basic ${encode(`${name}:${password}`)}`;
  return { sluice, url: sluice.url, user: name, password, authorization, database: name };
}

/** Checks that the service stops cleanly and that its log has no defect. */
async function stopInOrder(t: Test, sluice: SluiceProcess): Promise<void> {
  const code = await sluice.stop();
  t.equal(code, 0, 'the service stops cleanly');
  t.notMatch(sluice.log(), /request_failed|worker_failed|"level":50/, 'the log reports no defect');
}

/** Starts a statement of another user, which waits for a lock that is released only at the end. */
async function startNeighbour(server: DatabaseServer, target: Target): Promise<Neighbour> {
  const credentials: Credentials = { user: `${target.user}_n` };
  const lock = `${target.user}_lock`;
  const kept = { session: { max_idle_time: 3600 } };
  const holder = (await query(target.url, `SELECT GET_LOCK('${lock}', 0)`, { ...credentials, body: kept })).last;
  const waiting = await post(
    target.url,
    { sql: `SELECT GET_LOCK('${lock}', 3600)`, pagination: { wait_time_secs: 0 } },
    credentials,
  );
  return {
    look: async () => (await get(target.url, waiting.json.stats_uri, credentials)).json,
    finish: async (t) => {
      const busy = await server.sql(
        `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '${credentials.user}' AND COMMAND = 'Query'`,
      );
      t.equal(busy, '1', 'the neighbour’s statement still runs');
      await query(target.url, `SELECT RELEASE_LOCK('${lock}')`, {
        ...credentials,
        body: { session: { id: holder.session_id } },
      });
      let { json: last } = waiting;
      while (last.next_uri !== null) last = (await get(target.url, last.next_uri, credentials)).json;
      t.match(last, { state: 'Succeeded', data: [[1]] }, 'the neighbour’s statement succeeds');
    },
  };
}

/** Gzip of so many MiB of zeros, built from the gzip of one. Its checksum is wrong, but must never be reached. */
function gzipBomb(mebibytes: number): Buffer {
  const head = gzipSync('').subarray(0, 10);
  const one = deflateRawSync(Buffer.alloc(MIB), { finishFlush: constants.Z_FULL_FLUSH });
  return Buffer.concat([head, ...Array.from({ length: mebibytes }, () => one), Buffer.from([3, 0]), Buffer.alloc(8)]);
}

function encode(pair: string | Uint8Array): string {
  return Buffer.from(pair as string).toString('base64');
}

function chunked(): Record<string, string> {
  return { 'Transfer-Encoding': 'chunked' };
}

/** Posts a body unchanged, and reads all pages. The answer is the last page with the rows of all pages. */
function body(content: string | Uint8Array, headers: Record<string, string | undefined> = {}): Row[1] {
  return async (target) => {
    const { user, password } = target;
    let reply = await post(target.url, content, { user, password, headers });
    const data: (readonly unknown[])[] = [];
    while (reply.status === 200 && reply.json.next_uri !== null) {
      data.push(...reply.json.data);
      reply = await get(target.url, reply.json.next_uri, { user, password });
    }
    if (data.length > 0)
      return { status: 200, text: JSON.stringify({ ...reply.json, data: [...data, ...reply.json.data] }) };
    return reply;
  };
}

function sql(statement: string): Row[1] {
  return body(JSON.stringify({ sql: statement }));
}

function json(members: object): Row[1] {
  return body(JSON.stringify({ sql: 'SELECT 1', ...members }));
}

function bytes(content: string | Uint8Array): Row[1] {
  return async ({ url }) => only(await exchange(url, content));
}

function request(line: string, headers: Record<string, string> = {}): Row[1] {
  return async ({ url, authorization }) =>
    only(await exchange(url, requestText(`${line} HTTP/1.1`, { Authorization: authorization, ...headers })));
}

/** Posts a body with headers that a client library would correct. */
function raw(headers: Record<string, string>, content: string): Row[1] {
  return async ({ url, authorization }) => only(await exchange(url, postText(authorization, headers, content)));
}

function rawEnded(headers: Record<string, string>, content: string): Row[1] {
  return async ({ url, authorization }) =>
    only(
      await exchange(url, (socket) => {
        socket.end(postText(authorization, headers, content));
      }),
    );
}

function login(authorization: string | undefined): Row[1] {
  return async ({ url }) => post(url, { sql: 'SELECT 1' }, { headers: { authorization } });
}

function pageOfAQuery(number: string): Row[1] {
  return async (target) => {
    const { user, password } = target;
    const { id } = (await post(target.url, { sql: 'SELECT 1' }, { user, password })).json;
    return request(`GET /v1/query/${id}/page/${number}`)(target);
  };
}

async function declaredPastTheLimit({ url, authorization }: Target): Promise<Answer> {
  const length = BODY_BYTES_MAX + 4 * MIB;
  const head = postText(authorization, { 'Content-Length': `${length}` }, '');
  return only(await exchange(url, (socket) => sendAll(socket, head, Buffer.alloc(MIB, ' '), length / MIB)));
}

async function chunkedPastTheLimit({ url, authorization }: Target): Promise<Answer> {
  const chunk = Buffer.concat([Buffer.from(`${MIB.toString(16)}\r\n`), Buffer.alloc(MIB, ' '), Buffer.from('\r\n')]);
  const head = postText(authorization, chunked(), '');
  return only(await exchange(url, (socket) => sendAll(socket, head, chunk, BODY_BYTES_MAX / MIB + 4)));
}

/** Like a simple client, sends the whole body before it reads the answer. */
async function sendAll(
  socket: ReturnType<typeof connectTo>,
  head: Buffer,
  piece: Buffer,
  count: number,
): Promise<void> {
  socket.pause();
  socket.write(head);
  for (let sent = 0; sent < count && !socket.destroyed; sent++) {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        socket.off('close', done);
        resolve();
      };
      socket.once('close', done);
      socket.write(piece, done);
    });
  }
  socket.resume();
}

async function expectContinue({ url, authorization }: Target): Promise<Answer> {
  const content = '{"sql":"SELECT 1"}';
  const headers = { Expect: '100-continue', 'Content-Length': `${content.length}` };
  const { replies } = await exchange(url, (socket) => {
    socket.write(postText(authorization, headers, ''));
    socket.once('data', () => socket.write(content));
  });
  if (replies[0]?.status !== 100) return { status: replies[0]?.status ?? 0, text: 'no 100 came' };
  return { status: replies[1]?.status ?? 0, text: replies[1]?.body ?? '' };
}

async function pipelined({ url }: Target): Promise<Answer> {
  const one = requestText('GET /health HTTP/1.1', { Connection: 'keep-alive' });
  const { replies } = await exchange(url, Buffer.concat(Array.from({ length: 50 }, () => one)), { replies: 50 });
  return { status: replies.at(-1)?.status ?? 0, text: replies.map((reply) => reply.body).join('') };
}

function postText(authorization: string, headers: Record<string, string>, content: string): Buffer {
  const all = { 'Content-Type': 'application/json', Authorization: authorization, ...headers };
  return requestText('POST /v1/query HTTP/1.1', all, content);
}

/** The only answer of an exchange. */
function only({ replies, text, reset }: Awaited<ReturnType<typeof exchange>>): Answer {
  const [reply] = replies;
  if (reply !== undefined && replies.length === 1) return { status: reply.status, text: reply.body };
  if (reply === undefined && /^HTTP\/1\.1 405 .*\r\n\r\n$/s.test(text)) return { status: 405, text: '' };
  throw new Error(`${replies.length} answers${reset ? ' and a reset' : ''}: ${text.slice(0, 300)}`);
}
