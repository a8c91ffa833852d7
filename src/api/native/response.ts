import { type BodyParts, noHeaders } from '../../http/reply.ts';
import type { QueryIdentity } from '../../query/identity.ts';
import type { Page, Progress, QueryStats, ScanProgress, Snapshot } from '../../query/pages.ts';
import type { QueryState } from '../../query/state.ts';
import type { Failure } from '../../wire/failures.ts';
import type { Column, ColumnType } from '../../wire/statement.ts';
import { aroundRows, type QueryReplies } from '../replies.ts';
import { aroundSchema, Schemas } from '../schemas.ts';
import { finalUri, killUri, pageUri, resultUri, statsUri } from './uris.ts';

/**
 * The QueryResponse of one page (docs/api.md, "The answer").
 * @param integers how `last_insert_id` is written
 */
export function pageBody(identity: QueryIdentity, page: Page, integers: Integers = 'number'): BodyParts {
  return aroundRows(beforeData(identity, page), page, afterData(identity, page, page.next, integers));
}

/** The QueryResponse of `stats_uri`, without data. `nextPage` is the page that the client has to ask for, if any. */
export function statsBody(
  identity: QueryIdentity,
  snapshot: Snapshot,
  nextPage: number | null,
  integers: Integers = 'number',
): BodyParts {
  return [...beforeData(identity, snapshot), afterData(identity, snapshot, nextPage, integers)];
}

/** How 64-bit integers are written. */
type Integers = 'number' | 'string';

export const nativeReplies = repliesWith('number');
/** For clients that read JSON numbers as doubles. */
export const nativeRepliesWithStrings = repliesWith('string');

function repliesWith(integers: Integers): QueryReplies {
  return {
    isRemovedByKill: false,
    page: ({ identity }, page) => ({ body: pageBody(identity, page, integers), headers: noHeaders }),
    stats: ({ identity }, snapshot, nextPage) => ({
      body: statsBody(identity, snapshot, nextPage, integers),
      headers: noHeaders,
    }),
    killed: () => ({ body: [], headers: noHeaders }),
  };
}

function beforeData({ id, sessionId }: QueryIdentity, { state, columns }: Snapshot): BodyParts {
  return aroundSchema(
    // A client may have named the session, which then does not exist.
    `{"id":"${id}","session_id":${JSON.stringify(sessionId)},"state":"${state.name}","error":${errorMember(state)},"schema":`,
    nativeSchemas.of(columns),
    ',"data":[',
  );
}

function afterData(
  { id, isKept }: QueryIdentity,
  { state, stats }: Snapshot,
  nextPage: number | null,
  integers: Integers,
): string {
  const nextUri = nextPage === null ? 'null' : `"${pageUri(id, nextPage)}"`;
  const kept = isKept === true ? `"result_uri":"${resultUri(id)}",` : '';
  return (
    `],"stats":${statsMember(stats)},${outcomeMembers(state, integers)},` +
    `${kept}"stats_uri":"${statsUri(id)}","final_uri":"${finalUri(id)}","kill_uri":"${killUri(id)}","next_uri":${nextUri}}`
  );
}

/** The counts may exceed 2^53, so their digits are put in as the database gave them. */
function outcomeMembers(state: QueryState, integers: Integers): string {
  const outcome = state.name === 'Succeeded' ? state.outcome : null;
  const digits = outcome?.lastInsertId ?? null;
  const insertId = integers === 'string' && digits !== null ? `"${digits}"` : digits;
  return (
    `"affected_rows":${outcome?.affectedRows ?? '0'},"last_insert_id":${insertId},` +
    `"warnings":${outcome?.warnings ?? 0}`
  );
}

/** The members of a whole result behind its rows (docs/api.md, "The whole result in one answer"). */
export function resultMembers({ state, stats }: Snapshot): string {
  return `"state":"${state.name}","stats":${statsMember(stats)},${outcomeMembers(state, 'number')}`;
}

/** The body of an answer about a statement that failed before a whole result had begun. */
export function failureBody(failure: Failure): string {
  return `{"state":"Failed","error":${queryError(failure)}}`;
}

/** The member `schema`. */
export function schemaOf(columns: readonly Column[]): string {
  return `{"fields":[${columns.map(field).join()}],"metadata":{}}`;
}

/** The member `error` of an answer. */
export function errorMember(state: QueryState): string {
  return state.name === 'Failed' ? queryError(state.failure) : 'null';
}

function queryError(failure: Failure): string {
  return JSON.stringify({
    stats: failure.code,
    code: failure.code,
    sqlstate: failure.sqlstate,
    message: failure.message,
    outcome: failure.outcome,
    retryable: failure.retryable,
    // The member is the specification's; our own stack is no business of a client.
    backtrace: '',
  });
}

export const nativeSchemas = new Schemas(schemaOf);

function field({ name, type, nullable }: Column): string {
  return (
    `{"name":${JSON.stringify(name)},"data_type":${dataType(type)},` + `"nullable":${nullable},"default_expr":null}`
  );
}

function dataType(type: ColumnType): string {
  const precision = 'precision' in type ? `,"precision":${type.precision}` : '';
  const scale = 'scale' in type ? `,"scale":${type.scale}` : '';
  return `{"type":"${type.name}"${precision}${scale}}`;
}

function statsMember({ runningMs, scan, write, result, spill, queue }: QueryStats): string {
  return (
    `{"running_time_ms":${Math.round(runningMs * 1_000) / 1_000},"scan_progress":${scanProgress(scan)},` +
    `"write_progress":${progress(write)},"result_progress":${progress(result)},` +
    `"spill_progress":${progress(spill)},"queue":${queue}}`
  );
}

const noProgress = progressOf({ rows: 0, bytes: 0 });

function progress(counted: Progress): string {
  return counted.rows === 0 && counted.bytes === 0 ? noProgress : progressOf(counted);
}

/** The specification's table and its sample name the members differently; both are given. */
function progressOf({ rows, bytes }: Progress): string {
  return `{"rows":${rows},"bytes":${bytes},"read_rows":${rows},"read_bytes":${bytes}}`;
}

function scanProgress({ rows, bytes, known, estimatedRows }: ScanProgress): string {
  return (
    `{"rows":${rows},"bytes":${bytes},"read_rows":${rows},"read_bytes":${bytes},` +
    `"known":${known},"estimated_rows":${estimatedRows}}`
  );
}
