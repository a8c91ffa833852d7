import type { ServiceEvent } from '../events.ts';
import type { Query } from '../query/query.ts';
import type { Failure } from '../wire/failures.ts';

/** Limit of the SQL of one statement in the log. Writing megabytes would block the main thread. */
const loggedCharactersMax = 10_000;

/** The event of a query whose statement has ended. */
export function settledEvent(query: Query, sql: string | undefined): ServiceEvent {
  const { id, sessionId, owner, origin } = query.identity;
  const { state } = query;
  const { runningMs, rows, bytes, spilledBytes } = query.progress.totals;
  return {
    type: 'query_settled',
    query: id,
    session: sessionId,
    user: owner,
    requestId: origin?.requestId,
    client: origin?.client,
    state: state.name,
    code: state.name === 'Failed' ? state.failure.code : null,
    queueMs: microseconds(query.progress.queueMs),
    runningMs: microseconds(runningMs),
    rows,
    bytes,
    spilledBytes,
    sql,
  };
}

/** The event of a query that has lost rows before they were read. */
export function rowsLostEvent({ identity }: Query, { code, message }: Failure): ServiceEvent {
  const { id, sessionId, owner, origin } = identity;
  return { type: 'rows_lost', query: id, session: sessionId, user: owner, ...origin, code, reason: message };
}

/** Rounded to three places: digits behind them would be noise, and make lines of the log longer. */
function microseconds(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

/** The statement as it is logged. */
export function loggedSql(sql: string): string {
  if (sql.length <= loggedCharactersMax) return sql;
  // V8 would keep the whole text for a part that is cut out of it.
  const begin = Buffer.from(sql.slice(0, loggedCharactersMax)).toString();
  return `${begin}... (${sql.length} characters)`;
}
