import { join } from 'node:path';
import type { Config, DatabaseConfig } from './config.ts';
import { type EmbeddedDatabase, startEmbedded } from './embedded/mariadb.ts';
import type { Observe } from './events.ts';
import { Handlers } from './http/handlers.ts';
import { HttpServer } from './http/server.ts';
import { Queries } from './query/queries.ts';
import { Storage } from './query/storage.ts';
import { Accounts } from './session/accounts.ts';
import { Journal } from './session/journal.ts';
import { Leases } from './session/leases.ts';
import { Orphans } from './session/orphans.ts';
import { Readiness } from './session/readiness.ts';
import { Sessions } from './session/sessions.ts';
import { WorkerPool } from './session/worker-pool.ts';

/** How long statements may take to end when the server is told to stop at once. */
const abortMs = 1_000;

/** The running server: the only place that constructs its parts, and the one that takes them down again. */
export class Service {
  /** Where it listens, as a URL. */
  readonly url: string;
  readonly embedded: EmbeddedDatabase | null;
  readonly #config: Config;
  readonly #observe: Observe;
  readonly #handlers: Handlers;
  readonly #queries: Queries;
  readonly #sessions: Sessions;
  readonly #leases: Leases;
  readonly #orphans: Orphans | null;
  readonly #server: HttpServer;
  readonly #workers: WorkerPool;

  private constructor(config: Config, observe: Observe, parts: Parts, url: string) {
    this.url = url;
    this.#config = config;
    this.#observe = observe;
    this.embedded = parts.embedded;
    this.#handlers = parts.handlers;
    this.#queries = parts.queries;
    this.#sessions = parts.sessions;
    this.#leases = parts.leases;
    this.#orphans = parts.orphans;
    this.#server = parts.server;
    this.#workers = parts.workers;
  }

  /**
   * @param signal stops a start that is under way
   * @throws Error with one line that says what is in the way
   */
  static async start(config: Config, observe: Observe, signal: AbortSignal): Promise<Service> {
    let embedded: EmbeddedDatabase | null = null;
    let database = config.database;
    if (database === null) {
      embedded = await startEmbedded({
        dataDir: config.data_dir,
        startTimeoutMs: config.embedded_start_secs * 1_000,
        signal,
        say: (message) => observe({ type: 'embedded_database', message }),
      });
      const { socketPath, user, database: name } = embedded;
      database = { address: { socketPath }, name, user, password: '' };
    }
    const parts = build(config, observe, database, embedded);
    try {
      const url = await parts.server.listen();
      observe({ type: 'listening', address: url });
      return new Service(config, observe, parts, url);
    } catch (error) {
      parts.leases.close();
      parts.orphans?.close();
      await parts.workers[Symbol.asyncDispose]();
      await embedded?.stop();
      throw error;
    }
  }

  /** Lets running results be read for a while, then cancels what is left and ends everything. */
  async stop(): Promise<void> {
    const drainMs = this.#config.drain_secs * 1_000;
    this.#handlers.drain();
    this.#observe({ type: 'draining', queries: this.#queries.size, drainMs });
    await this.#queries.read(drainMs);
    await this.#end(this.#config.kill_timeout_secs * 1_000);
  }

  /** Cancels everything and ends it, waiting no longer than it takes to tell the database. */
  async abort(): Promise<void> {
    this.#handlers.drain();
    await this.#end(abortMs);
  }

  async #end(killMs: number): Promise<void> {
    this.#queries.cancelAll();
    await this.#leases.settled(killMs);
    this.#queries.close();
    this.#sessions.endAll('the server is stopping');
    this.#leases.close();
    this.#orphans?.close();
    await this.#server[Symbol.asyncDispose]();
    await this.#workers[Symbol.asyncDispose]();
    await this.embedded?.stop();
    this.#observe({ type: 'stopped' });
  }
}

interface Parts {
  readonly embedded: EmbeddedDatabase | null;
  readonly workers: WorkerPool;
  readonly leases: Leases;
  readonly orphans: Orphans | null;
  readonly sessions: Sessions;
  readonly queries: Queries;
  readonly handlers: Handlers;
  readonly server: HttpServer;
}

function build(config: Config, observe: Observe, database: DatabaseConfig, embedded: EmbeddedDatabase | null): Parts {
  const workers = new WorkerPool(
    {
      threads: config.worker_threads,
      stallMs: config.worker_stall_secs * 1_000,
      address: database.address,
      limits: {
        connectTimeoutMs: config.connect_timeout_secs * 1_000,
        pingMs: config.ping_secs * 1_000,
        killTimeoutMs: config.kill_timeout_secs * 1_000,
        rowBytesMax: config.row_bytes_max,
      },
    },
    observe,
  );
  const leases = new Leases(
    {
      defaultDatabase: database.name,
      connectionsMax: config.connections_max,
      connectionQueueMax: config.queue_max,
      connectionWaitMs: config.queue_wait_secs * 1_000,
      connectionIdleMs: config.connection_idle_secs * 1_000,
    },
    workers,
    observe,
  );
  const accounts = new Accounts(
    { cacheMs: config.auth_cache_secs * 1_000, cacheMax: config.auth_cache_max, loginsMax: config.logins_max },
    leases,
  );
  const sessions = new Sessions(
    {
      sessionsMax: config.sessions_max,
      sessionIdleMsMax: config.session_idle_secs_max * 1_000,
      sessionQueueMax: config.session_queue_max,
    },
    leases,
    observe,
  );
  const queries = new Queries(
    {
      queriesMax: config.queries_max,
      queriesPerUserMax: config.queries_per_user_max,
      resultTimeoutMs: config.result_timeout_secs * 1_000,
      wholeMax: config.whole_results_max,
      removedMax: config.removed_queries_max,
    },
    observe,
  );
  const readiness = new Readiness(leases, database.user, database.password);
  const handlers = new Handlers({
    limits: {
      bodyBytesMax: config.body_bytes_max,
      waitSecsMax: config.wait_time_secs_max,
      pageRowsMax: config.page_rows_max,
      pageBytes: config.page_bytes_max,
      bufferRowsMax: config.buffer_rows_max,
      bufferBytes: config.query_buffer_bytes_max,
      gzipLevel: config.gzip_level,
      statementTimeoutMs: config.statement_timeout_secs * 1_000,
    },
    anonymous:
      config.anonymous_user === '' ? null : { user: config.anonymous_user, password: config.anonymous_password },
    accounts,
    sessions,
    queries,
    storage: new Storage(config.results_bytes_max),
    whyNotReady: () => readiness.whyNot(),
  });
  const server = new HttpServer(
    {
      host: config.http_handler_host,
      port: config.http_handler_port,
      connectionsMax: config.http_connections_max,
      headerBytesMax: config.header_bytes_max,
      pipelinedMax: config.pipelined_requests_max,
      requestTimeoutMs: config.request_timeout_secs * 1_000,
      idleTimeoutMs: config.http_idle_secs * 1_000,
    },
    handlers,
    observe,
  );
  // What a private MariaDB runs ends with it, and no other server takes it over.
  const orphans = embedded === null ? openOrphans(config, database, workers, observe) : null;
  return { embedded, workers, leases, orphans, sessions, queries, handlers, server };
}

function openOrphans(config: Config, database: DatabaseConfig, workers: WorkerPool, observe: Observe): Orphans {
  const { address, user, password } = database;
  const place = 'socketPath' in address ? address.socketPath : `${address.host}:${address.port}`;
  const journal = new Journal(join(config.data_dir, 'connections'), place, (error) =>
    observe({ type: 'journal_failed', error }),
  );
  const login = user === '' ? null : { user, password, database: null };
  return new Orphans({ retryMs: config.ping_secs * 1_000, login }, journal, workers, observe);
}
