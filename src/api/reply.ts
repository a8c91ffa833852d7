import type { Page, Snapshot } from '../query/pages.ts';
import type { QueryIdentity } from '../query/query.ts';
import type { Deflated, SessionState } from '../wire/statement.ts';

/** A body in the order in which it is sent; what is long comes as the bytes that the worker made, compressed or not. */
export type BodyParts = readonly (string | Uint8Array | Deflated)[];

export interface Reply {
  /** Empty: there is no body. */
  readonly body: BodyParts;
  readonly headers: Readonly<Record<string, string>>;
}

/** What answers are made of, beside a page or a snapshot. */
export interface QueryFacts {
  readonly identity: QueryIdentity;
  readonly sessionState: SessionState | null;
}

/** How the answers about a query are written: in the dialect of its POST, from the first to the last. */
export interface QueryReplies {
  /** @param isPosted whether it answers a POST, which may have come before */
  page(query: QueryFacts, page: Page, isPosted: boolean): Reply;
  /** @param nextPage the number of the page that the client has to ask for; null if there is none */
  stats(query: QueryFacts, snapshot: Snapshot, nextPage: number | null): Reply;
  /** The client has cancelled the statement. */
  killed(query: QueryFacts): Reply;
}

export const noHeaders: Readonly<Record<string, string>> = {};

/** Rows between the parts of a body that come before and behind them. */
export function aroundRows(before: string, page: Page, after: string): BodyParts {
  const parts: (string | Uint8Array | Deflated)[] = [before];
  for (const piece of page.rows.pieces) {
    if (parts.length > 1) parts.push(',');
    parts.push(piece);
  }
  parts.push(after);
  return parts;
}
