import type { TroubleName } from './troubles.ts';

/** The events of a running server, for the log, the metrics and the troubles. */
export type ServiceEvent =
  | { readonly type: 'listening'; readonly address: string }
  /** The limit of file descriptors allows fewer than --connections_max, --spill_files_max or --http_connections_max. */
  | { readonly type: 'connections_limited'; readonly reason: string }
  | { readonly type: 'spill_files_limited'; readonly reason: string }
  | { readonly type: 'http_connections_limited'; readonly reason: string }
  | { readonly type: 'draining'; readonly queries: number; readonly drainMs: number }
  | { readonly type: 'stopped' }
  /** The server listens without TLS on an address that other machines can reach. */
  | { readonly type: 'listening_unprotected'; readonly address: string; readonly advice: string }
  | { readonly type: 'certificate_renewed'; readonly file: string }
  /** The server keeps the certificate that it has. */
  | { readonly type: 'certificate_refused'; readonly reason: string }
  /** SIGHUP had no effect. */
  | { readonly type: 'nothing_reloaded'; readonly reason: string }
  | {
      readonly type: 'query_started';
      readonly query: string;
      readonly session: string;
      readonly user: string;
    }
  | {
      readonly type: 'query_settled';
      readonly query: string;
      readonly session: string;
      readonly user: string;
      /** The client's address, or its proxy's. */
      readonly client?: string | undefined;
      readonly requestId?: string | undefined;
      readonly state: string;
      readonly code: number | null;
      /** From the POST until the statement was sent to the database. */
      readonly queueMs: number;
      readonly runningMs: number;
      readonly rows: number;
      readonly bytes: number;
      /** The part of `bytes` that was written to disk. */
      readonly spilledBytes: number;
      /** Only with --log_sql; a long statement is cut. */
      readonly sql?: string | undefined;
    }
  /** Rows of a statement that had succeeded were lost before they were read. Its readers get an error. */
  | {
      readonly type: 'rows_lost';
      readonly query: string;
      readonly session: string;
      readonly user: string;
      readonly client?: string;
      readonly requestId?: string;
      readonly code: number;
      readonly reason: string;
    }
  | { readonly type: 'query_removed'; readonly query: string; readonly user: string; readonly reason: string }
  | { readonly type: 'session_opened'; readonly session: string; readonly user: string }
  | { readonly type: 'session_ended'; readonly session: string; readonly user: string; readonly reason: string }
  | {
      /** Reported once per block, which lasts a minute at most. */
      readonly type: 'user_blocked';
      readonly user: string;
      readonly failures: number;
      readonly retryAfterSecs: number;
    }
  | { readonly type: 'connection_lost'; readonly user: string; readonly reason: string }
  | { readonly type: 'worker_failed'; readonly error: Error }
  /** Statements that still ran in the database, on connections that were lost, have been killed. */
  | { readonly type: 'orphans_ended'; readonly connections: number }
  /**
   * The journal of this process cannot be written: if the process is killed, its statements run on in the database. Or that of an
   * earlier one cannot be read or removed.
   */
  | { readonly type: 'journal_failed'; readonly error: Error }
  /** The journal of this process is written again. */
  | { readonly type: 'journal_recovered' }
  | { readonly type: 'accept_failed'; readonly error: Error }
  /** A check found no file descriptor left. */
  | { readonly type: 'descriptors_exhausted'; readonly reason: string }
  /** A connection of a client was closed at once, since the limit was reached. */
  | { readonly type: 'http_connection_refused'; readonly reason: string }
  /** An idle connection was closed for a new one. */
  | { readonly type: 'http_connection_replaced'; readonly reason: string }
  /** The database could not be reached, or refused a connection for a reason other than its login. */
  | { readonly type: 'connect_failed'; readonly reason: string; readonly isOutOfDescriptors: boolean }
  /** The database refused a connection because its limit of connections is reached. */
  | { readonly type: 'database_full'; readonly reason: string }
  /** The database does not accept the user, password or schema of --mysql_url. */
  | { readonly type: 'database_login_refused'; readonly reason: string }
  /** A client's user or password was wrong, or the user is blocked after too many wrong passwords. */
  | { readonly type: 'login_failed'; readonly user: string; readonly reason: string; readonly isBlocked: boolean }
  | { readonly type: 'trouble_began'; readonly trouble: TroubleName; readonly reason: string }
  | {
      readonly type: 'trouble_ended';
      readonly trouble: TroubleName;
      readonly failures: number;
      readonly secs: number;
    }
  | {
      readonly type: 'request_failed';
      readonly defect: string;
      readonly method: string;
      readonly path: string;
      readonly requestId: string;
      readonly client: string;
      readonly error: Error;
    }
  /** A request was answered with a status other than 200. */
  | {
      readonly type: 'request_refused';
      readonly status: number;
      readonly reason: string;
      /** Left out, as most members, for bytes that are not HTTP. */
      readonly method?: string;
      /** Without the query string. */
      readonly path?: string;
      /** The user name in the request, whether or not the password is right; null: none. */
      readonly user?: string | null;
      readonly requestId?: string;
      readonly client: string;
    }
  /** A kept result, or a file of it, could not be written to disk, read or removed there. */
  | { readonly type: 'kept_result_failed'; readonly result: string; readonly user: string; readonly reason: string }
  /** A kept result that an earlier process has left was not found whole, and is removed. */
  | { readonly type: 'kept_result_dropped'; readonly result: string; readonly reason: string }
  /** Results of another database than this server's lie in the data directory. */
  | { readonly type: 'kept_results_left'; readonly count: number; readonly database: string }
  /** Lines were dropped because the log could not be written, or not fast enough. */
  | { readonly type: 'log_lines_dropped'; readonly lines: number }
  | { readonly type: 'embedded_database'; readonly message: string };

export type Observe = (event: ServiceEvent) => void;
