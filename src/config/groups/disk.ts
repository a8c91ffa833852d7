import { bytes, count, GiB, milliseconds, TiB, text } from '../option.ts';

export const disk = {
  title: 'Disk',
  options: {
    data_dir: text({
      placeholder: 'FOLDER',
      default: 'sluice-data',
      help:
        'Folder for the files of the private MariaDB, rows on disk, kept results, and a journal of the open database ' +
        'connections.',
    }),
    spill_bytes_max: bytes({
      default: GiB,
      min: 0,
      max: TiB,
      help:
        'Rows of one query that are kept on disk when its memory is full. When this is full too, the database waits. 0 ' +
        'keeps no rows on disk.',
    }),
    spill_total_bytes_max: bytes({
      default: 10 * GiB,
      min: 0,
      max: TiB,
      help: 'Rows of all queries that are kept on disk.',
    }),
    spill_bytes_per_user_max: bytes({
      default: 0,
      min: 0,
      max: TiB,
      total: 'spill_total_bytes_max',
      help:
        'Rows of the queries of one user that are kept on disk. The limit is lower while other users use much. 0 means ' +
        'three quarters of --spill_total_bytes_max.',
    }),
    spill_files_max: count('files', {
      default: 2_000,
      min: 1,
      max: 1_000_000,
      help:
        'Queries whose rows are kept on disk at once: each takes a file. One user may have three quarters of them. The ' +
        'limit is lower if the file descriptors (ulimit -n) suffice for fewer only.',
    }),
    spill_wait_ms: milliseconds({
      default: 100,
      min: 0,
      max: 3_600_000,
      help: 'How long the memory of a query must be full before its rows are written to disk.',
    }),
  },
} as const;
