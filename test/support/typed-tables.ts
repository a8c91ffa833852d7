// A table with a column of every type of a server, and rows with the least, the largest and random values of each.

import { pick, type Random, randomBytes } from './random.ts';
import type { DatabaseKind, DatabaseServer } from './servers.ts';

export interface TypedColumn {
  readonly name: string;
  readonly type: string;
  /** The Arrow type of its cells, as `arrow-cells.ts` writes it. */
  readonly arrow: string;
  /** Expressions of SQL. NULL is added to each. */
  readonly values: readonly string[];
  /** Gives another expression. */
  readonly random: (random: Random) => string;
}

const quoted = (text: string): string => (text === '' ? "''" : `_utf8mb4 x'${Buffer.from(text).toString('hex')}'`);
const bytes = (random: Random, most: number): string => `x'${randomBytes(random, random(most + 1)).toString('hex')}'`;
const digits = (random: Random, count: number): string => Array.from({ length: count }, () => random(10)).join('');

function randomBits(random: Random, bits: number): bigint {
  const all = (BigInt(random(2 ** 32)) << 32n) | BigInt(random(2 ** 32));
  return BigInt.asUintN(bits, all) >> BigInt(random(bits));
}

const integers = [
  ['TINYINT', 8, 8],
  ['SMALLINT', 16, 16],
  ['MEDIUMINT', 24, 32],
  ['INT', 32, 32],
  ['BIGINT', 64, 64],
] as const;

const integerColumns = integers.flatMap(([type, bits, arrowBits]): TypedColumn[] => {
  const [half, all] = [2n ** BigInt(bits - 1), 2n ** BigInt(bits)];
  return [
    {
      ...{ name: `${type}_s`, type, arrow: `Int${arrowBits}` },
      values: [-half, half - 1n, 0n, 1n, -1n].map(String),
      random: (random) => String(randomBits(random, bits) - half),
    },
    {
      ...{ name: `${type}_u`, type: `${type} UNSIGNED`, arrow: `Uint${arrowBits}` },
      values: [0n, all - 1n, half, 1n].map(String),
      random: (random) => String(randomBits(random, bits)),
    },
  ];
});

const floats = ['0', '-0e0', '0.1', '-1.5', '1e-10', '123456.5', '16777217', '12345.65', '9999995', '1e15', '1e-15'];

function randomDouble(random: Random): string {
  const value = (random(2 ** 32) - 2 ** 31) * 10 ** (random(30) - 20);
  return value.toExponential();
}

const realColumns: TypedColumn[] = [
  {
    ...{ name: 'float_', type: 'FLOAT', arrow: 'Float32' },
    values: [...floats, '3.4028234e38', '-3.4028234e38', '1.17549435e-38', '1e-45'],
    random: randomDouble,
  },
  { name: 'float_7_3', type: 'FLOAT(7,3)', arrow: 'Float32', values: floats, random: randomDouble },
  {
    ...{ name: 'double_', type: 'DOUBLE', arrow: 'Float64' },
    values: [
      ...floats,
      ...['1.7976931348623157e308', '-1.7976931348623157e308', '2.2250738585072014e-308', '5e-324', '9007199254740993'],
    ],
    random: randomDouble,
  },
  { name: 'double_20_6', type: 'DOUBLE(20,6)', arrow: 'Float64', values: floats, random: randomDouble },
];

function decimalColumn(precision: number, scale: number, more = ''): TypedColumn {
  const nines = (count: number): string => '9'.repeat(count);
  const text = (whole: string, part: string): string => (scale === 0 ? whole || '0' : `${whole || '0'}.${part}`);
  const largest = text(nines(precision - scale), nines(scale));
  const least = text('', `${'0'.repeat(Math.max(0, scale - 1))}1`);
  const signed = [largest, least, '0', '1'].flatMap((value) => [value, `-${value}`]);
  return {
    name: `decimal_${precision}_${scale}${more.toLowerCase().replace(' ', '_')}`,
    type: `DECIMAL(${precision},${scale})${more}`,
    arrow: precision <= 38 ? `Decimal128(${precision}, ${scale})` : `Decimal256(76, ${scale})`,
    values: more === '' ? signed : signed.filter((value) => !value.startsWith('-')),
    random: (random) => {
      const whole = digits(random, random(precision - scale + 1));
      return `${more === '' && random(2) === 0 ? '-' : ''}${text(whole, digits(random, scale))}`;
    },
  };
}

/** The scale of MySQL's decimals ends at 30, that of MariaDB's at 38. */
const decimalColumns = (kind: DatabaseKind): TypedColumn[] => [
  ...[decimalColumn(1, 0), decimalColumn(9, 4), decimalColumn(18, 2), decimalColumn(19, 19), decimalColumn(38, 0)],
  ...[decimalColumn(38, 10), decimalColumn(38, kind === 'mariadb' ? 38 : 30), decimalColumn(39, 10)],
  ...[
    decimalColumn(65, 30),
    decimalColumn(65, 0),
    decimalColumn(20, 5, ' UNSIGNED'),
    decimalColumn(12, 3, ' ZEROFILL'),
  ],
];

/** The first day that the servers take, and the last, in days since 1970. */
const [firstDay, lastDay] = [-719_162, 2_932_896];

function randomDay(random: Random): string {
  const day = random(3) === 0 ? random(20_000) : firstDay + random(lastDay - firstDay + 1);
  return new Date(day * 86_400_000).toISOString().slice(0, 10);
}

function randomTime(random: Random): string {
  const two = (below: number): string => String(random(below)).padStart(2, '0');
  return `${two(24)}:${two(60)}:${two(60)}`;
}

function fractionColumns(precision: number): TypedColumn[] {
  const size = precision === 0 ? '' : `(${precision})`;
  const fraction = (text: string): string => (precision === 0 ? '' : `.${text.slice(0, precision)}`);
  const [nines, ones] = [fraction('999999'), fraction('123456')];
  const least = fraction(`${'0'.repeat(Math.max(0, precision - 1))}1`);
  const randomFraction = (random: Random): string => (random(4) === 0 ? '' : fraction(digits(random, 6)));
  return [
    {
      ...{ name: `datetime_${precision}`, type: `DATETIME${size}`, arrow: 'Timestamp<MICROSECOND>' },
      values: [
        ...["'0001-01-01 00:00:00'", `'9999-12-31 23:59:59${nines}'`, "'1970-01-01 00:00:00'"],
        ...[`'1969-12-31 23:59:59${nines}'`, `'1969-12-31 23:59:58${least}'`, `'2024-02-29 12:34:56${ones}'`],
      ],
      random: (random) => `'${randomDay(random)} ${randomTime(random)}${randomFraction(random)}'`,
    },
    {
      ...{ name: `timestamp_${precision}`, type: `TIMESTAMP${size} NULL`, arrow: 'Timestamp<MICROSECOND>' },
      values: ["'1970-01-02 00:00:01'", `'2038-01-18 03:14:07${nines}'`, `'2000-01-01 00:00:00${least}'`],
      random: (random) => {
        const day = new Date((1 + random(24_000)) * 86_400_000).toISOString().slice(0, 10);
        return `'${day} ${randomTime(random)}${randomFraction(random)}'`;
      },
    },
    {
      ...{ name: `time_${precision}`, type: `TIME${size}`, arrow: 'Duration<MICROSECOND>' },
      values: [
        ...["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:00'", `'-00:00:00${least}'`, `'-837:59:59${nines}'`],
        ...[`'837:59:59${nines}'`, `'100:00:00${ones}'`, "'24:00:00'", "'-00:00:01'"],
      ],
      random: (random) => {
        const sign = random(2) === 0 ? '-' : '';
        const hours = random(2) === 0 ? random(24) : random(838);
        return `'${sign}${hours}:${randomTime(random).slice(3)}${randomFraction(random)}'`;
      },
    },
  ];
}

const timeColumns: TypedColumn[] = [
  {
    ...{ name: 'date_', type: 'DATE', arrow: 'Date32<DAY>' },
    values: ['0001-01-01', '9999-12-31', '1970-01-01', '1969-12-31', '2024-02-29', '1582-10-10', '0004-02-29'].map(
      (day) => `'${day}'`,
    ),
    random: (random) => `'${randomDay(random)}'`,
  },
  {
    ...{ name: 'year_', type: 'YEAR', arrow: 'Uint16', values: ['0', '1901', '2155', '2024'] },
    random: (random) => String(1901 + random(255)),
  },
  ...[0, 1, 2, 3, 4, 5, 6].flatMap(fractionColumns),
];

const pieces = [
  'a',
  'Zeile\n',
  'é',
  '😀',
  '漢字',
  '"',
  "'",
  '\\',
  ',',
  '\t',
  '\0',
  '\u2028',
  ' ',
  'NULL',
  '\ufeff',
  '𝔘',
];

function randomText(random: Random): string {
  return Array.from({ length: random(12) }, () => pick(random, pieces)).join('');
}

const texts = ['', 'NULL', 'plain', '"é😀"\\\n\t,', '😀'.repeat(40), 'é'.repeat(150), '𝔘 and \0'].map(quoted);

function textColumn(name: string, type: string, values = texts): TypedColumn {
  return { name, type, arrow: 'Utf8', values, random: (random) => quoted(randomText(random)) };
}

const latin = ['', 'é', 'ÿ', 'plain'].map(quoted);
const documents = ['{"a": [1, 2.50, null], "é\\"": "\\u2028😀"}', '[]', '7', '"text"', '18446744073709551615', '{}'];

const textColumns: TypedColumn[] = [
  textColumn('char_', 'CHAR(40)', texts.slice(0, 5)),
  textColumn('varchar_', 'VARCHAR(400)'),
  textColumn('tinytext_', 'TINYTEXT', texts.slice(0, 5)),
  textColumn('text_', 'TEXT'),
  textColumn('mediumtext_', 'MEDIUMTEXT', [...texts, "REPEAT('é', 35000)", "REPEAT('x', 70000)", "REPEAT('y', 251)"]),
  textColumn('longtext_', 'LONGTEXT'),
  { ...textColumn('latin_', 'VARCHAR(40) CHARACTER SET latin1', latin), random: (random) => pick(random, latin) },
  textColumn('utf16_', 'VARCHAR(100) CHARACTER SET utf16'),
  {
    ...{ name: 'enum_', type: "ENUM('', 'a', '\"é')", arrow: 'Utf8', values: ["''", "'a'", quoted('"é')] },
    random: (random) => String(1 + random(3)),
  },
  {
    ...{ name: 'set_', type: "SET('a', 'b', '\"é')", arrow: 'Utf8', values: ["''", "'a,b'", '7'] },
    random: (random) => String(random(8)),
  },
  {
    ...{ name: 'json_', type: 'JSON', arrow: 'Utf8', values: documents.map(quoted) },
    random: (random) => quoted(JSON.stringify({ [randomText(random)]: [random(1e9), randomText(random), null] })),
  },
];

const binaryColumn = (name: string, type: string, values: string[], most: number): TypedColumn => ({
  ...{ name, type, arrow: 'Binary', values },
  random: (random) => bytes(random, most),
});

const binaryColumns: TypedColumn[] = [
  binaryColumn('binary_', 'BINARY(5)', ["''", "x'00ff'", "x'ffffffffff'"], 5),
  binaryColumn('varbinary_', 'VARBINARY(300)', ["''", "x'c3'", "REPEAT(x'c3', 300)", "x'00'"], 40),
  binaryColumn('blob_', 'BLOB', ["''", "x'deadbeef'", "REPEAT(x'00', 300)"], 60),
  binaryColumn('mediumblob_', 'MEDIUMBLOB', ["REPEAT(x'ff', 70000)", "''"], 60),
  {
    ...{ name: 'geometry_', type: 'GEOMETRY', arrow: 'Binary' },
    values: ["ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0, 1.5 -1e10)')"],
    random: (random) => `POINT(${random(1000)}, ${random(1000)} / 7)`,
  },
  ...[1, 8, 9, 33, 64].map((width) => ({
    ...{ name: `bit_${width}`, type: `BIT(${width})`, arrow: 'Uint64' },
    values: ["b'0'", "b'1'", `b'${'1'.repeat(width)}'`],
    random: (random: Random) => String(randomBits(random, width)),
  })),
];

const ownColumns: Readonly<Record<DatabaseKind, readonly TypedColumn[]>> = {
  mysql: [
    {
      ...{ name: 'vector_', type: 'VECTOR(3)', arrow: 'Binary' },
      values: ["STRING_TO_VECTOR('[1, -2.5, 1e30]')"],
      random: (random) => `STRING_TO_VECTOR('[${random(9)}, ${random(99)}.5, -${random(9)}]')`,
    },
  ],
  mariadb: [
    {
      ...{ name: 'uuid_', type: 'UUID', arrow: 'Utf8', values: ["'123e4567-e89b-12d3-a456-426655440000'"] },
      random: (random) => `'${randomBytes(random, 16).toString('hex')}'`,
    },
    {
      ...{ name: 'inet6_', type: 'INET6', arrow: 'Utf8', values: ["'::'", "'::ffff:1.2.3.4'"] },
      random: (random) => `'fe80::${random(9999)}'`,
    },
    {
      ...{ name: 'inet4_', type: 'INET4', arrow: 'Utf8', values: ["'0.0.0.0'", "'255.255.255.255'"] },
      random: (random) => `'10.0.0.${random(256)}'`,
    },
  ],
};

export function typedColumns(kind: DatabaseKind): readonly TypedColumn[] {
  const common = [...integerColumns, ...realColumns, ...decimalColumns(kind), ...timeColumns, ...textColumns];
  return [...common, ...binaryColumns, ...ownColumns[kind]];
}

/** Makes a table `typed`: a key `id`, and a column of every type. Its first row has NULL in all of them. */
export async function createTypedTable(
  server: DatabaseServer,
  database: string,
  random: Random,
  randomRows: number,
): Promise<readonly TypedColumn[]> {
  const columns = typedColumns(server.kind);
  const fixedRows = Math.max(...columns.map(({ values }) => values.length));
  const cellOf = ({ values, random: another }: TypedColumn, row: number): string => {
    if (row === 0) return 'NULL';
    if (row <= fixedRows) return values[(row - 1) % values.length] as string;
    return random(6) === 0 ? 'NULL' : another(random);
  };
  const definitions = columns.map(({ name, type }) => `${name} ${type}`);
  const rows = Array.from({ length: 1 + fixedRows + randomRows }, (_, row) => {
    return `(${[row, ...columns.map((column) => cellOf(column, row))].join(', ')})`;
  });
  await server.sql(
    // Values are cut to the size of their column, and times are of no zone.
    `SET sql_mode = '', time_zone = '+00:00';
    CREATE TABLE typed (id INT NOT NULL PRIMARY KEY, ${definitions.join(', ')}) CHARACTER SET utf8mb4;
    INSERT INTO typed VALUES ${rows.join(', ')}`,
    { database },
  );
  return columns;
}

/** Makes a table `numbers` of so many rows, with an `id` from 1 on. */
export async function createNumbersTable(server: DatabaseServer, database: string, rows: number): Promise<void> {
  await server.sql(
    `CREATE TABLE numbers (id INT NOT NULL PRIMARY KEY, text VARCHAR(60), price DECIMAL(20,6), ratio DOUBLE,
       moment DATETIME(3), span TIME(1)) CHARACTER SET utf8mb4;
     INSERT INTO numbers SELECT n, IF(n % 11 = 0, NULL, CONCAT('row ', n, ', "é😀"')), n / 7 - 9999, IF(n % 5 = 0, NULL, n / 3),
       DATE_ADD('1960-01-01', INTERVAL n * 7919 SECOND), SEC_TO_TIME(n - 100000.5)
     FROM (WITH RECURSIVE digits (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM digits WHERE n < 1000)
           SELECT a.n + 1000 * (b.n - 1) AS n FROM digits a JOIN digits b ON b.n <= ${rows / 1_000}) AS sequence`,
    { database },
  );
}

/** Makes a table `dates`: two rows of valid dates, with the ids 0 and 1, and rows of dates that no calendar has. */
export async function createDatesTable(server: DatabaseServer, database: string): Promise<void> {
  const row = (id: number, day: string, stamp = '0000-00-00'): string =>
    `(${id}, '${day}', '${day} 00:00:00', '${day} 11:12:13.456', '${day} 11:12:13.000001', '${stamp} 00:00:00')`;
  const invalid = ['0000-00-00', '2024-00-10', '2024-05-00', '2024-02-31', '2023-02-29', '9999-00-00'];
  const rows = [row(0, '2024-02-29', '2024-02-29'), row(1, '1969-12-31', '2000-01-01')];
  await server.sql(
    `SET sql_mode = 'ALLOW_INVALID_DATES';
    CREATE TABLE dates (id INT NOT NULL PRIMARY KEY, day DATE, moment DATETIME, moment3 DATETIME(3), moment6 DATETIME(6),
      stamp TIMESTAMP(2) NULL);
    INSERT INTO dates VALUES ${[...rows, ...invalid.map((day, index) => row(index + 2, day))].join(', ')}`,
    { database },
  );
}
