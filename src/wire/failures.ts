import type { Effect } from './effect.ts';

/**
 * The effect that a failed statement has had:
 * - `not_started`: none, the database has not begun it
 * - `rolled_back`: none, the database has rolled it back (except in storage engines without transactions)
 * - `committed`: its full effect; only its result could not be delivered
 * - `unknown`
 */
export type FailureOutcome = 'not_started' | 'rolled_back' | 'committed' | 'unknown';

/** Why a statement fails: code and SQLSTATE of the database, or a code of ours from 90000 on. */
export interface Cause {
  readonly code: number;
  readonly sqlstate: string;
  readonly message: string;
  /** The same statement may succeed later. */
  readonly isPassing?: true;
}

/** The failure of a statement as it is reported to its client. */
export interface Failure {
  readonly code: number;
  readonly sqlstate: string;
  readonly message: string;
  readonly outcome: FailureOutcome;
  /** Whether the client can repeat it unchanged: it had no effect, and may succeed later. */
  readonly retryable: boolean;
}

/** A failure whose outcome is known. */
export function failureOf({ code, sqlstate, message, isPassing }: Cause, outcome: FailureOutcome): Failure {
  const leftNothing = outcome === 'not_started' || outcome === 'rolled_back';
  return { code, sqlstate, message, outcome, retryable: isPassing === true && leftNothing };
}

/**
 * The failure of a statement that was sent and whose end is not known.
 * @param isStandalone whether it belongs to no session, so that only the statement is lost
 */
export function interrupted(cause: Cause, effect: Effect, isStandalone: boolean): Failure {
  const isReadOnly = effect === 'read';
  const unknown = { ...cause, message: `${cause.message}; whether the statement took effect is unknown` };
  const { isPassing, ...lasting } = cause;
  return failureOf(isReadOnly ? (isStandalone ? cause : lasting) : unknown, isReadOnly ? 'rolled_back' : 'unknown');
}

/**
 * The connection was lost before the statement was sent.
 * @param isStandalone whether it belongs to no session. A session is lost with its connection, so its statement cannot be sent again
 */
export function lostBefore(reason: string, isStandalone: boolean): Failure {
  return failureOf(isStandalone ? causes.connectionLostBefore(reason) : causes.sessionLost(reason), 'not_started');
}

/** The failure of a statement that has succeeded in the database and whose rows cannot be delivered. */
export function undelivered(cause: Cause, effect: Effect): Failure {
  return failureOf(cause, effect === 'read' ? 'rolled_back' : 'committed');
}

/** The outcome of a statement for which the database has returned an error. */
export function outcomeOfError(effect: Effect): FailureOutcome {
  return effect === 'read' || effect === 'atomic' ? 'rolled_back' : 'unknown';
}

/** Sluice's own causes. The codes are part of the protocol (docs/api.md, "Our error codes"). */
export const causes = {
  /** The code is the servers' own for a wrong number of values (ER_WRONG_ARGUMENTS). */
  paramCount: (placeholders: number, values: number): Cause =>
    own(1210, `the statement has ${counted(placeholders, 'placeholder')}, and params has ${counted(values, 'value')}`),
  paramMissing: (name: string): Cause => own(1210, `params has no value for the placeholder :${name}`),
  /** The code is the servers' own for too many placeholders (ER_PS_MANY_PARAM). */
  paramsTooMany: (max: number): Cause =>
    own(1390, `the lists in params expand to more than ${max} placeholders (--params_max)`),
  paramsTooLarge: (max: number): Cause =>
    own(
      1210,
      `the values of all placeholders take more than ${max} bytes (--body_bytes_max): use a large value less often`,
    ),
  noSuchSession: (id: string): Cause =>
    own(90001, `no session '${id}': it never existed, has expired, was ended or one-off, or is another user's`),
  pinnedSessionEnded: (reason: string): Cause =>
    own(
      90001,
      `the session, which was kept for an open transaction or similar state, has ended: ${reason}; uncommitted changes ` +
        'are rolled back',
    ),
  cancelled: (): Cause => passing(90002, 'the statement was cancelled by the client'),
  sessionEnded: (): Cause => own(90002, 'the statement was cancelled: the client ended its session'),
  hungUp: (secs: number): Cause =>
    passing(
      90002,
      `the statement was cancelled: its client hung up and did not come back within ${secs} s (--on_disconnect)`,
    ),
  shuttingDown: (): Cause => passing(90002, 'the statement was cancelled: the server is stopping'),
  credentialsRefused: (): Cause =>
    own(90002, "the statement was cancelled: the database no longer accepts its user's name and password"),
  expired: (secs: number): Cause => passing(90003, `the result expired: not polled for ${secs} s`),
  sessionQueueFull: (max: number): Cause =>
    passing(90004, `the session already has ${max} statements waiting (--session_queue_max); wait for one to end`),
  statementTimeout: (secs: number, isAsked: boolean): Cause =>
    own(
      90005,
      `the statement ran past ${secs} s (${isAsked ? 'its timeout_secs' : '--statement_timeout_secs'}) and was cancelled`,
    ),
  /** The code is the servers' own when they have no connection left (ER_CON_COUNT_ERROR). */
  queueTimeout: (secs: number): Cause => ({
    ...passing(1040, `the statement waited ${secs} s for a connection or for memory (--queue_wait_secs)`),
    sqlstate: '08004',
  }),
  connectionLost: (reason: string): Cause => passing(90006, `the connection to the database was lost: ${reason}`),
  connectionLostBefore: (reason: string): Cause =>
    passing(90006, `the connection to the database was lost before the statement was sent: ${reason}`),
  sessionLost: (reason: string): Cause =>
    own(90006, `the session ended before the statement was sent: its connection to the database was lost: ${reason}`),
  rowTooLarge: (max: number): Cause =>
    own(
      90007,
      `a row is larger than ${max} bytes as JSON (--row_bytes_max); select fewer or smaller columns, or raise the limit`,
    ),
  columnsTooMany: (max: number): Cause =>
    own(90007, `the result has more than ${max} columns (--columns_max); select fewer, or raise the limit`),
  manyResultSets: (): Cause =>
    own(90008, 'the statement returned more than one result set; it ran to its end, but only one can be returned'),
  notUtf8: (): Cause =>
    own(
      90011,
      'the result has text in a character set other than UTF-8: the statement, or a routine that it runs, sets ' +
        'character_set_results; set it to utf8mb4, or do not set it',
    ),
  /** @param reason which value of which column has no form, and what to do */
  unrepresentable: (reason: string): Cause => own(90012, reason),
  localInfile: (): Cause => own(90009, 'LOAD DATA LOCAL is refused: the server has no files of the client'),
  storageFull: (max: number): Cause =>
    passing(
      90010,
      `result storage is full: all results together hold ${max} bytes (--results_bytes_max); fetch or finish some`,
    ),
  serverEnded: (): Cause => passing(90006, 'the server was ended or killed while the statement ran'),
  rowsLost: (found: number, rows: number): Cause =>
    passing(90010, `the result had ${rows} rows, of which ${found} were found on the server's disk`),
  keptFull: (limit: string, max: number): Cause =>
    passing(
      90010,
      `there is no room for another kept result: ${limit} ${max} bytes; delete some, or wait until they expire`,
    ),
  /** @param reason of the file system, as text */
  keepFailed: (reason: string): Cause =>
    passing(90010, `the result could not be kept on the server's disk (--data_dir): ${reason}`),
  /** @param reason of the file system, as text */
  spillFailed: (reason: string): Cause =>
    passing(90010, `result storage failed: rows could not be kept on the server's disk (--data_dir): ${reason}`),
} as const;

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

function own(code: number, message: string): Cause {
  return { code, sqlstate: 'HY000', message };
}

function passing(code: number, message: string): Cause {
  return { code, sqlstate: 'HY000', message, isPassing: true };
}
