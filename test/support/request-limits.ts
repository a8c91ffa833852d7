import type { RequestLimits } from '#src/api/request.js';

/** What a server with the default options holds the body of a POST to. */
export const requestLimits: RequestLimits = {
  bodyBytesMax: 16 * 1024 * 1024,
  waitTimeMsMax: 50_000,
  pageRowsMax: 1_000_000,
  bufferRowsMax: 5_000_000,
  statementTimeoutMs: 3_600_000,
  resultTimeoutMsMax: 3_600_000,
  paramsMax: 65_535,
  clientSessionBytesMax: 65_536,
};
