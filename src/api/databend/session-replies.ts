import type { Reply } from '../../http/reply.ts';
import { InvalidRequestError } from '../invalid-request.ts';
import { describeError, firstErrorOf, parseJson } from '../request.ts';
import { validate } from './heartbeat.validator.ts';
import type { DatabendServer } from './response.ts';
import { versionHeader, versionOf } from './version.ts';

/** Of the form in which pages are sent as Arrow. */
const arrowResultVersion = 2;

/** The answer to a login. There are no tokens: to open a connection later, the password itself is needed, which nobody keeps. */
export function loginReply(server: DatabendServer, sessionId: string): Reply {
  return {
    body: [
      JSON.stringify({
        version: versionOf(server),
        session_id: sessionId,
        server_max_arrow_result_version: arrowResultVersion,
      }),
    ],
    // The cookie identifies the client that owns the pinned sessions of this login.
    headers: {
      ...versionHeader(server),
      'Set-Cookie': `${clientCookie}=${sessionId}; Path=/; HttpOnly; SameSite=Strict`,
    },
  };
}

export function verifyReply(server: DatabendServer, user: string): Reply {
  return { body: [JSON.stringify({ tenant: '', user, roles: [] })], headers: versionHeader(server) };
}

/** @param unknown the ids of queries that the client may forget */
export function heartbeatReply(server: DatabendServer, unknown: readonly string[]): Reply {
  return { body: [JSON.stringify({ queries_to_remove: unknown })], headers: versionHeader(server) };
}

export function logoutReply(server: DatabendServer): Reply {
  return { body: ['{}'], headers: versionHeader(server) };
}

const clientCookie = 'session_id';

/** Who a client is by its cookie; null if no login has named it. */
export function clientOf(cookie: string | undefined): string | null {
  return new RegExp(`(?:^|; *)${clientCookie}=([0-9a-f]{32})(?:;|$)`).exec(cookie ?? '')?.[1] ?? null;
}

/** The shape that the validator has vouched for. */
interface Heartbeat {
  readonly node_to_queries?: { readonly [node: string]: readonly string[] } | null;
}

/**
 * The ids of the queries that a heartbeat names: `{"node_to_queries": {"<node>": ["<id>", …]}}`. Other members are ignored.
 * @throws InvalidRequestError
 */
export function heartbeatQueries(bytes: Buffer): readonly string[] {
  // A heartbeat has no params.
  const body = parseJson(bytes, 0);
  if (!validate(body)) throw new InvalidRequestError(describeError(firstErrorOf(validate)));
  return Object.values((body as Heartbeat).node_to_queries ?? {}).flat();
}
