import { bytes, GiB, KiB, MiB, TiB } from '../option.ts';

export const memory = {
  title: 'Memory',
  options: {
    buffer_bytes_max: bytes({
      default: 512 * MiB,
      min: MiB,
      max: TiB,
      help:
        'Memory for the rows of all queries. One user may have three quarters of it. When it is used up, new statements ' +
        'and rows of 1 MiB and more wait.',
    }),
    query_buffer_bytes_max: bytes({
      default: 16 * MiB,
      min: KiB,
      max: 2 * GiB,
      help: 'Memory for the rows of one query that its client has not read.',
    }),
    results_bytes_max: bytes({
      default: GiB,
      min: MiB,
      max: TiB,
      help:
        'Hard limit of the memory for the rows of all queries. When it is exceeded, a query that receives rows fails if ' +
        'its user holds more than an equal part of it.',
    }),
    request_bytes_max: bytes({
      default: 256 * MiB,
      min: MiB,
      max: TiB,
      help:
        'Memory for the requests of all users: bodies that are being received, and the text and params of statements that ' +
        'wait or run. A request that needs more gets 503.',
    }),
    request_bytes_per_user_max: bytes({
      default: 0,
      min: 0,
      max: TiB,
      total: 'request_bytes_max',
      help:
        'Memory for the requests of one user. A request that needs more gets 429. The limit is lower while other users use ' +
        'much. 0 means three quarters of --request_bytes_max.',
    }),
  },
} as const;
