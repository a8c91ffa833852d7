import type { IncomingMessage, ServerResponse } from 'node:http';
import { newQueryId, newSessionId, timeOfQueryId } from '../ids.ts';
import { InvalidRequestError, parseQueryRequest, type QueryRequest } from '../protocol/v1/request.ts';
import { pageBody, statsBody } from '../protocol/v1/response.ts';
import type { Buffers } from '../query/buffers.ts';
import type { Queries } from '../query/queries.ts';
import { Query, type QueryLimits } from '../query/query.ts';
import type { Account, Accounts, Credentials } from '../session/accounts.ts';
import { credentialsOf } from './auth.ts';
import { RequestAbortedError, readJsonText } from './body.ts';
import { acceptsGzip } from './gzip.ts';
import { httpErrors } from './http-error.ts';
import { replyEmpty, replyJson, replyPage, replyText } from './reply.ts';
import type { Route } from './router.ts';
import { isSession, type Statements } from './statements.ts';

export interface HandlerLimits {
  readonly bodyBytesMax: number;
  readonly waitSecsMax: number;
  readonly pageRowsMax: number;
  readonly pageBytes: number;
  readonly bufferRowsMax: number;
  /** For clients that accept gzip; 0: not at all. */
  readonly gzipLevel: number;
  /** 0: without limit. */
  readonly statementTimeoutSecs: number;
}

export interface HandlerParts {
  readonly limits: HandlerLimits;
  readonly anonymous: Credentials | null;
  readonly accounts: Accounts;
  readonly statements: Statements;
  readonly queries: Queries;
  readonly buffers: Buffers;
  /** Counts and levels, in the text format of Prometheus. */
  readonly readMetrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** Resolves to null when the service can take statements, else to the reason why not. */
  readonly whyNotReady: () => Promise<string | null>;
}

const abandoned = 'was abandoned: its client went away before the first answer';

/** One function for each endpoint. Each throws an HttpError for what is not to be answered with 200. */
export class Handlers {
  readonly #parts: HandlerParts;
  #draining = false;

  constructor(parts: HandlerParts) {
    this.#parts = parts;
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
      case 'health':
        return replyText(response, 200, 'ok');
      case 'ready':
        return this.#ready(response);
      case 'metrics':
        return this.#metrics(response);
    }
  }

  async #postQuery(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#draining) throw stopping();
    const { limits, queries, statements, buffers } = this.#parts;
    // Before the body is read: whoever is no user is not to fill the memory.
    const account = await this.#authenticate(request);
    const body = parse(await readJsonText(request, limits.bodyBytesMax), limits);
    this.#admit(account.user);
    const place = await statements.place(body, account);
    try {
      this.#checkAgain(account.user, response);
    } catch (error) {
      if (place !== null && isSession(place) && body.session.type === 'new') place.end('its statement was not sent');
      throw error;
    }
    const sessionId =
      place !== null && isSession(place) ? place.id : body.session.type === 'old' ? body.session.id : newSessionId();
    const identity = { id: newQueryId(), sessionId, owner: account.user };
    const asGzip = acceptsGzip(request.headers['accept-encoding']);
    const query = new Query(identity, queryLimits(body, asGzip ? limits.gzipLevel : 0, limits), buffers);
    queries.add(query, body.sql);
    if (place === null) statements.runLater(query, body, account, sessionId);
    else statements.run(query, body, account, place);
    await this.#answerPage(query, 0, asGzip, response, true);
  }

  async #getPage(id: string, page: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const query = await this.#find(id, request);
    await this.#answerPage(query, page, acceptsGzip(request.headers['accept-encoding']), response);
  }

  async #getStats(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const query = await this.#find(id, request);
    this.#parts.queries.touch(query);
    replyJson(response, statsBody(query.identity, query.snapshot(), query.nextPage));
  }

  async #kill(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const query = await this.#find(id, request);
    query.cancelByClient();
    replyEmpty(response);
  }

  async #final(id: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { queries } = this.#parts;
    const { user } = await this.#authenticate(request);
    const query = queries.find(id, user);
    if (query !== undefined) queries.finish(query);
    else if (queries.whyRemoved(id, user) === undefined) throw unknownQuery(id);
    replyEmpty(response);
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
    isFirst = false,
  ): Promise<void> {
    const { queries } = this.#parts;
    if (response.destroyed) {
      queries.hungUp(query);
      throw new RequestAbortedError('the client went away before its page was looked for');
    }
    const ready = query.page(number);
    if (ready === null)
      throw httpErrors.notFound(`query ${query.identity.id} has no page ${number}, or has it no more`);
    // The clock of the result stands until the answer has left, or its client has.
    queries.hold(query);
    response.once('close', () => {
      queries.release(query);
      // Nobody but the client of its first request can know the query's id: if it goes before the answer, the query goes too.
      if (isFirst && !response.headersSent) queries.finish(query, abandoned);
      else if (!response.writableFinished) queries.hungUp(query);
    });
    await replyPage(response, pageBody(query.identity, await ready), asGzip);
  }

  async #find(id: string, request: IncomingMessage): Promise<Query> {
    const { queries } = this.#parts;
    const { user } = await this.#authenticate(request);
    const query = queries.find(id, user);
    if (query !== undefined) return query;
    const reason = queries.whyRemoved(id, user);
    throw reason === undefined ? unknownQuery(id) : httpErrors.notFound(`query ${id} ${reason}`);
  }

  #authenticate(request: IncomingMessage): Account | Promise<Account> {
    return this.#parts.accounts.verify(credentialsOf(request.headers.authorization, this.#parts.anonymous));
  }

  /** While the database was asked, others may have taken the room, or whoever would end the statement may have gone. */
  #checkAgain(user: string, response: ServerResponse): void {
    if (this.#draining) throw stopping();
    if (response.destroyed) throw new RequestAbortedError('the client went away before its statement was sent');
    this.#admit(user);
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

function queryLimits({ pagination, timeoutSecs }: QueryRequest, gzipLevel: number, limits: HandlerLimits): QueryLimits {
  return {
    waitMs: pagination.waitSecs * 1_000,
    pageRows: Math.min(pagination.maxRowsPerPage, pagination.maxRowsInBuffer),
    pageBytes: limits.pageBytes,
    bufferRows: pagination.maxRowsInBuffer,
    gzipLevel,
    timeout: { ms: (timeoutSecs ?? limits.statementTimeoutSecs) * 1_000, isAsked: timeoutSecs !== null },
  };
}

function parse(text: string, limits: HandlerLimits): QueryRequest {
  try {
    return parseQueryRequest(text, limits);
  } catch (error) {
    if (error instanceof InvalidRequestError) throw httpErrors.badRequest(error.message);
    throw error;
  }
}

function stopping(): Error {
  return httpErrors.unavailable('the server is stopping and takes no more statements');
}

function unknownQuery(id: string): Error {
  const begun = timeOfQueryId(id);
  if (begun !== null && begun < performance.timeOrigin) {
    const started = new Date(performance.timeOrigin).toISOString();
    return httpErrors.notFound(
      `query ${id} was begun before this server started at ${started}: a restart forgets all queries; ` +
        'send the statement again if it may run twice',
    );
  }
  return httpErrors.notFound(`no query ${/^[\w.-]{1,64}$/.test(id) ? id : 'of that id'}`);
}
