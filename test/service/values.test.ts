import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { rawRows } from '../support/raw-rows.ts';
import { type DatabaseKind, type DatabaseServer, sharedServers } from '../support/servers.ts';
import { type Field, post, query, type SluiceProcess, startSluice } from '../support/sluice.ts';

// Both servers share the machine with other work.
t.setTimeout(540_000);

/*
 * Every type of both servers, compared with the output of the server's own command line client. The expected cell is
 * never computed from the answer of the service: it is the client's text, in the form that the table of values names.
 */

/** How the client queries a cell, and the cell that is expected for its output. */
type Form =
  /** The client's digits, without the leading zeros that JSON forbids. */
  | 'number'
  /** The client's text, in quotes. */
  | 'text'
  /** The client's output for HEX(v), in quotes. */
  | 'hex'
  /** The client's text unchanged: the document itself. */
  | 'json'
  /** The client's output for v + 0, because it prints a BIT as bytes. */
  | 'bits';

interface ValueCase {
  /** The column's type as in CREATE TABLE. */
  readonly type: string;
  readonly form: Form;
  readonly data_type: Field['data_type'];
  /** SQL expressions; null is added to each list. */
  readonly values: readonly string[];
  /** Only on this server. */
  readonly only?: DatabaseKind;
}

const bothSigns = (bits: bigint): string[] => [`${-(2n ** (bits - 1n))}`, `${2n ** (bits - 1n) - 1n}`, '0', '-1', '1'];
const noSign = (bits: bigint): string[] => [`${2n ** bits - 1n}`, `${2n ** (bits - 1n)}`, '0', '1', '7'];
const digits = (count: number): string => '9'.repeat(count);
const fractions = ['', '.1', '.12', '.123', '.1234', '.12345', '.123456'];

const integers: ValueCase[] = (
  [
    ['TINYINT', 8n, 8],
    ['SMALLINT', 16n, 16],
    ['MEDIUMINT', 24n, 32],
    ['INT', 32n, 32],
    ['BIGINT', 64n, 64],
  ] as const
).flatMap(([type, bits, shown]): ValueCase[] => [
  { type, form: 'number', data_type: { type: `Int${shown}` }, values: bothSigns(bits) },
  { type: `${type} UNSIGNED`, form: 'number', data_type: { type: `UInt${shown}` }, values: noSign(bits) },
  { type: `${type}(20) ZEROFILL`, form: 'number', data_type: { type: `UInt${shown}` }, values: noSign(bits) },
]);

const bits: ValueCase[] = [1, 2, 7, 8, 9, 16, 31, 32, 33, 53, 54, 63, 64].map((width) => ({
  type: `BIT(${width})`,
  form: 'bits',
  data_type: { type: 'UInt64' },
  values: [
    "b'0'",
    "b'1'",
    `b'${'1'.repeat(width)}'`,
    `b'1${'0'.repeat(width - 1)}'`,
    // Their bytes are the digits 5 and 12, but they must not be read as digits.
    ...(width >= 6 ? ['0x35'] : []),
    ...(width >= 14 ? ['0x3132'] : []),
  ],
}));

const floats: ValueCase[] = [
  {
    type: 'FLOAT',
    form: 'number',
    data_type: { type: 'Float32' },
    values: ['0', '-0e0', '1.5', '-3.4028234663852886e38', '3.4028e38', '1.17549435e-38', '1e-45', '0.1', '16777217'],
  },
  {
    type: 'DOUBLE',
    form: 'number',
    data_type: { type: 'Float64' },
    values: [
      '0',
      '-0e0',
      '0.1',
      '1e20',
      '1e15',
      '123456789012345680000',
      '1.7976931348623157e308',
      '-1.7976931348623157e308',
      '2.2250738585072014e-308',
      '4.9e-324',
      '-4.9e-324',
      '1e-5',
      '9007199254740993',
      '3.141592653589793',
    ],
  },
  {
    type: 'FLOAT(7,3)',
    form: 'number',
    data_type: { type: 'Float32' },
    values: ['0', '-0e0', '1.5', '9999.999', '-9999.999', '0.001'],
  },
  {
    type: 'DOUBLE(20,6)',
    form: 'number',
    data_type: { type: 'Float64' },
    values: ['0', '-0.0000001e0', '12345678901234.567890', '-0.000001'],
  },
  { type: 'FLOAT ZEROFILL', form: 'number', data_type: { type: 'Float32' }, values: ['0', '1.5', '0.25', '1e30'] },
  { type: 'DOUBLE ZEROFILL', form: 'number', data_type: { type: 'Float64' }, values: ['0', '1.5', '1e-7', '1e300'] },
  { type: 'DOUBLE UNSIGNED', form: 'number', data_type: { type: 'Float64' }, values: ['0', '1.5'] },
];

const decimal = (precision: number, scale: number, suffix: string, values: readonly string[]): ValueCase => ({
  type: `DECIMAL(${precision},${scale})${suffix}`,
  form: 'text',
  data_type: { type: 'Decimal', precision, scale },
  values,
});

const decimals: ValueCase[] = [
  decimal(65, 30, '', [
    `${digits(35)}.${digits(30)}`,
    `-${digits(35)}.${digits(30)}`,
    '0',
    '-0.0',
    `-0.${'0'.repeat(29)}1`,
  ]),
  decimal(65, 0, '', [digits(65), `-${digits(65)}`, '0', '-0']),
  decimal(30, 30, '', [`0.${digits(30)}`, `-0.${digits(30)}`, '0']),
  decimal(1, 0, '', ['9', '-9', '0']),
  decimal(1, 1, '', ['0.9', '-0.9', '0']),
  decimal(10, 2, '', ['12345678.90', '-12345678.90', '0.10', '-0.004', '3']),
  decimal(10, 2, ' UNSIGNED', ['12345678.90', '0']),
  decimal(20, 0, ' UNSIGNED', ['18446744073709551615', '0']),
  decimal(10, 3, ' ZEROFILL', ['1.5', '9999999.999', '0']),
];

const times: ValueCase[] = [
  {
    type: 'YEAR',
    form: 'number',
    data_type: { type: 'UInt16' },
    values: ['0', '1901', '2155', '2026', "'70'", "'69'"],
  },
  {
    type: 'DATE',
    form: 'text',
    data_type: { type: 'Date' },
    values: [
      "'0000-00-00'",
      "'1000-01-01'",
      "'9999-12-31'",
      "'2026-00-00'",
      "'2026-05-00'",
      "'2024-02-29'",
      "'0001-01-01'",
    ],
  },
  ...fractions.flatMap((fraction, precision): ValueCase[] => {
    const nines = fraction.replaceAll(/\d/g, '9');
    return [
      {
        type: `DATETIME(${precision})`,
        form: 'text',
        data_type: { type: 'Timestamp', precision },
        values: [
          "'0000-00-00 00:00:00'",
          "'1000-01-01 00:00:00'",
          `'9999-12-31 23:59:59${nines}'`,
          `'2026-01-02 03:04:05${fraction}'`,
          "'2026-00-00 00:00:00'",
          "'2026-01-02 00:00:00'",
        ],
      },
      {
        type: `TIMESTAMP(${precision}) NULL`,
        form: 'text',
        data_type: { type: 'Timestamp', precision },
        values: [
          "'0000-00-00 00:00:00'",
          "'2000-01-01 00:00:01'",
          `'2038-01-19 02:14:07${fraction}'`,
          "'1970-01-02 00:00:00'",
        ],
      },
      {
        type: `TIME(${precision})`,
        form: 'text',
        data_type: { type: 'Time', precision },
        values: [
          "'-838:59:59'",
          "'838:59:59'",
          `'-837:59:59${nines}'`,
          `'-00:00:00${nines}'`,
          "'00:00:00'",
          "'-00:00:00'",
          `'23:59:59${fraction}'`,
          `'100:00:00${fraction}'`,
        ],
      },
    ];
  }),
];

const everyControl = `_utf8mb4 0x${Buffer.from(Array.from({ length: 0x80 }, (_, code) => code)).toString('hex')}`;
const utf8 = (text: string): string => `_utf8mb4 0x${Buffer.from(text).toString('hex')}`;
const oddTexts = [
  "''",
  "' '",
  "'NULL'",
  utf8('"quoted" and \\ back \\" slashed \\u0041 /'),
  utf8('\u0000'),
  utf8('a\u0000b'),
  utf8('tab\tline\nreturn\rfeed\fback\b'),
  utf8('\u0001\u001f\u007f'),
  utf8('\u0080\u009f\u00a0\u00ff'),
  utf8('\u2028\u2029\ufeff\ufffd\ufffe\uffff'),
  utf8('😀 𝄞 👩‍👩‍👧 長江 \u{10ffff}'),
  utf8('</script><!--'),
];
const texts: ValueCase[] = [
  ...[
    ['CHAR(255)', 255],
    ['VARCHAR(16000)', 16_000],
    ['TINYTEXT', 255],
    ['TEXT', 65_535],
    ['MEDIUMTEXT', 300_000],
    ['LONGTEXT', 300_000],
  ].map(
    ([type, length]): ValueCase => ({
      type: `${type} CHARACTER SET utf8mb4`,
      form: 'text',
      data_type: { type: 'String' },
      values: [
        ...oddTexts,
        everyControl,
        `REPEAT('x', ${length})`,
        // Lengths around those where the length prefix of the protocol changes its size.
        ...[250, 251, 252].filter((size) => size <= Number(length)).map((size) => `REPEAT('"', ${size})`),
      ],
    }),
  ),
  {
    type: 'LONGTEXT CHARACTER SET utf8mb4',
    form: 'text',
    data_type: { type: 'String' },
    values: [65_535, 65_536, 262_144].flatMap((size) => [
      `REPEAT('é', ${size} / 2)`,
      `REPEAT(_utf8mb4 0xf09f9880, ${size} / 4)`,
    ]),
  },
  {
    type: 'VARCHAR(100) CHARACTER SET latin1',
    form: 'text',
    data_type: { type: 'String' },
    values: ["''", '_latin1 0xe9e8ff80', '_latin1 0x818d8f909d', "'ascii'"],
  },
  {
    type: 'VARCHAR(100) CHARACTER SET utf16',
    form: 'text',
    data_type: { type: 'String' },
    values: ["''", '_utf16 0xd83dde00', "'é\"'"],
  },
  {
    type: 'VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin',
    form: 'text',
    data_type: { type: 'String' },
    values: ["'a'", utf8('é')],
  },
  {
    type: `ENUM('', 'a', 'with "quotes"', 'tab\t', '😀') CHARACTER SET utf8mb4`,
    form: 'text',
    data_type: { type: 'String' },
    values: ["''", "'a'", '\'with "quotes"\'', "'tab\t'", "'😀'", "'not one of them'"],
  },
  {
    type: `SET('a', 'b', 'c d', '"', '😀') CHARACTER SET utf8mb4`,
    form: 'text',
    data_type: { type: 'String' },
    values: ["''", "'a'", "'a,b,c d,\",😀'", "'😀,a'"],
  },
];

const everyByte = `0x${Buffer.from(Array.from({ length: 0x100 }, (_, byte) => byte)).toString('hex')}`;
const binaries: ValueCase[] = (
  [
    ['BINARY(1)', 1],
    ['BINARY(255)', 255],
    ['VARBINARY(16000)', 16_000],
    ['TINYBLOB', 255],
    ['BLOB', 65_535],
    ['MEDIUMBLOB', 300_000],
    ['LONGBLOB', 300_000],
    ['CHAR(8) BYTE', 8],
  ] as const
).map(([type, length]) => ({
  type,
  form: 'hex',
  data_type: { type: 'Binary' },
  values: [
    "''",
    '0x00',
    '0xff',
    ...(length > 1 ? ['0x00ff00', `REPEAT(0xff, ${length})`, `REPEAT(0x00, ${length})`, "'text'"] : []),
    ...(length > 256 ? [everyByte, 'REPEAT(0xc3, 250)', 'REPEAT(0xc3, 251)'] : []),
  ],
}));

const documents = [
  '\'{"a": [1, 2.50, {"b": null}], "c": "\\\\"quoted\\\\" \\\\u2028 \\\\\\\\ é 😀"}\'',
  "'[]'",
  "'{}'",
  "'null'",
  "'true'",
  '\'""\'',
  "'18446744073709551615'",
  "'-9223372036854775808'",
  "'[9007199254740993, 123456789012345678]'",
  "'1e300'",
  "'-0.0'",
  `CONCAT('[', REPEAT('"x", ', 40000), '1]')`,
];
const odds: ValueCase[] = [
  {
    type: 'JSON',
    form: 'json',
    data_type: { type: 'Variant' },
    values: [
      ...documents,
      'JSON_ARRAY(CAST(12345678901234567890.123456789 AS DECIMAL(40,9)), CAST(0xff00 AS BINARY), NOW(6))',
      'JSON_QUOTE(CONVERT(0x000102031f7f USING utf8mb4))',
    ],
    only: 'mysql',
  },
  { type: 'JSON', form: 'text', data_type: { type: 'String' }, values: documents, only: 'mariadb' },
  {
    type: 'GEOMETRY',
    form: 'hex',
    data_type: { type: 'Geometry' },
    values: [
      "ST_GeomFromText('POINT(1 2)')",
      "ST_GeomFromText('POINT(1 2)', 4326)",
      "ST_GeomFromText('LINESTRING(0 0, 1.5 -1e10)')",
      "ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 0))')",
      "ST_GeomFromText('MULTIPOINT(1 1, 2 2)')",
      "ST_GeomFromText('MULTILINESTRING((0 0, 1 1), (2 2, 3 3))')",
      "ST_GeomFromText('MULTIPOLYGON(((0 0, 4 0, 4 4, 0 0)))')",
      "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(0 0, 1 1))')",
      "ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')",
    ],
  },
  { type: 'POINT', form: 'hex', data_type: { type: 'Geometry' }, values: ["ST_GeomFromText('POINT(-0.5 1e300)')"] },
  {
    type: 'POLYGON',
    form: 'hex',
    data_type: { type: 'Geometry' },
    values: ["ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 0))')"],
  },
  {
    type: 'VECTOR(3)',
    form: 'hex',
    data_type: { type: 'Vector' },
    values: ["STRING_TO_VECTOR('[1, -2.5, 1e30]')", "STRING_TO_VECTOR('[0]')"],
    only: 'mysql',
  },
  {
    type: 'UUID',
    form: 'text',
    data_type: { type: 'String' },
    values: [
      "'00000000-0000-0000-0000-000000000000'",
      "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
      "'123e4567-e89b-12d3-a456-426655440000'",
    ],
    only: 'mariadb',
  },
  {
    type: 'INET6',
    form: 'text',
    data_type: { type: 'String' },
    values: ["'::'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'::ffff:1.2.3.4'"],
    only: 'mariadb',
  },
  {
    type: 'INET4',
    form: 'text',
    data_type: { type: 'String' },
    values: ["'0.0.0.0'", "'255.255.255.255'"],
    only: 'mariadb',
  },
];

const cases = [...integers, ...bits, ...floats, ...decimals, ...times, ...texts, ...binaries, ...odds];

/** An expression without a column: only the server determines its type. */
interface ExpressionCase {
  readonly value: string;
  readonly from?: string;
  readonly form: Form;
  readonly data_type: Field['data_type'] | Readonly<Record<DatabaseKind, Field['data_type'] | null>>;
  /** Whether the column is nullable; omitted where the servers differ. */
  readonly nullable?: boolean;
}

const integer = { mariadb: { type: 'Int32' }, mysql: { type: 'Int64' } };
const number = (precision: number, scale: number): Field['data_type'] => ({ type: 'Decimal', precision, scale });
const timestamp = (precision: number): Field['data_type'] => ({ type: 'Timestamp', precision });
const time = (precision: number): Field['data_type'] => ({ type: 'Time', precision });
const [int64, uint64, float64] = [{ type: 'Int64' }, { type: 'UInt64' }, { type: 'Float64' }];
const [text, binary, date] = [{ type: 'String' }, { type: 'Binary' }, { type: 'Date' }];

const expressions: ExpressionCase[] = [
  { value: '1', form: 'number', data_type: integer, nullable: false },
  { value: '-1', form: 'number', data_type: integer },
  { value: 'TRUE', form: 'number', data_type: integer },
  { value: '18446744073709551615', form: 'number', data_type: uint64, nullable: false },
  { value: '9223372036854775808', form: 'number', data_type: uint64 },
  { value: '~0', form: 'number', data_type: uint64 },
  { value: '1.50', form: 'text', data_type: number(3, 2), nullable: false },
  { value: '123456789012345678901234567890.123456789', form: 'text', data_type: number(39, 9) },
  { value: '1e0', form: 'number', data_type: float64 },
  { value: '-0e0', form: 'number', data_type: float64 },
  { value: '0.1e0 + 0.2e0', form: 'number', data_type: float64 },
  { value: '0.1 + 0.2', form: 'text', data_type: number(3, 1) },
  { value: 'POW(2, 70)', form: 'number', data_type: float64 },
  { value: 'PI()', form: 'number', data_type: float64 },
  { value: "'text'", form: 'text', data_type: text, nullable: false },
  { value: "''", form: 'text', data_type: text },
  { value: 'NULL', form: 'text', data_type: { type: 'Null' }, nullable: true },
  { value: '0xff', form: 'hex', data_type: binary },
  { value: "b'101'", form: 'hex', data_type: binary },
  { value: "X''", form: 'hex', data_type: binary },
  { value: "DATE '2026-01-02'", form: 'text', data_type: date },
  { value: "TIME '10:11:12.345'", form: 'text', data_type: time(3) },
  { value: "TIMESTAMP '2026-01-02 03:04:05.678901'", form: 'text', data_type: timestamp(6) },
  { value: 'SUM(i)', from: 'FROM t', form: 'text', data_type: number(32, 0), nullable: true },
  { value: 'SUM(b)', from: 'FROM t', form: 'text', data_type: number(42, 0) },
  { value: 'SUM(d)', from: 'FROM t', form: 'text', data_type: number(65, 30) },
  { value: 'SUM(g)', from: 'FROM t', form: 'number', data_type: float64 },
  { value: 'AVG(i)', from: 'FROM t', form: 'text', data_type: number(14, 4) },
  { value: 'AVG(b)', from: 'FROM t', form: 'text', data_type: number(24, 4) },
  // The servers differ in the number of digits of an average of 65-digit numbers.
  {
    value: 'AVG(d)',
    from: 'FROM t',
    form: 'text',
    data_type: { mariadb: number(69, 34), mysql: number(65, 30) },
  },
  { value: 'MAX(d + d)', from: 'FROM t', form: 'text', data_type: number(66, 30) },
  { value: 'MAX(d * d)', from: 'FROM t', form: 'text', data_type: { mariadb: number(65, 38), mysql: number(65, 30) } },
  { value: '10 / 3', form: 'text', data_type: number(6, 4), nullable: true },
  { value: '7 DIV 2', form: 'number', data_type: integer },
  { value: '1.10 * 1.10', form: 'text', data_type: number(6, 4) },
  { value: 'COUNT(*)', from: 'FROM t', form: 'number', data_type: int64, nullable: false },
  { value: 'COUNT(i)', from: 'FROM t', form: 'number', data_type: int64 },
  { value: 'MIN(s)', from: 'FROM t', form: 'text', data_type: text },
  { value: 'MAX(ts)', from: 'FROM t', form: 'text', data_type: timestamp(3) },
  { value: 'MIN(tm)', from: 'FROM t', form: 'text', data_type: time(2) },
  { value: 'MAX(y)', from: 'FROM t', form: 'number', data_type: { type: 'UInt16' } },
  { value: 'MAX(f)', from: 'FROM t', form: 'number', data_type: { type: 'Float32' } },
  { value: 'MAX(l)', from: 'FROM t', form: 'hex', data_type: binary },
  { value: 'GROUP_CONCAT(s)', from: 'FROM t', form: 'text', data_type: text },
  // Both servers return some expressions of BIT type as bytes and others as digits.
  ...['bt', 'bt1', 'bt8', 'bt64'].flatMap((column) =>
    ['MAX(%)', 'IFNULL(%, %)', 'COALESCE(%)', 'NULLIF(%, NULL)', '(SELECT MIN(%) FROM t)'].map(
      (value): ExpressionCase => ({
        value: value.replaceAll('%', column),
        from: 'FROM t WHERE id = 1',
        form: 'bits',
        data_type: uint64,
      }),
    ),
  ),
  { value: "CONCAT('a', 1)", form: 'text', data_type: text },
  { value: "CONCAT(x, 'a')", from: 'FROM t WHERE id = 1', form: 'hex', data_type: binary },
  { value: "CASE WHEN 1 THEN 1 ELSE 'a' END", form: 'text', data_type: text },
  { value: 'CASE WHEN 1 THEN 1 ELSE 1.5 END', form: 'text', data_type: number(2, 1) },
  { value: 'IF(1, NULL, 5)', form: 'number', data_type: integer, nullable: true },
  { value: "IFNULL(NULL, 'x')", form: 'text', data_type: text, nullable: false },
  { value: 'COALESCE(NULL, 1.25)', form: 'text', data_type: number(3, 2) },
  { value: 'NULLIF(1, 1)', form: 'number', data_type: integer, nullable: true },
  { value: 'v', from: "FROM (SELECT 1 AS v UNION SELECT 'a') AS u LIMIT 1", form: 'text', data_type: text },
  { value: 'v', from: 'FROM (SELECT 1 AS v UNION SELECT 1.5) AS u LIMIT 1', form: 'text', data_type: number(2, 1) },
  { value: 'v', from: 'FROM (SELECT NULL AS v UNION ALL SELECT 1) AS u LIMIT 1', form: 'number', data_type: integer },
  {
    value: 'v',
    from: 'FROM (SELECT -1 AS v UNION SELECT 18446744073709551615) AS u ORDER BY v DESC LIMIT 1',
    form: 'text',
    data_type: number(20, 0),
  },
  {
    value: 'v',
    from: 'FROM (SELECT x AS v FROM t UNION SELECT s FROM t) AS u WHERE v = 0xc3a9',
    form: 'hex',
    data_type: binary,
  },
  { value: '@never_set', form: 'hex', data_type: binary, nullable: true },
  { value: "(@text := 'abc')", form: 'text', data_type: text },
  { value: '(@number := 1.5)', form: 'text', data_type: number(2, 1) },
  { value: 'CAST(5 AS DECIMAL(65,30))', form: 'text', data_type: number(65, 30) },
  { value: "CAST('-9223372036854775808' AS SIGNED)", form: 'number', data_type: int64 },
  { value: "CAST('18446744073709551615' AS UNSIGNED)", form: 'number', data_type: uint64 },
  { value: "CAST('a' AS BINARY)", form: 'hex', data_type: binary },
  { value: "CAST('2026-01-01' AS DATETIME(3))", form: 'text', data_type: timestamp(3) },
  { value: "JSON_OBJECT('a', 1)", form: 'json', data_type: { mariadb: null, mysql: { type: 'Variant' } } },
  { value: "JSON_EXTRACT('[1.50]', '$[0]')", form: 'json', data_type: { mariadb: null, mysql: { type: 'Variant' } } },
  { value: "TIMEDIFF('10:00:00.5', '11:00:00')", form: 'text', data_type: time(1) },
  { value: 'SEC_TO_TIME(3.25)', form: 'text', data_type: time(2) },
  { value: 'FROM_UNIXTIME(1.5)', form: 'text', data_type: timestamp(1) },
  { value: "DATE_ADD('2026-01-01', INTERVAL 1 SECOND)", form: 'text', data_type: text },
  { value: 'DATE_ADD(dt, INTERVAL 1 DAY)', from: 'FROM t WHERE id = 1', form: 'text', data_type: date },
  { value: "UNHEX('ff')", form: 'hex', data_type: binary },
  { value: '_latin1 0xe9', form: 'text', data_type: text },
  { value: "CONVERT('é' USING latin1)", form: 'text', data_type: text },
  { value: "INET6_ATON('::1')", form: 'hex', data_type: binary },
  { value: "ST_AsText(ST_GeomFromText('POINT(1 2)'))", form: 'text', data_type: text },
  { value: "ST_GeomFromText('POINT(1 2)')", form: 'hex', data_type: { type: 'Geometry' } },
  { value: "ST_AsBinary(ST_GeomFromText('POINT(1 2)'))", form: 'hex', data_type: binary },
  { value: 'ROUND(e, 1)', from: 'FROM t WHERE id = 2', form: 'text', data_type: number(10, 1) },
  { value: 'LAST_INSERT_ID()', form: 'number', data_type: uint64, nullable: false },
  { value: '(SELECT i FROM t WHERE id = 99)', form: 'number', data_type: { type: 'Int32' }, nullable: true },
  { value: 'b', from: 'FROM t WHERE id = 1', form: 'number', data_type: uint64, nullable: false },
];

/** Functions of the clock, which SET timestamp stops in a session. */
const clocks: readonly (readonly [string, Field['data_type']])[] = [
  ['NOW()', timestamp(0)],
  ['NOW(6)', timestamp(6)],
  ['CURTIME(3)', time(3)],
  ['CURDATE()', date],
  ['UTC_TIMESTAMP(2)', timestamp(2)],
];

const expressionTable = `
  CREATE TABLE t (
    id INT PRIMARY KEY, i INT, b BIGINT UNSIGNED NOT NULL, d DECIMAL(65,30), e DECIMAL(10,2), f FLOAT, g DOUBLE,
    s VARCHAR(20) CHARACTER SET utf8mb4, x VARBINARY(20), l BLOB, ts TIMESTAMP(3) NULL, tm TIME(2), dt DATE, y YEAR,
    bt BIT(10), bt1 BIT(1), bt8 BIT(8), bt64 BIT(64)
  );
  INSERT INTO t VALUES
    (1, 1, 18446744073709551615, 1.5, 2.25, 1.5, 2.5, 'é', 0xff, 0x00ff, '2026-01-01 00:00:00.123', '10:00:00.12',
      '2026-01-02', 2026, 10, 1, 200, 18446744073709551615),
    (2, NULL, 1, NULL, -3.55, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);`;

const keptSession = { session: { max_idle_time: 60 } };

for (const server of await sharedServers()) {
  t.test(`values on ${server.kind} ${server.version}`, async (t) => {
    const database = `values_${randomUUID().replaceAll('-', '')}`;
    await server.sql(`CREATE DATABASE ${database} CHARACTER SET utf8mb4`);
    t.teardown(() => server.sql(`DROP DATABASE ${database}`));
    const sluice = await startSluice(['--mysql_url', `${server.url}${database}`, '--worker_threads', '1']);
    t.teardown(() => sluice.stop());

    await t.test('columns of every type are returned as the client prints them', async (t) => {
      const columns = cases
        .filter(({ only }) => only === undefined || only === server.kind)
        .map((valueCase, number) => ({ ...valueCase, table: `case_${number}`, all: ['NULL', ...valueCase.values] }));
      const creations = columns.flatMap(({ table, type, all }) => [
        `CREATE TABLE ${table} (id INT PRIMARY KEY, v ${type});`,
        ...all.map((value, index) => `INSERT INTO ${table} VALUES (${index}, ${value});`),
      ]);
      await server.sql(`SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'; ${creations.join('\n')}`, { database });
      const sources = columns.flatMap(({ table, form, all }) =>
        all.map((_, index) => ({ form, value: 'v', from: `FROM ${table} WHERE id = ${index}` })),
      );
      const cells = await clientCells(server, database, sources);
      for (const column of columns) await testColumn(t, sluice, column, cells.splice(0, column.all.length));
    });

    await t.test('the result of an expression has the type that the server reports', async (t) => {
      await server.sql(expressionTable, { database });
      const tried = expressions.flatMap(({ data_type, ...expression }) => {
        const kind = 'mysql' in data_type ? data_type[server.kind] : data_type;
        return expression.form === 'json' && kind === null ? [] : [{ from: '', ...expression, kind }];
      });
      const cells = await clientCells(server, database, tried, "SET sql_mode = '';");
      for (const [index, { value, from, form, kind, nullable }] of tried.entries()) {
        const { last, pages } = await query(sluice.url, `SELECT ${value} ${from}`);
        if (last.error !== null) t.fail(`${value}: ${last.error.message}`);
        t.strictSame(last.schema.fields[0]?.data_type, kind, `the type of ${value}`);
        if (nullable !== undefined) t.equal(last.schema.fields[0]?.nullable, nullable, `whether ${value} is nullable`);
        const rows = pages.flatMap((page) => rawRows(page.text));
        if (rows.length !== 1) t.fail(`${value}: ${rows.length} rows`);
        compareCell(t, form, rows[0]?.[0] ?? '', cells[index] as string, `${value} ${from}`);
      }
    });

    await t.test(
      'A2: numbers are valid JSON, and the same without params, with params and in both dialects',
      async (t) => {
        // MariaDB prints a DOUBLE without decimals that rounds to zero as `0.`. Both servers print an infinity as 0.
        const large = '(SELECT 1e308 AS x UNION ALL SELECT 1e308) AS large';
        const zerofill = 'CREATE TEMPORARY TABLE z (f FLOAT ZEROFILL, d DOUBLE ZEROFILL, i INT(6) ZEROFILL)';
        const session = { id: (await query(sluice.url, zerofill, { body: keptSession })).last.session_id };
        await query(sluice.url, 'INSERT INTO z VALUES (-0e0, -0e0, 7), (1.5, 1e-20, 0)', { body: { session } });
        for (const [sql, mariadb, mysql] of [
          ['SELECT CAST(0.5 AS CHAR(20)) - 1', '-0', '-0.5'],
          ['SELECT SUM(CONVERT(0.25, CHAR))', '0', '0.25'],
          ['SELECT -CONVERT(0.25, CHAR)', '-0', '-0.25'],
          ['SELECT IF(0, 1, -CONVERT(0.25, CHAR))', '-0', '-0.25'],
          ['SELECT IFNULL(CONVERT(0.25, CHAR) + 0, 1)', '0', '0.25'],
          [`SELECT SUM(x) FROM ${large}`, '0', '0'],
          [`SELECT AVG(-x) FROM ${large}`, '0', '0'],
          ['SELECT f FROM z WHERE f = 0', '0', '-0'],
          ['SELECT d FROM z WHERE f = 0', '0', '-0'],
          ['SELECT i FROM z WHERE f = 0', '7', '7'],
          ['SELECT d FROM z WHERE f > 0', '1e-20', '1e-20'],
        ] as const) {
          const expected = server.kind === 'mariadb' ? mariadb : mysql;
          const asText = await query(sluice.url, sql, { body: { session } });
          t.strictSame(asText.last.error, null, sql);
          t.strictSame(rawRows(asText.pages[0]?.text ?? ''), [[expected]], sql);
          const bound = await query(sluice.url, sql, { body: { session, params: [] } });
          t.strictSame(rawRows(bound.pages[0]?.text ?? ''), [[expected]], `${sql}, with params`);
          if (sql.includes(' z ')) continue;
          for (const params of [null, []]) {
            const headers = { 'user-agent': 'databend-test' };
            const { json } = await post(sluice.url, { sql, params }, { headers });
            t.strictSame(json.data, [[expected]], `${sql}, to a client of Databend`);
          }
        }
      },
    );

    await t.test(
      'E (integers): 64-bit integers are strings on request, in rows and insert ids, with and without params',
      async (t) => {
        const columns =
          'id BIGINT PRIMARY KEY AUTO_INCREMENT, u BIGINT UNSIGNED, b BIT(64), s BIT(2), i INT UNSIGNED, d DOUBLE';
        await server.sql(`CREATE TABLE wide (${columns})`, { database });
        const body = { integers: 'string' };
        const id = '9007199254740993';
        const insert = `INSERT INTO wide VALUES (${id}, 18446744073709551615, 18446744073709551615, 2, 4294967295, 1e300)`;
        const inserted = await query(sluice.url, insert, { body });
        t.equal(inserted.last.affected_rows, 1);
        const generated = await query(sluice.url, 'INSERT INTO wide (u) VALUES (7)', { body });
        t.equal(generated.last.last_insert_id, '9007199254740994');
        const sql = `SELECT id, u, b, s, i, d, -id, b | 0, COUNT(*), NULL, YEAR('2026-01-01') FROM wide WHERE id = ${id} GROUP BY id`;
        const large = '"18446744073709551615"';
        const typed = [`"${id}"`, large, large, '"2"', '4294967295', '1e300', `"-${id}"`, large, '"1"', 'null', '2026'];
        for (const params of [undefined, []]) {
          const { last, pages } = await query(sluice.url, sql, { body: { ...body, ...(params && { params }) } });
          t.strictSame(rawRows(pages[0]?.text ?? ''), [typed]);
          const asNumbers = await query(sluice.url, sql, { body: { integers: 'number', ...(params && { params }) } });
          t.strictSame(last.schema, asNumbers.last.schema, 'the schema is the same');
          const numbers = typed.map((cell) => cell.replaceAll('"', ''));
          t.strictSame(rawRows(asNumbers.pages[0]?.text ?? ''), [numbers]);
        }
      },
    );

    await t.test('clock functions return the same as in the client, to the last digit', async (t) => {
      const clock = 'SET timestamp = 1767225600.123456';
      const { last } = await query(sluice.url, clock, { body: { session: { max_idle_time: 60 } } });
      const sources = clocks.map(([value]) => ({ form: 'text', value, from: '' }) as const);
      const cells = await clientCells(server, database, sources, `${clock};`);
      for (const [index, [value, data_type]] of clocks.entries()) {
        const result = await query(sluice.url, `SELECT ${value}`, { body: { session: { id: last.session_id } } });
        t.strictSame(result.last.schema.fields[0]?.data_type, data_type);
        t.strictSame(rawRows(result.pages[0]?.text ?? ''), [[cells[index]]]);
      }
    });

    await t.test('a column is nullable unless its definition says otherwise', async (t) => {
      await server.sql('CREATE TABLE n (a INT NOT NULL, b INT, c VARCHAR(5) NOT NULL, d TEXT, PRIMARY KEY (a))', {
        database,
      });
      const odd = '"odd\\ 名';
      const { last } = await query(sluice.url, `SELECT a, b, c, d, a AS \`${odd}\`, '' FROM n`);
      t.strictSame(
        last.schema.fields.map(({ name, nullable }) => [name, nullable]),
        [
          ['a', false],
          ['b', true],
          ['c', false],
          ['d', true],
          [odd, false],
          ['', false],
        ],
      );
      t.strictSame(last.data, []);
    });
  });
}

async function testColumn(
  t: Test,
  sluice: SluiceProcess,
  { table, type, form, data_type, all }: ValueCase & { readonly table: string; readonly all: readonly string[] },
  expected: readonly string[],
): Promise<void> {
  if (expected[0] !== 'null') t.fail(`${type}: the first cell is ${expected[0]}`);
  const { last, pages } = await query(sluice.url, `SELECT v FROM ${table} ORDER BY id`);
  if (last.error !== null) t.fail(`${type}: ${last.error.message}`);
  t.strictSame(last.schema.fields, [{ name: 'v', data_type, nullable: true, default_expr: null }], type);
  const rows = pages.flatMap((page) => rawRows(page.text));
  if (rows.length !== all.length) t.fail(`${type}: ${rows.length} rows`);
  for (const [index, value] of all.entries()) {
    compareCell(t, form, rows[index]?.[0] ?? '', expected[index] as string, `${type}: ${value}`);
  }
}

/**
 * Text cells are compared after parsing, because JSON can encode a string in several ways; other cells byte by byte. A
 * correct cell is not reported, because there are thousands.
 */
function compareCell(t: Test, form: Form, cell: string, expected: string, what: string): void {
  const isText = form === 'text' && cell.startsWith('"');
  if (isText ? JSON.parse(cell) === JSON.parse(expected) : cell === expected) return;
  const label = what.length > 60 ? `${what.slice(0, 60)}…` : what;
  // A failure shows only the beginning of long texts.
  t.fail(label, { found: cell.slice(0, 2000), wanted: expected.slice(0, 2000) });
}

interface Source {
  readonly form: Form;
  readonly value: string;
  readonly from: string;
}

/**
 * The output of the native client for each value, as the JSON that the table of values specifies. One client run handles
 * all values, because starting it takes longer than a hundred values.
 */
async function clientCells(
  server: DatabaseServer,
  database: string,
  sources: readonly Source[],
  before = '',
): Promise<string[]> {
  const shown = { number: '%', text: '%', json: '%', hex: 'HEX(%)', bits: '% + 0' };
  // Cells may contain line ends and tabs, so each value is the whole output of a statement, between unique marks.
  const mark = randomUUID();
  const statements = sources.flatMap(({ form, value, from }) => [
    `SELECT ISNULL(${value}) ${from};`,
    `SELECT '${mark}';`,
    `SELECT ${shown[form].replace('%', () => value)} ${from};`,
    `SELECT '${mark}';`,
  ]);
  const printed = await server.clientSql(`${before}\n${statements.join('\n')}\nSELECT 'end';`, { database });
  const parts = printed.split(`\n${mark}\n`);
  if (parts.length !== 2 * sources.length + 1) throw new Error(`the client has printed ${parts.length} parts`);
  return sources.map(({ form }, index) => {
    if (parts[2 * index] === '1') return 'null';
    const cell = parts[2 * index + 1] as string;
    if (form === 'number') return cell.replace(/^(-?)0+(?=\d)/, '$1');
    return form === 'text' || form === 'hex' ? JSON.stringify(cell) : cell;
  });
}
