import { defaultPerUserMax, type SharedLimit } from '../share.ts';
import type { SpillTotals } from '../wire/spill-usage.ts';
import type { Config } from './config.ts';

/** `--connections_per_user_max`, with its default worked out. */
export function connectionsPerUserMax({ connectionsMax, connectionsPerUserMax }: Config['connections']): number {
  return perUserMaxOf(connectionsMax, connectionsPerUserMax);
}

/** The limit of the memory for requests. */
export function requestMemoryLimit({ requestBytesMax, requestBytesPerUserMax }: Config['memory']): SharedLimit {
  return { max: requestBytesMax, perUserMax: perUserMaxOf(requestBytesMax, requestBytesPerUserMax) };
}

/** The limits of the rows on disk. */
export function spillTotals({ spillTotalBytesMax, spillBytesPerUserMax, spillFilesMax }: Config['disk']): SpillTotals {
  return {
    bytes: { max: spillTotalBytesMax, perUserMax: perUserMaxOf(spillTotalBytesMax, spillBytesPerUserMax) },
    files: { max: spillFilesMax, perUserMax: defaultPerUserMax(spillFilesMax) },
  };
}

/** The limits of kept results. */
export function keptLimits({ keptBytesMax, keptBytesPerUserMax, keptCountMax }: Config['kept']): KeptLimits {
  return {
    bytes: { max: keptBytesMax, perUserMax: perUserMaxOf(keptBytesMax, keptBytesPerUserMax) },
    count: { max: keptCountMax, perUserMax: defaultPerUserMax(keptCountMax) },
  };
}

export interface KeptLimits {
  readonly bytes: SharedLimit;
  readonly count: SharedLimit;
}

/** @param perUserMax 0: the default */
function perUserMaxOf(max: number, perUserMax: number): number {
  return perUserMax === 0 ? defaultPerUserMax(max) : perUserMax;
}

/** The limits of one request. It may always ask for the default of `--result_timeout_secs`. */
export function requestLimits({
  requests,
  queries,
  kept,
}: Config): Config['requests'] & Pick<Config['kept'], 'keptMsMax'> {
  const { keptMsMax } = kept;
  return { ...requests, resultTimeoutMsMax: Math.max(requests.resultTimeoutMsMax, queries.resultTimeoutMs), keptMsMax };
}
