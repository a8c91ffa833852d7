import { pino } from 'pino';
import type { Observe, ServiceEvent } from './events.ts';
import { isOutOfDescriptors } from './troubles.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Writes events as JSON lines to standard error, which leaves standard output to what a person is to read. */
export function openLog(level: LogLevel): Observe {
  const log = pino({ level, base: null }, pino.destination({ dest: 2, sync: true }));
  return (event) => {
    const eventLevel = levelOf(event);
    if (!log.isLevelEnabled(eventLevel)) return;
    const { type, ...details } = event;
    log[eventLevel]('error' in event ? { ...details, error: undefined, err: describe(event.error) } : details, type);
  };
}

/** What else hangs on an error, such as the statement that a driver hangs on it, is nobody's to read. */
function describe({ name, message, stack }: Error): object {
  return { type: name, message, stack };
}

function levelOf(event: ServiceEvent): 'error' | 'warn' | 'info' | 'debug' {
  switch (event.type) {
    case 'accept_failed':
      // A lasting lack of descriptors is logged as a trouble.
      return isOutOfDescriptors(event.error) ? 'debug' : 'error';
    case 'trouble_began':
      return event.trouble === 'logins_failing' ? 'warn' : 'error';
    case 'request_failed':
    case 'worker_failed':
    case 'certificate_refused':
      return 'error';
    case 'connection_lost':
    case 'listening_unprotected':
    case 'user_blocked':
    case 'journal_failed':
      return 'warn';
    case 'query_started':
      // Whoever asks for the SQL wants to see it at the level that is usual.
      return event.sql === undefined ? 'debug' : 'info';
    case 'certificate_renewed':
    case 'nothing_reloaded':
    case 'listening':
    case 'draining':
    case 'stopped':
    case 'embedded_database':
    case 'orphans_ended':
    case 'trouble_ended':
      return 'info';
    case 'connect_failed':
    case 'database_full':
    case 'descriptors_exhausted':
    case 'database_login_refused':
    case 'http_connection_refused':
    case 'login_failed':
    case 'query_settled':
    case 'query_removed':
    case 'session_opened':
    case 'session_ended':
      return 'debug';
  }
}
