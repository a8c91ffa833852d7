import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AnswerWriter } from './api/answer-writer.ts';
import { Authenticator } from './api/authenticator.ts';
import { BodyParser } from './api/body-parser.ts';
import { openSite } from './api/index.ts';
import { nativeReplies } from './api/native/response.ts';
import { operationsRoutes } from './api/operations.ts';
import { Posts } from './api/posts.ts';
import { QueryRoutes } from './api/query-routes.ts';
import { type Config, type DatabaseConfig, requestBytesPerUserMax } from './config.ts';
import { prepareDataDir } from './data-dir.ts';
import { descriptorsMax, watchDescriptors } from './descriptors.ts';
import { type EmbeddedDatabase, startEmbedded } from './embedded/mariadb.ts';
import { Dispatcher } from './engine/dispatcher.ts';
import { Engine } from './engine/engine.ts';
import { Queries } from './engine/queries.ts';
import { Queue } from './engine/queue.ts';
import type { Observe } from './events.ts';
import { type Certificate, readCertificate } from './http/certificate.ts';
import { Cors } from './http/cors.ts';
import { HostNames } from './http/host-names.ts';
import { HttpServer } from './http/server.ts';
import { type Levels, Metrics, observeWith } from './metrics.ts';
import { Buffers } from './query/buffers.ts';
import { LargeRows } from './query/large-rows.ts';
import { RequestMemory } from './query/request-memory.ts';
import { Accounts } from './session/accounts.ts';
import { Journal } from './session/journal.ts';
import { Leases } from './session/leases.ts';
import { Orphans } from './session/orphans.ts';
import { Readiness } from './session/readiness.ts';
import { Sessions } from './session/sessions.ts';
import { WorkerPool } from './session/worker-pool.ts';
import { defaultPerUserMax } from './share.ts';
import { Troubles } from './troubles.ts';
import { SpillUsage } from './wire/spill-usage.ts';

/** How long statements may take to end when the server is told to stop at once. */
const abortMs = 1_000;
/** How long a server that stops answers at the least, so that clients learn it from an answer and not from a connection cut. */
const noticeMs = 1_000;
/** How long, when it takes no more connections, the answers under way may take. */
const answerMs = 2_000;

const unprotected =
  'whoever is on the way can read passwords, statements and rows: give --tls_cert and --tls_key, or listen on ' +
  '127.0.0.1 behind a proxy with TLS';

/** A thread that is replaced may count what it has on disk until it is really gone. */
const slotsPerThread = 4;

/** The running server: the only place that constructs its parts, and the one that takes them down again. */
export class Service {
  /** Where it listens, as a URL. */
  readonly url: string;
  readonly embedded: EmbeddedDatabase | null;
  readonly #config: Config;
  readonly #observe: Observe;
  readonly #engine: Engine;
  readonly #queries: Queries;
  readonly #queue: Queue;
  readonly #sessions: Sessions;
  readonly #leases: Leases;
  readonly #orphans: Orphans | null;
  readonly #server: HttpServer;
  readonly #troubles: Troubles;
  readonly #stopDescriptorChecks: () => void;
  readonly #bodyParser: BodyParser;
  readonly #workers: WorkerPool;
  #reloaded: Promise<void> = Promise.resolve();

  private constructor(config: Config, observe: Observe, parts: Parts, url: string) {
    this.url = url;
    this.#config = config;
    this.#observe = observe;
    this.embedded = parts.embedded;
    this.#engine = parts.engine;
    this.#queries = parts.queries;
    this.#queue = parts.queue;
    this.#sessions = parts.sessions;
    this.#leases = parts.leases;
    this.#orphans = parts.orphans;
    this.#server = parts.server;
    this.#troubles = parts.troubles;
    this.#stopDescriptorChecks = watchDescriptors(parts.observe);
    this.#bodyParser = parts.bodyParser;
    this.#workers = parts.workers;
  }

  /**
   * @param signal stops a start that is under way
   * @throws Error with one line that says what is in the way
   */
  static async start(config: Config, observe: Observe, signal: AbortSignal): Promise<Service> {
    // What is wrong with these is told before the private database is made, which takes its time.
    const doors: Doors = {
      certificate: config.tls_cert === '' ? null : await readCertificate(config.tls_cert, config.tls_key),
      hostNames: new HostNames(config.http_handler_host, config.http_host_names),
      cors: config.cors_origin === '' ? null : new Cors(config.cors_origin),
    };
    prepareDataDir(config.data_dir, [spillFolder(config), journalFolder(config)]);
    let embedded: EmbeddedDatabase | null = null;
    let database = config.database;
    if (database === null) {
      embedded = await startEmbedded({
        dataDir: config.data_dir,
        startTimeoutMs: config.embedded_start_secs * 1_000,
        signal,
        say: (message) => observe({ type: 'embedded_database', message }),
      });
      const { socketPath, user, password, database: name } = embedded;
      database = { address: { socketPath }, name, user, password };
    }
    // A process that was killed may have left a file that it had just made.
    await rm(spillFolder(config), { recursive: true, force: true }).catch(() => {});
    const parts = build(config, observe, database, embedded, doors);
    try {
      const url = await parts.server.listen();
      observe({ type: 'listening', address: url });
      if (parts.server.connectionsMax < config.http_connections_max) {
        const reason =
          `the limit of file descriptors (ulimit -n) leaves room for ${parts.server.connectionsMax} HTTP connections ` +
          'beside those to the database and rows on disk';
        observe({ type: 'http_connections_limited', reason });
      }
      if (doors.certificate === null && !parts.server.isLoopback) {
        observe({ type: 'listening_unprotected', address: url, advice: unprotected });
      }
      // A database that is not there yet, or a wrong user in --mysql_url, is logged at the start.
      void parts.readiness.whyNot().catch(() => {});
      return new Service(config, observe, parts, url);
    } catch (error) {
      parts.leases.close();
      parts.orphans?.close();
      await parts.workers[Symbol.asyncDispose]();
      await embedded?.stop();
      throw error;
    }
  }

  /** Reads the certificate and its key again. If they cannot be used, the server keeps those that it has. */
  reload(): Promise<void> {
    // One after the other, so that the files that were read last are the ones in use.
    this.#reloaded = this.#reloaded.then(() => this.#reload());
    return this.#reloaded;
  }

  async #reload(): Promise<void> {
    const { tls_cert, tls_key } = this.#config;
    if (tls_cert === '') {
      this.#observe({
        type: 'nothing_reloaded',
        reason: 'there is no --tls_cert; other options are read at the start',
      });
      return;
    }
    try {
      this.#server.renew(await readCertificate(tls_cert, tls_key));
      this.#observe({ type: 'certificate_renewed', file: tls_cert });
    } catch (error) {
      this.#observe({ type: 'certificate_refused', reason: (error as Error).message });
    }
  }

  /** Lets running results be read for a while, then cancels what is left and ends everything. */
  async stop(): Promise<void> {
    const drainMs = this.#config.drain_secs * 1_000;
    this.#engine.drain();
    this.#server.drain();
    this.#observe({ type: 'draining', queries: this.#queries.size, drainMs });
    const drainIdleMs = this.#config.drain_idle_secs * 1_000;
    await Promise.all([this.#queries.read(drainMs, drainIdleMs), this.#server.empty(Math.min(noticeMs, drainMs))]);
    await this.#end(this.#config.kill_timeout_secs * 1_000, answerMs);
  }

  /** Cancels everything and ends it, waiting no longer than it takes to tell the database. */
  async abort(): Promise<void> {
    this.#engine.drain();
    await this.#end(abortMs, 0);
  }

  async #end(killMs: number, answerMs: number): Promise<void> {
    this.#troubles.close();
    this.#stopDescriptorChecks();
    // Before those that run give back what others wait for.
    this.#queue.close();
    this.#queries.cancelAll();
    await this.#leases.settled(killMs);
    this.#sessions.endAll('the server is stopping');
    this.#leases.close();
    this.#orphans?.close();
    await this.#server.close(answerMs);
    // Until now a client could come for the last answer of its query.
    this.#queries.close();
    await this.#bodyParser[Symbol.asyncDispose]();
    await this.#workers[Symbol.asyncDispose]();
    await this.embedded?.stop();
    this.#observe({ type: 'stopped' });
  }
}

/** Descriptors beside those that have an option: the program's files, its threads, kills, and room for what is closing. */
const otherDescriptors = 256;

/** How many HTTP connections there may be, so that clients leave descriptors for the database and for rows on disk. */
function httpConnectionsWithin(config: Config, descriptors: number): number {
  const needed = config.connections_max + config.logins_max + config.unread_per_user_max + otherDescriptors;
  const left = Math.ceil(Math.max(descriptors - needed, descriptors / 2));
  return Math.min(config.http_connections_max, left);
}

/** What the HTTP side needs and what is read or checked at the very start. */
interface Doors {
  readonly certificate: Certificate | null;
  readonly hostNames: HostNames;
  readonly cors: Cors | null;
}

interface Parts {
  readonly embedded: EmbeddedDatabase | null;
  readonly workers: WorkerPool;
  readonly leases: Leases;
  readonly orphans: Orphans | null;
  readonly sessions: Sessions;
  readonly queries: Queries;
  readonly queue: Queue;
  readonly engine: Engine;
  readonly bodyParser: BodyParser;
  readonly server: HttpServer;
  readonly readiness: Readiness;
  readonly troubles: Troubles;
  /** Reports an event to the log, the metrics and the troubles. */
  readonly observe: Observe;
}

function build(
  config: Config,
  log: Observe,
  database: DatabaseConfig,
  embedded: EmbeddedDatabase | null,
  doors: Doors,
): Parts {
  const metrics = new Metrics();
  const troubles: Troubles = new Troubles(
    {
      database_unavailable: { quietMs: 2_000, isOver: () => readiness.isReachable() },
      database_full: { quietMs: 5_000 },
      database_login_refused: { quietMs: 6_000, isOver: async () => (await readiness.whyNot()) === null },
      out_of_descriptors: { quietMs: 5_000 },
      http_connections_full: { quietMs: 5_000 },
      logins_failing: { quietMs: 60_000 },
    },
    observeWith(log, metrics.observe),
  );
  const observe = observeWith(log, metrics.observe, troubles.observe, (event) => {
    if (event.type === 'connect_failed') readiness.doubt();
  });
  const spillUsage = SpillUsage.forThreads(slotsPerThread * config.worker_threads, config.spill_total_bytes_max);
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
        columnsMax: config.columns_max,
        paramsBytesMax: config.body_bytes_max,
        paramsMax: config.params_max,
        spill: {
          folder: spillFolder(config),
          bytesMax: config.spill_bytes_max,
          totalBytesMax: config.spill_total_bytes_max,
          waitMs: config.spill_wait_ms,
        },
        readOnly: config.read_only,
      },
      spillUsage,
    },
    observe,
  );
  const buffers = new Buffers({
    bytesMax: config.buffer_bytes_max,
    heldBytesMax: config.results_bytes_max,
    queryBytesMax: config.query_buffer_bytes_max,
  });
  const largeRows = new LargeRows(buffers);
  const leases = new Leases(
    {
      defaultDatabase: database.name,
      connectionsMax: config.connections_max,
      connectionsPerUserMax: connectionsPerUserMax(config),
      connectionIdleMs: config.connection_idle_secs * 1_000,
      // Each login opens a connection, which the statement that it was for is to find.
      loginWaitMs: config.connect_timeout_secs * 1_000,
      connectionAgeMs: Math.max(config.auth_cache_secs, 1) * 1_000,
      largeRowMemory: largeRows,
    },
    workers,
    observe,
  );
  const accounts = new Accounts(
    {
      cacheMs: config.auth_cache_secs * 1_000,
      cacheMax: config.auth_cache_max,
      loginsMax: config.logins_max,
      failuresMax: config.auth_failures_max,
    },
    leases,
    observe,
  );
  const sessions = new Sessions(
    {
      sessionsMax: config.sessions_max,
      sessionsPerUserMax: config.sessions_per_user_max,
      sessionIdleMsMax: config.session_idle_secs_max * 1_000,
      heldIdleMs: config.held_session_idle_secs * 1_000,
      endedMax: config.removed_queries_max,
      sessionQueueMax: config.session_queue_max,
    },
    leases,
    observe,
  );
  const queries = new Queries(
    {
      queriesMax: config.queries_max,
      queriesPerUserMax: config.queries_per_user_max,
      unreadPerUserMax: config.unread_per_user_max,
      resultTimeoutMs: config.result_timeout_secs * 1_000,
      wholeMax: config.whole_results_max,
      removedMax: config.removed_queries_max,
      logSql: config.log_sql,
      disconnectMs: config.on_disconnect === 'cancel' ? config.disconnect_secs * 1_000 : null,
    },
    observe,
  );
  const requestMemory = new RequestMemory({
    max: config.request_bytes_max,
    perUserMax: requestBytesPerUserMax(config),
  });
  const queue = new Queue({ waitingMax: config.queue_max, waitMs: config.queue_wait_secs * 1_000 }, (user) =>
    buffers.hasRoomFor(user),
  );
  leases.onFree = () => queue.advance();
  buffers.onRoom = () => {
    largeRows.advance();
    queue.advance();
  };
  const readiness = new Readiness(leases, database.user, database.password, observe);
  const limits = {
    bodyBytesMax: config.body_bytes_max,
    waitSecsMax: config.wait_time_secs_max,
    pageRowsMax: config.page_rows_max,
    pageBytes: config.page_bytes_max,
    bufferRowsMax: config.buffer_rows_max,
    gzipLevel: config.gzip_level,
    statementTimeoutSecs: config.statement_timeout_secs,
    resultTimeoutSecsMax: Math.max(config.result_timeout_secs_max, config.result_timeout_secs),
    paramsMax: config.params_max,
    clientSessionBytesMax: config.client_session_bytes_max,
  };
  const bodyParser = new BodyParser(
    { limits, waitingMax: config.queue_max, waitSecs: config.queue_wait_secs },
    observe,
  );
  const dispatcher = new Dispatcher(leases, sessions, buffers, queue, config.queue_wait_secs);
  const engine = new Engine(limits, queries, sessions, dispatcher, buffers, requestMemory);
  const anonymous =
    config.anonymous_user === '' ? null : { user: config.anonymous_user, password: config.anonymous_password };
  const authenticator = new Authenticator(accounts, anonymous);
  const answers = new AnswerWriter(engine, requestMemory, nativeReplies);
  const bodyBytesMax = config.body_bytes_max;
  const site = openSite(
    {
      posts: new Posts(engine, authenticator, answers, bodyParser, requestMemory, bodyBytesMax),
      queryRoutes: new QueryRoutes(engine, authenticator, answers),
      authenticator,
      answers,
      engine,
      requestMemory,
      bodyBytesMax,
      resultTimeoutSecs: config.result_timeout_secs,
      databaseVersion: () => leases.databaseVersion,
    },
    config.dialect,
    operationsRoutes({ engine, readMetrics: () => metrics.read(), whyNotReady: () => readiness.whyNot() }),
  );
  const levels: Levels = {
    queries: () => queries.size,
    waitingStatements: () => queue.size,
    sessions: () => sessions.size,
    connections: () => leases.size,
    databaseUp: () => (troubles.has('database_unavailable') || troubles.has('database_login_refused') ? 0 : 1),
    heldBytes: () => buffers.heldBytes,
    reservedBytes: () => buffers.reservedBytes,
    largeRowBytes: () => largeRows.reservedBytes,
    waitingLargeRows: () => largeRows.waiting,
    requestBytes: () => requestMemory.reservedBytes,
    spilledBytes: () => spillUsage.bytes,
    httpConnections: () => server.connections,
    responses: () => server.responses,
  };
  const httpConnectionsMax = httpConnectionsWithin(config, descriptorsMax());
  metrics.watch(levels, { ...config, http_connections_max: httpConnectionsMax });
  const server: HttpServer = new HttpServer(
    {
      host: config.http_handler_host,
      port: config.http_handler_port,
      connectionsMax: httpConnectionsMax,
      headerBytesMax: config.header_bytes_max,
      pipelinedMax: config.pipelined_requests_max,
      pipelinedBytesMax: config.pipelined_bytes_max,
      requestTimeoutMs: config.request_timeout_secs * 1_000,
      idleTimeoutMs: config.http_idle_secs * 1_000,
      ...doors,
    },
    site,
    observe,
  );
  // What a private MariaDB runs ends with it, and no other server takes it over.
  const orphans = embedded === null ? openOrphans(config, database, workers, observe) : null;
  return {
    embedded,
    workers,
    leases,
    orphans,
    sessions,
    queries,
    queue,
    engine,
    bodyParser,
    server,
    readiness,
    troubles,
    observe,
  };
}

function connectionsPerUserMax({ connections_max, connections_per_user_max }: Config): number {
  if (connections_per_user_max === 0) return defaultPerUserMax(connections_max);
  return Math.min(connections_per_user_max, connections_max);
}

function openOrphans(config: Config, database: DatabaseConfig, workers: WorkerPool, observe: Observe): Orphans {
  const { address, user, password } = database;
  const place = 'socketPath' in address ? address.socketPath : `${address.host}:${address.port}`;
  const journal = new Journal(journalFolder(config), place, (error) => observe({ type: 'journal_failed', error }));
  const login = user === '' ? null : { user, password, database: null };
  return new Orphans({ retryMs: config.ping_secs * 1_000, login }, journal, workers, observe);
}

function spillFolder(config: Config): string {
  return join(config.data_dir, 'spill');
}

function journalFolder(config: Config): string {
  return join(config.data_dir, 'connections');
}
