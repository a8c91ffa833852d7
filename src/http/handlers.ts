import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Config } from '../config/config.ts';
import { newQueryId, newSessionId, timeOfQueryId } from '../ids.ts';
import type { ParsedBody } from '../protocol/body.ts';
import { requestOf } from '../protocol/databend/request.ts';
import { closedReply, DatabendReplies, type DatabendServer, errorReply } from '../protocol/databend/response.ts';
import { clientOf } from '../protocol/databend/session-replies.ts';
import { heapBytes, stringBytes } from '../protocol/heap-bytes.ts';
import { InvalidRequestError } from '../protocol/invalid-request.ts';
import type { BodyParts, QueryReplies, Reply } from '../protocol/reply.ts';
import type { QueryRequest, RequestLimits } from '../protocol/request.ts';
import { v1Replies } from '../protocol/v1/response.ts';
import type { Buffers } from '../query/buffers.ts';
import type { Page } from '../query/pages.ts';
import type { Queries } from '../query/queries.ts';
import { countedPageBytesMin, Query, type QueryLimits, type QueryOrigin } from '../query/query.ts';
import type { RequestMemory } from '../query/request-memory.ts';
import { isHolding } from '../query/ring.ts';
import type { Account, Accounts, Credentials } from '../session/accounts.ts';
import type { Sessions } from '../session/sessions.ts';
import { Answer, originOf, turnOf } from './answer.ts';
import { credentialsOf } from './auth.ts';
import { RequestAbortedError, readJsonBytes } from './body.ts';
import type { BodyParser } from './body-parser.ts';
import { ClientSessions, type ClientSessionVerb } from './client-sessions.ts';
import { type Dialect, dialectOf } from './dialects.ts';
import { FinalSessions } from './final-sessions.ts';
import { acceptsGzip, isDeflated } from './gzip.ts';
import { type HttpError, httpErrors } from './http-error.ts';
import { reply, replyEmpty, replyPage, replyText } from './reply.ts';
import { type Retried, Retries } from './retries.ts';
import type { Route } from './router.ts';
import { isSession, type Place, type Statements } from './statements.ts';

export type HandlerLimits = RequestLimits & Pick<Config['results'], 'pageBytesMax' | 'gzipLevel'>;

export interface HandlerParts {
  readonly limits: HandlerLimits;
  readonly anonymous: Credentials | null;
  readonly dialect: Dialect | 'auto';
  readonly databend: DatabendServer;
  readonly sessions: Sessions;
  readonly accounts: Accounts;
  readonly statements: Statements;
  readonly queries: Queries;
  readonly buffers: Buffers;
  readonly requestMemory: RequestMemory;
  readonly bodyParser: BodyParser;
  /** Counts and levels, in the text format of Prometheus. */
  readonly readMetrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** Resolves to null when the service can take statements, else to the reason why not. */
  readonly whyNotReady: () => Promise<string | null>;
}

interface ReadRequest {
  readonly body: QueryRequest;
  /** null: v1's. */
  readonly replies: DatabendReplies | null;
}

const abandoned = 'was abandoned: its client went away before the first answer';

/** One function for each endpoint. Each throws an HttpError for what is not to be answered with 200. */
export class Handlers {
  readonly #parts: HandlerParts;
  readonly #retries: Retries;
  readonly #clientSessions: ClientSessions;
  /** Of queries that are not answered in v1. */
  readonly #replies = new WeakMap<Query, DatabendReplies>();
  readonly #finalSessions = new FinalSessions(finalSessionsBytesMax);
  #draining = false;

  constructor(parts: HandlerParts) {
    this.#parts = parts;
    const { databend, queries, sessions, requestMemory, limits } = parts;
    this.#retries = new Retries(queries);
    this.#clientSessions = new ClientSessions({
      databend,
      queries,
      sessions,
      requestMemory,
      bodyBytesMax: limits.bodyBytesMax,
    });
  }

  dialectOf({ headers }: IncomingMessage): Dialect {
    return dialectOf(headers, this.#parts.dialect);
  }

  /** What is told of a request that is refused, in its dialect. */
  errorReply(request: IncomingMessage, error: HttpError): Reply | null {
    return this.dialectOf(request) === 'v1' ? null : errorReply(this.#parts.databend, error.status, error.message);
  }

  /** From now on no statement is accepted; what runs may be read. */
  drain(): void {
    this.#draining = true;
  }

  handle(route: Route, request: IncomingMessage, response: ServerResponse): void | Promise<void> {
    switch (route.name) {
      case 'query':
        return this.#postQuery(request, response);
      case 'page':
        return this.#getPage(route.id, route.page, request, response);
      case 'stats':
        return this.#getStats(route.id, request, response);
      case 'kill':
        return route.isFinal ? this.#final(route.id, request, response) : this.#kill(route.id, request, response);
      case 'final':
        return this.#databendFinal(route.id, request, response);
      case 'session':
        return this.#endSession(route.id, request, response);
      case 'login':
      case 'logout':
      case 'refresh':
      case 'heartbeat':
      case 'verify':
        return this.#clientSession(route.name, request, response);
      case 'health':
        return replyText(response, 200, 'ok');
      case 'ready':
        return this.#ready(response);
      case 'metrics':
        return this.#metrics(response);
    }
  }

  async #postQuery(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const dialect = this.dialectOf(request);
    const key = keyOf(request, dialect);
    // One that comes again is told of what it has begun.
    if (this.#draining && key === null) throw stopping();
    // Before the body is read: whoever is no user is not to fill the memory.
    const account = await this.#authenticate(request);
    const query = await this.#queryOf(dialect, key, account, request, response);
    const asGzip = acceptsGzip(request.headers['accept-encoding']);
    return this.#answerPage(query, 0, asGzip, response, 'POST');
  }

  /** The query of a POST: a new one, or the one that the key stands for. Nothing of the body is held after it, but by the query. */
  async #queryOf(
    dialect: Dialect,
    key: string | null,
    account: Account,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<Query> {
    const { limits, requestMemory, bodyParser } = this.#parts;
    const reservation = requestMemory.reserve(account.user, 0);
    try {
      const bytes = await readJsonBytes(request, limits.bodyBytesMax, reservation);
      if (response instanceof Answer && response.turn !== null) {
        reservation.resize(Math.max(reservation.bytes, bytes.length));
        // Clients rely on the order of what they send on one connection (RFC 9112, section 9.3.2).
        await turnOf(response);
      }
      const { user } = account;
      // A client that names its POST comes back for an answer that it has lost.
      const isAbandoned = (): boolean => key === null && response.destroyed;
      const parsing = bodyParser.parse({ user, dialect, bytes, wantsDigest: key !== null, isAbandoned });
      const { body, digest } = parsing instanceof Promise ? await parsing : parsing;
      const asGzip = acceptsGzip(request.headers['accept-encoding']);
      const origin = originOf(request, response);
      const begin = (): Promise<Query> =>
        this.#begin(this.#read(body, request, user), account, asGzip, key, origin, isAbandoned);
      if (key === null) return await begin();
      return queryOf(await this.#retries.once(dialect, user, key, digest ?? '', begin), dialect, key);
    } finally {
      reservation.release();
    }
  }

  #read(parsed: ParsedBody, { headers }: IncomingMessage, user: string): ReadRequest {
    if (parsed.dialect === 'v1') return { body: parsed.request, replies: null };
    const { databend } = this.#parts;
    try {
      const client = clientOf(headers.cookie);
      const { request, session } = requestOf(parsed, { user, client, handles: databend.handles });
      const { sql, traits, resultTimeoutSecs } = request;
      return {
        body: request,
        replies: new DatabendReplies(databend, {
          ...{ user, session, sql, traits, resultTimeoutSecs },
          readsFinalAlone: /^databend-py\b/i.test(headers['user-agent'] ?? ''),
        }),
      };
    } catch (error) {
      if (error instanceof InvalidRequestError) throw httpErrors.badRequest(error.message);
      throw error;
    }
  }

  /** A session that is held on account of a statement, of which no answer has told its client, would be nobody's. */
  #endIfUnknown(query: Query, replies: DatabendReplies): void {
    const { sessionId, owner } = query.identity;
    if (query.sessionState?.isHeld !== true || replies.hasToldState) return;
    this.#parts.sessions.find(sessionId, owner)?.end('its client was never told of it');
  }

  /**
   * @param key by which the POST may come again; null: it does not
   * @param isAbandoned whether whoever would end the statement has gone
   */
  async #begin(
    read: ReadRequest,
    account: Account,
    asGzip: boolean,
    key: string | null,
    origin: QueryOrigin,
    isAbandoned: () => boolean,
  ): Promise<Query> {
    const { limits, queries, statements, buffers, requestMemory } = this.#parts;
    this.#admit(account.user);
    const { replies } = read;
    const body = statements.current(read.body, account);
    if (body !== read.body) replies?.forgetHeld();
    const keptBytes = replies?.heapBytes ?? 0;
    const reservation = requestMemory.reserve(account.user, keptBytes + statementBytes(body));
    let place: Place | null = null;
    try {
      place = await statements.place(body, account);
      // While the database was asked, others may have taken the room.
      if (this.#draining) throw stopping();
      if (isAbandoned()) throw new RequestAbortedError('the client went away before its statement was sent');
      this.#admit(account.user);
    } catch (error) {
      if (place !== null && isSession(place) && body.session.type !== 'old') place.end('its statement was not sent');
      reservation.release();
      throw error;
    }
    const sessionId =
      place !== null && isSession(place) ? place.id : body.session.type === 'old' ? body.session.id : newSessionId();
    const id = replies === null ? newQueryId() : this.#idOf(key, account.user);
    const largeIntegersAsStrings = body.cells === 'typed, large integers as strings';
    const isNamed = key !== null;
    const needsFinal = replies?.readsFinalAlone === true;
    const identity = { id, sessionId, owner: account.user, isNamed, needsFinal, origin, largeIntegersAsStrings };
    const query = new Query(identity, queryLimits(body, asGzip ? limits.gzipLevel : 0, limits), buffers, {
      reservation,
      keptBytes,
    });
    const endIfUnknown = (): void => {
      if (replies !== null) this.#endIfUnknown(query, replies);
    };
    if (replies !== null) {
      this.#replies.set(query, replies);
      if (body.session.type === 'carried') query.onRemoved = endIfUnknown;
    }
    const onMoved = (): void => {
      replies?.forgetHeld();
      query.onRemoved = endIfUnknown;
    };
    const { resultTimeoutSecs } = body;
    queries.add(query, body.sql, resultTimeoutSecs === undefined ? undefined : resultTimeoutSecs * 1_000);
    if (place === null) statements.runLater(query, body, account, sessionId);
    else statements.run(query, body, account, place, onMoved);
    return query;
  }

  /**
   * The id that a Databend client has given to its query, as it may cancel the query by that id. One that is not safe in a
   * path, or that the user's queries have already, is not taken.
   */
  #idOf(key: string | null, user: string): string {
    if (key === null || !clientId.test(key) || this.#parts.queries.knows(key, user)) return newQueryId();
    this.#finalSessions.delete(user, key);
    return key;
  }

  async #getPage(id: string, page: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const query = await this.#find(id, request);
    await this.#answerPage(query, page, acceptsGzip(request.headers['accept-encoding']), response, 'GET');
  }

  async #getStats(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const query = await this.#find(id, request);
    this.#parts.queries.touch(query);
    this.#reply(query.identity.owner, response, this.#repliesOf(query).stats(query, query.snapshot(), query.nextPage));
  }

  async #kill(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { queries, databend } = this.#parts;
    const { user } = await this.#authenticate(request);
    const query = queries.find(id, user);
    if (query === undefined) {
      // What is over needs no cancelling, and Databend's clients are content with that.
      const removal = this.dialectOf(request) === 'databend' ? queries.removal(id, user) : undefined;
      if (removal === undefined) throw this.#notFound(id, user, request);
      return reply(response, closedReply(databend, id, removal));
    }
    query.cancelByClient();
    // Nothing of it is left unread.
    queries.touch(query);
    reply(response, this.#repliesOf(query).killed(query));
    // In Databend's dialect that closes it; a poll that waits has its answer.
    if (this.#replies.has(query)) queries.finish(query, 'was cancelled by the client');
  }

  async #final(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { queries } = this.#parts;
    const { user } = await this.#authenticate(request);
    const query = queries.find(id, user);
    if (query !== undefined) queries.finish(query);
    else if (queries.whyRemoved(id, user) === undefined) throw unknownQuery(id);
    replyEmpty(response);
  }

  /** The last answer about a query, after which it is no more; as often as it is asked for. */
  async #databendFinal(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { queries, databend } = this.#parts;
    const { user } = await this.#authenticate(request);
    const query = queries.find(id, user);
    const replies = query === undefined ? undefined : this.#replies.get(query);
    const removal = query === undefined ? queries.removal(id, user) : undefined;
    if (removal !== undefined) {
      const session = this.#finalSessions.find(user, id);
      return this.#reply(user, response, closedReply(databend, id, removal, session));
    }
    if (query === undefined || replies === undefined) throw unknownQuery(id);
    query.cancelByClient();
    const last = replies.final(query, query.snapshot());
    if (last.session !== null) this.#finalSessions.add(user, id, JSON.stringify(last.session));
    queries.finish(query);
    this.#reply(user, response, last.reply);
  }

  /** A session that the user has ended before is ended again, as the first answer may have been lost. */
  async #endSession(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { user } = await this.#authenticate(request);
    if (!this.#parts.sessions.endByClient(id, user)) {
      const shown = /^[\w.-]{1,64}$/.test(id) ? id : 'of that id';
      throw httpErrors.notFound(
        `no session ${shown}: it never existed, has expired, was for one statement only, or is another user's`,
      );
    }
    replyEmpty(response);
  }

  async #clientSession(verb: ClientSessionVerb, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#parts.dialect === 'v1') throw httpErrors.notFound('there is nothing at this path (--dialect)');
    const { user } = await this.#authenticate(request);
    await this.#clientSessions.handle(verb, user, request, response);
  }

  async #ready(response: ServerResponse): Promise<void> {
    const reason = this.#draining ? 'the server is stopping' : await this.#parts.whyNotReady();
    if (reason !== null) throw httpErrors.unavailable(reason);
    replyText(response, 200, 'ready');
  }

  async #metrics(response: ServerResponse): Promise<void> {
    const { contentType, text } = await this.#parts.readMetrics();
    replyText(response, 200, text, { 'Content-Type': contentType });
  }

  async #answerPage(
    query: Query,
    number: number,
    asGzip: boolean,
    response: ServerResponse,
    method: 'POST' | 'GET',
  ): Promise<void> {
    const { queries } = this.#parts;
    if (response.destroyed) {
      queries.hungUp(query);
      throw new RequestAbortedError('the client went away before its page was looked for');
    }
    const ready = query.page(number);
    if (ready === null)
      throw httpErrors.notFound(`query ${query.identity.id} has no page ${number}, or has it no more`);
    const isFirst = method === 'POST' && query.identity.isNamed !== true;
    // The clock of the result stands until the answer has left, or its client has.
    queries.hold(query);
    response.once('close', () => {
      queries.release(query);
      // Nobody but the client of its first request can know the query's id: if it goes before the answer, the query goes too.
      if (isFirst && !response.headersSent) queries.finish(query, abandoned);
      else if (!response.writableFinished) queries.hungUp(query);
    });
    const page = await ready;
    if (response.destroyed) return;
    if (query.isTooLate(page)) throw httpErrors.notFound(`query ${query.identity.id} has no page ${number} any more`);
    const { body, headers } = this.#repliesOf(query).page(query, page, method === 'POST');
    this.#countAnswer(query, page, body, asGzip, response, method === 'POST');
    await replyPage(response, body, asGzip, headers);
  }

  /**
   * Counts what an answer holds until it has left: a client may be slow to read it, or not read it at all.
   * @param isPosted whether it answers a POST, whose statement has begun and which is therefore not refused
   * @throws RequestMemoryError
   */
  #countAnswer(
    query: Query,
    { rows }: Page,
    body: BodyParts,
    asGzip: boolean,
    response: ServerResponse,
    isPosted: boolean,
  ): void {
    const inflatedBytes = !asGzip && body.some(isDeflated) ? rows.bytes : 0;
    this.#countText(query.identity.owner, body, response, inflatedBytes, isPosted);
    // Pages are sent in the turn in which they are given out, and by `sending` their rows are kept from then on. If a piece were
    // given back all the same, the client would miss rows, and could not tell.
    if (rows.pieces.some(({ length }) => length === 0)) throw new Error('the rows of a page have been given back');
    if (!isHolding(rows, countedPageBytesMin)) return;
    query.sending(rows);
    response.once('close', () => query.sent(rows));
  }

  /**
   * Counts what an answer holds beside rows until it has left. It is much with thousands of columns, or with the session of a
   * Databend client.
   * @param otherBytes to be counted with it
   * @param mustAnswer whether it is counted even if it exceeds what the user may have
   * @throws RequestMemoryError
   */
  #countText(user: string, body: BodyParts, response: ServerResponse, otherBytes = 0, mustAnswer = false): void {
    let bytes = otherBytes;
    for (const part of body) if (typeof part === 'string') bytes += part.length;
    if (bytes < countedTextBytesMin) return;
    const { requestMemory } = this.#parts;
    const reservation = mustAnswer ? requestMemory.count(user, bytes) : requestMemory.reserve(user, bytes);
    response.once('close', () => reservation.release());
  }

  /** @throws RequestMemoryError */
  #reply(user: string, response: ServerResponse, answer: Reply): void {
    this.#countText(user, answer.body, response);
    reply(response, answer);
  }

  async #find(id: string, request: IncomingMessage): Promise<Query> {
    const { queries } = this.#parts;
    const { user } = await this.#authenticate(request);
    const query = queries.find(id, user);
    if (query === undefined) throw this.#notFound(id, user, request);
    return query;
  }

  #notFound(id: string, user: string, request: IncomingMessage): HttpError {
    const reason = this.#parts.queries.whyRemoved(id, user);
    if (reason === undefined) return unknownQuery(id);
    const text = `query ${id} ${reason}`;
    return this.dialectOf(request) === 'v1' ? httpErrors.notFound(text) : httpErrors.badRequest(text);
  }

  #repliesOf(query: Query): QueryReplies {
    return this.#replies.get(query) ?? v1Replies;
  }

  #authenticate(request: IncomingMessage): Account | Promise<Account> {
    return this.#parts.accounts.verify(credentialsOf(request.headers.authorization, this.#parts.anonymous));
  }

  #admit(user: string): void {
    switch (this.#parts.queries.admit(user)) {
      case 'admitted':
        return;
      case 'server full':
        throw httpErrors.unavailable('the server holds as many queries as it may (--queries_max)');
      case 'user leaves too many unread':
        throw httpErrors.tooManyRequests(
          'this user has as many results that are not read to their end as one may (--unread_per_user_max): ' +
            'read them, or finish them by their final_uri',
        );
      case 'user runs too many':
        throw httpErrors.tooManyRequests('this user runs as many queries as one may (--queries_per_user_max)');
    }
  }
}

/** A shorter text is not counted while it is sent. */
const countedTextBytesMin = 16 * 1024;

/** About what the records of a query take while its statement waits or runs. */
const queryRecordsBytes = 4 * 1024;

/** The memory of a statement until it is over: on the main thread, and as it passes through a worker thread. */
function statementBytes({ sql, params, session }: QueryRequest): number {
  const paramsBytes = params === undefined ? 0 : heapBytes(params);
  const variablesBytes = session.type === 'carried' ? heapBytes(session.variables) : 0;
  return queryRecordsBytes + stringBytes(sql) + paramsBytes + variablesBytes;
}

function queryLimits({ pagination, timeoutSecs }: QueryRequest, gzipLevel: number, limits: HandlerLimits): QueryLimits {
  return {
    waitMs: pagination.waitSecs * 1_000,
    pageRows: Math.min(pagination.maxRowsPerPage, pagination.maxRowsInBuffer),
    pageBytes: limits.pageBytesMax,
    bufferRows: pagination.maxRowsInBuffer,
    gzipLevel,
    timeout: {
      ms: timeoutSecs === null ? limits.statementTimeoutMs : timeoutSecs * 1_000,
      isAsked: timeoutSecs !== null,
    },
  };
}

/** How an id that a client gives to its query must look: safe in a path, and in a log. */
const clientId = /^\w[\w.-]{0,63}$/;

/** For some thousands of sessions of the usual size, or some tens of --client_session_bytes_max. */
const finalSessionsBytesMax = 4 * 1024 * 1024;

/** The longest key of a POST; a longer one is refused. */
const keyCharactersMax = 255;

/** By what a client says that a POST is the same as an earlier one. */
function keyOf({ headers }: IncomingMessage, dialect: Dialect): string | null {
  const name = dialect === 'v1' ? 'idempotency-key' : 'x-databend-query-id';
  const key = headers[name];
  if (key === undefined || key === '') return null;
  if (typeof key !== 'string' || key.length > keyCharactersMax) {
    throw httpErrors.badRequest(`the header ${name} must be one of at most ${keyCharactersMax} characters`);
  }
  return key;
}

function queryOf(retried: Retried, dialect: Dialect, key: string): Query {
  switch (retried.type) {
    case 'query':
      return retried.query;
    case 'other body': {
      const reason = `a POST with the key ${/^[\w.-]{1,64}$/.test(key) ? key : 'given'} has been made with another body`;
      throw dialect === 'v1' ? httpErrors.conflict(reason) : httpErrors.badRequest(reason);
    }
    case 'removed': {
      const reason = `this POST has been made: its query ${retried.id} ${retried.reason}`;
      throw dialect === 'v1' ? httpErrors.conflict(reason) : httpErrors.badRequest(reason);
    }
  }
}

function stopping(): Error {
  return httpErrors.unavailable('the server is stopping and takes no more statements');
}

function unknownQuery(id: string): HttpError {
  const begun = timeOfQueryId(id);
  const started = new Date(performance.timeOrigin).toISOString();
  if (begun !== null && begun < performance.timeOrigin) {
    return httpErrors.notFound(
      `query ${id} was begun before this server started at ${started}: a restart forgets all queries; ` +
        'send the statement again if it may run twice',
    );
  }
  if (!/^[\w.-]{1,64}$/.test(id)) return httpErrors.notFound('no query of that id');
  // When a query was begun, only the ids that the server gives tell.
  const hint = begun === null ? `; this server has run since ${started}, and a restart forgets all queries` : '';
  return httpErrors.notFound(`no query ${id}${hint}`);
}
