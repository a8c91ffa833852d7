import type { IncomingMessage, ServerResponse } from 'node:http';
import { readJsonBytes } from '../../http/body.ts';
import { httpErrors } from '../../http/http-error.ts';
import { reply } from '../../http/reply.ts';
import { newSessionId } from '../../ids.ts';
import type { ApiServices } from '../api.ts';
import { InvalidRequestError } from '../invalid-request.ts';
import type { DatabendServer } from './response.ts';
import { clientOf, heartbeatQueries, heartbeatReply, loginReply, logoutReply, verifyReply } from './session-replies.ts';

/**
 * Room for 1,600 queries with ids of the usual length. A heartbeat is parsed on the main thread, and each id is looked up: more
 * would delay the requests of other users.
 */
const heartbeatBytesMax = 64 * 1024;

export type ClientSessionVerb = 'login' | 'logout' | 'refresh' | 'heartbeat' | 'verify';

/** The requests of Databend's clients about their sessions: login, logout, heartbeats. */
export class ClientSessions {
  readonly #server: DatabendServer;
  readonly #services: ApiServices;

  constructor(server: DatabendServer, services: ApiServices) {
    this.#server = server;
    this.#services = services;
  }

  /**
   * @param user whom the database has accepted
   * @throws HttpError
   */
  async handle(
    verb: ClientSessionVerb,
    user: string,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const server = this.#server;
    const { sessions } = this.#services.engine;
    const client = clientOf(request.headers.cookie);
    switch (verb) {
      case 'login':
        return reply(response, loginReply(server, newSessionId()));
      case 'verify':
        return reply(response, verifyReply(server, user));
      case 'refresh':
        throw httpErrors.badRequest('there are no session tokens to be refreshed: send user and password');
      case 'logout':
        if (client !== null) sessions.endOf(client, user, 'its client has logged out');
        return reply(response, logoutReply(server));
      case 'heartbeat': {
        const ids = await this.#heartbeat(user, request);
        sessions.renew(client, user);
        return reply(response, heartbeatReply(server, this.#touch(ids, user)));
      }
    }
  }

  /** The ids of the queries that it names. */
  async #heartbeat(user: string, request: IncomingMessage): Promise<readonly string[]> {
    const { requestMemory, bodyBytesMax } = this.#services;
    const bytesMax = Math.min(bodyBytesMax, heartbeatBytesMax);
    const reservation = requestMemory.reserve(user, 0);
    try {
      return idsOf(await readJsonBytes(request, bytesMax, reservation));
    } finally {
      reservation.release();
    }
  }

  /** @returns the ids of queries that no longer exist */
  #touch(ids: readonly string[], user: string): string[] {
    const { engine } = this.#services;
    return ids.filter((id) => {
      const query = engine.find(id, user);
      if (query !== undefined) engine.touch(query);
      return query === undefined;
    });
  }
}

/** @throws HttpError */
function idsOf(heartbeat: Buffer): readonly string[] {
  try {
    return heartbeatQueries(heartbeat);
  } catch (error) {
    if (error instanceof InvalidRequestError) throw httpErrors.badRequest(error.message);
    throw error;
  }
}
