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
export interface GoneDialect {
  /** @param reason one line that names the query */
  gone(reason: string): HttpError;
  /** The answer to a request that cancels it; null: `gone` */
  killed(id: string, tombstone: Tombstone): Reply | null;
}

/** The requests about a query that all dialects have: its pages, its progress, its cancelling and its removal. */
export class QueryRoutes {
  readonly #engine: Engine;
  readonly #authenticator: Authenticator;
  readonly #answers: AnswerWriter;

  constructor(engine: Engine, authenticator: Authenticator, answers: AnswerWriter) {
    this.#engine = engine;
    this.#authenticator = authenticator;
    this.#answers = answers;
  }

  for(dialect: GoneDialect): Route[] {
    return [
      {
        methods: ['GET'],
        path: '/v1/query/:id/page/#number',
        handle: (exchange) => this.#page(exchange, dialect),
      },
      { methods: ['GET', 'HEAD'], path: '/v1/query/:id', handle: (exchange) => this.#stats(exchange, dialect) },
      { methods: ['GET', 'POST'], path: '/v1/query/:id/kill', handle: (exchange) => this.#kill(exchange, dialect) },
    ];
  }

  async #page({ request, response, params }: Exchange, dialect: GoneDialect): Promise<void> {
    const [id = '', number] = params;
    const query = await this.#find(id, request, dialect);
    const isGzip = acceptsGzip(request.headers['accept-encoding']);
    await this.#answers.writePage(query, Number(number), isGzip, response, 'GET');
  }

  async #stats({ request, response, params: [id = ''] }: Exchange, dialect: GoneDialect): Promise<void> {
    const query = await this.#find(id, request, dialect);
    this.#engine.touch(query);
    const replies = this.#answers.repliesOf(query);
    this.#answers.write(query.identity.owner, response, replies.stats(query, query.snapshot(), query.nextPage));
  }

  async #kill(exchange: Exchange, dialect: GoneDialect): Promise<void> {
    const isFinal = isDelete(exchange.search);
    const { request, response, params } = exchange;
    const [id = ''] = params;
    const { user } = await this.#authenticator.authenticate(request);
    const query = this.#engine.find(id, user);
    if (isFinal) {
      if (query !== undefined) this.#engine.finish(query);
      else if (this.#engine.tombstone(id, user) === undefined) throw unknownQuery(id);
      replyEmpty(response);
      return;
    }
    if (query === undefined) {
      const tombstone = this.#engine.tombstone(id, user);
      const answer = tombstone === undefined ? null : dialect.killed(id, tombstone);
      if (answer === null) throw this.#notFound(id, user, dialect);
      reply(response, answer);
      return;
    }
    query.cancelByClient();
    // Nothing of it is left unread.
    this.#engine.touch(query);
    const replies = this.#answers.repliesOf(query);
    reply(response, replies.killed(query));
    // A poll that waits has been answered.
    if (replies.endsByKill) this.#engine.finish(query, 'was cancelled by the client');
  }

  async #find(id: string, request: IncomingMessage, dialect: GoneDialect): Promise<Query> {
    const { user } = await this.#authenticator.authenticate(request);
    const query = this.#engine.find(id, user);
    if (query === undefined) throw this.#notFound(id, user, dialect);
    return query;
  }

  #notFound(id: string, user: string, dialect: GoneDialect): HttpError {
    const tombstone = this.#engine.tombstone(id, user);
    return tombstone === undefined ? unknownQuery(id) : dialect.gone(`query ${id} ${tombstone.reason}`);
  }
}

/** @throws HttpError 400 */
function isDelete(search: string): boolean {
  if (search === '') return false;
  const value = new URLSearchParams(search).get('delete') ?? 'false';
  if (value !== 'true' && value !== 'false') throw httpErrors.badRequest('"delete" must be true or false');
  return value === 'true';
}

/** Says why a query may be unknown: of an id that this server has made, when it was made. */
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
