import { pino } from 'pino';
import type { Config } from './config/config.ts';
import type { Observe, ServiceEvent } from './events.ts';
import { LogWriter } from './log-writer.ts';
import { isOutOfDescriptors } from './troubles.ts';

/** How long the end of the process waits for the log to be written. */
const flushMs = 1_000;

export interface Log {
  readonly observe: Observe;
  /** Resolves when all lines are written, or cannot be, or after `flushMs`. */
  flush(): Promise<void>;
}

/**
 * Writes events as JSON lines to standard error; standard output is for people. Writing does not block the thread. The rest of
 * the lines is written when the process exits.
 */
export function openLog(level: Config['log']['logLevel']): Log {
  // Not pino's own destination: on exit it repeats a write that fails, for ever if the disk is full.
  const writer = new LogWriter(2, (lines) => observe({ type: 'log_lines_dropped', lines }));
  process.once('exit', () => writer.writeRest(flushMs));
  // The type of an event is the message of its line and not a member.
  const destination = { write: (line: string) => writer.add(line) };
  const log = pino({ level, base: null, serializers: { type: () => undefined } }, destination);
  const observe: Observe = (event) => {
    const eventLevel = levelOf(event);
    if (!log.isLevelEnabled(eventLevel)) return;
    const members = 'error' in event ? { ...event, error: undefined, err: describe(event.error) } : event;
    log[eventLevel](members, event.type);
  };
  return { observe, flush: () => writer.flush(flushMs) };
}

/** The standard members of an error. Others are not logged: those of the driver's errors contain the statement. */
function describe({ name, message, stack }: Error): object {
  return { type: name, message, stack };
}

function levelOf(event: ServiceEvent): 'error' | 'warn' | 'info' | 'debug' {
  switch (event.type) {
    case 'accept_failed':
      // If descriptors stay exhausted, that is logged as a trouble.
      return isOutOfDescriptors(event.error) ? 'debug' : 'error';
    case 'trouble_began':
      return event.trouble === 'logins_failing' ? 'warn' : 'error';
    case 'request_failed':
    case 'worker_failed':
    case 'certificate_refused':
      return 'error';
    case 'connection_lost':
    case 'rows_lost':
    case 'listening_unprotected':
    case 'user_blocked':
    case 'journal_failed':
    case 'kept_result_failed':
    case 'kept_result_dropped':
    case 'kept_results_left':
    case 'log_lines_dropped':
      return 'warn';
    case 'query_settled':
    case 'request_refused':
    case 'certificate_renewed':
    case 'nothing_reloaded':
    case 'listening':
    case 'connections_limited':
    case 'spill_files_limited':
    case 'http_connections_limited':
    case 'draining':
    case 'stopped':
    case 'embedded_database':
    case 'orphans_ended':
    case 'journal_recovered':
    case 'trouble_ended':
      return 'info';
    case 'connect_failed':
    case 'database_full':
    case 'descriptors_exhausted':
    case 'database_login_refused':
    case 'http_connection_refused':
    case 'http_connection_replaced':
    case 'login_failed':
    case 'query_started':
    case 'query_removed':
    case 'session_opened':
    case 'session_ended':
      return 'debug';
  }
}
