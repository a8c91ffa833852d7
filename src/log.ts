import { pino } from 'pino';
import type { Config } from './config/config.ts';
import type { Observe, ServiceEvent } from './events.ts';
import { isOutOfDescriptors } from './troubles.ts';

/** Limit of the memory for lines that are not written yet. Further lines are dropped and counted. */
const bufferedBytesMax = 8 * 1024 * 1024;

/** Lines are written in batches, since a write costs more than a line: at this length in characters, or after this time. */
const writeCharacters = 32 * 1024;
const writeMs = 10;

/** How long the end of the process waits for the log to be written. */
const flushMs = 1_000;

export interface Log {
  readonly observe: Observe;
  /** Resolves when all lines are written, or after `flushMs`. */
  flush(): Promise<void>;
}

/**
 * Writes events as JSON lines to standard error; standard output is for people. Writing does not block the thread. The rest of
 * the lines is written when the process exits.
 */
export function openLog(level: Config['log']['logLevel']): Log {
  // With each write, pino measures its whole buffer again, so many lines are passed at once.
  let lines = '';
  let isWriteDue = false;
  const write = (): void => {
    const text = lines;
    lines = '';
    if (text !== '') destination.write(text);
  };
  const writeLater = (): void => {
    isWriteDue = true;
    setTimeout(() => {
      isWriteDue = false;
      write();
    }, writeMs);
  };
  // Registered before pino's own listener, which writes pino's buffer.
  process.once('exit', write);
  const destination = pino.destination({ dest: 2, sync: false, minLength: 1, maxLength: bufferedBytesMax });
  const gather = (line: string): void => {
    lines += line;
    if (lines.length >= writeCharacters) write();
    else if (!isWriteDue) writeLater();
  };
  // The type of an event is the message of its line and not a member.
  const log = pino({ level, base: null, serializers: { type: () => undefined } }, { write: gather });
  const observe: Observe = (event) => {
    const eventLevel = levelOf(event);
    if (!log.isLevelEnabled(eventLevel)) return;
    const members = 'error' in event ? { ...event, error: undefined, err: describe(event.error) } : event;
    log[eventLevel](members, event.type);
  };
  countDrops(destination, observe);
  const flush = (): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, flushMs);
      write();
      destination.flush(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  return { observe, flush };
}

/** Counts dropped lines. A log whose reader is slow or gone does not stop the server. */
function countDrops(destination: ReturnType<typeof pino.destination>, observe: Observe): void {
  let lines = 0;
  destination.on('drop', (text: string) => {
    lines += text.split('\n').length - 1;
  });
  destination.on('drain', () => {
    if (lines === 0) return;
    const dropped = lines;
    lines = 0;
    observe({ type: 'log_lines_dropped', lines: dropped });
  });
  destination.on('error', () => {});
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
