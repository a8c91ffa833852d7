import type { IncomingHttpHeaders } from 'node:http';
import type { Engine } from '../engine/engine.ts';
import type { HttpError } from '../http/http-error.ts';
import type { Reply } from '../http/reply.ts';
import type { Route } from '../http/router.ts';
import type { RequestMemory } from '../query/request-memory.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Authenticator } from './authenticator.ts';
import type { Posts } from './posts.ts';
import type { QueryRoutes } from './query-routes.ts';

/** A dialect: the protocol of one kind of client. */
export interface Api {
  /** As --dialect names it. */
  readonly name: string;
  readonly routes: readonly Route[];
  /** Whether the headers are those of a client of this dialect. Where two dialects have the same route, this decides. */
  claims(headers: IncomingHttpHeaders): boolean;
  /** How the dialect writes a refusal; null: as plain text. */
  refusalOf(error: HttpError): Reply | null;
}

/** The services that all dialects share. */
export interface ApiServices {
  readonly posts: Posts;
  readonly queryRoutes: QueryRoutes;
  readonly authenticator: Authenticator;
  readonly answers: AnswerWriter;
  readonly engine: Engine;
  readonly requestMemory: RequestMemory;
  readonly bodyBytesMax: number;
  /** How long a result is kept unless its request asks for another time. */
  readonly resultTimeoutMs: number;
  /** The version that the database reports; empty before the first connection. */
  readonly databaseVersion: () => string;
}
