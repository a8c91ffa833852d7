import type { ZeroDates } from '../../formats/arrow/arrow-type.ts';
import { endOfStream, fieldsOf, schemaMessage, streamType } from '../../formats/arrow/messages.ts';
import { formats } from '../../formats/index.ts';
import { httpErrors } from '../../http/http-error.ts';
import type { ArrowFormatName } from '../../wire/statement.ts';
import type { FileFormat, WholeFormat } from '../whole-format.ts';
import { repeatedNames } from './repeated-names.ts';

const rowsByZeroDates: Readonly<Record<ZeroDates, ArrowFormatName>> = {
  fail: 'arrow',
  null: 'arrow, zero dates as null',
  string: 'arrow, zero dates as text',
};

const fileNames: Readonly<Record<ZeroDates, string>> = {
  fail: 'rows',
  null: 'rows-zero-dates-null',
  string: 'rows-zero-dates-string',
};

/** Arrow's IPC stream. */
export function arrowStream(zeroDates: ZeroDates): WholeFormat {
  const rows = rowsByZeroDates[zeroDates];
  const choices = formats[rows];
  return {
    contentType: streamType,
    rows,
    rowsWithStrings: rows,
    head: (columns) => schemaMessage(fieldsOf(columns, choices)),
    tail: () => endOfStream,
  };
}

/** Arrow's IPC file. */
export function arrowFile(zeroDates: ZeroDates): FileFormat {
  const rows = rowsByZeroDates[zeroDates];
  return {
    contentType: 'application/vnd.apache.arrow.file',
    fileName: `${fileNames[zeroDates]}.arrow`,
    rows,
    rowsWithStrings: rows,
    content: () => ({ type: 'arrow' }),
  };
}

export function parquetFile(zeroDates: ZeroDates): FileFormat {
  const rows = rowsByZeroDates[zeroDates];
  return {
    contentType: 'application/vnd.apache.parquet',
    fileName: `${fileNames[zeroDates]}.parquet`,
    rows,
    rowsWithStrings: rows,
    content: ({ columns }) => {
      if (columns.length === 0) throw httpErrors.badRequest('the result has no columns, and a Parquet file has some');
      const repeated = repeatedNames(columns);
      if (repeated === '') return { type: 'parquet' };
      throw httpErrors.badRequest(
        `several columns have the name ${repeated}, and a Parquet file has a name once: give them names of their own (AS)`,
      );
    },
  };
}
