// Random SELECTs over columns of every type, and over expressions of them, for tests that compare two ways to run the same
// statement. They are deterministic: what they return depends on nothing but the tables.

import { pick, type Random } from './random.ts';
import type { DatabaseKind, DatabaseServer } from './servers.ts';

/** Type and values of each column; NULL is among the values of each. */
const columns: Readonly<Record<string, readonly [type: string, ...values: string[]]>> = {
  i8: ['TINYINT', '-128', '127', '0'],
  u8: ['TINYINT UNSIGNED', '0', '255', '1'],
  i16: ['SMALLINT', '-32768', '32767', '7'],
  u24: ['MEDIUMINT UNSIGNED', '0', '16777215', '12'],
  i32: ['INT', '-2147483648', '2147483647', '202401'],
  u32: ['INT UNSIGNED ZEROFILL', '0', '4294967295', '42'],
  i64: ['BIGINT', '-9223372036854775808', '9223372036854775807', '1'],
  u64: ['BIGINT UNSIGNED', '0', '18446744073709551615', '9007199254740993'],
  dec5: ['DECIMAL(5,2)', '-999.99', '999.99', '0.01'],
  dec65: ['DECIMAL(65,30)', `-${'9'.repeat(35)}.${'9'.repeat(30)}`, '0.000000000000000000000000000001', '1'],
  f32: ['FLOAT', '-3.4028234e38', '1.17549435e-38', '0.1', '16777217'],
  f64: ['DOUBLE', '-1.7976931348623157e308', '5e-324', '0.1', '-0e0', '123456789012345680000'],
  f73: ['DOUBLE(12,3)', '-123456.789', '0.001', '1'],
  d: ['DATE', "'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'0000-00-00'"],
  t0: ['TIME', "'-838:59:59'", "'838:59:59'", "'00:00:00'"],
  t6: ['TIME(6)', "'-838:59:58.999999'", "'00:00:00.000001'", "'12:30:00.5'"],
  dt0: ['DATETIME', "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'"],
  dt6: ['DATETIME(6)', "'2024-02-29 23:59:59.999999'", "'1970-01-01 00:00:00'"],
  ts3: ['TIMESTAMP(3) NULL', "'1970-01-02 00:00:01'", "'2038-01-18 03:14:07.999'"],
  y: ['YEAR', '1901', '2155', '0'],
  c: ['CHAR(20)', "''", "'  padded  '", "'é😀'"],
  v: ['VARCHAR(200)', "''", "'202401'", "'1.5e3abc'", "'2024-02-29 10:00:00'", '\'a,"b"\\t\\\\\''],
  tx: ['TEXT', "'x'", "REPEAT('long ', 60)", "'\\0\\n'"],
  b: ['BINARY(4)', "x'00ff00ff'", "'ab'"],
  vb: ['VARBINARY(40)', "x''", "x'00ff'", "'3.25'"],
  bl: ['BLOB', "x'deadbeef'", "''"],
  e: ["ENUM('red','green','')", "'red'", "''"],
  s: ["SET('a','b','c')", "'a,c'", "''"],
  b1: ['BIT(1)', "b'0'", "b'1'"],
  b64: ['BIT(64)', "b'1'", "x'ffffffffffffffff'"],
  j: ['JSON', '\'{"a": [1, 2.5, null, "x"]}\'', "'[]'", "'7'"],
  g: ['GEOMETRY', "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('LINESTRING(0 0,1 1)')"],
};
const names = Object.keys(columns);
const rows = 6;

/** Has a table `every` with a column of every type, and views of it. */
export async function createTables(server: DatabaseServer, database: string): Promise<void> {
  const defined = names.map((name) => `${name} ${columns[name]?.[0]}`);
  const values = Array.from({ length: rows }, (_, row) => {
    const cells = names.map((name) => [...(columns[name]?.slice(1) ?? []), 'NULL']).map((all) => all[row % all.length]);
    return `(${[row, ...cells].join(', ')})`;
  });
  await server.sql(
    `SET sql_mode = '';
    CREATE TABLE every (id INT PRIMARY KEY, ${defined.join(', ')}, gen BIGINT AS (i8 * 3 + 1)) CHARACTER SET utf8mb4;
    INSERT INTO every (id, ${names.join(', ')}) VALUES ${values.join(', ')};
    CREATE VIEW plain AS SELECT * FROM every;
    CREATE VIEW computed AS SELECT id, i8 + 1 AS i8, SEC_TO_TIME(f64 / 1e300) AS t0, dec5 * 2 AS dec5, UPPER(v) AS v,
      PERIOD_ADD(i32, u8) AS i32, f32 / 3 AS f64, d + INTERVAL 1 DAY AS d, i64, j FROM every;
    CREATE VIEW counted AS SELECT MIN(id) AS id, COUNT(*) AS i64, SUM(i8) AS dec5, AVG(f64) AS f64, MAX(t6) AS t6, v FROM every GROUP BY v`,
    { database },
  );
}

const constants = [
  ...['NULL', 'TRUE', '0', '1', '-1', '202401', '4294967296', '9223372036854775807', '18446744073709551615'],
  ...['99999999999999999999999999', '1.5', '-0.01', '1e-20', '-1e300', '1e0', "''", "'abc'", "'12:00:00.25'"],
  ...["'2024-02-29'", "x'00ff'", "b'101'", "DATE '2024-02-29'", "TIME '-10:00:00'", "TIMESTAMP '2024-02-29 23:59:59'"],
];

/** `#` is an argument. */
const functions = [
  ...[
    '# + #',
    '# - #',
    '# * #',
    '# / #',
    '# DIV #',
    '# % #',
    '-#',
    '# & #',
    '# | #',
    '# ^ #',
    '~#',
    '# << 3',
    '# >> 1',
  ],
  ...['# = #', '# <=> #', '# < #', '# >= #', '# <> #', '# IS NULL', 'NOT #', '# AND #', '# OR #', '# XOR #'],
  ...['# BETWEEN # AND #', '# IN (#, #)', '# LIKE #', '# REGEXP #', 'IF(#, #, #)', 'IFNULL(#, #)', 'NULLIF(#, #)'],
  ...['COALESCE(#, #)', 'CASE WHEN # THEN # ELSE # END', 'GREATEST(#, #)', 'LEAST(#, #)', 'INTERVAL(#, #, #)'],
  ...[
    'ABS(#)',
    'CEIL(#)',
    'FLOOR(#)',
    'ROUND(#)',
    'ROUND(#, 2)',
    'ROUND(#, -2)',
    'TRUNCATE(#, 1)',
    'SIGN(#)',
    'SQRT(#)',
  ],
  ...['POW(#, 2)', 'EXP(#)', 'LN(#)', 'LOG2(#)', 'SIN(#)', 'ATAN2(#, #)', 'DEGREES(#)', 'CRC32(#)', 'CONV(#, 10, 16)'],
  ...['CONCAT(#, #)', "CONCAT_WS(',', #, #)", 'UPPER(#)', 'LOWER(#)', 'LENGTH(#)', 'CHAR_LENGTH(#)', 'BIT_LENGTH(#)'],
  ...['SUBSTRING(#, 2)', 'LEFT(#, 3)', "REPLACE(#, 'a', #)", 'TRIM(#)', 'LPAD(#, 12, #)', 'REVERSE(#)', 'REPEAT(#, 2)'],
  ...[
    'HEX(#)',
    'UNHEX(#)',
    'MD5(#)',
    'TO_BASE64(#)',
    'QUOTE(#)',
    'ASCII(#)',
    'ORD(#)',
    'BIN(#)',
    'SOUNDEX(#)',
    'FORMAT(#, 2)',
  ],
  ...['STRCMP(#, #)', 'LOCATE(#, #)', 'INSTR(#, #)', 'ELT(2, #, #)', 'FIELD(#, #, #)', 'FIND_IN_SET(#, #)', 'CHAR(#)'],
  ...['CAST(# AS SIGNED)', 'CAST(# AS UNSIGNED)', 'CAST(# AS CHAR)', 'CAST(# AS CHAR(3))', 'CAST(# AS BINARY)'],
  ...[
    'CAST(# AS DECIMAL(20,5))',
    'CAST(# AS DECIMAL(65,0))',
    'CAST(# AS DATE)',
    'CAST(# AS TIME)',
    'CAST(# AS TIME(3))',
  ],
  ...[
    'CAST(# AS DATETIME)',
    'CAST(# AS DATETIME(6))',
    'CAST(# AS DOUBLE)',
    'CAST(# AS FLOAT)',
    'CONVERT(# USING utf8mb4)',
  ],
  ...[
    'DATE(#)',
    'TIME(#)',
    'TIMESTAMP(#)',
    'YEAR(#)',
    'MONTH(#)',
    'DAYNAME(#)',
    'HOUR(#)',
    'MICROSECOND(#)',
    'WEEK(#, 1)',
  ],
  ...['YEARWEEK(#)', 'TO_DAYS(#)', 'FROM_DAYS(#)', 'TO_SECONDS(#)', 'LAST_DAY(#)', 'QUARTER(#)', 'DAYOFYEAR(#)'],
  ...[
    'SEC_TO_TIME(#)',
    'TIME_TO_SEC(#)',
    'MAKETIME(#, 10, #)',
    'MAKEDATE(2024, #)',
    'PERIOD_ADD(#, #)',
    'PERIOD_DIFF(#, #)',
  ],
  ...['DATEDIFF(#, #)', 'TIMEDIFF(#, #)', 'ADDTIME(#, #)', 'SUBTIME(#, #)', 'TIMESTAMPDIFF(HOUR, #, #)'],
  ...[
    '# + INTERVAL # DAY',
    '# - INTERVAL 1 MICROSECOND',
    'DATE_ADD(#, INTERVAL # MONTH)',
    'EXTRACT(DAY_MICROSECOND FROM #)',
  ],
  ...[
    'FROM_UNIXTIME(#)',
    'UNIX_TIMESTAMP(#)',
    "DATE_FORMAT(#, '%Y %j %f')",
    "TIME_FORMAT(#, '%H %f')",
    "STR_TO_DATE(#, '%Y-%m-%d')",
  ],
  ...[
    "JSON_EXTRACT(j, '$.a')",
    "JSON_UNQUOTE(JSON_EXTRACT(j, '$.a[3]'))",
    'JSON_ARRAY(#, #)',
    "JSON_OBJECT('k', #)",
    'JSON_LENGTH(j)',
  ],
  ...['JSON_TYPE(j)', 'JSON_VALID(#)', 'ST_AsText(g)', 'ST_X(g)', 'INET_ATON(#)', 'INET_NTOA(#)', 'BIT_COUNT(#)'],
  ...[
    '(SELECT MAX(#) FROM every AS o)',
    '(SELECT # FROM every AS o ORDER BY o.id LIMIT 1)',
    '# IN (SELECT id FROM every AS o)',
  ],
];
const aggregates = [
  ...['COUNT(*)', 'COUNT(#)', 'COUNT(DISTINCT #)', 'SUM(#)', 'AVG(#)', 'MIN(#)', 'MAX(#)', 'STDDEV(#)', 'VAR_SAMP(#)'],
  ...['BIT_OR(#)', 'BIT_AND(#)', 'BIT_XOR(#)', 'GROUP_CONCAT(# ORDER BY id)', 'SUM(DISTINCT #)'],
];
const windows = [
  ...[
    'ROW_NUMBER() OVER (ORDER BY id)',
    'SUM(#) OVER (ORDER BY id)',
    'LAG(#) OVER (ORDER BY id)',
    'NTILE(3) OVER (ORDER BY id)',
  ],
  ...['FIRST_VALUE(#) OVER (ORDER BY id)', 'AVG(#) OVER ()', 'CUME_DIST() OVER (ORDER BY id)'],
];

/** The columns of the tables that can be selected from. */
const sources: readonly (readonly [source: string, columns: readonly string[]])[] = [
  ['every', names],
  ['every', names],
  ['plain', names],
  ['computed', ['i8', 't0', 'dec5', 'v', 'i32', 'f64', 'd', 'i64', 'j']],
  ['counted', ['i64', 'dec5', 'f64', 't6', 'v']],
  ['(SELECT * FROM every) AS merged', names],
  [
    '(SELECT id, i8 * 2 AS i8, SEC_TO_TIME(i16 / 7) AS t0, f32 * 3 AS f64, v FROM every) AS merged',
    ['i8', 't0', 'f64', 'v'],
  ],
  [
    // No two rows have the same id, so that there is one order of them.
    '(SELECT 2 * id AS id, i8, v, t6, f64 FROM every UNION ALL SELECT 2 * id + 1, u64, vb, t0, f32 FROM every) AS both_',
    ['i8', 'v', 't6', 'f64'],
  ],
  ['(SELECT DISTINCT id, d, dt6, y, b1, b64, e FROM every) AS kept', ['d', 'dt6', 'y', 'b1', 'b64', 'e']],
];

/** @param random draws the same statements from the same seed */
export function randomStatement(random: Random, kind: DatabaseKind): string {
  const [source, known] = pick(random, sources);
  const isGrouped = random(6) === 0;
  const items = Array.from({ length: 1 + random(4) }, (_, index) => {
    const item = isGrouped ? fill(random, pick(random, aggregates), known, 1) : itemOf(random, known);
    return random(8) === 0 ? item : `${item} AS a${index}`;
  });
  const where = random(4) === 0 ? ` WHERE ${expression(random, known, 2)}` : '';
  if (isGrouped) return `SELECT ${items.join(', ')} FROM ${source}${where}`;
  const order = source.includes('UNION') && random(2) === 0 ? ' ORDER BY v, id' : ' ORDER BY id';
  const limit = random(6) === 0 ? ` LIMIT ${random(5)}` : '';
  const select = `SELECT ${items.join(', ')} FROM ${source}${where}${order}${limit}`;
  if (random(20) === 0) return `WITH w AS (SELECT * FROM every) ${select.replace('FROM every', 'FROM w')}`;
  // A version that only one of the servers has.
  return random(40) === 0 && kind === 'mariadb' ? `/*M!100000 ${select} */` : select;
}

function itemOf(random: Random, known: readonly string[]): string {
  if (random(10) < 5) return pick(random, known);
  if (random(8) === 0) return fill(random, pick(random, windows), known, 1);
  return expression(random, known, 3);
}

function expression(random: Random, known: readonly string[], depth: number): string {
  if (depth === 0 || random(4) === 0) return random(3) === 0 ? pick(random, constants) : pick(random, known);
  return `(${fill(random, pick(random, functions), known, depth - 1)})`;
}

function fill(random: Random, form: string, known: readonly string[], depth: number): string {
  return form.replaceAll('#', () => expression(random, known, depth));
}
