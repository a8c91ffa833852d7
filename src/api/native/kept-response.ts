import { noHeaders, type Reply } from '../../http/reply.ts';
import type { Query } from '../../query/query.ts';
import type { KeptResult } from '../../results/kept-result.ts';
import { aroundRows, type QueryReplies } from '../replies.ts';
import { aroundSchema } from '../schemas.ts';
import { errorMember, nativeSchemas } from './response.ts';
import { resultUri } from './uris.ts';

/** The answer about a kept result (docs/api.md, "Kept results"). */
export function resultReply(query: Query, result: KeptResult): Reply {
  const { columns } = query.snapshot();
  const before = `${describe(query, result).slice(0, -1)},"schema":`;
  return { body: aroundSchema(before, nativeSchemas.of(columns), '}'), headers: noHeaders };
}

/** The answer with all kept results of a user. */
export function resultsReply(results: readonly { query: Query; result: KeptResult }[]): Reply {
  const described = results.map(({ query, result }) => describe(query, result));
  return { body: [`{"results":[${described.join()}]}`], headers: noHeaders };
}

/** The answer to a request for some rows. */
export function rowsReplies(result: KeptResult, count: number | null): Pick<QueryReplies, 'page'> {
  return {
    page: ({ identity }, page) => {
      const { id } = identity;
      const before = aroundSchema(
        `{"id":"${id}","state":"${page.state.name}","error":${errorMember(page.state)},"schema":`,
        nativeSchemas.of(page.columns),
        `,"from":${page.number},"rows":${result.rows},"data":[`,
      );
      const more = count === null ? '' : `&count=${count}`;
      const next = page.next === null ? 'null' : `"${resultUri(id)}/rows?from=${page.next}${more}"`;
      return { body: aroundRows(before, page, `],"next_uri":${next}}`), headers: noHeaders };
    },
  };
}

function describe(query: Query, result: KeptResult): string {
  const { id, sql, madeAt, endedAt, keepMs } = result.manifest;
  const { state } = query;
  return JSON.stringify({
    id,
    state: state.name,
    error: state.name === 'Failed' ? state.failure : null,
    sql,
    rows: result.rows,
    bytes: result.index.bytes,
    made: new Date(madeAt).toISOString(),
    ended: endedAt === null ? null : new Date(endedAt).toISOString(),
    expires: endedAt === null ? null : new Date(endedAt + keepMs).toISOString(),
    result_uri: resultUri(id),
  });
}
