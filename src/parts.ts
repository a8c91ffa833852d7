import { join, resolve } from 'node:path';
import { AnswerWriter } from './api/answer-writer.ts';
import { Authenticator } from './api/authenticator.ts';
import { BodyParser } from './api/body-parser.ts';
import { openSite } from './api/index.ts';
import { nativeReplies } from './api/native/response.ts';
import { operationsRoutes } from './api/operations.ts';
import { Posts } from './api/posts.ts';
import { QueryRoutes } from './api/query-routes.ts';
import type { Config } from './config/config.ts';
import { connectionsPerUserMax, keptLimits, requestLimits, requestMemoryLimit, spillTotals } from './config/derived.ts';
import type { DatabaseConfig } from './config/mysql-url.ts';
import type { EmbeddedDatabase } from './embedded/mariadb.ts';
import { Dispatcher } from './engine/dispatcher.ts';
import { Engine } from './engine/engine.ts';
import { Queries } from './engine/queries.ts';
import { Queue } from './engine/queue.ts';
import type { Observe } from './events.ts';
import { type HttpSecurity, HttpServer } from './http/server.ts';
import { type Levels, Metrics, observeWith } from './metrics.ts';
import { Buffers } from './query/buffers.ts';
import { LargeRows } from './query/large-rows.ts';
import { RequestMemory } from './query/request-memory.ts';
import { KeptResults } from './results/kept-results.ts';
import { ResultReader } from './results/result-reader.ts';
import { Accounts } from './session/accounts.ts';
import { Journal } from './session/journal.ts';
import { Leases } from './session/leases.ts';
import { Orphans } from './session/orphans.ts';
import { Readiness } from './session/readiness.ts';
import { Sessions } from './session/sessions.ts';
import { SpillUsers } from './session/spill-users.ts';
import { WorkerPool } from './session/worker-pool.ts';
import { Troubles } from './troubles.ts';
import type { WorkerLimits } from './wire/messages.ts';
import { SpillUsage } from './wire/spill-usage.ts';

/** A thread that was replaced keeps its slot, with the counts of its rows on disk, until it has ended. */
const slotsPerThread = 4;

/** Its address changes, and it lies in the same folder as the results. */
const privateDatabase = 'the private database';

/** The parts of the server that `Service` starts and stops. */
export interface Parts {
  readonly embedded: EmbeddedDatabase | null;
  readonly workers: WorkerPool;
  readonly leases: Leases;
  readonly orphans: Orphans | null;
  readonly sessions: Sessions;
  readonly queries: Queries;
  readonly queue: Queue;
  readonly engine: Engine;
  readonly results: KeptResults;
  readonly resultReader: ResultReader;
  readonly bodyParser: BodyParser;
  readonly server: HttpServer;
  readonly readiness: Readiness;
  readonly troubles: Troubles;
  /** Reports an event to the log, the metrics and the troubles. */
  readonly observe: Observe;
}

/**
 * Constructs the parts and connects them. The server does not listen yet.
 * @param database the one in --mysql_url, or the private one
 * @param embedded the private one; null: none
 */
export function buildParts(
  config: Config,
  log: Observe,
  database: DatabaseConfig,
  embedded: EmbeddedDatabase | null,
  security: HttpSecurity,
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

  const { threads, disk } = config;
  const spillUsage = SpillUsage.forThreads(slotsPerThread * threads.workerThreads, spillTotals(disk));
  const workers = new WorkerPool(
    { ...threads, address: database.address, limits: workerLimits(config), spillUsage },
    observe,
  );
  const buffers = new Buffers(config.memory);
  const largeRows = new LargeRows(buffers);
  const leases = new Leases(
    {
      ...config.connections,
      connectionsPerUserMax: connectionsPerUserMax(config.connections),
      defaultDatabase: database.name,
      // Each login opens a connection, and the statement that follows it must be able to use that connection.
      connectionAgeMs: Math.max(config.users.authCacheMs, 1_000),
      loginWaitMs: config.database.connectTimeoutMs,
      largeRowMemory: largeRows,
      spillUsers: new SpillUsers(SpillUsage.userSlots),
    },
    workers,
    observe,
  );
  const accounts = new Accounts(config.users, leases, observe);
  const sessions = new Sessions({ ...config.sessions, endedMax: config.queries.removedQueriesMax }, leases, observe);
  const queries = new Queries({ ...config.queries, logSql: config.log.logSql }, observe);
  const requestMemory = new RequestMemory(requestMemoryLimit(config.memory));
  const queue = new Queue(config.queue, (user) => buffers.hasRoomFor(user));
  leases.on('free', () => queue.advance());
  buffers.onRoom = () => {
    largeRows.advance();
    queue.advance();
  };
  const readiness = new Readiness(leases, database.user, database.password, observe);

  const limits = requestLimits(config);
  const bodyParser = new BodyParser({ ...config.queue, limits }, observe);
  const { pageBytesMax, gzipLevel } = config.results;
  const { statementTimeoutMs } = limits;
  const dispatcher = new Dispatcher(leases, sessions, buffers, queue, config.queue.queueWaitMs);
  const reader = new ResultReader((user, bytes) => buffers.hasRoomFor(user, bytes), observe);
  const resultsOptions = {
    ...keptLimits(config.kept),
    folder: resultsFolder(disk),
    database: embedded === null ? placeOf(database) : privateDatabase,
    logSql: config.log.logSql,
  };
  const results = new KeptResults(resultsOptions, reader, observe);
  const engineLimits = { pageBytesMax, gzipLevel, statementTimeoutMs };
  const engine = new Engine(engineLimits, queries, sessions, dispatcher, buffers, requestMemory, results);

  const { anonymousUser, anonymousPassword } = config.users;
  const anonymous = anonymousUser === '' ? null : { user: anonymousUser, password: anonymousPassword };
  const authenticator = new Authenticator(accounts, anonymous);
  const answers = new AnswerWriter(engine, requestMemory, nativeReplies);
  const { bodyBytesMax } = limits;
  const site = openSite(
    {
      posts: new Posts(engine, authenticator, answers, bodyParser, requestMemory, bodyBytesMax),
      queryRoutes: new QueryRoutes(engine, authenticator, answers),
      authenticator,
      answers,
      engine,
      requestMemory,
      bodyBytesMax,
      resultTimeoutMs: config.queries.resultTimeoutMs,
      databaseVersion: () => leases.databaseVersion,
    },
    config.listening.dialect,
    operationsRoutes({ engine, readMetrics: () => metrics.read(), whyNotReady: () => readiness.whyNot() }),
  );
  const server: HttpServer = new HttpServer({ ...config.listening, ...config.http, ...security }, site, observe);

  const levels: Levels = {
    get queries() {
      return queries.size;
    },
    get waitingStatements() {
      return queue.size;
    },
    get sessions() {
      return sessions.size;
    },
    get connections() {
      return leases.size;
    },
    get databaseUp() {
      return troubles.has('database_unavailable') || troubles.has('database_login_refused') ? 0 : 1;
    },
    get heldBytes() {
      return buffers.heldBytes;
    },
    get reservedBytes() {
      return buffers.reservedBytes;
    },
    get largeRowBytes() {
      return largeRows.reservedBytes;
    },
    get waitingLargeRows() {
      return largeRows.waiting;
    },
    get requestBytes() {
      return requestMemory.reservedBytes;
    },
    get spilledBytes() {
      return spillUsage.bytes;
    },
    get spillFiles() {
      return spillUsage.files;
    },
    get keptResults() {
      return results.size;
    },
    get keptBytes() {
      return results.bytes;
    },
    get httpConnections() {
      return server.connections;
    },
    get responses() {
      return server.responses;
    },
  };
  metrics.watch(levels, {
    ...config.queries,
    ...config.queue,
    ...config.sessions,
    ...config.connections,
    ...config.http,
    ...config.memory,
    ...config.disk,
    ...config.kept,
  });
  // Statements in a private MariaDB end with it, and no other server takes it over.
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
    results,
    resultReader: reader,
    bodyParser,
    server,
    readiness,
    troubles,
    observe,
  };
}

/** The settings that each worker thread is given. */
function workerLimits({ database, requests, results, disk }: Config): WorkerLimits {
  const { connectTimeoutMs, pingMs, killTimeoutMs, readOnly } = database;
  const { rowBytesMax, columnsMax } = results;
  return {
    connectTimeoutMs,
    pingMs,
    killTimeoutMs,
    readOnly,
    rowBytesMax,
    columnsMax,
    paramsMax: requests.paramsMax,
    paramsBytesMax: requests.bodyBytesMax,
    spill: {
      folder: spillFolder(disk),
      bytesMax: disk.spillBytesMax,
      total: spillTotals(disk),
      waitMs: disk.spillWaitMs,
    },
  };
}

function openOrphans(config: Config, database: DatabaseConfig, workers: WorkerPool, observe: Observe): Orphans {
  const { user, password } = database;
  const journal = new Journal(journalFolder(config.disk), placeOf(database), observe);
  const login = user === '' ? null : { user, password, database: null };
  return new Orphans({ retryMs: config.database.pingMs, login }, journal, workers, observe);
}

/** What tells one database from another on this server's disk. */
function placeOf({ address }: DatabaseConfig): string {
  return 'socketPath' in address ? address.socketPath : `${address.host}:${address.port}`;
}

/** The folder of the rows on disk. */
export function spillFolder({ dataDir }: Config['disk']): string {
  return join(dataDir, 'spill');
}

/** The folder of the kept results. */
export function resultsFolder({ dataDir }: Config['disk']): string {
  return resolve(dataDir, 'results');
}

/** The folder of the journals of open database connections. */
export function journalFolder({ dataDir }: Config['disk']): string {
  return join(dataDir, 'connections');
}
