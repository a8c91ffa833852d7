import { pino } from 'pino';
import type { Observe, ServiceEvent } from './events.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Writes events as JSON lines to standard error, which leaves standard output to what a person is to read. */
export function openLog(level: LogLevel): Observe {
  const log = pino({ level, base: null }, pino.destination({ dest: 2, sync: true }));
  return (event) => {
    const eventLevel = levelOf(event);
    if (!log.isLevelEnabled(eventLevel)) return;
    const { type, ...details } = event;
    log[eventLevel]('error' in event ? { ...details, error: undefined, err: event.error } : details, type);
  };
}

function levelOf(event: ServiceEvent): 'error' | 'warn' | 'info' | 'debug' {
  switch (event.type) {
    case 'request_failed':
    case 'worker_failed':
    case 'accept_failed':
      return 'error';
    case 'connection_lost':
    case 'journal_failed':
      return 'warn';
    case 'listening':
    case 'draining':
    case 'stopped':
    case 'embedded_database':
    case 'orphans_ended':
      return 'info';
    case 'query_started':
    case 'query_settled':
    case 'query_removed':
    case 'session_opened':
    case 'session_ended':
      return 'debug';
  }
}
