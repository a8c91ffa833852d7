import { Counter, Gauge, Registry } from 'prom-client';
import type { Observe, ServiceEvent } from './events.ts';

/** What can be asked of the parts of a running server at any time; bytes, or counts. */
export interface Levels {
  readonly queries: () => number;
  readonly waitingStatements: () => number;
  readonly sessions: () => number;
  readonly connections: () => number;
  readonly heldBytes: () => number;
  readonly reservedBytes: () => number;
  readonly spilledBytes: () => number;
}

/**
 * Counts events, and gives the counts and the levels in the text format of Prometheus. To count is to add to a number here:
 * the library is asked only when somebody reads.
 */
export class Metrics {
  readonly #registry = new Registry();
  readonly #statements = this.#total('statements_total', 'statements that have ended, by state', 'state');
  readonly #seconds = this.#total('statement_seconds_total', 'time that they ran');
  readonly #rows = this.#total('rows_total', 'rows that they returned');
  readonly #rowBytes = this.#total('row_bytes_total', 'the same, as JSON');
  readonly #spilledRowBytes = this.#total('spilled_row_bytes_total', 'what of it went by disk');
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
      case 'connection_lost':
      case 'worker_failed':
      case 'request_failed':
      case 'accept_failed':
        this.#troubles.add(1, event.type);
    }
  };

  /** Levels are asked for at each reading. */
  watch(levels: Levels): void {
    for (const [name, [help, level]] of Object.entries({
      queries: ['queries held, be they running, unread or read', levels.queries],
      waiting_statements: ['statements that wait for a connection or for memory', levels.waitingStatements],
      sessions: ['kept sessions', levels.sessions],
      connections: ['database connections', levels.connections],
      buffered_bytes: ['memory that rows take', levels.heldBytes],
      reserved_bytes: ['memory set aside for rows', levels.reservedBytes],
      spilled_bytes: ['disk that rows take', levels.spilledBytes],
    } as const)) {
      new Gauge({
        name: `sluice_${name}`,
        help,
        registers: [this.#registry],
        collect() {
          this.set(level());
        },
      });
    }
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  #total(name: string, help: string, label: string | null = null): Total {
    return new Total(`sluice_${name}`, help, label, this.#registry);
  }
}

/** A count, by one label at most. */
class Total {
  #whole = 0;
  readonly #byLabel = new Map<string, number>();

  constructor(name: string, help: string, label: string | null, registry: Registry) {
    const total = this;
    new Counter({
      name,
      help,
      labelNames: label === null ? [] : [label],
      registers: [registry],
      collect() {
        this.reset();
        if (label === null) this.inc(total.#whole);
        else for (const [value, count] of total.#byLabel) this.inc({ [label]: value }, count);
      },
    });
  }

  add(value: number, label?: string): void {
    if (label === undefined) this.#whole += value;
    else this.#byLabel.set(label, (this.#byLabel.get(label) ?? 0) + value);
  }
}

/** One event for several who observe. */
export function observeWith(...observers: readonly Observe[]): Observe {
  return (event: ServiceEvent) => {
    for (const observe of observers) observe(event);
  };
}
