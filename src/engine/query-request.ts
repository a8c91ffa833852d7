import type { SqlTraits } from '../wire/sql-traits.ts';
import type { FormatName, PackedParams, Params } from '../wire/statement.ts';

/** A statement that a client wants to be run, and how its result is to be read. The defaults are filled in. */
export interface QueryRequest {
  readonly sql: string;
  /** Absent: the text is short, and its traits are found when they are needed. */
  readonly traits?: SqlTraits;
  /** Values for the statement's placeholders, if it has any. */
  readonly params?: Params | PackedParams;
  readonly session: NewSession | ExistingSession | ClientManagedSession;
  readonly pagination: Pagination;
  /** How long the statement may run; null: as long as the server allows. */
  readonly timeoutSecs: number | null;
  /** How long the result is kept after its last answer. Absent: --result_timeout_secs. */
  readonly resultTimeoutSecs?: number;
  /** How long its rows are kept on disk after its statement has ended. Absent: they are not. */
  readonly keepSecs?: number;
  /** Absent: JSON of the type of each column. */
  readonly format?: FormatName;
  /** The whole result is the body of one answer, which takes rows as they come. */
  readonly isStreamed?: true;
}

/** A session that is opened for the statement. */
export interface NewSession {
  readonly type: 'new';
  /** null: the default schema. `noSchema`: none. */
  readonly database: string | null;
  /** How long it is kept when it is idle; 0: it is one-off, for this statement only. */
  readonly maxIdleSecs: number;
}

/** A kept or pinned session. */
export interface ExistingSession {
  readonly type: 'existing';
  readonly id: string;
  /** Set if it is known that the session has ended. */
  readonly whyEnded?: string;
  /** Where the statement runs if the session has ended without loss, as after a COMMIT. Absent: the statement fails then. */
  readonly otherwise?: ClientManagedSession;
}

/** A session whose state the client sends with each statement, as far as that state can be read and set again. */
export interface ClientManagedSession {
  readonly type: 'client-managed';
  readonly database: string | null;
  /** System variables to set before the statement. */
  readonly variables: { readonly [name: string]: string };
  /** The client that can keep the session alive while it is pinned; null: none. */
  readonly client: string | null;
}

export interface Pagination {
  readonly waitSecs: number;
  readonly maxRowsPerPage: number;
  readonly maxRowsInBuffer: number;
}

/** Whether the session is for the statement alone, so that nothing else is lost with its connection. */
export function isStandalone({ session }: QueryRequest): boolean {
  return session.type === 'client-managed' || (session.type === 'new' && session.maxIdleSecs === 0);
}
