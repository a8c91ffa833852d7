import { endOfStream, fieldsOf, schemaMessage, streamType } from '../../formats/arrow/messages.ts';
import { formatFor, formats, isArrow } from '../../formats/index.ts';
import { joined, type Reply } from '../../http/reply.ts';
import type { Page } from '../../query/pages.ts';
import type { Schema } from '../schemas.ts';
import { nullSetting } from './request.ts';
import type { ClientSession } from './session.ts';

/** The format of rows. Clients know neither durations nor Arrow's own type of JSON. */
export const arrowRows = 'arrow, plain';

/** Times by the clock of these zones are what clients show who are told that the zone is UTC. */
const utc = /^(?:utc|system|[+-]00:00)$/i;

/**
 * Whether a client is sent Arrow: it accepts that, its timestamps need no conversion to UTC, and NULL is no text.
 * @param accept of its POST
 */
export function wantsArrow(accept: string | undefined, { settings }: ClientSession): boolean {
  if (accept?.includes(streamType) !== true || settings?.[nullSetting] === '1') return false;
  return utc.test(settings?.['time_zone'] ?? 'UTC');
}

/** Clients take JSON as well. A page without rows may be one without columns. */
export function isArrowPage({ columns, rows }: Page): boolean {
  return rows.count > 0 && isArrow(formatFor(formats[arrowRows], columns.length));
}

/**
 * A page as one stream of Arrow.
 * @param answer the rest of the page as JSON, without rows: it is in the metadata of the schema
 */
export function arrowPage({ columns, rows }: Page, answer: readonly Schema[]): Reply {
  const schema = schemaMessage(fieldsOf(columns, formats[arrowRows]), { response_header: joined(answer) });
  return {
    body: [schema, ...rows.pieces, endOfStream],
    headers: { 'Content-Type': streamType },
  };
}
