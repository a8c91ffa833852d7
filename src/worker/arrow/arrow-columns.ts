import { type ArrowChoices, type ArrowType, arrowTypeOf } from '../../formats/arrow/arrow-type.ts';
import type { ArrowField } from '../../formats/arrow/messages.ts';
import { cellKind } from '../../formats/cell-kind.ts';
import { valueType } from '../binary-values.ts';
import type { DescribedColumn } from '../columns.ts';
import type { BatchBody } from './batch-body.ts';
import type { Cells } from './cells.ts';
import { type DateForm, dateTexts, dropInvalidDates, writeDates, writeDurations, writeTimestamps } from './dates.ts';
import { writeDecimals } from './decimals.ts';
import { writeBinaryFloats, writeFloats } from './floats.ts';
import { copierOf, writeBits, writeIntegers } from './integers.ts';
import { writeBytes, writeJsonTexts, writeStrings, writeTexts } from './texts.ts';

/** How the rows of a result are written as Arrow. */
export interface ArrowRowFormat {
  readonly columns: readonly ArrowColumn[];
  /** See `RowFormat`. */
  readonly values: Uint16Array | null;
}

/** How one column is written. */
export interface ArrowColumn extends ArrowField {
  /** Makes NULL of values that have no form; null: none are. */
  readonly drop: ((cells: Cells) => void) | null;
  /**
   * Writes the buffers behind the validity bitmap; null: the type has no buffers at all.
   * @returns bits of `invalidCell`
   * @throws UnrepresentableError, RangeError
   */
  readonly write: ((cells: Cells, body: BatchBody) => number) | null;
}

export function arrowRowFormat(
  described: readonly DescribedColumn[],
  choices: ArrowChoices,
  values: Uint16Array | null,
): ArrowRowFormat {
  return { columns: described.map((column) => arrowColumn(column, choices)), values };
}

function arrowColumn({ column, kind, value }: DescribedColumn, choices: ArrowChoices): ArrowColumn {
  const type = arrowTypeOf(column.type, choices);
  const form = value === null ? null : { type: value & 0xff, decimals: value >> 8 };
  const isBits = kind === cellKind.bits || kind === cellKind.bitsOrDigits;
  const write = isBits ? bitsWriter(kind === cellKind.bitsOrDigits) : writerOf(type, form);
  const isDate = type.kind === 'date' || type.kind === 'timestamp';
  const drop = isDate && choices.zeroDates === 'null' ? (cells: Cells) => dropInvalidDates(cells, form) : null;
  return { name: column.name, type, drop, write };
}

function bitsWriter(orDigits: boolean): ArrowColumn['write'] {
  return (cells, body) => {
    writeBits(cells, body, orDigits);
    return 0;
  };
}

/** @param form of the values of binary rows; null: the rows are text */
function writerOf(type: ArrowType, form: DateForm): ArrowColumn['write'] {
  switch (type.kind) {
    case 'null':
      return null;
    case 'utf8':
      return form === null || form.type === valueType.string
        ? writeTexts
        : (cells, body) => {
            writeStrings(dateTexts(cells, form), body);
            return 0;
          };
    case 'json':
      return writeJsonTexts;
    default: {
      const write = plainWriterOf(type, form);
      return (cells, body) => {
        write(cells, body);
        return 0;
      };
    }
  }
}

type PlainType = Exclude<ArrowType, { readonly kind: 'null' | 'utf8' | 'json' }>;

function plainWriterOf(type: PlainType, form: DateForm): (cells: Cells, body: BatchBody) => void {
  switch (type.kind) {
    case 'int': {
      const bytes = (type.bits / 8) as 1 | 2 | 4 | 8;
      return form === null ? (cells, body) => writeIntegers(cells, body, bytes, type.isSigned) : copierOf(bytes);
    }
    case 'float': {
      const bytes = (type.bits / 8) as 4 | 8;
      return form === null
        ? (cells, body) => writeFloats(cells, body, bytes)
        : (cells, body) => writeBinaryFloats(cells, body, bytes, form.decimals);
    }
    case 'decimal': {
      const bytes = (type.bits / 8) as 16 | 32;
      return (cells, body) => writeDecimals(cells, body, bytes, type.precision, type.scale);
    }
    case 'date':
      return (cells, body) => writeDates(cells, body, form);
    case 'timestamp':
      return (cells, body) => writeTimestamps(cells, body, form);
    case 'duration':
      return (cells, body) => writeDurations(cells, body, form);
    case 'binary':
      return writeBytes;
  }
}
