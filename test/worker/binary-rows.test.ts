import { randomUUID } from 'node:crypto';
import { type Connection, createConnection } from 'mysql2/promise';
import t, { type Test } from 'tap';
import { formats } from '#src/formats/index.js';
import { type Batch, rowEndsOffset, type TextFormatName } from '#src/wire/statement.js';
import { StatementAnswer } from '#src/worker/answers.js';
import { type ColumnDefinition, describeColumn } from '#src/worker/columns.js';
import { kernel, kernelStop } from '#src/worker/kernel.js';
import { RowEncoder } from '#src/worker/row-encoder.js';
import type { RowFormat } from '#src/worker/row-format.js';
import { framed, packetHeaderBytes } from '../support/answer-packets.ts';
import { allFormats } from '../support/cells.ts';
import { pick, type Random, seeded } from '../support/random.ts';
import { type DatabaseKind, type DatabaseServer, sharedServers } from '../support/servers.ts';

// Both servers share the machine with other processes.
t.setTimeout(540_000);

/*
 * Rows of a prepared statement, of every type of both servers, must give the same JSON as the same rows in the text protocol,
 * which the server itself prints.
 */

const noLimit = 1024 * 1024 * 1024;

interface TypeCase {
  readonly type: string;
  /** SQL expressions. NULL is added to each list. */
  readonly values: readonly string[];
  /** Only on this server. */
  readonly only?: DatabaseKind;
}

const sizes = [
  ['TINYINT', 8n],
  ['SMALLINT', 16n],
  ['MEDIUMINT', 24n],
  ['INT', 32n],
  ['BIGINT', 64n],
] as const;
const integers: TypeCase[] = sizes.flatMap(([type, bits]): TypeCase[] => {
  const powers = Array.from({ length: 20 }, (_, power) => 10n ** BigInt(power)).filter((value) => value < 2n ** bits);
  const unsigned = [0n, 2n ** bits - 1n, 2n ** (bits - 1n), ...powers.flatMap((power) => [power, power - 1n])];
  const signed = unsigned.map((value) => BigInt.asIntN(Number(bits), value)).flatMap((value) => [value, -value - 1n]);
  return [
    { type, values: signed.map(String) },
    { type: `${type} UNSIGNED`, values: unsigned.map(String) },
    { type: `${type}(20) ZEROFILL`, values: unsigned.map(String) },
  ];
});

const floats = [
  ...[
    '0',
    '-0e0',
    '0.1',
    '1e0/3',
    '-1.5',
    '1e-4',
    '1e-5',
    '12.34',
    '1e-10',
    '-1e-10',
    '123456.5',
    '100000.5',
    '100001.5',
  ],
  ...[1234565, 1234575, 16777215, 16777217, 999999.5, 9999995, 12345.65].map(String),
  ...Array.from({ length: 12 }, (_, index) => `1e${index + 12}`),
  ...Array.from({ length: 8 }, (_, index) => `1.23e-${index + 12}`),
  ...['123456789012345.6', '1234567890123456.7', '12345678901234567', '999999999999999.9', '9007199254740993'],
  ...['3.4028235e38', '-3.4028235e38', '1.17549435e-38', '1e-45'],
];
const doubles = [
  ...['1.7976931348623157e308', '-1.7976931348623157e308', '2.2250738585072014e-308', '5e-324', '-5e-324', '1e-323'],
  ...['1e22', '1e23', '123456789012345680000', '1.2345e-200', '4.35e100'],
];
const reals: TypeCase[] = [
  { type: 'FLOAT', values: floats },
  { type: 'DOUBLE', values: [...floats, ...doubles] },
  // A2: MySQL prints zeros before -0.
  { type: 'FLOAT ZEROFILL', values: floats },
  { type: 'DOUBLE ZEROFILL', values: [...floats, ...doubles] },
  ...['(7,3)', '(10,0)', '(30,20)', '(60,10)'].map((size) => ({ type: `FLOAT${size}`, values: floats })),
  ...['(10,2)', '(20,6)', '(30,0)', '(255,30)', '(12,8)'].map((size) => ({
    type: `DOUBLE${size}`,
    values: [...floats, ...doubles, '0.005', '0.015', '-0.001', '99999999.99', '12345678901234.567890'],
  })),
];

const times: TypeCase[] = [
  { type: 'YEAR', values: ['0', '1901', '2155', '2026', "'70'", "'69'"] },
  {
    type: 'DATE',
    values: [
      "'0000-00-00'",
      "'0001-01-01'",
      "'9999-12-31'",
      "'2026-00-00'",
      "'2026-05-00'",
      "'2024-00-10'",
      "'2024-02-29'",
    ],
  },
  ...['', '.1', '.12', '.123', '.1234', '.12345', '.123456'].flatMap((fraction, precision): TypeCase[] => {
    const nines = fraction.replaceAll(/\d/g, '9');
    return [
      {
        type: `DATETIME(${precision})`,
        values: [
          ...["'0000-00-00 00:00:00'", "'1000-01-01 00:00:00'", "'2026-00-00 00:00:00'", "'2026-01-02 00:00:00'"],
          ...[`'9999-12-31 23:59:59${nines}'`, `'2026-01-02 03:04:05${fraction}'`, "'2026-01-02 00:00:00.1'"],
          ...[`'2026-01-00 03:04:05${fraction}'`, `'0000-00-00 00:00:00${fraction}'`, "'2026-01-02 23:00:00'"],
        ],
      },
      {
        type: `TIMESTAMP(${precision}) NULL`,
        values: ["'0000-00-00 00:00:00'", "'2000-01-01 00:00:01'", `'2038-01-19 02:14:07${fraction}'`],
      },
      {
        type: `TIME(${precision})`,
        values: [
          ...["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:00'", "'24:00:00'", "'-24:00:01'"],
          ...[`'-837:59:59${nines}'`, `'-00:00:00${nines}'`, `'23:59:59${fraction}'`, `'100:00:00${fraction}'`],
        ],
      },
    ];
  }),
];

const texts: TypeCase[] = [
  ...[
    ['DECIMAL(65,30)', ['0', '-0.0', '1.5', `-${'9'.repeat(35)}.${'9'.repeat(30)}`]],
    ['DECIMAL(10,2)', ['12345678.90', '-0.10', '-0.004', '3']],
    ['DECIMAL(10,3) ZEROFILL', ['1.5', '0', '9999999.999']],
    ['DECIMAL(20,0) UNSIGNED', ['18446744073709551615', '0']],
    ['CHAR(20)', ["''", "'NULL'", '\'"é"\'', "'長い'"]],
    ['VARCHAR(300)', ["''", "REPEAT('x', 250)", "REPEAT('x', 251)", "REPEAT('\"', 300)"]],
    ['LONGTEXT', ["''", "REPEAT('é', 40000)", "REPEAT('x', 300000)"]],
    ["ENUM('', 'a', '\"')", ["''", "'a'", "'\"'", "'none of them'"]],
    ["SET('a', 'b', '\"')", ["''", "'a,b'", "'a,b,\"'"]],
    ['BINARY(3)', ["''", '0x00ff']],
    ['VARBINARY(300)', ["''", '0xc3', 'REPEAT(0xc3, 300)']],
    ['LONGBLOB', ["''", 'REPEAT(0x00, 70000)', 'REPEAT(0xff, 300000)']],
    ['GEOMETRY', ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0, 1.5 -1e10)')"]],
    ['JSON', ['\'{"a": [1, 2.50, null], "é\\\\"": "\\\\u2028"}\'', "'null'", '\'""\'', "'18446744073709551615'"]],
  ].map(([type, values]) => ({ type, values }) as TypeCase),
  ...[1, 5, 8, 9, 33, 64].map((width) => ({
    type: `BIT(${width})`,
    values: ["b'0'", "b'1'", `b'${'1'.repeat(width)}'`, ...(width > 8 ? ['0x35'] : [])],
  })),
  { type: 'VECTOR(3)', values: ["STRING_TO_VECTOR('[1, -2.5, 1e30]')"], only: 'mysql' },
  { type: 'UUID', values: ["'123e4567-e89b-12d3-a456-426655440000'"], only: 'mariadb' },
  { type: 'INET6', values: ["'::'", "'::ffff:1.2.3.4'"], only: 'mariadb' },
  { type: 'INET4', values: ["'0.0.0.0'", "'255.255.255.255'"], only: 'mariadb' },
];

/** Computed expressions, which have no column. `t` has a row of each sign, and one of NULLs. */
const expressions = [
  ...[
    '1',
    '-1',
    'TRUE',
    '~0',
    '9223372036854775808',
    '1.50',
    '1e0',
    '-0e0',
    '0.1e0 + 0.2e0',
    'PI()',
    'POW(2, 70)',
    'NULL',
  ],
  ...["'text'", '0xff', "b'101'", "DATE '2026-01-02'", "TIME '10:11:12.345'", "TIMESTAMP '2026-01-02 03:04:05.678901'"],
  ...[
    'i',
    'SUM(i)',
    'SUM(d)',
    'AVG(d)',
    'AVG(i)',
    'MAX(i)',
    'COUNT(*)',
    'SUM(m)',
    'AVG(m)',
    'MIN(m)',
    'SUM(f)',
    'AVG(f)',
  ],
  ...['MAX(f)', 'MAX(b)', 'MAX(y)', 'MAX(dt)', 'MIN(ti)', 'BIT_OR(b)', 'GROUP_CONCAT(i)', 'STD(d)', 'VAR_POP(m)'],
  ...[
    'd',
    'm',
    'f',
    'd + 0',
    'f + 0',
    'm + 0',
    '-d',
    'm - 0.1e0',
    'm - m2 - m3',
    '-(m - m2 - m3)',
    'MOD(m, m2)',
    'm * m2 * m3',
  ],
  ...[
    'm / 3',
    'f / 3',
    'ROUND(d, 2)',
    'ROUND(m, 1)',
    'ROUND(-0.001e0, 2)',
    'ROUND(1e25, 3)',
    'TRUNCATE(1e300, 5)',
    'FLOOR(d)',
  ],
  ...[
    'IF(i > 0, d, m)',
    'COALESCE(f, d)',
    'COALESCE(m, 1)',
    'CAST(i AS DOUBLE)',
    'CAST(1.25 AS FLOAT)',
    'CAST(d AS DECIMAL(20,3))',
  ],
  ...['b', 'b + 0', 'b | 1', 'COALESCE(b, 0)', 'IF(i, b, NULL)', 'CAST(b AS UNSIGNED)', 'y', 'y + 0', 'COALESCE(y, 0)'],
  ...[
    'dt',
    'ti',
    'DATE(dt)',
    'TIME(dt)',
    'COALESCE(dt, dt)',
    'IF(i, dt, NULL)',
    'CAST(dt AS DATE)',
    "ADDTIME(ti, '0:0:0.5')",
  ],
  ...["STR_TO_DATE('2026-01-02 03:04:05.5', '%Y-%m-%d %H:%i:%s.%f')", "STR_TO_DATE('03:04:05', '%H:%i:%s')"],
  ...[
    "STR_TO_DATE(IF(i, '2026-01-02', '0000-00-00'), '%Y-%m-%d')",
    'SEC_TO_TIME(i)',
    'SEC_TO_TIME(d)',
    'MAKETIME(1, 2, d)',
  ],
  ...[
    "TIMEDIFF(dt, '2020-01-01')",
    'FROM_UNIXTIME(0)',
    'FROM_UNIXTIME(1.5)',
    'FROM_UNIXTIME(d + 100)',
    'TIMESTAMP(dt, ti)',
  ],
  ...['DATE_ADD(dt, INTERVAL 1 DAY)', 'DATE_ADD(dt, INTERVAL 1 MICROSECOND)', "DATE_ADD('2026-01-02', INTERVAL 1 DAY)"],
  ...[
    'LAST_DAY(dt)',
    'GREATEST(dt, dt)',
    'GREATEST(i, d)',
    'GREATEST(m, f)',
    'i DIV 2',
    'i % 3',
    'i / 3',
    'i * 1e0',
    'i = 1',
    'j',
  ],
  ...[
    "JSON_EXTRACT(j, '$.a')",
    'JSON_UNQUOTE(j)',
    'CAST(i AS JSON)',
    "CAST('0000-00-00' AS DATETIME)",
    'UNIX_TIMESTAMP(dt)',
  ],
];

const expressionTable = `CREATE TABLE t (i INT, d DOUBLE, m DOUBLE(10,2), m2 DOUBLE(10,2), m3 DOUBLE(10,2), f FLOAT, b BIT(9),
  y YEAR, dt DATETIME(3), ti TIME(2), j JSON);
INSERT INTO t VALUES
  (1, 0.1, 0.3, 0.1, 0.2, 1e10, 53, 2026, '2026-01-02 03:04:05.678', '-12:13:14.56', '{"a": 1.5}'),
  (-7, -123456.789, -5.5, 0.1, 123.45, 0.3333333, 511, 0, '0000-00-00 00:00:00', '100:00:00', '[]'),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);`;

/** The columns of an answer and the payloads of its rows. */
interface Rows {
  definitions: readonly ColumnDefinition[];
  readonly payloads: Buffer[];
}

for (const server of await sharedServers()) {
  t.test(`binary rows of ${server.kind} ${server.version}`, async (t) => {
    const database = `binary_${randomUUID().replaceAll('-', '')}`;
    await server.sql(`CREATE DATABASE ${database} CHARACTER SET utf8mb4`);
    t.teardown(() => server.sql(`DROP DATABASE ${database}`));
    const connection = await createConnection({ uri: `${server.url}${database}`, charset: 'utf8mb4' });
    t.teardown(() => connection.end());
    await connection.query("SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'");

    for (const [number, { type, values, only }] of [...integers, ...reals, ...times, ...texts].entries()) {
      if (only !== undefined && only !== server.kind) continue;
      await t.test(type, async (t) => {
        const table = `case_${number}`;
        const inserts = ['NULL', ...values].map((value) => `INSERT INTO ${table} VALUES (${value});`);
        const create = `CREATE TABLE ${table} (v ${type}, id INT PRIMARY KEY AUTO_INCREMENT);`;
        const named = inserts.map((insert) => insert.replace('VALUES', '(v) VALUES'));
        await server.sql(`SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'; ${create} ${named.join('\n')}`, { database });
        await compare(t, server, connection, `SELECT v FROM ${table} ORDER BY id`, values.length + 1);
        await compare(
          t,
          server,
          connection,
          `SELECT v, id, v, v, 'x', v FROM ${table} ORDER BY id DESC`,
          values.length + 1,
        );
      });
    }

    await t.test('expressions', async (t) => {
      await server.sql(`SET sql_mode = ''; ${expressionTable}`, { database });
      for (const expression of expressions) {
        const query = `SELECT ${expression} FROM t`;
        const works = await connection.query(query).then(
          () => true,
          () => false,
        );
        if (works) await compare(t, server, connection, query);
        else t.comment(`${server.kind} does not support ${expression}`);
      }
    });

    await t.test('random numbers', async (t) => {
      const random = seeded(t);
      await connection.query(
        'CREATE TABLE n (d DOUBLE, f FLOAT, x DOUBLE(30,8), y FLOAT(20,4), b BIGINT, u INT UNSIGNED)',
      );
      for (let part = 0; part < 12; part++) {
        const rows = Array.from({ length: 500 }, () => `(${randomNumbers(random).join()})`);
        await connection.query(`INSERT INTO n VALUES ${rows.join()}`);
      }
      await compare(t, server, connection, 'SELECT * FROM n', 6_000);
    });
  });
}

/** Random numbers for `d`, `f`, `x`, `y`, `b` and `u`. */
function randomNumbers(random: Random): string[] {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setUint32(0, random(2 ** 32));
  bits.setUint32(4, random(2 ** 32));
  const double = bits.getFloat64(0);
  const exponent = 10 ** (random(40) - 20);
  const scaled = (random(2 ** 32) / 2 ** 32) * exponent;
  const decimal = (random(2 ** 32) - 2 ** 31) / 10 ** random(9);
  const d = pick(random, [Number.isFinite(double) ? double : 1, scaled, decimal]);
  const f = pick(random, [Number.isFinite(bits.getFloat32(0)) ? bits.getFloat32(0) : 1, Math.fround(scaled), decimal]);
  const literal = (number: number): string => number.toExponential();
  const integers = [`${bits.getBigInt64(0) >> BigInt(random(64))}`, `${random(2 ** 32) >>> random(32)}`];
  return [literal(d), literal(f), literal(decimal), literal(decimal), ...integers];
}

/** Compares the rows of a prepared statement with those of a text statement. */
async function compare(
  t: Test,
  server: DatabaseServer,
  connection: Connection,
  query: string,
  count?: number,
): Promise<void> {
  const text = await answerTo(server, connection, () => connection.query(query));
  const prepared = await connection.prepare(query);
  const binary = await answerTo(server, connection, () => prepared.execute([]));
  await prepared.close();
  t.equal(binary.payloads.length, text.payloads.length, query);
  if (count !== undefined) t.equal(text.payloads.length, count);
  for (const cells of allFormats) {
    const expected = encode(text, cells, false, true);
    for (const byKernel of [true, false]) {
      const rows = encode(binary, cells, true, byKernel);
      const wrong = expected.findIndex((row, index) => row !== rows[index]);
      t.equal(rows[wrong], expected[wrong], `${query}, ${cells}, by the ${byKernel ? 'kernel' : 'plain encoder'}`);
      t.equal(rows.length, expected.length);
    }
  }
}

/** The packets of the database's answer. */
async function answerTo(server: DatabaseServer, connection: Connection, run: () => Promise<unknown>): Promise<Rows> {
  // The socket of mysql2, which its typings omit.
  const { stream } = (connection as unknown as { connection: { stream: NodeJS.ReadableStream } }).connection;
  const chunks: Buffer[] = [];
  const keep = (chunk: Buffer): void => void chunks.push(chunk);
  stream.on('data', keep);
  await run();
  stream.off('data', keep);
  const bytes = Buffer.concat(chunks);
  const rows: Rows = { definitions: [], payloads: [] };
  const answer = new StatementAnswer(
    {
      columns: (definitions) => {
        rows.definitions = definitions;
      },
      row: (source, start, end) => void rows.payloads.push(source.subarray(start, end)),
      rowTooLarge: () => {},
      ended: () => {},
      failed: (error) => {
        throw error;
      },
    },
    // With MariaDB, mysql2 negotiates extended metadata.
    server.kind === 'mariadb',
  );
  for (let at = 0; at < bytes.length; ) {
    const start = at + packetHeaderBytes;
    at = start + bytes.readUIntLE(at, 3);
    answer.packet(bytes, start, at);
  }
  return rows;
}

function encode(
  { definitions, payloads }: Rows,
  cells: TextFormatName,
  isBinary: boolean,
  byKernel: boolean,
): string[] {
  const described = definitions.map((definition) => describeColumn(definition, formats[cells], isBinary));
  const format: RowFormat = {
    kinds: Uint8Array.from(described, ({ kind }) => kind),
    values: isBinary ? Uint16Array.from(described, ({ value }) => value as number) : null,
    layout: formats[cells].layout,
    keys: null,
  };
  const rows: string[] = [];
  const encoder = new RowEncoder(format, noLimit, (batch) => void rows.push(...rowsOf(batch)));
  for (const payload of payloads) {
    const bytes = framed([payload]);
    if (byKernel && bytes.length < kernel.input.length) {
      bytes.copy(kernel.input);
      const stop = encoder.encode(0, bytes.length, noLimit);
      if (stop === kernelStop.inputUsed) continue;
      if (stop !== kernelStop.largeRow) throw new Error(`stopped for reason ${stop}`);
    }
    if (!encoder.append(payload, 0, payload.length)) throw new Error('a row was refused');
  }
  const last = encoder.take();
  encoder.release();
  return last === null ? rows : [...rows, ...rowsOf(last)];
}

function rowsOf(batch: Batch): string[] {
  const text = Buffer.from(batch.buffer, 0, batch.length);
  let start = 0;
  return Array.from(new Uint32Array(batch.buffer, rowEndsOffset(batch.length), batch.rows), (end) => {
    const row = text.toString('utf8', start, end);
    start = end + 1;
    return row;
  });
}
