import type { Page, Progress, QueryStats, Snapshot } from '../../query/pages.ts';
import type { QueryIdentity } from '../../query/query.ts';
import type { Column, Failure } from '../../wire/statement.ts';
import { finalUri, pageUri, statsUri } from './uris.ts';

/** A body in the order in which it is sent; what is long comes as the bytes that the worker made. */
export type BodyParts = readonly (string | Uint8Array)[];

/** The QueryResponse of one page (decisions, "Response (v1)"). */
export function pageBody(identity: QueryIdentity, page: Page): BodyParts {
  const data: (string | Uint8Array)[] = [];
  for (const piece of page.rows.pieces) data.push(data.length === 0 ? '' : ',', piece);
  return [beforeData(identity, page), ...data, afterData(identity, page, page.next)];
}

/** The QueryResponse of `stats_uri`, without data. `nextPage` is the page that the client has to ask for, if any. */
export function statsBody(identity: QueryIdentity, snapshot: Snapshot, nextPage: number | null): BodyParts {
  return [beforeData(identity, snapshot), afterData(identity, snapshot, nextPage)];
}

function beforeData(identity: QueryIdentity, { state, columns }: Snapshot): string {
  const head = JSON.stringify({
    id: identity.id,
    session_id: identity.sessionId,
    state: state.name,
    error: state.name === 'Failed' ? queryError(state.failure) : null,
    schema: { fields: columns.map(field), metadata: {} },
  });
  return `${head.slice(0, -1)},"data":[`;
}

function afterData(identity: QueryIdentity, { state, stats }: Snapshot, nextPage: number | null): string {
  const outcome = state.name === 'Succeeded' ? state.outcome : null;
  const uris = JSON.stringify({
    stats_uri: statsUri(identity.id),
    final_uri: finalUri(identity.id),
    next_uri: nextPage === null ? null : pageUri(identity.id, nextPage),
  });
  // Both counts may exceed 2^53, so their digits are put in as the database gave them.
  const counts =
    `"affected_rows":${outcome?.affectedRows ?? '0'},"last_insert_id":${outcome?.lastInsertId ?? 'null'},` +
    `"warnings":${outcome?.warnings ?? 0}`;
  return `],"stats":${JSON.stringify(statsMember(stats))},${counts},${uris.slice(1)}`;
}

function queryError(failure: Failure): object {
  return {
    stats: failure.code,
    code: failure.code,
    sqlstate: failure.sqlstate,
    message: failure.message,
    // The member is the specification's; our own stack is no business of a client.
    backtrace: '',
  };
}

function field(column: Column): object {
  const { name, ...digits } = column.type;
  return { name: column.name, data_type: { type: name, ...digits }, nullable: column.nullable, default_expr: null };
}

function statsMember(stats: QueryStats): object {
  return {
    running_time_ms: Math.round(stats.runningMs * 1_000) / 1_000,
    scan_progress: progress(stats.scan),
    write_progress: progress(stats.write),
    result_progress: progress(stats.result),
  };
}

/** The specification's table and its sample name the members differently; both are given. */
function progress({ rows, bytes }: Progress): object {
  return { rows, bytes, read_rows: rows, read_bytes: bytes };
}
