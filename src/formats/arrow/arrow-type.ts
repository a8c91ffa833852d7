import type { ColumnType } from '../../wire/statement.ts';

/** A type of Arrow's columnar format ("Schema.fbs"). */
export type ArrowType =
  | { readonly kind: 'int'; readonly bits: 8 | 16 | 32 | 64; readonly isSigned: boolean }
  | { readonly kind: 'float'; readonly bits: 32 | 64 }
  /** Precision and scale are counts of digits. */
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number; readonly bits: 128 | 256 }
  /** Days since 1970. */
  | { readonly kind: 'date' }
  /** Microseconds since 1970, of no time zone. */
  | { readonly kind: 'timestamp' }
  /** Microseconds. */
  | { readonly kind: 'duration' }
  | { readonly kind: 'utf8' }
  /** UTF-8 with the extension type `arrow.json`. */
  | { readonly kind: 'json' }
  | { readonly kind: 'binary' }
  | { readonly kind: 'null' };

/** What becomes of dates that have no value in Arrow, such as 0000-00-00 and 2024-02-31. With `string`, dates are texts. */
export type ZeroDates = 'fail' | 'null' | 'string';

/** How values are written for which there are several ways. */
export interface ArrowChoices {
  readonly zeroDates: ZeroDates;
  /** For readers who know few types: a TIME is a text, and JSON a text without an extension type. */
  readonly isPlain: boolean;
}

/** The most digits of a decimal of 128 and of 256 bits. */
export const decimal128Digits = 38;
export const decimal256Digits = 76;

/** The table of types is part of the protocol (docs/api.md, "Arrow and Parquet"). */
export function arrowTypeOf(type: ColumnType, { zeroDates, isPlain }: ArrowChoices): ArrowType {
  switch (type.name) {
    case 'Int8':
    case 'Int16':
    case 'Int32':
    case 'Int64':
      return { kind: 'int', bits: Number(type.name.slice('Int'.length)) as 8 | 16 | 32 | 64, isSigned: true };
    case 'UInt8':
    case 'UInt16':
    case 'UInt32':
    case 'UInt64':
      return { kind: 'int', bits: Number(type.name.slice('UInt'.length)) as 8 | 16 | 32 | 64, isSigned: false };
    case 'Float32':
      return { kind: 'float', bits: 32 };
    case 'Float64':
      return { kind: 'float', bits: 64 };
    case 'Decimal':
      return decimal(type);
    case 'Date':
      return zeroDates === 'string' ? { kind: 'utf8' } : { kind: 'date' };
    case 'Timestamp':
      return zeroDates === 'string' ? { kind: 'utf8' } : { kind: 'timestamp' };
    case 'Time':
      return isPlain ? { kind: 'utf8' } : { kind: 'duration' };
    case 'String':
      return { kind: 'utf8' };
    case 'Variant':
      return isPlain ? { kind: 'utf8' } : { kind: 'json' };
    case 'Binary':
    case 'Geometry':
    case 'Vector':
      return { kind: 'binary' };
    case 'Null':
      return { kind: 'null' };
  }
}

function decimal({ precision: width, scale, isComputed }: ColumnType & { name: 'Decimal' }): ArrowType {
  // The databases may define an expression with a width that has no room for its scale, or for its values.
  const precision = Math.max(isComputed === true ? decimal128Digits : 1, width, scale);
  if (precision > decimal128Digits) return { kind: 'decimal', precision: decimal256Digits, scale, bits: 256 };
  return { kind: 'decimal', precision, scale, bits: 128 };
}

/** The bytes of a value, whether or not it is NULL; those of its offset if it is of any length. */
export function valueBytes(type: ArrowType): number {
  switch (type.kind) {
    case 'int':
    case 'float':
    case 'decimal':
      return type.bits / 8;
    case 'timestamp':
    case 'duration':
      return 8;
    case 'date':
    case 'utf8':
    case 'json':
    case 'binary':
      return 4;
    case 'null':
      return 0;
  }
}
