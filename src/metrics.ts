import type { Registry } from 'prom-client';
import { type MemberName, memberName } from './config/option.ts';
import { countDescriptors } from './descriptors.ts';
import type { Observe, ServiceEvent } from './events.ts';
import { Histogram, Total } from './metric-values.ts';
import { version } from './version.ts';

/** Current values of the running server. They are read when the metrics are. */
export interface Levels {
  readonly queries: number;
  readonly waitingStatements: number;
  readonly sessions: number;
  readonly connections: number;
  /** 1 or 0. */
  readonly databaseUp: number;
  readonly heldBytes: number;
  readonly reservedBytes: number;
  readonly largeRowBytes: number;
  readonly waitingLargeRows: number;
  readonly requestBytes: number;
  readonly spilledBytes: number;
  readonly spillFiles: number;
  readonly keptResults: number;
  readonly keptBytes: number;
  readonly httpConnections: number;
  /** Responses by their HTTP status. */
  readonly responses: ReadonlyMap<number, number>;
}

/** The values of the options that limit the levels. */
export type Limits = Readonly<Record<MemberName<keyof typeof limits>, number>>;

type Gauges = Readonly<Record<string, readonly [help: string, value: () => number]>>;

/** The names of the limits' metrics, without the prefix, by option. */
const limits = {
  queries_max: 'queries_limit',
  queue_max: 'waiting_statements_limit',
  sessions_max: 'sessions_limit',
  connections_max: 'connections_limit',
  http_connections_max: 'http_connections_limit',
  buffer_bytes_max: 'reserved_limit_bytes',
  results_bytes_max: 'buffered_limit_bytes',
  request_bytes_max: 'request_limit_bytes',
  spill_total_bytes_max: 'spilled_limit_bytes',
  spill_files_max: 'spill_files_limit',
  kept_count_max: 'kept_results_limit',
  kept_bytes_max: 'kept_limit_bytes',
} as const;

export interface MetricsText {
  readonly contentType: string;
  readonly text: string;
}

/**
 * Default metrics that list all handles or descriptors on the main thread: with 20,000 connections that takes 100 ms. The
 * descriptors are counted in another way.
 */
const slowDefaults = [
  ...['process_open_fds', 'nodejs_active_handles', 'nodejs_active_handles_total'],
  ...['nodejs_active_resources', 'nodejs_active_resources_total'],
];

/** In `readingsMs`, at most `readMsMax` is spent on readings. */
const readingsMs = 1_000;
const readMsMax = 100;

/**
 * Counts events, and formats the counts and the levels for Prometheus. The library is loaded at the first reading, because
 * loading it would slow down the start; counting does not need it.
 */
export class Metrics {
  readonly #totals: Total[] = [];
  readonly #histograms: Histogram[] = [];
  readonly #statements = this.#total(
    'statements_total',
    'Statements that have ended, by their state: Succeeded or Failed.',
    'state',
  );
  readonly #runningTimes = this.#histogram(
    'statement_duration_seconds',
    'Time from sending a statement to the database until it ended, in seconds. Statements that were never sent are left out.',
  );
  readonly #queueTimes = this.#histogram(
    'statement_queue_duration_seconds',
    'Time that a statement waited for a connection and memory before it was sent to the database, in seconds.',
  );
  readonly #rows = this.#total('rows_total', 'Rows that statements have returned.');
  readonly #rowBytes = this.#total('row_bytes_total', 'Bytes of the rows that statements have returned, as JSON.');
  readonly #spilledRowBytes = this.#total(
    'spilled_row_bytes_total',
    'Bytes of rows, as JSON, that were written to disk because their client did not read them in time.',
  );
  readonly #ownFailures = this.#total(
    'own_failures_total',
    'Statements that failed with one of the error codes of this server (90001 and above), by code, and results that lost rows after their statement had succeeded.',
    'code',
  );
  readonly #failedLogins = this.#total(
    'failed_logins_total',
    'Logins of clients that failed: denied by the database, or blocked after too many wrong passwords.',
    'reason',
  );
  readonly #troubles = this.#total(
    'troubles_total',
    'Events that need attention, by the name of the event. Each lasting trouble is also two lines in the log.',
    'event',
  );

  /** The last reading, and the time that the readings since `since` have taken. */
  #last: { readonly text: MetricsText; readonly since: number; readonly tookMs: number } | null = null;
  #reading: Promise<MetricsText> | null = null;
  #levels: Levels | null = null;
  #limits: Limits | null = null;
  #registry: Promise<Registry> | null = null;

  readonly observe: Observe = (event) => {
    switch (event.type) {
      case 'query_settled':
        this.#statements.add(1, event.state);
        if (event.runningMs > 0) this.#runningTimes.add(event.runningMs / 1_000);
        this.#queueTimes.add(event.queueMs / 1_000);
        this.#rows.add(event.rows);
        this.#rowBytes.add(event.bytes);
        this.#spilledRowBytes.add(event.spilledBytes);
        if (event.code !== null && event.code >= 90_000) this.#ownFailures.add(1, `${event.code}`);
        return;
      case 'rows_lost':
        this.#ownFailures.add(1, `${event.code}`);
        return;
      case 'login_failed':
        this.#failedLogins.add(1, event.isBlocked ? 'blocked' : 'denied');
        return;
      case 'connection_lost':
      case 'worker_failed':
      case 'kept_result_failed':
      case 'kept_result_dropped':
      case 'kept_results_left':
      case 'request_failed':
      case 'accept_failed':
      case 'connect_failed':
      case 'database_full':
      case 'descriptors_exhausted':
      case 'database_login_refused':
      case 'http_connection_refused':
      case 'http_connection_replaced':
        this.#troubles.add(1, event.type);
    }
  };

  /** @param levels read at each reading */
  watch(levels: Levels, limits: Limits): void {
    this.#levels = levels;
    this.#limits = limits;
  }

  /**
   * The metrics as text. They need no login, and a reading takes milliseconds: if readings take too much time, the last one is
   * reused.
   */
  async read(): Promise<MetricsText> {
    if (this.#last !== null && performance.now() - this.#last.since < readingsMs) {
      if (this.#last.tookMs >= readMsMax) return this.#last.text;
    }
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = null;
    });
    return this.#reading;
  }

  async #readNow(): Promise<MetricsText> {
    this.#registry ??= this.#register();
    const registry = await this.#registry;
    const begin = performance.now();
    const text = { contentType: registry.contentType, text: await registry.metrics() };
    const tookMs = performance.now() - begin;
    const last = this.#last;
    this.#last =
      last === null || begin - last.since >= readingsMs
        ? { text, since: begin, tookMs }
        : { text, since: last.since, tookMs: last.tookMs + tookMs };
    return text;
  }

  async #register(): Promise<Registry> {
    const { collectDefaultMetrics, Counter, Gauge, Registry } = await import('prom-client');
    const registry = new Registry();
    const prefixed = (name: string): string => `sluice_${name}`;
    for (const { name, help, label, values } of this.#totals) {
      new Counter({
        name: prefixed(name),
        help,
        labelNames: label === null ? [] : [label],
        registers: [registry],
        collect() {
          this.reset();
          for (const [value, count] of values) this.inc(label === null ? {} : { [label]: value }, count);
        },
      });
    }
    // The library's own histogram takes observations one by one; these are counted already.
    for (const histogram of this.#histograms) registry.registerMetric(histogram.under(prefixed) as never);
    const levels = this.#levels;
    new Counter({
      name: prefixed('http_responses_total'),
      help: 'HTTP responses, by status.',
      labelNames: ['status'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [status, count] of levels?.responses ?? []) this.inc({ status }, count);
      },
    });
    for (const [name, [help, value]] of Object.entries(this.#gauges())) {
      new Gauge({
        name: prefixed(name),
        help,
        registers: [registry],
        collect() {
          this.set(value());
        },
      });
    }
    new Gauge({
      name: prefixed('build_info'),
      help: 'Always 1; the labels are the version of this server and of the Node that runs it.',
      labelNames: ['version', 'node'],
      registers: [registry],
    }).set({ version, node: process.versions.node }, 1);
    // Those of the process: CPU, memory, event loop and garbage collection of the main thread.
    collectDefaultMetrics({ register: registry });
    for (const name of slowDefaults) registry.removeSingleMetric(name);
    if (process.platform === 'linux') {
      new Gauge({
        name: 'process_open_fds',
        help: 'Number of open file descriptors.',
        registers: [registry],
        async collect() {
          this.set(await countDescriptors());
        },
      });
    }
    return registry;
  }

  #gauges(): Gauges {
    const [levels, values] = [this.#levels, this.#limits];
    if (levels === null || values === null) return {};
    const gauges: Record<string, readonly [help: string, value: () => number]> = {
      queries: [
        'Queries that the server remembers: running, not yet read to their end, or read.',
        () => levels.queries,
      ],
      waiting_statements: ['Statements that wait for a connection or for memory.', () => levels.waitingStatements],
      sessions: ['Sessions that are kept between statements.', () => levels.sessions],
      connections: ['Connections to the database: in use, idle, and being opened.', () => levels.connections],
      database_up: [
        '1 if the database accepts connections and the login of --mysql_url, as far as is known, else 0.',
        () => levels.databaseUp,
      ],
      http_connections: ['Open HTTP connections of clients.', () => levels.httpConnections],
      buffered_bytes: ['Memory that holds rows which clients have not read yet, in bytes.', () => levels.heldBytes],
      reserved_bytes: [
        'Memory reserved for rows, in bytes: those that are held, and those that statements may still send.',
        () => levels.reservedBytes,
      ],
      large_row_bytes: [
        'Memory reserved for rows of 1 MiB and more that are received from the database or written to disk, in bytes.',
        () => levels.largeRowBytes,
      ],
      waiting_large_rows: [
        'Rows of 1 MiB and more that the database waits to send because there is no memory for them.',
        () => levels.waitingLargeRows,
      ],
      request_bytes: [
        'Memory reserved for requests, in bytes: bodies, statements and their parameters.',
        () => levels.requestBytes,
      ],
      spilled_bytes: [
        'Disk space that holds rows which clients have not read yet, in bytes.',
        () => levels.spilledBytes,
      ],
      spill_files: ['Open files of rows which clients have not read yet.', () => levels.spillFiles],
      kept_results: ['Results that are kept on disk, and those whose statements run.', () => levels.keptResults],
      kept_bytes: ['Disk space of kept results, and what is reserved for more, in bytes.', () => levels.keptBytes],
    };
    for (const [option, name] of Object.entries(limits) as [keyof typeof limits, string][]) {
      gauges[name] = [`The value of the option --${option}.`, () => values[memberName(option)]];
    }
    return gauges;
  }

  #total(name: string, help: string, label: string | null = null): Total {
    const total = new Total(name, help, label);
    this.#totals.push(total);
    return total;
  }

  #histogram(name: string, help: string): Histogram {
    const histogram = new Histogram(name, help);
    this.#histograms.push(histogram);
    return histogram;
  }
}

/** Passes each event to several observers. */
export function observeWith(...observers: readonly Observe[]): Observe {
  return (event: ServiceEvent) => {
    for (const observe of observers) observe(event);
  };
}
