import type { BodyParts, Reply } from '../http/reply.ts';
import type { QueryIdentity } from '../query/identity.ts';
import type { Page, Snapshot } from '../query/pages.ts';
import type { SessionState } from '../wire/statement.ts';

/** The facts for an answer, beside a page or a snapshot. */
export interface QueryFacts {
  readonly identity: QueryIdentity;
  readonly sessionState: SessionState | null;
}

/** Writes the answers about a query, all of them in the dialect of its POST. */
export interface QueryReplies {
  /** Whether a client that has cancelled the statement asks nothing more about it. */
  readonly isRemovedByKill: boolean;
  /** @param isPosted whether it answers a POST, which may have come before */
  page(query: QueryFacts, page: Page, isPosted: boolean): Reply;
  /** @param nextPage the number of the page that the client has to ask for; null if there is none */
  stats(query: QueryFacts, snapshot: Snapshot, nextPage: number | null): Reply;
  /** The client has cancelled the statement. */
  killed(query: QueryFacts): Reply;
}

/** Rows between the parts of a body that come before and behind them. */
export function aroundRows(before: BodyParts, page: Page, after: string): BodyParts {
  const parts = [...before];
  for (const piece of page.rows.pieces) {
    if (parts.length > before.length) parts.push(',');
    parts.push(piece);
  }
  parts.push(after);
  return parts;
}
