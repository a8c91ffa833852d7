import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { ExistingSession } from '../../engine/query-request.ts';
import { noSchema } from '../../wire/messages.ts';
import type { SessionState } from '../../wire/statement.ts';
import { InvalidRequestError } from '../invalid-request.ts';
import { databaseOf } from '../request.ts';

/** The `session` of requests and responses: state that the client carries. Members that are not named are given back as they came. */
export interface ClientSession {
  readonly database?: string | null;
  readonly settings?: { readonly [name: string]: string } | null;
  readonly txn_state?: string | null;
  readonly need_sticky?: boolean | null;
  readonly need_keep_alive?: boolean | null;
  /** A handle to the session that is pinned for the client, if there is one. */
  readonly internal?: string | null;
}

/**
 * In place of the name of a schema that was dropped while it was selected: the statements that follow are not to run in the
 * default one. No schema's name ends with a blank (MySQL manual, "Schema Object Names").
 */
const noDatabase = '(none) ';

/**
 * The schema to select for `session.database`, as in `ClientManagedSession`.
 * @throws InvalidRequestError
 */
export function schemaOf(name: ClientSession['database']): string | null {
  return name === noDatabase ? noSchema : databaseOf(name);
}

const macBytes = 32;

/**
 * Makes tokens for pinned sessions, and reads those that clients bring back. A token has the node id, the session id and a MAC that
 * covers the user.
 */
export class SessionTokens {
  /** Random id of this process, also the `node_id` of answers. */
  readonly node = randomBytes(8).toString('hex');
  readonly #key = randomBytes(macBytes);

  issue(sessionId: string, user: string): string {
    const text = `${this.node}.${sessionId}`;
    return `${text}.${this.#mac(text, user).toString('base64url')}`;
  }

  /**
   * The session that a token is for.
   * @throws InvalidRequestError if it was changed, or given to another user
   */
  read(token: string, user: string): ExistingSession {
    const [node = '', sessionId = '', mac = '', ...more] = token.split('.');
    if (more.length > 0 || !/^[0-9a-f]{1,64}$/.test(sessionId)) throw invalidToken();
    // Another process made it: its signature cannot be checked, and its session is not here.
    if (node !== this.node && /^[0-9a-f]{16}$/.test(node)) {
      return { type: 'existing', id: '', whyEnded: 'the server that held it runs no more' };
    }
    const given = Buffer.from(mac, 'base64url');
    const expected = this.#mac(`${node}.${sessionId}`, user);
    if (given.length !== macBytes || !timingSafeEqual(given, expected)) throw invalidToken();
    return { type: 'existing', id: sessionId };
  }

  #mac(text: string, user: string): Buffer {
    return createHmac('sha256', this.#key).update(`${user.length}:${user}${text}`).digest();
  }
}

function foreignTransaction(): InvalidRequestError {
  return new InvalidRequestError(
    '"session.txn_state" is Active, and "session.internal" is not of this server: the transaction is on another server; ' +
      'begin a new session',
  );
}

function invalidToken(): InvalidRequestError {
  return new InvalidRequestError('"session.internal" is not as it was given to this user; send it back unchanged');
}

/** The beginning of every token. The values of other servers are JSON. */
const tokenStart = /^[0-9a-f]{16}\.[0-9a-f]{32}(?:\.|$)/;

/**
 * The pinned session that the client goes on with; null if there is none. A value in another form comes from another kind of server
 * and is ignored. With an open transaction there it is refused, because the statements would run outside that transaction.
 * @throws InvalidRequestError
 */
export function pinnedSessionOf(session: ClientSession, user: string, tokens: SessionTokens): ExistingSession | null {
  const { internal, txn_state } = session;
  if (internal === undefined || internal === null || internal === '') return null;
  if (tokenStart.test(internal)) return tokens.read(internal, user);
  if (txn_state === 'Active') throw foreignTransaction();
  return null;
}

/**
 * The session that the client carries from now on.
 * @param lastInsertId that of the statement; null if it has none
 * @param token of its session; used only if the session is pinned
 */
export function sessionAfter(
  before: ClientSession,
  state: SessionState,
  lastInsertId: string | null,
  token: string | null,
): ClientSession {
  return {
    ...before,
    // A client that has named no schema is in the default one, or in none if there is no default.
    database: state.schema ?? (databaseOf(before.database) === null ? 'default' : noDatabase),
    settings: {
      ...before.settings,
      ...state.variables,
      // The value of LAST_INSERT_ID() on any connection on which the next statement runs.
      ...(lastInsertId === null ? {} : { last_insert_id: lastInsertId }),
    },
    txn_state: state.inTransaction ? 'Active' : 'AutoCommit',
    // With `need_keep_alive`, clients send heartbeats and log out on close, which ends the pinned session.
    need_sticky: state.isPinned,
    need_keep_alive: state.isPinned,
    internal: state.isPinned ? token : null,
  };
}

/** The same without the pinned session, which has ended: otherwise every later statement would fail for it. */
export function sessionWithoutPinned(before: ClientSession): ClientSession {
  return { ...before, txn_state: 'AutoCommit', need_sticky: false, need_keep_alive: false, internal: null };
}
