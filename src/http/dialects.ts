import type { IncomingHttpHeaders } from 'node:http';

export type Dialect = 'v1' | 'databend';

const databendAgents = /^(?:databend-|bendsql)/i;

/**
 * Which dialect a request is in: Databend's clients give themselves away by their headers.
 * @param forced auto: by the request itself
 */
export function dialectOf(headers: IncomingHttpHeaders, forced: Dialect | 'auto'): Dialect {
  if (forced !== 'auto') return forced;
  if (databendAgents.test(headers['user-agent'] ?? '')) return 'databend';
  for (const name in headers) if (name.startsWith('x-databend-')) return 'databend';
  return 'v1';
}
