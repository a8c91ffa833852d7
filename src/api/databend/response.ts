import type { Reply } from '../../http/reply.ts';
import type { Page, Progress, QueryStats, Snapshot } from '../../query/pages.ts';
import type { QueryState } from '../../query/state.ts';
import type { Tombstone } from '../../tombstones.ts';
import type { Failure } from '../../wire/failures.ts';
import { heapBytes } from '../../wire/heap-bytes.ts';
import { firstWordOf, mentionsRollup, type SqlTraits, traitsOf } from '../../wire/sql-traits.ts';
import type { Column, Outcome, SessionState } from '../../wire/statement.ts';
import { aroundRows, type QueryFacts, type QueryReplies } from '../replies.ts';
import { aroundSchema, type Schema, Schemas } from '../schemas.ts';
import { arrowPage, isArrowPage } from './arrow-page.ts';
import { type ClientSession, type SessionTokens, sessionAfter, sessionWithoutPinned } from './session.ts';
import { timezoneOf } from './timezone.ts';
import { typeName } from './types.ts';
import { finalUri, killUri, pageUri, statsUri } from './uris.ts';
import { versionHeader } from './version.ts';

/** Properties of the server that stand in every answer. */
export interface DatabendServer {
  readonly tokens: SessionTokens;
  readonly resultTimeoutMs: number;
  /** Values of `time_zone` that the database has taken. */
  readonly zones: Set<string>;
  /** The database's own, by which clients tell what a server can; empty as long as it is not known. */
  readonly version: () => string;
}

const zonesMax = 10_000;

/** Of failures after which there is no session any more: it was not found, or its connection was lost. */
const goneCodes = new Set([90001, 90006]);

/** The columns in which drivers look for the number of rows that a statement has changed. */
const counted: { readonly [word: string]: string } = {
  INSERT: 'number of rows inserted',
  REPLACE: 'number of rows inserted',
  UPDATE: 'number of rows updated',
  DELETE: 'number of rows deleted',
};

interface SentPage {
  readonly number: number;
  readonly isEnd: boolean;
  /** null: it was sent without. */
  readonly session: ClientSession | null;
}

export interface RepliesOptions {
  readonly user: string;
  /** As the client has sent it. */
  readonly session: ClientSession;
  readonly sql: string;
  /** Left out: the SQL is short, and they are found here. */
  readonly traits?: SqlTraits | undefined;
  /** Left out: the server's own. */
  readonly resultTimeoutSecs?: number | undefined;
  /**
   * Of a statement without columns, the client looks at the answers to the POST and of `/final` only. So does databend-py
   * (`wait_until_has_schema`), which keeps its session where one is null.
   */
  readonly readsFinalAlone: boolean;
  /** Rows are sent in Arrow. */
  readonly isArrow: boolean;
}

/** Answers about one query. */
export class DatabendReplies implements QueryReplies {
  readonly isRemovedByKill = true;
  readonly #server: DatabendServer;
  readonly #user: string;
  /** As the client has sent them. */
  readonly #settings: ClientSession['settings'];
  /** The name of the column of affected rows; null if clients count none for this statement. */
  readonly #counted: string | null;
  /** MariaDB then gives nulls in columns that it says have none. */
  readonly #mayRollUp: boolean;
  readonly #resultTimeoutSecs: number;
  /** See `RepliesOptions`. */
  readonly readsFinalAlone: boolean;
  readonly #isArrow: boolean;
  /** All that it can change is that a transaction is open, in which it has read. */
  readonly #beginsByReading: boolean;
  #hasReportedSession = false;
  #isPinnedForgotten = false;
  /** About what the session of the client takes, which is kept for the answers. */
  readonly heapBytes: number;
  /** The session as this query has last sent it: at first, as the client has. */
  #session: ClientSession;
  /** The latest page that can be asked for again, and the session that it was sent with. */
  #last: SentPage = { number: -1, isEnd: false, session: null };

  constructor(
    server: DatabendServer,
    { user, session, sql, traits, resultTimeoutSecs, readsFinalAlone, isArrow }: RepliesOptions,
  ) {
    this.#server = server;
    this.#user = user;
    this.#session = session;
    this.heapBytes = heapBytes(session);
    this.#settings = session.settings;
    this.#resultTimeoutSecs = resultTimeoutSecs ?? server.resultTimeoutMs / 1_000;
    this.readsFinalAlone = readsFinalAlone;
    this.#isArrow = isArrow;
    const { firstWord, hasRollup } = traits ?? { firstWord: firstWordOf(sql), hasRollup: mentionsRollup(sql) };
    this.#counted = counted[firstWord ?? ''] ?? null;
    this.#mayRollUp = hasRollup;
    // Most statements come with autocommit on, and are not searched.
    const isOff = autocommitOff.test(session.settings?.['autocommit'] ?? '');
    this.#beginsByReading = isOff && isPlainRead(traits ?? traitsOf(sql));
  }

  page(query: QueryFacts, page: Page, isPosted: boolean): Reply {
    const session = this.#sessionOf(query, page, isPosted);
    const { id } = query.identity;
    const { state, next } = page;
    // Nobody comes for the last answer of what has not even been begun.
    const isOver = state.name === 'Failed' && state.failure.outcome === 'not_started';
    const nextUri = isOver ? null : next === null ? finalUri(id) : pageUri(id, next);
    const count = this.#countRow(page);
    if (count !== null) {
      const schema = `[{"name":"${count.name}","type":"UInt64"}]`;
      const [before, after] = this.#around(query, page, session, schema, nextUri);
      return this.#reply(query, page, [...before, `["${count.rows}"]`, after], 1);
    }
    const [before, after] = this.#around(query, page, session, schemaOf(page.columns, this.#mayRollUp), nextUri);
    if (this.#isArrow && isArrowPage(page)) {
      const { body, headers } = arrowPage(page, [...before, after]);
      const reply = this.#reply(query, page, body, page.rows.count);
      return { ...reply, headers: { ...reply.headers, ...headers } };
    }
    return this.#reply(query, page, aroundRows(before, page, after), page.rows.count);
  }

  stats(query: QueryFacts, { state, stats }: Snapshot): Reply {
    const failure = state.name === 'Failed' ? state.failure : null;
    const body = `{"state":"${state.name}","error":${errorOf(failure)},"warnings":[],"stats":${statsOf(stats)}}`;
    return { body: [body], headers: this.#headers(query.identity.id, state.name, 0) };
  }

  killed({ identity }: QueryFacts): Reply {
    return { body: ['{}'], headers: this.#headers(identity.id, 'Failed', 0) };
  }

  /**
   * The answer of `/final`, after which there is none.
   * @returns the session too, if it is sent there; null if it is not
   */
  final(query: QueryFacts, snapshot: Snapshot): { readonly reply: Reply; readonly session: ClientSession | null } {
    const isRepeated = this.readsFinalAlone && snapshot.columns.length === 0;
    const session = this.#sessionUpdate(query, snapshot.state) ?? (isRepeated ? this.#last.session : null);
    const [before, after] = this.#around(query, snapshot, session, schemaOf(snapshot.columns, this.#mayRollUp), null);
    return { reply: this.#reply(query, snapshot, [...before, after], 0), session };
  }

  /** The session that was held for the client has ended without loss: the next answer says so, if none has. */
  forgetPinned(): void {
    if (!this.#session.internal) return;
    this.#session = sessionWithoutPinned(this.#session);
    this.#isPinnedForgotten = true;
  }

  /** Whether an answer has reported to the client the session that the statement has left. */
  get hasReportedSession(): boolean {
    return this.#hasReportedSession;
  }

  /** That of the session if the database has taken it, as far as is known. */
  #timezone(state: SessionState | null): string {
    const { zones } = this.#server;
    const taken = state?.variables['time_zone'];
    // There are some hundreds of names, each in any case.
    if (zones.size >= zonesMax) zones.clear();
    if (taken !== undefined) zones.add(taken);
    const asked = this.#settings?.['time_zone'];
    return timezoneOf(taken ?? (asked !== undefined && state === null && zones.has(asked) ? asked : undefined));
  }

  /** The rows that a change has touched, where clients look for them: on its one page, and not past it. */
  #countRow({ state, columns, number, next }: Page): { readonly name: string; readonly rows: string } | null {
    if (this.#counted === null || state.name !== 'Succeeded' || columns.length > 0) return null;
    return number === 0 && next === null ? { name: this.#counted, rows: state.outcome.affectedRows } : null;
  }

  #around(
    { identity: { id, sessionId }, sessionState }: QueryFacts,
    { state, stats }: Snapshot,
    session: ClientSession | null,
    schema: Schema,
    nextUri: string | null,
  ): [readonly Schema[], string] {
    const failure = state.name === 'Failed' ? state.failure : null;
    // Nobody knows before there are columns, or the end.
    const hasResultSet = schema === '[]' && state.name === 'Running' ? null : schema !== '[]';
    const outcome = state.name === 'Succeeded' ? state.outcome : null;
    return [
      aroundSchema(
        `{"id":"${id}","session_id":"${sessionId}","node_id":"${this.#server.tokens.node}","state":"${state.name}",` +
          `"session":${JSON.stringify(session)},"error":${errorOf(failure)},"warnings":${warningsOf(outcome)},` +
          `"has_result_set":${hasResultSet},"schema":`,
        schema,
        ',"data":[',
      ),
      `],"affect":null,"result_timeout_secs":${this.#resultTimeoutSecs},` +
        `"settings":{"timezone":"${this.#timezone(sessionState)}"},"stats":${statsOf(stats)},"stats_uri":"${statsUri(id)}",` +
        `"final_uri":"${finalUri(id)}","next_uri":${nextUri === null ? 'null' : `"${nextUri}"`},"kill_uri":"${killUri(id)}"}`,
    ];
  }

  /**
   * The session that a page is sent with; null if it is sent without. A client may have other statements under way, and takes
   * every session that is sent for its current one. So the answer to the POST has it, and a later page only if it reports for
   * the first time what the statement has changed. A page that is asked for again, since its answer was lost, repeats its own.
   */
  #sessionOf(query: QueryFacts, { state, number, next }: Page, isPosted: boolean): ClientSession | null {
    if (number === this.#last.number) return this.#last.session ?? (isPosted ? this.#session : null);
    // The number of an empty page that is not the last one is that of the next page too.
    const canBeRepeated = next !== number;
    const update = isPosted || canBeRepeated ? this.#sessionUpdate(query, state, isPosted) : null;
    const session = update ?? (isPosted ? this.#session : null);
    if (session !== null) this.#isPinnedForgotten = false;
    if (canBeRepeated && !this.#last.isEnd) this.#last = { number, isEnd: next === null, session };
    return session;
  }

  /**
   * The session, if the statement has changed it and this query has not sent that yet; else null.
   * @param isWhole also if the statement has not changed it
   */
  #sessionUpdate(query: QueryFacts, state: QueryState, isWhole = false): ClientSession | null {
    // Before its end, nobody knows what a statement leaves.
    if (this.#hasReportedSession || state.name === 'Running') return null;
    const { sessionState } = query;
    if (sessionState !== null) {
      const lastInsertId = state.name === 'Succeeded' ? state.outcome.lastInsertId : null;
      // Other statements have a transaction by now, since the client runs them while it reads this one: that one counts.
      if (!isWhole && this.#beginsByReading && state.name === 'Succeeded') return null;
      const isChanged = sessionState.isChanged || lastInsertId !== null || this.#isPinnedForgotten;
      if (!isWhole && !isChanged) return null;
      this.#hasReportedSession = true;
      // Signed only where there is something to hold: most statements leave nothing.
      const handle = sessionState.isPinned ? this.#server.tokens.issue(query.identity.sessionId, this.#user) : null;
      this.#session = sessionAfter(this.#session, sessionState, lastInsertId, handle);
      return this.#session;
    }
    if (state.name !== 'Failed' || !goneCodes.has(state.failure.code) || !this.#session.internal) return null;
    this.#hasReportedSession = true;
    this.#session = sessionWithoutPinned(this.#session);
    return this.#session;
  }

  #reply(query: QueryFacts, { state }: Snapshot, body: Reply['body'], rows: number): Reply {
    return { body, headers: this.#headers(query.identity.id, state.name, rows) };
  }

  #headers(id: string, state: string, rows: number): Record<string, string> {
    return {
      ...versionHeader(this.#server),
      'X-DATABEND-QUERY-ID': id,
      'X-DATABEND-QUERY-STATE': state,
      'X-DATABEND-QUERY-PAGE-ROWS': String(rows),
    };
  }
}

const autocommitOff = /^(?:0|off|false)$/i;

function isPlainRead({ effect, locksRows }: SqlTraits): boolean {
  return effect === 'read' && !locksRows;
}

/**
 * The answer about a query that was removed, as if it had had no rows.
 * @param session the one that its last answer was sent with, as JSON; null if there was none
 */
export function closedReply(
  server: DatabendServer,
  id: string,
  { reason, code }: Tombstone,
  session: string | null = null,
): Reply {
  const nothing = '{"rows":0,"bytes":0}';
  const stats = `{"running_time_ms":0,"scan_progress":${nothing},"write_progress":${nothing},"result_progress":${nothing}}`;
  const state = code === null ? 'Succeeded' : 'Failed';
  const error = code === null ? null : { code: reportedCode(code), message: `query ${id} ${reason}` };
  return {
    body: [
      `{"id":"${id}","session_id":"","node_id":"${server.tokens.node}","state":"${state}","session":${session},` +
        `"error":${JSON.stringify(error)},"warnings":[],"has_result_set":false,"schema":[],"data":[],"affect":null,` +
        `"stats":${stats},"stats_uri":null,"final_uri":null,"next_uri":null,"kill_uri":null}`,
    ],
    headers: versionHeader(server),
  };
}

/** Why a request is refused. */
export function errorReply(server: DatabendServer, status: number, message: string): Reply {
  return {
    body: [JSON.stringify({ error: { code: status, message } })],
    headers: versionHeader(server),
  };
}

const schemas = new Schemas(schemaText);
/** With all columns nullable. */
const nullableSchemas = new Schemas((columns) => schemaText(columns.map((column) => ({ ...column, nullable: true }))));

function schemaOf(columns: readonly Column[], isNullable: boolean): Schema {
  return (isNullable ? nullableSchemas : schemas).of(columns);
}

function schemaText(columns: readonly Column[]): string {
  return JSON.stringify(columns.map((column) => ({ name: column.name, type: typeName(column) })));
}

/** Clients read a code into 16 bits, which Sluice's own codes, from 90000 on, do not fit in; theirs begin at 60000. */
const ownCodes = { from: 90_000, shown: 60_000 };

function reportedCode(code: number): number {
  return code < ownCodes.from ? code : code - ownCodes.from + ownCodes.shown;
}

/** The facts for which Databend's error has no member go into its detail. */
function errorOf(failure: Failure | null): string {
  if (failure === null) return 'null';
  const { code, message, sqlstate, outcome, retryable } = failure;
  const detail = `SQLSTATE ${sqlstate}; outcome ${outcome}; ${retryable ? 'retryable' : 'not retryable'}`;
  return JSON.stringify({ code: reportedCode(code), message, detail });
}

function warningsOf(outcome: Outcome | null): string {
  const count = outcome?.warnings ?? 0;
  return count === 0 ? '[]' : `["the database has ${count} warnings of this statement"]`;
}

function statsOf({ runningMs, scan, write, result }: QueryStats): string {
  return (
    `{"running_time_ms":${Math.round(runningMs * 1_000) / 1_000},"scan_progress":${progress(scan)},` +
    `"write_progress":${progress(write)},"result_progress":${progress(result)}}`
  );
}

function progress({ rows, bytes }: Progress): string {
  return `{"rows":${rows},"bytes":${bytes}}`;
}
