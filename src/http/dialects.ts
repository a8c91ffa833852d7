import type { IncomingHttpHeaders } from 'node:http';

export const dialectNames = ['v1', 'databend'] as const;

export type Dialect = (typeof dialectNames)[number];

const databendAgents = /^(?:databend-|bendsql)/i;

/**
 * The dialect of a request. Databend's clients are recognized by their headers.
 * @param forced auto: by the request itself
 */
export function dialectOf(headers: IncomingHttpHeaders, forced: Dialect | 'auto'): Dialect {
  if (forced !== 'auto') return forced;
  if (databendAgents.test(headers['user-agent'] ?? '')) return 'databend';
  for (const name in headers) if (name.startsWith('x-databend-')) return 'databend';
  return 'v1';
}
