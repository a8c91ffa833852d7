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
  readonly #totals = new Map<string, Total>();

  constructor() {
    for (const [name, { help, labels }] of Object.entries(counters)) {
      this.#totals.set(name, new Total(`sluice_${name}`, help, labels, this.#registry));
    }
  }

  readonly observe: Observe = (event) => {
    switch (event.type) {
      case 'query_settled':
        this.#add('statements_total', 1, event.state);
        this.#add('statement_seconds_total', event.runningMs / 1_000);
        this.#add('rows_total', event.rows);
        this.#add('row_bytes_total', event.bytes);
        this.#add('spilled_row_bytes_total', event.spilledBytes);
        if (event.code !== null && event.code >= 90_000) this.#add('own_failures_total', 1, `${event.code}`);
        return;
      case 'connection_lost':
      case 'worker_failed':
      case 'request_failed':
      case 'accept_failed':
        this.#add('troubles_total', 1, event.type);
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

  #add(name: keyof typeof counters, value: number, label = ''): void {
    this.#totals.get(name)?.add(value, label);
  }
}

const counters = {
  statements_total: { help: 'statements that have ended, by state', labels: ['state'] },
  statement_seconds_total: { help: 'time that they ran', labels: [] },
  rows_total: { help: 'rows that they returned', labels: [] },
  row_bytes_total: { help: 'the same, as JSON', labels: [] },
  spilled_row_bytes_total: { help: 'what of it went by disk', labels: [] },
  own_failures_total: { help: 'statements that failed for a reason of the server, by code', labels: ['code'] },
  troubles_total: { help: 'what should not happen, by the name of its line in the log', labels: ['event'] },
} as const satisfies Record<string, { help: string; labels: readonly string[] }>;

/** A count, by one label at most. */
class Total {
  readonly #values = new Map<string, number>();

  constructor(name: string, help: string, labels: readonly string[], registry: Registry) {
    const values = this.#values;
    const [label] = labels;
    if (label === undefined) values.set('', 0);
    new Counter({
      name,
      help,
      labelNames: labels,
      registers: [registry],
      collect() {
        this.reset();
        for (const [value, count] of values) this.inc(label === undefined ? {} : { [label]: value }, count);
      },
    });
  }

  add(value: number, label: string): void {
    this.#values.set(label, (this.#values.get(label) ?? 0) + value);
  }
}

/** One event for several who observe. */
export function observeWith(...observers: readonly Observe[]): Observe {
  return (event: ServiceEvent) => {
    for (const observe of observers) observe(event);
  };
}
