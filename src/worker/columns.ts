import { type CellKind, cellKind } from '../formats/cell-kind.ts';
import type { TextFormat } from '../formats/format.ts';
import type { Column, ColumnType, IntegerTypeName } from '../wire/statement.ts';
import { valueType } from './binary-values.ts';

/** A column as the protocol describes it (MySQL internals manual, "Column Definition"). */
export interface ColumnDefinition {
  readonly name: string;
  /** Whether the names in the definition came in UTF-8. */
  readonly hasUtf8Names: boolean;
  readonly type: number;
  /** MariaDB's name of a type that the protocol sends as another, such as `vector`; else empty. */
  readonly typeName: string;
  /** The value is computed, not read from a column of a table. */
  readonly isExpression: boolean;
  /**
   * The value is read from a column of a table, possibly through a view or a temporary table. Of an expression in a view or in a
   * subquery that the optimizer has merged into the statement, both servers name the view as its table, but no schema.
   */
  readonly isStored: boolean;
  readonly characterSet: number;
  readonly flags: number;
  /** The display width in bytes. */
  readonly length: number;
  /** Digits after the point; 31 means "not fixed". */
  readonly decimals: number;
}

/** Column types as numbered by the protocol (MySQL source, `enum_field_types`). */
const type = {
  decimal: 0,
  tiny: 1,
  short: 2,
  long: 3,
  float: 4,
  double: 5,
  null: 6,
  timestamp: 7,
  longlong: 8,
  int24: 9,
  date: 10,
  time: 11,
  datetime: 12,
  year: 13,
  newDate: 14,
  bit: 16,
  vector: 242,
  json: 245,
  newDecimal: 246,
  geometry: 255,
} as const;

const notNullFlag = 0x1;
const unsignedFlag = 0x20;
const binaryCharacterSet = 63;

/**
 * The collations of ascii, utf8mb3 and utf8mb4, from the first to the last of each range (`ID` in `information_schema.COLLATIONS`
 * of both servers). No other character set of either server has a collation there.
 */
const utf8Collations = [
  [11, 11],
  [33, 33],
  [45, 46],
  [65, 65],
  [76, 76],
  [83, 83],
  [192, 247],
  [251, 639],
  [2048, 2559],
] as const;
/** MariaDB adds this to the number of a collation for its variant with NO PAD. */
const noPad = 1024;

/** A column as clients see it, and what its cells are. */
export interface DescribedColumn {
  readonly column: Column;
  readonly kind: CellKind;
  /** The encoding of its values in binary rows (see `RowFormat`); null: the rows are text. */
  readonly value: number | null;
}

/** With the kind of cells that keeps the type of the column. */
export function describeTyped(definition: ColumnDefinition, isBinary: boolean): DescribedColumn {
  const [columnType, kind] = describeType(definition);
  return {
    column: { name: definition.name, type: columnType, nullable: (definition.flags & notNullFlag) === 0 },
    kind,
    value: isBinary ? typeOfValue(definition) | (definition.decimals << 8) : null,
  };
}

/** With the kind of cells that a format has. */
export function describeColumn(definition: ColumnDefinition, format: TextFormat, isBinary: boolean): DescribedColumn {
  const described = describeTyped(definition, isBinary);
  return { ...described, kind: format.cellKindOf(described.column.type, described.kind) };
}

/**
 * Whether the database sends the names and the text of a column in UTF-8, or sends binary data. Both servers convert text to
 * character_set_results, and the definition has the collation of the converted text. MySQL converts JSON columns too, although
 * their definition says binary.
 */
export function isSentInUtf8({ characterSet, hasUtf8Names }: ColumnDefinition): boolean {
  if (!hasUtf8Names) return false;
  if (characterSet === binaryCharacterSet) return true;
  const collation = characterSet >= noPad && characterSet < 2 * noPad ? characterSet - noPad : characterSet;
  return utf8Collations.some(([first, last]) => collation >= first && collation <= last);
}

/** Types of expressions that both servers send alike in the text and the binary protocol: what is not cut to the size of a type. */
const alike: ReadonlySet<number> = new Set([
  type.longlong,
  type.newDecimal,
  type.null,
  type.json,
  // VARCHAR, ENUM, SET, the BLOBs and TEXTs by size, VAR_STRING, STRING.
  ...[15, 247, 248, 249, 250, 251, 252, 253, 254],
]);

/**
 * Whether the text and the binary protocol have the same value for a column. They differ for some expressions: MariaDB cuts a
 * PERIOD_ADD to 32 bits in binary, and SEC_TO_TIME loses its sign.
 */
export function isSentAlike({ type, isStored }: ColumnDefinition): boolean {
  return isStored || alike.has(type);
}

function typeOfValue(definition: ColumnDefinition): number {
  const unsigned = isUnsigned(definition);
  switch (definition.type) {
    case type.tiny:
      return unsigned ? valueType.uint8 : valueType.int8;
    case type.short:
      return unsigned ? valueType.uint16 : valueType.int16;
    case type.year:
      return valueType.uint16;
    case type.int24:
    case type.long:
      return unsigned ? valueType.uint32 : valueType.int32;
    case type.longlong:
      return unsigned ? valueType.uint64 : valueType.int64;
    case type.float:
      return valueType.float;
    case type.double:
      return valueType.double;
    case type.date:
    case type.newDate:
      return valueType.date;
    case type.timestamp:
    case type.datetime:
      return valueType.datetime;
    case type.time:
      return valueType.time;
    default:
      return valueType.string;
  }
}

/** The table of types is part of the protocol (docs/api.md, "Values"). */
function describeType(definition: ColumnDefinition): [ColumnType, CellKind] {
  switch (definition.type) {
    case type.tiny:
      return [integer(8, definition), cellKind.number];
    case type.short:
      return [integer(16, definition), cellKind.number];
    case type.int24:
    case type.long:
      return [integer(32, definition), cellKind.number];
    case type.longlong:
      return [integer(64, definition), cellKind.number];
    case type.year:
      return [{ name: 'UInt16' }, cellKind.number];
    case type.bit:
      // The bytes of a column. Of an expression, both servers send bytes for some functions and digits for others.
      return [{ name: 'UInt64' }, definition.isExpression ? cellKind.bitsOrDigits : cellKind.bits];
    case type.float:
      return [{ name: 'Float32' }, cellKind.number];
    case type.double:
      return [{ name: 'Float64' }, cellKind.number];
    case type.decimal:
    case type.newDecimal:
      return [decimal(definition), cellKind.text];
    case type.date:
    case type.newDate:
      return [{ name: 'Date' }, cellKind.text];
    case type.timestamp:
    case type.datetime:
      return [{ name: 'Timestamp', precision: fraction(definition, 'YYYY-MM-DD hh:mm:ss'.length) }, cellKind.text];
    case type.time:
      return [{ name: 'Time', precision: fraction(definition, '-hhh:mm:ss'.length) }, cellKind.text];
    case type.json:
      return [{ name: 'Variant' }, cellKind.json];
    case type.geometry:
      return [{ name: 'Geometry' }, cellKind.hex];
    case type.vector:
      return [{ name: 'Vector' }, cellKind.hex];
    case type.null:
      return [{ name: 'Null' }, cellKind.text];
    default:
      if (definition.typeName === 'vector') return [{ name: 'Vector' }, cellKind.hex];
      return definition.characterSet === binaryCharacterSet
        ? [{ name: 'Binary' }, cellKind.hex]
        : [{ name: 'String' }, cellKind.text];
  }
}

function integer(bits: 8 | 16 | 32 | 64, definition: ColumnDefinition): ColumnType {
  const name: IntegerTypeName = isUnsigned(definition) ? `UInt${bits}` : `Int${bits}`;
  return { name };
}

/** A DECIMAL's width counts its digits, a point if it has a scale, and a sign unless it is unsigned. */
function decimal(definition: ColumnDefinition): ColumnType {
  const scale = definition.decimals;
  const precision = definition.length - (scale > 0 ? 1 : 0) - (isUnsigned(definition) ? 0 : 1);
  return { name: 'Decimal', precision, scale, ...(definition.isStored ? {} : { isComputed: true }) };
}

/** Digits of the fraction of a second; concluded from the width if the definition says "not fixed". */
function fraction(definition: ColumnDefinition, widthWithout: number): number {
  if (definition.decimals <= 6) return definition.decimals;
  return Math.min(6, Math.max(0, definition.length - widthWithout - 1));
}

function isUnsigned(definition: ColumnDefinition): boolean {
  return (definition.flags & unsignedFlag) !== 0;
}
