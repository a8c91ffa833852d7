import { bytes, count, KiB, MiB, seconds, TiB } from '../option.ts';

export const http = {
  title: 'HTTP connections',
  options: {
    http_connections_max: count('connections', {
      default: 20_000,
      min: 1,
      max: 1_000_000,
      help:
        'HTTP connections at once. A new one replaces an idle one. The limit is lower if the file descriptors (ulimit -n) ' +
        'suffice for fewer only.',
    }),
    http_idle_secs: seconds({
      default: 120,
      min: 1,
      max: 86_400,
      help:
        'An HTTP connection is closed after this time without a byte in either direction. The time does not run while ' +
        'a client waits for the server.',
    }),
    request_timeout_secs: seconds({
      default: 30,
      min: 1,
      max: 3600,
      help: 'Time limit for receiving a whole request.',
    }),
    header_bytes_max: bytes({
      default: 16 * KiB,
      min: KiB,
      max: MiB,
      help: 'Size of the request line and the headers together.',
    }),
    pipelined_requests_max: count('requests', {
      default: 100,
      min: 1,
      max: 10_000,
      help: 'Requests that are sent on one HTTP connection before their answers. A further one closes the connection.',
    }),
    pipelined_bytes_max: bytes({
      default: 64 * MiB,
      min: 0,
      max: TiB,
      help:
        'Memory for such requests on all HTTP connections. One client address may have three quarters of it. A request ' +
        'that needs more closes its connection.',
    }),
  },
} as const;
