import type { Registry } from 'prom-client';
import type { Observe, ServiceEvent } from './events.ts';

/** What can be asked of the parts of a running server at any time; bytes, or counts. */
export interface Levels {
  readonly queries: () => number;
  readonly waitingStatements: () => number;
  readonly sessions: () => number;
  readonly connections: () => number;
  /** 1 or 0. */
  readonly databaseUp: () => number;
  readonly heldBytes: () => number;
  readonly reservedBytes: () => number;
  readonly requestBytes: () => number;
  readonly spilledBytes: () => number;
}

export interface MetricsText {
  readonly contentType: string;
  readonly text: string;
}

/**
 * Counts events, and gives the counts and the levels in the text format of Prometheus. To count is to add to a number here:
 * the library is loaded, and asked, only when somebody reads, as it takes its time at a start.
 */
export class Metrics {
  readonly #totals: Total[] = [];
  readonly #statements = this.#total('statements_total', 'statements that have ended, by state', 'state');
  readonly #seconds = this.#total('statement_seconds_total', 'time that they ran');
  readonly #rows = this.#total('rows_total', 'rows that they returned');
  readonly #rowBytes = this.#total('row_bytes_total', 'the same, as JSON');
  readonly #spilledRowBytes = this.#total('spilled_row_bytes_total', 'what of it went by disk');
  readonly #failedLogins = this.#total(
    'failed_logins_total',
    'Logins of clients that failed: denied by the database, or blocked after too many wrong passwords.',
    'reason',
  );
  readonly #ownFailures = this.#total(
    'own_failures_total',
    'statements that failed for a reason of the server, by code',
    'code',
  );
  readonly #troubles = this.#total(
    'troubles_total',
    'what should not happen, by the name of its line in the log',
    'event',
  );

  #levels: Levels | null = null;
  #registry: Promise<Registry> | null = null;

  readonly observe: Observe = (event) => {
    switch (event.type) {
      case 'query_settled':
        this.#statements.add(1, event.state);
        this.#seconds.add(event.runningMs / 1_000);
        this.#rows.add(event.rows);
        this.#rowBytes.add(event.bytes);
        this.#spilledRowBytes.add(event.spilledBytes);
        if (event.code !== null && event.code >= 90_000) this.#ownFailures.add(1, `${event.code}`);
        return;
      case 'login_failed':
        this.#failedLogins.add(1, event.isBlocked ? 'blocked' : 'denied');
        return;
      case 'connection_lost':
      case 'worker_failed':
      case 'request_failed':
      case 'accept_failed':
      case 'connect_failed':
      case 'database_full':
      case 'descriptors_exhausted':
      case 'database_login_refused':
      case 'http_connection_refused':
        this.#troubles.add(1, event.type);
    }
  };

  /** Levels are asked for at each reading. */
  watch(levels: Levels): void {
    this.#levels = levels;
  }

  async read(): Promise<MetricsText> {
    this.#registry ??= this.#register();
    const registry = await this.#registry;
    return { contentType: registry.contentType, text: await registry.metrics() };
  }

  async #register(): Promise<Registry> {
    const { Counter, Gauge, Registry } = await import('prom-client');
    const registry = new Registry();
    for (const { name, help, label, values } of this.#totals) {
      new Counter({
        name: `sluice_${name}`,
        help,
        labelNames: label === null ? [] : [label],
        registers: [registry],
        collect() {
          this.reset();
          for (const [value, count] of values) this.inc(label === null ? {} : { [label]: value }, count);
        },
      });
    }
    for (const [name, [help, level]] of Object.entries(this.#gauges())) {
      new Gauge({
        name: `sluice_${name}`,
        help,
        registers: [registry],
        collect() {
          this.set(level());
        },
      });
    }
    return registry;
  }

  #gauges(): Readonly<Record<string, readonly [help: string, level: () => number]>> {
    const levels = this.#levels;
    if (levels === null) return {};
    return {
      queries: ['queries held, be they running, unread or read', levels.queries],
      waiting_statements: ['statements that wait for a connection or for memory', levels.waitingStatements],
      sessions: ['kept sessions', levels.sessions],
      connections: ['database connections', levels.connections],
      database_up: [
        '1 if the database accepts connections and the login of --mysql_url, as far as is known, else 0.',
        levels.databaseUp,
      ],
      buffered_bytes: ['memory that rows take', levels.heldBytes],
      reserved_bytes: ['memory set aside for rows', levels.reservedBytes],
      request_bytes: ['memory reserved for requests: bodies, statements and their params', levels.requestBytes],
      spilled_bytes: ['disk that rows take', levels.spilledBytes],
    };
  }

  #total(name: string, help: string, label: string | null = null): Total {
    const total = new Total(name, help, label);
    this.#totals.push(total);
    return total;
  }
}

/** A count, by one label at most; without one it stands under ''. */
class Total {
  readonly name: string;
  readonly help: string;
  readonly label: string | null;
  readonly values = new Map<string, number>();

  constructor(name: string, help: string, label: string | null) {
    this.name = name;
    this.help = help;
    this.label = label;
    if (label === null) this.values.set('', 0);
  }

  add(value: number, label = ''): void {
    this.values.set(label, (this.values.get(label) ?? 0) + value);
  }
}

/** One event for several who observe. */
export function observeWith(...observers: readonly Observe[]): Observe {
  return (event: ServiceEvent) => {
    for (const observe of observers) observe(event);
  };
}
