import { Buffers } from '#src/query/buffers.js';
import type { QueryIdentity } from '#src/query/identity.js';
import { Query } from '#src/query/query.js';

/** Longer than any test runs: what comes at all comes for another reason than that this time is over. */
export const forever = 3_600_000;

/** A query whose statement is not started yet, with small limits and buffers of its own; no clock of it runs out. */
export function makeQuery(id = 'q', owner = 'ann', more: Partial<QueryIdentity> = {}): Query {
  return new Query(
    { id, sessionId: 's', owner, ...more },
    {
      waitMs: forever,
      pageRows: 10,
      readyRows: 10,
      pageBytes: 1_000,
      bufferRows: 10,
      gzipLevel: 0,
      timeoutMs: forever,
      isTimeoutAsked: false,
      format: 'json',
    },
    new Buffers({ bufferBytesMax: 1_000_000, resultsBytesMax: 1_000_000, queryBufferBytesMax: 1_000 }),
  );
}
