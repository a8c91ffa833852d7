import type { DatabaseKind, DatabaseServer } from '../../support/servers.ts';

/** A column of a type, and the cells that clients must get for it. */
export interface CellCase {
  /** The column's type in CREATE TABLE. */
  readonly type: string;
  /** The name of the type in the current dialect, for a nullable column. */
  readonly name: string | Readonly<Record<DatabaseKind, string>>;
  /** SQL expressions. The first row is NULL. */
  readonly values: readonly string[];
  /** SQL that converts the column v to the text of the cell. Default: v itself. */
  readonly print?: string;
}

// Expected values come from the server's own client, never from the service.
const bytes = 'HEX(v)';
const moment = "IF(v = 0, NULL, DATE_FORMAT(v, '%Y-%m-%d %H:%i:%s.%f'))";
const document = '\'{"a": [1, 2.50, {"b": null}], "c": "é 😀"}\'';

const integers: CellCase[] = (
  [
    ['TINYINT', 8n, 8],
    ['SMALLINT', 16n, 16],
    ['MEDIUMINT', 24n, 32],
    ['INT', 32n, 32],
    ['BIGINT', 64n, 64],
  ] as const
).flatMap(([type, bits, shown]) => [
  { type, name: `Int${shown}`, values: [`${-(2n ** (bits - 1n))}`, `${2n ** (bits - 1n) - 1n}`, '0', '-1'] },
  { type: `${type} UNSIGNED`, name: `UInt${shown}`, values: [`${2n ** bits - 1n}`, '0', '7'] },
]);

export const cellCases: readonly CellCase[] = [
  ...integers,
  { type: 'TINYINT(1)', name: 'Int8', values: ['TRUE', 'FALSE', '2'] },
  { type: 'BIT(64)', name: 'UInt64', values: ['18446744073709551615', "b'101'", '0'], print: 'v + 0' },
  { type: 'YEAR', name: 'UInt16', values: ['2026', '1901'] },
  { type: 'FLOAT', name: 'Float32', values: ['1.5', '-0.25', '0'] },
  { type: 'DOUBLE', name: 'Float64', values: ['0.1', '-1.7976931348623157e308', '2.5e-300', '0'] },
  { type: 'DECIMAL(10,2)', name: 'Decimal(10, 2)', values: ['12345678.90', '-0.01', '0', '3'] },
  {
    type: 'DECIMAL(65,30)',
    name: 'Decimal(65, 30)',
    values: [`${'9'.repeat(35)}.${'9'.repeat(30)}`, `-${'9'.repeat(35)}.${'9'.repeat(30)}`, '0.1'],
  },
  { type: 'DECIMAL(38,0)', name: 'Decimal(38, 0)', values: ['9'.repeat(38), '0'] },
  {
    type: 'DATE',
    name: 'Date',
    values: ["'2024-02-29'", "'1000-01-01'", "'9999-12-31'", "'0000-00-00'"],
    print: "IF(v = 0, NULL, DATE_FORMAT(v, '%Y-%m-%d'))",
  },
  ...['DATETIME', 'DATETIME(3)', 'DATETIME(6)'].map((type) => ({
    type,
    name: 'Timestamp',
    values: ["'2026-01-02 03:04:05.678901'", "'1000-01-01 00:00:00'", "'0000-00-00 00:00:00'"],
    print: moment,
  })),
  { type: 'TIMESTAMP(6) NULL', name: 'Timestamp', values: ["'2038-01-19 02:14:07.5'"], print: moment },
  { type: 'TIME(3)', name: 'String', values: ["'-838:59:59'", "'00:00:00.5'", "'100:00:00'"] },
  ...['VARCHAR(100)', 'LONGTEXT', 'CHAR(40)'].map((type) => ({
    type: `${type} CHARACTER SET utf8mb4`,
    name: 'String',
    values: ["''", "'NULL'", "'é 長 😀 \"q\" \\\\ \\' ?'", "'%d :name'"],
  })),
  { type: `ENUM('a', 'b c') CHARACTER SET utf8mb4`, name: 'String', values: ["'b c'"] },
  { type: `SET('a', 'b') CHARACTER SET utf8mb4`, name: 'String', values: ["'a,b'", "''"] },
  ...['VARBINARY(20)', 'LONGBLOB', 'BINARY(3)'].map((type) => ({
    type,
    name: 'Binary',
    values: ["''", '0x00ff7f', "'abc'"],
    print: bytes,
  })),
  { type: 'JSON', name: { mysql: 'Variant', mariadb: 'String' }, values: [document, "'[]'", "'null'", '\'"x"\''] },
  { type: 'GEOMETRY', name: 'Binary', values: ["ST_GeomFromText('POINT(1 2)', 4326)"], print: bytes },
];

export function nameOf({ name }: CellCase, kind: DatabaseKind): string {
  return typeof name === 'string' ? name : name[kind];
}

/** The table of a case. */
export const tableOf = (cellCase: CellCase): string => `cells_${cellCases.indexOf(cellCase)}`;

/**
 * Creates a table for each case, with the columns id and v and NULL in the first row. Returns the expected cells of v for each
 * case. They contain no line ends.
 */
export async function makeCellTables(
  server: DatabaseServer,
  database: string,
): Promise<ReadonlyMap<CellCase, readonly (string | null)[]>> {
  const statements = cellCases.map((cellCase) => {
    const { type, values, print = 'v' } = cellCase;
    const table = tableOf(cellCase);
    const inserts = ['NULL', ...values].map((value, index) => `INSERT INTO ${table} VALUES (${index}, ${value});`);
    return `CREATE TABLE ${table} (id INT PRIMARY KEY, v ${type}); ${inserts.join('\n')}
      SELECT ISNULL(${print}), ${print} FROM ${table} ORDER BY id;`;
  });
  const lines = (await server.sql(`SET sql_mode = ''; ${statements.join('\n')}`, { database })).split('\n');
  const cells = lines.map((line) => (line.startsWith('1\t') ? null : line.slice(2)));
  return new Map(cellCases.map((cellCase) => [cellCase, cells.splice(0, cellCase.values.length + 1)]));
}
