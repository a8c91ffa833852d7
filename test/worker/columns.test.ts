import t from 'tap';
import { type CellKind, cellKind } from '#src/formats/cell-kind.js';
import { formats } from '#src/formats/index.js';
import { valueType } from '#src/worker/binary-values.js';
import { type ColumnDefinition, describeColumn, isSentInUtf8 } from '#src/worker/columns.js';

const unsigned = 0x20;
const notNull = 0x1;
const utf8mb4 = 45;
const binary = 63;

function define(type: number, more: Partial<ColumnDefinition> = {}): ColumnDefinition {
  return {
    name: 'c',
    hasUtf8Names: true,
    type,
    typeName: '',
    isExpression: false,
    isStored: true,
    characterSet: binary,
    flags: 0,
    length: 10,
    decimals: 0,
    ...more,
  };
}

/** By the type numbers of the protocol, which both servers use (enum_field_types). */
const table: readonly (readonly [string, ColumnDefinition, object, CellKind])[] = [
  ['TINYINT', define(1), { name: 'Int8' }, cellKind.number],
  ['TINYINT UNSIGNED', define(1, { flags: unsigned }), { name: 'UInt8' }, cellKind.number],
  ['SMALLINT', define(2), { name: 'Int16' }, cellKind.number],
  ['SMALLINT UNSIGNED', define(2, { flags: unsigned }), { name: 'UInt16' }, cellKind.number],
  ['MEDIUMINT', define(9), { name: 'Int32' }, cellKind.number],
  ['MEDIUMINT UNSIGNED', define(9, { flags: unsigned }), { name: 'UInt32' }, cellKind.number],
  ['INT', define(3), { name: 'Int32' }, cellKind.number],
  ['INT UNSIGNED', define(3, { flags: unsigned }), { name: 'UInt32' }, cellKind.number],
  ['BIGINT', define(8), { name: 'Int64' }, cellKind.number],
  ['BIGINT UNSIGNED', define(8, { flags: unsigned }), { name: 'UInt64' }, cellKind.number],
  ['YEAR', define(13, { flags: unsigned }), { name: 'UInt16' }, cellKind.number],
  ['BIT', define(16, { flags: unsigned }), { name: 'UInt64' }, cellKind.bits],
  ['a computed BIT', define(16, { isExpression: true }), { name: 'UInt64' }, cellKind.bitsOrDigits],
  ['FLOAT', define(4, { decimals: 31 }), { name: 'Float32' }, cellKind.number],
  ['DOUBLE', define(5, { decimals: 31 }), { name: 'Float64' }, cellKind.number],
  ['DECIMAL(10,2)', define(246, { length: 12, decimals: 2 }), decimal(10, 2), cellKind.text],
  ['DECIMAL(10,2) UNSIGNED', define(246, { length: 11, decimals: 2, flags: unsigned }), decimal(10, 2), cellKind.text],
  ['DECIMAL(10,0)', define(246, { length: 11 }), decimal(10, 0), cellKind.text],
  ['DECIMAL(10,0) UNSIGNED', define(246, { length: 10, flags: unsigned }), decimal(10, 0), cellKind.text],
  ['DECIMAL(65,30)', define(246, { length: 67, decimals: 30 }), decimal(65, 30), cellKind.text],
  ['the old DECIMAL', define(0, { length: 7, decimals: 2 }), decimal(5, 2), cellKind.text],
  ['DATE', define(10), { name: 'Date' }, cellKind.text],
  ['the newer number of DATE', define(14), { name: 'Date' }, cellKind.text],
  ['DATETIME', define(12, { length: 19 }), { name: 'Timestamp', precision: 0 }, cellKind.text],
  ['DATETIME(6)', define(12, { length: 26, decimals: 6 }), { name: 'Timestamp', precision: 6 }, cellKind.text],
  ['TIMESTAMP(3)', define(7, { length: 23, decimals: 3 }), { name: 'Timestamp', precision: 3 }, cellKind.text],
  [
    'a DATETIME of no fixed digits',
    define(12, { length: 26, decimals: 31 }),
    { name: 'Timestamp', precision: 6 },
    cellKind.text,
  ],
  [
    'a short one of no fixed digits',
    define(12, { length: 19, decimals: 39 }),
    { name: 'Timestamp', precision: 0 },
    cellKind.text,
  ],
  ['TIME', define(11, { length: 10 }), { name: 'Time', precision: 0 }, cellKind.text],
  ['TIME(2)', define(11, { length: 13, decimals: 2 }), { name: 'Time', precision: 2 }, cellKind.text],
  [
    'a TIME of no fixed digits',
    define(11, { length: 17, decimals: 31 }),
    { name: 'Time', precision: 6 },
    cellKind.text,
  ],
  ['NULL', define(6), { name: 'Null' }, cellKind.text],
  ['JSON', define(245), { name: 'Variant' }, cellKind.json],
  ['GEOMETRY', define(255), { name: 'Geometry' }, cellKind.hex],
  ['VECTOR of MySQL', define(242), { name: 'Vector' }, cellKind.hex],
  ['VECTOR of MariaDB', define(253, { typeName: 'vector' }), { name: 'Vector' }, cellKind.hex],
  ['UUID of MariaDB', define(254, { typeName: 'uuid', characterSet: utf8mb4 }), { name: 'String' }, cellKind.text],
  ...[15, 247, 248, 249, 250, 251, 252, 253, 254].flatMap((type) => [
    [`text as type ${type}`, define(type, { characterSet: utf8mb4 }), { name: 'String' }, cellKind.text] as const,
    [`bytes as type ${type}`, define(type), { name: 'Binary' }, cellKind.hex] as const,
  ]),
  ['a type of tomorrow', define(200, { characterSet: utf8mb4 }), { name: 'String' }, cellKind.text],
];

function decimal(precision: number, scale: number): object {
  return { name: 'Decimal', precision, scale };
}

/** How a cell is written as a string: by its type, or by its JSON kind where the type is ambiguous. */
function kindOfString(type: object, kind: CellKind): CellKind {
  const { name } = type as { name: string };
  if (/^U?Int|^Float/.test(name)) {
    if (kind === cellKind.bits) return cellKind.quotedBits;
    return kind === cellKind.bitsOrDigits ? cellKind.quotedBitsOrDigits : cellKind.quotedNumber;
  }
  if (name === 'Date') return cellKind.date;
  if (name === 'Timestamp') return cellKind.timestamp;
  return kind === cellKind.hex ? cellKind.hex : cellKind.text;
}

for (const [what, definition, type, kind] of table) {
  t.test(`${what} is a ${JSON.stringify(type)}`, (t) => {
    const column = { name: 'c', type, nullable: true };
    t.strictSame(describeColumn(definition, formats['json'], false), { column, kind, value: null });
    const string = kindOfString(type, kind);
    t.strictSame(describeColumn(definition, formats['json strings'], false), { column, kind: string, value: null });
    t.strictSame(describeColumn(definition, formats['json strings, NULL too'], false), {
      column,
      kind: string,
      value: null,
    });
    const required = describeColumn({ ...definition, flags: definition.flags | notNull }, formats['json'], false);
    t.equal(required.column.nullable, false);
    t.strictSame(required.column.type, type);
    t.end();
  });
}

t.test('whether a column is sent in UTF-8 follows from the collation of its definition and from its names', (t) => {
  for (const collation of [
    11,
    65,
    33,
    83,
    192,
    45,
    46,
    224,
    255,
    323,
    576,
    608,
    1035,
    1057,
    1069,
    1270,
    2048,
    2304,
    2559,
    binary,
  ]) {
    t.equal(isSentInUtf8(define(253, { characterSet: collation })), true, `${collation}`);
    t.equal(isSentInUtf8(define(3, { characterSet: collation, hasUtf8Names: false })), false, `${collation}`);
  }
  // Collations of latin1, swe7, sjis, ucs2, utf16, utf16le, utf32, cp932 and gb18030, some with NO PAD or UCA 14.0.0 of MariaDB.
  for (const collation of [8, 47, 10, 13, 35, 640, 54, 101, 56, 60, 182, 95, 248, 1032, 1078, 2560, 2816, 3271]) {
    t.equal(isSentInUtf8(define(253, { characterSet: collation })), false, `${collation}`);
  }
  t.end();
});

t.test('in binary rows, a value is encoded by its type and sign, with its decimals', (t) => {
  for (const [type, signed, without] of [
    [1, valueType.int8, valueType.uint8],
    [2, valueType.int16, valueType.uint16],
    [3, valueType.int32, valueType.uint32],
    [9, valueType.int32, valueType.uint32],
    [8, valueType.int64, valueType.uint64],
    [13, valueType.uint16, valueType.uint16],
    [4, valueType.float, valueType.float],
    [5, valueType.double, valueType.double],
    [10, valueType.date, valueType.date],
    [14, valueType.date, valueType.date],
    [7, valueType.datetime, valueType.datetime],
    [12, valueType.datetime, valueType.datetime],
    [11, valueType.time, valueType.time],
    ...[0, 6, 15, 16, 242, 245, 246, 252, 253, 254, 255].map(
      (type) => [type, valueType.string, valueType.string] as const,
    ),
  ] as const) {
    t.equal(describeColumn(define(type, { decimals: 31 }), formats['json'], true).value, signed | (31 << 8));
    t.equal(
      describeColumn(define(type, { decimals: 2, flags: unsigned }), formats['json strings'], true).value,
      without | (2 << 8),
    );
  }
  t.end();
});
