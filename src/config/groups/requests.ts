import { bytes, count, GiB, KiB, MiB, seconds, timerSecsMax } from '../option.ts';

/** The protocol of the databases counts the placeholders of one prepared statement in 16 bits. */
const placeholdersMax = 65_535;
/** Rows are counted in 32 bits, with a sign. */
const rowsMax = 2_147_483_647;

export const requests = {
  title: 'Limits of one request',
  options: {
    body_bytes_max: bytes({
      default: 16 * MiB,
      min: KiB,
      max: GiB,
      help: 'Size of a request body, both as sent and as inflated.',
    }),
    params_max: count('values', {
      default: placeholdersMax,
      min: 1,
      max: placeholdersMax,
      help: 'Values in params, including those in lists and objects, and placeholders that lists expand to.',
    }),
    client_session_bytes_max: bytes({
      default: 64 * KiB,
      min: KiB,
      max: MiB,
      help: 'Size of the session that a client carries, as JSON.',
    }),
    wait_time_secs_max: seconds({
      default: 50,
      min: 0,
      max: 3600,
      help: 'Maximum of wait_time_secs, the time for which a request waits for its answer.',
    }),
    statement_timeout_secs: seconds({
      default: 3600,
      min: 0,
      max: timerSecsMax,
      help:
        'How long a statement may run before it is killed. It is also the maximum of timeout_secs in a request. 0 means ' +
        'no limit.',
    }),
    result_timeout_secs_max: seconds({
      default: 3600,
      min: 1,
      max: timerSecsMax,
      help: 'Maximum of result_timeout_secs in a request. --result_timeout_secs is always allowed.',
    }),
    page_rows_max: count('rows', { default: 1_000_000, min: 1, max: rowsMax, help: 'Maximum of max_rows_per_page.' }),
    buffer_rows_max: count('rows', {
      default: 5_000_000,
      min: 1,
      max: rowsMax,
      help: 'Maximum of max_rows_in_buffer.',
    }),
  },
} as const;
