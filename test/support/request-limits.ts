import type { RequestLimits } from '#src/api/request.js';

/** The limits of a POST's body with the default options. */
export const requestLimits: RequestLimits = {
  bodyBytesMax: 16 * 1024 * 1024,
  waitTimeMsMax: 50_000,
  pageRowsMax: 1_000_000,
  bufferRowsMax: 5_000_000,
  statementTimeoutMs: 3_600_000,
  resultTimeoutMsMax: 3_600_000,
  paramsMax: 65_535,
  clientSessionBytesMax: 65_536,
  keptMsMax: 86_400_000,
};
