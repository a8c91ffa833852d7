import type { Column, ColumnType } from '../../wire/statement.ts';

/**
 * The type of a column as Databend's clients name it. Cells are text in all of them, so that what they do not know, or
 * would take for something else, is a String. A date may be null in any column, since a zero date is.
 */
export function typeName({ type, nullable }: Column): string {
  const name = plainName(type);
  return nullable || type.name === 'Date' || type.name === 'Timestamp' ? `Nullable(${name})` : name;
}

function plainName(type: ColumnType): string {
  switch (type.name) {
    case 'Decimal':
      return `Decimal(${type.precision}, ${type.scale})`;
    case 'Time':
    case 'Null':
      return 'String';
    case 'Geometry':
    case 'Vector':
      return 'Binary';
    default:
      return type.name;
  }
}
