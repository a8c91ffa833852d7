import { bytes, count, GiB, KiB, MiB } from '../option.ts';

export const results = {
  title: 'Results',
  options: {
    page_bytes_max: bytes({
      default: 8 * MiB,
      min: KiB,
      max: GiB,
      help: 'A page is full at this size. A larger row has a page of its own.',
    }),
    row_bytes_max: bytes({
      default: 64 * MiB,
      min: KiB,
      max: 512 * MiB,
      help: 'Size of a row, as JSON. A statement that returns a larger row fails.',
    }),
    columns_max: count('columns', {
      default: 8_192,
      min: 1,
      max: 65_535,
      help: 'Columns of a result. A statement that returns more columns fails.',
    }),
    gzip_level: count('level', {
      default: 1,
      min: 0,
      max: 9,
      help: 'Compression level (zlib) of rows for clients that accept gzip. 0 turns compression off.',
    }),
  },
} as const;
