import type { IncomingMessage } from 'node:http';
import type { Submission } from '../../engine/engine.ts';
import { httpErrors } from '../../http/http-error.ts';
import { replyEmpty } from '../../http/reply.ts';
import type { Exchange, Route } from '../../http/router.ts';
import { shownId } from '../../ids.ts';
import type { Query } from '../../query/query.ts';
import type { Api, ApiServices } from '../api.ts';
import type { PostDialect } from '../posts.ts';
import type { WholeAnswer } from '../whole-format.ts';
import { KeptResultRoutes } from './kept-results.ts';
import { type NativeBody, nativeBodies } from './request.ts';
import { failureBody, nativeRepliesWithStrings } from './response.ts';
import { wholeFormatOf } from './whole-formats.ts';

/** @throws HttpError 400, 406 */
function wholeAnswerOf({ request, search }: Exchange): WholeAnswer | null {
  const format = wholeFormatOf(request.headers.accept, search);
  return format === null ? null : { format, writeFailure: failureBody };
}

/** Sluice's own dialect (docs/api.md). */
export class NativeApi implements Api, PostDialect<NativeBody> {
  static readonly dialect = 'v1';
  readonly name = NativeApi.dialect;
  readonly keyHeader = 'idempotency-key';
  readonly bodies = nativeBodies;
  readonly routes: readonly Route[];
  readonly #services: ApiServices;
  readonly #listener = {
    sessionReplaced: () => {},
    created: (query: Query) => this.#services.answers.setReplies(query, nativeRepliesWithStrings),
  };

  constructor(services: ApiServices) {
    this.#services = services;
    this.routes = [
      {
        methods: ['POST'],
        path: '/v1/query',
        receivesAhead: true,
        handle: (exchange) => services.posts.post(this, exchange, wholeAnswerOf(exchange)),
      },
      ...services.queryRoutes.routesFor({ removedError: httpErrors.notFound, killed: () => null }),
      ...new KeptResultRoutes(services).routes,
      { methods: ['DELETE'], path: '/v1/session/:id', handle: (exchange) => this.#endSession(exchange) },
    ];
  }

  claims(): boolean {
    return false;
  }

  refusalOf(): null {
    return null;
  }

  submissionOf({ request }: NativeBody, _request: IncomingMessage, _user: string): Submission {
    const withStrings = request.format === 'json, large integers as strings';
    const listener = withStrings ? this.#listener : null;
    return { request, keptBytes: 0, id: null, needsFinal: false, listener };
  }

  /** A session that the user has ended before is ended again, as the first answer may have been lost. */
  async #endSession({ request, response, params: [id = ''] }: Exchange): Promise<void> {
    const { user } = await this.#services.authenticator.authenticate(request);
    if (!this.#services.engine.sessions.endByClient(id, user)) {
      throw httpErrors.notFound(
        `no session ${shownId(id, 'of that id')}: it never existed, has expired, was for one statement only, or is another user's`,
      );
    }
    replyEmpty(response);
  }
}
