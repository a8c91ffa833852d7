/** Everything worth telling about a running server. The log is one consumer; others can be added beside it. */
export type ServiceEvent =
  | { readonly type: 'listening'; readonly address: string }
  | { readonly type: 'draining'; readonly queries: number; readonly drainMs: number }
  | { readonly type: 'stopped' }
  /** Passwords and rows can be read on their way. */
  | { readonly type: 'listening_unprotected'; readonly address: string; readonly advice: string }
  | { readonly type: 'certificate_renewed'; readonly file: string }
  /** What was shown before is shown on. */
  | { readonly type: 'certificate_refused'; readonly reason: string }
  /** SIGHUP had no effect. */
  | { readonly type: 'nothing_reloaded'; readonly reason: string }
  | {
      readonly type: 'query_started';
      readonly query: string;
      readonly session: string;
      readonly user: string;
      /** Only with --log_sql. */
      readonly sql?: string;
    }
  | {
      readonly type: 'query_settled';
      readonly query: string;
      readonly user: string;
      readonly state: string;
      readonly code: number | null;
      readonly runningMs: number;
      readonly rows: number;
      readonly bytes: number;
      /** What of the bytes went by disk. */
      readonly spilledBytes: number;
    }
  | { readonly type: 'query_removed'; readonly query: string; readonly user: string; readonly reason: string }
  | { readonly type: 'session_opened'; readonly session: string; readonly user: string }
  | { readonly type: 'session_ended'; readonly session: string; readonly user: string; readonly reason: string }
  | {
      /** Told once in the minute for which it lasts at the most. */
      readonly type: 'user_blocked';
      readonly user: string;
      readonly failures: number;
      readonly retryAfterSecs: number;
    }
  | { readonly type: 'connection_lost'; readonly user: string; readonly reason: string }
  | { readonly type: 'worker_failed'; readonly error: Error }
  /** Statements of connections that were lost to us do not run on. */
  | { readonly type: 'orphans_ended'; readonly connections: number }
  /** If the process is killed, what it runs in the database runs on. */
  | { readonly type: 'journal_failed'; readonly error: Error }
  | { readonly type: 'accept_failed'; readonly error: Error }
  | {
      readonly type: 'request_failed';
      readonly defect: string;
      readonly method: string;
      readonly path: string;
      readonly error: Error;
    }
  | { readonly type: 'embedded_database'; readonly message: string };

export type Observe = (event: ServiceEvent) => void;
