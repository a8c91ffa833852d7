import type { ClientManagedSession, QueryRequest } from '../../engine/query-request.ts';
import type { FormatName } from '../../wire/statement.ts';
import type { BodyFormat, ParsedBody } from '../body.ts';
import { InvalidRequestError } from '../invalid-request.ts';
import {
  checkWellFormed,
  describeError,
  firstErrorOf,
  type PaginationMember,
  paginationOf,
  paramsOf,
  parseJson,
  type RequestLimits,
} from '../request.ts';
import { validate } from './query-request.validator.ts';
import { type ClientSession, pinnedSessionOf, type SessionTokens, schemaOf } from './session.ts';

/** The shape that the validator has vouched for. */
interface QueryRequestBody {
  sql: string;
  params?: readonly unknown[] | { readonly [name: string]: unknown } | null;
  session?: ClientSession | null;
  pagination?: { readonly [Name in keyof PaginationMember]: number | null } | null;
  stage_attachment?: unknown;
}

/** A body, and the session that its client carries. */
export interface DatabendRequest {
  readonly request: QueryRequest;
  readonly session: ClientSession;
}

/** A body as it was parsed: which session its statement runs in is not resolved yet. */
export interface DatabendBody extends ParsedBody {
  readonly session: ClientSession;
}

/** Who sends the body. */
export interface RequestContext {
  readonly user: string;
  /** The client, as its login has named it; null if it has not. */
  readonly client: string | null;
  readonly tokens: SessionTokens;
}

const defaultWaitSecs = 10;
/** With 1, NULL is the text NULL. */
export const nullSetting = 'format_null_as_str';
const resultTimeoutSetting = 'http_handler_result_timeout_secs';

/**
 * The body of a POST. Members that Databend knows and Sluice does not are ignored. It depends on nothing but its arguments, so
 * that any thread can call it.
 * @throws InvalidRequestError
 */
export function parse(bytes: Buffer, limits: RequestLimits): DatabendBody {
  const body = parseJson(bytes, limits.paramsMax);
  if (!validate(body)) throw new InvalidRequestError(describeError(firstErrorOf(validate)));
  const { sql, params, session, pagination, stage_attachment } = body as QueryRequestBody;
  if (stage_attachment !== undefined && stage_attachment !== null) {
    throw new InvalidRequestError(
      '"stage_attachment" is given, and there are no stages: send the rows in the statement',
    );
  }
  checkWellFormed(sql, 'sql');
  const carried = session ?? {};
  const sessionBytesMax = limits.clientSessionBytesMax;
  if (bytes.length > sessionBytesMax && JSON.stringify(carried).length > sessionBytesMax) {
    throw new InvalidRequestError(`"session" is larger than ${sessionBytesMax} bytes (--client_session_bytes_max)`);
  }
  const resultTimeoutSecs = resultTimeoutSecsOf(carried, limits.resultTimeoutMsMax / 1_000);
  const { wait_time_secs, max_rows_per_page, max_rows_in_buffer } = pagination ?? {};
  return {
    session: carried,
    request: {
      sql,
      ...(params === undefined || params === null ? {} : { params: paramsOf(params, 'text') }),
      pagination: paginationOf(
        {
          ...(wait_time_secs == null ? {} : { wait_time_secs }),
          // Clients send their own defaults without knowing the limits of the server.
          ...(max_rows_per_page == null ? {} : { max_rows_per_page: Math.min(max_rows_per_page, limits.pageRowsMax) }),
          ...(max_rows_in_buffer == null
            ? {}
            : { max_rows_in_buffer: Math.min(max_rows_in_buffer, limits.bufferRowsMax) }),
        },
        defaultWaitSecs,
        limits,
      ),
      timeoutSecs: null,
      ...(resultTimeoutSecs === null ? {} : { resultTimeoutSecs }),
      format: formatOf(carried),
    },
  };
}

export const databendBodies: BodyFormat<DatabendBody> = { module: import.meta.url, parse };

/**
 * The request with the session that its statement runs in.
 * @throws InvalidRequestError for a handle that is none of ours, and for a text that is not well-formed
 */
export function requestOf({ request, session }: DatabendBody, context: RequestContext): DatabendRequest {
  const { user, client, tokens } = context;
  const pinned = pinnedSessionOf(session, user, tokens);
  const carried: ClientManagedSession = {
    type: 'client-managed',
    database: schemaOf(session.database),
    variables: variablesOf(session),
    client,
  };
  return {
    session,
    request: { ...request, session: pinned === null ? carried : { ...pinned, otherwise: carried } },
  };
}

/**
 * Settings that are for this server are not set in the database.
 * @throws InvalidRequestError
 */
function variablesOf({ settings }: ClientSession): { readonly [name: string]: string } {
  const { [nullSetting]: _, [resultTimeoutSetting]: __, ...variables } = settings ?? {};
  for (const [name, value] of Object.entries(variables)) {
    checkWellFormed(name, 'session.settings');
    checkWellFormed(value, () => `session.settings.${name}`);
  }
  return variables;
}

/**
 * How long the client wants its result kept. More than the limit becomes the limit, since clients send settings that they
 * have for other servers; null if it does not say, or not as a whole number of seconds.
 */
function resultTimeoutSecsOf({ settings }: ClientSession, max: number): number | null {
  const asked = settings?.[resultTimeoutSetting];
  if (asked === undefined || !/^[0-9]{1,9}$/.test(asked) || Number(asked) === 0) return null;
  return Math.min(Number(asked), max);
}

function formatOf({ settings }: ClientSession): FormatName {
  return settings?.[nullSetting] === '1' ? 'json strings, NULL too' : 'json strings';
}
