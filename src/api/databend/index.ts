import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Submission, SubmissionListener } from '../../engine/engine.ts';
import { type HttpError, httpErrors } from '../../http/http-error.ts';
import type { Reply } from '../../http/reply.ts';
import type { Exchange, Route } from '../../http/router.ts';
import type { Query } from '../../query/query.ts';
import { RefusalError } from '../../refusal-error.ts';
import type { Tombstone } from '../../tombstones.ts';
import type { Api, ApiServices } from '../api.ts';
import type { PostDialect } from '../posts.ts';
import { type RemovedQueryReplies, unknownQuery } from '../query-routes.ts';
import { arrowRows, wantsArrow } from './arrow-page.ts';
import { ClientSessions, type ClientSessionVerb } from './client-sessions.ts';
import { FinalSessions } from './final-sessions.ts';
import { type DatabendBody, databendBodies, requestOf } from './request.ts';
import { closedReply, DatabendReplies, type DatabendServer, errorReply } from './response.ts';
import { SessionTokens } from './session.ts';
import { clientOf } from './session-replies.ts';

/** For some thousands of sessions of the usual size, or some tens of --client_session_bytes_max. */
const finalSessionsBytesMax = 4 * 1024 * 1024;

const agents = /^(?:databend-|bendsql)/i;

/** Databend's HTTP protocol (docs/databend.md). */
export class DatabendApi implements Api, PostDialect<DatabendBody>, RemovedQueryReplies {
  static readonly dialect = 'databend';
  readonly name = DatabendApi.dialect;
  readonly keyHeader = 'x-databend-query-id';
  readonly bodies = databendBodies;
  readonly routes: readonly Route[];
  readonly #services: ApiServices;
  readonly #server: DatabendServer;
  readonly #clientSessions: ClientSessions;
  readonly #finalSessions = new FinalSessions(finalSessionsBytesMax);

  constructor(services: ApiServices) {
    this.#services = services;
    this.#server = {
      tokens: new SessionTokens(),
      zones: new Set(),
      resultTimeoutMs: services.resultTimeoutMs,
      version: services.databaseVersion,
    };
    this.#clientSessions = new ClientSessions(this.#server, services);
    const verb = (name: ClientSessionVerb): Route['handle'] => {
      return (exchange) => this.#clientSession(name, exchange);
    };
    this.routes = [
      { methods: ['POST'], path: '/v1/query', receivesAhead: true, handle: (exchange) => this.#post(exchange) },
      ...services.queryRoutes.routesFor(this),
      { methods: ['GET', 'POST'], path: '/v1/query/:id/final', handle: (exchange) => this.#final(exchange) },
      { methods: ['POST'], path: '/v1/session/login', handle: verb('login') },
      { methods: ['POST'], path: '/v1/session/logout', handle: verb('logout') },
      { methods: ['POST'], path: '/v1/session/refresh', handle: verb('refresh') },
      { methods: ['POST'], path: '/v1/session/heartbeat', handle: verb('heartbeat') },
      { methods: ['GET', 'POST'], path: '/v1/verify', handle: verb('verify') },
    ];
  }

  claims(headers: IncomingHttpHeaders): boolean {
    if (agents.test(headers['user-agent'] ?? '')) return true;
    for (const name in headers) if (name.startsWith('x-databend-')) return true;
    return false;
  }

  refusalOf({ status, message }: HttpError): Reply {
    return errorReply(this.#server, status, message);
  }

  removedError(reason: string): HttpError {
    return httpErrors.badRequest(reason);
  }

  /** A query that is over needs no cancelling, and Databend's clients accept that answer. */
  killed(id: string, tombstone: Tombstone): Reply {
    return closedReply(this.#server, id, tombstone);
  }

  submissionOf(body: DatabendBody, { headers }: IncomingMessage, user: string, key: string | null): Submission {
    const client = clientOf(headers.cookie);
    const { request, session } = requestOf(body, { user, client, tokens: this.#server.tokens });
    const { sql, traits, resultTimeoutSecs } = request;
    const isArrow = wantsArrow(headers.accept, session);
    const replies = new DatabendReplies(this.#server, {
      ...{ user, session, sql, traits, resultTimeoutSecs },
      readsFinalAlone: /^databend-py\b/i.test(headers['user-agent'] ?? ''),
      isArrow,
    });
    return {
      request: isArrow ? { ...request, format: arrowRows } : request,
      keptBytes: replies.heapBytes,
      // Clients may cancel a query by the id that they have given to it.
      id: key,
      needsFinal: replies.readsFinalAlone,
      listener: new Listener(this, replies, request.session.type === 'client-managed'),
    };
  }

  async #post(exchange: Exchange): Promise<void> {
    try {
      await this.#services.posts.post(this, exchange);
    } catch (error) {
      // These clients do not know 409.
      if (error instanceof RefusalError && error.reason === 'conflict') throw httpErrors.badRequest(error.message);
      throw error;
    }
  }

  /** For `Listener`. */
  created(query: Query, replies: DatabendReplies): void {
    const { id, owner } = query.identity;
    this.#finalSessions.delete(owner, id);
    this.#services.answers.setReplies(query, replies);
  }

  /** For `Listener`. If the client never received the token, nobody can resume the pinned session: it is ended. */
  endUnknownSession(query: Query, replies: DatabendReplies): void {
    const { sessionId, owner } = query.identity;
    if (query.sessionState?.isPinned !== true || replies.hasReportedSession) return;
    this.#services.engine.sessions.find(sessionId, owner)?.end('its client never received its token');
  }

  /** The last answer about a query, which is removed then; as often as it is asked for. */
  async #final({ request, response, params: [id = ''] }: Exchange): Promise<void> {
    const { engine, authenticator, answers } = this.#services;
    const { user } = await authenticator.authenticate(request);
    const query = engine.find(id, user);
    const tombstone = query === undefined ? engine.tombstone(id, user) : undefined;
    if (tombstone !== undefined) {
      const session = this.#finalSessions.find(user, id);
      return answers.write(user, response, closedReply(this.#server, id, tombstone, session));
    }
    if (query === undefined) throw unknownQuery(id);
    const replies = answers.repliesOf(query);
    if (!(replies instanceof DatabendReplies)) throw unknownQuery(id);
    query.cancelByClient();
    const last = replies.final(query, query.snapshot());
    if (last.session !== null) this.#finalSessions.add(user, id, JSON.stringify(last.session));
    engine.finish(query);
    answers.write(user, response, last.reply);
  }

  async #clientSession(verb: ClientSessionVerb, { request, response }: Exchange): Promise<void> {
    const { user } = await this.#services.authenticator.authenticate(request);
    await this.#clientSessions.handle(verb, user, request, response);
  }
}

/** Follows one submission, for the answers about it. */
class Listener implements SubmissionListener {
  readonly #api: DatabendApi;
  readonly #replies: DatabendReplies;
  /** Whether the statement may leave a pinned session of which no answer has informed the client. */
  #mayPin: boolean;
  #query: Query | null = null;

  constructor(api: DatabendApi, replies: DatabendReplies, mayPin: boolean) {
    this.#api = api;
    this.#replies = replies;
    this.#mayPin = mayPin;
  }

  sessionReplaced(): void {
    this.#replies.forgetPinned();
    if (!this.#mayPin && this.#query !== null) this.#follow(this.#query);
    this.#mayPin = true;
  }

  created(query: Query): void {
    this.#query = query;
    this.#api.created(query, this.#replies);
    if (this.#mayPin) this.#follow(query);
    query.on('moved', () => this.sessionReplaced());
  }

  #follow(query: Query): void {
    query.on('removed', () => this.#api.endUnknownSession(query, this.#replies));
  }
}
