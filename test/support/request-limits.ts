import type { RequestLimits } from '#src/api/request.js';

/** What a server with the default options holds the body of a POST to. */
export const requestLimits: RequestLimits = {
  waitSecsMax: 50,
  pageRowsMax: 1_000_000,
  bufferRowsMax: 5_000_000,
  statementTimeoutSecs: 3_600,
  resultTimeoutSecsMax: 3_600,
  paramsMax: 65_535,
  clientSessionBytesMax: 65_536,
};
