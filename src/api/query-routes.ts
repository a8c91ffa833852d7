import type { IncomingMessage } from 'node:http';
import type { Engine } from '../engine/engine.ts';
import { acceptsGzip } from '../http/gzip.ts';
import { type HttpError, httpErrors } from '../http/http-error.ts';
import { type Reply, reply, replyEmpty } from '../http/reply.ts';
import type { Exchange, Route } from '../http/router.ts';
import { shownId, timeOfQueryId } from '../ids.ts';
import type { Query } from '../query/query.ts';
import type { Tombstone } from '../tombstones.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Authenticator } from './authenticator.ts';

/** A dialect's answer about a query that has been removed. */
export interface RemovedQueryReplies {
  /** @param reason one line that names the query */
  removedError(reason: string): HttpError;
  /** The answer to a request that cancels the query; null: the answer is `removedError`. */
  killed(id: string, tombstone: Tombstone): Reply | null;
}

/** The routes that all dialects share: page, progress, cancel and remove a query. */
export class QueryRoutes {
  readonly #engine: Engine;
  readonly #authenticator: Authenticator;
  readonly #answers: AnswerWriter;

  constructor(engine: Engine, authenticator: Authenticator, answers: AnswerWriter) {
    this.#engine = engine;
    this.#authenticator = authenticator;
    this.#answers = answers;
  }

  routesFor(removed: RemovedQueryReplies): Route[] {
    return [
      {
        methods: ['GET'],
        path: '/v1/query/:id/page/#number',
        handle: (exchange) => this.#page(exchange, removed),
      },
      { methods: ['GET', 'HEAD'], path: '/v1/query/:id', handle: (exchange) => this.#stats(exchange, removed) },
      { methods: ['GET', 'POST'], path: '/v1/query/:id/kill', handle: (exchange) => this.#kill(exchange, removed) },
    ];
  }

  async #page({ request, response, params }: Exchange, removed: RemovedQueryReplies): Promise<void> {
    const [id = '', number] = params;
    const query = await this.#find(id, request, removed);
    const isGzip = acceptsGzip(request.headers['accept-encoding']);
    this.#answers.writePage(query, Number(number), isGzip, response, 'GET');
  }

  async #stats({ request, response, params: [id = ''] }: Exchange, removed: RemovedQueryReplies): Promise<void> {
    const query = await this.#find(id, request, removed);
    this.#engine.touch(query);
    const replies = this.#answers.repliesOf(query);
    this.#answers.write(query.identity.owner, response, replies.stats(query, query.snapshot(), query.nextPage));
  }

  async #kill(exchange: Exchange, removed: RemovedQueryReplies): Promise<void> {
    const removesQuery = hasDeleteFlag(exchange.search);
    const { request, response, params } = exchange;
    const [id = ''] = params;
    const { user } = await this.#authenticator.authenticate(request);
    const query = this.#engine.find(id, user);
    if (removesQuery) {
      if (query !== undefined) {
        this.#engine.finish(query);
        if (query.keeping !== null) await this.#engine.results.removed(query);
      } else if (this.#engine.tombstone(id, user) === undefined) throw unknownQuery(id);
      replyEmpty(response);
      return;
    }
    if (query === undefined) {
      const tombstone = this.#engine.tombstone(id, user);
      const answer = tombstone === undefined ? null : removed.killed(id, tombstone);
      if (answer === null) throw this.#notFound(id, user, removed);
      reply(response, answer);
      return;
    }
    query.cancelByClient();
    // A cancelled query counts as drained: this moves it out of the user's unread queries.
    this.#engine.touch(query);
    const replies = this.#answers.repliesOf(query);
    reply(response, replies.killed(query));
    // `cancelByClient` has resolved the poll that waits, so the query can be removed.
    if (replies.isRemovedByKill) this.#engine.finish(query, 'was cancelled by the client');
  }

  async #find(id: string, request: IncomingMessage, removed: RemovedQueryReplies): Promise<Query> {
    const { user } = await this.#authenticator.authenticate(request);
    const query = this.#engine.find(id, user);
    if (query === undefined) throw this.#notFound(id, user, removed);
    if (query.schema.isOnDisk) await query.schema.read();
    return query;
  }

  #notFound(id: string, user: string, removed: RemovedQueryReplies): HttpError {
    const tombstone = this.#engine.tombstone(id, user);
    return tombstone === undefined ? unknownQuery(id) : removed.removedError(`query ${id} ${tombstone.reason}`);
  }
}

/** @throws HttpError 400 */
function hasDeleteFlag(search: string): boolean {
  if (search === '') return false;
  const value = new URLSearchParams(search).get('delete') ?? 'false';
  if (value !== 'true' && value !== 'false') throw httpErrors.badRequest('"delete" must be true or false');
  return value === 'true';
}

/** Explains a 404. An id that Sluice has made contains its time, so that an id from before a restart is recognized. */
export function unknownQuery(id: string): HttpError {
  const begun = timeOfQueryId(id);
  const started = new Date(performance.timeOrigin).toISOString();
  if (begun !== null && begun < performance.timeOrigin) {
    return httpErrors.notFound(
      `query ${id} was begun before this server started at ${started}: a restart forgets all queries; ` +
        'send the statement again if it may run twice',
    );
  }
  const shown = shownId(id, 'of that id');
  if (shown !== id) return httpErrors.notFound(`no query ${shown}`);
  const hint = begun === null ? `; this server has run since ${started}, and a restart forgets all queries` : '';
  return httpErrors.notFound(`no query ${id}${hint}`);
}
