// Cells of Arrow data as text, and cells of pages and of CSV in the same form, so that they can be compared. Both are read in
// full: apache-arrow's own decimals and timestamps lose digits, so values are taken from its buffers.

import {
  type Date_ as ArrowDate,
  type DataType as ArrowType,
  type Data,
  DateUnit,
  type Decimal,
  type Duration,
  Type as Kind,
  type Timestamp,
  TimeUnit,
  tableFromIPC,
} from 'apache-arrow';
import { type Field, type QueryResult, split } from './sluice.ts';

/** Null for NULL. */
export type CellText = string | null;
export type RowText = readonly CellText[];
export type DataType = Field['data_type'];

export interface ArrowColumn {
  readonly name: string;
  /** Such as `Int8`, `Decimal128(38, 10)` or `Timestamp<MICROSECOND>`. */
  readonly type: string;
  readonly nullable: boolean;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface ArrowResult {
  readonly columns: readonly ArrowColumn[];
  readonly rows: readonly RowText[];
  readonly batches: number;
}

/** Reads an Arrow stream or file. */
export function readArrow(bytes: Uint8Array): ArrowResult {
  const { schema, batches } = tableFromIPC(bytes);
  const columns = schema.fields.map(({ name, type, nullable, metadata }) => ({
    name,
    type: typeName(type),
    nullable,
    metadata: Object.fromEntries(metadata),
  }));
  const rows: RowText[] = [];
  for (const { data, numRows } of batches) {
    const cells = data.children.map(cellReader);
    for (let row = 0; row < numRows; row++) rows.push(cells.map((cell) => cell(row)));
  }
  return { columns, rows, batches: batches.length };
}

function typeName(type: ArrowType): string {
  if (type.typeId !== Kind.Decimal) return String(type);
  const { bitWidth, precision, scale } = type as Decimal;
  return `Decimal${bitWidth}(${precision}, ${scale})`;
}

function cellReader(data: Data): (row: number) => CellText {
  if (data.type.typeId === Kind.Null) return () => null;
  const read = valueReader(data);
  // Where there is no NULL, the buffer of validity bits may be left out.
  return (row) => (data.getValid(row) ? read(row) : null);
}

/** Fails on text that is not UTF-8. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function valueReader(data: Data): (row: number) => string {
  const { type, values, valueOffsets } = data;
  const bytesAt = (row: number): Uint8Array =>
    values.subarray(Number(valueOffsets[row]), Number(valueOffsets[row + 1]));
  switch (type.typeId) {
    case Kind.Int:
      return (row) => String(values[row]);
    case Kind.Float:
      return (row) => numberText(values[row]);
    case Kind.Decimal:
      return decimalReader(type as Decimal, values);
    case Kind.Date:
      if ((type as ArrowDate).unit !== DateUnit.DAY) throw new Error(`an unexpected type: ${type}`);
      return (row) => dayText(values[row]);
    case Kind.Timestamp:
      if ((type as Timestamp).unit !== TimeUnit.MICROSECOND || (type as Timestamp).timezone != null)
        throw new Error(`an unexpected type: ${type}`);
      return (row) => timestampText(values[row]);
    case Kind.Duration:
      if ((type as Duration).unit !== TimeUnit.MICROSECOND) throw new Error(`an unexpected type: ${type}`);
      return (row) => timeText(values[row]);
    case Kind.Utf8:
    case Kind.LargeUtf8:
      return (row) => decoder.decode(bytesAt(row));
    case Kind.Binary:
    case Kind.LargeBinary:
      return (row) => hexText(bytesAt(row));
    case Kind.Utf8View:
      return (row) => decoder.decode(viewAt(data, row));
    case Kind.BinaryView:
      return (row) => hexText(viewAt(data, row));
    default:
      throw new Error(`an unexpected type: ${type}`);
  }
}

/** The bytes of a cell of a view: in 12 bytes behind their number, or somewhere in another buffer. Polars writes such columns. */
function viewAt({ values, variadicBuffers }: Data, row: number): Uint8Array {
  const { buffer, byteOffset } = values as Uint8Array;
  const view = new DataView(buffer, byteOffset + 16 * row, 16);
  const size = view.getInt32(0, true);
  if (size <= 12) return new Uint8Array(buffer, view.byteOffset + 4, size);
  const start = view.getInt32(12, true);
  return (variadicBuffers[view.getInt32(8, true)] as Uint8Array).subarray(start, start + size);
}

/** Reads integers of 16 or 32 bytes, the lowest first, in two's complement. */
function decimalReader({ bitWidth, scale }: Decimal, values: Uint32Array): (row: number) => string {
  const words = bitWidth / 32;
  return (row) => {
    let unscaled = 0n;
    for (let word = words - 1; word >= 0; word--) {
      unscaled = (unscaled << 32n) | BigInt(values[row * words + word] as number);
    }
    return decimalText(BigInt.asIntN(bitWidth, unscaled), scale);
  };
}

export function decimalText(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  const sign = unscaled < 0n ? '-' : '';
  return scale === 0 ? sign + digits : `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/** @param days since 1970 */
export function dayText(days: number): string {
  return new Date(days * 86_400_000).toISOString().slice(0, 10);
}

/** @param micros since 1970 */
export function timestampText(micros: bigint): string {
  const millis = Number(micros / 1_000n) - (micros % 1_000n < 0n ? 1 : 0);
  const iso = new Date(millis).toISOString();
  const rest = Number(micros - BigInt(millis) * 1_000n);
  return `${iso.slice(0, 10)} ${iso.slice(11, 23)}${String(rest).padStart(3, '0')}`;
}

export function timeText(micros: bigint): string {
  // A TIME is far below 2^53.
  const all = Math.abs(Number(micros));
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');
  const [hours, minutes, seconds] = [all / 3.6e9, (all / 6e7) % 60, (all / 1e6) % 60];
  return `${micros < 0n ? '-' : ''}${two(hours)}:${two(minutes)}:${two(seconds)}.${String(all % 1e6).padStart(6, '0')}`;
}

export function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}

export function hexText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex').toUpperCase();
}

/** A cell of a page or of CSV, as text without quotes, in the form of Arrow's cells. */
export function canonicalCell({ type }: DataType, text: CellText): CellText {
  if (text === null) return null;
  switch (type) {
    case 'Float32':
      return numberText(Math.fround(Number(text)));
    case 'Float64':
      return numberText(Number(text));
    case 'Decimal': {
      // Both servers keep the zeros of ZEROFILL.
      const plain = text.replace(/^(-?)0+(?=\d)/, '$1');
      return /^-[0.]*$/.test(plain) ? plain.slice(1) : plain;
    }
    case 'Timestamp':
      return withMicroseconds(text);
    case 'Time': {
      const time = withMicroseconds(text);
      return time === '-00:00:00.000000' ? time.slice(1) : time;
    }
    default:
      return text;
  }
}

function withMicroseconds(text: string): string {
  const [whole = '', fraction = ''] = text.split('.');
  return `${whole}.${fraction.padEnd(6, '0')}`;
}

/** The rows of all pages, in the form of Arrow's cells. */
export function rowsOfPages({ pages, last }: QueryResult): RowText[] {
  const types = last.schema.fields.map(({ data_type }) => data_type);
  return pages
    .flatMap(({ text }) => rawRows(split(text).rowsText))
    .map((row) => row.map((cell, column) => canonicalCell(types[column] as DataType, textOf(cell, types[column]))));
}

function textOf(cell: string, type: DataType | undefined): CellText {
  if (cell === 'null') return null;
  return cell.startsWith('"') && type?.type !== 'Variant' ? (JSON.parse(cell) as string) : cell;
}

/** Takes rows of JSON arrays apart, and leaves their cells as they are written: `[1,"a"],[2,null]`. */
export function rawRows(rowsText: string): string[][] {
  const rows: string[][] = [];
  const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},]|[^[\]{},"]+/y;
  let row: string[] = [];
  let depth = 0;
  let start = 0;
  for (let found = token.exec(rowsText); found !== null; found = token.exec(rowsText)) {
    const [text] = found;
    const isEnd = text === ']' || text === '}';
    if (isEnd) depth--;
    if ((depth === 1 && text === ',') || (depth === 0 && text === ']')) {
      row.push(rowsText.slice(start, found.index));
      start = token.lastIndex;
    }
    if (depth === 0 && text === ']') {
      rows.push(row);
      row = [];
    }
    if (text === '[' || text === '{') {
      if (depth === 0) start = token.lastIndex;
      depth++;
    }
  }
  return rows;
}

/** The first place where two results differ, for a failed test; null if they are the same. */
export function difference(
  found: readonly RowText[],
  expected: readonly RowText[],
  names: readonly string[],
): string | null {
  for (let row = 0; row < Math.max(found.length, expected.length); row++) {
    const [a, b] = [found[row], expected[row]];
    if (a === undefined || b === undefined) return `${found.length} rows instead of ${expected.length}`;
    if (a.length !== b.length) return `row ${row} has ${a.length} cells instead of ${b.length}`;
    const column = a.findIndex((cell, index) => cell !== b[index]);
    if (column >= 0) return `row ${row}, ${names[column]}: ${shown(a[column])} instead of ${shown(b[column])}`;
  }
  return null;
}

function shown(cell: CellText | undefined): string {
  return cell == null ? 'NULL' : cell.length > 120 ? `${cell.slice(0, 120)}… (${cell.length})` : cell;
}
