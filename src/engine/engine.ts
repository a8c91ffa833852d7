import type { Config } from '../config/config.ts';
import { newQueryId, newSessionId, shownId } from '../ids.ts';
import type { Buffers } from '../query/buffers.ts';
import type { QueryIdentity, QueryOrigin } from '../query/identity.ts';
import type { QueryLimits } from '../query/limits.ts';
import { Query } from '../query/query.ts';
import type { RequestMemory } from '../query/request-memory.ts';
import { RefusalError, RequestAbortedError } from '../refusal-error.ts';
import type { KeptResult } from '../results/kept-result.ts';
import { type KeptResults, keptSqlCharacters, type NewResult } from '../results/kept-results.ts';
import type { Account } from '../session/accounts.ts';
import type { Sessions } from '../session/sessions.ts';
import type { Tombstone } from '../tombstones.ts';
import { heapBytes, stringBytes } from '../wire/heap-bytes.ts';
import { effectOfText } from '../wire/sql-traits.ts';
import { defaultOptions } from '../wire/statement.ts';
import type { Placement } from './dispatch.ts';
import type { Dispatcher } from './dispatcher.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';
import type { Queries } from './queries.ts';
import { isStandalone, type QueryRequest } from './query-request.ts';

export type EngineLimits = Pick<Config['results'], 'pageBytesMax' | 'gzipLevel'> &
  Pick<Config['requests'], 'statementTimeoutMs'>;

/** A statement as an api submits it. */
export interface Submission {
  readonly request: QueryRequest;
  /** Memory of what the api keeps about the query until it is removed. */
  readonly keptBytes: number;
  /** The id that the client asks for; null: the server makes one. It is taken if it is safe and no other query of the user has it. */
  readonly id: string | null;
  /** The client reads in its last request about the query what no other answer tells it. */
  readonly needsFinal: boolean;
  /** null: the api does not follow the query. */
  readonly listener: SubmissionListener | null;
}

/** The api's side of a submission. */
export interface SubmissionListener {
  /** The pinned session that the request names has ended without loss, and the statement runs in a session of its own. */
  sessionReplaced(): void;
  /** Called before the statement is dispatched. */
  created(query: Query): void;
}

export interface SubmitOptions {
  /** By which the POST may be repeated; null: it may not. */
  readonly key: IdempotencyKey | null;
  readonly acceptsGzip: boolean;
  readonly origin: QueryOrigin;
  /** Whether the client that could end the statement has gone. */
  readonly isAbandoned: () => boolean;
}

export interface IdempotencyKey {
  /** The dialect's name, as keys of two dialects are independent. */
  readonly scope: string;
  readonly text: string;
  /** Of the body. */
  readonly digest: string;
}

/** Submits statements and gives access to their results, without HTTP and dialects. */
export class Engine {
  readonly #limits: EngineLimits;
  readonly #queries: Queries;
  readonly #sessions: Sessions;
  readonly #dispatcher: Dispatcher;
  readonly #buffers: Buffers;
  readonly #requestMemory: RequestMemory;
  readonly #results: KeptResults;
  readonly #keys: IdempotencyKeys;
  #isDraining = false;

  constructor(
    limits: EngineLimits,
    queries: Queries,
    sessions: Sessions,
    dispatcher: Dispatcher,
    buffers: Buffers,
    requestMemory: RequestMemory,
    results: KeptResults,
  ) {
    this.#results = results;
    this.#limits = limits;
    this.#queries = queries;
    this.#sessions = sessions;
    this.#dispatcher = dispatcher;
    this.#buffers = buffers;
    this.#requestMemory = requestMemory;
    this.#keys = new IdempotencyKeys(queries);
  }

  /** From now on no new statement is accepted; results can still be read. */
  drain(): void {
    this.#isDraining = true;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** @throws RefusalError if no new statement is accepted */
  checkAccepting(): void {
    if (this.#isDraining) throw new RefusalError('the server is stopping and takes no more statements', 'unavailable');
  }

  /**
   * Starts a statement, or finds the query that an earlier POST with the same key has started.
   * @param prepare makes the submission; not called if the key is known
   * @throws RefusalError if there is no room; `conflict` if the key was used with another body, or its query has been removed
   * @throws RequestAbortedError if the client has gone meanwhile
   */
  async submit(prepare: () => Submission, account: Account, options: SubmitOptions): Promise<Query> {
    const { key } = options;
    if (key === null) return this.#start(prepare(), account, options);
    const start = async (): Promise<Query> => this.#start(prepare(), account, options);
    const repeated = await this.#keys.once(key.scope, account.user, key.text, key.digest, start);
    switch (repeated.type) {
      case 'query':
        return repeated.query;
      case 'other body':
        throw new RefusalError(
          `a POST with the key ${shownId(key.text, 'given')} has been made with another body`,
          'conflict',
        );
      case 'removed':
        throw new RefusalError(`this POST has been made: its query ${repeated.id} ${repeated.reason}`, 'conflict');
    }
  }

  async #start(submission: Submission, account: Account, options: SubmitOptions): Promise<Query> {
    const { user } = account;
    const { listener, keptBytes } = submission;
    this.#admit(user);
    const { keepSecs } = submission.request;
    if (keepSecs !== undefined) this.#results.checkRoom(user);
    const request = this.#dispatcher.resolve(submission.request, user);
    if (request !== submission.request) listener?.sessionReplaced();
    const reservation = this.#requestMemory.reserve(user, keptBytes + statementBytes(request));
    const id = this.#idOf(submission.id, user);
    const sessionId = request.session.type === 'existing' ? request.session.id : newSessionId();
    const limits = queryLimits(request, options.acceptsGzip, this.#limits);
    let result: KeptResult | null = null;
    let placement: Placement | null = null;
    try {
      if (keepSecs !== undefined) {
        const identity = { id, sessionId, owner: user };
        result = await this.#results.make(newResult(identity, request, limits, keepSecs));
      }
      placement = await this.#dispatcher.place(request, account);
      // While the database was asked, others may have taken the room.
      this.checkAccepting();
      if (options.isAbandoned()) throw new RequestAbortedError('the client went away before its statement was sent');
      this.#admit(user);
      if (keepSecs !== undefined) this.#results.checkRoom(user);
    } catch (error) {
      if (request.session.type !== 'existing') this.#dispatcher.abandon(placement, 'its statement was not sent');
      reservation.release();
      if (result !== null) await this.#results.drop(result);
      throw error;
    }
    const identity = {
      id,
      sessionId: placement?.type === 'session' ? placement.session.id : sessionId,
      owner: user,
      hasIdempotencyKey: options.key !== null,
      needsFinal: submission.needsFinal,
      isKept: keepSecs !== undefined,
      origin: options.origin,
    };
    const query = new Query(identity, limits, this.#buffers, { reservation, keptBytes }, result);
    listener?.created(query);
    const timeoutSecs = keepSecs ?? request.resultTimeoutSecs;
    this.#queries.add(query, request.sql, timeoutSecs === undefined ? undefined : timeoutSecs * 1_000);
    if (result !== null) this.#results.add(query, result);
    this.#dispatcher.dispatch(query, request, account, placement);
    return query;
  }

  /**
   * Makes the results that earlier processes have kept available.
   * @throws Error of the file system
   */
  async restore(): Promise<void> {
    for (const { result, manifest, leftMs } of await this.#results.load()) {
      const { id, user: owner, sessionId, pages, state, stats } = manifest;
      const limits = { ...this.#restoredLimits, pageRows: pages.rows, readyRows: pages.rows, format: pages.format };
      const query = new Query({ id, sessionId, owner, isKept: true }, limits, this.#buffers, null, result);
      query.restore(state, stats);
      this.#queries.addKept(query, leftMs);
      this.#results.add(query, result);
    }
  }

  get #restoredLimits(): Omit<QueryLimits, 'pageRows' | 'readyRows' | 'format'> {
    const { pageBytesMax: pageBytes } = this.#limits;
    return { pageBytes, gzipLevel: 0, waitMs: 0, bufferRows: 0, timeoutMs: 0, isTimeoutAsked: false };
  }

  get results(): KeptResults {
    return this.#results;
  }

  #idOf(asked: string | null, user: string): string {
    return asked === null || !safeId.test(asked) || this.#queries.knows(asked, user) ? newQueryId() : asked;
  }

  /** @throws RefusalError */
  #admit(user: string): void {
    switch (this.#queries.admit(user)) {
      case 'admitted':
        return;
      case 'server full':
        throw new RefusalError('the server holds as many queries as it may (--queries_max)', 'unavailable');
      case 'user leaves too many unread':
        throw new RefusalError(
          'this user has as many results that are not read to their end as one may (--unread_per_user_max): ' +
            'read them, or finish them by their final_uri',
          'too many',
        );
      case 'user runs too many':
        throw new RefusalError('this user runs as many queries as one may (--queries_per_user_max)', 'too many');
    }
  }

  /** The user's query of that id. */
  find(id: string, user: string): Query | undefined {
    return this.#queries.find(id, user);
  }

  /** The tombstone of the user's query of that id. */
  tombstone(id: string, user: string): Tombstone | undefined {
    return this.#queries.tombstone(id, user);
  }

  /** Restarts the expiry timer of the result, after an answer that did not wait. */
  touch(query: Query): void {
    this.#queries.touch(query);
  }

  /** Suspends the expiry of the result while a request waits for a page. Call `release` when the answer has left. */
  hold(query: Query): void {
    this.#queries.hold(query);
  }

  release(query: Query): void {
    this.#queries.release(query);
  }

  /** The client has gone before it had its answer. */
  hungUp(query: Query): void {
    this.#queries.hungUp(query);
  }

  /** Removes a query that its client has finished. */
  finish(query: Query, reason?: string): void {
    this.#queries.finish(query, reason);
  }

  get sessions(): Sessions {
    return this.#sessions;
  }
}

function newResult(
  { id, sessionId, owner }: QueryIdentity,
  request: QueryRequest,
  { pageRows, format }: QueryLimits,
  keepSecs: number,
): NewResult {
  return {
    id,
    sessionId,
    user: owner,
    sql: request.sql.slice(0, keptSqlCharacters),
    effect: effectOfText(request),
    isStandalone: isStandalone(request),
    keepMs: keepSecs * 1_000,
    pages: { rows: pageRows, format },
  };
}

/** An id that is safe in a path and in a log. */
const safeId = /^\w[\w.-]{0,63}$/;

function queryLimits(
  { pagination, timeoutSecs, isStreamed: asked, format }: QueryRequest,
  acceptsGzip: boolean,
  { pageBytesMax, gzipLevel, statementTimeoutMs }: EngineLimits,
): QueryLimits {
  const { maxRowsPerPage, maxRowsInBuffer, waitSecs } = pagination;
  const isStreamed = asked === true;
  // The pages of a streamed result are inside the server: what the client asks of its own would have it look for rows again and
  // again.
  const pageRows = isStreamed ? maxRowsInBuffer : Math.min(maxRowsPerPage, maxRowsInBuffer);
  // One literal, as V8 gives an object that is made of others 400 bytes more.
  return shared({
    pageRows,
    readyRows: isStreamed ? 1 : pageRows,
    pageBytes: isStreamed ? Math.min(pageBytesMax, streamedBytes) : pageBytesMax,
    waitMs: isStreamed ? streamedWaitMs : waitSecs * 1_000,
    gzipLevel: acceptsGzip ? gzipLevel : 0,
    bufferRows: maxRowsInBuffer,
    format: format ?? defaultOptions.format,
    timeoutMs: timeoutSecs === null ? statementTimeoutMs : timeoutSecs * 1_000,
    isTimeoutAsked: timeoutSecs !== null,
  });
}

let lastLimits: QueryLimits | null = null;

/** Most queries have the limits of the query before, and share one object with it. */
function shared(limits: QueryLimits): QueryLimits {
  const last = lastLimits;
  if (last !== null && (Object.keys(limits) as (keyof QueryLimits)[]).every((name) => limits[name] === last[name])) {
    return last;
  }
  lastLimits = limits;
  return limits;
}

/** What is written to the client of a streamed result at once. */
const streamedBytes = 256 * 1024;
/** How long a streamed result waits for rows before it looks again. */
const streamedWaitMs = 10_000;

/** About the memory of a query's records while its statement waits or runs. */
const queryRecordsBytes = 4 * 1024;

/** The memory of a statement until it has ended: on the main thread, and as it passes through a worker thread. */
function statementBytes({ sql, params, session }: QueryRequest): number {
  const paramsBytes = params === undefined ? 0 : heapBytes(params);
  const variablesBytes = session.type === 'client-managed' ? heapBytes(session.variables) : 0;
  return queryRecordsBytes + stringBytes(sql) + paramsBytes + variablesBytes;
}
