// The rows of a Parquet file as text, by readers that know nothing of each other. Cells have the form of arrow-cells.ts.

import { gunzipSync } from 'node:zlib';
import { DuckDBInstance } from '@duckdb/node-api';
import { type AsyncBuffer, type FileMetaData, parquetMetadataAsync, parquetRead } from 'hyparquet';
import {
  type CellText,
  canonicalCell,
  type DataType,
  dayText,
  decimalText,
  hexText,
  numberText,
  type RowText,
  timestampText,
  timeText,
} from './arrow-cells.ts';
import type { Field } from './sluice.ts';

type Fields = readonly Field[];

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Reads by hyparquet. Its own decimals are doubles, so that it is not told which columns are decimals. */
export async function readByHyparquet(
  file: AsyncBuffer,
  fields: Fields,
): Promise<{ metadata: FileMetaData; rows: RowText[] }> {
  const metadata = await parquetMetadataAsync(file);
  const schema = metadata.schema.map((element) => {
    if (element.converted_type !== 'DECIMAL') return element;
    const { converted_type: _, logical_type: __, ...rest } = element;
    return rest;
  });
  const rows: RowText[] = [];
  await parquetRead({
    file,
    metadata: { ...metadata, schema },
    utf8: false,
    compressors: { GZIP: (bytes) => gunzipSync(bytes) },
    parsers: {
      timestampFromMicroseconds: (micros: bigint) => micros,
      dateFromDays: (days: number) => days,
      stringFromBytes: (bytes: Uint8Array) => decoder.decode(bytes),
      jsonFromBytes: (bytes: Uint8Array) => decoder.decode(bytes),
    },
    onComplete: (read: unknown[][]) => {
      for (const row of read)
        rows.push(row.map((value, column) => textOf(value, fields[column]?.data_type as DataType)));
    },
  });
  return { metadata, rows };
}

function textOf(value: unknown, { type, scale = 0 }: DataType): CellText {
  if (value === null || value === undefined) return null;
  switch (type) {
    case 'Float32':
    case 'Float64':
      return numberText(value as number);
    case 'Decimal':
      return decimalText(value instanceof Uint8Array ? bigEndian(value) : BigInt(value as number | bigint), scale);
    case 'Date':
      return dayText(value as number);
    case 'Timestamp':
      return timestampText(value as bigint);
    case 'Time':
      return timeText(value as bigint);
    default:
      return value instanceof Uint8Array ? hexText(value) : String(value);
  }
}

/** An integer in two's complement, the highest byte first. */
function bigEndian(bytes: Uint8Array): bigint {
  return BigInt.asIntN(8 * bytes.length, BigInt(`0x${hexText(bytes)}`));
}

/** Reads a file by DuckDB, and asks it questions. */
export class DuckDb {
  readonly #connection: Awaited<ReturnType<DuckDBInstance['connect']>>;
  readonly #source: string;

  private constructor(connection: Awaited<ReturnType<DuckDBInstance['connect']>>, path: string) {
    this.#connection = connection;
    this.#source = `read_parquet('${path}')`;
  }

  static async open(path: string): Promise<DuckDb> {
    return new DuckDb(await (await DuckDBInstance.create(':memory:')).connect(), path);
  }

  close(): void {
    this.#connection.closeSync();
  }

  async ask(sql: string): Promise<readonly (readonly unknown[])[]> {
    return (await this.#connection.runAndReadAll(sql.replace('FILE', this.#source))).getRows();
  }

  /** @returns the rows in the order of the file; null for decimals that DuckDB reads as doubles */
  async rows(fields: Fields): Promise<{ types: string[]; rows: RowText[] }> {
    const described = await this.ask('DESCRIBE SELECT * FROM FILE');
    const types = described.map(([, type]) => String(type));
    const cells = described.map(([name, type]) => {
      const column = `"${String(name).replaceAll('"', '""')}"`;
      // As text it would lose a byte order mark on its way.
      if (type === 'BLOB' || type === 'VARCHAR') return `hex(${column})`;
      return type === 'TIMESTAMP' ? `epoch_us(${column})::VARCHAR` : `${column}::VARCHAR`;
    });
    const read = (await this.ask(`SELECT ${cells.join(', ')} FROM FILE`)) as CellText[][];
    const rows = read.map((row) =>
      row.map((cell, column) => {
        const type = fields[column]?.data_type as DataType;
        if (cell === null || (type.type === 'Decimal' && types[column] === 'DOUBLE')) return null;
        if (types[column] === 'VARCHAR') return decoder.decode(Buffer.from(cell, 'hex'));
        if (type.type === 'Timestamp') return timestampText(BigInt(cell));
        if (type.type === 'Time') return timeText(BigInt(cell));
        // It writes decimals below one as .5.
        return canonicalCell(type, type.type === 'Decimal' ? cell.replace(/^-?(?=\.)/, '$&0') : cell);
      }),
    );
    return { types, rows };
  }
}
