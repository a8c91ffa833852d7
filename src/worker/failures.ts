import type { Effect } from '../wire/effect.ts';
import {
  type Cause,
  causes,
  type Failure,
  failureOf,
  interrupted,
  lostBefore,
  outcomeOfError,
} from '../wire/failures.ts';
import type { DatabaseLimit, Refusal } from '../wire/messages.ts';

/** An error on a connection: the server's, which has a number and a SQLSTATE, or one of the socket. */
export interface DriverError extends Error {
  readonly errno?: number;
  readonly code?: string;
  readonly sqlState?: string;
  readonly sqlMessage?: string;
}

/** An error that the server has returned. */
export class ServerError extends Error implements DriverError {
  override readonly name = 'ServerError';
  readonly errno: number;
  readonly sqlState: string;
  readonly sqlMessage: string;

  constructor(errno: number, sqlState: string, message: string) {
    // The stack trace is of no use, and costs more than everything else about the error.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = stackTraceLimit;
    this.errno = errno;
    this.sqlState = sqlState;
    this.sqlMessage = message;
  }
}

/** Codes of the servers (MySQL "Server Error Message Reference", MariaDB "Error Codes"). */
const accessDenied = new Set([
  1045, // ER_ACCESS_DENIED_ERROR
  1251, // ER_NOT_SUPPORTED_AUTH_MODE
  1396, // ER_CANNOT_USER
  1524, // ER_PLUGIN_IS_NOT_LOADED
  1698, // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
  1820, // ER_MUST_CHANGE_PASSWORD
  1862, // ER_MUST_CHANGE_PASSWORD_LOGIN
  3118, // ER_ACCOUNT_HAS_BEEN_LOCKED
  3955, // ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK
  4151, // ER_ACCOUNT_HAS_BEEN_LOCKED (MariaDB)
]);
/** A limit on connections is reached, until another client closes one. */
const connectionsFull = 1040; // ER_CON_COUNT_ERROR
const userConnectionsFull = new Set([
  1203, // ER_TOO_MANY_USER_CONNECTIONS
  1226, // ER_USER_LIMIT_REACHED
]);
const databaseDenied = new Set([
  1044, // ER_DBACCESS_DENIED_ERROR
  1049, // ER_BAD_DB_ERROR
  1102, // ER_WRONG_DB_NAME
]);
const localInfileDenied = new Set([
  1148, // ER_NOT_ALLOWED_COMMAND, used by older releases of both servers
  3948, // ER_CLIENT_LOCAL_FILES_DISABLED
  4166, // ER_LOAD_INFILE_CAPABILITY_DISABLED (MariaDB)
]);

/** The servers send these before they close the connection. */
const connectionEnded = new Set([
  1053, // ER_SERVER_SHUTDOWN
  1927, // ER_CONNECTION_KILLED (MariaDB)
  4031, // ER_CLIENT_INTERACTION_TIMEOUT (MySQL)
]);

/** Whether the connection is gone or about to be, and not only its statement has failed. */
export function isConnectionLost(error: DriverError): boolean {
  return error.errno === undefined || error.sqlState === undefined || connectionEnded.has(error.errno);
}

/** Whether the error comes from the server, possibly before the login; the server is alive then. */
export function isAnswered(error: DriverError): boolean {
  // Errors of the system have negative numbers, those of the driver none.
  return error.errno !== undefined && error.errno > 0;
}

/** The error of both servers for an empty statement (ER_EMPTY_QUERY). */
export const emptyQuery: Cause = { code: 1065, sqlstate: '42000', message: 'Query was empty' };
export const emptyStatement = failureOf(emptyQuery, 'not_started');

/** The servers detect these before they begin a statement, unless it is part of a compound one. */
const notStarted = new Set([
  1064, // ER_PARSE_ERROR
  1065, // ER_EMPTY_QUERY
]);
/** Caused by a statement of another connection. */
const passing = new Set([
  1205, // ER_LOCK_WAIT_TIMEOUT
  1213, // ER_LOCK_DEADLOCK
  1461, // ER_MAX_PREPARED_STMT_COUNT_REACHED
]);

/**
 * The failure of a statement that was sent.
 * @param isStandalone whether it belongs to no session, so that it can be repeated without the statements before it
 */
export function statementFailure(error: DriverError, effect: Effect, isStandalone: boolean): Failure {
  if (error.errno === undefined || isConnectionLost(error)) {
    return interrupted(causes.connectionLost(error.message), effect, isStandalone);
  }
  if (localInfileDenied.has(error.errno)) return failureOf(causes.localInfile(), 'not_started');
  const cause = serverCause(error.errno, error);
  if (effect !== 'compound' && notStarted.has(error.errno)) return failureOf(cause, 'not_started');
  const isPassing = isStandalone && passing.has(error.errno);
  return failureOf(isPassing ? { ...cause, isPassing } : cause, outcomeOfError(effect));
}

/**
 * The failure of a statement that was not sent, since preparing it or a command before it failed.
 * @param isStandalone see `statementFailure`
 */
export function notSentFailure(error: DriverError, isStandalone: boolean): Failure {
  if (error.errno === undefined || isConnectionLost(error)) {
    return lostBefore(error.message, isStandalone);
  }
  if (localInfileDenied.has(error.errno)) return failureOf(causes.localInfile(), 'not_started');
  const cause = serverCause(error.errno, error);
  const isPassing = isStandalone && passing.has(error.errno);
  return failureOf(isPassing ? { ...cause, isPassing } : cause, 'not_started');
}

/** Why a connection could not be opened. */
export function connectRefusal(error: DriverError): Refusal {
  // MySQL has the password encrypted with its RSA key. Every password that it accepts is short enough for that.
  if (error.code === 'ERR_OSSL_RSA_DATA_TOO_LARGE_FOR_KEY_SIZE') {
    return {
      kind: 'denied',
      failure: { code: 1045, sqlstate: '28000', message: 'Access denied: the password is too long' },
    };
  }
  if (error.code === 'EMFILE' || error.code === 'ENFILE') {
    const message = `the server has no file descriptor left for a connection to the database (${error.code})`;
    return { kind: 'unavailable', failure: { code: 2002, sqlstate: '08001', message }, isOutOfDescriptors: true };
  }
  if (error.errno === undefined || error.sqlState === undefined) {
    const failure = { code: 2002, sqlstate: '08001', message: `the database cannot be reached: ${error.message}` };
    return { kind: 'unavailable', failure };
  }
  const failure = serverCause(error.errno, error);
  if (accessDenied.has(error.errno)) return { kind: 'denied', failure };
  if (databaseDenied.has(error.errno)) return { kind: 'database', failure };
  const limit = databaseLimitOf(error);
  if (limit === null) return { kind: 'unavailable', failure };
  const message = `the database accepts no more connections${limit === 'max connections' ? '' : ' of this user'}: ${failure.message}`;
  return { kind: limit, failure: { ...failure, message } };
}

/** Which limit on connections is reached; null: the error is another one. */
export function databaseLimitOf({ errno = 0 }: DriverError): DatabaseLimit | null {
  if (errno === connectionsFull) return 'max connections';
  return userConnectionsFull.has(errno) ? 'max user connections' : null;
}

/**
 * Why a login is refused that the database accepts. Limits are counted by user name, so each account must have only one. The
 * database may treat a name as equal to another one, and an anonymous account accepts every name.
 * @param names USER() and CURRENT_USER() of the connection
 */
export function aliasRefusal(user: string, [login, account]: readonly (string | null)[]): Refusal | null {
  const taken = login?.slice(0, login.lastIndexOf('@'));
  if (taken !== user) return refusedName(`the database treats the user name as '${taken}': log in with that name`);
  if (user !== '' && account?.startsWith('@')) {
    return refusedName('the database has no account of that name, only an anonymous one, which accepts every name');
  }
  return null;
}

function refusedName(message: string): Refusal {
  return { kind: 'denied', failure: { code: 1045, sqlstate: '28000', message: `Access denied: ${message}` } };
}

/** Why a schema could not be entered. Every error of the server about the schema is reported to the client. */
export function databaseRefusal(error: DriverError): Refusal {
  if (error.errno === undefined || isConnectionLost(error)) return connectRefusal(error);
  return { kind: 'database', failure: serverCause(error.errno, error) };
}

function serverCause(code: number, error: DriverError): Cause {
  return { code, sqlstate: error.sqlState || 'HY000', message: error.sqlMessage ?? error.message };
}
